"""A comparison as tables, as Markdown and as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from osler.report.page import Page
from osler.report.plots import Bar, bars_with_intervals
from osler.report.tables import Cell, Column, Table, markdown_table
from osler.stages.vocab.figures import Ratios, TokenizerComparison, TokenizerFigures

TITLE = "Tokenizers compared"
_METRICS: tuple[tuple[str, Column, str], ...] = (
    ("fertility", Column("fertility", digits=3, best="min"), "Fertility: sub-words per word; lower is better."),
    (
        "whole_words",
        Column("whole words %", digits=1, scale=100, best="max"),
        "Share of words that are one sub-word, in percent; higher is better.",
    ),
    (
        "unknown_words",
        Column("unknown %", digits=2, scale=100, best="min"),
        "Share of words with an unknown part, in percent.",
    ),
    (
        "tokens_per_1000_characters",
        Column("tokens / 1,000 chars", digits=1, best="min"),
        "Tokens for 1,000 characters of running text with its numbers and punctuation; lower is better.",
    ),
)


def overview(found: TokenizerComparison) -> Table:
    """One row a tokenizer, over the whole sample."""
    columns = [
        Column("tokenizer"),
        Column("model"),
        Column("entries"),
        *(column for _, column, _ in _METRICS),
    ]
    rows: list[list[Cell]] = [
        [one.name, one.model, one.size, *(getattr(one.everything, name) for name, _, _ in _METRICS)]
        for one in found.tokenizers
    ]
    sample = found.tokenizers[0].everything
    note = (
        f"{sample.documents:,} of {found.corpus_documents:,} documents, evenly spaced; {sample.words:,} words. "
        "A word counts where it has a letter."
    )
    return Table(columns, rows, "Over everything", note)


def group_tables(found: TokenizerComparison) -> list[Table]:
    """Every figure by source and by language, one table a figure; none where there is one source and one language."""
    groups = _groups(found)
    tables = []
    for name, column, note in _METRICS:
        values = [[getattr(of(one), name) for one in found.tokenizers] for _, _, of in groups]
        if name == "unknown_words" and not any(map(any, values)):
            continue
        columns = [Column("part"), Column("documents"), Column("words"), *_columns(found, column)]
        rows, headings = [], {}
        for number, ((kind, group, of), row) in enumerate(zip(groups, values, strict=True)):
            first = of(found.tokenizers[0])
            if number == 0 or groups[number - 1][0] != kind:
                headings[number] = f"by {kind}"
            rows.append([group, first.documents, first.words, *row])
        if rows:
            tables.append(Table(columns, rows, column.name.capitalize(), note, headings, best_along="row"))
    return tables


def term_table(found: TokenizerComparison) -> Table:
    """How the tokenizers cut all medical terms."""
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
    return Table(columns, rows, "Medical terms, by occurrence", _terms(found))


def worst_tables(found: TokenizerComparison, limit: int | None = None) -> list[Table]:
    """The terms each tokenizer cuts worst."""
    columns = ["term", "cut", "pieces", "occurrences", "documents"]
    note = "Ranked by the sub-words beyond one a word that a term costs over all its occurrences."
    made = []
    for one in found.tokenizers:
        rows: list[list[Cell]] = [
            [term.term, term.shown, len(term.pieces), term.occurrences, term.documents] for term in one.worst[:limit]
        ]
        if rows:
            made.append(Table(columns, rows, f"Terms that {one.name} cuts worst", note))
    return made


def difference_table(found: TokenizerComparison, limit: int | None = None) -> Table | None:
    """The terms on which the tokenizers differ most."""
    if not found.differences:
        return None
    columns = ["term", *(one.name for one in found.tokenizers), "occurrences"]
    rows: list[list[Cell]] = [[one.term, *one.shown, one.occurrences] for one in found.differences[:limit]]
    note = "Ranked by the difference in sub-words between the finest and the coarsest cut, over all occurrences."
    return Table(columns, rows, "Terms cut most differently", note)


def overlap_table(found: TokenizerComparison) -> Table:
    """What the vocabularies share."""
    columns = [
        Column("first"),
        Column("second"),
        Column("shared entries"),
        Column("% of the first", digits=1, scale=100),
        Column("% of the second", digits=1, scale=100),
        Column("same vocabulary"),
    ]
    rows: list[list[Cell]] = [
        [
            one.first,
            one.second,
            one.shared,
            one.shared_first,
            one.shared_second,
            _sameness(one.same_vocabulary, one.same_tokens),
        ]
        for one in found.overlaps
    ]
    note = " ".join(
        [
            "Special tokens aside; the marks of different algorithms are made alike first.",
            *(one.statement for one in found.overlaps if one.statement),
        ]
    )
    return Table(columns, rows, "Vocabularies", note)


def tables(found: TokenizerComparison, limit: int | None = None) -> Iterator[tuple[str, list[Table]]]:
    """All tables under their headings; `limit` shortens the lists of terms."""
    yield "Figures", [overview(found), *group_tables(found)]
    yield "Vocabularies", [overlap_table(found)]
    differences = difference_table(found, limit)
    yield "Medical terms", [term_table(found), *worst_tables(found, limit), *([differences] if differences else [])]


def markdown(found: TokenizerComparison) -> str:
    """The comparison as GitHub Markdown."""
    parts = [f"# {TITLE}"]
    for heading, some in tables(found):
        parts += [f"## {heading}", *(markdown_table(table).rstrip("\n") for table in some)]
    return "\n\n".join(parts) + "\n"


def page(found: TokenizerComparison) -> Page:
    """The comparison as a page with everything inside."""
    sample = found.tokenizers[0].everything
    made = Page(TITLE, " · ".join(one.name for one in found.tokenizers))
    made.definitions(
        [
            ("Sample", f"{sample.documents:,} of {found.corpus_documents:,} documents, evenly spaced"),
            ("Words", f"{sample.words:,}, counted where they have a letter"),
            ("Terms", _terms(found)),
            *((one.name, f"{one.model}, {one.size:,} entries, {_unknown(one)}") for one in found.tokenizers),
        ]
    )
    for heading, some in tables(found):
        made.heading(heading)
        for number, table in enumerate(some):
            made.table(table)
            if heading == "Figures" and number == 0:
                made.figure(_plot(found), caption="Fertility: sub-words per word, by source and language.")
    return made


def _plot(found: TokenizerComparison) -> str:
    groups = [("", "everything", _everything), *_groups(found)]
    bars = [
        Bar(f"{group} ({kind})" if kind else group, of(one).fertility, series=one.name)
        for kind, group, of in groups
        for one in found.tokenizers
    ]
    return bars_with_intervals(bars, xlabel="sub-words per word")


def _everything(one: TokenizerFigures) -> Ratios:
    return one.everything


def _groups(found: TokenizerComparison) -> list[tuple[str, str, Callable[[TokenizerFigures], Ratios]]]:
    """The parts that tell more than everything does: sources and languages, where there are several."""
    first = found.tokenizers[0]
    return [
        (kind, name, partial(_of, part, name))
        for kind, part, names in (("source", "sources", first.sources), ("language", "languages", first.languages))
        if len(names) > 1
        for name in names
    ]


def _of(part: str, name: str, one: TokenizerFigures) -> Ratios:
    found: Ratios = getattr(one, part)[name]
    return found


def _columns(found: TokenizerComparison, like: Column) -> list[Column]:
    return [Column(one.name, digits=like.digits, scale=like.scale, best=like.best) for one in found.tokenizers]


def _terms(found: TokenizerComparison) -> str:
    facts = found.terms
    kind = "found by their parts" if facts.given is None else f"of {facts.given:,} given"
    absent = 0 if facts.given is None else facts.given - facts.seen
    return (
        f"{facts.used:,} terms ({kind}; {facts.occurrences:,} occurrences) stand in at least {facts.min_documents} "
        f"documents of the sample; {facts.seen - facts.used:,} rarer ones are left out"
        + (f", {absent:,} do not occur." if absent else ".")
    )


def _unknown(one: TokenizerFigures) -> str:
    return "no unknown token" if one.unknown_token is None else f"unknown token {one.unknown_token}"


def _sameness(vocabulary: bool, tokens: bool) -> str:
    return "yes" if vocabulary else "tokens, not numbers" if tokens else "no"
