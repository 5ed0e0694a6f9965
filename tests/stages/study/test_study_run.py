"""Studies: each run once, failures do not stop the others, no column mixes protocols, honest comparisons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osler.core.errors import OslerError, OutputError, RecipeError
from osler.core.files import write_json
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study.config import StudyRecipe
from osler.stages.study.run import run
from osler.stages.study.runs import RunSpec
from osler.tasks.data import TaskData, write_records


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    sizes = {"train": 4, "dev": 2, "test": 12}
    return prepare(PrepareRecipe(task="clinic-entities-en", options=sizes), tmp_path_factory.mktemp("t") / "task").path


class Guesser:
    """A runner that needs no training: it finds all mentions but those of the first `missed` documents."""

    def __init__(self, missed: dict[str, int], protocol: dict[str, str] | None = None) -> None:
        self.missed = missed
        self.protocol = protocol or {}
        self.done: list[tuple[str, int]] = []

    def identify(self, model: str) -> str:
        return model

    def __call__(self, spec: RunSpec, folder: Path) -> None:
        if (folder / "evaluation" / "metrics.json").exists():
            return
        if spec.model == "broken":
            raise OslerError("this one cannot be done")
        self.done.append((spec.name, spec.seed))
        task = TaskData.open(spec.task)
        gold = task.read(spec.split)
        found = [doc.with_(spans=()) if i < self.missed[spec.model] + spec.seed else doc for i, doc in enumerate(gold)]
        (folder / "evaluation").mkdir(parents=True)
        (folder / "bundle").mkdir()
        write_records(found, folder / "evaluation" / "predictions.parquet")
        name = self.protocol.get(spec.model, "strict")
        write_json(
            folder / "bundle" / "history.json", [{"kind": "eval", "step": s, task.card.name: s / 10} for s in (1, 2)]
        )
        write_json(folder / "evaluation" / "metrics.json", {"protocol": f"{task.card.name}/{name}@v1", "metric": "f1"})


def recipe(task: Path, *models: str, **more) -> StudyRecipe:
    values = {"models": {name: {"model": name} for name in models}, "tasks": [task], "seeds": [0, 1], "resamples": 500}
    return StudyRecipe.model_validate(values | more)


def test_a_study_compares_with_its_baseline_and_prints_protocols(task, tmp_path):
    made = run(recipe(task, "weak", "strong"), tmp_path / "study", runner=Guesser({"weak": 8, "strong": 0}))
    results = json.loads((made.path / "results.json").read_text())
    weak, strong = results["cells"]
    assert weak["mean"] < strong["mean"]
    assert strong["against"]["baseline"] == "weak"
    assert strong["against"]["low"] > 0
    assert strong["against"]["p_holm"] < 0.05
    for name in ("table.md", "table.csv", "table.tex", "report.html"):
        assert (made.path / name).stat().st_size > 100
    assert "clinic-entities-en/strict@v1" in (made.path / "table.md").read_text()


def test_equal_models_are_not_called_different(task, tmp_path):
    made = run(recipe(task, "one", "other"), tmp_path / "study", runner=Guesser({"one": 3, "other": 3}))
    cell = json.loads((made.path / "results.json").read_text())["cells"][1]
    assert cell["against"]["difference"] == 0
    assert cell["against"]["p_holm"] == 1.0
    assert "*" not in (made.path / "table.csv").read_text()


def test_one_more_model_later_only_does_its_own_runs(task, tmp_path):
    runner = Guesser({"one": 1, "two": 2, "three": 3})
    run(recipe(task, "one", "two"), tmp_path / "study", runner=runner)
    before = len(runner.done)
    with pytest.raises(OutputError, match="--force"):
        run(recipe(task, "one", "two", "three"), tmp_path / "study", runner=runner)
    run(recipe(task, "one", "two", "three"), tmp_path / "study", runner=runner, force=True)
    assert runner.done[before:] == [("three", 0), ("three", 1)]
    assert run(recipe(task, "one", "two", "three"), tmp_path / "study", runner=runner).reused


def test_a_failed_run_is_named_and_the_others_are_kept(task, tmp_path):
    runner = Guesser({"one": 1})
    with pytest.raises(OslerError, match=r"2 of 4 runs failed.*cannot be done"):
        run(recipe(task, "broken", "one"), tmp_path / "study", runner=runner)
    assert runner.done == [("one", 0), ("one", 1)]
    assert not (tmp_path / "study").exists()


def test_numbers_under_different_protocols_never_share_a_column(task, tmp_path, monkeypatch):
    card = TaskData.open(task).card
    other = {**card.protocols, "other": card.protocols["strict"]}
    monkeypatch.setattr(type(card), "protocol_named", lambda self, name=None: other[name or "strict"])
    runner = Guesser({"one": 1, "two": 2}, {"two": "other"})
    with pytest.raises(OslerError, match=r"strict@v1 and under .*other@v1"):
        run(recipe(task, "one", "two"), tmp_path / "study", runner=runner)


def test_an_unknown_baseline_is_refused(task, tmp_path):
    with pytest.raises(RecipeError, match="baseline 'x'"):
        run(recipe(task, "one", baseline="x"), tmp_path / "study", runner=Guesser({"one": 1}))
