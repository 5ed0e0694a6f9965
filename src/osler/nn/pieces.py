"""What the entries of a vocabulary stand for, and of which entries of another vocabulary each can be made.

Tokenizers write the same piece in different ways: `Ġfever`, `▁fever` and `fever` begin a word, `fever`, `fever` and `##fever` go on
with one. Here a piece is its bytes and whether it begins a word, so that vocabularies of any two kinds can be compared.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass

from tokenizers import Tokenizer

from osler.text.subwords import byte_alphabet, part_types

_ROLES: tuple[tuple[str, ...], ...] = (
    ("<s>", "[CLS]", "<cls>"),
    ("</s>", "[SEP]", "<sep>"),
    ("<pad>", "[PAD]"),
    ("<unk>", "[UNK]"),
    ("<mask>", "[MASK]"),
)
_META = "\N{LOWER ONE EIGHTH BLOCK}"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True)
class Piece:
    """Bytes, not characters: a byte-level vocabulary also holds halves of characters."""

    begins: bool
    text: bytes


@dataclass(frozen=True)
class Origins:
    """For each entry of a new vocabulary, the old entries it is made of (none: nothing old expresses it), and counts."""

    rows: tuple[tuple[int, ...], ...]
    old_size: int
    special: int
    kept: int
    composed: int
    unknown: int


class Inventory:
    """The entries of one tokenizer by what they stand for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = Tokenizer.from_str(
            tokenizer.to_str()
        )  # a copy: truncation and padding are states of the object
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        spec = json.loads(tokenizer.to_str())
        model = spec["model"]
        kinds = part_types(spec.get("pre_tokenizer"), spec.get("decoder"))
        self._bytes = "ByteLevel" in kinds
        self._meta = not self._bytes and ("Metaspace" in kinds or model["type"] == "Unigram" or "Prepend" in kinds)
        self._prefix: str = model.get("continuing_subword_prefix") or ""
        self._fallback = bool(model.get("byte_fallback"))
        self.vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        self.size = max(self.vocabulary.values()) + 1
        added = tokenizer.get_added_tokens_decoder()
        self.added = {token.content: number for number, token in added.items()}
        self.special = {number for number, token in added.items() if token.special}
        ordinary = sorted((number, token) for token, number in self.vocabulary.items() if number not in added)
        self.pieces = {number: self._piece(token) for number, token in ordinary}
        self._numbers: dict[Piece, int] = {}
        for number, piece in self.pieces.items():
            if not (self._prefix and self._unused(number, piece)):
                self._numbers.setdefault(piece, number)

    def role(self, token: str) -> int | None:
        """The entry with the part that a special token plays: the same name, or another tokenizer's name for it."""
        same = next((names for names in _ROLES if token in names), (token,))
        return next((self.vocabulary[name] for name in (token, *same) if name in self.vocabulary), None)

    def find(self, piece: Piece) -> int | None:
        """The entry that stands for exactly this."""
        return self._numbers.get(piece)

    def cut(self, piece: Piece) -> tuple[int, ...]:
        """The entries this tokenizer cuts a piece into; none where it has no way to write it."""
        try:
            text = piece.text.decode()
        except UnicodeDecodeError:
            found = [self.find(Piece(False, bytes([byte]))) for byte in piece.text]
            return tuple(number for number in found if number is not None) if None not in found else ()
        ids = self.tokenizer.encode(f" {text}" if piece.begins and self._bytes else text, add_special_tokens=False).ids
        numbers = [number for number in ids if number in self.pieces]
        if not numbers:
            return ()
        # A tokenizer may only know how to begin a word here: take the first piece in the form that is wanted, if it has one.
        first = self.pieces[numbers[0]]
        if first.begins and not piece.begins:
            inner = self.find(Piece(False, first.text))
            if inner is not None:
                numbers[0] = inner
            elif not first.text and len(numbers) > 1:
                del numbers[0]
        return tuple(numbers)

    def _piece(self, token: str) -> Piece:
        if self._bytes:
            letters = byte_alphabet()
            text = bytes(letters[character] for character in token if character in letters)
            return Piece(text.startswith(b" "), text.removeprefix(b" "))
        if self._fallback and (byte := _BYTE.fullmatch(token)):
            return Piece(False, bytes.fromhex(byte[1]))
        if self._meta:
            return Piece(token.startswith(_META), token.removeprefix(_META).replace(_META, " ").encode())
        if self._prefix and token.startswith(self._prefix):
            return Piece(False, token.removeprefix(self._prefix).encode())
        return Piece(not (self._prefix and _mark(token)), token.encode())

    def _unused(self, number: int, piece: Piece) -> bool:
        """Whether this is `##.`: such a tokenizer parts marks from words, so that only `.` was ever trained."""
        text = piece.text.decode()
        return _mark(text) and self.vocabulary.get(text) not in (None, number)


def origins(old: Tokenizer, new: Tokenizer) -> Origins:
    """What each entry of the new tokenizer is made of in the old one."""
    source, target = Inventory(old), Inventory(new)
    names = {number: token for token, number in target.vocabulary.items()}
    rows: list[tuple[int, ...]] = []
    counts = {"special": 0, "kept": 0, "composed": 0, "unknown": 0}
    for number in range(target.size):
        piece = target.pieces.get(number)
        token = names.get(number, "")
        if piece is None:  # a special or added token, or a number nobody has
            same = source.role(token)
            piece = Piece(False, token.encode())
            kind = "special" if number in target.special else "kept"
        else:
            same, kind = source.find(piece), "kept"
        row = (same,) if same is not None else source.cut(piece)
        rows.append(row)
        counts[kind if same is not None else "composed" if row else "unknown"] += 1
    return Origins(tuple(rows), source.size, **counts)


def _mark(text: str) -> bool:
    """Whether this is one punctuation mark, which BERT's kind of tokenizer parts from the words around it."""
    return len(text) == 1 and (unicodedata.category(text).startswith("P") or (text.isascii() and not text.isalnum()))
