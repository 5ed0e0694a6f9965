"""Small inputs for the corpus stage."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import corpora
import pytest

from osler.artifacts.corpus import LEDGER_SCHEMA, Corpus
from osler.core.artifact import Artifact
from osler.core.config import load_recipe
from osler.stages.corpus.config import CorpusRecipe, CorpusSource
from osler.stages.corpus.inputs import find_inputs
from osler.stages.corpus.readers import READERS
from osler.stages.corpus.run import run

Build = Callable[..., Artifact]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Make a corpus from paths or source tables, into a new folder each time."""
    made = iter(range(100))

    def make(*sources: Any, out: Path | None = None, force: bool = False, **options: Any) -> Artifact:
        given = [item if isinstance(item, dict) else str(item) for item in sources]
        recipe = load_recipe(CorpusRecipe, None, [], {"sources": given, "workers": 1, **options})
        return run(recipe, out or tmp_path / f"corpus-{next(made)}", force=force)

    return make


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., Path]:
    """Write records, or texts, as JSON Lines."""

    def write(records: Iterable[Any], name: str = "notes.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"text": item} if isinstance(item, str) else item for item in records]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


@pytest.fixture
def documents() -> Callable[[Artifact], list[dict[str, Any]]]:
    """All rows of all shards, in order."""
    import pyarrow.parquet as pq

    def read(corpus: Artifact) -> list[dict[str, Any]]:
        return [row for path in sorted((corpus.path / "shards").iterdir()) for row in pq.read_table(path).to_pylist()]

    return read


@pytest.fixture
def ledger() -> Callable[[Artifact], list[dict[str, Any]]]:
    """All rows of the ledger."""
    import pyarrow.parquet as pq

    return lambda corpus: pq.read_table(corpus.path / "ledger.parquet").to_pylist()


@pytest.fixture(scope="session")
def read_all() -> Callable[..., list[Any]]:
    """Everything a reader yields for the files of a source, read in ranges of about `size` bytes."""

    def read(path: Path, size: int = 1 << 30, **options: Any) -> list[Any]:
        source = CorpusSource(files=[path], **options)
        found: list[Any] = []
        for file in find_inputs([source]):
            reader, given = READERS.get(file.reader), source.read_by(file.reader)
            for piece in reader.cut(file, given, size):
                found += reader.read(piece, given)
        return found

    return read


@pytest.fixture(scope="session")
def cuts() -> Callable[..., int]:
    """Number of ranges that a file is cut into."""

    def count(path: Path, size: int, **options: Any) -> int:
        source = CorpusSource(files=[path], **options)
        [file] = find_inputs([source])
        return len(READERS.get(file.reader).cut(file, source.read_by(file.reader), size))

    return count


@pytest.fixture
def notes() -> dict[str, str]:
    """Five notes by id: two that are kept, a short one, a copy and a near-duplicate."""
    kept = "The patient was admitted with chest pain and was given aspirin 100 mg once a day for one week"
    changed = kept.replace("aspirin 100", "ibuprofen 400")
    return {
        "kept": kept,
        "short": "No complaints",
        "copy": f" {kept}\n",
        "near": f"{changed} and then went home",
        "broken": "The patientâ€™s fever was gone on the third day after the first dose",
    }


@pytest.fixture
def rewrite_ledger() -> Callable[..., None]:
    """Change the rows of a document in the ledger to what another step would have written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def rewrite(corpus: Corpus, key: str, **values: Any) -> None:
        rows = [row | (values if row["id"] == key else {}) for row in pq.read_table(corpus.ledger_path).to_pylist()]
        pq.write_table(pa.Table.from_pylist(rows, LEDGER_SCHEMA), corpus.ledger_path, row_group_size=2)

    return rewrite


@pytest.fixture
def noted(
    build: Build, jsonl: Callable[..., Path], notes: dict[str, str], rewrite_ledger: Callable[..., None]
) -> Corpus:
    """A corpus of the five notes."""
    path = jsonl([{"id": key, "text": text} for key, text in notes.items()])
    corpus = Corpus.open(build({"files": [str(path)], "name": "notes"}, filters={"length": {"max_words": 20}}).path)
    twin = {"kept_id": "kept", "kept_source": "notes", "jaccard": 0.62}
    rewrite_ledger(corpus, "near", step="near-duplicates", reason="near_duplicates", **twin)
    return corpus


@pytest.fixture(scope="session")
def every_step(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A recipe in which every step has something to do."""
    return corpora.every_step(tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, every_step: dict[str, Any]) -> Corpus:
    """Its corpus, made by one worker without interruption."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert corpora.start(every_step | {"workers": 1}, out).wait() == 0
    return Corpus.open(out)
