"""Damaged Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from osler.core.errors import ArtifactError
from osler.core.extras import require


@contextmanager
def undamaged(
    path: Path,
    problem: str = "this file of the corpus is damaged",
    fix: str = "Make the corpus again with --force",
) -> Iterator[None]:
    """Around reading a file that osler wrote: name it where it is damaged. The library's own message may quote its content."""
    arrow = require("pyarrow", "corpus")
    try:
        yield
    except (arrow.ArrowException, OSError) as error:
        raise ArtifactError(problem, where=path, fix=fix) from error
