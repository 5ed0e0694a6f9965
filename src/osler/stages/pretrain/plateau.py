"""Notice a model that has learned how frequent each token is, and nothing else.

Its loss is then the entropy of the frequencies. Post-norm encoders stay there for thousands of updates, or for good,
when the peak rate is too high for their batch and warm-up: RoBERTa-base at 7e-4 with 256 sequences an update and a warm-up
of 200 stayed at a loss of 7.56 for 1,100 updates; at 2e-4 it learned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from osler.core.console import console
from osler.core.logs import get_logger

log = get_logger("osler.pretrain")

ADVICE = "lower train.lr (a third of it), lengthen train.warmup, enlarge the update, or take a modernbert preset"
_NEAR = 0.06  # of the entropy: how near to it counts as being there
_FLAT = 0.01  # a mean loss that fell by less than this part is not falling
_UPDATES = 200  # the stretch of training that is looked at, longer where losses come seldom
_LOSSES = 8  # that a stretch holds at least


def unigram_entropy(parts: Iterable[np.ndarray], size: int, limit: int = 20_000_000) -> float:
    """The loss, in nats, of a model that knows the frequencies of the tokens; estimated from the first `limit` ids."""
    counts = np.zeros(size, dtype=np.int64)
    for part in parts:
        counts += np.bincount(part[: limit - int(counts.sum())], minlength=size)
        if counts.sum() >= limit:
            break
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


class PlateauWatch:
    """Follows the training loss and says once, in the log, that it sits on the unigram plateau."""

    def __init__(self, entropy: float) -> None:
        self.entropy = entropy
        self.found_at: int | None = None
        self._seen: deque[tuple[int, float]] = deque()

    def see(self, step: int, loss: float | None) -> bool:
        """Take in the loss after a step; True when the plateau is noticed now."""
        if loss is None or self.found_at is not None or (self._seen and step <= self._seen[-1][0]):
            return False
        self._seen.append((step, loss))
        while len(self._seen) > _LOSSES and self._seen[-1][0] - self._seen[0][0] > _UPDATES:
            self._seen.popleft()
        if len(self._seen) < _LOSSES or self._seen[-1][0] - self._seen[0][0] < 0.9 * _UPDATES:
            return False
        losses = np.array([value for _, value in self._seen])
        earlier, later = losses[: len(losses) // 2].mean(), losses[len(losses) // 2 :].mean()
        flat = earlier - later < _FLAT * earlier
        if flat and abs(later - self.entropy) < _NEAR * self.entropy:
            self.found_at = step
            figures = {"loss": round(float(later), 3), "unigram": round(self.entropy, 3)}
            log.warning("pretrain.unigram_plateau", step=step, change="train.lr", **figures)
            console().print(f"[yellow]the loss sits at the frequencies of the tokens since some time: {ADVICE}[/]")
            return True
        return False
