"""Annotate text files with entities, relations and labels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

from osler.artifacts.bundle import Bundle
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import progress
from osler.core.errors import InputError
from osler.core.files import fingerprint, remove_tree, write_json
from osler.formats.jsonl import as_json
from osler.formats.registry import get_format
from osler.stages.serve.config import AnnotateRecipe
from osler.text.document import Document, check_text

_LINES = (".jsonl", ".ndjson")


def plan(recipe: AnnotateRecipe, out: Path | None) -> list[str]:
    """Describe what will be done."""
    files = input_files(recipe.files)
    return [
        f"annotate {len(files)} file(s) with {recipe.bundle}",
        f"write {recipe.format} to {out if out else 'standard output'}",
    ]


def run(recipe: AnnotateRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make a folder of annotations: `annotations.jsonl`, or pairs of brat files."""
    bundle = Artifact.open(recipe.bundle, kind="bundle")
    parents: dict[str, str | Artifact] = {"bundle": bundle, "files": fingerprint(input_files(recipe.files))}

    def build(work: Workspace) -> None:
        found: Counter[str] = Counter()
        target = work.path / ("annotations.jsonl" if recipe.format == "jsonl" else "brat")
        remove_tree(target)  # from an interrupted run
        loss = get_format(recipe.format).write(_annotated(recipe, found), target)
        work.counts.update(found)
        if loss:
            write_json(work.path / "loss.json", dict(loss.counts))

    return produce(out, kind="annotations", recipe=recipe, parents=parents, build=build, force=force)


def stream(recipe: AnnotateRecipe, target: TextIO) -> int:
    """Write one JSON object per document as soon as its batch is done; returns the number of documents."""
    found: Counter[str] = Counter()
    for document in _annotated(recipe, found):
        target.write(json.dumps(as_json(document), ensure_ascii=False) + "\n")
    return found["documents"]


def _annotated(recipe: AnnotateRecipe, found: Counter[str]) -> Iterator[Document]:
    """Annotate the files batch by batch, counting documents, entities and relations in `found`."""
    bundle = Bundle.load(recipe.bundle, recipe.device)
    heads = bundle.spec.document_heads(recipe.heads, recipe.language)
    reader = _documents(input_files(recipe.files))
    with progress("annotate") as bar:
        while batch := list(islice(reader, recipe.batch)):
            for document in bundle.annotate(batch, heads):
                kept = _above(recipe.min_score, document)
                found.update(documents=1, entities=len(kept.spans), relations=len(kept.relations))
                yield kept
            bar.advance(len(batch))


def _above(min_score: float, document: Document) -> Document:
    """Drop spans and relations with a low score, and relations of dropped spans."""
    spans = tuple(span for span in document.spans if (span.score or 1.0) >= min_score)
    kept = {span.id for span in spans}
    relations = tuple(
        relation
        for relation in document.relations
        if (relation.score or 1.0) >= min_score and {relation.head, relation.tail} <= kept
    )
    return document.with_(spans=spans, relations=relations)


def input_files(paths: Sequence[Path]) -> list[Path]:
    """List the files to read; a folder gives its text and JSON Lines files, sorted."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(item for item in path.rglob("*") if item.suffix in {".txt", *_LINES} and item.is_file())
            if not inside:
                raise InputError("no .txt or .jsonl file in this folder", where=path, fix="Name the files to annotate")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise InputError("no such file", where=path, fix="Check the path")
    return found


def _documents(files: Sequence[Path]) -> Iterator[Document]:
    for path in files:
        if path.suffix not in _LINES:
            try:
                text = check_text(path.read_bytes().decode("utf-8"), where=str(path))
            except UnicodeDecodeError as error:
                raise InputError(
                    f"not UTF-8 at byte {error.start}", where=path, fix="Convert the file to UTF-8"
                ) from None
            yield Document(path.stem, text, meta={"file": path.name})
            continue
        for record in get_format("jsonl").read(path):
            if not isinstance(record, Document):
                raise InputError(
                    "a pair of texts cannot be annotated", where=path, fix="Give documents with a text field"
                )
            yield record
