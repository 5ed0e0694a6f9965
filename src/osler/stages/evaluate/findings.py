"""What became of every gold and every predicted answer: the one form in which errors of all kinds of tasks are told.

Every gold answer and every predicted one stands in exactly one finding, so that findings can be counted: the right ones
are the scorer's true positives, those with a prediction that are not right its false positives, those with gold that are
not right its false negatives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from osler.metrics.spans import Extent


class Outcome(StrEnum):
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


WRONG = tuple(outcome for outcome in Outcome if outcome is not Outcome.CORRECT)


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
    outcome: Outcome
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


def outcomes(findings: Iterable[Finding]) -> Counter[Outcome]:
    """How many there are of each outcome; a pair counts once."""
    return Counter(finding.outcome for finding in findings)


def gold_outcomes(findings: Iterable[Finding]) -> Counter[tuple[str, Outcome]]:
    """For each gold label, what became of its answers."""
    return Counter((finding.gold.label, finding.outcome) for finding in findings if finding.gold)


def predicted_outcomes(findings: Iterable[Finding]) -> Counter[tuple[str, Outcome]]:
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
        (finding.predicted.score, finding.outcome is Outcome.CORRECT)
        for finding in findings
        if finding.predicted is not None and finding.predicted.score is not None
    ]
    return [score for score, _ in scored], [right for _, right in scored]
