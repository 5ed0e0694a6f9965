"""Dynamic masking with a fixed number of masked positions a batch, so that every batch has the same shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from osler.stages.pretrain.config import Masking
from osler.stages.pretrain.vocabulary import Vocabulary

IGNORED = -100


@dataclass(frozen=True)
class Masked:
    """A masked batch: the ids the model sees, the positions it must fill, and what stood there."""

    ids: np.ndarray
    positions: np.ndarray
    targets: np.ndarray


class Masker:
    """Chooses positions and what to put there: mask, a random token, or the token itself."""

    def __init__(self, vocabulary: Vocabulary, masking: Masking) -> None:
        self.mask_id = vocabulary.mask_id
        self.masking = masking
        self.special = np.zeros(vocabulary.size, dtype=bool)
        self.special[sorted(vocabulary.special_ids)] = True
        self.ordinary = np.flatnonzero(~self.special)

    def apply(self, ids: np.ndarray, rng: np.random.Generator) -> Masked:
        """Mask a share of the tokens; special tokens are never chosen."""
        wanted = max(1, int(len(ids) * self.masking.rate))
        candidates = np.flatnonzero(~self.special[ids])
        chosen = np.sort(rng.permutation(candidates)[:wanted])
        positions = np.zeros(wanted, dtype=np.int64)
        targets = np.full(wanted, IGNORED, dtype=np.int64)
        positions[: len(chosen)] = chosen
        targets[: len(chosen)] = ids[chosen]
        masked = ids.copy()
        lots = rng.random(len(chosen))
        by_mask = lots < self.masking.mask_share
        by_random = ~by_mask & (lots < self.masking.mask_share + self.masking.random_share)
        masked[chosen[by_mask]] = self.mask_id
        masked[chosen[by_random]] = rng.choice(self.ordinary, size=int(by_random.sum()))
        return Masked(masked, positions, targets)
