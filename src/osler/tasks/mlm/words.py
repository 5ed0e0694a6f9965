"""Which sub-words begin a word: what masking whole words needs to know of a tokenizer.

A word is a run of letters and digits; every piece of punctuation, and every line break, is a word of its own, as in BERT. Whether
a piece begins a word depends on it (a blank in front, punctuation) or on the one before (punctuation, a special token), so there
are two tables over the vocabulary.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from osler.text.subwords import byte_alphabet, part_types

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
