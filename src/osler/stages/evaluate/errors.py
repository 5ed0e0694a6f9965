"""Match gold annotations and predictions as the scorer does, and classify the errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from osler.metrics.spans import Extent, attributes_by_mention, augment, overlapping, paired, touching_joined
from osler.tasks.card import Kind, Protocol, TaskCard
from osler.tasks.scoring import in_text_order
from osler.text.document import Document, Record, documents_in

Side = Literal["gold", "predicted"]


class MatchOutcome(StrEnum):
    """Outcome of a match: correct, or the kind of error."""

    CORRECT = "correct"
    BOUNDARY = "boundary"
    TYPE = "type"
    BOUNDARY_TYPE = "boundary-and-type"
    MISSED = "missed"
    INVENTED = "invented"

    @property
    def words(self) -> str:
        return self.value.replace("-", " ")


WRONG = tuple(outcome for outcome in MatchOutcome if outcome is not MatchOutcome.CORRECT)
# Rounds of matching gold and predicted mentions: (types are equal, characters must be equal).
_ROUNDS = {
    MatchOutcome.CORRECT: (True, True),
    MatchOutcome.BOUNDARY: (True, False),
    MatchOutcome.TYPE: (False, True),
    MatchOutcome.BOUNDARY_TYPE: (False, False),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A gold or predicted label, with the extents of its mention or two arguments, if any."""

    label: str
    extents: tuple[Extent, ...] = ()
    score: float | None = None
    arguments: tuple[str, ...] = ()
    """Span ids of a relation's arguments, head first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A gold answer, a predicted one, or a matched pair, with its outcome."""

    record: int
    outcome: MatchOutcome
    gold: Answer | None = None
    predicted: Answer | None = None

    @property
    def answer(self) -> Answer:
        """The gold answer, or the predicted one if there is none in gold."""
        answer = self.gold or self.predicted
        assert answer is not None
        return answer

    @property
    def labels(self) -> list[str]:
        """Gold and predicted label, once if they are equal."""
        return list(dict.fromkeys(side.label for side in (self.gold, self.predicted) if side))

    @property
    def score(self) -> float | None:
        return self.predicted.score if self.predicted else None

    @property
    def place(self) -> tuple[int, tuple[Extent, ...], str]:
        """Sort key: record, position, label."""
        return self.record, self.answer.extents, self.answer.label


@dataclass(frozen=True, slots=True)
class Residual:
    """A gold value and the predicted one."""

    record: int
    gold: float
    predicted: float

    @property
    def difference(self) -> float:
        return self.predicted - self.gold


@dataclass(frozen=True)
class Errors:
    """The scored records and the outcome of every answer in them."""

    card: TaskCard
    gold: tuple[Record, ...]
    findings: tuple[Finding, ...] = ()
    residuals: tuple[Residual, ...] = ()

    @property
    def wrong(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.outcome is not MatchOutcome.CORRECT]


def find_errors(card: TaskCard, protocol: Protocol, gold: Sequence[Record], predicted: Sequence[Record]) -> Errors:
    """Compare the records that the protocol scores, ignoring labels that are not in the card."""
    card, relabelled = card.under(protocol), protocol.relabelled
    pairs = list(zip(gold, predicted, strict=True))
    if protocol.records == "labelled":
        pairs = [(want, have) for want, have in pairs if want.labels]
    wanted, found = tuple(relabelled(want) for want, _ in pairs), tuple(relabelled(have) for _, have in pairs)
    if card.kind is Kind.REGRESSION:
        residuals = (Residual(n, want.value or 0.0, have.value or 0.0) for n, (want, have) in enumerate(pairs))
        return Errors(card, wanted, residuals=tuple(residuals))
    finder = {
        Kind.TAGGING: _mentions,
        Kind.RELATION: _relations,
        Kind.CLASSIFICATION: _classes,
        Kind.MULTILABEL: _labels,
        Kind.ATTRIBUTES: _attributes,
    }[card.kind]
    return Errors(card, wanted, tuple(finder(card, wanted, found)))


