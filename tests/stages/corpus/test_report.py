from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.artifacts.corpus import LEDGER_SCHEMA
from osler.artifacts.corpus_card import CorpusCard, SourceCard
from osler.artifacts.ledger import Ledger
from osler.stages.corpus.report import report_page


def card(**sources: SourceCard) -> CorpusCard:
    fields = ("read", "read_words", "documents", "words", "characters", "sentences", "read_sentences")
    totals = {name: sum(getattr(source, name) for source in sources.values()) for name in fields}
    removed: dict[str, int] = {}
    for source in sources.values():
        removed |= source.removed
    return CorpusCard(**totals, removed=removed, words_per_document={"64": 2, "256": 5}, sources=sources)


def source(read: int, documents: int, **more: Any) -> SourceCard:
    counts = {"read_words": 100 * read, "words": 100 * documents, "characters": 600 * documents, "sentences": documents}
    return SourceCard(read=read, documents=documents, read_sentences=read, **counts | more)


@pytest.fixture
def ledger(tmp_path: Path):
    def write(*rows: dict[str, Any]) -> Ledger:
        given = {"file": "f", "row": 1, "id": "secret-id", "unit": "document", "characters": 600}
        pq.write_table(pa.Table.from_pylist([given | row for row in rows], LEDGER_SCHEMA), tmp_path / "ledger.parquet")
        return Ledger(tmp_path / "ledger.parquet")

    return write


NEAR = {"step": "near-duplicates", "reason": "near_duplicates.threshold", "kept_id": "k", "kept_source": "web"}


def test_the_page_shows_what_each_step_removed_from_each_source(ledger) -> None:
    rows = [
        {"source": "notes", "step": "filter", "reason": "length.min_characters"},
        *({"source": "notes", **NEAR, "jaccard": jaccard} for jaccard in (0.81, 0.97)),
        {"source": "notes", "step": "rewrite", "reason": "masks.url", "unit": "passage", "characters": 40},
        {"source": "web", "step": "repair", "reason": "unicode", "unit": "document changed", "characters": 500},
    ]
    removed = {"length.min_characters": 1, "near_duplicates.threshold": 2}
    html = report_page(
        card(notes=source(10, 7, removed=removed), web=source(5, 5)), ledger(*rows), ["Filters: none"]
    ).render()
    # Every value of a plot is in its description.
    assert "notes: filter 10, near-duplicates 20; web: filter 0, near-duplicates 0." in html
    assert "notes: rewrite 0.6623, filter 9.934, near-duplicates 19.87" in html
    assert "notes, web: 2" in html
    assert "1 in 0.81" in html
    assert "tokens: notes: kept 700, removed 300; web: kept 500, removed 0." in html
    assert "secret-id" not in html


def test_a_corpus_that_lost_nothing_and_one_of_an_earlier_version_have_a_page(ledger) -> None:
    empty = ledger()
    assert "Nothing was removed." in report_page(card(notes=source(5, 5)), empty, []).render()
    old = CorpusCard(read=2, documents=2, words=9, sources={"a": SourceCard(read=2, documents=2, words=9)})
    assert "The card has no lengths." in report_page(old, empty, []).render()


def test_many_sources_share_the_last_bar(ledger) -> None:
    many = {f"s{number:02}": source(100 - number, 100 - number) for number in range(40)}
    html = report_page(
        card(**many), ledger({"source": "s39", "step": "filter", "reason": "length.max_words"}), []
    ).render()
    assert "other sources: filter 0.0" in html
    assert "s39: filter" not in html


def test_the_same_corpus_gives_the_same_bytes(ledger) -> None:
    made = [report_page(card(notes=source(5, 4, removed={"empty": 1})), ledger(), ["x"]).render() for _ in range(2)]
    assert made[0] == made[1]
