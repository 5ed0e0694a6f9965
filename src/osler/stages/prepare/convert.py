"""Convert annotation files between formats."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.core.console import progress
from osler.core.errors import InputError, OslerError, OutputError, RecipeError, writing
from osler.core.files import locked, remove_tree, write_json
from osler.formats.base import DEFECTS, Defect, DefectError, Format, Loss, Problems, configure
from osler.formats.output import FILLED, RENAMED, TEXTS
from osler.formats.registry import FORMATS, OUTPUT_FORMATS, detect_format, get_format
from osler.stages.prepare.config import ConvertRecipe
from osler.text.document import Document, Record, Relation, Span, TextPair


@dataclass(frozen=True)
class SkippedDefect:
    """Number of defects of one kind, and where the first is."""

    count: int
    first: str


@dataclass(frozen=True)
class Conversion:
    """Result of a conversion: what was read and written, what the target format could not hold, and defects of the input."""

    path: Path
    read: dict[str, int]
    """Documents, pairs, spans, relations, labels and values in the input."""
    written: dict[str, int]
    """The same counts in the result, from reading it back."""
    lost: dict[str, int]
    """Counts of what was lost, by reason."""
    defects: dict[Defect, SkippedDefect]
    """Defects by kind; only a tolerant conversion has any."""
    report: Path | None

    @property
    def counts(self) -> dict[str, int]:
        """Counts of what was written, or of what was read if osler cannot read the result back."""
        return self.written or self.read


def plan(recipe: ConvertRecipe, out: Path) -> list[str]:
    """Describe what `run` will do."""
    source, target = _source(recipe), _target(recipe)
    seen = "" if recipe.from_format else " (detected)"
    return [f"read {recipe.input} as {source.name}{seen}", f"write {target.name}, a {target.layout}, to {out}"]


def run(recipe: ConvertRecipe, out: Path, *, force: bool = False) -> Conversion:
    """Convert the input and return what was written and lost."""
    source, target = _source(recipe), _target(recipe)
    out = Path(os.path.abspath(out))
    work = out.with_name(f".{out.name}.partial")
    lock = out.with_name(f".{out.name}.lock")
    if not (unfinished := _unfinished(recipe, out, lock)):
        _check_place(recipe.input, out, target, force=force)
    problems = Problems() if recipe.tolerant else None
    counts: Counter[str] = Counter()
    with locked(lock, out), writing(out):
        # Remove leftovers of a killed run; the input is read again from the start.
        remove_tree(work)
        work.mkdir(parents=True)
        if unfinished:
            # Move it away first, so that if this run is killed too, the next finds nothing or its own result.
            os.rename(out, work / f"{out.name}.old")
        try:
            # Some formats derive ids from the file name, so the file needs its final name from the start.
            made = work / out.name
            loss = target.write(_counted("convert", _records(source, recipe.input, problems), counts), made)
            if not counts["records"]:
                fix = "Check --from and the path"
                raise InputError(f"no {source.name} records found", where=recipe.input, fix=fix)
            if loss.counts.get("documents", 0) + loss.counts.get("text pairs", 0) == counts["records"]:
                kind = "pairs of texts" if counts["documents"] else "single texts"
                raise RecipeError(
                    f"{target.name} holds {kind} only, and the input has none of them",
                    where=recipe.input,
                    fix="Choose another --to: `osler convert --list` shows what each format holds",
                )
            done = _conversion(out, counts, _reread(target, made), loss, problems)
            # From here on, a kill may leave a result in --out before the run ends; see `_unfinished`.
            lock.write_text(json.dumps(_mark(recipe, made)))
            _write_report(done, source, target, work)
            if out.is_dir():
                os.rename(out, work / f"{out.name}.old")
            os.replace(made, out)
        finally:
            remove_tree(work)
    return done


def _source(recipe: ConvertRecipe) -> Format:
    name = recipe.from_format or detect_format(recipe.input, recipe.input, "--from")
    return configure(get_format(name), recipe.read)


def _target(recipe: ConvertRecipe) -> Format:
    return configure(get_format(recipe.to_format), recipe.write)


def _records(source: Format, path: Path, problems: Problems | None) -> Iterator[Record]:
    try:
        yield from source.read(path, problems=problems)
    except DefectError as error:
        fix = f"{error.fix}, or continue with --tolerant, which keeps {DEFECTS[error.kind][1]}"
        raise InputError(error.problem, where=error.where, fix=fix) from None


def _mark(recipe: ConvertRecipe, made: Path) -> dict[str, Any]:
    found = made.stat()
    return {"recipe": recipe.resolved(), "result": [found.st_ino, found.st_mtime_ns]}


def _unfinished(recipe: ConvertRecipe, out: Path, lock: Path) -> bool:
    """Whether --out is the result of the same command, killed before it ended; it is then made again."""
    try:
        return bool(json.loads(lock.read_text()) == _mark(recipe, out))
    except (OSError, ValueError):
        return False


def _check_place(source: Path, out: Path, target: Format, *, force: bool) -> None:
    if source.resolve().is_relative_to(out.resolve()):
        raise RecipeError("the input is inside --out and would be replaced", where=out, fix="Choose another --out")
    with writing(out):
        if not out.exists() or (target.layout == "folder" and out.is_dir() and not any(out.iterdir())):
            return
    if target.layout == "file" and out.is_dir():
        fix = f"Give a file name such as {out / f'{source.stem}{target.suffixes[0]}'}"
        raise OutputError(f"{target.name} is one file, but --out is a folder", where=out, fix=fix)
    if not force:
        raise OutputError("--out already exists", where=out, fix="Choose another --out, or replace it with --force")
    # Replace a folder only if it holds the target format, so that a mistyped --out deletes nothing else.
    if target.layout == "folder" and not (out.is_dir() and target.detect(out)):
        raise OutputError(f"--out does not hold {target.name}, so it is not replaced", where=out, fix="Remove it first")


def _counted(step: str, records: Iterable[Record], counts: Counter[str]) -> Iterator[Record]:
    with progress(step) as bar:
        for record in records:
            counts["records"] += 1
            if isinstance(record, Document):
                counts["documents"] += 1
                counts["spans"] += len(record.spans)
                counts["relations"] += len(record.relations)
            else:
                counts["pairs"] += 1
            counts["labels"] += len(record.labels)
            counts["values"] += record.value is not None
            yield record
            bar.advance()


def _reread(target: Format, made: Path) -> Counter[str]:
    """Count what the result holds; empty if osler cannot read it, because writing options can give names it does not know."""
    counts: Counter[str] = Counter()
    try:
        for _ in _counted("check", target.read(made, problems=Problems()), counts):
            pass
    except OslerError:
        return Counter()
    return counts


def _conversion(
    out: Path, read: Counter[str], written: Counter[str], loss: Loss, problems: Problems | None
) -> Conversion:
    kinds = [name for name in ("documents", "pairs", "spans", "relations", "labels", "values") if read[name]]
    lost = {reason: int(count) for reason, count in sorted(loss.counts.items()) if count}
    first: dict[Defect, str] = {}
    for example in problems.examples if problems else ():
        first.setdefault(example.kind, example.where)
    defects = {kind: SkippedDefect(problems.counts[kind], where) for kind, where in sorted(first.items()) if problems}
    return Conversion(
        out,
        {name: read[name] for name in kinds},
        {name: written[name] for name in kinds} if written else {},
        lost,
        defects,
        out.with_name(f"{out.name}.loss.json") if lost or defects else None,
    )


def _write_report(done: Conversion, source: Format, target: Format, work: Path) -> None:
    """Write the losses and defects next to the result, or remove the report of an earlier conversion."""
    if done.report is None:
        done.path.with_name(f"{done.path.name}.loss.json").unlink(missing_ok=True)
        return
    found = {
        "from": source.name,
        "to": target.name,
        "records": sum(done.read.get(name, 0) for name in ("documents", "pairs")),
        "read": done.read,
        "written": done.written,
        "lost": done.lost,
        "defects": {kind: defect.count for kind, defect in done.defects.items()},
        "first_defects": {kind: defect.first for kind, defect in done.defects.items()},
    }
    # Write through the work folder, so that a kill leaves no temporary file outside it.
    write_json(work / done.report.name, found)
    os.replace(work / done.report.name, done.report)


_TEXT = "Aspirin and warfarin"
_NOTE = Document("out-1", _TEXT)
_PAIR = TextPair("out-1", "He rests .", "He runs .")


def _spans(label: str, **attributes: str) -> tuple[Span, Span]:
    return (
        Span.at(0, 7, label, id="T1", attributes=attributes),
        Span.at(12, 20, label, id="T2", attributes=attributes),
    )


def _related(**attributes: str) -> Document:
    return _NOTE.with_(spans=_spans("drug", **attributes), relations=(Relation("effect", "T1", "T2", "R1"),))


_ALL_TEXT = Span.at(0, len(_TEXT), "drug", id="T1")
_PROBES: Mapping[str, tuple[Record, ...]] = {
    "texts": (_NOTE, _NOTE.with_(labels=("1",))),
    "spans": (*(_NOTE.with_(spans=_spans(label)) for label in ("drug", "GENE", "Species")),),
    "discontinuous spans": tuple(
        _NOTE.with_(spans=(Span(((0, 7), (12, 20)), label, "T1"),)) for label in ("drug", "Species")
    ),
    "relations": (_related(), _related(concept="D1")),
    "attributes": tuple(_NOTE.with_(spans=_spans("drug", **{key: "1"})) for key in ("note", "element")),
    "scores": (_NOTE.with_(spans=(Span.at(0, 7, "drug", id="T1", score=0.5),)),),
    "labels": (
        _NOTE.with_(labels=("1",)),
        _NOTE.with_(labels=("D:a1",)),
        _NOTE.with_(spans=(_ALL_TEXT,), labels=("drug",)),
    ),
    "values": (_NOTE.with_(value=1.0),),
    "meta": (_NOTE.with_(meta={"note": "x"}),),
    "pairs": (_PAIR,),
    "pair labels": (_PAIR.with_(labels=("yes",)),),
    "pair values": (_PAIR.with_(value=1.0),),
    "pair meta": (_PAIR.with_(meta={"note": "x"}),),
}
# Losses that concern only how a probe record is written.
_SHAPE = {FILLED, RENAMED, "labels rewritten"}


@dataclass(frozen=True)
class Capability:
    """Entry of a format in the list: what it is, how it is laid out and what it can hold."""

    name: str
    description: str
    layout: str
    writable: bool
    holds: tuple[str, ...]


def capabilities() -> Iterator[Capability]:
    """Yield every format, including plug-ins. What each can hold is found by writing small records."""
    for name in sorted({*FORMATS.names(), *OUTPUT_FORMATS.names()}):
        format_ = get_format(name)
        writable = any(_lost(format_, probe) is not None for probe in (_NOTE, _PAIR))
        holds = tuple(
            content for content, probes in _PROBES.items() if any(_held(format_, content, probe) for probe in probes)
        )
        yield Capability(name, format_.description, format_.layout, writable, holds)


def _held(format_: Format, content: str, record: Record) -> bool:
    lost = _lost(format_, record)
    # A table of entities omits the text they occur in.
    return lost is not None and not lost - _SHAPE - (set() if content in ("texts", "pairs") else {TEXTS})


def _lost(format_: Format, record: Record) -> set[str] | None:
    """Return the reasons for losses, or None if the format refuses the record."""
    with tempfile.TemporaryDirectory() as folder:
        name = "out" if format_.layout == "folder" else f"out{format_.suffixes[0]}"
        try:
            loss = format_.write([record], Path(folder) / name)
        except (OslerError, NotImplementedError):
            return None
        return {reason for reason, count in loss.counts.items() if count}
