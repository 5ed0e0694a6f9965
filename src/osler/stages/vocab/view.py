"""Show a comparison as tables, as Markdown and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from osler.report.page import Page
from osler.report.plots import Bar, bars_with_intervals
from osler.report.tables import Cell, Column, Table, markdown_table
from osler.stages.vocab.figures import Ratios, TokenizerComparison

TITLE = "Tokenizer comparison"
_METRICS: tuple[tuple[str, Column, str], ...] = (
    ("fertility", Column("fertility", digits=3, best="min"), "Fertility: sub-words per word; lower is better."),
    (
        "whole_words",
        Column("whole words %", digits=1, scale=100, best="max"),
        "Percentage of words that are one sub-word; higher is better.",
    ),
    (
        "unknown_words",
        Column("unknown %", digits=2, scale=100, best="min"),
        "Percentage of words with an unknown part; lower is better.",
    ),
    (
        "tokens_per_1000_characters",
        Column("tokens / 1,000 chars", digits=1, best="min"),
        "Tokens per 1,000 characters of running text, numbers and punctuation included; lower is better.",
    ),
)


def tables(found: TokenizerComparison, limit: int | None = None) -> Iterator[tuple[str, list[Table]]]:
    """All tables under their headings; `limit` shortens the lists of terms."""
    yield "Figures", [_overview(found), *_group_tables(found)]
    yield "Vocabularies", [_overlap_table(found)]
    yield "Medical terms", [_term_table(found), *_worst_tables(found, limit), *_difference_tables(found, limit)]


def markdown(found: TokenizerComparison) -> str:
    """The comparison as GitHub Markdown."""
    parts = [f"# {TITLE}"]
    for heading, some in tables(found):
        parts += [f"## {heading}", *(markdown_table(table).rstrip("\n") for table in some)]
    return "\n\n".join(parts) + "\n"


def page(found: TokenizerComparison) -> Page:
    """The comparison as a self-contained page."""
    sample = found.tokenizers[0].everything
    made = Page(TITLE, " · ".join(one.name for one in found.tokenizers))
    facts = [
        ("Sample", f"{sample.documents:,} of {found.corpus_documents:,} documents, evenly spaced"),
        ("Words", f"{sample.words:,}, counting words with a letter"),
        ("Terms", _terms(found)),
    ]
    for one in found.tokenizers:
        unknown = "no unknown token" if one.unknown_token is None else f"unknown token {one.unknown_token}"
        facts.append((one.name, f"{one.model}, {one.size:,} entries, {unknown}"))
    made.definitions(facts)
    for heading, some in tables(found):
        made.heading(heading)
        for number, table in enumerate(some):
            made.table(table)
            if heading == "Figures" and number == 0:
                made.figure(_plot(found), caption="Fertility: sub-words per word, by source and language.")
    return made


class _Group(NamedTuple):
    """Figures of all tokenizers over the documents of one source or language."""

    kind: str
    name: str
    ratios: list[Ratios]


def _groups(found: TokenizerComparison) -> list[_Group]:
    """Sources if there are several, then languages if there are several."""
    first = found.tokenizers[0]
    sources = [_Group("source", name, [one.sources[name] for one in found.tokenizers]) for name in first.sources]
    languages = [
        _Group("language", name, [one.languages[name] for one in found.tokenizers]) for name in first.languages
    ]
    return [group for groups in (sources, languages) if len(groups) > 1 for group in groups]


def _plot(found: TokenizerComparison) -> str:
    groups = [_Group("", "everything", [one.everything for one in found.tokenizers]), *_groups(found)]
    bars = [
        Bar(f"{group.name} ({group.kind})" if group.kind else group.name, ratios.fertility, series=one.name)
        for group in groups
        for one, ratios in zip(found.tokenizers, group.ratios, strict=True)
    ]
    return bars_with_intervals(bars, xlabel="sub-words per word")


def _overview(found: TokenizerComparison) -> Table:
    columns = [Column("tokenizer"), Column("model"), Column("entries"), *(column for _, column, _ in _METRICS)]
    rows: list[list[Cell]] = [
        [one.name, one.model, one.size, *(getattr(one.everything, name) for name, _, _ in _METRICS)]
        for one in found.tokenizers
    ]
    sample = found.tokenizers[0].everything
    note = (
        f"{sample.documents:,} of {found.corpus_documents:,} documents, evenly spaced; {sample.words:,} words. "
        "Only words with a letter count."
    )
    return Table(columns, rows, "All documents", note)


def _group_tables(found: TokenizerComparison) -> list[Table]:
    """One table per figure, by source and by language; none if there is one source and one language."""
    groups = _groups(found)
    made = []
    for name, like, note in _METRICS:
        values = [[getattr(ratios, name) for ratios in group.ratios] for group in groups]
        if not groups or (name == "unknown_words" and not any(map(any, values))):
            continue
        own = [Column(one.name, digits=like.digits, scale=like.scale, best=like.best) for one in found.tokenizers]
        rows: list[list[Cell]] = [
            [group.name, group.ratios[0].documents, group.ratios[0].words, *row]
            for group, row in zip(groups, values, strict=True)
        ]
        kinds = [group.kind for group in groups]
        headings = {kinds.index(kind): f"by {kind}" for kind in kinds}
        columns = [Column("part"), Column("documents"), Column("words"), *own]
        made.append(Table(columns, rows, like.name.capitalize(), note, headings, best_along="row"))
    return made


def _overlap_table(found: TokenizerComparison) -> Table:
    columns = [
        Column("first"),
        Column("second"),
        Column("shared entries"),
        Column("% of the first", digits=1, scale=100),
        Column("% of the second", digits=1, scale=100),
        Column("same vocabulary"),
    ]
    rows: list[list[Cell]] = []
    for one in found.overlaps:
        same = "yes" if one.same_vocabulary else "same tokens, different ids" if one.same_tokens else "no"
        rows.append([one.first, one.second, one.shared, one.shared_first, one.shared_second, same])
    note = "Without special tokens. Entries are compared by their text and by whether they begin a word."
    statements = [one.statement for one in found.overlaps if one.statement]
    return Table(columns, rows, "Vocabularies", " ".join([note, *statements]))


def _term_table(found: TokenizerComparison) -> Table:
    columns = [
        Column("tokenizer"),
        Column("fertility", digits=3, best="min"),
        Column("whole terms %", digits=1, scale=100, best="max"),
        Column("unknown terms %", digits=2, scale=100, best="min"),
    ]
    rows: list[list[Cell]] = [
        [one.name, one.terms.fertility, one.terms.whole, one.terms.unknown]
        for one in found.tokenizers
        if one.terms is not None
    ]
    return Table(columns, rows, "Medical terms, weighted by occurrence", _terms(found))


def _worst_tables(found: TokenizerComparison, limit: int | None) -> list[Table]:
    columns = ["term", "split", "sub-words", "occurrences", "documents"]
    note = "Ranked by the number of sub-words beyond one per word, over all occurrences."
    made = []
    for one in found.tokenizers:
        rows: list[list[Cell]] = [
            [term.term, term.shown, len(term.pieces), term.occurrences, term.documents] for term in one.worst[:limit]
        ]
        if rows:
            made.append(Table(columns, rows, f"Terms that {one.name} splits most", note))
    return made


def _difference_tables(found: TokenizerComparison, limit: int | None) -> list[Table]:
    columns = ["term", *(one.name for one in found.tokenizers), "occurrences"]
    rows: list[list[Cell]] = [[one.term, *one.shown, one.occurrences] for one in found.differences[:limit]]
    note = "Ranked by the largest difference in sub-words between two tokenizers, over all occurrences."
    return [Table(columns, rows, "Terms split most differently", note)] if rows else []


def _terms(found: TokenizerComparison) -> str:
    facts = found.terms
    kind = "words with medical stems or endings" if facts.given is None else f"of {facts.given:,} given"
    absent = 0 if facts.given is None else facts.given - facts.seen
    return (
        f"{facts.used:,} terms ({kind}; {facts.occurrences:,} occurrences) occur in at least {facts.min_documents} "
        f"documents of the sample; {facts.seen - facts.used:,} rarer terms are left out"
        + (f", {absent:,} do not occur." if absent else ".")
    )
