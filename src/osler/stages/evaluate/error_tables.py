"""Tables of the error page, and errors.csv and errors.json, which hold no text."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from osler.core.files import write_atomic, write_json
from osler.metrics.calibration import calibration
from osler.metrics.spans import Extent
from osler.report.tables import Cell, Column, Links, Table
from osler.stages.evaluate.errors import (
    Errors,
    Finding,
    MatchOutcome,
    confidences,
    confusions,
    gold_outcomes,
    labels_in,
    outcomes,
    predicted_outcomes,
)
from osler.tasks.card import Kind
from osler.text.document import Document

Anchors = Mapping[Finding, tuple[str, str]]
"""Place of a finding on the page: the number of its document, and its anchor."""
_MAX_GROUPS = 25
_MAX_LINKS = 12
_MAX_MATRIX = 12
_MAX_CHARACTERS = 80


def in_words(kind: Kind, outcome: MatchOutcome) -> str:
    """Name of an outcome for a kind of task."""
    return "another class" if kind is Kind.CLASSIFICATION and outcome is MatchOutcome.TYPE else outcome.words


def outcome_table(errors: Errors, side: str) -> Table:
    """Outcomes by type, of gold annotations or of predictions."""
    gold = side == "gold"
    counts = gold_outcomes(errors.findings) if gold else predicted_outcomes(errors.findings)
    kinds = [o for o in MatchOutcome if o is MatchOutcome.CORRECT or o in {outcome for _, outcome in counts}]
    labels = labels_in(errors.findings, errors.card.labels)
    rows: list[list[Cell]] = []
    lines = [(label, [label]) for label in labels]
    for name, members in [*lines, ("all", labels)] if len(labels) > 1 else lines:
        numbers = [sum(counts[label, outcome] for label in members) for outcome in kinds]
        total = sum(numbers)
        rows.append([name, total, *numbers, numbers[0] / total if total else None])
    last = Column("recall" if gold else "precision", digits=1, scale=100, align="right")
    columns: list[Column | str] = ["type", side, *(in_words(errors.card.kind, outcome) for outcome in kinds), last]
    return Table(columns, rows, "Gold annotations by outcome" if gold else "Predictions by outcome")


def confusion_table(errors: Errors) -> Table | None:
    """Gold labels in rows, predicted labels in columns; with many labels, a list of the confused pairs."""
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
    rows: list[list[Cell]] = [
        [gold if gold is not None else "none (invented)", *(counts[gold, guess] for guess in columns)]
        for gold in [*labels, *([None] if invented else [])]
    ]
    if invented and missed:
        rows[-1][-1] = None  # true negatives are not counted
    names = [Column("gold", align="left"), *(Column(c or "none (missed)", group="predicted") for c in columns)]
    return Table(names, rows, "Gold and predicted labels")


def form_table(errors: Errors, outcome: MatchOutcome, anchors: Anchors) -> Table:
    """Errors of one kind, grouped by their text (of both arguments, for relations) and type."""
    groups: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for finding in errors.findings:
        if finding.outcome is outcome:
            groups[_forms(errors, finding)].append(finding)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    others = _elsewhere(errors, outcome)
    names = _form_columns(errors, outcome)
    # With a single type, the type columns are left out.
    types = [i for i, name in enumerate(names) if "type" in name and len(errors.card.labels) == 1]
    columns: list[Column | str] = [name for i, name in enumerate(names) if i not in types]
    rows: list[list[Cell]] = []
    for key, found in ranked[:_MAX_GROUPS]:
        row: list[Cell] = [cell for i, cell in enumerate(key) if i not in types]
        row.append(len(found))
        if others is not None:
            row.append(others[key])
        shown_first = sorted(
            found, key=lambda f: (f not in anchors, int(anchors[f][0]) if f in anchors else 0, f.place)
        )
        rows.append([*row, _links(shown_first, anchors)])
    columns.append("times")
    if others is not None:
        columns.append("correct elsewhere" if outcome is MatchOutcome.MISSED else "in gold elsewhere")
    caption = _largest(len(ranked), "groups", sum(len(found) for found in groups.values()))
    return Table([*columns, "documents"], rows, caption)


def _form_columns(errors: Errors, outcome: MatchOutcome) -> list[str]:
    types = ["gold type", "predicted type"] if outcome in {MatchOutcome.TYPE, MatchOutcome.BOUNDARY_TYPE} else ["type"]
    if errors.card.kind is Kind.RELATION:
        return ["head", "tail", *types]
    texts = ["gold", "predicted"] if outcome in {MatchOutcome.BOUNDARY, MatchOutcome.BOUNDARY_TYPE} else ["text"]
    return [*texts, *types]


def _forms(errors: Errors, finding: Finding) -> tuple[str, ...]:
    """Texts and types that a finding is grouped by, in the order of `_form_columns`."""
    document = errors.gold[finding.record]
    answer = finding.gold or finding.predicted
    if answer is None or not isinstance(document, Document):
        return ()
    extents = list(answer.extents)
    if finding.outcome in {MatchOutcome.BOUNDARY, MatchOutcome.BOUNDARY_TYPE} and finding.predicted:
        extents += finding.predicted.extents
    labels = dict.fromkeys(side.label for side in (finding.gold, finding.predicted) if side)
    return (*(_form(document, extent) for extent in extents), *labels)


def _form(document: Document, extent: Extent) -> str:
    """Text of a mention, lower-cased, with single spaces."""
    text = " ".join(" ".join(document.text[start:end].split()) for start, end in extent).casefold()
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


def _elsewhere(errors: Errors, outcome: MatchOutcome) -> Counter[tuple[str, ...]] | None:
    """How often the same text and type is correct (or in gold) elsewhere: is it the word or its context?"""
    if outcome is MatchOutcome.MISSED:
        return Counter(_forms(errors, f) for f in errors.findings if f.outcome is MatchOutcome.CORRECT)
    if outcome is MatchOutcome.INVENTED:
        gold_only = (Finding(f.record, MatchOutcome.CORRECT, f.gold) for f in errors.findings if f.gold)
        return Counter(_forms(errors, finding) for finding in gold_only)
    return None


def label_table(errors: Errors, outcome: MatchOutcome, anchors: Anchors) -> Table:
    """Records with a missed or invented label, by label, most confident first."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in errors.findings:
        answer = finding.gold or finding.predicted
        if finding.outcome is outcome and answer:
            groups[answer.label].append(finding)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [(label, len(found), _links(sorted(found, key=surest), anchors)) for label, found in ranked[:_MAX_GROUPS]]
    caption = _largest(len(ranked), "labels", sum(len(found) for found in groups.values()))
    return Table(["label", "times", "documents"], rows, caption)


