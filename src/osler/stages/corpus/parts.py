"""How the input is divided into parts that can be cleaned apart, and the files each part leaves.

A part is small files together or a slice of a large one. The division depends on the input alone, never on the number
of processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.core.extras import require
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.documents import InputFile, Piece
from osler.stages.corpus.readers import READERS

PART_BYTES = 16 << 20
DIGEST_BYTES = 16


@dataclass(frozen=True)
class Part:
    """Pieces that are cleaned together, and the two files they go to."""

    pieces: tuple[Piece, ...]
    recipe: CorpusRecipe
    kept: Path
    removed: Path


def plan_parts(files: Sequence[InputFile], recipe: CorpusRecipe, folder: Path) -> list[Part]:
    """Parts of about PART_BYTES each, in input order."""
    groups: list[list[Piece]] = []
    held = PART_BYTES
    for file in files:
        pieces = READERS.get(file.reader).cut(file, recipe.sources[file.source], PART_BYTES)
        for piece in pieces:
            size = file.size // len(pieces)
            if held + size // 2 >= PART_BYTES:
                groups.append([])
                held = 0
            groups[-1].append(piece)
            held += max(1, size)
    return [
        Part(tuple(group), recipe, folder / f"kept-{index:06d}.parquet", folder / f"removed-{index:06d}.parquet")
        for index, group in enumerate(groups)
    ]


def kept_schema() -> Any:
    """Columns of the documents that a part keeps; `position` counts all documents of the part."""
    pa = require("pyarrow", "corpus")
    return pa.schema(
        [
            ("position", pa.int64()),
            ("source", pa.string()),
            ("file", pa.string()),
            ("row", pa.int64()),
            ("id", pa.string()),
            ("language", pa.string()),
            ("text", pa.string()),
            ("digest", pa.binary(DIGEST_BYTES)),
            ("bytes", pa.int64()),
            ("characters", pa.int64()),
            ("words", pa.int64()),
            ("repaired", pa.bool_()),
        ]
    )


def removed_schema() -> Any:
    """Columns of the documents that a part removes: from where, and why. Never the text."""
    pa = require("pyarrow", "corpus")
    return pa.schema(
        [
            ("position", pa.int64()),
            ("source", pa.string()),
            ("file", pa.string()),
            ("row", pa.int64()),
            ("id", pa.string()),
            ("reason", pa.string()),
        ]
    )
