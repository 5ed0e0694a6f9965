"""Several tokenizers on one corpus: a comparison, kept as an artifact where a folder for it is named."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import progress
from osler.core.errors import InputError
from osler.core.extras import require
from osler.core.files import sha256, write_atomic, write_json
from osler.core.logs import get_logger
from osler.stages.vocab.comparison import Comparison
from osler.stages.vocab.config import CompareRecipe
from osler.stages.vocab.loading import Loaded, load_all
from osler.stages.vocab.measuring import compare
from osler.stages.vocab.terms import read_terms
from osler.stages.vocab.texts import Text, sample
from osler.stages.vocab.view import markdown, page

log = get_logger("osler.vocab")
RESULT = "comparison.json"


def plan(recipe: CompareRecipe, out: Path | None) -> list[str]:
    """What a run will do, a line a step."""
    corpus = Artifact.open(recipe.corpus, "corpus")
    documents = int(corpus.manifest.counts.get("documents", 0))
    origin = f"the terms of {recipe.terms}" if recipe.terms else "medical terms found by their parts"
    return [
        f"load {len(recipe.tokenizers)} tokenizers: {', '.join(map(str, recipe.tokenizers))}",
        f"count the words of {min(recipe.sample_documents, documents):,} of {documents:,} documents of {recipe.corpus}, and {origin}",
        f"show terms that at least {recipe.min_documents} of these documents have",
        f"write comparison.json, comparison.md and comparison.html to {out}" if out else "write nothing (no --out)",
    ]


def measure(recipe: CompareRecipe) -> Comparison:
    """Compare without keeping the result."""
    return _compare(recipe, Artifact.open(recipe.corpus, "corpus"), load_all(recipe.tokenizers))


def run(recipe: CompareRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the comparison at `out`, or reuse the one that is there."""
    require("jinja2", "report")
    corpus = Artifact.open(recipe.corpus, "corpus")
    loaded = load_all(recipe.tokenizers)
    # Names and their order stand in the result, so they are part of what it is made from.
    parents: dict[str, str | Artifact] = {
        f"tokenizer {n:02d} {one.name}": one.digest for n, one in enumerate(loaded, 1)
    }
    if recipe.terms:
        read_terms(recipe.terms)  # says what is wrong with it before anything is made
        parents["terms"] = sha256(recipe.terms)
    build = partial(_build, recipe, corpus, loaded)
    return produce(
        out, kind="comparison", recipe=recipe, parents={**parents, "corpus": corpus}, build=build, force=force
    )


def read(artifact: Artifact) -> Comparison:
    """What a finished comparison found."""
    return Comparison.model_validate_json((artifact.path / RESULT).read_bytes())


def _build(recipe: CompareRecipe, corpus: Artifact, loaded: list[Loaded], workspace: Workspace) -> None:
    began = time.monotonic()
    found = _compare(recipe, corpus, loaded)
    write_json(workspace.path / RESULT, found.model_dump(mode="json"))
    write_atomic(workspace.path / "comparison.md", markdown(found))
    page(found).write(workspace.path / "comparison.html")
    everything = found.tokenizers[0].everything
    counts = {
        "tokenizers": len(loaded),
        "documents": everything.documents,
        "words": everything.words,
        "terms": found.terms.used,
    }
    workspace.counts.update(counts)
    log.event("vocab.compared", seconds=round(time.monotonic() - began, 3), **counts)


def _compare(recipe: CompareRecipe, corpus: Artifact, loaded: list[Loaded]) -> Comparison:
    require("pyarrow", "corpus")
    documents = int(corpus.manifest.counts.get("documents", 0))
    if documents == 0:
        raise InputError("the corpus holds no document", where=corpus.path, fix="Make a corpus with text")
    with progress("vocab: count", total=min(documents, recipe.sample_documents)) as bar:

        def texts() -> Iterator[Text]:
            for text in sample(corpus, recipe.sample_documents):
                bar.advance()
                yield text

        return compare(
            loaded,
            texts(),
            corpus_documents=documents,
            given_terms=read_terms(recipe.terms) if recipe.terms else None,
            min_documents=recipe.min_documents,
            shown_terms=recipe.shown_terms,
        )
