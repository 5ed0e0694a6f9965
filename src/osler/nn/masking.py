"""Dynamic masking for masked language modelling, with a fixed number of masked positions per batch."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field
from tokenizers import Tokenizer

from osler.core.config import Recipe
from osler.core.errors import ArtifactError, RecipeError
from osler.text.subwords import SubwordTokenizer, byte_alphabet, part_types


class Masking(Recipe):
    """The masked language model objective. Evaluation always masks 15 % of the sub-words, whatever training does."""

    rate: float = Field(0.15, gt=0.0, lt=1.0)
    unit: Literal["subword", "word"] = "subword"
    """Whether sub-words are masked one by one, or all sub-words of a word together."""
    mask_share: float = Field(0.8, ge=0.0, le=1.0)
    random_share: float = Field(0.1, ge=0.0, le=1.0)


_METASPACE = "▁"


@dataclass(frozen=True)
class WordTable:
    """For each entry of the vocabulary: whether it begins a word, and whether what follows it does."""

    opens: np.ndarray
    closes: np.ndarray

    def starts(self, ids: np.ndarray) -> np.ndarray:
        """Which tokens of a text begin a word; the first always does."""
        found: np.ndarray = self.opens[ids]
        found[1:] |= self.closes[ids[:-1]]
        found[:1] = True
        return found


def word_table(tokenizer: Tokenizer, size: int) -> WordTable:
    """The tables of a tokenizer, by the way in which its pieces mark words."""
    layout = json.loads(tokenizer.to_str())
    model = layout["model"]
    prefix, suffix = model.get("continuing_subword_prefix"), model.get("end_of_word_suffix")
    byte_level = "ByteLevel" in part_types(layout.get("pre_tokenizer"), layout.get("decoder"))
    characters = byte_alphabet()
    table = WordTable(np.ones(size, dtype=bool), np.ones(size, dtype=bool))
    added = tokenizer.get_added_tokens_decoder()
    for piece, number in tokenizer.get_vocab().items():
        if number in added or model["type"] == "WordLevel":
            continue  # a word by itself
        if prefix:
            # Whatever is not a continuation begins a word: nothing is needed of the piece before.
            table.opens[number], table.closes[number] = not piece.startswith(prefix), False
        elif suffix:
            table.opens[number], table.closes[number] = False, piece.endswith(suffix)
        else:
            text = _bytes_as_text(piece, characters) if byte_level else piece.replace(_METASPACE, " ")
            table.opens[number] = not text or not _in_word(text[0])
            # A blank alone belongs to the word after it, where the vocabulary holds no piece with both.
            table.closes[number] = bool(text) and text[-1] != " " and not _in_word(text[-1])
    return table


def _in_word(character: str) -> bool:
    # U+FFFD stands for a part of a character in a byte-level vocabulary: most often of a letter with an accent.
    return unicodedata.category(character)[0] in "LNM" or character == "\N{REPLACEMENT CHARACTER}"


def _bytes_as_text(piece: str, characters: Mapping[str, int]) -> str:
    if not all(character in characters for character in piece):
        return piece
    return bytes(characters[character] for character in piece).decode(errors="replace")


@dataclass(frozen=True)
class MaskingVocabulary:
    """Special ids, the frame of a sequence, the number of entries, and where words begin."""

    size: int
    pad_id: int
    mask_id: int
    special_ids: frozenset[int]
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    unused_ids: frozenset[int] = frozenset()
    """Numbers below `size` that no entry has: a few tokenizers have such gaps."""
    words: WordTable | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, tokens: SubwordTokenizer) -> MaskingVocabulary:
        """Read it from a loaded tokenizer folder."""
        tokenizer = tokens.tokenizer
        special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        numbers = set(tokenizer.get_vocab().values())
        size = max(numbers) + 1
        return cls(
            size=size,
            pad_id=_special(tokenizer, "<pad>", "[PAD]"),
            mask_id=_special(tokenizer, "<mask>", "[MASK]"),
            special_ids=frozenset(special),
            prefix=tuple(tokens.prefix),
            suffix=tuple(tokens.suffix),
            unused_ids=frozenset(range(size)) - numbers,
            words=word_table(tokenizer, size),
        )


def count_entries(tokenizer: Path) -> int:
    """One more than the highest id of a tokenizer.json: what decides how wide an id is stored."""
    return max(Tokenizer.from_file(str(tokenizer)).get_vocab().values()) + 1


def _special(tokenizer: Tokenizer, *names: str) -> int:
    for name in names:
        number = tokenizer.token_to_id(name)
        if number is not None:
            return int(number)
    raise ArtifactError(f"the tokenizer has no {names[0]} token", fix="Train one with osler vocab, or add the token")


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

    def __init__(self, vocabulary: MaskingVocabulary, masking: Masking) -> None:
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
