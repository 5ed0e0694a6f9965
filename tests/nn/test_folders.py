from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from osler.core.errors import ArtifactError, InputError, OutputError
from osler.nn.folders import load_config, read_published_config, resolve, saving, seeded


def folder(path: Path, *names: str) -> Path:
    path.mkdir()
    for name in names:
        (path / name).write_text("{}")
    return path


def test_a_model_folder_is_found_by_its_files(tmp_path):
    whole = folder(tmp_path / "whole", "config.json", "model.safetensors")
    shards = folder(tmp_path / "shards", "config.json", "model.safetensors.index.json")
    assert resolve(whole) == whole
    assert resolve(str(shards)) == shards


@pytest.mark.parametrize(
    ("names", "piece"),
    [
        ((), "no config.json here"),
        (("config.json",), "no model.safetensors here"),
        (("config.json", "pytorch_model.bin"), r"the weights are a pickle \(pytorch_model.bin\)"),
    ],
)
def test_a_folder_that_is_no_safe_model_is_refused(tmp_path, names, piece):
    with pytest.raises(ArtifactError, match=piece):
        resolve(folder(tmp_path / "model", *names))


def test_a_file_and_a_missing_folder_are_not_looked_for_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("must not download"))
    (tmp_path / "model.bin").write_text("")
    with pytest.raises(InputError, match="this is a file"):
        resolve(tmp_path / "model.bin")
    for source in (tmp_path / "none", "./none", "~/none/at/all", "a/b/c"):
        with pytest.raises(InputError, match="no such folder"):
            resolve(source)


def test_a_damaged_configuration_names_the_folder(tmp_path):
    broken = folder(tmp_path / "model", "config.json", "model.safetensors")
    (broken / "config.json").write_text("{")
    with pytest.raises(ArtifactError, match="cannot be loaded as a model") as error:
        load_config(broken)
    assert error.value.where == str(broken)


def test_a_full_disk_inside_safetensors_is_one_clear_error(tmp_path):
    with pytest.raises(OutputError, match="the disk is full"), saving(tmp_path):
        raise SafetensorError(f"I/O error: No space left on device (os error {errno.ENOSPC})")
    with pytest.raises(SafetensorError), saving(tmp_path):
        raise SafetensorError("invalid header")


def test_seeded_draws_are_the_same_and_leave_the_generator_alone():
    def draw(*keys: str | int) -> float:
        with seeded(1, *keys):
            return float(torch.rand(()))

    torch.manual_seed(5)
    expected = float(torch.rand(()))
    torch.manual_seed(5)
    assert draw("a") == draw("a")
    assert draw("a") != draw("b")
    assert float(torch.rand(())) == expected


def test_the_configuration_of_google_and_of_old_transformers(tmp_path):
    settings = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 60}
    (tmp_path / "bert_config.json").write_text(json.dumps(settings))
    config, path = read_published_config(tmp_path)
    assert (config.model_type, config.vocab_size, path.name) == ("bert", 60, "bert_config.json")
    (tmp_path / "config.json").write_text(json.dumps({**settings, "vocab_size": 61}))
    with pytest.raises(InputError, match=r"config\.json and bert_config\.json differ in vocab_size"):
        read_published_config(tmp_path)
    (tmp_path / "bert_config.json").unlink()
    with pytest.raises(InputError, match="does not say which architecture"):
        read_published_config(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**settings, "architectures": ["RobertaForMaskedLM"]}))
    assert read_published_config(tmp_path)[0].model_type == "roberta"
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(ArtifactError, match="a t5 model, not an encoder"):
        read_published_config(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(InputError, match="not a valid configuration"):
        read_published_config(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ArtifactError, match=r"no config\.json or bert_config\.json"):
        read_published_config(tmp_path)


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o755, 0o644), (0o750, 0o640), (0o700, 0o600)])
def test_whoever_may_read_a_folder_may_read_the_weights_in_it(tmp_path, folder_mode, file_mode):
    tmp_path.chmod(folder_mode)
    weights = tmp_path / "model.safetensors"
    with saving(tmp_path):
        save_file({"a": torch.zeros(2)}, weights)
        weights.chmod(0o600)  # as safetensors 0.8 leaves it
    assert weights.stat().st_mode & 0o777 == file_mode
