"""report.html of a corpus: what each step removed from each source, and what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from osler.artifacts.corpus import STEPS, step_order
from osler.artifacts.corpus_card import CorpusCard, CorpusCounts, counts_table, facts_table, shares_table
from osler.artifacts.ledger import Ledger, LedgerTotal
from osler.core.console import count_text
from osler.report.bars import heatmap, histogram, stacked_bars
from osler.report.page import Page
from osler.report.tables import Column, Row, Table

_KEPT = "kept"
_REST = "other sources"
_COLOURS = (
    "filter",
    "near-duplicates",
    "rewrite",
    "exact-duplicates",
    "boilerplate",
    "decontaminate",
    "read",
    "licence",
    "revisions",
    "select",
    "deidentify",
)
"""Steps in colour order: those that remove most get the most distinct colours."""
_SOURCES = 24  # maximum rows of a plot; the smallest sources share the last one
_LINES = 4  # maximum lines of a histogram
_PAIRS = 12  # maximum sources in the matrix of near-duplicates


def report_page(card: CorpusCard, ledger: Ledger, preparation: Sequence[str]) -> Page:
    """Build the page about a corpus. It shows no document text."""
    totals = ledger.totals()
    # Records that a reader is told to skip, such as those in other languages, do not count as removed.
    left_out = sum(total.entries for total in totals if (total.step, total.unit) == ("select", "document"))
    read, removed = card.read - left_out, sum(card.removed.values()) - left_out
    page = Page("Corpus", f"{count_text(len(card.sources), 'source')}, cleaned by osler")
    page.numbers(
        [
            ("documents", f"{card.documents:,}", f"of {read:,} read"),
            (
                "tokens",
                f"{card.words:,}",
                f"of {card.read_words:,} read" if card.read_words else "separated by whitespace",
            ),
            *([("sentences", f"{card.sentences:,}", f"of {card.read_sentences:,} read")] if card.sentences else []),
            ("removed", f"{_percent(removed, read):.1f} %", f"{removed:,} documents"),
            *([("left out", f"{left_out:,}", "records that readers are not asked for")] if left_out else []),
        ]
    )
    page.heading("Sources")
    page.table(counts_table(card))
    page.table(facts_table(card))
    page.text("Tokens are separated by whitespace.")
    if card.read_words:
        sizes = {
            name: {_KEPT: float(counts.words), "removed": float(max(0, counts.read_words - counts.words))}
            for name, counts in _grouped(card).items()
        }
        plot = stacked_bars(sizes, xlabel="tokens", title="Tokens before and after", neutral="removed")
        page.figure(plot, "All tokens that were read.")
    _removals(page, card, totals)
    _near_duplicates(page, ledger)
    _lengths(page, card)
    if len(card.languages) > 1 or len(card.licences) > 1:
        page.heading("Languages and licences")
        page.table(shares_table(card.languages, "language")).table(shares_table(card.licences, "licence"))
    page.heading("Preparation").text("\n".join(f"- {line}" for line in preparation))
    page.text("`recipe.toml` in this folder has every setting, `ledger.parquet` the reason for each removal.")
    return page


def _removals(page: Page, card: CorpusCard, totals: Sequence[LedgerTotal]) -> None:
    page.heading("What each step removed")
    gone = [total for total in totals if total.unit != "document changed"]
    if not gone:
        page.text("Nothing was removed.")
        return
    groups = _grouped(card)
    documents = _segments(groups, [total for total in gone if total.unit == "document"], "entries")
    if any(map(any, (segments.values() for segments in documents.values()))):
        plot = stacked_bars(documents, xlabel="% of the documents", title="Documents removed", colours=_COLOURS)
        page.figure(plot, "The step that removed a document, in percent of the documents of the source that were read.")
    text = _segments(groups, gone, "characters")
    if any(map(any, (segments.values() for segments in text.values()))):
        plot = stacked_bars(text, xlabel="% of the characters", title="Text removed", colours=_COLOURS)
        page.figure(plot, "Removed documents, and passages removed from documents that were kept.")
    rows: list[Row] = []
    by_reason: dict[tuple[str, str, str], list[LedgerTotal]] = {}
    for total in totals:
        by_reason.setdefault((total.step, total.reason, total.unit), []).append(total)
    for (step, reason, unit), several in sorted(by_reason.items(), key=lambda item: _order(*item[0])):
        count, size = sum(total.entries for total in several), sum(total.characters for total in several)
        most = max(several, key=lambda total: (total.entries, total.source)).source
        rows.append([step, reason, unit, count, None if unit == "document changed" else size, most])
    columns = ["step", "reason", "unit", "number", "characters", "most from"]
    page.table(Table(columns, rows))
    page.text("`osler corpus audit CORPUS --step STEP` shows a sample of what a step removed.")


def _order(step: str, reason: str, unit: str) -> tuple[int, str, str]:
    return step_order(step), unit, reason


def _near_duplicates(page: Page, ledger: Ledger) -> None:
    pairs, hundredths = ledger.near_duplicates()
    if not pairs:
        return
    page.heading("Near-duplicates")
    page.text("Each removed document has one that was kept: the ledger has its id and how alike the two are.")
    if hundredths:
        bins = range(min(hundredths), 101)
        width = -(-len(bins) // 25)
        starts = list(bins)[::width]
        counts = [float(sum(hundredths[value] for value in range(start, start + width))) for start in starts]
        names = [f"{start / 100:.2f}" for start in starts]
        plot = histogram(
            {"pairs": counts}, names, xlabel="Jaccard", ylabel="removed documents", title="Similarity of the pairs"
        )
        page.figure(plot, f"Jaccard similarity of the removed and the kept document, in steps of {width / 100:g}.")
    removed, kept = (_largest(pairs, side) for side in (0, 1))
    if len({*removed, *kept}) > 1:
        values = [[float(pairs[row, column]) if pairs[row, column] else None for column in kept] for row in removed]
        plot = heatmap(
            values, rows=removed, columns=kept, digits=0, xlabel="kept", ylabel="removed", title="Between which sources"
        )
        page.figure(plot, "Documents of the source on the left that were removed because of one in the source below.")


def _largest(pairs: Counter[tuple[str, str]], side: int) -> list[str]:
    """Return the sources with most removed (0) or kept (1) documents of near-duplicate pairs."""
    counts: Counter[str] = Counter()
    for pair, count in pairs.items():
        counts[pair[side]] += count
    return sorted(counts, key=lambda name: (-counts[name], name))[:_PAIRS]


def _lengths(page: Page, card: CorpusCard) -> None:
    page.heading("Document length")
    bins = sorted({int(low) for low in card.words_per_document})
    if not bins:
        page.text("The card has no lengths.")
        return
    lows = [2**power for power in range(bins[0].bit_length() - 1, bins[-1].bit_length())]
    largest = sorted(card.sources.items(), key=lambda item: (-item[1].documents, item[0]))[:_LINES]
    known = {name: source.words_per_document for name, source in largest if source.words_per_document}
    shown: dict[str, Mapping[str, int]] = {**known} if len(known) > 1 else {"all sources": card.words_per_document}
    series = {
        name: [_percent(lengths.get(str(low), 0), sum(lengths.values())) for low in lows]
        for name, lengths in shown.items()
    }
    names = [f"{low:,}" if low < 1024 else f"{low >> 10:,} k" for low in lows]
    plot = histogram(series, names, xlabel="tokens", ylabel="% of the documents", title="Tokens per document")
    more = f" The {_LINES} largest sources." if len(known) < len(card.sources) and len(known) > 1 else ""
    page.figure(plot, f"Each bin begins at the number below it and ends before twice that number.{more}")
    rows: list[Row] = [
        [f"{low:,} to {2 * low - 1:,}", count, _percent(count, card.documents)]
        for low in lows
        for count in [card.words_per_document.get(str(low), 0)]
    ]
    page.table(Table(["tokens", "documents", Column("%", 1)], rows))


def _grouped(card: CorpusCard) -> dict[str, CorpusCounts]:
    """Return the sources in recipe order, with the smaller ones merged if there are too many."""
    largest = sorted(card.sources, key=lambda name: (-card.sources[name].read, name))
    shown = set(largest) if len(largest) <= _SOURCES else set(largest[: _SOURCES - 1])
    groups: dict[str, CorpusCounts] = {name: source for name, source in card.sources.items() if name in shown}
    rest = [source for name, source in card.sources.items() if name not in shown]
    if rest:
        fields = ("read", "read_words", "read_characters", "documents", "words", "characters")
        groups[_REST] = CorpusCounts(**{name: sum(getattr(source, name) for source in rest) for name in fields})
    return groups


def _segments(
    groups: Mapping[str, CorpusCounts], totals: Sequence[LedgerTotal], what: str
) -> dict[str, dict[str, float]]:
    """Return the percentage that each step removed from each source."""
    lost: dict[str, Counter[str]] = {name: Counter() for name in groups}
    for total in totals:
        lost[total.source if total.source in groups else _REST][total.step] += getattr(total, what)
    result = {}
    for name, counts in groups.items():
        kept = counts.documents if what == "entries" else counts.characters
        everything = kept + lost[name].total()
        steps = [step for step in STEPS if any(lost[other][step] for other in lost)]
        result[name] = {step: _percent(lost[name][step], everything) for step in steps}
    return result


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
