from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.artifacts import corpus as artifact
from osler.artifacts.corpus import LEDGER_SCHEMA, Corpus, CorpusWriter
from osler.artifacts.corpus_card import CorpusCard
from osler.artifacts.ledger import Ledger, LedgerTotal
from osler.core.artifact import Workspace, produce
from osler.core.config import Recipe
from osler.core.errors import ArtifactError, UnknownNameError


def row(number: int, step: str = "filter", reason: str = "length.min_characters", **more: Any) -> dict[str, Any]:
    place = {
        "source": "notes",
        "file": "n.jsonl",
        "row": number,
        "id": f"n{number}",
        "unit": "document",
        "characters": 10,
    }
    return place | {"step": step, "reason": reason} | more


TWIN = {"kept_id": "w1", "kept_source": "web", "jaccard": 0.85}
ROWS = [
    *(row(number) for number in range(100)),
    *(row(number, "near-duplicates", "near_duplicates.threshold", **TWIN) for number in range(100, 140)),
    row(140, "near-duplicates", "near_duplicates.threshold", **TWIN | {"kept_source": "notes", "jaccard": 1.0}),
    *(row(200, "rewrite", "masks.url", unit="passage", characters=size) for size in (5, 7)),
    row(200, "rewrite", "masks", unit="document changed", characters=80),
    row(100, source="web", id="n100"),
]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """A ledger in row groups of 16 rows."""
    monkeypatch.setattr(artifact, "_LEDGER_ROWS", 16)

    def build(work: Workspace) -> None:
        writer = CorpusWriter(work.path)
        writer.write_ledger([pa.Table.from_pylist(ROWS, LEDGER_SCHEMA)])
        writer.write_card(CorpusCard(sources={}), [])

    return Corpus.open(produce(tmp_path / "corpus", kind="corpus", recipe=Recipe(), parents={}, build=build).path)


def test_totals_are_by_source_step_reason_and_unit(corpus: Corpus) -> None:
    assert pq.read_metadata(corpus.ledger_path).num_row_groups > 5
    assert Ledger.of(corpus).totals() == [
        LedgerTotal("notes", "rewrite", "masks", "document changed", 1, 80),
        LedgerTotal("notes", "rewrite", "masks.url", "passage", 2, 12),
        LedgerTotal("notes", "filter", "length.min_characters", "document", 100, 1000),
        LedgerTotal("notes", "near-duplicates", "near_duplicates.threshold", "document", 41, 410),
        LedgerTotal("web", "filter", "length.min_characters", "document", 1, 10),
    ]


def test_records_that_cannot_be_read_are_counted_together_wherever_they_are(tmp_path: Path) -> None:
    reasons = [f"byte {1000 * n:,} of this line is not valid utf-8" for n in range(1, 4)]
    table = pa.Table.from_pylist([row(n, "read", reason) for n, reason in enumerate(reasons)], LEDGER_SCHEMA)
    pq.write_table(table, tmp_path / "ledger.parquet")
    [total] = Ledger(tmp_path / "ledger.parquet").totals()
    assert (total.reason, total.entries) == ("byte … of this line is not valid utf-8", 3)


def test_entries_are_found_by_id_and_source(corpus: Corpus) -> None:
    ledger = Ledger.of(corpus)
    assert [(entry.source, entry.step) for entry in ledger.find("n100")] == [
        ("notes", "near-duplicates"),
        ("web", "filter"),
    ]
    assert [entry.jaccard for entry in ledger.find("n100", "notes")] == [0.85]
    assert [entry.unit for entry in ledger.find("n200")] == ["passage", "passage", "document changed"]
    assert ledger.find("nobody") == []


def test_a_sample_is_the_same_for_the_same_seed_and_every_removal_can_be_drawn(corpus: Corpus) -> None:
    ledger = Ledger.of(corpus)
    sample, total = ledger.sample("near-duplicates", 5)
    assert total == 41
    assert len(sample) == 5
    assert {entry.step for entry in sample} == {"near-duplicates"}
    assert [entry.row for entry in sample] == sorted(entry.row for entry in sample)
    assert ledger.sample("near_duplicates", 5) == (sample, total)
    assert ledger.sample("near-duplicates", 5, seed=2)[0] != sample
    drawn = Counter(entry.row for seed in range(60) for entry in ledger.sample("near-duplicates", 10, seed=seed)[0])
    assert len(drawn) == 41
    assert len(ledger.sample("near-duplicates", 100)[0]) == 41
    assert [entry.id for entry in ledger.sample("filter", 9, source="web")[0]] == ["n100"]
    assert [entry.unit for entry in ledger.sample("rewrite", 9)[0]] == ["passage", "passage"]


def test_a_step_without_removals_is_answered_with_those_that_have_some(corpus: Corpus) -> None:
    ledger = Ledger.of(corpus)
    with pytest.raises(UnknownNameError, match=r"no step 'dedup'. Use one of: read, .*near-duplicates"):
        ledger.sample("dedup", 3)
    with pytest.raises(
        UnknownNameError, match=r"'boilerplate' removed and changed nothing. Steps that did: rewrite, filter, near-"
    ):
        ledger.sample("boilerplate", 3)
    with pytest.raises(
        UnknownNameError, match=r"'near-duplicates' did nothing to 'web'. It removed or changed documents of: notes"
    ):
        ledger.sample("near-duplicates", 3, source="web")


def test_near_duplicates_are_counted_by_pair_of_sources_and_similarity(corpus: Corpus) -> None:
    assert Ledger.of(corpus).near_duplicates() == ({("notes", "web"): 40, ("notes", "notes"): 1}, {85: 40, 100: 1})


def test_a_ledger_with_other_columns_is_an_error(corpus: Corpus) -> None:
    pq.write_table(pa.table({"source": ["a"], "reason": ["empty"]}), corpus.ledger_path)
    with pytest.raises(ArtifactError, match=r"ledger\.parquet: .* has other columns. Make the corpus again"):
        Ledger.of(corpus)
