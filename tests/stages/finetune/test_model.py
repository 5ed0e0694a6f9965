"""Several tasks: what an update is made of, what the mixing does, and that the log proves it."""

from __future__ import annotations

import json
import logging
from collections import Counter

import pytest
import torch

from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import RecipeError
from osler.stages.finetune.batches import TaskBatches, TaskStream
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.model import MultiTask
from osler.stages.finetune.run import FinetuneData, prepare, run

TRAIN = {"lr": 1e-3, "device": "cpu", "log_every": 1, "checkpoint_every": 0, "warmup": 0}


@pytest.fixture(scope="module")
def tasks(make_task):
    return {
        "drugs": make_task("drugs", ["DRUG"], seed=1, train=24),
        "diseases": make_task("diseases", ["DISEASE"], seed=2, train=6),
        "tests": make_task("tests", ["TEST"], seed=3, train=2),
    }


def recipe(model, *tasks, **more) -> FinetuneRecipe:
    values = {"model": str(model), "tasks": tasks, "max_length": 64, "overlap": 8, "epochs": 1, "batch_size": 2}
    values |= {"dropout": 0.0, "train": TRAIN}
    return FinetuneRecipe.model_validate(values | more)


def prepared(given: FinetuneRecipe) -> tuple[FinetuneData, TaskBatches]:
    from pathlib import Path

    state = prepare(given, Path(given.model), [TaskFolder.open(path) for path in given.tasks])
    return state, state.batches


class Counted(TaskStream):
    """Batches of given numbers of labels."""

    def __init__(self, labels: list[float], weight: float) -> None:
        self.counts = labels
        self.loss_weight = weight

    def cut(self, epoch):
        return [(number,) for number in range(len(self.counts))]

    def labels(self, items):
        return self.counts[items[0]]

    def load(self, items, scale):
        return (items[0], scale), 1


def test_an_update_over_several_tasks_by_hand(models):
    """Tags outnumber texts a hundred to one; the share of a task is still its share of the micro-batches, times its weight."""
    given = recipe(models["plain"], "unused", accumulate=3, mixing={"order": "proportional"})
    batches = TaskBatches(given, {"tags": Counted([300, 100], 1.0), "texts": Counted([2], 3.0)})
    (update,) = [batches.source().step(0)]
    assert Counter(ref.task for ref in update) == {"tags": 2, "texts": 1}
    loaded = [batches.load(ref) for ref in update]
    sums = {("tags", 300): 900.0, ("tags", 100): 50.0, ("texts", 2): 8.0}  # summed losses
    total = sum(
        sums[ref.task, batch.weight] * batch.payload[1] for ref, batch in zip(update, loaded, strict=True)
    ) / sum(batch.weight for batch in loaded)  # as the loop divides
    # two of three micro-batches are tags, at (900 + 50) / 400; one is texts, at 8 / 2, three times
    assert total == pytest.approx(2 / 3 * (950 / 400) + 1 / 3 * 3.0 * (8 / 2))


def test_one_task_or_one_micro_batch_is_the_plain_mean_times_the_weight(models):
    streams = {"tags": Counted([300, 100, 7], 2.0)}
    for accumulate in (1, 2, 3):
        batches = TaskBatches(recipe(models["plain"], "unused", accumulate=accumulate), streams)
        assert {ref.scale for ref in batches.order(0)} == {2.0}
    streams["texts"] = Counted([2], 0.5)
    batches = TaskBatches(recipe(models["plain"], "unused"), streams)
    assert {(ref.task, ref.scale) for ref in batches.order(0)} == {("tags", 2.0), ("texts", 0.5)}
    empty = TaskBatches(recipe(models["plain"], "unused", accumulate=2), {"none": Counted([0, 0], 1.0)})
    assert [ref.scale for ref in empty.order(0)] == [0.0, 0.0]  # a batch without labels divides by nothing


def test_the_loss_of_the_first_update_is_the_one_by_hand(models, tasks, tmp_path):
    """Through the real loop: two tasks in one update, each by its own mean and its weight."""
    weights = {"drugs": 1.0, "diseases": 4.0}
    given = recipe(
        models["plain"],
        tasks["drugs"],
        tasks["diseases"],
        accumulate=2,
        mixing={"loss_weights": weights},
        train=TRAIN | {"steps": 1},
    )
    state, batches = prepared(given)
    update = batches.source().step(0)
    assert [ref.task for ref in update] == ["drugs", "diseases"]
    state.bundle.model.eval()
    objective = MultiTask(state.bundle.model)
    with torch.no_grad():
        means = {ref.task: float(objective(batches.load(ref).payload).logs[f"loss/{ref.task}"]) for ref in update}
    expected = sum(weights[name] * mean for name, mean in means.items()) / 2
    made = run(given, tmp_path / "bundle")
    first = json.loads((made.path / "history.json").read_text())[0]
    assert first["loss"] == pytest.approx(expected, rel=1e-4)
    assert first["loss/diseases"] == pytest.approx(means["diseases"], rel=1e-4)


