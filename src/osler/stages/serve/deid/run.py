"""De-identify files: `osler deid`.

A note that cannot be processed is not written. Findings are stored as offsets, without text, so that an interrupted search
continues where it stopped. After that, all notes are written again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from osler.artifacts.deidentified import MAPPING, NOTES, OFFSETS, REPORT, REVIEW, SKIPPED, Deidentified, SkippedNote
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import console, progress
from osler.core.errors import InputError, OutputError, RecipeError
from osler.core.extras import require
from osler.core.files import csv_row, open_private, remove_tree, write_json
from osler.stages.serve.deid.config import DeidRecipe
from osler.stages.serve.deid.engine import DeidEngine, DeidNote, Failure
from osler.stages.serve.deid.kinds import PhiFinding, category_title
from osler.stages.serve.deid.rules import rules_digest
from osler.stages.serve.deid.surrogates import Keyed, check_faker, random_key, read_key
from osler.stages.serve.inputs import Notes
from osler.text.document import Document, Record

_KEY = ".key"
_FOUND = "found"
_REVIEWED = 200
_TABLES, _LINES = (".csv", ".tsv"), (".jsonl", ".ndjson")
_UNSAFE = re.compile(r"[^\w.-]+")
_SHOWN = 10


class _Numbered(NamedTuple):
    """A note or the reason why it could not be read, with its number in reading order."""

    number: int
    record: Record | Failure

    @property
    def name(self) -> str:
        return f"note-{self.number:06d}"


def plan(recipe: DeidRecipe, out: Path) -> list[str]:
    """Describe what `run` will do, or raise what it would raise."""
    notes = Notes(recipe)
    engine = DeidEngine(recipe, recipe.bundle)
    _check(recipe, out)
    lines = [f"de-identify {len(notes.files):,} {'file' if len(notes.files) == 1 else 'files'} by {engine.covers}"]
    if notes.left_out:
        listed = ", ".join(f"{count:,} {ending}" for ending, count in sorted(notes.left_out.items()))
        lines.append(f"not read: {listed}")
    dates = {"keep-year": "only their year is kept", "mask": "masked"}.get(
        recipe.dates, "shifted by a number of days that depends on the patient"
    )
    style = {"mask": "***", "tag": "its kind, such as [NAME]", "surrogate": "a surrogate"}[recipe.style]
    lines.append(f"write {style} in place of what is found; dates: {dates}; scope: {recipe.scope}")
    lines += engine.costs()
    if recipe.style == "surrogate" or recipe.dates == "shift":
        lines.append(_about_key(recipe))
    private = [name for name, asked in ((MAPPING, recipe.write_mapping), (REVIEW, recipe.review)) if asked]
    if private:
        lines.append(f"{' and '.join(private)} will hold PHI: only you may read them. Do not pass them on")
    return [*lines, f"write notes to {out}; a note that cannot be processed is left out"]


def run(recipe: DeidRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make a folder of de-identified notes."""
    notes = Notes(recipe)
    engine = DeidEngine(recipe, recipe.bundle, recipe.device)
    _check(recipe, out)
    key = read_key(recipe.key_file)
    parents: dict[str, str | Artifact] = {"files": notes.digest(), "rules": rules_digest()}
    if recipe.bundle is not None:
        parents["bundle"] = Artifact.open(recipe.bundle, kind="bundle")
    if recipe.style == "surrogate" or recipe.dates == "shift":
        parents["key"] = _fingerprint(key) if key else "random"
    if recipe.style == "surrogate":
        parents["faker"] = check_faker()

    def build(work: Workspace) -> None:
        # Keep a random key until all notes are written: a resumed run must not mix surrogates of two keys.
        own = key or random_key(work.path / _KEY)
        _build(recipe, notes, engine, own, work)
        remove_tree(work.path / _FOUND)
        (work.path / _KEY).unlink(missing_ok=True)

    artifact = produce(out, kind="deidentified", recipe=recipe, parents=parents, build=build, force=force)
    return Deidentified(artifact.path, artifact.manifest, artifact.reused)


def report_skipped(artifact: Artifact) -> int:
    """Print which notes were not written and why, and return their number."""
    items = Deidentified(artifact.path, artifact.manifest).skipped()
    if items:
        screen = console()
        screen.print(f"[bold yellow]![/] {len(items):,} {'note was' if len(items) == 1 else 'notes were'} not written:")
        for item in items[:_SHOWN]:
            screen.print(f"  {item.note}: {item.problem}. {item.fix}.", markup=False)
        if len(items) > _SHOWN:
            screen.print(f"  and {len(items) - _SHOWN:,} more in {SKIPPED}")
    return len(items)


