"""The vocab stage: a corpus in, a tokenizer out."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osler.artifacts.corpus import Corpus
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import progress
from osler.core.errors import InputError, RecipeError
from osler.core.extras import require
from osler.core.files import write_atomic, write_json
from osler.core.logs import get_logger
from osler.stages.vocab.algorithms import train
from osler.stages.vocab.config import VocabRecipe
from osler.stages.vocab.figures import count, measure_fertility
from osler.stages.vocab.special import BEGIN, END, MASK, PAD, UNKNOWN
from osler.stages.vocab.tokenizers import Cutter

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def write_folder(folder: Path, tokenizer: Tokenizer, max_length: int) -> None:
    """Write tokenizer.json and the two files that name its special tokens."""
    roles: dict[str, Any] = {
        "bos_token": BEGIN,
        "eos_token": END,
        "cls_token": BEGIN,
        "sep_token": END,
        "pad_token": PAD,
        "unk_token": UNKNOWN,
        "mask_token": {
            "content": MASK,
            "lstrip": True,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
        },
    }
    config = {
        # The general class: it takes everything from tokenizer.json, in every version of transformers.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        **roles,
        "mask_token": {"__type": "AddedToken", **roles["mask_token"], "special": True},
    }
    write_atomic(folder / "tokenizer.json", tokenizer.to_str(pretty=True) + "\n")
    write_json(folder / "tokenizer_config.json", config)
    write_json(folder / "special_tokens_map.json", roles)


log = get_logger("osler.vocab")
_TITLES = {"bpe": "byte-level BPE", "wordpiece": "WordPiece", "unigram": "unigram"}


def plan(recipe: VocabRecipe, out: Path) -> list[str]:
    """What a run will do, a line a step."""
    corpus = Corpus.open(recipe.corpus)
    counts = corpus.manifest.counts
    return [
        f"learn a {_TITLES[recipe.algorithm]} vocabulary of {recipe.size:,} entries from {recipe.corpus} "
        f"({counts.get('documents', 0):,} documents, {counts.get('words', 0):,} words)",
        f"measure how it cuts words on {min(recipe.sample_documents, counts.get('documents', 0)):,} documents",
        f"write a Hugging Face tokenizer folder to {out}",
    ]


def run(recipe: VocabRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the tokenizer at `out`, or reuse the one that is there."""
    require("pyarrow", "corpus")
    corpus = Corpus.open(recipe.corpus)
    build = partial(_build, recipe, corpus)
    return produce(out, kind="tokenizer", recipe=recipe, parents={"corpus": corpus}, build=build, force=force)


def _build(recipe: VocabRecipe, corpus: Corpus, workspace: Workspace) -> None:
    began = time.monotonic()
    if not any(corpus.batches()):
        raise InputError("the corpus holds no document", where=corpus.path, fix="Make a corpus with text")
    documents = corpus.manifest.counts.get("documents")

    def texts() -> Iterator[list[str]]:
        with progress("vocab: read", total=documents) as bar:
            for batch in corpus.batches():
                yield [unicodedata.normalize("NFC", text) for _, _, text in batch]
                bar.advance(len(batch))

    tokenizer = train(texts, recipe)
    _check_size(tokenizer.get_vocab_size(), recipe, corpus)
    write_folder(workspace.path, tokenizer, recipe.max_length)
    figures = measure_fertility(Cutter(tokenizer), count(corpus.sample(recipe.sample_documents)))
    statistics = {"size": tokenizer.get_vocab_size(), **figures.plain()}
    write_json(workspace.path / "statistics.json", statistics)
    keys = ("size", "fertility", "whole_words")
    workspace.counts.update({key: statistics[key] for key in keys})
    log.event("vocab.done", seconds=round(time.monotonic() - began, 3), **{key: statistics[key] for key in keys})


def _check_size(reached: int, recipe: VocabRecipe, corpus: Corpus) -> None:
    if reached < recipe.size:
        raise RecipeError(
            f"size = {recipe.size:,} is more than this corpus allows: it ends at {reached:,} entries",
            where=corpus.path,
            fix=f"Set size = {reached} or less, or give more text",
        )
    if reached > recipe.size:
        raise RecipeError(
            f"size = {recipe.size:,} is too small: special tokens and single characters alone take {reached:,} entries",
            where=corpus.path,
            fix=f"Set size to more than {reached}",
        )