def class_table(errors: Errors, anchors: Anchors) -> Table:
    """Records with a wrong class, grouped by gold and predicted class, most confident first."""
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in errors.wrong:
        if finding.gold and finding.predicted and finding in anchors:
            groups[finding.gold.label, finding.predicted.label].append(finding)
    rows: list[tuple[Cell, ...]] = []
    headings: dict[int, str] = {}
    everything = confusions(errors.wrong)
    for (gold, guess), found in sorted(groups.items(), key=lambda item: (-everything[item[0]], item[0])):
        headings[len(rows)] = f"gold {gold}, predicted {guess}: {everything[gold, guess]:,}"
        for finding in sorted(found, key=surest):
            score = finding.predicted.score if finding.predicted else None
            rows.append((errors.gold[finding.record].id, score, _links([finding], anchors)))
    return Table(["record", Column("confidence", digits=2), "document"], rows, headings=headings)


def _links(findings: Sequence[Finding], anchors: Anchors) -> Links:
    """Links to the first findings, and the number of others."""
    shown = [anchors[finding] for finding in findings if finding in anchors]
    left = len(findings) - min(len(shown), _MAX_LINKS)
    more = "" if not left else f"+ {left:,}" if shown else "not on this page"
    return Links(tuple(shown[:_MAX_LINKS]), more)


def surest(finding: Finding) -> tuple[float, tuple[object, ...]]:
    """Sort key: most confident first, then findings without a score."""
    score = finding.predicted.score if finding.predicted else None
    return (-score if score is not None else 1.0), finding.place


def _largest(number: int, what: str, cases: int | None = None) -> str:
    counted = f"{number:,} {what}" if number <= _MAX_GROUPS else f"The {_MAX_GROUPS} largest of {number:,} {what}"
    return counted if cases is None else f"{counted}, {cases:,} in all"


_LABEL_COLUMNS = ("document", "class", "gold_type", "predicted_type", "score")
_COLUMNS = {
    Kind.TAGGING: (*_LABEL_COLUMNS, "gold_offsets", "predicted_offsets"),
    Kind.RELATION: (*_LABEL_COLUMNS, "head", "tail", "head_offsets", "tail_offsets"),
    Kind.CLASSIFICATION: _LABEL_COLUMNS,
    Kind.MULTILABEL: _LABEL_COLUMNS,
    Kind.REGRESSION: ("document", "gold", "predicted", "difference"),
}


def write_errors_csv(errors: Errors, path: Path) -> None:
    """Write one line per error; for regression, one line per record."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS[errors.card.kind])
    writer.writerows(_rows(errors))
    write_atomic(path, buffer.getvalue())


def write_errors_json(errors: Errors, path: Path, facts: dict[str, Any]) -> None:
    """Write counts by outcome and type, confusions and calibration."""
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
            row += [_offsets(side.extents[0]) if side else None for side in (gold, predicted)]
        elif errors.card.kind is Kind.RELATION and answer:
            row += [*answer.arguments, *(_offsets(extent) for extent in answer.extents)]
        yield row


def _offsets(extent: Extent) -> str:
    """Offsets as in brat files: `3 9`, with semicolons between fragments. (A spreadsheet reads 3-9 as a date.)"""
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
        "gold": {label: _by_outcome(of_gold, label) for label in labels},
        "predicted": {label: _by_outcome(of_predicted, label) for label in labels},
        "confusion": [{"gold": gold, "predicted": predicted, "count": count} for (gold, predicted), count in pairs],
        "calibration": _calibration(errors),
    }


def _calibration(errors: Errors) -> dict[str, Any] | None:
    scores, right = confidences(errors.findings)
    if not scores:
        return None
    found = calibration(scores, right)
    return {"expected_error": found.expected_error, "largest_error": found.largest_error, "predictions": len(scores)}


def _by_outcome(counts: dict[tuple[str, MatchOutcome], int], label: str) -> dict[str, int]:
    return {outcome.value: counts[label, outcome] for outcome in MatchOutcome if counts.get((label, outcome))}