def _build(recipe: DeidRecipe, notes: Notes, engine: DeidEngine, key: bytes, work: Workspace) -> None:
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    by: Counter[str] = Counter()
    reviewed: list[tuple[Document, DeidNote]] = []
    first: SkippedNote | None = None
    with _Writer(recipe, work.path) as writer, progress("de-identify", total=notes.count()) as bar:
        for batch, found in _searched(recipe, notes, engine, work.path / _FOUND):
            for item, findings in zip(batch, found, strict=True):
                note = _processed(recipe, engine, key, item, findings)
                if isinstance(note, Failure):
                    counts["skipped"] += 1
                    skipped = writer.skip(item, note)
                    first = first or skipped
                    continue
                assert isinstance(item.record, Document)
                writer.write(item, item.record, note)
                counts.update(notes=1, replaced=len(note.findings))
                kinds.update(finding.kind for finding in note.findings)
                by.update("rules" if finding.by == "rule" else finding.by for finding in note.findings)
                if recipe.review and len(reviewed) < _REVIEWED:
                    reviewed.append((item.record, note))
            bar.advance(len(batch))
    if first is not None and not counts["notes"]:
        raise InputError(f"no note could be processed; the first: {first.problem}", fix=first.fix)
    categories: Counter[str] = Counter()
    for kind, count in kinds.items():
        categories[category_title(kind)] += count
    how = {"style": recipe.style, "dates": recipe.dates, "scope": recipe.scope, "found_by": engine.covers}
    tables = {"categories": categories, "kinds": kinds, "by": by}
    ordered = {name: dict(sorted(table.items())) for name, table in tables.items()}
    write_json(work.path / REPORT, {**how, "notes": counts["notes"], "skipped": counts["skipped"], **ordered})
    work.counts.update(notes=counts["notes"], replaced=counts["replaced"])
    if counts["skipped"]:
        work.counts["skipped"] = counts["skipped"]
    if recipe.review:
        from osler.stages.serve.deid.review import review_page

        with open_private(work.path / REVIEW) as page:
            page.write(review_page(reviewed, counts["notes"]).encode())


def _processed(
    recipe: DeidRecipe, engine: DeidEngine, key: bytes, item: _Numbered, findings: list[PhiFinding] | Failure
) -> DeidNote | Failure:
    """De-identify one note, or return why that failed."""
    if isinstance(item.record, Failure):
        return item.record
    if isinstance(findings, Failure) or not isinstance(item.record, Document):
        return findings if isinstance(findings, Failure) else _PAIR
    patient = _patient(recipe, item.record)
    if isinstance(patient, Failure):
        return patient
    try:
        return engine.deidentify(item.record, findings, Keyed(key, patient))
    except Exception:
        # The error may quote the note, so nothing of it is kept.
        return Failure("what was found could not be replaced", "Report this as a bug of osler, without the note")


_PAIR = Failure("it is a pair of texts", "Give notes, one text each")


def _patient(recipe: DeidRecipe, note: Document) -> str | Failure:
    if column := recipe.patient_column:
        own = note.meta.get(column) or (note.id if column in (recipe.id_column, "id") else None)
        return own or Failure(f"it has no value in {column!r}", "Check --patient-column")
    if recipe.patient_pattern:
        match = re.search(recipe.patient_pattern, note.id)
        found = match and (match[1] if match.re.groups else match[0])
        return found or Failure("its id does not match the pattern for patients", "Check --patient-pattern")
    return note.id


def _searched(
    recipe: DeidRecipe, notes: Notes, engine: DeidEngine, folder: Path
) -> Iterator[tuple[list[_Numbered], list[list[PhiFinding] | Failure]]]:
    """Yield batches of notes with their findings, from this run or an interrupted one."""
    folder.mkdir(exist_ok=True)
    numbered = _numbered(notes)
    number = 0
    while batch := list(islice(numbered, recipe.batch)):
        path = folder / f"{recipe.batch}-{number:06d}.json"
        number += 1
        if path.is_file():
            rows = json.loads(path.read_text(encoding="utf-8"))
            yield (
                batch,
                [Failure(**row) if isinstance(row, dict) else [PhiFinding(*item) for item in row] for row in rows],
            )
            continue
        documents = [item.record for item in batch if isinstance(item.record, Document)]
        found = iter(engine.find(documents))
        results = [next(found) if isinstance(item.record, Document) else _PAIR for item in batch]
        write_json(path, [row._asdict() if isinstance(row, Failure) else row for row in results])
        yield batch, results


def _numbered(notes: Notes) -> Iterator[_Numbered]:
    """Yield all inputs in reading order, including those that could not be read."""
    number = unread = 0
    for record in notes:
        while unread < len(notes.skipped):
            yield _Numbered(number := number + 1, _unreadable(notes, unread))
            unread += 1
        yield _Numbered(number := number + 1, record)
    while unread < len(notes.skipped):
        yield _Numbered(number := number + 1, _unreadable(notes, unread))
        unread += 1


def _unreadable(notes: Notes, index: int) -> Failure:
    item = notes.skipped[index]
    return Failure(item.problem, item.fix or "Check the file")


