"""The most probable legal tag sequence, and how probable each of its tags is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_LEAST = 1e-300
_TOGETHER = 1 << 22
"""Cells (sequences x places x tags) that are searched at once."""


def best_path(
    scores: np.ndarray,
    allowed: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    steps: np.ndarray | None = None,
) -> np.ndarray:
    """The path through log scores [n, tags] that uses only allowed transitions, legal first tags and legal last tags.

    `steps` [tags, tags] is added for each tag after each other, as a chain has learned it; without it all legal steps are equal.
    """
    return best_paths([scores], allowed, starts, ends, steps)[0]


def best_paths(
    sequences: Sequence[np.ndarray],
    allowed: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    steps: np.ndarray | None = None,
) -> list[np.ndarray]:
    """The best path of each sequence, as `best_path` has it. All places of equal number are done together, which
    is what makes the documents of a whole split quick."""
    paths = [np.asarray(scores.argmax(axis=1)) for scores in sequences]
    searched = [number for number, path in enumerate(paths) if len(path)]
    if steps is None:  # the usual case after training: nothing to repair, no search

        def legal(path: np.ndarray) -> bool:
            return bool(starts[path[0]] and ends[path[-1]] and allowed[path[:-1], path[1:]].all())

        searched = [number for number in searched if not legal(paths[number])]
    searched.sort(key=lambda number: -len(paths[number]))
    weights = np.where(allowed, 0.0 if steps is None else steps, -np.inf)
    while searched:
        size = max(1, _TOGETHER // sequences[searched[0]].size)
        group, searched = searched[:size], searched[size:]
        for number, path in zip(group, _search([sequences[n] for n in group], weights, starts, ends), strict=True):
            paths[number] = path
    return paths


def _search(
    sequences: Sequence[np.ndarray], weights: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> list[np.ndarray]:
    """Viterbi's search over sequences that are sorted by length, the longest first."""
    lengths = np.array([len(scores) for scores in sequences])
    tags = weights.shape[0]
    rows = np.zeros((len(sequences), lengths[0], tags), dtype=sequences[0].dtype)
    for row, scores in zip(rows, sequences, strict=True):
        row[: len(scores)] = scores
    # How many sequences reach each place: they are the first ones.
    reach = [int((lengths > place).sum()) for place in range(lengths[0])]
    total = np.where(starts, rows[:, 0], -np.inf)
    back = np.zeros(rows.shape, dtype=np.int64)
    for place in range(1, lengths[0]):
        here = slice(reach[place])
        options = total[here, :, None] + weights
        best = options.argmax(axis=1)
        back[here, place] = best
        total[here] = np.take_along_axis(options, best[:, None], axis=1)[:, 0] + rows[here, place]
    path = np.zeros(rows.shape[:2], dtype=np.int64)
    path[np.arange(len(sequences)), lengths - 1] = np.where(ends, total, -np.inf).argmax(axis=1)
    for place in range(lengths[0] - 1, 0, -1):
        rest = np.arange(reach[place])
        path[rest, place - 1] = back[rest, place, path[rest, place]]
    return [found[:length] for found, length in zip(path, lengths, strict=True)]


def marginals(
    scores: np.ndarray, allowed: np.ndarray, starts: np.ndarray, ends: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """The probability of every tag at every place over all legal paths [n, tags]: forward and backward, scaled at each step."""
    length = len(scores)
    local = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True)) if length else scores
    weights = np.where(allowed, np.exp(steps.astype(np.float64) - steps.max()), 0.0)
    forward, backward = np.zeros(scores.shape), np.zeros(scores.shape)
    for place in range(length):
        before = np.where(starts, 1.0, 0.0) if place == 0 else forward[place - 1] @ weights
        here = before * local[place]
        forward[place] = here / max(here.sum(), _LEAST)
    for place in range(length - 1, -1, -1):
        after = np.where(ends, 1.0, 0.0) if place == length - 1 else weights @ (local[place + 1] * backward[place + 1])
        backward[place] = after / max(after.sum(), _LEAST)
    joint = forward * backward
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), _LEAST))
