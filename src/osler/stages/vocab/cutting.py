"""A tokenizer of any kind, asked one thing: into which pieces it cuts a word of running text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

# A word and a blank before the word that is asked about: some tokenizers treat the first word of a text in their own way,
# some put a mark before a text and some do not. Behind another word all of them do what they do in running text.
_LEAD = "a "
_BATCH = 20_000


@dataclass(frozen=True, slots=True)
class Cut:
    """How often a word is cut, and whether some of it is unknown."""

    pieces: int
    unknown: bool

    @property
    def whole(self) -> bool:
        """One piece, and that not the one for what is unknown."""
        return self.pieces == 1 and not self.unknown


@dataclass(frozen=True, slots=True)
class Piece:
    """A token with the characters it stands for, counted from the start of the word; `start` may lie before it."""

    id: int
    token: str
    start: int
    end: int


class Cutter:
    """Cuts words with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        # A copy: a tokenizer.json may state padding and truncation, which would falsify every count.
        self.tokenizer: Tokenizer = type(tokenizer).from_str(tokenizer.to_str())
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.description: dict[str, Any] = json.loads(self.tokenizer.to_str())
        self.model: dict[str, Any] = self.description["model"]
        self.unknown_id = _unknown_id(self.model, self.tokenizer)

    @property
    def unknown_token(self) -> str | None:
        """The token for what the tokenizer does not know; None where it has none."""
        return None if self.unknown_id is None else self.tokenizer.id_to_token(self.unknown_id)

    def cuts(self, words: Iterable[str]) -> dict[str, Cut]:
        """How every word is cut."""
        found = {}
        for word, encoding in self._encode(words):
            ids = [number for number, (_, end) in zip(encoding.ids, encoding.offsets, strict=True) if end >= len(_LEAD)]
            found[word] = Cut(len(ids), not ids or self.unknown_id in ids or self._loses(word, encoding))
        return found

    def pieces(self, words: Iterable[str]) -> dict[str, tuple[Piece, ...]]:
        """The pieces of every word."""
        shift = len(_LEAD)
        return {
            word: tuple(
                Piece(number, token, start - shift, end - shift)
                for number, token, (start, end) in zip(encoding.ids, encoding.tokens, encoding.offsets, strict=True)
                if end >= shift
            )
            for word, encoding in self._encode(words)
        }

    def _encode(self, words: Iterable[str]) -> Iterator[tuple[str, Encoding]]:
        rest = iter(words)
        while batch := list(islice(rest, _BATCH)):
            encodings: Sequence[Encoding] = self.tokenizer.encode_batch(
                [_LEAD + word for word in batch], add_special_tokens=False
            )
            yield from zip(batch, encodings, strict=True)

    def _loses(self, word: str, encoding: Encoding) -> bool:
        """Whether a tokenizer without an unknown token leaves a letter out: BPE over characters drops what it lacks."""
        if self.unknown_id is not None:
            return False
        covered = {place for start, end in encoding.offsets for place in range(start, end)}
        return any(letter.isalpha() and place not in covered for place, letter in enumerate(word, len(_LEAD)))


def _unknown_id(model: dict[str, Any], tokenizer: Tokenizer) -> int | None:
    """The model's own unknown token; one that is only named beside it is never put into a text."""
    if model.get("unk_id") is not None:  # Unigram
        return int(model["unk_id"])
    token = model.get("unk_token")
    return None if token is None else tokenizer.token_to_id(token)
