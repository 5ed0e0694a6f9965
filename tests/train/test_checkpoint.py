from __future__ import annotations

import json
import logging

import pytest
import torch
from torch import nn
from train_toys import Toy, ToySource, config, same, weights

from osler.core.errors import ArtifactError
from osler.core.seeding import snapshot
from osler.train.checkpoint import Checkpoint, Checkpoints, load_module, module_tensors
from osler.train.loop import train
from osler.train.stats import BestOf


def checkpoint(step, value=0.0):
    tensors = {"layer.weight": torch.full((3, 2), value)}
    return Checkpoint(step, {"note": step}, tensors, {"exp_avg/layer.weight": torch.ones(3, 2)}, snapshot())


def test_everything_comes_back(tmp_path):
    store = Checkpoints(tmp_path)
    best = {"layer.weight": torch.arange(6.0).reshape(3, 2).to(torch.bfloat16)}
    original = Checkpoint(3, {"a": [1, 2.5, None]}, best, {}, snapshot(), best)
    loaded = store.load(store.save(original))
    assert loaded.step == 3
    assert loaded.state == {"a": [1, 2.5, None]}
    assert same(dict(loaded.model), best)
    assert loaded.model["layer.weight"].dtype == torch.bfloat16
    assert same(dict(loaded.best), best)
    assert loaded.optimizer == {}
    assert loaded.rng.plain == original.rng.plain
    assert torch.equal(loaded.rng.tensors["torch"], original.rng.tensors["torch"])


def test_no_pickle_is_written(tmp_path):
    train(Toy(), ToySource(2), config(checkpoint_every=1), folder=tmp_path)
    kinds = {path.suffix for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()}
    assert kinds == {".json", ".safetensors"}


def test_the_same_state_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        train(Toy(), ToySource(3), config(checkpoint_every=3), folder=tmp_path / name)
    files = {name: sorted((tmp_path / name / "checkpoints").rglob("*.*")) for name in ("one", "two")}
    assert [path.name for path in files["one"]] == [path.name for path in files["two"]]
    for left, right in zip(files["one"], files["two"], strict=True):
        assert left.is_dir() or left.read_bytes() == right.read_bytes()


def test_only_the_newest_are_kept(tmp_path):
    store = Checkpoints(tmp_path)
    for step in (5, 10, 100, 1000):
        store.save(checkpoint(step))
    assert [path.name for path in store.paths()] == ["step-0000000100", "step-0000001000"]


def test_the_best_outlives_its_own_checkpoint(tmp_path):
    scores = {2: 0.9, 4: 0.1, 6: 0.1, 8: 0.1}
    seen = {}

    def evaluate(module, step):
        seen[step] = weights(module)
        return {"f1": scores[step]}

    settings = config(checkpoint_every=2, eval_every=2)
    train(Toy(), ToySource(8), settings, folder=tmp_path, evaluate=evaluate, best=BestOf("f1"))
    store = Checkpoints(tmp_path)
    assert [path.name for path in store.paths()] == ["step-0000000006", "step-0000000008"]
    kept = store.load(store.paths()[1])
    assert kept.state["selection"] == {"step": 2, "value": 0.9, "stale": 3}
    assert same(dict(kept.best), seen[2])
    assert same(dict(kept.model), seen[8])


def damage_byte(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        ("model.safetensors", damage_byte, "checksum"),
        ("optimizer.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-8]), "checksum"),
        ("rng.safetensors", lambda path: path.unlink(), "unreadable"),
        ("state.json", lambda path: path.write_text("{}"), "checksum"),
        ("checksums.json", lambda path: path.unlink(), "unreadable"),
        ("checksums.json", lambda path: path.write_text('{"model'), "unreadable"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_with_a_log_line(tmp_path, caplog, name, damage, problem):
    store = Checkpoints(tmp_path)
    good, broken = store.save(checkpoint(1)), store.save(checkpoint(2))
    damage(broken / name)
    with caplog.at_level(logging.WARNING, logger="osler"):
        assert store.newest() == good
    (line,) = [json.loads(record.getMessage()) for record in caplog.records]
    assert line == {"event": "checkpoint.damaged", "path": str(broken), "problem": problem}
    store.save(checkpoint(2))  # the step is done again
    assert store.newest() == broken


def test_training_goes_on_from_the_checkpoint_before_a_damaged_one(tmp_path):
    straight, resumed = Toy(), Toy()
    settings = config(checkpoint_every=2)
    expected = train(straight, ToySource(8), settings, folder=tmp_path)
    damage_byte(Checkpoints(tmp_path).paths()[-1] / "model.safetensors")
    source = ToySource(8)
    assert train(resumed, source, settings, folder=tmp_path) == expected
    assert source.loaded[0][0] == 6
    assert same(weights(resumed), weights(straight))


def test_half_written_ones_are_ignored_and_removed(tmp_path):
    store = Checkpoints(tmp_path)
    whole = store.save(checkpoint(1))
    partial = store.folder / ".step-0000000002.partial"
    partial.mkdir()
    (partial / "model.safetensors").write_bytes(b"half")
    assert store.paths() == [whole]
    assert store.newest() == whole
    assert not partial.exists()


def test_one_that_a_kill_kept_from_being_dropped_goes_when_the_run_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr("osler.train.checkpoint.KEPT", 3)
    for step in (1, 2, 3):
        Checkpoints(tmp_path).save(checkpoint(step))
    monkeypatch.undo()
    store = Checkpoints(tmp_path)
    assert store.newest().name == "step-0000000003"
    assert [path.name for path in store.paths()] == ["step-0000000002", "step-0000000003"]


def test_a_newer_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("osler.train.checkpoint.FORMAT", 2)
    path = Checkpoints(tmp_path).save(checkpoint(1))
    monkeypatch.undo()
    with pytest.raises(ArtifactError, match="format 2 is not 1"):
        Checkpoints(tmp_path).load(path)


def test_tied_weights_are_stored_once_and_stay_tied():
    module = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    module["b"].weight = module["a"].weight
    tensors = {name: torch.randn_like(value) for name, value in module_tensors(module).items()}
    assert set(tensors) == {"a.weight", "a.bias", "b.bias"}
    load_module(module, tensors)
    assert module["b"].weight is module["a"].weight
    assert torch.equal(module["b"].weight, tensors["a.weight"])
