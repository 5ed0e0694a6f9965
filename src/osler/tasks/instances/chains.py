"""Decode tag sequences under transition rules: best paths and tag probabilities, with or without the scores of a CRF.

All sequences are processed together, position by position, and so are CRFs with the same number of tags: for a single sequence,
calling numpy takes longer than the computation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from osler.tasks.instances.base import fold_last

_LEAST = 1e-300
_CELLS = 1 << 22
"""Number of cells (sequences x positions x tags) searched at once."""


class ChainRules(NamedTuple):
    """Which tags may follow each other [heads, tag, next tag], and start and end a sequence [heads, tags]."""

    allowed: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def best_paths(
    sequences: Sequence[np.ndarray],
    allowed: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    transitions: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Best legal tag path through the log scores [n, tags] of each sequence.

    `transitions` [tag, next tag] holds the transition scores of a CRF; without it, all legal transitions are equal.
    """
    lengths = np.array([len(scores) for scores in sequences], dtype=np.int64)
    if not lengths.any():
        return [np.zeros(0, dtype=np.int64) for _ in sequences]
    scores = np.concatenate(sequences)
    after = np.cumsum(lengths)
    if transitions is not None:
        rules = ChainRules(allowed[None], starts[None], ends[None])
        [path] = chain_paths(scores[None], lengths, rules, transitions[None])
        return np.split(path, after[:-1])
    path = scores.argmax(axis=1)
    searched = np.flatnonzero(lengths)
    # After training most paths are legal and need no search.
    first, last = (after - lengths)[searched], after[searched] - 1
    legal = np.concatenate(([True], allowed[path[:-1], path[1:]]))
    legal[first] = starts[path[first]]
    searched = searched[~(np.logical_and.reduceat(legal, first) & ends[path[last]])]
    equal = np.where(allowed, np.zeros(allowed.shape, dtype=scores.dtype), -np.inf)
    for words, group in _groups(lengths, searched, scores.shape[1]):
        [path[words]] = _search(scores[None, words], group, equal[None], starts[None], ends[None])
    return np.split(path, after[:-1])


def marginals(
    sequences: Sequence[np.ndarray], allowed: np.ndarray, starts: np.ndarray, ends: np.ndarray, transitions: np.ndarray
) -> list[np.ndarray]:
    """Probability of each tag at each position over all legal paths [n, tags]."""
    lengths = np.array([len(scores) for scores in sequences], dtype=np.int64)
    scores = np.concatenate(sequences)
    rules = ChainRules(allowed[None], starts[None], ends[None])
    [likely] = chain_marginals(scores[None], lengths, rules, transitions[None])
    return np.split(likely, np.cumsum(lengths)[:-1])


def chain_paths(scores: np.ndarray, lengths: np.ndarray, rules: ChainRules, transitions: np.ndarray) -> np.ndarray:
    """Best legal paths [heads, words] of CRFs through the scores [heads, words, tags] of concatenated sequences."""
    paths = np.zeros(scores.shape[:2], dtype=np.int64)
    weights = np.where(rules.allowed, transitions, -np.inf)
    for words, group in _groups(lengths, np.flatnonzero(lengths), scores.shape[0] * scores.shape[2]):
        paths[:, words] = _search(scores[:, words], group, weights, rules.starts, rules.ends)
    return paths


def chain_marginals(scores: np.ndarray, lengths: np.ndarray, rules: ChainRules, transitions: np.ndarray) -> np.ndarray:
    """Probability of each tag over all legal paths [heads, words, tags], by the scaled forward-backward algorithm."""
    likely = np.zeros(scores.shape)
    likelier = np.exp(transitions.astype(np.float64) - transitions.max(axis=(1, 2), keepdims=True))
    weights = np.where(rules.allowed, likelier, 0.0)
    for words, group in _groups(lengths, np.flatnonzero(lengths), scores.shape[0] * scores.shape[2]):
        likely[:, words] = _forward_backward(scores[:, words], group, weights, rules.starts, rules.ends)
    return likely


