"""The error page: errors counted, grouped, and linked to their marked documents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from osler.artifacts.evaluation import EvaluationMetrics
from osler.metrics.calibration import calibration
from osler.report.page import ListedRecord, Page
from osler.report.plots import curves
from osler.report.tables import Column, Links, Row, Table
from osler.stages.evaluate.error_tables import (
    by_confidence,
    class_table,
    confusion_table,
    form_table,
    in_words,
    label_table,
    outcome_table,
)
from osler.stages.evaluate.errors import WRONG, Errors, Finding, MatchOutcome, Residual, confidences, outcomes
from osler.tasks.card import Kind
from osler.text.document import Document, Record, Relation, Span

_WARNING = (
    "**This page holds the text of documents.** Store, share and delete it as you would the documents themselves."
)
_MEANINGS = {
    MatchOutcome.MISSED: ("Missed", "In gold, without a matching prediction."),
    MatchOutcome.INVENTED: ("Invented", "Predicted, without a match in gold."),
    MatchOutcome.BOUNDARY: ("Wrong boundary", "The correct type, on characters that overlap the gold mention."),
    MatchOutcome.TYPE: ("Wrong type", "The same characters, with another type."),
    MatchOutcome.BOUNDARY_TYPE: (
        "Wrong boundary and type",
        "Another type, on characters that overlap the gold mention.",
    ),
}
_MATCHING = (
    "Gold and predicted mentions are matched one to one: first equal ones, then overlapping ones of the same type, then the same "
    "characters with another type, then any overlap. A prediction that overlaps two gold mentions matches one of them."
)
_MAX_RESIDUALS = 100
_MIN_SCORES = 10
_TYPE = "type"
"""Attribute that holds the type of a marked mention, whose label is its outcome."""


def write_error_page(errors: Errors, scores: EvaluationMetrics, path: Path, *, documents: int) -> None:
    """Write the page with at most `documents` documents, those with the most, most confident or largest errors."""
    page = Page(f"Errors: {errors.card.name}", errors.card.title)
    page.text(_WARNING)
    if errors.card.kind is Kind.REGRESSION:
        _regression(page, errors, scores, documents)
    else:
        _findings(page, errors, scores, documents)
    page.write(path)


def _findings(page: Page, errors: Errors, scores: EvaluationMetrics, limit: int) -> None:
    kind, wrong = errors.card.kind, errors.wrong
    by_record: dict[int, list[Finding]] = defaultdict(list)
    for finding in errors.findings:
        by_record[finding.record].append(finding)
    wrong_in = Counter(finding.record for finding in wrong)
    if kind is Kind.CLASSIFICATION:
        chosen, order = (
            [finding.record for finding in sorted(wrong, key=by_confidence)],
            "with the most confident errors",
        )
    else:
        chosen, order = sorted(wrong_in, key=lambda number: (-wrong_in[number], number)), "with the most errors"
    views = [_marked(errors, number, by_record[number], place) for place, number in enumerate(chosen[:limit], 1)]
    anchors = {
        finding: (str(place), anchor)
        for place, view in enumerate(views, 1)
        for finding, anchor in view.anchors.items()
        if finding.outcome is not MatchOutcome.CORRECT
    }
    counts = outcomes(errors.findings)
    metric = scores.metric.replace("_", " ")
    by_kind = ", ".join(f"{counts[outcome]:,} {in_words(kind, outcome)}" for outcome in WRONG if counts[outcome])
    page.numbers(
        [
            (metric, f"{scores.main * 100:.2f}", scores.protocol),
            ("correct", f"{counts[MatchOutcome.CORRECT]:,}"),
            ("errors", f"{len(wrong):,}", by_kind),
            ("records with an error", f"{len(wrong_in):,}", f"of {len(errors.gold):,} in {scores.split}"),
        ]
    )
    page.heading("Counts").table(outcome_table(errors, "gold")).table(outcome_table(errors, "predicted"))
    if kind is Kind.TAGGING:
        page.text(_MATCHING)
        if scores.metric not in {"f1", "macro_f1", "precision", "recall"}:
            page.text(f"The score above, {metric}, does not count mentions; this page does.")
    confusion = confusion_table(errors)
    if confusion is not None:
        page.heading("Confusion").table(confusion)
    if kind is Kind.CLASSIFICATION:
        if wrong:
            page.heading("Wrong").text("By gold and predicted class, most confident first.")
            page.table(class_table(errors, anchors))
    else:
        by_text = kind is not Kind.MULTILABEL
        for outcome in sorted(_MEANINGS, key=lambda outcome: -counts[outcome] if by_text else 0):
            if counts[outcome]:
                title, meaning = _MEANINGS[outcome]
                page.heading(title).text(meaning + (_lengths(errors) if outcome is MatchOutcome.BOUNDARY else ""))
                page.table((form_table if by_text else label_table)(errors, outcome, anchors))
    _confidence(page, errors)
    shown = f"All {len(views):,} records with an error."
    if len(views) < len(wrong_in):
        shown = f"The {len(views):,} {order} of {len(wrong_in):,}. errors.csv lists all errors."
    _documents(page, errors, views, shown)


def _lengths(errors: Errors) -> str:
    short = long = other = 0
    for finding in errors.findings:
        if finding.outcome is MatchOutcome.BOUNDARY and finding.gold and finding.predicted:
            gold, guess = finding.gold.extents[0], finding.predicted.extents[0]
            (a, b), (c, d) = (gold[0][0], gold[-1][1]), (guess[0][0], guess[-1][1])
            inside, around = a <= c and d <= b, c <= a and b <= d
            short += inside
            long += around and not inside
            other += not (inside or around)
    return f" The prediction is too short {short:,} times, too long {long:,} times, and shifted {other:,} times."


def _documents(page: Page, errors: Errors, views: Sequence[MarkedRecord], shown: str) -> None:
    page.heading("Documents").text(shown if views else "No record has an error.")
    if views:
        several = len(errors.card.labels) > 1
        listed = [
            ListedRecord(view.record, view.caption, [([f.outcome.words], f.labels) for f in view.wrong])
            for view in views
        ]
        filters = () if errors.card.kind is Kind.REGRESSION else ("Error", "Label")
        page.listing(listed, filters=filters, shown=(_TYPE,) if several else ())


def _regression(page: Page, errors: Errors, scores: EvaluationMetrics, limit: int) -> None:
    residuals = errors.residuals
    number = max(len(residuals), 1)
    off = sum(abs(residual.difference) for residual in residuals) / number
    bias = sum(residual.difference for residual in residuals) / number
    page.numbers(
        [
            (scores.metric, f"{scores.main * 100:.2f}", scores.protocol),
            ("mean absolute difference", f"{off:.3f}"),
            ("mean difference", f"{bias:+.3f}".replace("-", "−"), "predicted minus gold"),
            ("records", f"{len(residuals):,}", scores.split),
        ]
    )
    fifths = [Column(name, digits=2) for name in ("gold from", "to")]
    means = [Column(name, digits=3) for name in ("mean gold", "mean predicted", "mean difference")]
    page.heading("By gold value").text(
        "Records in five equal parts by gold value. A weak model predicts low values too high and high values too low."
    )
    page.table(Table([*fifths, "records", *means], _fifths(residuals)))
    worst = sorted(residuals, key=lambda residual: (-abs(residual.difference), residual.record))[:limit]
    values = [Column(name, digits=3) for name in ("gold", "predicted", "difference")]
    rows = [
        (errors.gold[r.record].id, r.gold, r.predicted, r.difference, Links(((str(place), f"n{place}"),)))
        for place, r in enumerate(worst[:_MAX_RESIDUALS], 1)
    ]
    page.heading("Largest differences").table(Table(["record", *values, "document"], rows))
    views = []
    for place, r in enumerate(worst, 1):
        tags = (f"gold {r.gold:.3g}", f"predicted {r.predicted:.3g}", f"difference {r.difference:+.3g}")
        record = errors.gold[r.record]
        views.append(MarkedRecord(_tagged(record, tags), {}, f"{place} · {record.id}"))
    shown = f"The {len(views):,} with the largest differences of {len(residuals):,}. errors.csv lists all records."
    _documents(page, errors, views, shown)


def _fifths(residuals: Sequence[Residual]) -> list[Row]:
    ordered = sorted(residuals, key=lambda residual: (residual.gold, residual.record))
    borders = [len(ordered) * part // 5 for part in range(6)]
    rows: list[Row] = []
    for start, end in pairwise(borders):
        part = ordered[start:end]
        if part:
            gold = sum(r.gold for r in part) / len(part)
            predicted = sum(r.predicted for r in part) / len(part)
            rows.append([part[0].gold, part[-1].gold, len(part), gold, predicted, predicted - gold])
    return rows


def _confidence(page: Page, errors: Errors) -> None:
    """Add accuracy by confidence, if enough predictions have a score."""
    scores, right = confidences(errors.findings)
    if len(scores) < _MIN_SCORES:
        return
    found = calibration(scores, right)
    points = [(part.confidence, part.accuracy) for part in found.bins]
    page.heading("Confidence")
    page.text(
        f"How often predictions are correct, by confidence ({len(scores):,} predictions). Confidence and accuracy differ by "
        f"{found.expected_error * 100:.1f} points on average. Missed annotations have no score and are not counted."
    )
    page.figure(
        curves(
            {"predictions": points, "perfectly calibrated": [(0.0, 0.0), (1.0, 1.0)]},
            xlabel="confidence",
            ylabel="accuracy",
        ),
        "Below the diagonal the model is overconfident, above it underconfident.",
    )
    rows = [(f"{p.low:.1f} to {p.high:.1f}", p.count, p.confidence, p.accuracy, p.gap) for p in found.bins]
    shares = [Column(name, digits=1, scale=100) for name in ("mean confidence", "accuracy", "difference")]
    page.table(Table(["confidence", "predictions", *shares], rows))


@dataclass(frozen=True)
class MarkedRecord:
    """A record to show, the anchor of each finding in it, and its caption."""

    record: Record
    anchors: dict[Finding, str]
    caption: str

    @property
    def wrong(self) -> list[Finding]:
        return [finding for finding in self.anchors if finding.outcome is not MatchOutcome.CORRECT]


def _marked(errors: Errors, number: int, findings: Sequence[Finding], place: int) -> MarkedRecord:
    """Mark the findings of a record, number `place` (from 1) on the page."""
    name, record = f"n{place}", errors.gold[number]
    caption = f"{place} · {record.id}"
    if errors.card.kind in {Kind.TAGGING, Kind.RELATION, Kind.ATTRIBUTES} and isinstance(record, Document):
        counts = outcomes(findings)
        summary = ", ".join(f"{counts[outcome]} {outcome.words}" for outcome in WRONG if counts[outcome])
        mark = _relations if errors.card.kind is Kind.RELATION else _mentions
        return MarkedRecord(*mark(record, findings, name), f"{caption} · {summary}")
    tags: list[str] = []
    for finding in findings:
        answer = finding.predicted or finding.answer
        text = answer.label if answer.score is None else f"{answer.label} {answer.score:.2f}"
        if errors.card.kind is Kind.CLASSIFICATION:
            tags += [f"gold: {finding.answer.label}", f"predicted: {text}"]
        else:
            tags.append(f"{finding.outcome.words}: {text}")
    return MarkedRecord(_tagged(record, tags), dict.fromkeys(findings, name), caption)


def _mentions(document: Document, findings: Sequence[Finding], name: str) -> tuple[Document, dict[Finding, str]]:
    spans: list[Span] = []
    anchors: dict[Finding, str] = {}
    for finding in findings:
        anchors[finding] = f"{name}-s{len(spans)}"
        correct, outcome = finding.outcome is MatchOutcome.CORRECT, finding.outcome.words
        paired = finding.gold is not None and finding.predicted is not None
        for side, answer in (("gold", None if correct else finding.gold), ("predicted", finding.predicted)):
            if answer is not None:
                label = f"{outcome}: {side}" if paired and not correct else outcome
                spans.append(Span(answer.extents[0], label, f"T{len(spans)}", answer.score, {_TYPE: answer.label}))
    return Document(document.id, document.text, tuple(spans)), anchors


def _relations(document: Document, findings: Sequence[Finding], name: str) -> tuple[Document, dict[Finding, str]]:
    relations: list[Relation] = []
    anchors: dict[Finding, str] = {}
    for finding in sorted(findings, key=lambda finding: finding.outcome is MatchOutcome.CORRECT):  # errors first
        head, tail = finding.answer.arguments
        label = f"{finding.outcome.words}: {', predicted '.join(finding.labels)}"
        relations.append(Relation(label, head, tail, score=finding.score))
        anchors[finding] = f"{name}-r{len(relations)}"
    used = {argument for relation in relations for argument in (relation.head, relation.tail)}
    spans = tuple(span for span in document.spans if span.id in used)
    return Document(document.id, document.text, spans, tuple(relations)), anchors


def _tagged(record: Record, tags: Sequence[str]) -> Record:
    if isinstance(record, Document):
        return Document(record.id, record.text, labels=tuple(tags))
    return record.with_(labels=tuple(tags), value=None)
