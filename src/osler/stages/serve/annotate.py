"""Annotate notes with entities, relations and labels, and pairs of texts with labels and values.

Batches have about equal size, regardless of how notes are split into files. A run with --out keeps finished parts of about a
million characters, so that a killed run only repeats the part it was working on. The output is assembled from the parts at the
end.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.calibration import BundleCalibration
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import console, progress
from osler.core.errors import ArtifactError, InputError, RecipeError
from osler.core.files import atomic, remove_tree, write_atomic, write_json
from osler.core.models import bundle_title
from osler.formats.base import Format, Loss, configure
from osler.formats.jsonl import json_line
from osler.formats.registry import get_format
from osler.stages.serve.config import AnnotateRecipe
from osler.stages.serve.demands import Demands
from osler.stages.serve.engine import AnnotationEngine, chooses_language, kept_objects
from osler.stages.serve.inputs import Notes, Skipped
from osler.text.document import Record, TextPair
from osler.text.language import LANGUAGE_NAMES

_SKIPPED, _LOSS, _PARTS = "skipped.jsonl", "loss.json", "parts"
_SHOWN = 10
_PART = 1 << 20
"""Characters per part. A killed run repeats at most one part."""
_NAMES = {"csv": "entities_csv", "parquet": "entities_parquet"}
"""Formats with another name in the registry, where csv is a table of texts."""
_READ_AS = "read_as:"
"""Prefix of document counts by language of the heads that read them. Nothing follows it if all heads did."""
_HOLD_PAIRS = ("jsonl", "csv", "parquet", "html")


def plan(recipe: AnnotateRecipe, out: Path | None) -> list[str]:
    """Describe what will be done."""
    notes = Notes(recipe)
    _check_bundle(recipe.bundle)
    _target(recipe)
    files = notes.files[0].shown if len(notes.files) == 1 else f"{len(notes.files):,} files"
    lines = [f"annotate {files} with {bundle_title(recipe.bundle)}"]
    if notes.left_out:
        listed = ", ".join(f"{count:,} {ending}" for ending, count in sorted(notes.left_out.items()))
        lines.append(f"not read: {listed}")
    if recipe.bundle.is_dir():
        spec = BundleSpec.load(recipe.bundle)
        lines.append(f"heads: {', '.join(heads := _heads(spec, recipe, notes))}")
        if chooses_language(spec, recipe) and notes.kinds != {"pair"}:
            lines.append("each document is read by the heads for its language, or by all if it shows none of them")
        lines += Demands(spec, BundleCalibration.load(recipe.bundle), recipe).costs(heads)
    return [*lines, f"write {recipe.to} to {out or 'standard output'}"]


def run(recipe: AnnotateRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Annotate into a folder: `annotations.jsonl` or another file, or a folder named after the format.

    `skipped.jsonl` lists the files and lines that could not be read, and `loss.json` what the format could not hold. Both are
    only written if there is something to list.
    """
    bundle = Artifact.open(recipe.bundle, kind="bundle")
    notes = Notes(recipe)
    parents: dict[str, str | Artifact] = {"bundle": bundle, "files": notes.digest()}

    def build(work: Workspace) -> None:
        parts = Parts(work.path / _PARTS)
        found: Counter[str] = Counter()
        for record in _annotated(recipe, notes, found, parts):
            parts.add(record)
        loss = _assemble(recipe, parts, work.path)
        work.counts.update({name: count for name, count in found.items() if not name.startswith(_READ_AS)})
        if read := _read_as(found):
            work.counts["read_as"] = read
        if notes.skipped:
            work.counts["skipped"] = len(notes.skipped)
            lines = (json.dumps(item._asdict(), ensure_ascii=False) + "\n" for item in notes.skipped)
            write_atomic(work.path / _SKIPPED, "".join(lines))
        if notes.renamed:
            work.counts["renamed"] = notes.renamed
        if loss:
            write_json(work.path / _LOSS, dict(sorted(loss.counts.items())))
        remove_tree(parts.folder)

    return produce(out, kind="annotations", recipe=recipe, parents=parents, build=build, force=force)


def stream(recipe: AnnotateRecipe, target: TextIO) -> list[Skipped]:
    """Write one JSON object per note or pair as soon as its batch is done, and return what could not be read."""
    _check_bundle(recipe.bundle)
    notes = Notes(recipe)
    found: Counter[str] = Counter()
    for record in _annotated(recipe, notes, found):
        target.write(f"{json_line(record)}\n")
    report_languages(_read_as(found))
    return notes.skipped


