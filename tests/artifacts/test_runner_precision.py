"""Encoders in bfloat16: what is rounded and what is not, and batches that are begun before others are taken apart."""

from __future__ import annotations

import io
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from bundles import make_bundle
from encoders import preset_encoder

from osler.artifacts import bundle as bundle_module
from osler.artifacts import runner as module
from osler.artifacts.bundle import Bundle
from osler.artifacts.runner import TorchRunner, run_heads
from osler.core.errors import RecipeError
from osler.nn.multihead import MultiHeadModel
from osler.nn.presets import PRESETS
from osler.stages.serve.annotate import stream
from osler.stages.serve.config import AnnotateRecipe
from osler.tasks.instances.base import Instance
from osler.text.document import Document
from osler.train import precision

HEADS = ["tags", "chain", "label"]
TEXT = "Aspirin 81 mg was given for chest pain. No fever, no cough. She takes metformin daily."


def instances(count: int = 20) -> list[Instance]:
    draw = random.Random(0)
    rows = [[0, *(draw.randrange(5, 400) for _ in range(draw.randrange(1, 90))), 2] for _ in range(count)]
    return [Instance(np.array(row), 0) for row in rows]


@pytest.fixture(params=["tiny", "bert-base"])
def model(request) -> MultiHeadModel:
    shape = PRESETS[request.param].changed(layers=2)
    encoder = preset_encoder(shape, vocab_size=400, pad_token_id=1, seed=0, max_length=128)
    model = MultiHeadModel(encoder).eval()
    model.add_head("tags", "tagging", 5, seed=0, labels=list("abcde"))
    model.add_head("chain", "crf", 3, seed=0, labels=["O", "B-a", "I-a"])
    model.add_head("label", "classification", 3, seed=0, labels=list("abc"))
    return model


@pytest.fixture(scope="module")
def folder(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("half") / "bundle", tokenizer_folder, ("drugs", "farmacos"))


@pytest.fixture
def able(monkeypatch) -> None:
    """A processor that computes bfloat16."""
    monkeypatch.setattr(precision, "cpu_computes_bf16", lambda: True)


def test_an_encoder_in_bfloat16_gives_nearly_the_same_in_float32(model):
    given = instances()
    exact = run_heads(model, given, HEADS)
    rounded = TorchRunner.rounded(model).outputs(given, HEADS)
    for head in HEADS:
        for one, other in zip(exact[head], rounded[head], strict=True):
            assert other.dtype == np.float32
            assert one.shape == other.shape
            assert not np.array_equal(one, other)
            np.testing.assert_allclose(one, other, atol=0.05)


