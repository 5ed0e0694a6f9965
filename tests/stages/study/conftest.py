"""Finished runs written by hand: real task folders and predictions, scored by the project's own scorer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from osler.artifacts.run import Run, RunSettings, RunSpec
from osler.artifacts.task_folder import CARD, TaskFolder, write_records
from osler.core.artifact import Workspace, produce
from osler.core.config import Recipe
from osler.core.files import write_atomic, write_json
from osler.stages.study.recipe import StudyRecipe
from osler.tasks.catalogue import load_card
from osler.tasks.scoring import score
from osler.text.document import Document, Record, Span, TextPair

sys.path.append(str(Path(__file__).parent))  # for worker processes, which import it by name
import fake_runner

TEXT = "aa bb cc dd ee ff gg hh"


class Nothing(Recipe):
    """The recipe of a task folder that a test writes."""

    name: str


class Bench:
    """Makes task folders and runs in which it is known which documents were answered rightly."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks: dict[str, tuple[Path, ...]] = {}
        self.count = 0

    def classes(self, name: str, size: int = 20, folds: int = 0) -> str:
        """A task of pairs scored by accuracy: a run with k right answers has k / size."""
        card = load_card("clinic-entailment-en")
        records: list[Record] = [TextPair(str(i), "a", "b", labels=("entailment",)) for i in range(size)]
        self.task(name, card, records, folds)
        return name

    def spans(self, name: str, size: int = 20) -> str:
        """A task of documents with two mentions each, scored by F1."""
        spans = (Span.at(0, 2, "DRUG", id="T1"), Span.at(3, 5, "DOSE", id="T2"))
        self.task(name, load_card("clinic-entities-en"), [Document(str(i), TEXT, spans) for i in range(size)], 0)
        return name

    def task(
        self, name: str, card: Any, records: Sequence[Record], folds: int = 0, test: Sequence[Record] | None = None
    ) -> None:
        """A task with the same records in every split, unless those of test are given."""
        made = []
        for fold in range(folds or 1):
            own = card.model_copy(update={"name": f"{name}-fold{fold + 1}" if folds else name})

            def build(work: Workspace, own: Any = own) -> None:
                write_atomic(work.path / CARD, tomli_w.dumps(own.resolved()))
                for split in ("train", "dev", "test"):
                    held = test if test is not None and split == "test" else records
                    write_records(held, work.path / f"{split}.parquet", pairs=own.record == "pair")

            path = self.folder / "tasks" / own.name
            produce(path, kind="task", recipe=Nothing(name=own.name), parents={}, build=build)
            made.append(path)
        self.tasks[name] = tuple(made)

    def run(
        self,
        row: str,
        columns: str | tuple[str, ...],
        seed: int,
        right: int | Mapping[str, int] | None,
        *,
        wrong_spans: int = 0,
        dev: float = 0.5,
        point: Mapping[str, Any] | None = None,
        chosen: bool = True,
        steps: int = 100,
        best: int = 50,
        turns: Mapping[str, int] | None = None,
        seconds: float = 10.0,
        device: str = "cpu",
        processes: int = 1,
        counts: Mapping[str, Any] | None = None,
        accumulate: int = 1,
        **more: Any,
    ) -> Run:
        """A finished run; `right` says how many of the first documents of each column it answers rightly, none: not scored."""
        names = (columns,) if isinstance(columns, str) else columns
        fold = more.get("fold") or 0
        paths = tuple(self.tasks[name][fold] for name in names)
        spec = RunSpec(
            row=row,
            model=row,
            columns=names,
            tasks=paths,
            task_digests=tuple(TaskFolder.open(path).artifact.manifest.digest for path in paths),
            seed=seed,
            split="test",
            settings=RunSettings(),
            point=RunSettings(point or {}),
            **more,
        )
        self.count += 1
        folder = self.folder / "store" / f"{self.count:04}"
        cards = {name: TaskFolder.open(path) for name, path in zip(names, paths, strict=True)}
        tasks = [task.card.name for task in cards.values()]
        counted = {
            "steps": steps,
            "best_step": best,
            "parameters": 1000,
            "dev": dict.fromkeys(tasks, dev),
            "batches_an_epoch": dict(turns or dict.fromkeys(tasks, steps // 10)),
            **(counts or {}),
        }
        rate = {"lr": (point or {}).get("train.lr", 3e-5)}
        made = {"epochs": 10, "accumulate": accumulate, "train": rate}
        fake_runner.write_manifest(folder / "bundle", counted, made)
        history = [
            {"kind": "eval", "step": step, **dict.fromkeys(tasks, dev * step / best)} for step in (best // 2, best)
        ]
        write(folder / "bundle" / "history.json", history)
        write(folder / "status.json", {"state": "done", "seconds": seconds, "device": device, "processes": processes})
        if right is not None:
            for name, task in cards.items():
                number = right[name] if isinstance(right, Mapping) else right
                evaluation(folder / "evaluation" / name, task, number, wrong_spans)
        return Run(spec, folder, chosen)

    def recipe(self, *rows: str, **more: Any) -> StudyRecipe:
        """A recipe with these models over all tasks."""
        values = {
            "models": {row: {"model": row} for row in rows},
            "tasks": [paths[0] for paths in self.tasks.values() if len(paths) == 1],
            "folds": {name: paths for name, paths in self.tasks.items() if len(paths) > 1},
        }
        return StudyRecipe.model_validate(values | more)


def evaluation(folder: Path, task: TaskFolder, right: int, wrong_spans: int) -> None:
    """An evaluation as the stage writes it: predictions and metrics.json."""
    gold = task.read("test")
    predicted = [record if i < right else answered_wrongly(record) for i, record in enumerate(gold)]
    if wrong_spans:
        extra = tuple(Span.at(6 + 3 * k, 8 + 3 * k, "DRUG", id=f"X{k}") for k in range(wrong_spans))
        predicted[0] = predicted[0].with_(spans=(*predicted[0].spans, *extra))  # type: ignore[union-attr]
    scored = score(task.card, task.card.protocol_named(), gold, predicted)
    folder.mkdir(parents=True)
    write_records(predicted, folder / "predictions.parquet", pairs=task.card.record == "pair")
    metrics = {
        "task": task.card.name,
        "split": "test",
        "protocol": task.card.protocol_id(),
        "metric": task.card.protocol_named().metric,
        "main": scored.main,
        "metrics": scored.metrics,
    }
    write_json(folder / "metrics.json", metrics)


def answered_wrongly(record: Record) -> Record:
    if isinstance(record, Document):
        return record.with_(spans=())
    return TextPair(record.id, record.first, record.second, labels=("neutral",))


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, value)


@pytest.fixture(scope="session")
def bench_in() -> type[Bench]:
    """A bench in a folder of the test's choice."""
    return Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Replaces training and scoring by fakes, all noting what they did in one log."""

    def install(**values: Any) -> Any:
        runs = fake_runner.FakeRunner(tmp_path / "log", **values)
        runs.install(monkeypatch.setattr)
        return runs

    return install
