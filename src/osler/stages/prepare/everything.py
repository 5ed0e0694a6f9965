"""Prepare every task whose files are in a folder, on all cores, and say which are not there."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from osler.core.errors import OslerError
from osler.formats.sources import SourceTree
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import prepare
from osler.tasks.catalogue import all_cards, load_card
from osler.tasks.sources.find import FilesMissingError

Status = Literal["made", "reused", "not found", "incomplete", "failed"]


@dataclass(frozen=True)
class Job:
    """One task artifact to make: a task, or one fold of it."""

    task: str
    fold: int | None
    out: Path

    @property
    def name(self) -> str:
        """The task, with its fold."""
        return self.task if self.fold is None else f"{self.task}-fold{self.fold}"


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its status, the counts of what was made, or what was missing or wrong."""

    job: Job
    status: Status
    counts: dict[str, Any]
    message: str = ""


def jobs(out: Path) -> list[Job]:
    """A job for every known task with official files; folds lie in a folder of their task."""
    found: list[Job] = []
    for card in all_cards():
        if card.source.reader == "files":
            found += fold_jobs(card.name, out / card.name) if card.folds else [Job(card.name, None, out / card.name)]
    return found


def fold_jobs(task: str, out: Path) -> list[Job]:
    """A job for every fold of one task."""
    return [Job(task, fold, out / f"fold{fold}") for fold in range(1, load_card(task).folds + 1)]


def run_all(
    source: Path, todo: Sequence[Job], *, anywhere: bool = False, force: bool = False, workers: int | None = None
) -> Iterator[Outcome]:
    """Make every artifact whose files are found; outcomes come as they are ready.

    Each process looks into the folder once and keeps it open. Folders are taken by the names the cards give, unless `anywhere`.
    """
    workers = min(workers or os.cpu_count() or 1, len(todo)) or 1
    if workers == 1:
        with SourceTree.open(source) as tree:
            for job in todo:
                yield _prepare(job, tree, source, anywhere, force)
        return
    # A fault of the source is told here: in a worker, which opens it too, it would only break the pool.
    with SourceTree.open(source):
        pass
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_open, initargs=(source,)) as pool:
        for future in as_completed([pool.submit(_work, job, source, anywhere, force) for job in todo]):
            yield future.result()


_tree: SourceTree | None = None


def _open(source: Path) -> None:
    global _tree
    _tree = SourceTree.open(source)


def _work(job: Job, source: Path, anywhere: bool, force: bool) -> Outcome:
    if _tree is None:
        raise RuntimeError("the process has no tree")
    return _prepare(job, _tree, source, anywhere, force)


def _prepare(job: Job, tree: SourceTree, source: Path, anywhere: bool, force: bool) -> Outcome:
    recipe = PrepareRecipe(task=job.task, source=source, fold=job.fold)
    try:
        artifact = prepare(recipe, tree, job.out, anywhere=anywhere, force=force)
    except FilesMissingError as error:
        return Outcome(job, "incomplete" if error.found else "not found", {}, str(error))
    except OslerError as error:
        return Outcome(job, "failed", {}, str(error))
    return Outcome(job, "reused" if artifact.reused else "made", artifact.manifest.counts)
