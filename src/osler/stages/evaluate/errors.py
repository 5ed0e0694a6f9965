"""Find the errors of a task: gold and predicted records to findings, in agreement with how the task is scored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from osler.metrics.pairing import paired
from osler.metrics.spans import touching_joined
from osler.stages.evaluate.findings import Answer, Finding, Outcome, Residual
from osler.stages.evaluate.matching import matched
from osler.tasks.card import Kind, Protocol, TaskCard
from osler.tasks.scoring import in_text_order
from osler.text.document import Document, Record
from osler.text.label_scores import score_key


@dataclass(frozen=True)
class Errors:
    """The records that were scored, and what became of every answer in them."""

    card: TaskCard
    gold: tuple[Record, ...]
    predicted: tuple[Record, ...]
    findings: tuple[Finding, ...] = ()
    residuals: tuple[Residual, ...] = ()

    @property
    def wrong(self) -> list[Finding]:
        """All that is not right, in the order of the records."""
        return [finding for finding in self.findings if finding.outcome is not Outcome.CORRECT]


def find_errors(card: TaskCard, protocol: Protocol, gold: Sequence[Record], predicted: Sequence[Record]) -> Errors:
    """Compare the records that take part under the protocol; labels that the card does not list do not count."""
    pairs = list(zip(gold, predicted, strict=True))
    if protocol.records == "labelled":
        pairs = [(want, have) for want, have in pairs if want.labels]
    wanted, found = tuple(want for want, _ in pairs), tuple(have for _, have in pairs)
    if card.kind is Kind.REGRESSION:
        residuals = (
            Residual(number, want.value or 0.0, have.value or 0.0) for number, (want, have) in enumerate(pairs)
        )
        return Errors(card, wanted, found, residuals=tuple(residuals))
    if card.kind in {Kind.TAGGING, Kind.RELATION}:
        finder = _mentions if card.kind is Kind.TAGGING else _relations
        return Errors(card, wanted, found, tuple(finder(card, _documents(wanted), _documents(found))))
    finder = _classes if card.kind is Kind.CLASSIFICATION else _labels
    return Errors(card, wanted, found, tuple(finder(card, wanted, found)))


def _mentions(card: TaskCard, gold: Sequence[Document], predicted: Sequence[Document]) -> Iterable[Finding]:
    known = set(card.labels)

    def answers(document: Document) -> list[Answer]:
        return _distinct(
            Answer(span.label, (touching_joined(span.fragments),), span.score)
            for span in document.spans
            if span.label in known
        )

    for number, (want, have) in enumerate(paired(gold, predicted)):
        yield from matched(number, answers(want), answers(have))


def _relations(card: TaskCard, gold: Sequence[Document], predicted: Sequence[Document]) -> Iterable[Finding]:
    """Pairs of arguments with the same label are right; what is left on a pair is a type error, label by label."""
    known = set(card.labels)

    def answers(document: Document) -> list[Answer]:
        ordered = in_text_order(document) if card.symmetric else document
        places = {span.id: touching_joined(span.fragments) for span in document.spans}
        return _distinct(
            Answer(relation.label, (places[relation.head], places[relation.tail]), relation.score, arguments)
            for relation in ordered.relations
            if relation.label in known
            for arguments in [(relation.head, relation.tail)]
        )

    for number, (want, have) in enumerate(paired(gold, predicted)):
        golds, guesses = _by_arguments(answers(want)), _by_arguments(answers(have))
        for arguments in dict.fromkeys([*golds, *guesses]):
            yield from _same_place(number, golds.get(arguments, {}), guesses.get(arguments, {}))


def _by_arguments(answers: Iterable[Answer]) -> dict[tuple[str, ...], dict[str, Answer]]:
    grouped: dict[tuple[str, ...], dict[str, Answer]] = {}
    for answer in sorted(answers, key=lambda answer: (answer.extents, answer.arguments, answer.label)):
        grouped.setdefault(answer.arguments, {})[answer.label] = answer
    return grouped


def _same_place(number: int, golds: dict[str, Answer], guesses: dict[str, Answer]) -> Iterable[Finding]:
    for label in sorted(golds.keys() & guesses.keys()):
        yield Finding(number, Outcome.CORRECT, golds[label], guesses[label])
    missed = [golds[label] for label in sorted(golds.keys() - guesses.keys())]
    invented = [guesses[label] for label in sorted(guesses.keys() - golds.keys())]
    both = min(len(missed), len(invented))
    for want, have in zip(missed[:both], invented[:both], strict=True):
        yield Finding(number, Outcome.TYPE, want, have)
    yield from (Finding(number, Outcome.MISSED, gold=answer) for answer in missed[both:])
    yield from (Finding(number, Outcome.INVENTED, predicted=answer) for answer in invented[both:])


def _classes(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> Iterable[Finding]:
    for number, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        right, said = want.labels[0], have.labels[0]
        outcome = Outcome.CORRECT if right == said else Outcome.TYPE
        yield Finding(number, outcome, Answer(right), Answer(said, score=_label_score(have, said)))


def _labels(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> Iterable[Finding]:
    for number, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        for label in card.labels:
            right = Answer(label) if label in want.labels else None
            said = Answer(label, score=_label_score(have, label)) if label in have.labels else None
            if right and said:
                yield Finding(number, Outcome.CORRECT, right, said)
            elif right or said:
                yield Finding(number, Outcome.MISSED if right else Outcome.INVENTED, right, said)


def _label_score(record: Record, label: str) -> float | None:
    """The confidence in a label of a whole record, which predictions carry in their metadata."""
    text = record.meta.get(score_key(label))
    return float(text) if text is not None else None


def _distinct(answers: Iterable[Answer]) -> list[Answer]:
    """What is said twice counts once, with its best score, as the scorer has it."""
    best: dict[Answer, Answer] = {}
    for answer in answers:
        key = replace(answer, score=None)
        known = best.get(key)
        if known is None or (answer.score or 0.0) > (known.score or 0.0):
            best[key] = answer
    return list(best.values())


def _documents(records: Sequence[Record]) -> list[Document]:
    return [record for record in records if isinstance(record, Document)]
