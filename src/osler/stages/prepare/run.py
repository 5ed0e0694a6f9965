"""Prepare a task: read its records from the official files, check them, write the task artifact."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import Field

from osler.artifacts.task_folder import CARD, RecordWriter, in_order
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.config import Recipe, runtime
from osler.core.errors import InputError, OslerError, RecipeError
from osler.core.files import write_atomic
from osler.formats.sources import Source, SourceTree
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import all_cards, load_card
from osler.tasks.records import Narrow, RecordCounts
from osler.tasks.sources import TaskSource, open_source
from osler.tasks.sources.files import FilesMissingError


class PrepareRecipe(Recipe):
    """Which task, from where."""

    task: str
    """The name of a task, or the path of its card."""
    source: Path | None = runtime(None)
    """The folder or archive with the official files; not needed for tasks of the synthetic clinic."""
    fold: int | None = Field(None, ge=1)
    """Which fold, for a task that has them."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the card's source, on top of those in the card (how many notes the clinic writes, say)."""


def plan(recipe: PrepareRecipe, out: Path) -> list[str]:
    """What `run` will do, for a person."""
    card = resolved_card(recipe)
    source = "the embedded synthetic clinic" if card.source.reader == "clinic" else str(recipe.source)
    return [
        f"prepare task {card.name} ({card.kind}, {card.language}) from {source}",
        f"write it to {out}",
    ]


def run(recipe: PrepareRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the task artifact."""
    return prepare(recipe, recipe.source, out, anywhere=True, force=force)


def prepare(recipe: PrepareRecipe, given: Source | None, out: Path, *, anywhere: bool, force: bool = False) -> Artifact:
    """Make the task artifact from a folder, an archive or a tree that is already open."""
    card = resolved_card(recipe)
    with open_source(card, given, anywhere=anywhere) as source:
        parents = {
            "card": hashlib.sha256(card.model_dump_json().encode()).hexdigest(),
            "files": source.digest,
        }

        def build(work: Workspace) -> None:
            _write(card, source, work, recipe.source)

        return produce(out, kind="task", recipe=recipe, parents=parents, build=build, force=force)


def resolved_card(recipe: PrepareRecipe) -> TaskCard:
    """The card with the recipe's options and fold in it."""
    card = load_card(recipe.task)
    if recipe.options:
        source = card.source.model_copy(update={"options": {**card.source.options, **recipe.options}})
        card = card.model_copy(update={"source": source})
    if recipe.fold is not None:
        return card.at_fold(recipe.fold)
    if card.folds and card.fold is None:
        raise RecipeError(
            f"task {card.name} has {card.folds} folds, each a task of its own", fix="Say which one with fold=1, 2, …"
        )
    return card


def _write(card: TaskCard, source: TaskSource, work: Workspace, given: Path | None) -> None:
    narrow = Narrow(card)
    tallies: dict[str, RecordCounts] = {}
    with ExitStack() as stack:
        writers: dict[str, RecordWriter] = {}
        for split, record in source.records():
            if split not in writers:
                path = work.path / f"{split}.parquet"
                writers[split] = stack.enter_context(RecordWriter(path, pairs=card.record == "pair"))
                tallies[split] = RecordCounts(card.kind)
            narrowed = narrow(record)
            tallies[split].add(narrowed)
            writers[split].write(narrowed)
    tallies = {split: tallies[split] for split in in_order(tallies)}
    facts = source.facts()
    for name, layout in card.source.splits.items():
        if name not in tallies and not layout.optional:
            raise InputError(
                f"the split {name!r} of task {card.name} is empty", where=given, fix="Check the source files"
            )
    labels = sorted({label for tally in tallies.values() for label in tally.labels})
    if card.discover_labels:
        card = card.model_copy(update={"labels": tuple(labels)})
    work.counts.update({split: tally.as_dict()["documents"] for split, tally in tallies.items()})
    work.counts["splits"] = {split: tally.as_dict() for split, tally in tallies.items()}
    if narrow.left_out:
        work.counts["left_out"] = dict(sorted(narrow.left_out.items()))
    work.counts |= facts
    write_atomic(work.path / CARD, tomli_w.dumps(card.resolved()))


Status = Literal["made", "reused", "not found", "incomplete", "failed"]


@dataclass(frozen=True)
class PrepareJob:
    """One task artifact to make: a task, or one fold of it."""

    task: str
    fold: int | None
    out: Path

    @property
    def name(self) -> str:
        """The task, with its fold."""
        return self.task if self.fold is None else f"{self.task}-fold{self.fold}"


@dataclass(frozen=True)
class PrepareOutcome:
    """What became of a job: its status, the counts of what was made, or what was missing or wrong."""

    job: PrepareJob
    status: Status
    counts: dict[str, Any]
    message: str = ""


def jobs(out: Path) -> list[PrepareJob]:
    """A job for every known task with official files; folds lie in a folder of their task."""
    found: list[PrepareJob] = []
    for card in all_cards():
        if card.source.reader == "files":
            found += (
                fold_jobs(card.name, out / card.name) if card.folds else [PrepareJob(card.name, None, out / card.name)]
            )
    return found


def fold_jobs(task: str, out: Path) -> list[PrepareJob]:
    """A job for every fold of one task."""
    return [PrepareJob(task, fold, out / f"fold{fold}") for fold in range(1, load_card(task).folds + 1)]


def run_all(
    source: Path, todo: Sequence[PrepareJob], *, anywhere: bool = False, force: bool = False, workers: int | None = None
) -> Iterator[PrepareOutcome]:
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


def _work(job: PrepareJob, source: Path, anywhere: bool, force: bool) -> PrepareOutcome:
    if _tree is None:
        raise RuntimeError("the process has no tree")
    return _prepare(job, _tree, source, anywhere, force)


def _prepare(job: PrepareJob, tree: SourceTree, source: Path, anywhere: bool, force: bool) -> PrepareOutcome:
    recipe = PrepareRecipe(task=job.task, source=source, fold=job.fold)
    try:
        artifact = prepare(recipe, tree, job.out, anywhere=anywhere, force=force)
    except FilesMissingError as error:
        return PrepareOutcome(job, "incomplete" if error.found else "not found", {}, str(error))
    except OslerError as error:
        return PrepareOutcome(job, "failed", {}, str(error))
    return PrepareOutcome(job, "reused" if artifact.reused else "made", artifact.manifest.counts)
