"""The most probable legal tag sequence."""

from __future__ import annotations

import numpy as np


def best_path(scores: np.ndarray, allowed: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The path through log scores [n, tags] that uses only allowed transitions, legal first tags and legal last tags."""
    length, tags = scores.shape
    if length == 0:
        return np.zeros(0, dtype=np.int64)
    greedy = scores.argmax(axis=1)
    if starts[greedy[0]] and ends[greedy[-1]] and allowed[greedy[:-1], greedy[1:]].all():
        return np.asarray(greedy)  # the usual case after training: nothing to repair, no search
    forbidden = np.where(allowed, 0.0, -np.inf)
    total = np.where(starts, scores[0], -np.inf)
    back = np.zeros((length, tags), dtype=np.int64)
    for place in range(1, length):
        options = total[:, None] + forbidden
        back[place] = options.argmax(axis=0)
        total = options[back[place], np.arange(tags)] + scores[place]
    path = np.zeros(length, dtype=np.int64)
    path[-1] = int(np.where(ends, total, -np.inf).argmax())
    for place in range(length - 1, 0, -1):
        path[place - 1] = back[place, path[place]]
    return path
