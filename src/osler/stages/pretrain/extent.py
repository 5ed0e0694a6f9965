"""How far a run goes, by arithmetic: tokens of so many updates, updates of so many tokens, passes over a corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from osler.core.artifact import Artifact, identity_of
from osler.core.errors import ArtifactError, InputError
from osler.core.files import fingerprint
from osler.core.parquet import undamaged
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.documents import INDEX
from osler.stages.pretrain.shards import corpus_files
from osler.stages.pretrain.tokens import TokensRecipe
from osler.stages.pretrain.updates import Updates
from osler.stages.pretrain.weights import source_weights, sources_on_card
from osler.tasks.tokens import Tokens

_GROUPS, _DOCUMENTS = 8, 1024


def tokens_of(recipe: PretrainRecipe, updates: int) -> int:
    """Tokens that so many updates see, the smaller ones of a ramp at their own size."""
    return Updates(recipe.accumulate, recipe.ramp).batches_before(updates) * recipe.batch_tokens


def updates_of(recipe: PretrainRecipe, tokens: float) -> int:
    """Whole updates that so many tokens suffice for, at least one."""
    return max(1, Updates(recipe.accumulate, recipe.ramp).whole_within(int(tokens // recipe.batch_tokens)))


@dataclass(frozen=True)
class CorpusSize:
    """An epoch of a corpus as this run would see it."""

    documents: int
    epoch_tokens: int
    """Special tokens around every piece included; held-out documents not."""
    piece_lengths: tuple[int, ...]
    """Of the training pieces, or of those of a sample of documents."""
    sampled: int | None
    """Documents in the sample the tokens are estimated from; None where the corpus is tokenised already."""


def corpus_size(recipe: PretrainRecipe, out: Path) -> CorpusSize | None:
    """The size of the recipe's corpus: counted where it is tokenised, else from a sample.

    None where corpus or tokenizer is not there yet.
    """
    if not recipe.corpus.exists() or not recipe.tokenizer.exists():
        return None
    corpus = Artifact.open(recipe.corpus, kind="corpus")
    tokens = Tokens.load(recipe.tokenizer)
    lengths, words, documents = _sample(corpus, tokens)
    room = recipe.max_length - tokens.overhead
    pieces = tuple(piece + tokens.overhead for length in lengths for piece in _pieces(length, room))
    if not pieces:
        raise InputError("the corpus holds no text", where=corpus.path, fix="Build it from documents with text")
    framed = sum(pieces) / sum(lengths)  # with the special tokens around every piece
    weights = source_weights(corpus, recipe.source_weights)
    counted = _counted(recipe, corpus, out)
    if counted is not None:
        shards, index = counted
        tokens_an_epoch = sum(weights[name] * parts["train"] for name, parts in index["sources"].items())
        return CorpusSize(int(shards["train_documents"]), round(framed * tokens_an_epoch), pieces, None)
    share = 1.0 - recipe.validation_share
    estimate = framed * sum(lengths) / max(1, words) * _words(corpus, weights) * share
    return CorpusSize(round(corpus.manifest.counts["documents"] * share), round(estimate), pieces, documents)


def _words(corpus: Artifact, weights: Mapping[str, float]) -> float:
    """Words read in an epoch."""
    sources = sources_on_card(corpus)
    if sources is None:
        return float(corpus.manifest.counts["words"])
    return float(sum(facts["words"] * weights[name] for name, facts in sources.items()))


def _counted(recipe: PretrainRecipe, corpus: Artifact, out: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Counts and index of the tokenised corpus, where an earlier run has left the one that this run would reuse."""
    parents: dict[str, str | Artifact] = {
        "corpus": corpus,
        "tokenizer": fingerprint([recipe.tokenizer / "tokenizer.json"]),
    }
    identity = identity_of("tokens", TokensRecipe(validation_share=recipe.validation_share), parents)
    try:
        shards = Artifact.open(recipe.tokens or out.with_name(f"{out.name}.tokens"), kind="tokens")
        index = json.loads((shards.path / INDEX).read_text(encoding="utf-8"))
    except (ArtifactError, ValueError):
        return None
    return (shards.manifest.counts, index) if shards.manifest.identity == identity else None


def _sample(corpus: Artifact, tokens: Tokens) -> tuple[list[int], int, int]:
    """Tokens of each document of a sample spread evenly over the corpus, and the words and documents in it."""
    files: list[tuple[Path, int]] = []
    for path in corpus_files(corpus.path):
        with undamaged(path):
            files += [(path, group) for group in range(pq.ParquetFile(path).num_row_groups)]
    chosen = _spread(len(files), _GROUPS)
    lengths: list[int] = []
    words = 0
    for place in chosen:
        path, group = files[place]
        with undamaged(path):
            column = pq.ParquetFile(path).read_row_group(group, columns=["text"]).column("text")
        texts: list[str] = column.take(_spread(len(column), _DOCUMENTS // len(chosen))).to_pylist()
        lengths += [len(encoding.ids) for encoding in tokens.encode(texts)]
        words += sum(len(text.split()) for text in texts)
    return [length for length in lengths if length], words, len(lengths)


def _spread(total: int, wanted: int) -> list[int]:
    """At most so many places out of a total, as far apart as can be: sources often lie one after the other."""
    return sorted(set(np.linspace(0, total - 1, wanted).astype(int).tolist())) if total else []


def _pieces(length: int, room: int) -> Iterator[int]:
    full, rest = divmod(length, room)
    yield from [room] * full
    if rest:
        yield rest
