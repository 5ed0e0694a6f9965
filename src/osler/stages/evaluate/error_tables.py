"""The tables of the error page: counts, who was taken for whom, and errors grouped by what they say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from osler.metrics.spans import Extent
from osler.report.tables import Cell, Column, Links, Table
from osler.stages.evaluate.errors import Errors
from osler.stages.evaluate.findings import (
    Finding,
    Outcome,
    confusions,
    gold_outcomes,
    labels_in,
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


def in_words(kind: Kind, outcome: Outcome) -> str:
    """An outcome in the words of a kind of task."""
    return "another class" if kind is Kind.CLASSIFICATION and outcome is Outcome.TYPE else outcome.said


def outcome_table(errors: Errors, side: str) -> Table:
    """For each type, what became of gold mentions, or what the predictions are; each row adds up."""
    gold = side == "gold"
    counts = gold_outcomes(errors.findings) if gold else predicted_outcomes(errors.findings)
    kinds = [o for o in Outcome if o is Outcome.CORRECT or o in {outcome for _, outcome in counts}]
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


def form_table(errors: Errors, outcome: Outcome, anchors: Anchors) -> Table:
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
        columns.append("right elsewhere" if outcome is Outcome.MISSED else "in gold elsewhere")
    caption = _of_all(GROUPS, len(ranked), "groups", sum(len(found) for found in groups.values()))
    return Table([*columns, "documents"], rows, caption)


def _form_columns(errors: Errors, outcome: Outcome) -> list[str]:
    types = ["gold type", "predicted type"] if outcome in {Outcome.TYPE, Outcome.BOUNDARY_TYPE} else ["type"]
    if errors.card.kind is Kind.RELATION:
        return ["head", "tail", *types]
    texts = ["gold", "predicted"] if outcome in {Outcome.BOUNDARY, Outcome.BOUNDARY_TYPE} else ["text"]
    return [*texts, *types]


def _forms(errors: Errors, finding: Finding) -> tuple[str, ...]:
    """What a finding is grouped by: its texts, then its types, as `_form_columns` names them."""
    document = errors.gold[finding.record]
    answer = finding.gold or finding.predicted
    if answer is None or not isinstance(document, Document):
        return ()
    extents = list(answer.extents)
    if finding.outcome in {Outcome.BOUNDARY, Outcome.BOUNDARY_TYPE} and finding.predicted:
        extents += finding.predicted.extents
    labels = dict.fromkeys(side.label for side in (finding.gold, finding.predicted) if side)
    return (*(form(document, extent) for extent in extents), *labels)


def _elsewhere(errors: Errors, outcome: Outcome) -> Counter[tuple[str, ...]] | None:
    """How often the same characters with the same type were got right, or are in gold: is it the word or its place?"""
    if outcome is Outcome.MISSED:
        return Counter(_forms(errors, f) for f in errors.findings if f.outcome is Outcome.CORRECT)
    if outcome is Outcome.INVENTED:
        gold_only = (Finding(f.record, Outcome.CORRECT, f.gold) for f in errors.findings if f.gold)
        return Counter(_forms(errors, finding) for finding in gold_only)
    return None


def label_table(errors: Errors, outcome: Outcome, anchors: Anchors) -> Table:
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
