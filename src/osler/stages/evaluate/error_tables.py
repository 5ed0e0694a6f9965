"""Tables of the error page, and errors.csv and errors.json, which contain no document text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from osler.core.files import csv_row, write_atomic, write_json
from osler.metrics.calibration import calibration
from osler.metrics.spans import Extent
from osler.report.tables import Cell, Column, Links, Row, Table
from osler.stages.evaluate.errors import (
    Errors,
    Finding,
    MatchOutcome,
    Side,
    confidences,
    confusions,
    label_outcomes,
    labels_in,
    outcomes,
)
from osler.tasks.card import Kind
from osler.text.document import Document

Anchors = Mapping[Finding, tuple[str, str]]
"""Position of each finding on the page: document number and anchor."""
_MAX_GROUPS = 25
_MAX_LINKS = 12
_MAX_MATRIX = 12
_MAX_CHARACTERS = 80
_BOUNDARIES = {MatchOutcome.BOUNDARY, MatchOutcome.BOUNDARY_TYPE}
_TYPES = {MatchOutcome.TYPE, MatchOutcome.BOUNDARY_TYPE}


def in_words(kind: Kind, outcome: MatchOutcome) -> str:
    """Return the name of an outcome for a kind of task."""
    return "another class" if kind is Kind.CLASSIFICATION and outcome is MatchOutcome.TYPE else outcome.words


def outcome_table(errors: Errors, side: Side) -> Table:
    """Table of outcomes by type, of gold annotations or of predictions."""
    gold = side == "gold"
    counts = label_outcomes(errors.findings, side)
    kinds = [o for o in MatchOutcome if o is MatchOutcome.CORRECT or o in {outcome for _, outcome in counts}]
    labels = labels_in(errors.findings, errors.card.labels)
    rows: list[Row] = []
    lines = [(label, [label]) for label in labels]
    for name, members in [*lines, ("all", labels)] if len(labels) > 1 else lines:
        numbers = [sum(counts[label, outcome] for label in members) for outcome in kinds]
        total = sum(numbers)
        rows.append([name, total, *numbers, numbers[0] / total if total else None])
    last = Column("recall" if gold else "precision", digits=1, scale=100, align="right")
    columns: list[Column | str] = ["type", side, *(in_words(errors.card.kind, outcome) for outcome in kinds), last]
    return Table(columns, rows, "Gold annotations by outcome" if gold else "Predictions by outcome")


def confusion_table(errors: Errors) -> Table | None:
    """Table of gold labels (rows) by predicted labels (columns); with many labels, a list of confused pairs."""
    labels = labels_in(errors.findings, errors.card.labels)
    if len(labels) < 2:
        return None
    counts = confusions(errors.findings)
    if len(labels) > _MAX_MATRIX:
        pairs = [(n, gold, guess) for (gold, guess), n in counts.items() if gold and guess and gold != guess]
        ranked = sorted(pairs, key=lambda item: (-item[0], item[1], item[2]))
        caption = "Confused labels. " + _largest(len(ranked), "pairs of labels")
        return Table(["gold", "predicted", "times"], [(a, b, n) for n, a, b in ranked[:_MAX_GROUPS]], caption)
    missed = any(guess is None for _, guess in counts)
    invented = any(gold is None for gold, _ in counts)
    columns: list[str | None] = [*labels, *([None] if missed else [])]
    rows: list[Row] = [
        [gold if gold is not None else "none (invented)", *(counts[gold, guess] for guess in columns)]
        for gold in [*labels, *([None] if invented else [])]
    ]
    if invented and missed:
        rows[-1][-1] = None  # true negatives are not counted
    names = [Column("gold", align="left"), *(Column(c or "none (missed)", group="predicted") for c in columns)]
    return Table(names, rows, "Gold and predicted labels")


def form_table(errors: Errors, outcome: MatchOutcome, anchors: Anchors) -> Table:
    """Table of errors of one kind, grouped by text (of both arguments, for relations) and type."""
    groups: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for finding in errors.findings:
        if finding.outcome is outcome:
            groups[_forms(errors, finding)].append(finding)
    if errors.card.kind is Kind.RELATION:
        columns = ["head", "tail"]
    else:
        columns = ["gold", "predicted"] if outcome in _BOUNDARIES else ["text"]
    texts = len(columns)
    if len(errors.card.labels) > 1:  # no column for a single type
        columns += ["gold type", "predicted type"] if outcome in _TYPES else ["type"]
    columns.append("times")
    # Show how often the same text and type is correct, or in gold, elsewhere, to tell the word from its context.
    elsewhere: Counter[tuple[str, ...]] | None = None
    if outcome is MatchOutcome.MISSED:
        columns.append("correct elsewhere")
        elsewhere = Counter(_forms(errors, f) for f in errors.findings if f.outcome is MatchOutcome.CORRECT)
    elif outcome is MatchOutcome.INVENTED:
        columns.append("in gold elsewhere")
        gold_only = (Finding(f.record, MatchOutcome.CORRECT, f.gold) for f in errors.findings if f.gold)
        elsewhere = Counter(_forms(errors, finding) for finding in gold_only)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    rows: list[Row] = []
    for key, found in ranked[:_MAX_GROUPS]:
        row: Row = [*(key if len(errors.card.labels) > 1 else key[:texts]), len(found)]
        if elsewhere is not None:
            row.append(elsewhere[key])
        shown_first = sorted(
            found, key=lambda f: (f not in anchors, int(anchors[f][0]) if f in anchors else 0, f.place)
        )
        rows.append([*row, _links(shown_first, anchors)])
    return Table([*columns, "documents"], rows, _largest(len(ranked), "groups", sum(map(len, groups.values()))))


def _forms(errors: Errors, finding: Finding) -> tuple[str, ...]:
    """Return the texts and types that a finding is grouped by."""
    document = errors.gold[finding.record]
    assert isinstance(document, Document)
    extents = list(finding.answer.extents)
    if finding.outcome in _BOUNDARIES and finding.predicted:
        extents += finding.predicted.extents
    texts = (" ".join(" ".join(document.text[a:b].split()) for a, b in extent).casefold() for extent in extents)
    short = (text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…" for text in texts)
    return (*short, *finding.labels)


def label_table(errors: Errors, outcome: MatchOutcome, anchors: Anchors) -> Table:
    """Table of records with a missed or invented label, by label, most confident first."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in errors.findings:
        if finding.outcome is outcome:
            groups[finding.answer.label].append(finding)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [
        (label, len(found), _links(sorted(found, key=by_confidence), anchors)) for label, found in ranked[:_MAX_GROUPS]
    ]
    caption = _largest(len(ranked), "labels", sum(map(len, groups.values())))
    return Table(["label", "times", "documents"], rows, caption)


