"""Convert files: any format osler reads to any format it writes.

The result is what another program expects to find: the bare file or folder, without a manifest, whole or not at all. It is
built beside its place and moved there by a rename, and nothing is replaced without `force`. What the target could not hold
goes to `OUT.loss.json` beside it, never inside it, where some readers would take it for data.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.core.console import progress
from osler.core.errors import InputError, OutputError, RecipeError, writing
from osler.core.files import locked, remove_tree, write_json
from osler.formats.base import Format, Problems, configure
from osler.formats.registry import detect_formats, get_format
from osler.stages.convert.config import ConvertRecipe
from osler.text.document import Document, Record


@dataclass(frozen=True)
class Conversion:
    """What was written: how much of what, what the target could not hold, what was wrong with the input."""

    path: Path
    counts: dict[str, int]
    lost: dict[str, int]
    defects: dict[str, int]
    report: Path | None


def plan(recipe: ConvertRecipe, out: Path) -> list[str]:
    """What `run` will do, for a person."""
    source, target = _source(recipe), _target(recipe)
    seen = "" if recipe.from_format else " (seen from its files)"
    return [f"read {recipe.input} as {source.name}{seen}", f"write {target.name}, a {target.layout}, to {out}"]


def run(recipe: ConvertRecipe, out: Path, *, force: bool = False) -> Conversion:
    """Convert, and say what was lost."""
    source, target = _source(recipe), _target(recipe)
    out = Path(os.path.abspath(out))
    _check_place(recipe.input, out, target, force=force)
    problems = Problems() if recipe.tolerant else None
    counts: Counter[str] = Counter()
    work = out.with_name(f".{out.name}.partial")
    lock = out.with_name(f".{out.name}.lock")
    with locked(lock, out), writing(out):
        # What a killed run left is of no use: the input is read again from its start.
        remove_tree(work)
        work.mkdir(parents=True)
        try:
            # Some formats make ids of the file's own name, so the file has its final name from the start.
            loss = target.write(_counted(source.read(recipe.input, problems=problems), counts), work / out.name)
            if not counts["records"]:
                raise InputError(
                    f"nothing to read as {source.name}", where=recipe.input, fix="Check --from and the path"
                )
            if loss.counts.get("documents", 0) + loss.counts.get("text pairs", 0) == counts["records"]:
                kind = "pairs of texts" if counts["documents"] else "single texts"
                raise RecipeError(f"{target.name} holds only {kind}, and the input has none", where=recipe.input)
            _move_into_place(work, out)
        finally:
            remove_tree(work)
            lock.unlink(missing_ok=True)
        lost = {reason: int(count) for reason, count in sorted(loss.counts.items()) if count}
        defects = dict(sorted(problems.counts.items())) if problems is not None else {}
        report = _write_report(out, source, target, counts, lost, defects)
    kept = {name: count for name, count in counts.items() if name != "records"}
    return Conversion(out, kept, lost, defects, report)


def _source(recipe: ConvertRecipe) -> Format:
    if recipe.from_format is not None:
        return configure(get_format(recipe.from_format), recipe.read)
    found = detect_formats(recipe.input)
    if len(found) == 1:
        return configure(get_format(found[0]), recipe.read)
    if found:
        problem, fix = f"this could be {' or '.join(found)}", "Say which with --from"
    else:
        problem, fix = "no format osler knows looks like this", "Name it with --from: see `osler convert --list`"
    raise InputError(problem, where=recipe.input, fix=fix)


def _target(recipe: ConvertRecipe) -> Format:
    return configure(get_format(recipe.to_format), recipe.write)


def _check_place(source: Path, out: Path, target: Format, *, force: bool) -> None:
    resolved = source.resolve()
    if resolved.is_relative_to(out.resolve()):
        raise RecipeError("the input lies in --out and would be replaced", where=out, fix="Choose another --out")
    if not out.exists() or (target.layout == "folder" and out.is_dir() and not any(out.iterdir())):
        return
    if target.layout == "file" and out.is_dir():
        example = out / f"{source.stem}{target.suffixes[0]}"
        raise OutputError(
            f"{target.name} is one file and this is a folder", where=out, fix=f"Give a file, say {example}"
        )
    if not force:
        raise OutputError("something is there", where=out, fix="Choose another --out, or replace it with --force")
    # A folder is replaced only where it holds what would be written: a mistyped --out must not cost somebody's files.
    if target.layout == "folder" and not (out.is_dir() and target.detect(out)):
        raise OutputError(
            f"what is there is not {target.name}, so it is not replaced", where=out, fix="Remove it yourself"
        )


def _move_into_place(work: Path, out: Path) -> None:
    if out.is_dir():
        os.rename(out, work / f"{out.name}.old")
    os.replace(work / out.name, out)


def _counted(records: Iterable[Record], counts: Counter[str]) -> Iterator[Record]:
    with progress("convert") as bar:
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


def _write_report(
    out: Path, source: Format, target: Format, counts: Counter[str], lost: dict[str, int], defects: dict[str, int]
) -> Path | None:
    """Write what was lost beside the result; a report of an earlier conversion must not outlive it."""
    path = out.with_name(f"{out.name}.loss.json")
    if not lost and not defects:
        path.unlink(missing_ok=True)
        return None
    found = {"from": source.name, "to": target.name, "records": counts["records"], "lost": lost, "defects": defects}
    write_json(path, found)
    return path
