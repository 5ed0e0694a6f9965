"""Published model folders to encoders that compute the same and that every stage opens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import checkpoints
import pytest
import torch

from osler.artifacts.encoder import Encoder
from osler.artifacts.tokenizer import Tokenizer
from osler.core.errors import ArtifactError, InputError, OslerError, RecipeError
from osler.nn.encoder import load_encoder, load_pooler
from osler.nn.mlm import MaskedLM
from osler.nn.packing import pack
from osler.stages.pretrain import convert_model
from osler.stages.pretrain.config import ConvertModelRecipe
from osler.stages.pretrain.convert_model import plan, run


def convert(folder: Path, out: Path, **settings) -> Encoder:
    return Encoder.open(run(ConvertModelRecipe(folder=folder, allow_pickle=True, **settings), out).path)


def record(encoder: Encoder) -> dict:
    return json.loads((encoder.path / "conversion.json").read_text())


def stock_hidden(folder: Path, ids: torch.Tensor) -> torch.Tensor:
    """What a stock model gives with the weights that the tests put into every layout."""
    from transformers import BertForPreTraining

    config, state = checkpoints.bert_state(len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines()))
    model = BertForPreTraining(config).eval()
    model.load_state_dict(state)
    with torch.inference_mode():
        return model.bert(input_ids=ids[None])[0][0]


@pytest.mark.parametrize(
    ("name", "layout", "given"),
    [
        ("biobert", {"cased": True, "rename": checkpoints.old_names}, {"cased": True}),
        ("bluebert", {"cased": False, "config_name": "bert_config.json"}, {"cased": False}),
        ("tensorflow", {"cased": False, "rename": checkpoints.tensorflow_names}, {"cased": False}),
        ("scibert", {"cased": False, "tokenizer_config": {"do_lower_case": True}, "legacy": False}, {}),
        ("bare", {"cased": True, "rename": checkpoints.bare_names, "tokenizer_config": {"do_lower_case": False}}, {}),
    ],
)
def test_every_layout_of_bert_computes_what_the_original_computes(tmp_path, name, layout, given):
    from transformers import AutoModel, AutoTokenizer

    folder = checkpoints.bert_folder(tmp_path / name, **layout)
    made = convert(folder, tmp_path / "out", **given)
    ids = torch.tensor([3, 9, 30, 17, 60, 4])
    expected = stock_hidden(folder, ids)
    with torch.inference_mode():
        assert torch.equal(AutoModel.from_pretrained(made.path)(input_ids=ids[None])[0][0], expected)
        ours = load_encoder(made.path)(pack([ids.numpy()], pad_id=0))
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    # Stock tokenizers must not lower-case a cased model.
    stock = AutoTokenizer.from_pretrained(made.path)
    same = stock("Aspirin")["input_ids"] == stock("aspirin")["input_ids"]
    assert same == (not layout["cased"])
    assert stock("Aspirin")["input_ids"] == Tokenizer.open(made.path).tokenizer.encode("Aspirin").ids
    card = (made.path / "README.md").read_text()
    assert ("uncased" if not layout["cased"] else "cased") in card
    assert record(made)["sources"]["pytorch_model.bin"] in card
    assert made.manifest.kind == "encoder"


def test_pooler_and_heads_are_kept(tmp_path):
    from transformers import AutoModel, BertForPreTraining

    folder = checkpoints.bert_folder(tmp_path / "model", rename=checkpoints.old_names)
    made = convert(folder, tmp_path / "out", cased=True)
    _, state = checkpoints.bert_state(made.config.vocab_size)
    base = AutoModel.from_pretrained(made.path)
    assert torch.equal(load_pooler(made.path)["weight"], state["bert.pooler.dense.weight"])
    assert torch.equal(base.pooler.dense.weight, state["bert.pooler.dense.weight"])
    whole, report = BertForPreTraining.from_pretrained(made.path, output_loading_info=True)
    assert not report["missing_keys"]
    assert torch.equal(whole.cls.seq_relationship.weight, state["cls.seq_relationship.weight"])
    # Pretraining can continue.
    assert torch.equal(MaskedLM.load(made.path).model.cls.predictions.bias[:10], state["cls.predictions.bias"][:10])
    assert record(made)["parts"] == ["encoder", "pooler", "language-model head", "head of the second objective"]
    assert made.config.architectures == ["BertForPreTraining"]


def test_a_roberta_with_vocabulary_and_merges_in_two_parts(tmp_path, tokenizer_folder):
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = checkpoints.shard(checkpoints.roberta_folder(tmp_path / "model", tokenizer_folder / "tokenizer.json"))
    made = convert(folder, tmp_path / "out")
    _, state = checkpoints.roberta_state(made.config.vocab_size)
    model, report = AutoModelForMaskedLM.from_pretrained(made.path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    stock = AutoTokenizer.from_pretrained(made.path)
    assert (
        stock("Warfarin was <mask>.")["input_ids"]
        == Tokenizer.open(made.path).tokenizer.encode("Warfarin was <mask>.").ids
    )
    assert stock.model_max_length == 40
    assert "token_type_ids" not in stock("a")
    assert len(record(made)["sources"]) == 6


def test_a_pickle_needs_the_explicit_option(tmp_path):
    folder = checkpoints.bert_folder(tmp_path / "model")
    for call in (plan, run):
        with pytest.raises(RecipeError, match=r"a pickle \(pytorch_model\.bin\)") as error:
            call(ConvertModelRecipe(folder=folder, cased=True), tmp_path / "out")
        assert "--allow-pickle" in error.value.fix
    lines = plan(ConvertModelRecipe(folder=folder, cased=True, allow_pickle=True), tmp_path / "out")
    assert "without running code" in lines[0]
    assert "cased (as --cased says)" in lines[2]


def test_the_same_folder_is_not_converted_twice(tmp_path):
    folder = checkpoints.bert_folder(tmp_path / "model")
    recipe = ConvertModelRecipe(folder=folder, cased=True, allow_pickle=True)
    first = run(recipe, tmp_path / "out")
    assert run(recipe, tmp_path / "out").reused
    assert run(recipe, tmp_path / "again").manifest.digest == first.manifest.digest


@pytest.mark.parametrize(
    ("damage", "piece"),
    [
        (lambda folder: (folder / "vocab.txt").open("a").write("more\n"), r"tokenizer has \d+ entries, the model"),
        (lambda folder: (folder / "vocab.txt").unlink(), "no tokenizer here"),
        (lambda folder: (folder / "config.json").unlink(), r"no config\.json"),
        (lambda folder: _set(folder / "config.json", hidden_size=64), "the configuration asks for"),
        (lambda folder: _set(folder / "config.json", num_hidden_layers=3), "weights of the encoder are missing"),
        (lambda folder: _set(folder / "config.json", pad_token_id=5), "pads with entry 0, the model with 5"),
    ],
)
def test_what_cannot_be_verified_is_refused_and_nothing_is_left(tmp_path, damage, piece):
    folder = checkpoints.bert_folder(tmp_path / "model")
    damage(folder)
    with pytest.raises(OslerError, match=piece):
        convert(folder, tmp_path / "out", cased=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def _set(path: Path, **values) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_result_that_differs_is_not_kept(tmp_path, monkeypatch):
    folder = checkpoints.bert_folder(tmp_path / "model")
    written = convert_model._write

    def write(model, fitted, target):
        name = "bert.encoder.layer.0.output.dense.bias"
        fitted.weights[name] = fitted.weights[name] + 1e-3
        written(model, fitted, target)

    monkeypatch.setattr(convert_model, "_write", write)
    with pytest.raises(ArtifactError, match="not converted: the outputs of the converted model differ"):
        convert(folder, tmp_path / "out", cased=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        convert(tmp_path / "none", tmp_path / "out")


def test_a_folder_from_elsewhere_is_converted_before_it_is_opened(tmp_path):
    """One clear error wherever a model, a tokenizer or a bundle is opened."""
    from osler.artifacts.bundle import Bundle
    from osler.core.artifact import Artifact
    from osler.stages.study.runner import identify

    pickled = checkpoints.bert_folder(tmp_path / "pickled")
    older = checkpoints.copied(convert(pickled, tmp_path / "out", cased=True).path, tmp_path / "older")
    for name in ("tokenizer.json", "manifest.json"):
        (older / name).unlink()
    (older / "vocab.txt").write_bytes((pickled / "vocab.txt").read_bytes())
    for folder in (pickled, older):
        calls = (
            Encoder.open,
            load_encoder,
            Tokenizer.open,
            identify,
            Bundle.load,
            lambda path: Artifact.open(path, "bundle"),
        )
        for call in calls:
            with pytest.raises(ArtifactError) as error:
                call(str(folder))
            assert f"osler convert-model {folder} --out DIR" in str(error.value)


def test_the_hook_ends_the_reading_process_at_the_first_side_effect(tmp_path):
    """The second lock: even if torch's unpickler let something through, it could neither run, write nor connect."""
    attempts = (
        f"os.system('touch {tmp_path}/ran')",
        f"open('{tmp_path}/ran', 'w')",
        "__import__('pickle').loads(b'cos\\ngetcwd\\n.')",
        "__import__('socket').socket().connect(('127.0.0.1', 9))",
    )
    code = "import os, sys\nfrom osler.nn.checkpoints import _allow_nothing_but_reading as hook\n"
    code += "for number in range(int(sys.argv[1])):\n if os.fork() == 0:\n  sys.addaudithook(hook)\n  exec(sys.argv[2 + number])\n"
    code += " print(os.waitstatus_to_exitcode(os.wait()[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(len(attempts)), *attempts], capture_output=True, text=True, check=True
    )
    assert [line for line in done.stdout.split() if line.isdigit()] == ["3"] * len(attempts)
    assert not (tmp_path / "ran").exists()
