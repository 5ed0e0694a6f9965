from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.artifacts import corpus as artifact
from osler.artifacts.corpus import Corpus, CorpusText, CorpusWriter
from osler.artifacts.corpus_card import CorpusCard, SourceCard
from osler.core.artifact import Workspace, produce
from osler.core.config import Recipe
from osler.core.errors import ArtifactError
from osler.core.files import fingerprint

COUNT = 60


def rows(first: int, last: int) -> pa.Table:
    documents = [
        {"id": f"d{n}", "text": f"document {n}", "source": "a" if n < 40 else "b", "language": None if n % 2 else "es"}
        for n in range(first, last)
    ]
    return pa.Table.from_pylist(documents, artifact.SHARD_SCHEMA)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """Sixty documents of two sources in two shards, ten or so to a row group."""
    monkeypatch.setattr(artifact, "ROW_GROUP_BYTES", 100)

    def build(work: Workspace) -> None:
        writer = CorpusWriter(work.path)
        assert writer.card is None
        writer.write_shard(0, [rows(0, 7), rows(7, 45)])
        writer.write_shard(1, [rows(45, COUNT)])
        writer.write_ledger(
            [pa.Table.from_pylist([{"source": "a", "row": 3, "reason": "empty"}], artifact.LEDGER_SCHEMA)]
        )
        sources = {
            "a": SourceCard(read=41, documents=40, words=80, removed={"empty": 1}, weight=2.5),
            "b": SourceCard(read=20, documents=20, words=40, licence="CC0 | MIT"),
        }
        card = CorpusCard(read=61, documents=COUNT, words=120, removed={"empty": 1}, shards=2, sources=sources)
        writer.write_card(card, ["Filters: none"])
        assert writer.card == card.model_copy(update={"sha256": fingerprint(sorted(work.path.glob("shards/*")))})
        work.counts.update(documents=COUNT, words=120)

    return Corpus.open(str(produce(tmp_path / "corpus", kind="corpus", recipe=Recipe(), parents={}, build=build).path))


def test_documents_are_read_back_in_order(corpus: Corpus) -> None:
    documents = [document for batch in corpus.batches() for document in batch]
    assert documents == [
        CorpusText("a" if n < 40 else "b", None if n % 2 else "es", f"document {n}") for n in range(COUNT)
    ]
    assert corpus.documents == corpus.counts["documents"] == COUNT
    assert corpus.source_names == ("a", "b")


def test_row_groups_hold_all_texts_and_can_be_pickled(corpus: Corpus) -> None:
    groups = pickle.loads(pickle.dumps(corpus.row_groups()))
    assert len(groups) > 4
    assert {group.shard for group in groups} == set(corpus.shards)
    assert [text for group in groups for text in group.texts()] == [f"document {n}" for n in range(COUNT)]
    batches = [batch.num_rows for batch in groups[0].batches(["text"], 4)]
    assert batches[0] == 4
    assert sum(batches) == len(groups[0].texts())


@pytest.mark.parametrize("wanted", [1, 7, 20, 59, 60, 1000])
def test_a_sample_has_as_many_documents_as_wanted_evenly_spaced(corpus: Corpus, wanted: int) -> None:
    found = [int(document.text.split()[1]) for document in corpus.sample(wanted)]
    assert len(found) == min(wanted, COUNT)
    gaps = {after - here for here, after in pairwise(found)}
    assert found[0] == 0
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_the_card_gives_sources_and_weights_and_may_be_missing(corpus: Corpus) -> None:
    assert {name: source.documents for name, source in corpus.sources.items()} == {"a": 40, "b": 20}
    assert corpus.source_weights == {"a": 2.5, "b": 1.0}
    assert r"| b | not stated | CC0 \| MIT |" in (corpus.path / "README.md").read_text()
    (corpus.path / "card.json").unlink()
    assert (corpus.card, corpus.sources, corpus.source_weights) == (None, {}, {"a": 1.0, "b": 1.0})
    (corpus.path / "card.json").write_text('{"sources": {"a": {}}}')
    with pytest.raises(ArtifactError, match=r"card\.json: the corpus card is damaged"):
        _ = corpus.sources


def test_documents_are_found_by_their_id(corpus: Corpus) -> None:
    found = list(corpus.find(["d50", "d3", "d99"]))
    assert [(document.id, document.text, document.source, document.shard) for document in found] == [
        ("d3", "document 3", "a", "shard-00000.parquet"),
        ("d50", "document 50", "b", "shard-00001.parquet"),
    ]


def test_a_shard_that_exists_is_not_written_again_and_a_damaged_one_is_named(corpus: Corpus) -> None:
    first, second = corpus.shards
    CorpusWriter(corpus.path).write_shard(0, [])
    assert pq.read_metadata(first).num_rows == 45
    second.write_bytes(second.read_bytes()[:50])
    for read in (corpus.row_groups, lambda: list(corpus.batches()), lambda: corpus.source_names):
        with pytest.raises(ArtifactError, match=r"shard-00001\.parquet: this file of the corpus is damaged"):
            read()
