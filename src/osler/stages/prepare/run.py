"""Prepare a task: read its records from the official files, check them, and write the task artifact."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from osler.artifacts.task_folder import TaskWriter, in_order
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.errors import InputError, OslerError, RecipeError, nearest
from osler.formats.sources import Source, SourceTree
from osler.stages.prepare.config import PrepareRecipe
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import all_cards, card_paths, load_card
from osler.tasks.records import OffsetCounts, RecordCounts, RecordReducer
from osler.tasks.sources import TaskSource, open_source
from osler.tasks.sources.files import FilesMissingError


def plan(recipe: PrepareRecipe, out: Path) -> list[str]:
    """Describe what `run` will do."""
    card = _resolved_card(recipe)
    open_source(card, recipe.source)  # raises an error if anything is missing or wrong
    source = "the built-in synthetic clinic" if card.source.reader == "clinic" else str(recipe.source)
    return [f"prepare task {card.name} ({card.kind}, {card.language}) from {source}", f"write it to {out}"]


def run(recipe: PrepareRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the task artifact."""
    return _prepare(recipe, recipe.source, out, anywhere=True, force=force)


def _prepare(recipe: PrepareRecipe, given: Source | None, out: Path, *, anywhere: bool, force: bool) -> Artifact:
    card = _resolved_card(recipe)
    with open_source(card, given, anywhere=anywhere) as source:
        # Keep the hash of cards without releases as it was before releases existed.
        described = card.model_dump_json(exclude=None if card.releases else {"release", "releases"})
        parents = {"card": hashlib.sha256(described.encode()).hexdigest(), "files": source.digest}

        def build(work: Workspace) -> None:
            write_task(card, source, work, recipe.source)

        return produce(out, kind="task", recipe=recipe, parents=parents, build=build, force=force)


def _resolved_card(recipe: PrepareRecipe) -> TaskCard:
    """Load the card and apply the recipe's release, options and fold."""
    card = load_card(recipe.task)
    if recipe.release is not None:
        card = card.at_release(recipe.release)
    if recipe.options:
        source = card.source.model_copy(update={"options": {**card.source.options, **recipe.options}})
        card = card.model_copy(update={"source": source})
    if recipe.fold is not None:
        return card.at_fold(recipe.fold)
    if card.folds and card.fold is None:
        problem = f"task {card.name} has {card.folds} folds, and each is prepared separately"
        raise RecipeError(problem, fix="Choose one with --fold 1, --fold 2, …")
    return card


def write_task(card: TaskCard, source: TaskSource, work: Workspace, given: Path | None) -> None:
    """Write the files of a task and count their contents."""
    reducer = RecordReducer(card)
    counts: dict[str, RecordCounts] = defaultdict(partial(RecordCounts, card.kind))
    offsets = OffsetCounts()
    with TaskWriter(work.path, pairs=card.record == "pair") as writer:
        for split, record in source.records():
            reduced = reducer(record)
            counts[split].add(reduced)
            offsets.add(reduced)
            writer.add(split, reduced)
    facts = source.facts()
    if "release" in facts:
        card = card.at_release(facts["release"])
    for name, layout in card.source.splits.items():
        if name not in counts and not layout.optional:
            problem = f"the split {name!r} of task {card.name} is empty"
            raise InputError(problem, where=given, fix="Check the source files")
    if card.discover_labels:
        labels = sorted({label for found in counts.values() for label in found.labels})
        card = card.model_copy(update={"labels": tuple(labels)})
    splits = {split: counts[split].as_dict() for split in in_order(counts)}
    work.counts.update({split: found["documents"] for split, found in splits.items()})
    work.counts["splits"] = splits
    if reducer.left_out:
        work.counts["left_out"] = dict(sorted(reducer.left_out.items()))
    work.counts |= facts
    work.counts["offsets"] = offsets.as_dict(work.counts.get("problems", {}))
    writer.write_card(card)


Status = Literal["made", "reused", "not found", "incomplete", "failed"]


