"""Which gold mention goes with which predicted one.

Pairs are one to one and always the same for the same mentions. They are made in four rounds, each among the mentions that
the rounds before it left over:

1. the same characters and the same type: correct;
2. the same type, sharing a character: a boundary error;
3. the same characters, another type: a type error;
4. another type, sharing a character: a boundary and type error.

What is left is missed (gold) or invented (predicted). Rounds 2 and 4 make as many pairs as can be made; among equals the
pair that shares most comes first, then the one that stands first. So the correct ones are the true positives of exact
scoring, and correct and boundary together are the pairs of partial scoring (`osler.metrics.spans`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from osler.metrics.matching import augment
from osler.metrics.spans import Extent, overlapping
from osler.stages.evaluate.findings import Answer, Finding, Outcome

# Of each round: whether the type is the same, and whether the characters must be.
_ROUNDS = {
    Outcome.CORRECT: (True, True),
    Outcome.BOUNDARY: (True, False),
    Outcome.TYPE: (False, True),
    Outcome.BOUNDARY_TYPE: (False, False),
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
    found += [Finding(record, Outcome.MISSED, gold=item) for i, item in enumerate(golds) if i not in guess_of]
    found += [Finding(record, Outcome.INVENTED, predicted=item) for j, item in enumerate(guesses) if j not in gold_of]
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