def skipped(annotations: Artifact) -> list[Skipped]:
    """Return what could not be read when these annotations were made."""
    path = annotations.path / _SKIPPED
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Skipped(**json.loads(line)) for line in lines]


def report_languages(read: Mapping[str, int]) -> None:
    """Print how many documents were read by the heads of each language, if their text decided that."""
    if read:
        listed = [
            f"{count:,} as {LANGUAGE_NAMES.get(language, language)}" for language, count in read.items() if language
        ]
        listed += [f"{read['']:,} by all heads"] if "" in read else []
        console().print(f"  documents read: {', '.join(listed)}", style="dim")


def report_loss(annotations: Artifact) -> None:
    """Print what the format could not hold, and how many ids were changed."""
    path = annotations.path / _LOSS
    counts: Mapping[str, int] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if counts:
        listed = ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
        console().print(f"[bold yellow]![/] {annotations.manifest.recipe['to']} cannot hold: {listed}")
    if renamed := annotations.counts.get("renamed"):
        console().print(f"[bold yellow]![/] ids that occurred before were numbered (a~2): {renamed:,}")


def report_skipped(items: Sequence[Skipped]) -> None:
    """Print which files and lines were skipped, why, and what to do."""
    if not items:
        return
    screen = console()
    screen.print(f"[bold yellow]![/] {len(items):,} {'input was' if len(items) == 1 else 'inputs were'} skipped:")
    for item in items[:_SHOWN]:
        screen.print(f"  {item.where}: {item.problem}", markup=False)
    if len(items) > _SHOWN:
        screen.print(f"  and {len(items) - _SHOWN:,} more")
    for fix in dict.fromkeys(item.fix for item in items if item.fix):
        screen.print(f"  {fix}.", markup=False)


