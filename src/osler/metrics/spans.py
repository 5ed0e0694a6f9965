"""Span, relation and token scores on characters of the original text, independent of any tokenizer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from osler.core.errors import InputError
from osler.metrics.scores import Item, Scores, labels_of, score_sets
from osler.text.document import Document, Fragment, Span
from osler.text.words import words as default_words


def paired(gold: Sequence[Document], predicted: Sequence[Document]) -> Iterator[tuple[Document, Document]]:
    """Go through both sides in step, refusing to compare different documents."""
    if len(gold) != len(predicted):
        raise InputError(
            f"{len(gold)} gold documents and {len(predicted)} predicted ones cannot be compared",
            fix="Predict every gold document once, in the same order",
        )
    for index, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        if want.id != have.id or want.text != have.text:
            what = "have different ids" if want.id != have.id else "have different texts"
            raise InputError(
                f"the gold and the predicted document {what}",
                where=f"document {index + 1} of {len(gold)}",
                fix="Keep the order of the gold file and never alter its text",
            )
        yield want, have


def augment(
    root: int,
    near: Mapping[int, Sequence[int]] | Sequence[Sequence[int]],
    guess_of: dict[int, int],
    gold_of: dict[int, int],
) -> None:
    """Find a guess for one more gold, breadth first, moving others to their next best where that is needed.

    `near` lists the guesses that each gold may be paired with, the best first; both pairings are changed in place.
    """
    reached: dict[int, int] = {}  # guess -> the gold it was reached from
    queue = [root]
    for gold in queue:
        for guess in near[gold]:
            if guess in reached:
                continue
            reached[guess] = gold
            if guess in gold_of:
                queue.append(gold_of[guess])
                continue
            _flip(guess, reached, guess_of, gold_of)
            return


def _flip(guess: int, reached: Mapping[int, int], guess_of: dict[int, int], gold_of: dict[int, int]) -> None:
    """Give every guess on the path from a free one back to the root to the gold it was reached from."""
    while True:
        gold = reached[guess]
        before = guess_of.get(gold)
        gold_of[guess], guess_of[gold] = gold, guess
        if before is None:
            return
        guess = before


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


RelationMatch = Literal["ids", "spans"]


def score_relations(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    *,
    labels: Sequence[str] | None = None,
    match: RelationMatch = "spans",
) -> Scores:
    """Score predicted relations; several labels on one pair are several relations.

    `ids`: both sides share their spans (relations between gold entities), arguments compare by id.
    `spans`: end to end, both arguments must have the right characters and the right label.
    """
    if match not in ("ids", "spans"):
        raise InputError(f"unknown match {match!r}", fix="Use ids or spans")
    wanted, found = [], []
    for index, (want, have) in enumerate(paired(gold, predicted)):
        golds = {span.id: span for span in want.spans}
        guesses = {span.id: span for span in have.spans}
        if match == "ids":
            _check_shared(golds, guesses, have, f"document {index + 1} of {len(gold)}")
        wanted.append(_relations_items(want, golds, match))
        found.append(_relations_items(have, guesses, match))
    return score_sets(wanted, found, labels)


def _relations_items(document: Document, spans: Mapping[str, Span], match: RelationMatch) -> set[Item]:
    if match == "ids":
        return {(relation.label, (relation.head, relation.tail)) for relation in document.relations}
    extent = {name: (touching_joined(span.fragments), span.label) for name, span in spans.items()}
    return {(relation.label, (extent[relation.head], extent[relation.tail])) for relation in document.relations}


def _check_shared(golds: Mapping[str, Span], guesses: Mapping[str, Span], predicted: Document, where: str) -> None:
    """Ids mean nothing unless they name the same mention on both sides."""
    for relation in predicted.relations:
        for argument in (relation.head, relation.tail):
            if argument in golds and golds[argument].key != guesses[argument].key:
                raise InputError(
                    "a span id names different mentions in gold and prediction",
                    where=where,
                    fix="Predict relations on the gold spans, or score with match='spans'",
                )


Words = Callable[[str], Sequence[tuple[int, int]]]


def score_tokens(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    *,
    words: Words = default_words,
    labels: Sequence[str] | None = None,
) -> Scores:
    """Score (word, label) pairs; a word has a label when a mention of it covers any of its characters."""
    wanted, found = [], []
    for want, have in paired(gold, predicted):
        cut = words(want.text)
        wanted.append(_tokens_items(want, cut))
        found.append(_tokens_items(have, cut))
    return score_sets(wanted, found, labels)


def score_token_tags(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, labels: Sequence[str] | None = None
) -> Scores:
    """Score (position, label) pairs of tag sequences, prefixes such as B- and I- left out of account."""
    return score_sets([_labelled(tags) for tags in gold], [_labelled(tags) for tags in predicted], labels)


def _tokens_items(document: Document, words: Sequence[tuple[int, int]]) -> set[Item]:
    starts, ends = [start for start, _ in words], [end for _, end in words]
    return {
        (span.label, index)
        for span in document.spans
        for left, right in span.fragments
        for index in range(bisect_right(ends, left), bisect_left(starts, right))
    }


def _labelled(tags: Sequence[str]) -> set[Item]:
    return {(tag.partition("-")[2], index) for index, tag in enumerate(tags) if tag != "O"}
