"""A small corpus to learn from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.core.artifact import Workspace, produce
from osler.core.config import Recipe

STEMS = ["card", "neph", "hepat", "gastr", "derm", "oste", "neur", "hemat", "pulm", "rhin"]
ENDS = ["itis", "opathy", "ectomy", "ology", "algia", "oma", "osis", "emia"]


class Made(Recipe):
    """Stands for the recipe of whatever made the corpus."""

    texts: tuple[str, ...]


def _write_corpus(
    folder: Path, texts: list[str], sources: list[str] | None = None, languages: list[str | None] | None = None
) -> Path:
    """A corpus artifact as the corpus stage writes it: two shards of four columns."""

    def build(work: Workspace) -> None:
        (work.path / "shards").mkdir()
        rows = {
            "id": [str(number) for number in range(len(texts))],
            "text": texts,
            "source": sources or ["one"] * len(texts),
            "language": languages or pa.nulls(len(texts), pa.string()),
        }
        schema = pa.schema([(name, pa.string()) for name in rows])
        table = pa.table(rows, schema=schema)
        half = len(texts) // 2
        for number, part in enumerate((table.slice(0, half), table.slice(half))):
            pq.write_table(part, work.path / "shards" / f"shard-{number:05d}.parquet", row_group_size=7)
        work.counts.update(documents=len(texts), words=sum(len(text.split()) for text in texts))

    return produce(folder, kind="corpus", recipe=Made(texts=tuple(texts)), parents={}, build=build).path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty notes of made-up terms in two sources."""
    texts = [
        f"El paciente {n} presenta {STEMS[n % 10]}{ENDS[n % 8]} y {STEMS[n % 7]}{ENDS[n % 5]}. "
        f"Exploración: {STEMS[n % 3]}{ENDS[n % 6]} leve, 5 µg cada 8 h.\nSin {ENDS[n % 4]} — alta."
        for n in range(60)
    ]
    return _write_corpus(tmp_path_factory.mktemp("vocab") / "corpus", texts, ["a"] * 40 + ["b"] * 20)


@pytest.fixture(scope="session")
def write_corpus() -> Callable[..., Path]:
    """Write a corpus of some texts to a folder, with sources and languages where they are given."""
    return _write_corpus


@pytest.fixture
def make_corpus(tmp_path: Path) -> Callable[..., Path]:
    """Make a corpus of some texts, with sources and languages where they are given."""
    return lambda texts, *facts: _write_corpus(tmp_path / "corpus", texts, *facts)


@pytest.fixture
def read_json():
    """Read a JSON file."""
    return lambda path: json.loads(path.read_text())