def test_weights_are_rounded_once_as_autocast_rounds_them_in_every_pass(model):
    given = instances()
    expected = run_heads(model, given, HEADS, bf16=True)
    runner = TorchRunner.rounded(model)
    kinds = {type(layer): layer.weight.dtype for layer in model.encoder.modules() if hasattr(layer, "weight")}
    assert kinds[torch.nn.Linear] is torch.bfloat16
    assert kinds[torch.nn.Embedding] is torch.float32
    assert {parameter.dtype for parameter in model.heads.parameters()} == {torch.float32}
    found = runner.outputs(given, HEADS)
    for head in HEADS:
        for one, other in zip(expected[head], found[head], strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("tokens", [100, 500])
def test_batches_that_are_begun_ahead_give_what_one_batch_gives(model, monkeypatch, tokens):
    given = instances()
    expected = run_heads(model, given, HEADS)
    monkeypatch.setitem(module._BATCH_TOKENS, "cpu", tokens)
    done: list[int] = []
    found = run_heads(model, given, HEADS, done.append)
    assert sum(done) == len(given)
    assert len(done) > 2
    for head in HEADS:
        for one, other in zip(expected[head], found[head], strict=True):
            assert np.array_equal(one, other)


def test_only_a_gpu_begins_before_it_is_asked_for_outputs(model, monkeypatch):
    given, computed = instances(3), []
    monkeypatch.setattr(model, "predict", lambda *a, **k: computed.append(1) or MultiHeadModel.predict(model, *a, **k))
    waited = TorchRunner(model).begin(given, HEADS)
    assert not computed
    expected = waited()
    computed.clear()
    monkeypatch.setattr(TorchRunner, "device", "cuda")
    waited = TorchRunner(model).begin(given, HEADS)
    assert computed
    found = waited()
    assert all(np.array_equal(expected[head][n], found[head][n]) for head in HEADS for n in range(3))


def test_a_training_model_stays_one(model):
    model.train()
    run_heads(model, instances(2), HEADS)
    assert model.training


def test_bundles_are_loaded_in_float32_unless_annotation_asks_for_less(folder, able):
    assert not Bundle.load(folder, "cpu").runner.bf16
    assert not Bundle.load(folder, "cpu", "auto").runner.bf16
    rounded = Bundle.load(folder, "cpu", "bf16")
    assert rounded.runner.bf16
    with pytest.raises(RecipeError, match="rounded for annotation"):
        _ = rounded.model
    with pytest.raises(RecipeError, match="unknown precision 'half'"):
        Bundle.load(folder, "cpu", "half")  # type: ignore[arg-type]


def test_auto_is_bfloat16_on_a_gpu_that_has_it(monkeypatch):
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert precision.chooses_bf16("auto", gpu)
    assert not precision.chooses_bf16("fp32", gpu)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert not precision.chooses_bf16("auto", gpu)


def test_a_processor_without_instructions_is_told(folder, monkeypatch):
    monkeypatch.setattr(precision, "cpu_computes_bf16", lambda: False)
    with pytest.raises(RecipeError, match="this CPU has no instructions"):
        Bundle.load(folder, "cpu", "bf16")


def test_the_command_and_python_hand_the_precision_on(folder, able, tmp_path, monkeypatch):
    import osler

    asked = []
    load = Bundle.load

    def seen(*arguments, **more):
        asked.append(load(*arguments, **more).runner)
        return load(*arguments, **more)

    monkeypatch.setattr(bundle_module.Bundle, "load", seen)
    (tmp_path / "a.txt").write_text(TEXT)
    for chosen, bf16 in (("auto", False), ("bf16", True)):
        asked.clear()
        recipe = AnnotateRecipe(files=(tmp_path / "a.txt",), bundle=folder, device="cpu", precision=chosen)
        stream(recipe, io.StringIO())
        osler.load(folder, device="cpu", precision=chosen)
        assert [runner.bf16 for runner in asked] == [bf16, bf16]
    assert "precision" in recipe.identity()
    assert "precision" not in recipe.changed(precision="auto").identity()


def test_passes_overlap_on_a_gpu_and_keep_the_order_of_documents(folder, monkeypatch):
    loaded = Bundle.load(folder, "cpu")
    documents = [Document(str(number), f"{number} {TEXT}" * (1 + number % 3)) for number in range(12)]
    documents.insert(10, Document("long", TEXT * 20))
    expected = loaded.annotate(documents)
    monkeypatch.setattr(bundle_module, "SECTION_CHARACTERS", 900)
    monkeypatch.setattr(TorchRunner, "pass_characters", 1200)
    in_passes = loaded.annotate(documents)
    events: list[str] = []
    for name in ("_begin", "_finish"):
        method = getattr(Bundle, name)
        monkeypatch.setattr(
            Bundle, name, lambda *a, _m=method, _n=name: events.append(_n) or _m(*a)
        )  # which comes when
    monkeypatch.setattr(TorchRunner, "device", "cuda")
    found = loaded.annotate(documents)
    assert events[:3] == ["_begin", "_begin", "_finish"]
    assert events.count("_begin") == events.count("_finish") > 4
    assert found == in_passes
    assert [document.text for document in found] == [document.text for document in documents]
    short = [number for number, document in enumerate(documents) if document.id != "long"]
    assert [found[number].spans for number in short] == [expected[number].spans for number in short]


def test_a_gpu_takes_the_weights_beside_a_graph(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    copied = shutil.copytree(folder, tmp_path / "copy")
    (copied / "onnx.json").write_text("{}")
    with pytest.raises(RecipeError, match="no CUDA device"):
        Bundle.check_device(copied, "cuda")
    for weights in copied.glob("*.safetensors"):
        weights.unlink()
    with pytest.raises(RecipeError, match="an ONNX bundle runs on the CPU"):
        Bundle.check_device(copied, "cuda")
    with pytest.raises(RecipeError, match="computes as it was exported"):
        Bundle.load(copied, "auto", "bf16")
