"""The error page: what went wrong, counted, grouped, and linked to the documents below with gold and predictions marked.

It holds the text of documents, says so at its top, and is made on request only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from osler.report.page import Page
from osler.report.tables import Cell, Column, Links
from osler.stages.evaluate.confidence import confidence_section
from osler.stages.evaluate.error_marks import TYPE, Marked, marked, marked_value
from osler.stages.evaluate.error_tables import (
    Anchors,
    class_table,
    confusion_table,
    form_table,
    in_words,
    label_table,
    outcome_table,
    surest,
)
from osler.stages.evaluate.errors import Errors
from osler.stages.evaluate.findings import WRONG, Finding, Outcome, Residual, outcomes
from osler.tasks.card import Kind
from osler.text.document import Document

_WARNING = (
    "**This page holds the text of documents.** Keep it, share it and delete it as you would the documents themselves."
)
_MEANINGS = {
    Outcome.MISSED: "Gold has it and no prediction goes with it.",
    Outcome.INVENTED: "Predicted, and nothing in gold goes with it.",
    Outcome.BOUNDARY: "The right type on characters that overlap those of gold.",
    Outcome.TYPE: "The same place with another type.",
    Outcome.BOUNDARY_TYPE: "Another type, on characters that overlap those of gold.",
}
_HEADINGS = {
    Outcome.BOUNDARY: "Wrong boundary",
    Outcome.TYPE: "Wrong type",
    Outcome.BOUNDARY_TYPE: "Wrong boundary and type",
}
_RESIDUALS = 100


@dataclass(frozen=True)
class Heading:
    """What was scored, for the top of the page."""

    split: str
    protocol: str
    metric: str
    main: float
    metrics: Mapping[str, float]


def write_error_page(errors: Errors, heading: Heading, path: Path, *, documents: int) -> None:
    """Write the page with at most so many documents: those with most errors, or with the surest or largest ones."""
    page = Page(f"Errors: {errors.card.name}", errors.card.title)
    page.text(_WARNING)
    if errors.card.kind is Kind.REGRESSION:
        _regression(page, errors, heading, documents)
    else:
        _findings(page, errors, heading, documents)
    page.write(path)


def _findings(page: Page, errors: Errors, heading: Heading, limit: int) -> None:
    chosen = shown_records(errors, limit)
    by_record: dict[int, list[Finding]] = defaultdict(list)
    for finding in errors.findings:
        by_record[finding.record].append(finding)
    views = [marked(errors, number, by_record[number], place) for place, number in enumerate(chosen, 1)]
    anchors = {
        finding: (str(place), anchor)
        for place, view in enumerate(views, 1)
        for finding, anchor in view.anchors.items()
        if finding.outcome is not Outcome.CORRECT
    }
    counts = outcomes(errors.findings)
    wrong_records = len({finding.record for finding in errors.wrong})
    errors_said = ", ".join(
        f"{counts[outcome]:,} {in_words(errors.card.kind, outcome)}" for outcome in WRONG if counts[outcome]
    )
    page.numbers(
        [
            (heading.metric.replace("_", " "), f"{heading.main * 100:.2f}", heading.protocol),
            ("correct", f"{counts[Outcome.CORRECT]:,}"),
            ("errors", f"{len(errors.wrong):,}", errors_said),
            ("records with an error", f"{wrong_records:,}", f"of {len(errors.gold):,} in {heading.split}"),
        ]
    )
    page.heading("Counts").table(outcome_table(errors, "gold")).table(outcome_table(errors, "predicted"))
    _counting_note(page, errors.card.kind, heading)
    confusion = confusion_table(errors)
    if confusion is not None:
        page.heading("Confusion").table(confusion)
    _SECTIONS[errors.card.kind](page, errors, anchors)
    confidence_section(page, errors)
    _documents(
        page, errors, views, f"the {len(views):,} {_CHOICE[errors.card.kind]} of {wrong_records:,}", wrong_records
    )


def shown_records(errors: Errors, limit: int) -> list[int]:
    """The records to show: most errors first, or where a record has one answer the surest error first."""
    by_record: dict[int, list[Finding]] = defaultdict(list)
    for finding in errors.wrong:
        by_record[finding.record].append(finding)
    if errors.card.kind is Kind.CLASSIFICATION:
        return [finding.record for finding in sorted(errors.wrong, key=surest)][:limit]
    return sorted(by_record, key=lambda number: (-len(by_record[number]), number))[:limit]


_CHOICE = {
    Kind.TAGGING: "with most errors",
    Kind.RELATION: "with most errors",
    Kind.MULTILABEL: "with most errors",
    Kind.CLASSIFICATION: "with the surest errors",
    Kind.REGRESSION: "furthest off",
}


def _counting_note(page: Page, kind: Kind, heading: Heading) -> None:
    if kind is Kind.TAGGING:
        text = (
            "Gold and predicted mentions go together one to one: first what is equal, then the same type on overlapping "
            "characters, then the same characters with another type, then any overlap. A prediction that overlaps two "
            "mentions finds one of them."
        )
        if heading.metric not in {"f1", "macro_f1", "precision", "recall"}:
            text += (
                f" The score above, {heading.metric.replace('_', ' ')}, does not count whole mentions; this page does."
            )
        page.text(text)


def _of_mentions(page: Page, errors: Errors, anchors: Anchors) -> None:
    counts = outcomes(errors.findings)
    for outcome in sorted(_MEANINGS, key=lambda outcome: -counts[outcome]):
        if counts[outcome]:
            page.heading(_HEADINGS.get(outcome, outcome.said.capitalize()))
            page.text(_MEANINGS[outcome] + (_lengths(errors) if outcome is Outcome.BOUNDARY else ""))
            page.table(form_table(errors, outcome, anchors))


def _lengths(errors: Errors) -> str:
    """In which way borders are wrong."""
    short = long = other = 0
    for finding in errors.findings:
        if finding.outcome is Outcome.BOUNDARY and finding.gold and finding.predicted:
            gold, said = finding.gold.extents[0], finding.predicted.extents[0]
            (a, b), (c, d) = (gold[0][0], gold[-1][1]), (said[0][0], said[-1][1])
            short += a <= c and d <= b
            long += (c <= a and b <= d) and not (a <= c and d <= b)
            other += not (a <= c and d <= b) and not (c <= a and b <= d)
    return f" The prediction is too short {short:,} times, too long {long:,} times, and shifted {other:,} times."


def _of_labels(page: Page, errors: Errors, anchors: Anchors) -> None:
    for outcome in (Outcome.MISSED, Outcome.INVENTED):
        if outcomes(errors.findings)[outcome]:
            page.heading(outcome.said.capitalize()).text(_MEANINGS[outcome])
            page.table(label_table(errors, outcome, anchors))


def _of_classes(page: Page, errors: Errors, anchors: Anchors) -> None:
    if errors.wrong:
        page.heading("Wrong").text("By gold and predicted class, the most confident first.")
        page.table(class_table(errors, anchors))


_SECTIONS: dict[Kind, Callable[[Page, Errors, Anchors], None]] = {
    Kind.TAGGING: _of_mentions,
    Kind.RELATION: _of_mentions,
    Kind.MULTILABEL: _of_labels,
    Kind.CLASSIFICATION: _of_classes,
}


def _documents(page: Page, errors: Errors, views: Sequence[Marked], chosen: str, wrong: int) -> None:
    page.heading("Documents")
    if not views:
        page.text("No record has an error.")
        return
    page.text(
        f"All {wrong:,} with an error." if len(views) == wrong else f"Here are {chosen}; errors.csv lists all errors."
    )
    several = len(errors.card.labels) > 1
    for view in views:
        if isinstance(view.record, Document):
            page.note(view.record, view.caption, beside=(TYPE,) if several else ())
        else:
            page.pair(view.record, view.caption)


def _regression(page: Page, errors: Errors, heading: Heading, limit: int) -> None:
    residuals = errors.residuals
    number = max(len(residuals), 1)
    off = sum(abs(residual.difference) for residual in residuals) / number
    bias = sum(residual.difference for residual in residuals) / number
    page.numbers(
        [
            (heading.metric, f"{heading.main * 100:.2f}", heading.protocol),
            ("mean absolute difference", f"{off:.3f}"),
            ("mean difference", f"{bias:+.3f}".replace("-", "−"), "predicted minus gold"),
            ("records", f"{len(residuals):,}", heading.split),
        ]
    )
    fifths = [Column(name, digits=2) for name in ("gold from", "to")]
    means = [Column(name, digits=3) for name in ("mean gold", "mean predicted", "mean difference")]
    page.heading("By gold value").text(
        "The records in five parts by their gold value. A model that says little pulls low values up and high ones down."
    )
    page.table([*fifths, "records", *means], _fifths(residuals))
    worst = sorted(residuals, key=lambda residual: (-abs(residual.difference), residual.record))[:limit]
    values = [Column(name, digits=3) for name in ("gold", "predicted", "difference")]
    rows = [
        (errors.gold[r.record].id, r.gold, r.predicted, r.difference, Links(((str(place), f"n{place}"),)))
        for place, r in enumerate(worst[:_RESIDUALS], 1)
    ]
    page.heading("Largest differences").table(["record", *values, "document"], rows)
    views = [marked_value(errors, residual, place) for place, residual in enumerate(worst, 1)]
    _documents(page, errors, views, f"the {len(views):,} {_CHOICE[Kind.REGRESSION]} of {len(residuals):,}", -1)


def _fifths(residuals: Sequence[Residual]) -> list[list[Cell]]:
    ordered = sorted(residuals, key=lambda residual: (residual.gold, residual.record))
    borders = [len(ordered) * part // 5 for part in range(6)]
    rows: list[list[Cell]] = []
    for start, end in pairwise(borders):
        part = ordered[start:end]
        if part:
            gold = sum(r.gold for r in part) / len(part)
            said = sum(r.predicted for r in part) / len(part)
            rows.append([part[0].gold, part[-1].gold, len(part), gold, said, said - gold])
    return rows
