"""Padding batches to a few shapes does not change the loss or the gradients."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from osler.artifacts.task_folder import TaskFolder
from osler.stages.finetune.batches import InstanceStream, full_shape
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.model import MultiTask
from osler.stages.finetune.run import prepare, run
from osler.train.replay import shape_of
from osler.train.source import packed_batches


def recipe(model, *tasks, **more) -> FinetuneRecipe:
    values = {"model": str(model), "tasks": tasks, "max_length": 64, "overlap": 8, "epochs": 1, "batch_size": 4}
    return FinetuneRecipe.model_validate(values | {"dropout": 0.0, "train": {"threads": 1}} | more)


@pytest.fixture(scope="module")
def tasks(make_task):
    return {
        "drugs": make_task("drugs", ["DRUG"], seed=1, train=11),
        "diseases": make_task("diseases", ["DISEASE"], seed=2, train=7),
    }


def test_few_shapes_and_little_waste():
    for tokens in range(1, 40_000, 7):
        shape = full_shape(tokens, sequences=32, longest=128)
        assert 0 <= shape["total"] - tokens < max(512, tokens / 7)
        assert shape["max_sequences"] >= 32 + -(-(shape["total"] - tokens) // 128)
    lengths = np.random.default_rng(0).integers(60, 512, size=520).tolist()
    batches = [batch for epoch in range(20) for batch in packed_batches(lengths, 16_384, 1, epoch, 16)]
    totals = [sum(lengths[index] for index in batch) for batch in batches]
    sizes = Counter(full_shape(tokens, sequences=16, longest=512)["total"] for tokens in totals)
    assert sum(count for _, count in sizes.most_common(6)) > 0.9 * len(batches)


@pytest.mark.parametrize(
    "more",
    [{}, {"class_weights": "balanced"}, {"joint": {"entities": ["drugs", "diseases"]}}],
    ids=["plain", "weighed", "joint"],
)
def test_a_filled_batch_has_the_loss_and_the_gradients_of_the_plain_one(model, tasks, more, monkeypatch):
    given = recipe(model, *tasks.values(), **more)
    state = prepare(given, Path(given.model), [TaskFolder.open(path) for path in given.tasks])
    batches = state.batches
    module = MultiTask(state.bundle.model)
    shapes = set()
    for ref in batches.order(0):
        results = []
        for fill in (False, True):
            monkeypatch.setattr(InstanceStream, "_recordable", lambda stream, fill=fill: fill)
            batch = batches.load(ref)
            assert batch.payload.repeatable is fill
            module.zero_grad(set_to_none=True)
            output = module(batch.payload)
            output.loss_sum.backward()
            gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
            results.append((output.loss_sum.item(), output.logs, gradients, batch.weight, batch.tokens))
        shapes.add(shape_of(batch.payload))
        (plain, logs, gradients, *counts), (filled, filled_logs, filled_gradients, *filled_counts) = results
        assert filled == pytest.approx(plain, rel=1e-5)
        assert {name: float(value) for name, value in filled_logs.items()} == pytest.approx(
            {name: float(value) for name, value in logs.items()}, rel=1e-5
        )
        assert counts == filled_counts
        assert gradients.keys() == filled_gradients.keys()
        for name, gradient in gradients.items():
            assert torch.allclose(filled_gradients[name], gradient, atol=1e-5), name
    assert len(shapes) <= 2 * len(tasks)  # of each task the full batches, and its last


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_replayed_fine_tuning_ends_where_plain_fine_tuning_ends(model, tasks, tmp_path):
    ends = []
    for compile in ("off", "auto"):
        train = {"compile": compile, "lr": 1e-3, "log_every": 1, "checkpoint_every": 0}
        given = recipe(model, *tasks.values(), epochs=8, dropout=0.1, train=train)
        made = run(given, tmp_path / compile)
        ends.append([record["loss"] for record in _history(made.path) if "loss" in record])
    assert ends[1] == pytest.approx(ends[0], rel=0.02)


def _history(folder: Path) -> list[dict]:
    import json

    return json.loads((folder / "history.json").read_text())
