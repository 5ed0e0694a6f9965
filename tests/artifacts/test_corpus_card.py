from __future__ import annotations

from osler.artifacts.corpus_card import CorpusCard, SourceCard, counts_table, facts_table, readme, shares_table
from osler.report.tables import markdown_table

NOTES = SourceCard(
    read=10,
    read_sentences=50,
    read_words=1_200,
    read_characters=7_000,
    documents=8,
    sentences=40,
    words=1_000,
    characters=6_000,
    removed={"length.min_characters": 1, "duplicate.exact": 1},
    passages={"boilerplate.line": 30},
    languages={"es": 6, "ca": 2},
    licences={"not stated": 8},
    words_per_document={"64": 5, "128": 3},
    weight=2,
)
WEB = SourceCard(documents=2, words=3_000, read=2, read_words=3_000, read_sentences=9, sentences=9, licence="CC BY")
CARD = CorpusCard(
    read=12,
    read_sentences=59,
    read_words=4_200,
    documents=10,
    sentences=49,
    words=4_000,
    characters=24_000,
    removed=NOTES.removed,
    passages=NOTES.passages,
    languages={"es": 8, "ca": 2},
    licences={"CC BY": 2, "not stated": 8},
    words_per_document={"64": 5, "128": 3, "1024": 2},
    shards=1,
    sha256="ab" * 32,
    sources={"notes": NOTES, "web": WEB},
)


def test_the_table_has_documents_sentences_and_tokens_before_and_after() -> None:
    lines = markdown_table(counts_table(CARD)).splitlines()
    assert lines[0] == (
        "| source | documents before | documents after | sentences before | sentences after | tokens before | tokens after "
        "| weight |"
    )
    assert lines[2:] == [
        "| notes | 10 | 8 | 50 | 40 | 1,200 | 1,000 | 2 |",
        "| web | 2 | 2 | 9 | 9 | 3,000 | 3,000 | 1 |",
        "| all | 12 | 10 | 59 | 49 | 4,200 | 4,000 |  |",
    ]


def test_a_card_of_an_earlier_version_shows_what_it_has() -> None:
    old = CorpusCard(read=3, documents=2, words=7, sources={"a": SourceCard(read=3, documents=2, words=7)})
    assert "| a | 3 | 2 | – | – | – | 7 | 1 |" in markdown_table(counts_table(old))


def test_languages_and_licences_are_those_of_the_documents() -> None:
    table = markdown_table(facts_table(CARD))
    assert "| notes | es, ca | not stated | 25.0 | 125 | 0 |" in table
    assert "| web | not stated | CC BY | 75.0 | 1,500 | 0 |" in table
    assert "| es | 8 | 80.0 |" in markdown_table(shares_table(CARD.languages, "language"))


def test_the_readme_has_every_part_of_the_card() -> None:
    text = readme(CARD, ["id", "text"], ["Filters: none"])
    for part in (
        "10 documents, 4,000 tokens and 24,000 characters in 1 Parquet shard (`shards/`, columns `id`, `text`).",
        "| length.min_characters | 1 |",
        "| boilerplate.line | 30 |",
        "| 1,024 to 2,047 | 2 |",
        "| not stated | 8 | 80.0 |",
        f"`{'ab' * 32}`",
        "validation_share",
        "- Filters: none",
    ):
        assert part in text, part
    assert "\n\n\n" not in text


def test_splits_are_listed_where_the_corpus_has_them() -> None:
    text = readme(CARD.model_copy(update={"splits": {"train": 9, "validation": 1}}), ["id"], [])
    assert "| train | 9 | 90.0 |" in text
    assert "validation_share" not in text