def _groups(lengths: np.ndarray, numbers: np.ndarray, cells: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield groups of sequences that fit in memory together, longest first: their words and their lengths.

    Each position of a sequence takes `cells` cells. No sequence may be empty.
    """
    starts = np.cumsum(lengths) - lengths
    left = numbers[np.argsort(-lengths[numbers], kind="stable")]
    while len(left):
        size = max(1, _CELLS // int(lengths[left[0]] * cells))
        group, left = left[:size], left[size:]
        place, number = _places(lengths[group])
        yield starts[group][number] + place, lengths[group]


def _places(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position in its sequence, and index of that sequence, of every word of concatenated sequences."""
    number = np.repeat(np.arange(len(lengths)), lengths)
    return np.arange(len(number)) - (np.cumsum(lengths) - lengths)[number], number


def _reach(lengths: np.ndarray) -> list[int]:
    """Number of sequences that reach each position. Sequences are sorted longest first."""
    found: list[int] = np.searchsorted(-lengths, -np.arange(lengths[0])).tolist()
    return found


def _search(
    scores: np.ndarray, lengths: np.ndarray, weights: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Viterbi search through sequences sorted by length, longest first: best paths [heads, words]."""
    heads, _, tags = scores.shape
    place, number = _places(lengths)
    # Sequences are the last axis, because numpy is much slower if the last axis is as short as the tags.
    total = np.zeros((lengths[0], heads, tags, len(lengths)), dtype=scores.dtype)
    total[place, :, :, number] = scores.transpose(1, 0, 2)
    reach = _reach(lengths)
    total[0] = np.where(starts[:, :, None], total[0], -np.inf)
    steps = weights[..., None]
    for position in range(1, lengths[0]):
        here = total[position, :, :, : reach[position]]
        here += np.maximum.reduce(total[position - 1, :, :, None, : reach[position]] + steps, axis=1)
    every = np.arange(len(lengths))
    path = np.zeros((lengths[0], heads, len(lengths)), dtype=np.int64)
    path[lengths - 1, :, every] = np.where(ends, total[lengths - 1, :, :, every], -np.inf).argmax(axis=2)
    # Predecessors are looked up only along the best path, not for every tag.
    into = weights.transpose(0, 2, 1).reshape(heads * tags, tags)
    first = (np.arange(heads) * tags)[:, None]
    for position in range(lengths[0] - 1, 0, -1):
        before = total[position - 1, :, :, : reach[position]].transpose(0, 2, 1)
        options = before + into.take(path[position, :, : reach[position]] + first, axis=0)
        options.argmax(axis=2, out=path[position - 1, :, : reach[position]])
    return np.asarray(path[place, :, number].T)


def _forward_backward(
    scores: np.ndarray, lengths: np.ndarray, weights: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Marginals [heads, words, tags] of sequences sorted by length, longest first.

    The backward pass is a forward pass over the reversed sequences, so one loop does both.
    """
    place, number = _places(lengths)
    mirrored = lengths[number] - 1 - place
    exact = scores.transpose(1, 0, 2).astype(np.float64, order="C")
    local = np.exp(exact - fold_last(np.maximum, exact))
    own = np.zeros((lengths[0], 2, *weights.shape[:2], len(lengths)))
    own[place, 0, :, :, number] = own[mirrored, 1, :, :, number] = local
    reached = np.zeros(own.shape)  # by the paths up to each position, without its own scores
    reached[0] = np.array([starts, ends], dtype=np.float64)[..., None]
    steps = np.array([weights.transpose(0, 2, 1), weights])
    paths = reached[0]
    for position, here in enumerate(_reach(lengths)):
        if position:
            paths = steps @ paths[..., :here]
            reached[position, ..., :here] = paths
        paths = paths * own[position, ..., :here]
        paths /= np.maximum(np.add.reduce(paths, axis=2, keepdims=True), _LEAST)
    joint = reached[place, 0, :, :, number] * local * reached[mirrored, 1, :, :, number]
    joint /= np.maximum(fold_last(np.add, joint), _LEAST)
    return np.asarray(joint.transpose(1, 0, 2))
