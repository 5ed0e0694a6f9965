"""Errors as tables for the page, and as errors.csv and errors.json without any text."""

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
"""Where a finding stands on the page: the number of its document, and its anchor."""
GROUPS = 25
LINKS = 12
_MATRIX = 12
_FORM = 80


def in_words(kind: Kind, outcome: MatchOutcome) -> str:
    """An outcome in the words of a kind of task."""
    return "another class" if kind is Kind.CLASSIFICATION and outcome is MatchOutcome.TYPE else outcome.said


def outcome_table(errors: Errors, side: str) -> Table:
    """For each type, what became of gold mentions, or what the predictions are; each row adds up."""
    gold = side == "gold"
    counts = gold_outcomes(errors.findings) if gold else predicted_outcomes(errors.findings)
    kinds = [o for o in MatchOutcome if o is MatchOutcome.CORRECT or o in {outcome for _, outcome in counts}]
    rows: list[list[Cell]] = []
    labels = labels_in(errors.findings, errors.card.labels)
    for label in labels:
        rows.append([label, *_line([counts[label, outcome] for outcome in kinds])])
    if len(labels) > 1:
        rows.append(["all", *_line([sum(counts[label, outcome] for label in labels) for outcome in kinds])])
    last = Column("recall" if gold else "precision", digits=1, scale=100, align="right")
    columns: list[Column | str] = ["type", side, *(in_words(errors.card.kind, outcome) for outcome in kinds), last]
    caption = "What became of what gold has" if gold else "What the predictions are"
    return Table(columns, rows, caption)


def _line(numbers: Sequence[int]) -> list[Cell]:
    """The sum, the numbers, and the share of the first of them (the right ones)."""
    total = sum(numbers)
    return [total, *numbers, numbers[0] / total if total else None]


def confusion_table(errors: Errors) -> Table | None:
    """Gold labels in rows, predicted ones in columns; with many labels a list of the pairs that differ."""
    labels = labels_in(errors.findings, errors.card.labels)
    if len(labels) < 2:
        return None
    counts = confusions(errors.findings)
    if len(labels) > _MATRIX:
        pairs = [(n, gold, said) for (gold, said), n in counts.items() if gold and said and gold != said]
        ranked = sorted(pairs, key=lambda item: (-item[0], item[1], item[2]))
        caption = "Taken for another. " + _of_all(GROUPS, len(ranked), "pairs of labels")
        return Table(["gold", "predicted", "times"], [(a, b, n) for n, a, b in ranked[:GROUPS]], caption)
    lone_gold = any(said is None for _, said in counts)
    lone_said = any(gold is None for gold, _ in counts)
    columns: list[str | None] = [*labels, *([None] if lone_gold else [])]
    rows: list[list[Cell]] = [
        [gold if gold is not None else "none (invented)", *(counts[gold, said] for said in columns)]
        for gold in [*labels, *([None] if lone_said else [])]
    ]
    if lone_said and lone_gold:
        rows[-1][-1] = None  # nothing in gold and nothing predicted is not counted
    names = [Column("gold", align="left"), *(Column(c or "none (missed)", group="predicted") for c in columns)]
    return Table(names, rows, "Gold and predicted together")


def form(document: Document, extent: Extent) -> str:
    """The characters of a mention, as errors are grouped by them: blanks made one, case folded."""
    text = " ".join(" ".join(document.text[start:end].split()) for start, end in extent).casefold()
    return text if len(text) <= _FORM else text[: _FORM - 1] + "…"


def form_table(errors: Errors, outcome: MatchOutcome, anchors: Anchors) -> Table:
    """Errors of one class, grouped by their characters (of both arguments, for relations) and types."""
    groups: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for finding in errors.findings:
        if finding.outcome is outcome:
            groups[_forms(errors, finding)].append(finding)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    others = _elsewhere(errors, outcome)
    names = _form_columns(errors, outcome)
    # A column that says one thing throughout, such as the one type there is, says nothing.
    types = [i for i, name in enumerate(names) if "type" in name and len(errors.card.labels) == 1]
    columns: list[Column | str] = [name for i, name in enumerate(names) if i not in types]
    rows: list[list[Cell]] = []
    for key, found in ranked[:GROUPS]:
        row: list[Cell] = [cell for i, cell in enumerate(key) if i not in types]
        row.append(len(found))
        if others is not None:
            row.append(others[key])
        there_first = sorted(
            found, key=lambda f: (f not in anchors, int(anchors[f][0]) if f in anchors else 0, f.place)
        )
        rows.append([*row, links(there_first, anchors)])
    columns.append("times")
    if others is not None:
        columns.append("right elsewhere" if outcome is MatchOutcome.MISSED else "in gold elsewhere")
    caption = _of_all(GROUPS, len(ranked), "groups", sum(len(found) for found in groups.values()))
    return Table([*columns, "documents"], rows, caption)


