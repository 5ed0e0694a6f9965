"""Corrections of predictions: a log for each annotator, written by the service, and the tasks made from it.

The folder of corrections contains patient text, so only its owner can read it. It has one JSON Lines file of osler records per
annotator, `ANNOTATOR.jsonl`, with one line per save; the last save of a text counts. The metadata of a line says who saved it,
when, with which model, and which heads were reviewed. `models/` keeps the specs of the models, from which the task cards are
made.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from osler.artifacts.bundle_spec import BundleHead, BundleSpec
from osler.core.artifact import Artifact, produce, read_model
from osler.core.config import Recipe, runtime
from osler.core.errors import InputError, RecipeError, nearest, writing
from osler.core.files import write_atomic
from osler.formats.jsonl import json_line, read_line
from osler.tasks.card import Kind, SourceLayout, Split, TaskCard
from osler.text.document import Document, Span, number_spans

CHANGES = ("accepted", "relabelled", "removed", "added")
"""What an annotator can do to an entity."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_MODELS = "models"
_DEV = 5  # every fifth note, by its hash


class CorrectionsRecipe(Recipe):
    """Make tasks from corrections."""

    corrections: Path = runtime()
    """The folder that `osler serve --corrections` writes to."""
    annotators: tuple[str, ...] = runtime(())
    """Annotators whose corrections to use; by default everybody's. Each annotator gets separate tasks."""
    heads: tuple[str, ...] = runtime(())
    """Heads to make tasks for; by default, all that find entities."""


class CorrectedTask(Recipe):
    """Everything that determines the content of a task, besides the notes."""

    head: str
    annotator: str
    dev: int = _DEV


class CorrectionCounts(NamedTuple):
    """Counts of what one annotator has saved."""

    annotator: str
    notes: int
    entities: int
    changes: int
    """Entities relabelled, removed or added."""


