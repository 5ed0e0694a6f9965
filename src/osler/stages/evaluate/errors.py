"""Find the errors of a task: match gold and predictions, in agreement with how the task is scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from osler.metrics.spans import Extent, augment, overlapping, paired, touching_joined
from osler.tasks.card import Kind, Protocol, TaskCard
from osler.tasks.scoring import in_text_order
from osler.text.document import Document, Record
from osler.text.label_scores import score_key


class MatchOutcome(StrEnum):
    """Right, or in which way wrong."""

    CORRECT = "correct"
    BOUNDARY = "boundary"
    TYPE = "type"
    BOUNDARY_TYPE = "boundary-and-type"
    MISSED = "missed"
    INVENTED = "invented"

    @property
    def said(self) -> str:
        """For a person."""
        return self.value.replace("-", " ")


WRONG = tuple(outcome for outcome in MatchOutcome if outcome is not MatchOutcome.CORRECT)


@dataclass(frozen=True, slots=True)
class Answer:
    """A label, with the characters it is about: of a mention, of the two arguments of a relation, or none."""

    label: str
    extents: tuple[Extent, ...] = ()
    score: float | None = None
    arguments: tuple[str, ...] = ()
    """The ids of a relation's arguments, head first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A gold answer, a predicted one, or the two that go together, and what this makes of them."""

    record: int
    outcome: MatchOutcome
    gold: Answer | None = None
    predicted: Answer | None = None

    @property
    def place(self) -> tuple[int, tuple[Extent, ...], str]:
        """Where it stands, to sort by."""
        answer = self.gold or self.predicted
        return (self.record, answer.extents, answer.label) if answer else (self.record, (), "")


@dataclass(frozen=True, slots=True)
class Residual:
    """A gold value and the predicted one."""

    record: int
    gold: float
    predicted: float

    @property
    def difference(self) -> float:
        """Predicted minus gold: above zero where the model said too much."""
        return self.predicted - self.gold


def outcomes(findings: Iterable[Finding]) -> Counter[MatchOutcome]:
    """How many there are of each outcome; a pair counts once."""
    return Counter(finding.outcome for finding in findings)


def gold_outcomes(findings: Iterable[Finding]) -> Counter[tuple[str, MatchOutcome]]:
    """For each gold label, what became of its answers."""
    return Counter((finding.gold.label, finding.outcome) for finding in findings if finding.gold)


def predicted_outcomes(findings: Iterable[Finding]) -> Counter[tuple[str, MatchOutcome]]:
    """For each predicted label, what its predictions are."""
    return Counter((finding.predicted.label, finding.outcome) for finding in findings if finding.predicted)


def confusions(findings: Iterable[Finding]) -> Counter[tuple[str | None, str | None]]:
    """How often which gold label met which predicted one; None stands for no counterpart."""
    return Counter(
        (finding.gold.label if finding.gold else None, finding.predicted.label if finding.predicted else None)
        for finding in findings
    )


def labels_in(findings: Iterable[Finding], known: Sequence[str]) -> list[str]:
    """The labels that occur, in the order of the card, others behind."""
    seen = {answer.label for finding in findings for answer in (finding.gold, finding.predicted) if answer}
    return [label for label in known if label in seen] + sorted(seen - set(known))


def confidences(findings: Iterable[Finding]) -> tuple[list[float], list[bool]]:
    """The score of each prediction that has one, and whether it was right."""
    scored = [
        (finding.predicted.score, finding.outcome is MatchOutcome.CORRECT)
        for finding in findings
        if finding.predicted is not None and finding.predicted.score is not None
    ]
    return [score for score, _ in scored], [right for _, right in scored]


# Of each round: whether the type is the same, and whether the characters must be.
_ROUNDS = {
    MatchOutcome.CORRECT: (True, True),
    MatchOutcome.BOUNDARY: (True, False),
    MatchOutcome.TYPE: (False, True),
    MatchOutcome.BOUNDARY_TYPE: (False, False),
}