def _mentions(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> Iterator[Finding]:
    def answers(document: Document) -> list[Answer]:
        return _distinct(
            Answer(span.label, (touching_joined(span.fragments),), span.score)
            for span in document.spans
            if span.label in card.labels
        )

    for number, (want, have) in enumerate(paired(documents_in(gold), documents_in(predicted))):
        yield from _matched(number, answers(want), answers(have))


def _matched(record: int, gold: Sequence[Answer], predicted: Sequence[Answer]) -> list[Finding]:
    """Match the mentions of one document one to one, in rounds. Matched mentions share a character."""
    golds, guesses = (sorted(side, key=lambda answer: (answer.extents, answer.label)) for side in (gold, predicted))
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
            (-_shared(golds[i].extents[0], guesses[j].extents[0]), i, j)
            for i, j in touching
            if i not in guess_of
            and j not in gold_of
            and (golds[i].label == guesses[j].label) == same_type
            and (golds[i].extents == guesses[j].extents or not same_characters)
        ]
        pairs = _most_pairs(edges)
        found += [Finding(record, outcome, golds[i], guesses[j]) for i, j in pairs.items()]
        guess_of |= pairs
        gold_of |= {j: i for i, j in pairs.items()}
    found += [Finding(record, MatchOutcome.MISSED, gold=item) for i, item in enumerate(golds) if i not in guess_of]
    found += [
        Finding(record, MatchOutcome.INVENTED, predicted=item) for j, item in enumerate(guesses) if j not in gold_of
    ]
    return sorted(found, key=lambda finding: finding.place)


