"""Dynamic masking for masked language modelling, with a fixed number of masked positions per batch."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from pydantic import Field

from osler.core.config import Recipe
from osler.core.errors import ArtifactError
from osler.text.subwords import SubwordTokenizer, SubwordVocabulary


class Masking(Recipe):
    """Masking during training. Validation always masks 15 % of the sub-words."""

    rate: float = Field(0.15, gt=0.0, lt=1.0, description="fraction of the sub-words to predict")
    unit: Literal["subword", "word"] = "subword"
    """Mask single sub-words, or all sub-words of a word together."""
    mask_share: float = Field(0.8, ge=0.0, le=1.0, description="fraction of those replaced by the mask token")
    random_share: float = Field(
        0.1, ge=0.0, le=1.0, description="fraction replaced by a random sub-word; the rest stay"
    )


@dataclass(frozen=True)
class WordTable:
    """For each vocabulary entry: whether it begins a word, and whether the entry after it does."""

    opens: np.ndarray
    closes: np.ndarray

    @classmethod
    def of(cls, vocabulary: SubwordVocabulary) -> WordTable:
        """Read the table from the marks that a vocabulary puts on words."""
        table = cls(np.ones(vocabulary.size, dtype=bool), np.ones(vocabulary.size, dtype=bool))
        if vocabulary.model["type"] == "WordLevel":
            return table
        for token, number in vocabulary.ids.items():
            if number in vocabulary.added or vocabulary.is_byte(token):
                continue  # a word by itself
            if vocabulary.prefix:
                # Every entry without the mark begins a word, whatever comes before it.
                table.opens[number], table.closes[number] = not token.startswith(vocabulary.prefix), False
            elif vocabulary.suffix:
                table.opens[number], table.closes[number] = False, token.endswith(vocabulary.suffix)
            else:
                text = vocabulary.text(token).decode(errors="replace")
                table.opens[number] = not text or not _in_word(text[0])
                # A space alone belongs to the word after it: the vocabulary has no entry that holds both.
                table.closes[number] = bool(text) and text[-1] != " " and not _in_word(text[-1])
        return table

    def starts(self, ids: np.ndarray) -> np.ndarray:
        """Mark the tokens of a text that begin a word; the first always does."""
        found: np.ndarray = self.opens[ids]
        found[1:] |= self.closes[ids[:-1]]
        found[:1] = True
        return found


def _in_word(character: str) -> bool:
    # U+FFFD stands for a part of a character in a byte-level vocabulary, most often of a letter with an accent.
    return unicodedata.category(character)[0] in "LNM" or character == "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class MaskingVocabulary:
    """The vocabulary as masking sees it: special ids, the special tokens around a text, and where words begin."""

    size: int
    pad_id: int
    mask_id: int
    special_ids: frozenset[int]
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    unused_ids: frozenset[int] = frozenset()
    """Ids below `size` that no entry has: some tokenizers have gaps."""
    words: WordTable | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, tokens: SubwordTokenizer) -> MaskingVocabulary:
        """Read it from a tokenizer."""
        vocabulary = SubwordVocabulary(tokens.tokenizer)
        prefix, suffix = map(tuple, tokens.frame)
        return cls(
            size=vocabulary.size,
            pad_id=_special(vocabulary, "<pad>", "[PAD]"),
            mask_id=_special(vocabulary, "<mask>", "[MASK]"),
            special_ids=vocabulary.special,
            prefix=prefix,
            suffix=suffix,
            unused_ids=vocabulary.unused,
            words=WordTable.of(vocabulary),
        )


def _special(vocabulary: SubwordVocabulary, *names: str) -> int:
    for name in names:
        if name in vocabulary.ids:
            return vocabulary.ids[name]
    raise ArtifactError(f"the tokenizer has no {names[0]} token", fix="Train one with osler vocab, or add the token")


IGNORED = -100


@dataclass(frozen=True)
class Masked:
    """A masked batch: the ids the model sees, the positions to predict, and the original ids there."""

    ids: np.ndarray
    positions: np.ndarray
    targets: np.ndarray


class Masker:
    """Chooses positions and what to put there: the mask, a random token, or the token itself.

    Every batch has a fixed number of positions: its tokens times the rate. Words are taken in random order; a word that
    does not fit into the remaining positions is skipped, so no word is masked in part, which would give the rest away.
    Positions that no word fits into (a handful at most) get the target IGNORED.
    """

    def __init__(self, vocabulary: MaskingVocabulary, masking: Masking) -> None:
        self.mask_id = vocabulary.mask_id
        self.masking = masking
        self.special = np.zeros(vocabulary.size, dtype=bool)
        self.special[list(vocabulary.special_ids | vocabulary.unused_ids)] = True
        self.ordinary = np.flatnonzero(~self.special)
        self.words = vocabulary.words

    def apply(self, ids: np.ndarray, rng: np.random.Generator, starts: np.ndarray | None = None) -> Masked:
        """Mask a share of the tokens, never special tokens. `starts` are the positions where sequences begin."""
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
        # Drawn for each sub-word, also when words are masked, as in BERT.
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
        # A special token is a word by itself in the table, so no word contains special tokens.
        word = np.cumsum(begins) - 1
        sizes = np.bincount(word[maskable], minlength=int(word[-1]) + 1)
        order = rng.permutation(np.flatnonzero(sizes))
        taken = np.zeros(len(sizes), dtype=bool)
        place = 0
        while wanted > 0 and place < len(order):
            # Take words until one does not fit, and skip that one.
            fits = int(np.searchsorted(np.cumsum(sizes[order[place : place + wanted]]), wanted, side="right"))
            fitting = order[place : place + fits]
            taken[fitting] = True
            wanted -= int(sizes[fitting].sum())
            place += fits + 1
        return np.flatnonzero(taken[word] & maskable)
