"""The typed handle on a model folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from encoders import preset_lm

from osler.artifacts.encoder import Encoder, EncoderWriter
from osler.core.artifact import produce
from osler.core.config import Recipe
from osler.core.errors import ArtifactError, InputError


@pytest.fixture(scope="module")
def folder(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model from elsewhere, with its tokenizer."""
    made = tmp_path_factory.mktemp("model")
    preset_lm("tiny", vocab_size=300, pad_token_id=1, max_length=64, seed=1).save(made)
    shutil.copy(tokenizer_folder / "tokenizer.json", made)
    return made


def test_a_model_from_elsewhere_has_no_manifest_and_no_history(folder):
    encoder = Encoder.open(str(folder))
    assert (encoder.path, encoder.manifest, encoder.counts, encoder.history) == (folder, None, {}, [])
    assert encoder.config.vocab_size == 300
    assert encoder.describe() == "modernbert: 2 layers of width 128, 2 heads, inner width 192"
    assert encoder.tokenizer == folder / "tokenizer.json"


def test_the_digest_covers_weights_shape_and_vocabulary(folder, tmp_path):
    digest = Encoder.open(folder).digest
    bare = shutil.copytree(folder, tmp_path / "bare")
    assert Encoder.open(bare).digest == digest
    (bare / "tokenizer.json").unlink()
    assert Encoder.open(bare).digest != digest


def test_what_pretraining_adds_is_read_back(folder, tmp_path):
    records = [{"kind": "train", "step": 1, "loss": 2.5}]

    def build(work):
        shutil.copytree(folder, work.path, dirs_exist_ok=True)
        EncoderWriter(work.path).write_card("# Card\n", records)
        work.counts["steps"] = 1

    made = produce(tmp_path / "encoder", kind="encoder", recipe=Recipe(), parents={}, build=build)
    encoder = Encoder.open(made.path)
    assert (encoder.manifest, encoder.counts, encoder.history) == (made.manifest, {"steps": 1}, records)
    (made.path / "history.json").write_text("[{")
    with pytest.raises(ArtifactError, match="history is damaged"):
        _ = encoder.history


def test_folders_that_are_not_models_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        Encoder.open(tmp_path / "nothing")
    with pytest.raises(ArtifactError, match=r"no config\.json"):
        Encoder.open(tmp_path)
    cut = shutil.copytree(folder, tmp_path / "cut")
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    Encoder.open(folder).check_weights()
    with pytest.raises(ArtifactError, match="damaged or incomplete") as found:
        Encoder.open(cut).check_weights()
    assert found.value.where == str(weights)


def test_importing_it_does_not_import_torch():
    code = "import sys, osler.artifacts.encoder; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