@dataclass(frozen=True)
class PrepareJob:
    """One task artifact to make: a task, or one fold of it."""

    task: str
    fold: int | None
    out: Path

    @property
    def name(self) -> str:
        return self.task if self.fold is None else f"{self.task}-fold{self.fold}"


@dataclass(frozen=True)
class PrepareOutcome:
    """Result of a job: its status, and either the artifact's counts or the error message."""

    job: PrepareJob
    status: Status
    counts: dict[str, Any]
    message: str = ""


def jobs(out: Path) -> list[PrepareJob]:
    """Return a job for every known task with official files; the folds of a task share a folder."""
    found: list[PrepareJob] = []
    for card in all_cards():
        if card.source.reader == "files":
            folder = out / card.name
            found += fold_jobs(card.name, folder) if card.folds else [PrepareJob(card.name, None, folder)]
    return found


def fold_jobs(task: str, out: Path) -> list[PrepareJob]:
    """Return a job for every fold of one task."""
    return [PrepareJob(task, fold, out / f"fold{fold}") for fold in range(1, load_card(task).folds + 1)]


def run_all(
    source: Path, todo: Sequence[PrepareJob], *, anywhere: bool = False, force: bool = False, workers: int | None = None
) -> Iterator[PrepareOutcome]:
    """Make every artifact whose files are found, and yield the outcomes as they finish.

    Each process scans the source once and keeps it open. Without `anywhere`, files count only in the folders named in the
    cards.
    """
    workers = min(workers or os.cpu_count() or 1, len(todo)) or 1
    if workers == 1:
        with SourceTree.open(source) as tree:
            for job in todo:
                yield _outcome(job, tree, source, anywhere, force)
        return
    # Fail before starting workers if the source cannot be read.
    SourceTree.open(source).close()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context) as pool:
        for future in as_completed([pool.submit(_work, job, source, anywhere, force) for job in todo]):
            yield future.result()


_open_once = cache(SourceTree.open)


def _work(job: PrepareJob, source: Path, anywhere: bool, force: bool) -> PrepareOutcome:
    return _outcome(job, _open_once(source), source, anywhere, force)


def _outcome(job: PrepareJob, tree: SourceTree, source: Path, anywhere: bool, force: bool) -> PrepareOutcome:
    recipe = PrepareRecipe(task=job.task, source=source, fold=job.fold)
    try:
        artifact = _prepare(recipe, tree, job.out, anywhere=anywhere, force=force)
    except FilesMissingError as error:
        return PrepareOutcome(job, "incomplete" if error.found else "not found", {}, str(error))
    except OslerError as error:
        return PrepareOutcome(job, "failed", {}, str(error))
    return PrepareOutcome(job, "reused" if artifact.reused else "made", artifact.manifest.counts)


def task_folders(
    given: Sequence[str | Path],
    data: Path | None = None,
    *,
    dry_run: bool = False,
    show: Callable[[list[str]], None] | None = None,
) -> list[Path]:
    """Find the folder of each task: as given, in `tasks/NAME`, or prepared there from the official files in `data`.

    `show` receives the plan of each task that has to be prepared.
    """
    folders = []
    for task in map(Path, given):
        name, known = str(task), card_paths()
        folder = Path("tasks") / name
        if task.exists() or name not in known:
            likely = nearest(name, known) if len(task.parts) == 1 and not task.exists() else None
            if likely:
                raise InputError(f"{name} is neither a folder nor a task", fix=f"Did you mean {likely}?")
            folder = task
        elif not folder.exists():
            if data is None and load_card(name).source.reader != "clinic":
                command = f"osler tasks prepare {name} --from DIR --out {folder}"
                fix = f"Give the folder with the official files with --data, or run: {command}"
                raise InputError(f"task {name} is not prepared: the folder {folder} does not exist", fix=fix)
            recipe = PrepareRecipe(task=name, source=data)
            if show:
                show(plan(recipe, folder))
            if not dry_run:
                run(recipe, folder)
        folders.append(folder)
    return folders