def test_batch_sizes_are_those_of_the_task(models, tasks):
    given = recipe(models["plain"], tasks["drugs"], tasks["diseases"], mixing={"batch_sizes": {"diseases": 5}})
    _, batches = prepared(given)
    sizes = {name: {len(ref.indices) for ref in batches.order(0) if ref.task == name} for name in ("drugs", "diseases")}
    assert sizes == {"drugs": {2}, "diseases": {5, 1}}


def test_proportional_takes_everything_once_an_epoch_and_cuts_anew(models, tasks):
    given = recipe(models["plain"], *tasks.values(), epochs=2, mixing={"order": "proportional"})
    state, batches = prepared(given)
    epochs = [batches.order(epoch) for epoch in (0, 1)]
    for epoch in epochs:
        for name, data in state.instances.items():
            seen = sorted(index for ref in epoch if ref.task == name for index in ref.indices)
            assert seen == list(range(len(data.instances)))
    cuts = [{frozenset(ref.indices) for ref in epoch if ref.task == "drugs"} for epoch in epochs]
    assert cuts[0] != cuts[1]
    assert [ref.task for ref in epochs[0]] != [ref.task for ref in epochs[1]]


@pytest.mark.parametrize("order", ["round-robin", "proportional", "temperature", "annealed"])
def test_mixing_does_what_its_name_says_and_the_log_proves_it(order, models, tasks, tmp_path, caplog):
    given = recipe(models["plain"], *tasks.values(), epochs=3, mixing={"order": order, "temperature": 2.0})
    caplog.set_level(logging.INFO, logger="osler")
    counts = run(given, tmp_path / "bundle").manifest.counts
    events = [json.loads(record.message) for record in caplog.records if "finetune.mixing" in record.message]
    logged = [{} for _ in range(3)]
    for event in events:
        assert event["order"] == order
        logged[event["epoch"] - 1][event["task"]] = event["batches"]
    expected = {
        "round-robin": [{"drugs": 12, "diseases": 12, "tests": 12}] * 3,
        "proportional": [{"drugs": 12, "diseases": 3, "tests": 1}] * 3,
        # 16 batches by the roots of 12, 3 and 1
        "temperature": [{"drugs": 9, "diseases": 4, "tests": 3}] * 3,
        # by the powers 1, 0.6 and 0.2
        "annealed": [
            {"drugs": 12, "diseases": 3, "tests": 1},
            {"drugs": 10, "diseases": 4, "tests": 2},
            {"drugs": 7, "diseases": 5, "tests": 4},
        ],
    }[order]
    assert logged == expected == counts["batches_by_epoch"]
    assert counts["batches_an_epoch"] == expected[0]
    whole = {name: sum(epoch[name] for epoch in expected) for name in tasks}
    assert counts["batches_trained"] == whole
    assert counts["steps"] == sum(whole.values())


def test_a_run_that_ends_early_counts_only_what_it_trained_on(models, tasks, tmp_path):
    given = recipe(models["plain"], tasks["drugs"], tasks["diseases"], accumulate=2, train=TRAIN | {"steps": 3})
    counts = run(given, tmp_path / "bundle").manifest.counts
    assert counts["batches_trained"] == {"drugs": 3, "diseases": 3}


def test_names_that_are_no_task_are_refused(models, tasks, tmp_path):
    for section, values in {"loss_weights": {"drug": 2.0}, "batch_sizes": {"drug": 2}}.items():
        with pytest.raises(RecipeError, match=f"mixing.{section} names the task 'drug'") as refused:
            run(recipe(models["plain"], tasks["drugs"], mixing={section: values}), tmp_path / "x")
        assert "Did you mean 'drugs'" in str(refused.value)


def test_each_task_is_taught_further_from_a_refined_encoder(models, tasks, tmp_path):
    """Refine on several tasks, then fine-tune one from the bundle's encoder: its weights are where the second run starts."""
    from safetensors.numpy import load_file

    refined = run(recipe(models["plain"], tasks["drugs"], tasks["diseases"]), tmp_path / "refined")
    given = recipe(refined.path, tasks["drugs"], train=TRAIN | {"lr": 1e-12})
    tuned = run(given, tmp_path / "tuned")
    one, other = (load_file(made.path / "model.safetensors") for made in (refined, tuned))
    start = load_file(models["plain"] / "model.safetensors")
    assert all(one[key] == pytest.approx(other[key], abs=1e-6) for key in one)
    assert any(abs(one[key] - start[key]).max() > 1e-4 for key in one)
    assert list(json.loads((tuned.path / "heads.json").read_text())["heads"]) == ["drugs"]
    assert tuned.manifest.parents["model"] != refined.manifest.parents["model"]