def class_table(errors: Errors, anchors: Anchors) -> Table:
    """Table of records with a wrong class, grouped by gold and predicted class, most confident first."""
    groups: dict[tuple[str | None, str | None], list[Finding]] = defaultdict(list)
    for finding in sorted(errors.wrong, key=by_confidence):
        if finding in anchors:
            gold, guess = finding.labels
            groups[gold, guess].append(finding)
    rows: list[tuple[Cell, ...]] = []
    headings: dict[int, str] = {}
    totals = confusions(errors.wrong)
    for pair, found in sorted(groups.items(), key=lambda item: (-totals[item[0]], item[0])):
        headings[len(rows)] = f"gold {pair[0]}, predicted {pair[1]}: {totals[pair]:,}"
        rows += [(errors.gold[f.record].id, f.score, _links([f], anchors)) for f in found]
    return Table(["record", Column("confidence", digits=2), "document"], rows, headings=headings)


def _links(findings: Sequence[Finding], anchors: Anchors) -> Links:
    """Return links to the first findings, and the number of others."""
    shown = [anchors[finding] for finding in findings if finding in anchors]
    left = len(findings) - min(len(shown), _MAX_LINKS)
    more = "" if not left else f"+ {left:,}" if shown else "not on this page"
    return Links(tuple(shown[:_MAX_LINKS]), more)


