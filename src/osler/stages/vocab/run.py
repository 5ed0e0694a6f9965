"""The vocab stage: train a tokenizer on a corpus."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from osler.artifacts.corpus import Corpus
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import progress
from osler.core.errors import InputError, RecipeError
from osler.core.logs import get_logger
from osler.stages.vocab.algorithms import train
from osler.stages.vocab.config import VocabRecipe
from osler.stages.vocab.figures import count, measure_fertility
from osler.stages.vocab.tokenizers import Cutter

log = get_logger("osler.vocab")
_TITLES = {"bpe": "byte-level BPE", "wordpiece": "WordPiece", "unigram": "unigram"}


def plan(recipe: VocabRecipe, out: Path) -> list[str]:
    """Describe what a run will do, one line per step."""
    corpus = Corpus.open(recipe.corpus)
    return [
        f"train a {_TITLES[recipe.algorithm]} vocabulary of {recipe.size:,} entries on {recipe.corpus} "
        f"({corpus.documents:,} documents, {corpus.counts.get('words', 0):,} words)",
        f"measure sub-words per word on {min(recipe.sample_documents, corpus.documents):,} documents",
        f"write a Hugging Face tokenizer folder to {out}",
    ]


def run(recipe: VocabRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Train the tokenizer at `out`, or reuse the one that is there."""
    corpus = Corpus.open(recipe.corpus)
    build = partial(_build, recipe, corpus)
    return produce(out, kind="tokenizer", recipe=recipe, parents={"corpus": corpus}, build=build, force=force)


def _build(recipe: VocabRecipe, corpus: Corpus, workspace: Workspace) -> None:
    began = time.monotonic()
    if not any(corpus.batches()):
        raise InputError("the corpus has no documents", where=corpus.path, fix="Build a corpus with text")

    def texts() -> Iterator[list[str]]:
        with progress("vocab: read", total=corpus.documents) as bar:
            for batch in corpus.batches():
                yield [unicodedata.normalize("NFC", document.text) for document in batch]
                bar.advance(len(batch))

    tokenizer = train(texts, recipe)
    reached = tokenizer.get_vocab_size()
    if reached < recipe.size:
        raise RecipeError(
            f"size = {recipe.size:,} is more than this corpus allows: it ends at {reached:,} entries",
            where=corpus.path,
            fix=f"Set size = {reached} or less, or give more text",
        )
    if reached > recipe.size:
        raise RecipeError(
            f"size = {recipe.size:,} is too small: special tokens and single characters alone need {reached:,} entries",
            where=corpus.path,
            fix=f"Set size to more than {reached}",
        )
    figures = measure_fertility(Cutter(tokenizer), count(corpus.sample(recipe.sample_documents)))
    statistics = {"size": reached, **figures.plain()}
    Tokenizer.write(workspace.path, tokenizer, recipe.max_length, statistics)
    counts = {key: statistics[key] for key in ("size", "fertility", "whole_words")}
    workspace.counts.update(counts)
    log.event("vocab.done", seconds=round(time.monotonic() - began, 3), **counts)
