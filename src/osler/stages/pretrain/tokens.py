"""Tokenise a corpus once: flat arrays of token ids on disk, with the place of every document, read by memory mapping."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from osler.core.artifact import Artifact, Workspace, produce
from osler.core.config import Recipe
from osler.core.console import progress
from osler.core.errors import InputError, writing
from osler.core.files import fingerprint

_BATCH = 512
_SPLITS = ("train", "validation")


class TokensRecipe(Recipe):
    """What decides the tokenised corpus, besides the corpus and the tokenizer themselves."""

    validation_share: float


@dataclass(frozen=True)
class TokenisedDocuments:
    """The documents of one split, end to end, without special tokens; document i is ids[bounds[i]:bounds[i + 1]]."""

    ids: np.ndarray
    bounds: np.ndarray

    @classmethod
    def open(cls, folder: Path, split: str) -> TokenisedDocuments:
        """Map the arrays of a split."""
        return cls(np.load(folder / f"{split}.ids.npy", mmap_mode="r"), np.load(folder / f"{split}.bounds.npy"))


def tokenise(corpus: Artifact, tokenizer: Path, out: Path, validation_share: float) -> Artifact:
    """Make (or reuse) the tokenised corpus; `tokenizer` is a tokenizer.json."""
    recipe = TokensRecipe(validation_share=validation_share)

    def build(work: Workspace) -> None:
        encoder = Tokenizer.from_file(str(tokenizer))
        dtype = np.uint16 if encoder.get_vocab_size() <= 2**16 else np.uint32
        ids: dict[str, list[np.ndarray]] = {split: [] for split in _SPLITS}
        with progress("tokenise", corpus.manifest.counts.get("documents")) as bar:
            for texts in _batches(corpus.path):
                for text, encoding in zip(texts, encoder.encode_batch(texts, add_special_tokens=False), strict=True):
                    split = "validation" if _share(text) < validation_share else "train"
                    if encoding.ids:
                        ids[split].append(np.array(encoding.ids, dtype=dtype))
                bar.advance(len(texts))
        for split in _SPLITS:
            if not ids[split]:
                raise InputError(
                    f"no document of the corpus falls into the {split} part",
                    where=corpus.path,
                    fix="Use a larger corpus, or change validation_share",
                )
            with writing(work.path):
                np.save(work.path / f"{split}.ids.npy", np.concatenate(ids[split]))
                np.save(work.path / f"{split}.bounds.npy", np.cumsum([0, *map(len, ids[split])], dtype=np.int64))
            work.counts[f"{split}_documents"] = len(ids[split])
            work.counts[f"{split}_tokens"] = int(sum(map(len, ids[split])))

    parents: dict[str, str | Artifact] = {"corpus": corpus, "tokenizer": fingerprint([tokenizer])}
    return produce(out, kind="tokens", recipe=recipe, parents=parents, build=build)


def _batches(folder: Path) -> Iterator[list[str]]:
    for shard in sorted(folder.glob("shards/*.parquet")):
        for batch in pq.ParquetFile(shard).iter_batches(batch_size=_BATCH, columns=["text"]):
            yield batch.column("text").to_pylist()


def _share(text: str) -> float:
    """A number in [0, 1) from the text itself: a document stays in its part whatever else the corpus holds."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64
