"""Span scores on characters of the original text, so that they do not depend on any tokenizer.

- `exact`: the same characters and the same label.
- `partial`: as exact, and half a point for a pair with the same label that only overlaps (MUC's partial credit).
- `overlap`: a full point for any overlap with the same label.

Pairs are one to one: a prediction that overlaps two mentions finds one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from osler.core.errors import InputError
from osler.metrics.matching import augment
from osler.metrics.pairing import paired
from osler.metrics.scores import Item, Scores, labels_of, score_sets
from osler.text.document import Document, Fragment

Match = Literal["exact", "partial", "overlap"]
Extent = tuple[Fragment, ...]


def score_spans(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    *,
    labels: Sequence[str] | None = None,
    match: Match = "exact",
) -> Scores:
    """Score predicted spans; a mention given twice counts once, and only `labels` count where they are given."""
    if match not in ("exact", "partial", "overlap"):
        raise InputError(f"unknown match {match!r}", fix="Use exact, partial or overlap")
    wanted, found = [], []
    for want, have in paired(gold, predicted):
        wanted.append(_items(want))
        found.append(_items(have))
    if match == "exact":
        return score_sets(wanted, found, labels)
    names = tuple(labels) if labels is not None else labels_of(wanted, found)
    credit = _partial_credit if match == "partial" else _overlap_credit
    return _score_credit(wanted, found, names, credit)


def _items(document: Document) -> set[Item]:
    return {(span.label, touching_joined(span.fragments)) for span in document.spans}


def touching_joined(fragments: Extent) -> Extent:
    """Join fragments that touch: two ways to write the same characters are one mention."""
    if len(fragments) == 1:
        return fragments
    joined: list[Fragment] = []
    for start, end in fragments:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return tuple(joined)


def overlapping(one: Extent, other: Extent) -> bool:
    """Whether two mentions share a character."""
    return any(a < d and c < b for a, b in one for c, d in other)


def _score_credit(
    gold: Sequence[set[Item]],
    predicted: Sequence[set[Item]],
    labels: tuple[str, ...],
    credit: Callable[[set[Extent], set[Extent]], float],
) -> Scores:
    counts = np.zeros((len(gold), len(labels), 3))
    for row, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        for column, label in enumerate(labels):
            wanted = {extent for name, extent in want if name == label}
            found = {extent for name, extent in have if name == label}
            points = credit(wanted, found)  # type: ignore[arg-type]  # keys of span items are extents
            counts[row, column] = points, len(found) - points, len(wanted) - points
    return Scores(labels, counts)


def _partial_credit(wanted: set[Extent], found: set[Extent]) -> float:
    # Taking exact pairs first loses nothing: an exact pair is worth the two halves it could block.
    exact = wanted & found
    return len(exact) + 0.5 * _overlap_credit(wanted - exact, found - exact)


def _overlap_credit(wanted: set[Extent], found: set[Extent]) -> float:
    """The largest number of one-to-one overlapping pairs, by augmenting paths found breadth first."""
    golds, guesses = sorted(wanted), sorted(found)
    neighbours = [[i for i, guess in enumerate(guesses) if overlapping(gold, guess)] for gold in golds]
    gold_of: dict[int, int] = {}
    guess_of: dict[int, int] = {}
    for root in range(len(golds)):
        augment(root, neighbours, guess_of, gold_of)
    return float(len(gold_of))
