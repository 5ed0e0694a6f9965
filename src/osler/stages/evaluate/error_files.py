"""Errors for other programs: one line an error in errors.csv and the counts in errors.json, both without any text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from osler.core.files import write_atomic, write_json
from osler.metrics.calibration import calibration
from osler.metrics.spans import Extent
from osler.stages.evaluate.errors import Errors
from osler.stages.evaluate.findings import (
    Finding,
    Outcome,
    confidences,
    confusions,
    gold_outcomes,
    labels_in,
    outcomes,
    predicted_outcomes,
)
from osler.tasks.card import Kind

_LABEL_COLUMNS = ("document", "class", "gold_type", "predicted_type", "score")
_COLUMNS = {
    Kind.TAGGING: (*_LABEL_COLUMNS, "gold_offsets", "predicted_offsets"),
    Kind.RELATION: (*_LABEL_COLUMNS, "head", "tail", "head_offsets", "tail_offsets"),
    Kind.CLASSIFICATION: _LABEL_COLUMNS,
    Kind.MULTILABEL: _LABEL_COLUMNS,
    Kind.REGRESSION: ("document", "gold", "predicted", "difference"),
}


def write_errors_csv(errors: Errors, path: Path) -> None:
    """One line for everything that is not right; of a regression, one line a record."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS[errors.card.kind])
    writer.writerows(_rows(errors))
    write_atomic(path, buffer.getvalue())


def write_errors_json(errors: Errors, path: Path, facts: dict[str, Any]) -> None:
    """The counts by class and type, who was taken for whom, and how far confidence is from accuracy."""
    write_json(path, {**facts, **_counts(errors)})


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
            predicted.score if predicted else None,
        ]
        answer = gold or predicted
        if errors.card.kind is Kind.TAGGING:
            row += [offsets(side.extents[0]) if side else None for side in (gold, predicted)]
        elif errors.card.kind is Kind.RELATION and answer:
            row += [*answer.arguments, *(offsets(extent) for extent in answer.extents)]
        yield row


def offsets(extent: Extent) -> str:
    """Characters as brat writes them: `3 9`, fragments parted by semicolons. (A spreadsheet would make 3-9 a date.)"""
    return ";".join(f"{start} {end}" for start, end in extent)


def _counts(errors: Errors) -> dict[str, Any]:
    if errors.card.kind is Kind.REGRESSION:
        sizes = [abs(residual.difference) for residual in errors.residuals]
        return {"records": len(errors.gold), "mean_absolute_error": sum(sizes) / max(len(sizes), 1)}
    labels = labels_in(errors.findings, errors.card.labels)
    of_gold, of_predicted = gold_outcomes(errors.findings), predicted_outcomes(errors.findings)
    pairs = sorted(confusions(errors.findings).items(), key=lambda item: (item[0][0] or "", item[0][1] or ""))
    return {
        "records": len(errors.gold),
        "classes": {outcome.value: count for outcome, count in sorted(outcomes(errors.findings).items())},
        "gold": {label: _of(of_gold, label) for label in labels},
        "predicted": {label: _of(of_predicted, label) for label in labels},
        "confusion": [{"gold": gold, "predicted": predicted, "count": count} for (gold, predicted), count in pairs],
        "calibration": calibration_of(errors.findings),
    }


def calibration_of(findings: tuple[Finding, ...]) -> dict[str, Any] | None:
    """Expected and largest gap between confidence and accuracy; None where no prediction has a score."""
    scores, right = confidences(findings)
    if not scores:
        return None
    found = calibration(scores, right)
    return {"expected_error": found.expected_error, "largest_error": found.largest_error, "predictions": len(scores)}


def _of(counts: dict[tuple[str, Outcome], int], label: str) -> dict[str, int]:
    return {outcome.value: counts[label, outcome] for outcome in Outcome if counts.get((label, outcome))}
