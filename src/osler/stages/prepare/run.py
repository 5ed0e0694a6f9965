"""Read a task's records from its source, check them, and write the task artifact."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from pathlib import Path

import tomli_w

from osler.core.artifact import Artifact, Workspace, produce
from osler.core.errors import InputError, RecipeError
from osler.core.files import write_atomic
from osler.formats.sources import Source
from osler.stages.prepare.config import PrepareRecipe
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import load_card
from osler.tasks.counts import Tally
from osler.tasks.data import CARD, RecordWriter, in_order
from osler.tasks.narrow import Narrow
from osler.tasks.sources import TaskSource, open_source


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
    tallies: dict[str, Tally] = {}
    with ExitStack() as stack:
        writers: dict[str, RecordWriter] = {}
        for split, record in source.records():
            if split not in writers:
                path = work.path / f"{split}.parquet"
                writers[split] = stack.enter_context(RecordWriter(path, pairs=card.record == "pair"))
                tallies[split] = Tally(card.kind)
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
