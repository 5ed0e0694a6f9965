"""Sub-word tokenizers: encoding with character offsets, and what vocabulary entries stand for.

Only the `tokenizers` library is needed, so building instances does not import transformers.
"""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer

from osler.core.errors import ArtifactError

_NESTED = ("normalizer", "pre_tokenizer", "decoder", "normalizers", "pretokenizers", "decoders")


@cache
def byte_alphabet() -> dict[str, int]:
    """The letter of every byte in byte-level vocabularies: printable Latin-1 stands for itself, the rest from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in plain)
    return {chr(byte): byte for byte in plain} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


def tokenizer_parts(description: Any) -> list[dict[str, Any]]:
    """Every part of a tokenizer's description that has a type, nested ones too, but not the vocabulary."""
    if isinstance(description, list):
        return [part for item in description for part in tokenizer_parts(item)]
    if not isinstance(description, dict):
        return []
    own = [description] if "type" in description else []
    return own + [part for key in _NESTED for part in tokenizer_parts(description.get(key))]


def part_types(*descriptions: Any) -> set[str]:
    """The types of all those parts."""
    return {str(part["type"]) for description in descriptions for part in tokenizer_parts(description)}


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
class VocabularyEntry:
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
        self._numbers: dict[VocabularyEntry, int] = {}
        for number, piece in self.pieces.items():
            if not (self._prefix and self._unused(number, piece)):
                self._numbers.setdefault(piece, number)

    def role(self, token: str) -> int | None:
        """The entry with the part that a special token plays: the same name, or another tokenizer's name for it."""
        same = next((names for names in _ROLES if token in names), (token,))
        return next((self.vocabulary[name] for name in (token, *same) if name in self.vocabulary), None)

    def find(self, piece: VocabularyEntry) -> int | None:
        """The entry that stands for exactly this."""
        return self._numbers.get(piece)

    def cut(self, piece: VocabularyEntry) -> tuple[int, ...]:
        """The entries this tokenizer cuts a piece into; none where it has no way to write it."""
        try:
            text = piece.text.decode()
        except UnicodeDecodeError:
            found = [self.find(VocabularyEntry(False, bytes([byte]))) for byte in piece.text]
            return tuple(number for number in found if number is not None) if None not in found else ()
        ids = self.tokenizer.encode(f" {text}" if piece.begins and self._bytes else text, add_special_tokens=False).ids
        numbers = [number for number in ids if number in self.pieces]
        if not numbers:
            return ()
        # A tokenizer may only know how to begin a word here: take the first piece in the form that is wanted, if it has one.
        first = self.pieces[numbers[0]]
        if first.begins and not piece.begins:
            inner = self.find(VocabularyEntry(False, first.text))
            if inner is not None:
                numbers[0] = inner
            elif not first.text and len(numbers) > 1:
                del numbers[0]
        return tuple(numbers)

    def _piece(self, token: str) -> VocabularyEntry:
        if self._bytes:
            letters = byte_alphabet()
            text = bytes(letters[character] for character in token if character in letters)
            return VocabularyEntry(text.startswith(b" "), text.removeprefix(b" "))
        if self._fallback and (byte := _BYTE.fullmatch(token)):
            return VocabularyEntry(False, bytes.fromhex(byte[1]))
        if self._meta:
            return VocabularyEntry(token.startswith(_META), token.removeprefix(_META).replace(_META, " ").encode())
        if self._prefix and token.startswith(self._prefix):
            return VocabularyEntry(False, token.removeprefix(self._prefix).encode())
        return VocabularyEntry(not (self._prefix and _mark(token)), token.encode())

    def _unused(self, number: int, piece: VocabularyEntry) -> bool:
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
            piece = VocabularyEntry(False, token.encode())
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


Ids = np.ndarray

_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy the files of a tokenizer from one Hugging Face folder to another."""
    for name in _FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


class SubwordTokenizer:
    """One tokenizer, without its stateful truncation and padding."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.prefix, self.suffix = self._specials()

    @classmethod
    def load(cls, folder: Path) -> SubwordTokenizer:
        """Read `tokenizer.json` of a Hugging Face folder."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ArtifactError(
                "no tokenizer.json here",
                where=folder,
                fix="Give a folder with a fast tokenizer (osler vocab makes one)",
            )
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise ArtifactError(
                "this is not the description of a tokenizer", where=path, fix="Give a tokenizer.json of Hugging Face"
            ) from error
        return cls(tokenizer)

    @property
    def overhead(self) -> int:
        """How many special tokens stand around one text."""
        return len(self.prefix) + len(self.suffix)

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Sub-words and offsets of each text, without special tokens."""
        return self.tokenizer.encode_batch(list(texts), add_special_tokens=False)

    def wrap(self, ids: Sequence[int]) -> Ids:
        """Put the special tokens of a single text around sub-words."""
        return np.array([*self.prefix, *ids, *self.suffix], dtype=np.int32)

    def pair(self, first: Encoding, second: Encoding, max_length: int) -> tuple[Ids, Ids]:
        """Ids and segment ids of two texts in this order, the longer one cut until both fit."""
        room = max_length - self.tokenizer.num_special_tokens_to_add(is_pair=True)
        keep_first, keep_second = _share(len(first.ids), len(second.ids), room)
        first.truncate(keep_first)
        second.truncate(keep_second)
        joined = self.tokenizer.post_process(first, second, add_special_tokens=True)
        return np.array(joined.ids, dtype=np.int32), np.array(joined.type_ids, dtype=np.int32)

    def _specials(self) -> tuple[list[int], list[int]]:
        # The template is found on a real token: an empty text shows the special tokens but not where the text stands.
        plain = self.tokenizer.encode("a", add_special_tokens=False).ids
        full = self.tokenizer.encode("a").ids
        if not plain:
            return full[: len(full) // 2], full[len(full) // 2 :]
        start = next(i for i in range(len(full)) if full[i : i + len(plain)] == plain)
        return full[:start], full[start + len(plain) :]


def _share(first: int, second: int, room: int) -> tuple[int, int]:
    """Cut the longer of two lengths until their sum fits."""
    if first + second <= room:
        return first, second
    half = room // 2
    if first <= half:
        return first, room - first
    if second <= half:
        return room - second, second
    return room - half, half
