"""Dynamic masking with a fixed number of masked positions a batch, so that every batch has the same shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from osler.core.errors import RecipeError
from osler.tasks.mlm.settings import Masking
from osler.tasks.mlm.vocabulary import Vocabulary

IGNORED = -100


@dataclass(frozen=True)
class Masked:
    """A masked batch: the ids the model sees, the positions it must fill, and what stood there."""

    ids: np.ndarray
    positions: np.ndarray
    targets: np.ndarray


class Masker:
    """Chooses positions, one by one or whole words, and what to put there: mask, a random token, or the token itself.

    A batch has as many positions as the rate gives of its tokens. Words are taken in random order; one that does not fit into
    what is left is passed over for the next that does, so no word is split and the number is met. Only where nothing
    fits (a handful of tokens) are positions left over, with the target IGNORED: cutting a word would give its rest away.
    """

    def __init__(self, vocabulary: Vocabulary, masking: Masking) -> None:
        self.mask_id = vocabulary.mask_id
        self.masking = masking
        self.special = np.zeros(vocabulary.size, dtype=bool)
        self.special[list(vocabulary.special_ids | vocabulary.unused_ids)] = True
        self.ordinary = np.flatnonzero(~self.special)
        self.words = vocabulary.words
        if masking.unit == "word" and self.words is None:
            raise RecipeError("this vocabulary does not say where words begin", where="masking.unit", fix="Use subword")

    def apply(self, ids: np.ndarray, rng: np.random.Generator, starts: np.ndarray | None = None) -> Masked:
        """Mask a share of the tokens; special tokens are never chosen. `starts`: where sequences begin in `ids`."""
        wanted = max(1, int(len(ids) * self.masking.rate))
        maskable = ~self.special[ids]
        if self.masking.unit == "word":
            chosen = self._whole_words(ids, maskable, starts, wanted, rng)
        else:
            candidates = np.flatnonzero(maskable)
            chosen = rng.choice(candidates, min(wanted, len(candidates)), replace=False, shuffle=False)
            chosen.sort()
        positions = np.zeros(wanted, dtype=np.int64)
        targets = np.full(wanted, IGNORED, dtype=np.int64)
        positions[: len(chosen)] = chosen
        targets[: len(chosen)] = ids[chosen]
        masked = ids.copy()
        # Drawn for each sub-word, in a whole word too, as in BERT.
        lots = rng.random(len(chosen))
        by_mask = lots < self.masking.mask_share
        by_random = ~by_mask & (lots < self.masking.mask_share + self.masking.random_share)
        masked[chosen[by_mask]] = self.mask_id
        masked[chosen[by_random]] = rng.choice(self.ordinary, size=int(by_random.sum()))
        return Masked(masked, positions, targets)

    def _whole_words(
        self, ids: np.ndarray, maskable: np.ndarray, starts: np.ndarray | None, wanted: int, rng: np.random.Generator
    ) -> np.ndarray:
        assert self.words is not None
        begins = self.words.starts(ids)
        if starts is not None:
            begins[starts] = True
        # A special token is a word by itself in the table, so words and special tokens never share a number.
        word = np.cumsum(begins) - 1
        sizes = np.bincount(word[maskable], minlength=int(word[-1]) + 1)
        order = rng.permutation(np.flatnonzero(sizes))
        taken = np.zeros(len(sizes), dtype=bool)
        place = 0
        while wanted > 0 and place < len(order):
            # As many as fit, up to the first that does not; that one is passed over.
            fits = int(np.searchsorted(np.cumsum(sizes[order[place : place + wanted]]), wanted, side="right"))
            fitting = order[place : place + fits]
            taken[fitting] = True
            wanted -= int(sizes[fitting].sum())
            place += fits + 1
        return np.flatnonzero(taken[word] & maskable)
