"""Tokenise a corpus once into memory-mapped shards that every later run reads."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from osler.artifacts.corpus import Corpus
from osler.artifacts.token_shards import (
    INDEX,
    SPLITS,
    Slice,
    TokenisedDocuments,
    row_group_runs,
    write_shard,
)
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, identity_of, produce
from osler.core.config import Recipe
from osler.core.errors import ArtifactError, InputError, OslerError, OutputError
from osler.core.files import fingerprint, sha256, write_atomic, write_json
from osler.core.processes import run_all

__all__ = ["TokenisedDocuments", "TokensRecipe", "tokenise"]

_VERIFIED = Path("logs", "verified.json")


class TokensRecipe(Recipe):
    """What decides the tokenised corpus, besides the corpus and the tokenizer themselves."""

    validation_share: float
    layout: int = 2
    """Of the files; raised when it changes, so that an older folder is not taken for a new one."""


def tokenise(
    corpus: Corpus,
    tokenizer: Path,
    out: Path,
    validation_share: float,
    *,
    workers: int = 0,
    replace: bool = False,
) -> Artifact:
    """Make (or continue, or reuse) the tokenised corpus; `tokenizer` is a tokenizer.json.

    With `replace` a folder made from another corpus, tokenizer or share makes room; one that fits is reused all the same.
    """
    recipe = TokensRecipe(validation_share=validation_share)
    content = fingerprint([tokenizer])
    parents: dict[str, str | Artifact] = {"corpus": corpus, "tokenizer": content}

    def build(work: Workspace) -> None:
        if not (work.path / INDEX).exists():
            _make(corpus, tokenizer, content, work.path, validation_share, workers)
        for left in work.path.rglob(".*.tmp"):  # half a file, from a run that was killed while it wrote
            left.unlink()
        work.counts.update(json.loads((work.path / INDEX).read_text())["counts"])

    found = _identity_at(out)
    other = found != identity_of("tokens", recipe, parents)
    if found is not None and other and not replace:
        raise OutputError(
            "a corpus is here that was tokenised from another text, with another tokenizer or another validation_share",
            where=out,
            fix="Choose another folder with --set tokens=FOLDER, or replace it with --force",
        )
    artifact = produce(out, kind="tokens", recipe=recipe, parents=parents, build=build, force=replace and other)
    if os.environ.get("RANK", "0") == "0":
        _verify_once(artifact)
    return artifact


def _make(corpus: Corpus, tokenizer: Path, content: str, folder: Path, validation_share: float, workers: int) -> None:
    sources = corpus.source_names
    dtype = "<u2" if Tokenizer.open(tokenizer.parent).size <= 2**16 else "<u4"
    slices = [
        Slice(groups, folder / "shards" / f"{number:05d}", tokenizer, content, dtype, sources, validation_share)
        for number, groups in enumerate(row_group_runs(corpus))
    ]
    run_all(write_shard, slices, workers=workers, label="tokenise")
    index = _index(slices, sources, dtype)
    for split in SPLITS:
        if not index["counts"].get(f"{split}_documents"):
            raise InputError(
                f"no document of the corpus falls into the {split} part",
                where=corpus.path,
                fix="Use a larger corpus, or change validation_share",
            )
    write_json(folder / INDEX, index)


def _index(slices: Sequence[Slice], sources: Sequence[str], dtype: str) -> dict[str, Any]:
    """The index from the shards' own records, one shard at a time."""
    counts = dict.fromkeys([f"{split}_{unit}" for split in SPLITS for unit in ("documents", "tokens")], 0)
    tokens = {name: dict.fromkeys(SPLITS, 0) for name in sources}
    shards = []
    for part in slices:
        records = np.load(part.documents)
        lengths = np.diff(records["end"].astype(np.int64), prepend=0)
        for number, split in enumerate(SPLITS):
            here = records["split"] == number
            counts[f"{split}_documents"] += int(here.sum())
            counts[f"{split}_tokens"] += int(lengths[here].sum())
            sums = np.bincount(records["source"][here], weights=lengths[here], minlength=len(sources))
            for name, total in zip(sources, sums, strict=True):
                tokens[name][split] += int(total)
        shards.append({"name": part.shard.name, "documents": len(records), "tokens": int(lengths.sum())})
    return {"dtype": dtype, "counts": counts, "sources": tokens, "shards": shards}


def _identity_at(out: Path) -> str | None:
    """The identity of the tokenised corpus in a folder, if there is one."""
    try:
        return Artifact.open(out, kind="tokens").manifest.identity
    except OslerError:
        return None


def _verify_once(artifact: Artifact) -> None:
    """Check every file against its checksum, and note it so that the next run need not.

    The note holds size and time of each file: a copy of the folder, or a file written since, is checked again.
    """
    stamps = {}
    for name in artifact.manifest.files:
        status = (artifact.path / name).stat()
        stamps[name] = [status.st_size, status.st_mtime_ns]
    note = artifact.path / _VERIFIED
    if artifact.reused and _noted(note) != stamps:
        for name, expected in artifact.manifest.files.items():
            if sha256(artifact.path / name) != expected:
                raise ArtifactError(
                    "this file of the tokenised corpus is damaged: its content does not have the checksum recorded",
                    where=artifact.path / name,
                    fix=f"Delete the folder {artifact.path} and run the same command again; it will be made anew",
                )
    if _noted(note) != stamps:
        try:
            write_atomic(note, json.dumps(stamps) + "\n")
        except OslerError:
            return  # a shared folder that this user may only read: the next run checks again


def _noted(note: Path) -> dict[str, list[int]] | None:
    try:
        return json.loads(note.read_text())  # type: ignore[no-any-return]
    except (OSError, ValueError):
        return None
