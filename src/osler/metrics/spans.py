"""Span, relation, attribute and word scores on characters of the original text, independent of any tokenizer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from osler.core.errors import InputError
from osler.metrics.scores import Decomposed, Item, Scores, check_same_length, labels_of, score_sets, share
from osler.text.document import YES, Document, Fragment, token_ranges
from osler.text.tags import STRAY

Extent = tuple[Fragment, ...]


def score_spans(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    *,
    labels: Sequence[str] | None = None,
    match: Literal["exact", "partial"] = "exact",
) -> Scores:
    """Score predicted spans. A repeated mention counts once. With `labels`, only these labels count.

    `partial` also pairs as many overlapping mentions of one label as possible, one to one, for half a point each.
    """
    wanted, found = [], []
    for want, have in paired(gold, predicted):
        wanted.append(_mentions(want))
        found.append(_mentions(have))
    if match == "exact":
        return score_sets(wanted, found, labels)
    names = tuple(labels) if labels is not None else labels_of(wanted, found)
    counts = np.zeros((len(gold), len(names), 3))
    for row, sides in enumerate(zip(wanted, found, strict=True)):
        for column, name in enumerate(names):
            golds, guesses = ({extent for label, extent in side if label == name} for side in sides)
            # Exact pairs are taken first: each is worth a point, as much as the two overlapping pairs that it could prevent.
            exact = golds & guesses
            points = len(exact) + 0.5 * overlapping_pairs(golds - exact, guesses - exact)
            counts[row, column] = points, len(guesses) - points, len(golds) - points
    return Scores(names, counts)


def _mentions(document: Document) -> set[tuple[str, Extent]]:
    return {(span.label, touching_joined(span.fragments)) for span in document.spans}


def overlapping_pairs(golds: set[Extent], guesses: set[Extent]) -> int:
    """Largest number of one-to-one pairs that overlap."""
    # scipy's matching is 2 to 30 times slower for the few mentions of a document: 64 against 2 microseconds for one pair.
    ordered = sorted(guesses)
    near = [[i for i, guess in enumerate(ordered) if overlapping(gold, guess)] for gold in sorted(golds)]
    gold_of: dict[int, int] = {}
    guess_of: dict[int, int] = {}
    for root in range(len(near)):
        augment(root, near, guess_of, gold_of)
    return len(gold_of)


def augment(
    root: int,
    near: Mapping[int, Sequence[int]] | Sequence[Sequence[int]],
    guess_of: dict[int, int],
    gold_of: dict[int, int],
) -> None:
    """Pair one more gold along an augmenting path, if there is one; both pairings are changed in place.

    `near` lists the guesses that each gold may be paired with, best first. The search is breadth first, so as few pairs as
    possible move.
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
            # A free guess: walk back to the root and give every guess on the path to the gold it was reached from.
            free: int | None = guess
            while free is not None:
                owner = reached[free]
                before = guess_of.get(owner)
                gold_of[free], guess_of[owner] = owner, free
                free = before
            return


def paired(gold: Sequence[Document], predicted: Sequence[Document]) -> Iterator[tuple[Document, Document]]:
    """Iterate over both sides together, checking that ids and texts agree."""
    check_same_length(gold, predicted, "documents")
    for index, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        if want.id != have.id or want.text != have.text:
            raise InputError(
                f"the gold and the predicted document have different {'ids' if want.id != have.id else 'texts'}",
                where=f"document {index + 1} of {len(gold)}",
                fix="Keep the order of the gold file and do not change its text",
            )
        yield want, have


def touching_joined(fragments: Extent) -> Extent:
    """Join fragments that touch, so the same characters always compare equal."""
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


