"""Tokenise a corpus once, into shards that every later run maps into memory."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tokenizers

from osler.artifacts.corpus import DENSITY, Corpus, RowGroup
from osler.artifacts.token_shards import SPLITS, TokenIndex, TokenShards, TokenShardsWriter
from osler.artifacts.tokenizer import TOKENIZER, Tokenizer
from osler.core.artifact import MANIFEST, Artifact, Manifest, Workspace, identity_of, produce
from osler.core.config import Recipe
from osler.core.errors import ArtifactError, InputError, OutputError
from osler.core.processes import LocalPool
from osler.stages.pretrain.config import PretrainRecipe
from osler.text.sentences import LANGUAGES
from osler.text.sentences import sentences as split_sentences

SLICE_BYTES = 8 << 20
"""Approximate text per shard. A worker holds this much in memory, and a killed run loses at most this much work."""
SPLIT_HASH = "blake2b-64"
"""Name of the hash that chooses the validation documents."""
PATIENT_SPLIT_HASH = "blake2b-64-patient"
"""Name of the hash for a corpus with patients, where it is taken of the patient."""
_ROWS = 32
_SMALL = 5_000


class TokensRecipe(Recipe):
    """Settings that, with the corpus and the tokenizer, determine the shards."""

    later: ClassVar = ("sentences",)

    validation_share: float
    layout: int = 2
    """Version of the file layout. Bump it on every change, so that older folders are not reused."""
    sentences: bool = False
    """Whether to store sentence ends, for next-sentence prediction."""


def tokens_folder(recipe: PretrainRecipe, out: Path) -> Path:
    """Return the folder of the tokenised corpus: next to the run unless the recipe names one."""
    return recipe.tokens or out.with_name(f"{out.name}.tokens")


def reusable_shards(
    corpus: Corpus, tokenizer: Tokenizer, folder: Path, validation_share: float, *, sentences: bool = False
) -> TokenShards | None:
    """Return the shards in a folder if `tokenise` would reuse them."""
    shards = TokenShards.find(folder)
    settings = TokensRecipe(validation_share=validation_share, sentences=sentences)
    wanted = identity_of("tokens", settings, _parents(corpus, tokenizer))
    return shards if shards and shards.manifest.identity == wanted else None


def check_folder(
    corpus: Corpus,
    tokenizer: Tokenizer,
    folder: Path,
    validation_share: float,
    *,
    replace: bool,
    sentences: bool = False,
) -> TokenShards | None:
    """Return the shards that `tokenise` would reuse, or raise its error if the folder holds anything else."""
    shards = reusable_shards(corpus, tokenizer, folder, validation_share, sentences=sentences)
    if shards is None and not replace and (found := TokenShards.find(folder)):
        lacks = sentences and not found.index.sentences
        raise OutputError(
            "this folder holds a corpus tokenised from other text, with another tokenizer or another validation_share"
            + (", or without sentences, which next-sentence prediction needs" if lacks else ""),
            where=folder,
            fix="Choose another folder with --set tokens=FOLDER, or replace it with --force",
        )
    # Not even with --force: the folder may be the corpus itself.
    if (folder / MANIFEST).is_file() and (kind := Manifest.read(folder / MANIFEST).kind) != TokenShards.kind:
        raise OutputError(
            f"this folder holds another artifact ({kind}), not a tokenised corpus",
            where=folder,
            fix="Choose another folder with --set tokens=FOLDER",
        )
    return shards


def tokenise(
    corpus: Corpus,
    tokenizer: Tokenizer,
    out: Path,
    validation_share: float,
    *,
    sentences: bool = False,
    workers: int = 0,
    replace: bool = False,
) -> TokenShards:
    """Create, resume or reuse the tokenised corpus.

    With `replace`, shards from another corpus, tokenizer or validation share are overwritten; matching ones are still reused.
    """
    other = check_folder(corpus, tokenizer, out, validation_share, replace=replace, sentences=sentences) is None
    recipe = TokensRecipe(validation_share=validation_share, sentences=sentences)

    def build(work: Workspace) -> None:
        writer = TokenShardsWriter(work.path)
        index = writer.index or _write_shards(corpus, tokenizer, writer, recipe, workers)
        work.counts.update(index.counts)

    parents = _parents(corpus, tokenizer)
    made = produce(out, kind="tokens", recipe=recipe, parents=parents, build=build, force=replace and other)
    shards = TokenShards(made.path, made.manifest, made.reused)
    if os.environ.get("RANK", "0") == "0":
        if shards.reused:
            shards.verify()
        else:
            shards.record_check()
    return shards


def _parents(corpus: Corpus, tokenizer: Tokenizer) -> dict[str, str | Artifact]:
    return {"corpus": corpus, "tokenizer": tokenizer.digest}


@dataclass(frozen=True)
class CorpusSlice:
    """One slice of the corpus, with everything a worker process needs to write its shard."""

    number: int
    groups: tuple[RowGroup, ...]
    writer: TokenShardsWriter
    tokenizer: Path
    tokenizer_digest: str
    dtype: str
    sources: tuple[str, ...]
    recipe: TokensRecipe
    patients: bool
    density: bool


def _write_shards(
    corpus: Corpus, tokenizer: Tokenizer, writer: TokenShardsWriter, recipe: TokensRecipe, workers: int
) -> TokenIndex:
    # Gather row groups into runs of about SLICE_BYTES. No run spans two Parquet files.
    runs: dict[tuple[Path, int], list[RowGroup]] = {}
    before: Counter[Path] = Counter()
    for group in corpus.row_groups():
        runs.setdefault((group.shard, before[group.shard] // SLICE_BYTES), []).append(group)
        before[group.shard] += group.bytes
    dtype = "<u2" if tokenizer.size <= 2**16 else "<u4"
    shared = (writer, tokenizer.folder, tokenizer.digest, dtype, corpus.source_names, recipe)
    facts = (corpus.has_patients, corpus.has_density)
    slices = [CorpusSlice(number, tuple(groups), *shared, *facts) for number, groups in enumerate(runs.values())]
    LocalPool(workers).run_all(write_slice, slices, label="tokenise")
    stored = {"sentences": recipe.sentences, "density": corpus.has_density}
    index = writer.index_shards(len(slices), corpus.source_names, dtype, **stored)
    for split in SPLITS:
        if not index.counts[f"{split}_documents"]:
            raise _no_document(corpus, split, recipe.validation_share)
    writer.write_index(index)
    return index


def check_splits(corpus: Corpus, validation_share: float) -> None:
    """Raise the error of `tokenise` for a small corpus with an empty training or validation split."""
    if corpus.documents > _SMALL:
        return  # slow to read, and with this many documents neither split is empty
    patients = corpus.has_patients
    columns = ["text", "patient"] if patients else ["text"]
    batches = (batch for group in corpus.row_groups() for batch in group.batches(columns))
    held_out = [
        hash_share(key) < validation_share for batch in batches for key in _split_keys(batch, patients=patients)
    ]
    if not any(held_out) or all(held_out):
        raise _no_document(corpus, "train" if any(held_out) else "validation", validation_share)


def _no_document(corpus: Corpus, split: str, validation_share: float) -> InputError:
    return InputError(
        f"none of the {corpus.documents:,} documents falls into the {split} split (validation_share = {validation_share:g})",
        where=corpus.path,
        fix="Use a larger corpus, or set another validation_share",
    )


def write_slice(task: CorpusSlice) -> None:
    """Tokenise one slice into one shard, unless an earlier run did."""
    if task.writer.has_shard(task.number):
        return
    if multiprocessing.parent_process() is not None:
        # Worker processes already keep every core busy; more threads would only slow them down.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = _load_tokenizer(task.tokenizer, task.tokenizer_digest)
    source_numbers = {name: number for number, name in enumerate(task.sources)}
    ids = io.BytesIO()
    documents: list[tuple[int, int, int]] = []
    sentence_ends: list[int] = []
    density: list[float] = []
    # The fast variant skips character offsets, which only sentences need.
    encode = tokenizer.encode_batch if task.recipe.sentences else tokenizer.encode_batch_fast
    columns = ["text", "source", *(["language"] if task.recipe.sentences else [])]
    columns += [*(["patient"] if task.patients else []), *([DENSITY.name] if task.density else [])]
    for batch in (batch for group in task.groups for batch in group.batches(columns, _ROWS)):
        texts, sources = (batch.column(name).to_pylist() for name in columns[:2])
        try:
            encodings = encode(texts, add_special_tokens=False)
        except Exception as error:  # the library raises nothing more specific, and its message may quote the text
            raise ArtifactError(
                "the tokenizer cannot encode this corpus; most often its unk_token is not in its vocabulary",
                where=task.tokenizer / TOKENIZER,
                fix="Train one with osler vocab, or correct unk_token",
            ) from error
        if task.recipe.sentences:
            before = ids.tell() // np.dtype(task.dtype).itemsize
            for text, language, encoding in zip(texts, batch.column("language").to_pylist(), encodings, strict=True):
                sentence_ends += (before + _sentence_ends(text, language, encoding)).tolist()
                before += len(encoding.ids)
        for key, source, encoding in zip(_split_keys(batch, patients=task.patients), sources, encodings, strict=True):
            if encoding.ids:
                ids.write(np.array(encoding.ids, dtype=task.dtype).tobytes())
                end = ids.tell() // np.dtype(task.dtype).itemsize
                documents.append((end, source_numbers[source], int(hash_share(key) < task.recipe.validation_share)))
        if task.density:
            shares = batch.column(DENSITY.name).to_pylist()
            density += [share for share, encoding in zip(shares, encodings, strict=True) if encoding.ids]
    extras = (sentence_ends if task.recipe.sentences else None, density if task.density else None)
    task.writer.write_shard(task.number, ids.getvalue(), documents, *extras)


def _sentence_ends(text: str, language: str | None, encoding: tokenizers.Encoding) -> np.ndarray:
    """Return the number of sub-words up to the end of each sentence. Languages without rules are split by the English ones."""
    if not encoding.ids:
        return np.zeros(0, dtype=np.int64)
    ranges = split_sentences(text, language if language in LANGUAGES else "en")
    starts = np.array([start for start, _ in encoding.offsets])
    ends: np.ndarray = np.searchsorted(starts, [start for start, _ in ranges[1:]])
    return np.unique([*ends[ends > 0], len(starts)])


def split_hash(corpus: Corpus) -> str:
    """Return the name of the hash that chooses validation documents. Encoders record it, so a new hash needs a new name."""
    return PATIENT_SPLIT_HASH if corpus.has_patients else SPLIT_HASH


def _split_keys(batch: Any, *, patients: bool) -> list[str]:
    """Return the key that decides each document's split: its patient, so that none is in both splits, or its text if unknown."""
    texts: list[str] = batch.column("text").to_pylist()
    if not patients:
        return texts
    return [patient or text for patient, text in zip(batch.column("patient").to_pylist(), texts, strict=True)]


def hash_share(text: str) -> float:
    """Hash a text to a number in [0, 1). A document keeps its split when other documents change."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


@lru_cache(maxsize=1)
def _load_tokenizer(folder: Path, digest: str) -> tokenizers.Tokenizer:
    """Load the tokenizer once per process. The digest is part of the cache key, so a changed file is reloaded."""
    return Tokenizer.open(folder).tokenizer