def matched(record: int, gold: Sequence[Answer], predicted: Sequence[Answer]) -> list[Finding]:
    """The findings of one document; no side may hold the same characters with the same label twice."""
    golds, guesses = sorted(gold, key=_order), sorted(predicted, key=_order)
    # The four rounds choose among the same few pairs: those that share a character.
    touching = [
        (i, j)
        for i, want in enumerate(golds)
        for j, have in enumerate(guesses)
        if overlapping(want.extents[0], have.extents[0])
    ]
    guess_of: dict[int, int] = {}
    gold_of: dict[int, int] = {}
    found: list[Finding] = []
    for outcome, (same_type, same_characters) in _ROUNDS.items():
        edges = [
            (-shared(golds[i].extents[0], guesses[j].extents[0]), i, j)
            for i, j in touching
            if i not in guess_of
            and j not in gold_of
            and (golds[i].label == guesses[j].label) == same_type
            and (golds[i].extents == guesses[j].extents or not same_characters)
        ]
        pairs = most_pairs(edges)
        found += [Finding(record, outcome, golds[i], guesses[j]) for i, j in pairs.items()]
        guess_of |= pairs
        gold_of |= {j: i for i, j in pairs.items()}
    found += [Finding(record, MatchOutcome.MISSED, gold=item) for i, item in enumerate(golds) if i not in guess_of]
    found += [
        Finding(record, MatchOutcome.INVENTED, predicted=item) for j, item in enumerate(guesses) if j not in gold_of
    ]
    return sorted(found, key=lambda finding: finding.place)


def most_pairs(edges: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """As many one-to-one pairs as can be made of (cost, gold, guess), the cheapest first."""
    near: dict[int, list[int]] = {}
    guess_of: dict[int, int] = {}
    gold_of: dict[int, int] = {}
    for _, i, j in sorted(edges):
        near.setdefault(i, []).append(j)
        if i not in guess_of and j not in gold_of:
            guess_of[i], gold_of[j] = j, i
    # A pair taken for its overlap can stand in the way of two others: make room along augmenting paths.
    for root in sorted(near.keys() - guess_of.keys()):
        augment(root, near, guess_of, gold_of)
    return guess_of


def shared(one: Extent, other: Extent) -> int:
    """How many characters two mentions have in common."""
    return sum(max(0, min(b, d) - max(a, c)) for a, b in one for c, d in other)


def _order(answer: Answer) -> tuple[tuple[Extent, ...], str]:
    return answer.extents, answer.label


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
        return [finding for finding in self.findings if finding.outcome is not MatchOutcome.CORRECT]


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
        yield Finding(number, MatchOutcome.CORRECT, golds[label], guesses[label])
    missed = [golds[label] for label in sorted(golds.keys() - guesses.keys())]
    invented = [guesses[label] for label in sorted(guesses.keys() - golds.keys())]
    both = min(len(missed), len(invented))
    for want, have in zip(missed[:both], invented[:both], strict=True):
        yield Finding(number, MatchOutcome.TYPE, want, have)
    yield from (Finding(number, MatchOutcome.MISSED, gold=answer) for answer in missed[both:])
    yield from (Finding(number, MatchOutcome.INVENTED, predicted=answer) for answer in invented[both:])


def _classes(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> Iterable[Finding]:
    for number, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        right, said = want.labels[0], have.labels[0]
        outcome = MatchOutcome.CORRECT if right == said else MatchOutcome.TYPE
        yield Finding(number, outcome, Answer(right), Answer(said, score=_label_score(have, said)))


def _labels(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> Iterable[Finding]:
    for number, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        for label in card.labels:
            right = Answer(label) if label in want.labels else None
            said = Answer(label, score=_label_score(have, label)) if label in have.labels else None
            if right and said:
                yield Finding(number, MatchOutcome.CORRECT, right, said)
            elif right or said:
                yield Finding(number, MatchOutcome.MISSED if right else MatchOutcome.INVENTED, right, said)


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