def _most_pairs(edges: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """Make as many one-to-one pairs as possible from edges (cost, gold, guess), cheapest first."""
    near: dict[int, list[int]] = {}
    guess_of: dict[int, int] = {}
    gold_of: dict[int, int] = {}
    for _, i, j in sorted(edges):
        near.setdefault(i, []).append(j)
        if i not in guess_of and j not in gold_of:
            guess_of[i], gold_of[j] = j, i
    # The cheapest pair may block two others; augmenting paths recover them.
    for root in sorted(near.keys() - guess_of.keys()):
        augment(root, near, guess_of, gold_of)
    return guess_of


def _shared(one: Extent, other: Extent) -> int:
    """Return the number of characters that two mentions share."""
    return sum(max(0, min(b, d) - max(a, c)) for a, b in one for c, d in other)


def _relations(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> Iterator[Finding]:
    """Match relations with equal arguments: first by label, the rest as type errors."""

    def answers(document: Document) -> dict[tuple[str, ...], dict[str, Answer]]:
        ordered = in_text_order(document) if card.symmetric else document
        places = {span.id: touching_joined(span.fragments) for span in document.spans}
        found = _distinct(
            Answer(r.label, (places[r.head], places[r.tail]), r.score, (r.head, r.tail))
            for r in ordered.relations
            if r.label in card.labels
        )
        by_arguments: dict[tuple[str, ...], dict[str, Answer]] = {}
        for answer in sorted(found, key=lambda answer: (answer.extents, answer.arguments, answer.label)):
            by_arguments.setdefault(answer.arguments, {})[answer.label] = answer
        return by_arguments

    for number, (want, have) in enumerate(paired(documents_in(gold), documents_in(predicted))):
        all_golds, all_guesses = answers(want), answers(have)
        for arguments in dict.fromkeys([*all_golds, *all_guesses]):
            golds, guesses = all_golds.get(arguments, {}), all_guesses.get(arguments, {})
            for label in sorted(golds.keys() & guesses.keys()):
                yield Finding(number, MatchOutcome.CORRECT, golds[label], guesses[label])
            missed = [golds[label] for label in sorted(golds.keys() - guesses.keys())]
            invented = [guesses[label] for label in sorted(guesses.keys() - golds.keys())]
            both = min(len(missed), len(invented))
            yield from (Finding(number, MatchOutcome.TYPE, missed[i], invented[i]) for i in range(both))
            yield from (Finding(number, MatchOutcome.MISSED, gold=answer) for answer in missed[both:])
            yield from (Finding(number, MatchOutcome.INVENTED, predicted=answer) for answer in invented[both:])


def _attributes(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> Iterator[Finding]:
    """Match the attributes of each gold mention: first by name, the rest as type errors."""
    for number, (want, have) in enumerate(paired(documents_in(gold), documents_in(predicted))):
        found = attributes_by_mention(have)
        for mention, wanted in sorted(attributes_by_mention(want).items()):
            guesses, extent = found.get(mention, set()), mention[0]
            names = {
                side: [Answer(name, (extent,)) for name in card.labels if name in chosen]
                for side, chosen in (("both", wanted & guesses), ("gold", wanted - guesses), ("new", guesses - wanted))
            }
            yield from (Finding(number, MatchOutcome.CORRECT, answer, answer) for answer in names["both"])
            both = min(len(names["gold"]), len(names["new"]))
            yield from (Finding(number, MatchOutcome.TYPE, names["gold"][i], names["new"][i]) for i in range(both))
            yield from (Finding(number, MatchOutcome.MISSED, gold=answer) for answer in names["gold"][both:])
            yield from (Finding(number, MatchOutcome.INVENTED, predicted=answer) for answer in names["new"][both:])


def _classes(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> Iterator[Finding]:
    for number, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        right, guess = want.labels[0], have.labels[0]
        outcome = MatchOutcome.CORRECT if right == guess else MatchOutcome.TYPE
        yield Finding(number, outcome, Answer(right), Answer(guess, score=have.scores.get(guess)))


def _labels(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> Iterator[Finding]:
    for number, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        for label in card.labels:
            right = Answer(label) if label in want.labels else None
            guess = Answer(label, score=have.scores.get(label)) if label in have.labels else None
            if right and guess:
                yield Finding(number, MatchOutcome.CORRECT, right, guess)
            elif right or guess:
                yield Finding(number, MatchOutcome.MISSED if right else MatchOutcome.INVENTED, right, guess)


def _distinct(answers: Iterable[Answer]) -> list[Answer]:
    """Keep the best-scored of equal answers, which the scorer counts once."""
    best: dict[Answer, Answer] = {}
    for answer in answers:
        key = replace(answer, score=None)
        known = best.get(key)
        if known is None or (answer.score or 0.0) > (known.score or 0.0):
            best[key] = answer
    return list(best.values())


def outcomes(findings: Iterable[Finding]) -> Counter[MatchOutcome]:
    """Count findings by outcome; a matched pair counts once."""
    return Counter(finding.outcome for finding in findings)


def label_outcomes(findings: Iterable[Finding], side: Side) -> Counter[tuple[str, MatchOutcome]]:
    """Count outcomes of the gold answers or of the predictions by label."""
    answers = ((finding.gold if side == "gold" else finding.predicted, finding.outcome) for finding in findings)
    return Counter((answer.label, outcome) for answer, outcome in answers if answer)


def confusions(findings: Iterable[Finding]) -> Counter[tuple[str | None, str | None]]:
    """Count findings by gold and predicted label; None means no counterpart."""
    return Counter(
        (finding.gold.label if finding.gold else None, finding.predicted.label if finding.predicted else None)
        for finding in findings
    )


def labels_in(findings: Iterable[Finding], known: Sequence[str]) -> list[str]:
    """Return the labels that occur: those in `known` in its order, then others."""
    seen = {label for finding in findings for label in finding.labels}
    return [label for label in known if label in seen] + sorted(seen - set(known))


def confidences(findings: Iterable[Finding]) -> tuple[list[float], list[bool]]:
    """Return the score of each prediction that has one, and whether it is correct."""
    scored = [(f.score, f.outcome is MatchOutcome.CORRECT) for f in findings if f.score is not None]
    return [score for score, _ in scored], [right for _, right in scored]