def by_confidence(finding: Finding) -> tuple[float, tuple[object, ...]]:
    """Sort key: most confident first, then findings without a score."""
    return (-finding.score if finding.score is not None else 1.0), finding.place


def _largest(number: int, what: str, cases: int | None = None) -> str:
    counted = f"{number:,} {what}" if number <= _MAX_GROUPS else f"The {_MAX_GROUPS} largest of {number:,} {what}"
    return counted if cases is None else f"{counted}, {cases:,} in all"


_LABEL_COLUMNS = ("document", "class", "gold_type", "predicted_type", "score")
_COLUMNS = {
    Kind.TAGGING: (*_LABEL_COLUMNS, "gold_offsets", "predicted_offsets"),
    Kind.RELATION: (*_LABEL_COLUMNS, "head", "tail", "head_offsets", "tail_offsets"),
    Kind.CLASSIFICATION: _LABEL_COLUMNS,
    Kind.MULTILABEL: _LABEL_COLUMNS,
    Kind.ATTRIBUTES: (*_LABEL_COLUMNS, "gold_offsets", "predicted_offsets"),
    Kind.REGRESSION: ("document", "gold", "predicted", "difference"),
}


def write_errors_csv(errors: Errors, path: Path) -> None:
    """Write one line per error; for regression, one line per record."""
    write_atomic(path, "".join(map(csv_row, [_COLUMNS[errors.card.kind], *_rows(errors)])))


def _rows(errors: Errors) -> Iterator[list[object]]:
    for residual in errors.residuals:
        name = errors.gold[residual.record].id
        yield [name, residual.gold, residual.predicted, residual.difference]
    for finding in errors.wrong:
        gold, predicted = finding.gold, finding.predicted
        row: list[object] = [
            errors.gold[finding.record].id,
            finding.outcome.value,
            gold.label if gold else None,
            predicted.label if predicted else None,
            finding.score,
        ]
        if errors.card.kind in {Kind.TAGGING, Kind.ATTRIBUTES}:
            row += [_offsets(side.extents[0]) if side else None for side in (gold, predicted)]
        elif errors.card.kind is Kind.RELATION:
            row += [*finding.answer.arguments, *(_offsets(extent) for extent in finding.answer.extents)]
        yield row


def _offsets(extent: Extent) -> str:
    """Format offsets as in brat files: `3 9`, with semicolons between fragments. (A spreadsheet reads 3-9 as a date.)"""
    return ";".join(f"{start} {end}" for start, end in extent)


def write_errors_json(errors: Errors, path: Path, facts: dict[str, Any]) -> None:
    """Write counts by outcome and type, confusions and calibration; for regression, the mean absolute error."""
    found: dict[str, Any] = {**facts, "records": len(errors.gold)}
    if errors.card.kind is Kind.REGRESSION:
        sizes = [abs(residual.difference) for residual in errors.residuals]
        write_json(path, {**found, "mean_absolute_error": sum(sizes) / max(len(sizes), 1)})
        return
    findings = errors.findings
    found["classes"] = {outcome.value: count for outcome, count in sorted(outcomes(findings).items())}
    sides: tuple[Side, ...] = ("gold", "predicted")
    for side in sides:
        counts = label_outcomes(findings, side)
        found[side] = {
            label: {outcome.value: counts[label, outcome] for outcome in MatchOutcome if counts[label, outcome]}
            for label in labels_in(findings, errors.card.labels)
        }
    pairs = sorted(confusions(findings).items(), key=lambda item: (item[0][0] or "", item[0][1] or ""))
    found["confusion"] = [{"gold": gold, "predicted": guess, "count": count} for (gold, guess), count in pairs]
    found["calibration"] = None
    scores, right = confidences(findings)
    if scores:
        gap = calibration(scores, right)
        found["calibration"] = {
            "expected_error": gap.expected_error,
            "largest_error": gap.largest_error,
            "predictions": len(scores),
        }
    write_json(path, found)
