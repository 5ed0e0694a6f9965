"""The card of a corpus: counts by source before and after cleaning, languages, licences, lengths. Its tables and its README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from osler.core.console import count_text, list_text
from osler.report.tables import Cell, Column, Row, Table, markdown_table

NOT_STATED = "not stated"
"""Name for unstated languages and licences."""
_NO_SPLITS = (
    "The corpus has no fixed splits: `osler pretrain` holds out a share of the documents (`validation_share`), chosen by a hash of "
    "their text."
)
_BY_PATIENT = "The patient of {:,} documents is known; all documents of a patient are held out together."
_COUNTING = (
    "Tokens are separated by whitespace, as in table 1 of Carrino et al. 2022. Sentences are split by osler's rules; those for "
    "English are used for languages other than English, Spanish and French."
)


class CorpusCounts(BaseModel):
    """Counts over a set of documents. `read` is `documents` plus everything in `removed`.

    `read_sentences`, `read_words` and `read_characters` cover all documents as read, the other counts those that were kept.
    """

    model_config = ConfigDict(frozen=True)

    read: int = 0
    read_sentences: int = 0
    read_words: int = 0
    read_characters: int = 0
    documents: int = 0
    sentences: int = 0
    words: int = 0
    characters: int = 0
    bytes: int = 0
    repaired: int = 0
    removed: dict[str, int] = {}
    """Documents removed, by reason."""
    unreadable: int = 0
    """Records that could not be read, not included in `read`."""
    passages: dict[str, int] = {}
    """Passages removed from documents, by reason."""
    languages: dict[str, int] = {}
    """Kept documents by language."""
    licences: dict[str, int] = {}
    """Kept documents by licence."""
    of_patients: int = 0
    """Kept documents whose patient is known."""
    words_per_document: dict[str, int] = {}
    """Kept documents by length: from each power of two to below the next."""


class SourceCard(CorpusCounts):
    """One source on the card."""

    documents: int
    words: int
    language: str | None = None
    licence: str | None = None
    weight: float = 1.0
    """Average number of times that pretraining reads a document per epoch."""


class SkippedRecord(BaseModel):
    """A record that could not be read: where it is and why."""

    model_config = ConfigDict(frozen=True)

    source: str
    file: str
    row: int | None
    byte: int | None
    reason: str
    fix: str | None = None

    def __str__(self) -> str:
        if self.byte is None:
            place = "" if self.row is None else f":{self.row}"
        else:
            place = f"{'' if self.row is None else f', row {self.row:,}'}, byte {self.byte:,}"
        return f"{self.file}{place} ({self.source}): {self.reason}"


class CorpusCard(CorpusCounts):
    """Counts of a corpus, in total and by source."""

    shards: int = 0
    splits: dict[str, int] = {}
    """Documents by split, if the corpus has splits."""
    sha256: str | None = None
    """Hash over all shards, independent of the number of workers."""
    sources: dict[str, SourceCard]
    skipped: list[SkippedRecord] = []
    """The first records that could not be read; the ledger has all of them."""


def counts_table(card: CorpusCard) -> Table:
    """Documents, sentences and tokens of each source, before and after cleaning."""
    groups = ("documents", "sentences", "tokens")
    columns = [Column(when, group=group) for group in groups for when in ("before", "after")]
    rows: list[Row] = [
        [name, *_before_and_after(source), f"{source.weight:g}"] for name, source in card.sources.items()
    ]
    if len(rows) > 1:
        rows.append(["all", *_before_and_after(card), ""])
    return Table(["source", *columns, Column("weight", align="right")], rows)


def _before_and_after(counts: CorpusCounts) -> Row:
    # Cards of earlier versions have no sentences and no counts before cleaning.
    known = counts.read_words > 0
    before_sentences, sentences = (counts.read_sentences, counts.sentences) if known else (None, None)
    before_words = counts.read_words if known else None
    return [counts.read, counts.documents, before_sentences, sentences, before_words, counts.words]


def facts_table(card: CorpusCard) -> Table:
    """Language, licence and share of each source."""
    total = max(1, card.words)
    rows: list[Row] = [
        [
            name,
            _most_common(source.languages, source.language),
            _most_common(source.licences, source.licence),
            100 * source.words / total,
            round(source.words / max(1, source.documents)),
            source.repaired,
        ]
        for name, source in card.sources.items()
    ]
    numbers: list[Column | str] = [Column("% of the tokens", 1), "tokens per document", "documents repaired"]
    return Table(["source", "language", "licence", *numbers], rows)


def _most_common(counted: Mapping[str, int], stated: str | None) -> str:
    names = sorted(counted, key=lambda name: (-counted[name], name))
    return list_text(names, 3) or stated or NOT_STATED


def reasons_table(counted: Mapping[str, int], what: str) -> Table:
    """Count documents or passages removed for each reason, most first."""
    rows: list[Row] = [
        [reason, count] for reason, count in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    ]
    return Table(["reason", what], rows)


def shares_table(counted: Mapping[str, int], name: str) -> Table:
    """Documents by language or licence, with their share."""
    total = max(1, sum(counted.values()))
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    rows: list[Row] = [[value, count, 100 * count / total] for value, count in ordered]
    return Table([name, "documents", Column("%", 1)], rows)


def lengths_table(card: CorpusCard) -> Table:
    """Documents by number of tokens."""
    rows: list[list[Cell]] = [
        [f"{int(low):,} to {2 * int(low) - 1:,}", count] for low, count in card.words_per_document.items()
    ]
    return Table(["tokens", "documents"], rows)


def readme(card: CorpusCard, columns: Sequence[str], preparation: Sequence[str]) -> str:
    """README.md of a corpus."""
    removed = sum(card.removed.values())
    named = ", ".join(f"`{name}`" for name in columns)
    shards = count_text(card.shards, "Parquet shard")
    sections = [
        "# Corpus card",
        f"{card.documents:,} documents, {card.words:,} tokens and {card.characters:,} characters in {shards} "
        f"(`shards/`, columns {named}).",
        f"{card.read:,} documents were read and {removed:,} removed; `ledger.parquet` gives the reason for each. "
        "`osler corpus explain` says what happened to a document, and `osler corpus audit` shows a sample of what a step removed.",
        "## Sources",
        markdown_table(counts_table(card)),
        markdown_table(facts_table(card)),
        _COUNTING,
        "## Removed documents",
        markdown_table(reasons_table(card.removed, "documents")) if removed else "No document was removed.",
        *(("## Removed passages", markdown_table(reasons_table(card.passages, "passages"))) if card.passages else ()),
        "## Document length",
        markdown_table(lengths_table(card)),
        *(("## Languages", markdown_table(shares_table(card.languages, "language"))) if card.languages else ()),
        *(("## Licences", markdown_table(shares_table(card.licences, "licence"))) if card.licences else ()),
        "## Splits",
        markdown_table(shares_table(card.splits, "split")) if card.splits else _NO_SPLITS,
        *([_BY_PATIENT.format(card.of_patients)] if card.of_patients else []),
        "## Hash",
        f"sha256 of the shards: `{card.sha256}`. The same recipe on the same files gives the same hash, whatever the number of "
        "workers and however often the run was interrupted. `manifest.json` has the hash of every file.",
        "## Preparation",
        "\n".join(f"- {line}" for line in preparation),
    ]
    return "\n\n".join(section.rstrip("\n") for section in sections) + "\n"
