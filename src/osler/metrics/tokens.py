"""Token-level scores: every word of every mention counts, whether or not the borders are right.

These numbers are not comparable with entity-level ones; mulyar2020 reports them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from osler.metrics.pairing import paired
from osler.metrics.scores import Item, Scores, score_sets
from osler.text.document import Document
from osler.text.words import words as default_words

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
        wanted.append(_items(want, cut))
        found.append(_items(have, cut))
    return score_sets(wanted, found, labels)


def score_token_tags(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, labels: Sequence[str] | None = None
) -> Scores:
    """Score (position, label) pairs of tag sequences, prefixes such as B- and I- left out of account."""
    return score_sets([_labelled(tags) for tags in gold], [_labelled(tags) for tags in predicted], labels)


def _items(document: Document, words: Sequence[tuple[int, int]]) -> set[Item]:
    starts, ends = [start for start, _ in words], [end for _, end in words]
    return {
        (span.label, index)
        for span in document.spans
        for left, right in span.fragments
        for index in range(bisect_right(ends, left), bisect_left(starts, right))
    }


def _labelled(tags: Sequence[str]) -> set[Item]:
    return {(tag.partition("-")[2], index) for index, tag in enumerate(tags) if tag != "O"}