def score_anchored(
    gold: Sequence[Document], predicted: Sequence[Document], *, labels: Sequence[str] | None = None
) -> Scores:
    """Score mentions as the published code of wada2020 does: every mention is anchored at a B-.

    All documents are read as one sequence. A predicted span that begins with I- (its attribute `stray`) continues the last
    mention of its label, over other words, sentences and documents. One without a mention before it is dropped; the
    published code stops there with an error. A mention counts in the document it begins in. Fragments with only blanks between
    them are one, because tags cannot tell them apart.
    """
    wanted: list[set[Item]] = []
    begun: list[list[tuple[str, list[_Place]]]] = []
    last: dict[str, list[_Place]] = {}
    for number, (want, have) in enumerate(paired(gold, predicted)):
        wanted.append({(s.label, _blanks_joined(gold, [(number, *f) for f in s.fragments])) for s in want.spans})
        begun.append([])
        for span in sorted(have.spans, key=lambda s: s.fragments):
            places = [(number, start, end) for start, end in span.fragments]
            if STRAY not in span.attributes:
                last[span.label] = places
                begun[-1].append((span.label, places))
            elif span.label in last:
                last[span.label].extend(places)
    found = [{(label, _blanks_joined(gold, places)) for label, places in mentions} for mentions in begun]
    return score_sets(wanted, found, labels)


_Place = tuple[int, int, int]
"""Number of a document, start, end."""


def _blanks_joined(documents: Sequence[Document], places: Sequence[_Place]) -> tuple[_Place, ...]:
    joined: list[_Place] = []
    for number, start, end in places:
        before = joined[-1] if joined and joined[-1][0] == number else None
        if before and not documents[number].text[before[2] : start].strip():
            joined[-1] = (number, before[1], end)
        else:
            joined.append((number, start, end))
    return tuple(joined)


def score_relations(
    gold: Sequence[Document], predicted: Sequence[Document], *, labels: Sequence[str] | None = None
) -> Scores:
    """Score relations predicted between gold spans, whose ids identify the arguments.

    Several labels on one pair are several relations.
    """
    wanted: list[set[Item]] = []
    found: list[set[Item]] = []
    for index, (want, have) in enumerate(paired(gold, predicted)):
        golds, guesses = ({span.id: span.key for span in document.spans} for document in (want, have))
        arguments = {argument for relation in have.relations for argument in (relation.head, relation.tail)}
        if any(golds[argument] != guesses[argument] for argument in arguments & golds.keys()):
            raise InputError(
                "a span id names different mentions in gold and prediction",
                where=f"document {index + 1} of {len(gold)}",
                fix="Predict relations on the gold spans",
            )
        for document, side in ((want, wanted), (have, found)):
            side.append({(relation.label, (relation.head, relation.tail)) for relation in document.relations})
    return score_sets(wanted, found, labels)


def score_attributes(
    gold: Sequence[Document], predicted: Sequence[Document], *, labels: Sequence[str]
) -> tuple[Scores, Decomposed]:
    """Score the attributes of gold mentions, and the share of mentions with all of them right.

    Predicted attributes of other mentions do not count.
    """
    wanted: list[set[Item]] = []
    found: list[set[Item]] = []
    right = np.zeros((len(gold), 2))
    for row, (want, have) in enumerate(paired(gold, predicted)):
        golds, guesses, names = attributes_by_mention(want), attributes_by_mention(have), set(labels)
        wanted.append({(name, mention) for mention, own in golds.items() for name in own})
        found.append({(name, mention) for mention in golds for name in guesses.get(mention, ())})
        same = sum(names & own == names & guesses.get(mention, set()) for mention, own in golds.items())
        right[row] = same, len(golds)
    return score_sets(wanted, found, labels), Decomposed(right, share)


def attributes_by_mention(document: Document) -> dict[tuple[Extent, str], set[str]]:
    """The attributes that hold for each mention, keyed by its characters and label."""
    found: dict[tuple[Extent, str], set[str]] = {}
    for span in document.spans:
        own = found.setdefault((touching_joined(span.fragments), span.label), set())
        own.update(name for name, value in span.attributes.items() if value == YES)
    return found


def score_tokens(
    gold: Sequence[Document], predicted: Sequence[Document], *, labels: Sequence[str] | None = None
) -> Scores:
    """Score (word, label) pairs. A word has a label if a mention with that label covers any of its characters.

    Words are the tokens of the corpus where it has tokens.
    """
    wanted: list[set[Item]] = []
    found: list[set[Item]] = []
    for want, have in paired(gold, predicted):
        cut = token_ranges(want)
        starts, ends = [start for start, _ in cut], [end for _, end in cut]
        for document, side in ((want, wanted), (have, found)):
            side.append(
                {
                    (span.label, index)
                    for span in document.spans
                    for left, right in span.fragments
                    for index in range(bisect_right(ends, left), bisect_left(starts, right))
                }
            )
    return score_sets(wanted, found, labels)
