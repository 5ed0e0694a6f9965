"""Annotate files: raw text in, entities, relations and labels with offsets and scores out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

from osler.bundle.bundle import Bundle
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import progress
from osler.core.files import fingerprint, remove_tree, write_json
from osler.formats.jsonl import as_json
from osler.formats.registry import get_format
from osler.stages.serve.config import AnnotateRecipe
from osler.stages.serve.inputs import documents, input_files
from osler.text.document import Document


def plan(recipe: AnnotateRecipe, out: Path | None) -> list[str]:
    """What will be done, for a person."""
    files = input_files(recipe.files)
    return [
        f"annotate {len(files)} file(s) with {recipe.bundle}",
        f"write {recipe.format} to {out if out else 'standard output'}",
    ]


def stream(recipe: AnnotateRecipe, target: TextIO) -> int:
    """Annotate and write one JSON object a line as soon as a batch is done; returns the number of documents."""
    count = 0
    for document in _annotated(recipe):
        target.write(json.dumps(as_json(document), ensure_ascii=False) + "\n")
        count += 1
    return count


def run(recipe: AnnotateRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make a folder of annotations: `annotations.jsonl`, or brat's pairs of files."""
    bundle = Artifact.open(recipe.bundle, kind="bundle")
    parents: dict[str, str | Artifact] = {"bundle": bundle, "files": fingerprint(input_files(recipe.files))}

    def build(work: Workspace) -> None:
        found: Counter[str] = Counter()

        def counted() -> Iterator[Document]:
            for document in _annotated(recipe):
                found.update(documents=1, entities=len(document.spans), relations=len(document.relations))
                yield document

        target = work.path / ("annotations.jsonl" if recipe.format == "jsonl" else "brat")
        remove_tree(target)  # what an interrupted run began
        loss = get_format(recipe.format).write(counted(), target)
        work.counts.update(found)
        if loss:
            write_json(work.path / "loss.json", dict(loss.counts))

    return produce(out, kind="annotations", recipe=recipe, parents=parents, build=build, force=force)


def _annotated(recipe: AnnotateRecipe) -> Iterator[Document]:
    bundle = Bundle.load(recipe.bundle, recipe.device)
    files = input_files(recipe.files)
    heads = bundle.document_heads(recipe.heads, recipe.language)
    with progress("annotate") as bar:
        reader = documents(files)
        while batch := list(islice(reader, recipe.batch)):
            for document in bundle.annotate(batch, heads):
                yield _scored(document, recipe.min_score)
            bar.advance(len(batch))


def _scored(document: Document, least: float) -> Document:
    """Drop what scores too low, and the relations of what was dropped."""
    spans = tuple(span for span in document.spans if (span.score or 1.0) >= least)
    kept = {span.id for span in spans}
    relations = tuple(
        relation
        for relation in document.relations
        if (relation.score or 1.0) >= least and {relation.head, relation.tail} <= kept
    )
    return document.with_(spans=spans, relations=relations)
