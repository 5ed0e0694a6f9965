"""A record as the error page shows it: gold and predictions marked side by side, and where each finding stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from osler.stages.evaluate.errors import Errors
from osler.stages.evaluate.findings import Answer, Finding, Outcome, Residual
from osler.tasks.card import Kind
from osler.text.document import Document, Record, Relation, Span

TYPE = "type"
"""The attribute that holds the type of a marked mention, whose label says what became of it."""


@dataclass(frozen=True)
class Marked:
    """A record ready to be shown, its caption, and the anchor of each finding in it."""

    record: Record
    caption: str
    anchors: dict[Finding, str]


def marked(errors: Errors, number: int, findings: Sequence[Finding], place: int) -> Marked:
    """Mark the record with this number, which will stand at this place (from 1) among those on the page."""
    name, record = f"n{place}", errors.gold[number]
    wrong: Counter[Outcome] = Counter(finding.outcome for finding in findings if finding.outcome is not Outcome.CORRECT)
    summary = ", ".join(f"{wrong[outcome]} {outcome.said}" for outcome in Outcome if wrong[outcome])
    caption = f"{place} · {record.id}"
    if errors.card.kind is Kind.TAGGING and isinstance(record, Document):
        document, anchors = _mentions(record, findings, name)
        return Marked(document, f"{caption} · {summary}", anchors)
    if errors.card.kind is Kind.RELATION and isinstance(record, Document):
        document, anchors = _relations(record, findings, name)
        return Marked(document, f"{caption} · {summary}", anchors)
    tags = tuple(tag for finding in findings for tag in _tags(errors.card.kind, finding))
    return Marked(_tagged(record, tags), caption, dict.fromkeys(findings, name))


def marked_value(errors: Errors, residual: Residual, place: int) -> Marked:
    """A record of a regression with its two values."""
    record = errors.gold[residual.record]
    tags = (
        f"gold {residual.gold:.3g}",
        f"predicted {residual.predicted:.3g}",
        f"difference {residual.difference:+.3g}",
    )
    return Marked(_tagged(record, tags), f"{place} · {record.id}", {})


def _mentions(document: Document, findings: Sequence[Finding], name: str) -> tuple[Document, dict[Finding, str]]:
    spans: list[Span] = []
    anchors: dict[Finding, str] = {}
    for finding in findings:
        anchors[finding] = f"{name}-s{len(spans)}"
        sides = [("gold", finding.gold), ("predicted", finding.predicted)]
        if finding.outcome is Outcome.CORRECT:
            sides = sides[1:]
        for side, answer in sides:
            if answer is not None:
                paired = finding.gold is not None and finding.predicted is not None
                said = finding.outcome.said
                label = f"{said}: {side}" if paired and finding.outcome is not Outcome.CORRECT else said
                spans.append(Span(answer.extents[0], label, f"T{len(spans)}", answer.score, {TYPE: answer.label}))
    return Document(document.id, document.text, tuple(spans)), anchors


def _relations(document: Document, findings: Sequence[Finding], name: str) -> tuple[Document, dict[Finding, str]]:
    relations: list[Relation] = []
    anchors: dict[Finding, str] = {}
    wrong_first = sorted(findings, key=lambda finding: finding.outcome is Outcome.CORRECT)
    for finding in wrong_first:
        answer = finding.gold or finding.predicted
        if answer is None:
            continue
        head, tail = answer.arguments
        score = finding.predicted.score if finding.predicted else None
        relations.append(Relation(f"{finding.outcome.said}: {_change(finding)}", head, tail, score=score))
        anchors[finding] = f"{name}-r{len(relations)}"
    used = {argument for relation in relations for argument in (relation.head, relation.tail)}
    spans = tuple(span for span in document.spans if span.id in used)
    return Document(document.id, document.text, spans, tuple(relations)), anchors


def _change(finding: Finding) -> str:
    labels = dict.fromkeys(answer.label for answer in (finding.gold, finding.predicted) if answer)
    return ", predicted ".join(labels)


def _tags(kind: Kind, finding: Finding) -> list[str]:
    if kind is Kind.CLASSIFICATION and finding.gold and finding.predicted:
        return [f"gold: {finding.gold.label}", f"predicted: {_scored(finding.predicted)}"]
    answer = finding.predicted or finding.gold
    return [f"{finding.outcome.said}: {_scored(answer)}"] if answer else []


def _scored(answer: Answer) -> str:
    return answer.label if answer.score is None else f"{answer.label} {answer.score:.2f}"


def _tagged(record: Record, tags: tuple[str, ...]) -> Record:
    if isinstance(record, Document):
        return Document(record.id, record.text, labels=tags)
    return record.with_(labels=tags, value=None)