def _form_columns(errors: Errors, outcome: MatchOutcome) -> list[str]:
    types = ["gold type", "predicted type"] if outcome in {MatchOutcome.TYPE, MatchOutcome.BOUNDARY_TYPE} else ["type"]
    if errors.card.kind is Kind.RELATION:
        return ["head", "tail", *types]
    texts = ["gold", "predicted"] if outcome in {MatchOutcome.BOUNDARY, MatchOutcome.BOUNDARY_TYPE} else ["text"]
    return [*texts, *types]


def _forms(errors: Errors, finding: Finding) -> tuple[str, ...]:
    """What a finding is grouped by: its texts, then its types, as `_form_columns` names them."""
    document = errors.gold[finding.record]
    answer = finding.gold or finding.predicted
    if answer is None or not isinstance(document, Document):
        return ()
    extents = list(answer.extents)
    if finding.outcome in {MatchOutcome.BOUNDARY, MatchOutcome.BOUNDARY_TYPE} and finding.predicted:
        extents += finding.predicted.extents
    labels = dict.fromkeys(side.label for side in (finding.gold, finding.predicted) if side)
    return (*(form(document, extent) for extent in extents), *labels)


def _elsewhere(errors: Errors, outcome: MatchOutcome) -> Counter[tuple[str, ...]] | None:
    """How often the same characters with the same type were got right, or are in gold: is it the word or its place?"""
    if outcome is MatchOutcome.MISSED:
        return Counter(_forms(errors, f) for f in errors.findings if f.outcome is MatchOutcome.CORRECT)
    if outcome is MatchOutcome.INVENTED:
        gold_only = (Finding(f.record, MatchOutcome.CORRECT, f.gold) for f in errors.findings if f.gold)
        return Counter(_forms(errors, finding) for finding in gold_only)
    return None


def label_table(errors: Errors, outcome: MatchOutcome, anchors: Anchors) -> Table:
    """Records whose label was missed or invented, the most confident first, label by label."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in errors.findings:
        answer = finding.gold or finding.predicted
        if finding.outcome is outcome and answer:
            groups[answer.label].append(finding)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [(label, len(found), links(sorted(found, key=surest), anchors)) for label, found in ranked[:GROUPS]]
    caption = _of_all(GROUPS, len(ranked), "labels", sum(len(found) for found in groups.values()))
    return Table(["label", "times", "documents"], rows, caption)


def class_table(errors: Errors, anchors: Anchors) -> Table:
    """Records put into a wrong class, grouped by the two classes, the most confident first."""
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in errors.wrong:
        if finding.gold and finding.predicted and finding in anchors:
            groups[finding.gold.label, finding.predicted.label].append(finding)
    rows: list[tuple[Cell, ...]] = []
    headings: dict[int, str] = {}
    everything = confusions(errors.wrong)
    for (gold, said), found in sorted(groups.items(), key=lambda item: (-everything[item[0]], item[0])):
        headings[len(rows)] = f"gold {gold}, predicted {said}: {everything[gold, said]:,}"
        for finding in sorted(found, key=surest):
            score = finding.predicted.score if finding.predicted else None
            rows.append((errors.gold[finding.record].id, score, links([finding], anchors)))
    return Table(["record", Column("confidence", digits=2), "document"], rows, headings=headings)


def links(findings: Sequence[Finding], anchors: Anchors) -> Links:
    """Links to the first of these, and how many others there are."""
    there = [anchors[finding] for finding in findings if finding in anchors]
    left = len(findings) - min(len(there), LINKS)
    more = "" if not left else f"+ {left:,}" if there else "not on this page"
    return Links(tuple(there[:LINKS]), more)


def surest(finding: Finding) -> tuple[float, tuple[object, ...]]:
    """To sort the most confident first; what has no score stands last, in the order of the records."""
    score = finding.predicted.score if finding.predicted else None
    return (-score if score is not None else 1.0), finding.place


def _of_all(most: int, number: int, what: str, cases: int | None = None) -> str:
    counted = f"{number:,} {what}" if number <= most else f"The {most} largest of {number:,} {what}"
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


def _of(counts: dict[tuple[str, MatchOutcome], int], label: str) -> dict[str, int]:
    return {outcome.value: counts[label, outcome] for outcome in MatchOutcome if counts.get((label, outcome))}