class _Writer(ExitStack):
    """Writes notes, offsets and the list of skipped notes."""

    def __init__(self, recipe: DeidRecipe, folder: Path) -> None:
        super().__init__()
        self._recipe = recipe
        self._folder = folder
        remove_tree(folder / NOTES)  # from an interrupted run
        for name in (SKIPPED, f"{NOTES}.jsonl", f"{NOTES}.csv", OFFSETS, MAPPING, REVIEW):
            (folder / name).unlink(missing_ok=True)
        self._open: dict[str, IO[Any]] = {}
        self._taken: Counter[str] = Counter()
        self._line(OFFSETS)
        suffixes = {path.suffix.lower() for path in recipe.files}
        self._rows = "csv" if suffixes <= set(_TABLES) else "jsonl"
        self._text = not suffixes <= {*_TABLES, *_LINES}

    def write(self, item: _Numbered, original: Document, note: DeidNote) -> None:
        name = self._name(item, original)
        row = {"id": name, "text": note.text}
        row |= {column: original.meta[column] for column in self._recipe.keep_columns if column in original.meta}
        to: str = self._recipe.to
        if to == "same":
            to = "text" if self._text and "file" in original.meta else self._rows
        if to == "text":
            path = self._folder / NOTES / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(note.text.encode())
        elif to == "jsonl":
            self._line(f"{NOTES}.jsonl", row)
        else:
            self._cells(row)
        self._line(OFFSETS, {"note": name, **note.offsets.as_lists()})
        if self._recipe.write_mapping:
            self._map(name, original, note)

    def skip(self, item: _Numbered, why: Failure) -> SkippedNote:
        skipped = SkippedNote(item.name, *why)
        self._line(SKIPPED, skipped._asdict())
        return skipped

    def _name(self, item: _Numbered, original: Document) -> str:
        if not self._recipe.keep_names:
            return item.name
        parts = [_UNSAFE.sub("_", part).lstrip(".") for part in original.id.split("/")]
        name = "/".join(part for part in parts if part) or item.name
        self._taken[name] += 1
        return name if self._taken[name] == 1 else f"{name}-{item.number:06d}"

    def _map(self, name: str, original: Document, note: DeidNote) -> None:
        rows: dict[str, Any] = {"note": name, "id": original.id}
        for finding, (start, end, new_start, new_end) in zip(note.findings, note.offsets.pairs, strict=True):
            pair = {"original": original.text[start:end], "replacement": note.text[new_start:new_end]}
            self._line(MAPPING, {**rows, "kind": finding.kind, **pair}, private=True)

    def _line(self, name: str, row: dict[str, Any] | None = None, *, private: bool = False) -> None:
        if name not in self._open:
            path = self._folder / name
            self._open[name] = self.enter_context(open_private(path) if private else path.open("wb"))
        if row is not None:
            self._open[name].write((json.dumps(row, ensure_ascii=False) + "\n").encode())

    def _cells(self, row: dict[str, str]) -> None:
        columns = ["id", "text", *self._recipe.keep_columns]
        name = f"{NOTES}.csv"
        new = name not in self._open
        if new:
            self._open[name] = self.enter_context((self._folder / name).open("w", encoding="utf-8", newline=""))
        if new:
            self._open[name].write(csv_row(columns))
        self._open[name].write(csv_row(row.get(column, "") for column in columns))


def _check(recipe: DeidRecipe, out: Path) -> None:
    """Raise an error for settings that would touch the input or fail later."""
    target = out.resolve()
    for path in recipe.files:
        given = path.resolve()
        if given.is_dir() and target.is_relative_to(given):
            raise OutputError("this is inside of the folder with the notes", where=out, fix="Choose another --out")
        if given.exists() and given.is_relative_to(target):
            raise OutputError("the notes are inside of this folder", where=out, fix="Choose another --out")
    if recipe.style == "surrogate":
        check_faker()
    if recipe.review:
        require("jinja2", "report")
    if recipe.patient_column and recipe.patient_pattern:
        raise RecipeError("both --patient-column and --patient-pattern", fix="Give one of them")
    if recipe.patient_pattern:
        try:
            re.compile(recipe.patient_pattern)
        except re.error as error:
            raise RecipeError(f"not a regular expression: {error}", where="--patient-pattern") from None
    if recipe.key_file is not None and recipe.key_file.exists():
        read_key(recipe.key_file)


def _about_key(recipe: DeidRecipe) -> str:
    path = recipe.key_file
    if path is None:
        return "the key is random and not kept: another run gives other surrogates and shifts. --key-file keeps one"
    return f"the key is in {path}" if path.exists() else f"a new key is made in {path}: keep it secret and keep it safe"


def _fingerprint(key: bytes) -> str:
    """Hash that identifies the key, slow enough to prevent guessing it."""
    return hashlib.scrypt(key, salt=b"osler deid", n=1 << 14, r=8, p=1, dklen=16).hex()
