"""The vocab stage: train a tokenizer on a corpus."""

from __future__ import annotations

import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from osler.artifacts.corpus import Corpus
from osler.artifacts.tokenizer import SPECIAL_TOKENS, Tokenizer
from osler.core.artifact import Artifact, Workspace, check_out, produce
from osler.core.console import progress
from osler.core.errors import InputError, RecipeError
from osler.core.logs import get_logger
from osler.stages.vocab.algorithms import train
from osler.stages.vocab.config import VocabRecipe
from osler.stages.vocab.figures import count, measure_fertility
from osler.stages.vocab.tokenizers import Cutter

log = get_logger("osler.vocab")
SMALLEST_BPE = 256 + len(SPECIAL_TOKENS)  # every byte is an entry
_TITLES = {"bpe": "byte-level BPE", "wordpiece": "WordPiece", "unigram": "unigram"}


def plan(recipe: VocabRecipe, out: Path, *, check: bool = False, force: bool = False) -> list[str]:
    """Describe what a run will do, one line per step. With `check`, raise the errors of a run before it starts."""
    corpus = _open(recipe)
    if check:
        check_out(out, kind="tokenizer", recipe=recipe, parents={"corpus": corpus}, force=force)
    return [
        f"train a {_TITLES[recipe.algorithm]} vocabulary of {recipe.size:,} entries on {recipe.corpus} "
        f"({corpus.documents:,} documents, {corpus.counts.get('words', 0):,} words)",
        f"measure sub-words per word on {min(recipe.sample_documents, corpus.documents):,} documents",
        f"write a Hugging Face tokenizer folder to {out}",
    ]


def run(recipe: VocabRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Train the tokenizer at `out`, or reuse an existing one."""
    corpus = _open(recipe)
    build = partial(_build, recipe, corpus)
    return produce(out, kind="tokenizer", recipe=recipe, parents={"corpus": corpus}, build=build, force=force)


def _open(recipe: VocabRecipe) -> Corpus:
    corpus = Corpus.open(recipe.corpus)
    if not corpus.documents:
        raise InputError("the corpus has no documents", where=corpus.path, fix="Build it from files that have text")
    if recipe.algorithm == "bpe" and recipe.size < SMALLEST_BPE:
        raise _too_small(recipe, SMALLEST_BPE)
    return corpus


def _too_small(recipe: VocabRecipe, least: int) -> RecipeError:
    return RecipeError(
        f"size = {recipe.size:,} is too small: special tokens and single characters alone need {least:,} entries",
        where=recipe.corpus,
        fix=f"Set size to more than {least}",
    )


def _build(recipe: VocabRecipe, corpus: Corpus, workspace: Workspace) -> None:
    began = time.monotonic()

    weights = corpus.source_weights if recipe.weighted else {}

    def texts() -> Iterator[list[str]]:
        read: Counter[str] = Counter()
        with progress("vocab: read", total=corpus.documents) as bar:
            for batch in corpus.batches():
                repeated = []
                for document in batch:
                    # A weight of 2.5 means 2, 3, 2, 3, … times.
                    before, weight = read[document.source], weights.get(document.source, 1.0)
                    read[document.source] += 1
                    times = int((before + 1) * weight) - int(before * weight)
                    repeated += [unicodedata.normalize("NFC", document.text)] * times
                yield repeated
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
        raise _too_small(recipe, reached)
    figures = measure_fertility(Cutter(tokenizer), count(corpus.sample(recipe.sample_documents)))
    statistics = {"size": reached, **figures.plain()}
    Tokenizer.write(workspace.path, tokenizer, recipe.max_length, statistics)
    counts = {key: statistics[key] for key in ("size", "fertility", "whole_words")}
    workspace.counts.update(counts)
    log.event("vocab.done", seconds=round(time.monotonic() - began, 3), **counts)