class Parts:
    """Annotated notes in files of about equal size, kept between runs until the output is assembled.

    A part is `N.jsonl` and, written after it, `N.json` with its counts. Without the second file, a part is unfinished.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._started = folder / "started.json"
        if not self._started.is_file():
            write_json(self._started, {"date": datetime.now(UTC).date().isoformat()})
        self._lines: list[bytes] = []

    @property
    def date(self) -> str:
        """UTC date on which the first of these runs started."""
        return str(json.loads(self._started.read_text(encoding="utf-8"))["date"])

    def finished(self, number: int, size: int) -> Counter[str] | None:
        """Return the counts of a part if an earlier run finished it."""
        lines, counts = self._paths(number)
        if not lines.is_file() or not counts.is_file():
            return None
        known: dict[str, int] = json.loads(counts.read_text(encoding="utf-8"))
        return Counter(known) if known.pop("notes") == size else None

    def add(self, record: Record) -> None:
        """Add a note to the current part."""
        self._lines.append(json_line(record).encode() + b"\n")

    def finish(self, number: int, found: Mapping[str, int]) -> None:
        """Write the current part: all notes added since the last one."""
        lines, counts = self._paths(number)
        with atomic(lines) as handle:
            handle.writelines(self._lines)
        write_json(counts, {"notes": len(self._lines), **found})
        self._lines.clear()

    def files(self) -> list[Path]:
        """List the finished parts in order."""
        return sorted(self.folder.glob("*.jsonl"))

    def _paths(self, number: int) -> tuple[Path, Path]:
        return self.folder / f"{number:08d}.jsonl", self.folder / f"{number:08d}.json"


def _target(recipe: AnnotateRecipe) -> Format:
    return configure(get_format(_NAMES.get(recipe.to, recipe.to)), recipe.write)


def _assemble(recipe: AnnotateRecipe, parts: Parts, folder: Path) -> Loss:
    """Assemble the output from the parts, one note at a time."""
    target = _target(recipe)
    path = folder / (recipe.to if target.layout == "folder" else f"annotations{target.suffixes[0]}")
    if recipe.to == "jsonl":  # copy the parts as they are
        with atomic(path) as handle:
            for part in parts.files():
                with open(part, "rb") as lines:
                    shutil.copyfileobj(lines, handle, 1 << 20)
        return Loss()
    if any(field.name == "date" for field in fields(target)) and "date" not in recipe.write:
        target = configure(target, {"date": parts.date})
    remove_tree(path)  # from an interrupted run
    read = get_format("jsonl").read
    with progress(f"write {recipe.to}") as bar:

        def records() -> Iterator[Record]:
            for part in parts.files():
                for record in read(part):
                    yield record
                    bar.advance()

        return target.write(records(), path)


def _check_bundle(folder: Path) -> None:
    """Raise an error for a path that is not a bundle, before slow imports and also in a dry run."""
    if folder.is_file():
        raise ArtifactError("this is a file, not a bundle", where=folder, fix="Give a folder that osler finetune made")
    BundleSpec.load(folder)


def _heads(spec: BundleSpec, recipe: AnnotateRecipe, notes: Notes) -> list[str]:
    """Choose heads for the kinds of records in the files, as far as known before reading."""
    found = []
    if recipe.to not in _HOLD_PAIRS and "pair" in notes.kinds:
        raise RecipeError(f"{recipe.to} cannot hold pairs of texts", fix="Write them with --to jsonl or csv")
    for kind, choose in (("document", spec.document_heads), ("pair", spec.pair_heads)):
        if kind in notes.kinds:
            found += choose(recipe.heads, recipe.language)
    return found or spec.heads_for("document", recipe.heads, recipe.language)


def _annotated(
    recipe: AnnotateRecipe, notes: Notes, found: Counter[str], parts: Parts | None = None
) -> Iterator[Record]:
    """Annotate batch by batch, counting notes, pairs, entities, relations and languages in `found`.

    With `parts`, finished parts are skipped, and a part is finished once all its notes were yielded. Batches end where a part
    ends, so that they are the same in a resumed run.
    """
    engine: AnnotationEngine | None = None
    advised = choosing = False
    with progress("annotate", total=notes.count()) as bar, ExitStack() as stack:
        for number, part in enumerate(_pieces(notes, _PART)):
            known = parts.finished(number, len(part)) if parts else None
            if known is not None:
                found.update(known)
                bar.advance(len(part))
                continue
            if engine is None:
                engine = AnnotationEngine.load(recipe.bundle, recipe, recipe.device, recipe.precision)
                _heads(engine.bundle.spec, recipe, notes)  # fails before the first batch
                choosing = chooses_language(engine.bundle.spec, recipe)
                stack.enter_context(kept_objects())
            mine: Counter[str] = Counter()
            for batch in _pieces(part, recipe.batch_characters or engine.bundle.batch_characters):
                languages = engine.languages(batch)
                advised = advised or _advise(engine, batch, languages)
                for record, language in zip(engine.annotate(batch, languages), languages, strict=True):
                    mine.update(_contents(record))
                    if choosing and not isinstance(record, TextPair):
                        mine[f"{_READ_AS}{language or ''}"] += 1
                    yield record
                bar.advance(len(batch))
            found.update(mine)
            if parts:
                parts.finish(number, mine)
    if not found and notes.skipped:
        first, *others = notes.skipped
        more = f" ({len(others):,} more could not be read either)" if others else ""
        raise InputError(f"{first.problem}{more}", where=first.where, fix=first.fix)


def _pieces(records: Iterable[Record], characters: int) -> Iterator[list[Record]]:
    """Split records, in order, into lists of at most this many characters. A longer record is alone in its list."""
    piece: list[Record] = []
    size = 0
    for record in records:
        length = _SHORTEST + _length(record)
        if piece and size + length > characters:
            yield piece
            piece, size = [], 0
        piece.append(record)
        size += length
    if piece:
        yield piece


_SHORTEST = 16
"""Cost of a note in characters on top of its length, so that a million empty notes are not one batch."""


def _length(record: Record) -> int:
    return len(record.first) + len(record.second) if isinstance(record, TextPair) else len(record.text)


def _contents(record: Record) -> dict[str, int]:
    if isinstance(record, TextPair):
        return {"pairs": 1}
    return {"documents": 1, "entities": len(record.spans), "relations": len(record.relations)}


def _read_as(found: Mapping[str, int]) -> dict[str, int]:
    """Count documents by language of the heads that read them, most first. The empty name stands for all heads."""
    read = {name.removeprefix(_READ_AS): count for name, count in found.items() if name.startswith(_READ_AS)}
    return dict(sorted(read.items(), key=lambda item: (-item[1], item[0])))


def _advise(engine: AnnotationEngine, batch: Sequence[Record], languages: Sequence[str | None]) -> bool:
    """Warn if the text is in another language than the heads, and return whether there was a mismatch."""
    mismatch = engine.language_mismatch(batch, languages)
    if mismatch is None:
        return False
    advice = f" Leave them out with --language {mismatch.choose}." if mismatch.choose else ""
    console().print(f"[bold yellow]![/] {mismatch.problem}.{advice}")
    return True
