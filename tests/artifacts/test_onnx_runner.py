"""An exported bundle gives what its bundle gives, whatever the architecture and however texts are batched, without torch."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    CamembertConfig,
    DistilBertConfig,
    ElectraConfig,
    ModernBertConfig,
    RobertaConfig,
    XLMRobertaConfig,
)

from osler.artifacts import onnx_runner
from osler.artifacts.onnx_runner import GraphDetails, GraphHead, OnnxRunner, padded_batches
from osler.artifacts.runner import TorchRunner
from osler.core.errors import ArtifactError
from osler.nn.encoder import PackedEncoder
from osler.nn.multihead import MultiHeadModel
from osler.nn.onnx_graph import to_onnx
from osler.tasks.instances.base import Instance

SHAPE = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 97}
NO_SPECIAL = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))
CONFIGS = {
    # The window reaches 8 tokens, so that local and global layers differ.
    "modernbert": ModernBertConfig(
        **SHAPE, max_position_embeddings=64, local_attention=16, pad_token_id=0, **NO_SPECIAL
    ),
    "bert": BertConfig(**SHAPE, max_position_embeddings=64),
    "roberta": RobertaConfig(**SHAPE, max_position_embeddings=66, pad_token_id=1, type_vocab_size=1),
    "xlm-roberta": XLMRobertaConfig(**SHAPE, max_position_embeddings=66, pad_token_id=1, type_vocab_size=1),
    "camembert": CamembertConfig(**SHAPE, max_position_embeddings=66, pad_token_id=1, type_vocab_size=1),
    "distilbert": DistilBertConfig(
        dim=16, n_layers=2, n_heads=2, hidden_dim=24, vocab_size=97, max_position_embeddings=64
    ),
    "electra": ElectraConfig(**SHAPE, embedding_size=8, max_position_embeddings=64),
    "albert": AlbertConfig(**SHAPE, embedding_size=8, max_position_embeddings=64),
}
HEADS = {"tags": ("tagging", 5), "chain": ("crf", 3), "class": ("classification", 3), "pair": ("markers", 4)}


def make_model(architecture: str) -> MultiHeadModel:
    torch.manual_seed(0)
    model = MultiHeadModel(PackedEncoder(AutoModel.from_config(CONFIGS[architecture]).eval()))
    for name, (kind, outputs) in HEADS.items():
        torch.nn.init.normal_(next(model.add_head(name, kind, outputs, seed=0).parameters()))
    for parameter in model.parameters():  # initial weights are so small that a wrong mask would hardly show
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def make_instances() -> list[Instance]:
    rng = np.random.default_rng(0)
    lengths = (60, 3, 41, 17, 60, 58, 9)
    return [
        Instance(rng.integers(5, 97, n), 0, types=rng.integers(0, 2, n), marks=(int(n) // 2, int(n) - 1))
        for n in lengths
    ]


def write(model: MultiHeadModel, folder) -> OnnxRunner:
    heads = {}
    for name in model.heads:
        steps = model.head(name).steps()
        heads[name] = GraphHead(model.head(name).level, None if steps is None else steps.tolist())
    types = (getattr(model.encoder.config, "type_vocab_size", 0) or 0) > 1
    details = GraphDetails("fp32", model.encoder.config.pad_token_id or 0, model.encoder.max_length, types, 2, heads)
    OnnxRunner.graph(folder).write_bytes(to_onnx(model, [details.output(name) for name in model.heads]))
    OnnxRunner.write(folder, details)
    return OnnxRunner.open(folder)


@pytest.mark.parametrize("architecture", CONFIGS)
def test_a_graph_gives_the_outputs_of_the_model_alone_and_in_mixed_batches(architecture, tmp_path):
    model, instances = make_model(architecture), make_instances()
    runner, reference = write(model, tmp_path), TorchRunner(model)
    expected = reference.outputs(instances, list(HEADS))
    together = runner.outputs(instances, list(HEADS))
    one_batch = runner._inputs(instances)
    padded = dict(zip(HEADS, runner.session.run([f"logits.{name}" for name in HEADS], one_batch), strict=True))
    for name, (_, outputs) in HEADS.items():
        token = model.head(name).level == "token"
        for number, instance in enumerate(instances):
            wanted = expected[name][number]
            assert together[name][number].shape == wanted.shape == ((instance.length, outputs) if token else (outputs,))
            [alone] = runner.outputs([instance], [name])[name]
            row = padded[name][number][: instance.length] if token else padded[name][number]
            for found in (together[name][number], alone, row):
                np.testing.assert_allclose(found, wanted, atol=1e-4)
        np.testing.assert_array_equal(runner.transitions(name), reference.transitions(name))


def test_the_model_runs_as_before_after_it_was_traced(tmp_path):
    model, instances = make_model("modernbert"), make_instances()
    before = TorchRunner(model).outputs(instances, ["tags"])["tags"]
    first, second = (to_onnx(model, list(HEADS)) for _ in range(2))
    assert first == second  # the same bytes, so that a killed export resumes to them
    for a, b in zip(before, TorchRunner(model).outputs(instances, ["tags"])["tags"], strict=True):
        np.testing.assert_array_equal(a, b)


def test_batches_have_similar_lengths_and_little_padding():
    lengths = [int(n) for n in np.random.default_rng(1).integers(1, 300, 200)]
    batches = padded_batches(lengths, 1000)
    assert sorted(index for batch in batches for index in batch) == list(range(200))
    for batch in batches:
        cells = len(batch) * max(lengths[index] for index in batch)
        assert len(batch) == 1 or cells <= 1000
        assert sum(lengths[index] for index in batch) >= 0.9 * cells
    assert len(batches) < 60
    assert padded_batches([], 1000) == []


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_batches_that_run_side_by_side_give_what_they_give_in_turn(threads, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_runner, "_BATCH_TOKENS", 64)
    model, instances = make_model("modernbert"), make_instances() * 5
    in_turn = write(model, tmp_path)
    runner = OnnxRunner.open(tmp_path, threads)
    batches = padded_batches([instance.length for instance in instances], 64)
    assert len(batches) > 8  # more than the threads, so that they share the work
    done: list[int] = []
    found = runner.outputs(instances, list(HEADS), done.append)
    assert sum(done) == len(instances)
    assert ("single" in vars(runner._own)) == (threads > 1)
    for name in HEADS:
        alone = [in_turn.outputs([instance], [name])[name][0] for instance in instances]
        for one, other in zip(found[name], alone, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_batches_that_would_leave_cores_idle_use_all_threads_in_turn(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_runner, "_BATCH_TOKENS", 64)
    write(make_model("bert"), tmp_path)
    instances, runner = make_instances(), OnnxRunner.open(tmp_path, 2)
    for few in ([], instances[:1], instances[:2]):  # one of 60 tokens and one of 3
        runner.outputs(few, ["tags"])
    assert "single" not in vars(runner._own)
    runner.outputs([instances[0], instances[4]], ["tags"])  # two of 60
    assert "single" in vars(runner._own)


@pytest.mark.parametrize("copied", ["forked", "pickled"])
def test_a_copy_in_another_process_opens_its_own_sessions(copied, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_runner, "_BATCH_TOKENS", 64)
    write(make_model("bert"), tmp_path)
    instances, runner = make_instances() * 5, OnnxRunner.open(tmp_path, 2)
    expected = runner.outputs(instances, ["tags"])["tags"]  # starts the threads, which a fork does not copy

    def check(own: OnnxRunner) -> None:
        found = own.outputs(instances, ["tags"])["tags"]
        os._exit(0 if all(map(np.array_equal, found, expected)) else 1)

    given = pickle.loads(pickle.dumps(runner)) if copied == "pickled" else runner
    child = multiprocessing.get_context("fork").Process(target=check, args=(given,))
    child.start()
    child.join(30)
    code = child.exitcode
    child.kill()
    assert code == 0


def test_batches_side_by_side_are_computed_before_they_are_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_runner, "_BATCH_TOKENS", 64)
    write(make_model("bert"), tmp_path)
    instances, runner = make_instances() * 3, OnnxRunner.open(tmp_path, 2)
    computed = threading.Semaphore(0)
    monkeypatch.setitem(vars(runner._own), "single", Watched(runner._own.single, computed))
    expected = runner.outputs(instances, ["tags"])["tags"]
    batches = len(padded_batches([instance.length for instance in instances], 64))
    for _ in range(batches):
        assert computed.acquire(timeout=60)
    first, second = runner.begin(instances, ["tags"]), runner.begin(instances[::-1], ["tags"])
    for _ in range(2 * batches):
        assert computed.acquire(timeout=60)  # although nothing waits for them
    for found in (first()["tags"], second()["tags"][::-1]):
        assert all(map(np.array_equal, found, expected))
    few = runner.begin(instances[:1], ["tags"])
    assert not computed.acquire(blocking=False)
    assert np.array_equal(few()["tags"][0], expected[0])


class Watched:
    """A session that counts its runs."""

    def __init__(self, session, computed) -> None:
        self.session, self.computed = session, computed

    def run(self, *arguments):
        found = self.session.run(*arguments)
        self.computed.release()
        return found


def test_an_error_in_one_of_many_batches_is_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_runner, "_BATCH_TOKENS", 64)
    write(make_model("bert"), tmp_path)
    runner = OnnxRunner.open(tmp_path, 2)
    instances = make_instances() * 3
    unknown = replace(instances[4], ids=np.full(instances[4].length, 10_000))
    with pytest.raises(Exception, match="out of data bounds"):
        runner.outputs([*instances, unknown], ["tags"])
    assert len(runner.outputs(instances, ["tags"])["tags"]) == len(instances)


def test_progress_counts_instances_and_too_long_ones_are_refused(tmp_path):
    model, instances = make_model("bert"), make_instances()
    runner, done = write(model, tmp_path), []
    runner.outputs(instances, ["tags"], done.append)
    assert sum(done) == len(instances)
    long = replace(instances[0], ids=np.full(65, 7), types=None)
    with pytest.raises(ValueError, match="65 tokens, the encoder takes 64"):
        runner.outputs([long], ["tags"])


def test_a_damaged_folder_is_told(tmp_path):
    write(make_model("distilbert"), tmp_path)
    details = json.loads((tmp_path / "onnx.json").read_text())
    (tmp_path / "onnx.json").write_text(json.dumps(details | {"format": 2}))
    with pytest.raises(ArtifactError, match="Upgrade osler"):
        OnnxRunner.open(tmp_path)
    (tmp_path / "onnx.json").write_text("{}")
    with pytest.raises(ArtifactError, match="damaged"):
        OnnxRunner.open(tmp_path)
    (tmp_path / "onnx.json").write_text(json.dumps(details))
    (tmp_path / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(ArtifactError, match="onnxruntime cannot load this graph"):
        OnnxRunner.open(tmp_path)


def test_running_needs_neither_torch_nor_transformers(tmp_path):
    write(make_model("modernbert"), tmp_path)
    code = f"""
import sys
from pathlib import Path
import numpy as np
from osler.artifacts.onnx_runner import OnnxRunner
from osler.tasks.instances.base import Instance
found = OnnxRunner.open(Path({str(tmp_path)!r})).outputs([Instance(np.arange(9), 0)], ["tags"])
assert found["tags"][0].shape == (9, 5)
assert not {{"torch", "transformers", "onnx"}} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
