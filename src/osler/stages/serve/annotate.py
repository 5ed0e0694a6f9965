"""Annotate notes with entities, relations and labels, and pairs of texts with labels and values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

from osler.artifacts.bundle_spec import BundleSpec
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import console, progress
from osler.core.errors import ArtifactError, InputError, RecipeError
from osler.core.extras import available
from osler.core.files import remove_tree, write_atomic, write_json
from osler.formats.jsonl import json_line
from osler.formats.registry import get_format
from osler.stages.serve.config import AnnotateRecipe
from osler.stages.serve.engine import AnnotationEngine
from osler.stages.serve.inputs import Notes, Skipped
from osler.text.document import Record, TextPair

_SKIPPED = "skipped.jsonl"
_SHOWN = 10


def plan(recipe: AnnotateRecipe, out: Path | None) -> list[str]:
    """Describe what will be done."""
    notes = Notes(recipe)
    _check_bundle(recipe.bundle)
    one = notes.files[0].shown
    lines = [f"annotate {one if len(notes.files) == 1 else f'{len(notes.files)} files'} with {recipe.bundle}"]
    if notes.left_out:
        listed = ", ".join(f"{count:,} {ending}" for ending, count in sorted(notes.left_out.items()))
        lines.append(f"not read: {listed}")
    if recipe.bundle.is_dir():
        lines.append(f"heads: {', '.join(_heads(BundleSpec.load(recipe.bundle), recipe, notes))}")
    return [*lines, f"write {recipe.format} to {out or 'standard output'}"]


def run(recipe: AnnotateRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make a folder of annotations: `annotations.jsonl`, or pairs of brat files.

    `skipped.jsonl` lists the files and lines that could not be read, if there are any.
    """
    bundle = Artifact.open(recipe.bundle, kind="bundle")
    notes = Notes(recipe)
    parents: dict[str, str | Artifact] = {"bundle": bundle, "files": notes.digest()}

    def build(work: Workspace) -> None:
        found: Counter[str] = Counter()
        target = work.path / ("annotations.jsonl" if recipe.format == "jsonl" else "brat")
        remove_tree(target)  # from an interrupted run
        loss = get_format(recipe.format).write(_annotated(recipe, notes, found), target)
        work.counts.update(found)
        if notes.skipped:
            work.counts["skipped"] = len(notes.skipped)
            lines = (json.dumps(item._asdict(), ensure_ascii=False) + "\n" for item in notes.skipped)
            write_atomic(work.path / _SKIPPED, "".join(lines))
        if loss:
            write_json(work.path / "loss.json", dict(loss.counts))

    return produce(out, kind="annotations", recipe=recipe, parents=parents, build=build, force=force)


def skipped(annotations: Artifact) -> list[Skipped]:
    """What could not be read when these annotations were made."""
    path = annotations.path / _SKIPPED
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Skipped(**json.loads(line)) for line in lines]


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


def stream(recipe: AnnotateRecipe, target: TextIO) -> list[Skipped]:
    """Write one JSON object per note or pair as soon as its batch is done; returns what could not be read."""
    _check_bundle(recipe.bundle)
    notes = Notes(recipe)
    for record in _annotated(recipe, notes, Counter()):
        target.write(f"{json_line(record)}\n")
    return notes.skipped


def _check_bundle(folder: Path) -> None:
    """Refuse a path that is no bundle before anything slow is imported, and in a dry run."""
    if folder.is_file():
        raise ArtifactError("this is a file, not a bundle", where=folder, fix="Give a folder that osler finetune made")
    # Without torch the missing extra is told first: nothing works before that.
    if available("torch"):
        BundleSpec.load(folder)


def _heads(spec: BundleSpec, recipe: AnnotateRecipe, notes: Notes) -> list[str]:
    """Heads for what the files hold, as far as this is known before they are read."""
    found = []
    if recipe.format == "brat" and "pair" in notes.kinds:
        raise RecipeError("brat cannot hold pairs of texts", fix="Write them with --format jsonl")
    for kind, choose in (("document", spec.document_heads), ("pair", spec.pair_heads)):
        if kind in notes.kinds:
            found += choose(recipe.heads, recipe.language)
    return found or spec.heads_for("document", recipe.heads, recipe.language)


def _annotated(recipe: AnnotateRecipe, notes: Notes, found: Counter[str]) -> Iterator[Record]:
    """Annotate batch by batch, counting notes, pairs, entities and relations in `found`."""
    engine = AnnotationEngine.load(recipe.bundle, recipe, recipe.device)
    _heads(engine.bundle.spec, recipe, notes)  # fails before the first batch
    advised = False
    records = iter(notes)
    with progress("annotate", total=notes.count()) as bar:
        while batch := list(islice(records, recipe.batch)):
            advised = advised or _advise(engine, batch)
            for record in engine.annotate(batch):
                found.update(_contents(record))
                yield record
            bar.advance(len(batch))
    if not found and notes.skipped:
        first, *others = notes.skipped
        more = f" ({len(others):,} more could not be read either)" if others else ""
        raise InputError(f"{first.problem}{more}", where=first.where, fix=first.fix)


def _contents(record: Record) -> dict[str, int]:
    if isinstance(record, TextPair):
        return {"pairs": 1}
    return {"documents": 1, "entities": len(record.spans), "relations": len(record.relations)}


def _advise(engine: AnnotationEngine, batch: Sequence[Record]) -> bool:
    """Warn if the text is in another language than the heads; whether there was something to warn about."""
    mismatch = engine.language_mismatch(batch)
    if mismatch is None:
        return False
    advice = f" Leave them out with --language {mismatch.choose}." if mismatch.choose else ""
    console().print(f"[bold yellow]![/] {mismatch.problem}.{advice}")
    return True
