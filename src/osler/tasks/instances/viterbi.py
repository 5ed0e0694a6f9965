"""The most probable legal tag sequence, and how probable each of its tags is."""

from __future__ import annotations

import numpy as np

_LEAST = 1e-300


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
    length, tags = scores.shape
    if length == 0:
        return np.zeros(0, dtype=np.int64)
    if steps is None:
        greedy = scores.argmax(axis=1)
        if starts[greedy[0]] and ends[greedy[-1]] and allowed[greedy[:-1], greedy[1:]].all():
            return np.asarray(greedy)  # the usual case after training: nothing to repair, no search
    weights = np.where(allowed, 0.0 if steps is None else steps, -np.inf)
    total = np.where(starts, scores[0], -np.inf)
    back = np.zeros((length, tags), dtype=np.int64)
    for place in range(1, length):
        options = total[:, None] + weights
        back[place] = options.argmax(axis=0)
        total = options[back[place], np.arange(tags)] + scores[place]
    path = np.zeros(length, dtype=np.int64)
    path[-1] = int(np.where(ends, total, -np.inf).argmax())
    for place in range(length - 1, 0, -1):
        path[place - 1] = back[place, path[place]]
    return path


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