@dataclass(frozen=True)
class CorrectionLog:
    """A folder of corrections."""

    folder: Path

    @classmethod
    def create(cls, folder: Path, model: str, spec: BundleSpec) -> Self:
        """Open or create the folder for a served model."""
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            models = folder / _MODELS
            models.mkdir(exist_ok=True, mode=0o700)
            write_atomic(models / f"{model}.json", spec.model_dump_json(indent=2, exclude_none=True) + "\n")
        return cls(folder)

    def annotators(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.jsonl") if _NAME.fullmatch(path.stem))

    def add(self, annotator: str, model: str, heads: Sequence[str], changes: Mapping[str, int], note: Document) -> None:
        """Append one note. Several processes may do so at once, and a kill midway leaves the log intact."""
        check_annotator(annotator)
        said = {key: str(changes.get(key, 0)) for key in CHANGES}
        saved = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta = {"annotator": annotator, "model": model, "heads": " ".join(heads), "saved": saved, **said}
        record = note.with_(id=note_id(note.text), spans=number_spans(note.spans), meta=meta)
        line = json_line(record).encode() + b"\n"
        with self._locked(annotator) as (descriptor, content):
            end = len(content)
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, end)  # remove half a line, left by a full disk
                raise

    def notes(self, annotator: str) -> list[Document]:
        """Return the last save of each text by an annotator, in the order of the first saves."""
        path = self._path(annotator)
        if not path.is_file():
            return []
        with self._locked(annotator) as (_, content):
            lines = content.decode().split("\n")
        found: dict[str, Document] = {}
        for number, line in enumerate(lines, 1):
            if line:
                record = read_line(line, where=f"{path}:{number}")
                if isinstance(record, Document):
                    found[record.id] = record
        return list(found.values())

    def counts(self, annotator: str) -> CorrectionCounts:
        notes = self.notes(annotator)
        changed = sum(int(note.meta.get(key, "0")) for note in notes for key in CHANGES if key != "accepted")
        return CorrectionCounts(annotator, len(notes), sum(len(note.spans) for note in notes), changed)

    def head(self, name: str, model: str) -> BundleHead | None:
        """Return a head of a served model, or None if the model has no such head."""
        path = self.folder / _MODELS / f"{model}.json"
        fix = "Serve the same model with --corrections again, which writes the file anew"
        if not path.is_file():
            raise InputError("the description of a model is missing", where=path, fix=fix)
        return read_model(BundleSpec, path, problem="the description of a model is damaged", fix=fix).heads.get(name)

    def _path(self, annotator: str) -> Path:
        return self.folder / f"{check_annotator(annotator)}.jsonl"

    @contextmanager
    def _locked(self, annotator: str) -> Iterator[tuple[int, bytes]]:
        """Open and lock the log for appending, and yield it with its complete lines."""
        path = self._path(annotator)
        with writing(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                with open(descriptor, "rb", closefd=False) as stream:
                    content = stream.read()
                complete = content[: content.rfind(b"\n") + 1]
                if len(complete) < len(content):  # a process was killed while writing
                    os.ftruncate(descriptor, len(complete))
                yield descriptor, complete
            finally:
                os.close(descriptor)


def check_annotator(name: str) -> str:
    """Raise an error for a name that cannot be part of a file name and a task name."""
    if not _NAME.fullmatch(name):
        problem = "the name of an annotator has lower-case letters, digits and hyphens, at most 40"
        raise InputError(problem, fix="Choose another name")
    return name


def check_note(spec: BundleSpec, heads: Sequence[str], note: Document) -> None:
    """Raise an error for entities that no head could learn: of a head that was not reviewed, or with a label that it lacks."""
    labels: dict[str, set[str]] = {}
    for name in heads:
        head = spec.head(name)
        if head.card.kind is not Kind.TAGGING:
            raise RecipeError(
                f"the head {name} does not find entities", fix=f"Give some of: {', '.join(_taggers(spec))}"
            )
        labels[name] = set(_labels(head))
    for number, span in enumerate(note.spans, 1):
        name = span.attributes.get("head", "")
        if name not in labels:
            fix = "Name the heads whose entities were corrected"
            raise InputError(
                "an entity has no head, or another one than was corrected", where=f"span {number}", fix=fix
            )
        if span.label not in labels[name]:
            raise InputError("its head does not have this label", where=f"span {number}", fix="See /v1/labels")


def note_id(text: str) -> str:
    """Id of a corrected note. It depends on the text alone, so that saving a text again replaces the earlier save."""
    return f"note-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def plan(recipe: CorrectionsRecipe, out: Path) -> list[str]:
    """Describe the tasks and how many corrections they are made from."""
    lines = []
    for count, names, lone in _wanted(recipe):
        share = f"{count.changes:,} changes" if count.changes else "no changes"
        lines.append(f"{count.annotator}: {count.notes:,} notes, {count.entities:,} entities, {share}")
        lines += [f"  → {out / _task_name(name, count.annotator)}" for name in names]
        if lone:
            lines.append(f"  only one note, left out: {', '.join(lone)}")
    return lines


def run(recipe: CorrectionsRecipe, out: Path, *, force: bool = False) -> list[Artifact]:
    """Make a task folder for each annotator and head."""
    log = CorrectionLog(recipe.corrections)
    wanted = _wanted(recipe)
    return [_make(log, name, count.annotator, out, force=force) for count, names, _ in wanted for name in names]


def _wanted(recipe: CorrectionsRecipe) -> list[tuple[CorrectionCounts, list[str], list[str]]]:
    """List annotators with their counts, the heads that they corrected, and those of which they corrected only one note."""
    log, fix = CorrectionLog(recipe.corrections), "Give the folder that osler serve --corrections writes to"
    if not (known := log.annotators()):
        raise InputError("no corrections found", where=recipe.corrections, fix=fix)
    for name in recipe.annotators:
        if name not in known:
            close = nearest(name, known)
            hint = f"Did you mean {close}?" if close else f"Known: {', '.join(known)}"
            raise InputError(f"no corrections by {name}", where=recipe.corrections, fix=hint)
    found, lone = [], []
    for annotator in recipe.annotators or known:
        heads = Counter(name for note in log.notes(annotator) for name in note.meta.get("heads", "").split())
        names = [name for name in heads if not recipe.heads or name in recipe.heads]
        single = [name for name in names if heads[name] < 2]
        lone += [f"{name} by {annotator}" for name in single]
        if len(single) < len(names):
            found.append((log.counts(annotator), [name for name in names if name not in single], single))
    if not found and lone:
        problem = f"only one note was corrected for {', '.join(lone)}: there is nothing to choose the best epoch by"
        fix = "Correct at least two notes; the guide says how many are worthwhile"
        raise InputError(problem, where=recipe.corrections, fix=fix)
    if not found:
        raise InputError("no corrections of these heads", where=recipe.corrections, fix="Check --head")
    return found


def _make(log: CorrectionLog, name: str, annotator: str, out: Path, *, force: bool) -> Artifact:
    from osler.stages.prepare.run import write_task

    notes = [note for note in log.notes(annotator) if name in note.meta.get("heads", "").split()]
    where = log.folder / f"{annotator}.jsonl"
    head = log.head(name, notes[-1].meta["model"])
    if head is None:
        raise InputError(f"the model has no head {name}", where=where, fix="Check the folder of corrections")
    card = _card(head, _task_name(name, annotator), annotator)
    source = _CorrectedNotes(name, notes)
    described = hashlib.sha256(card.model_dump_json().encode()).hexdigest()
    return produce(
        out / card.name,
        kind="task",
        recipe=CorrectedTask(head=name, annotator=annotator),
        parents={"card": described, "notes": source.digest},
        build=lambda work: write_task(card, source, work, where),
        force=force,
    )


@dataclass(frozen=True)
class _CorrectedNotes:
    """Notes that one annotator corrected for one head, as the source of a task."""

    head: str
    notes: Sequence[Document]

    @property
    def digest(self) -> str:
        lines = "\n".join(json_line(note) for note in self.notes)
        return hashlib.sha256(lines.encode()).hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def records(self) -> Iterator[tuple[str, Document]]:
        order = sorted(self.notes, key=lambda note: note.id)
        dev = {note.id for note in order if int(note.id.removeprefix("note-"), 16) % _DEV == 0}
        # The few notes of a small set may all fall on one side; then move the first or the last one.
        dev = {order[0].id} if not dev else dev - {order[-1].id} if len(dev) == len(order) else dev
        for note in order:
            spans = [Span(s.fragments, s.label, s.id) for s in note.spans if s.attributes.get("head") == self.head]
            meta = {key: note.meta[key] for key in ("annotator", "model", "saved")}
            yield ("dev" if note.id in dev else "train"), Document(note.id, note.text, tuple(spans), meta=meta)

    def facts(self) -> dict[str, Any]:
        """Models whose predictions were corrected."""
        return {"models": sorted({note.meta["model"] for note in self.notes})}


def _task_name(head: str, annotator: str) -> str:
    return f"{head}-{annotator}"


def _labels(head: BundleHead) -> tuple[str, ...]:
    return head.card.under(head.card.protocol_named(head.protocol)).labels


def _taggers(spec: BundleSpec) -> list[str]:
    return [name for name, head in spec.heads.items() if head.card.kind is Kind.TAGGING]


def _card(head: BundleHead, name: str, annotator: str) -> TaskCard:
    """Card of a corrected task: the head's own card without facts about its original data."""
    old = head.card
    splits = {split: Split(files=(f"{split}.jsonl",)) for split in ("train", "dev")}
    return TaskCard(
        name=name,
        title=f"{old.title}, corrected by {annotator}",
        kind=old.kind,
        language=old.language,
        domain=old.domain,
        labels=_labels(head),
        sentences="split" if old.sentences == "meta" else old.sentences,
        phi=old.phi,
        licence="your own notes",
        notes=("Made by osler corrections from notes that a person corrected on the page of osler serve.",),
        source=SourceLayout(reader="files", format="jsonl", splits=splits),
        protocol=head.protocol,
        protocols={head.protocol: old.protocol_named(head.protocol).changed(train_on=("train",))},
    )
