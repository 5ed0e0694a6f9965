"""Sub-word tokenizers: encoding with character offsets, and what vocabulary entries stand for.

Only the `tokenizers` library is needed, so building instances does not import transformers.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer

Ids = np.ndarray


class SubwordTokenizer:
    """A tokenizer without its truncation and padding settings."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()

    @cached_property
    def frame(self) -> tuple[list[int], list[int]]:
        """Special tokens before and after a single text."""
        # Look at a real token: an empty text shows the special tokens but not where the text goes.
        plain = self.tokenizer.encode("a", add_special_tokens=False).ids
        full = self.tokenizer.encode("a").ids
        if not plain:
            return full[: len(full) // 2], full[len(full) // 2 :]
        start = next(i for i in range(len(full)) if full[i : i + len(plain)] == plain)
        return full[:start], full[start + len(plain) :]

    @property
    def prefix(self) -> list[int]:
        """Special tokens before a single text."""
        return self.frame[0]

    @property
    def overhead(self) -> int:
        """Number of special tokens around a single text."""
        return self.tokenizer.num_special_tokens_to_add(is_pair=False)

    @property
    def size(self) -> int:
        """One more than the highest id."""
        return max(self.tokenizer.get_vocab().values()) + 1

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Sub-words and offsets of each text, without special tokens."""
        return self.tokenizer.encode_batch(list(texts), add_special_tokens=False)

    def wrap(self, ids: Sequence[int]) -> Ids:
        """Put the special tokens of a single text around sub-words."""
        before, after = self.frame
        return np.array([*before, *ids, *after], dtype=np.int32)

    def pair(self, first: Encoding, second: Encoding, max_length: int) -> tuple[Ids, Ids]:
        """Ids and segment ids of two texts in this order; the longer one is truncated until both fit."""
        room = max_length - self.tokenizer.num_special_tokens_to_add(is_pair=True)
        keep_first, keep_second = len(first.ids), len(second.ids)
        if keep_first + keep_second > room:
            half = room // 2
            if keep_first <= half:
                keep_second = room - keep_first
            elif keep_second <= half:
                keep_first = room - keep_second
            else:
                keep_first, keep_second = room - half, half
        first.truncate(keep_first)
        second.truncate(keep_second)
        joined = self.tokenizer.post_process(first, second, add_special_tokens=True)
        return np.array(joined.ids, dtype=np.int32), np.array(joined.type_ids, dtype=np.int32)


_NESTED = ("normalizer", "pre_tokenizer", "decoder", "normalizers", "pretokenizers", "decoders")
_METASPACE = "\N{LOWER ONE EIGHTH BLOCK}"
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


@dataclass(frozen=True)
class VocabularyEntry:
    """What a vocabulary entry stands for. Its text is bytes: byte-level vocabularies also hold parts of characters."""

    begins: bool
    """Starts a word. Always true where the vocabulary does not mark where words start."""
    text: bytes
    ends: bool = False
    """Carries an end-of-word mark, such as `</w>`."""


class SubwordVocabulary:
    """The entries of a tokenizer, read the same way whatever marks its algorithm uses."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.description: dict[str, Any] = json.loads(tokenizer.to_str())
        self.model: dict[str, Any] = self.description["model"]
        self.ids = tokenizer.get_vocab(with_added_tokens=True)
        self.size = max(self.ids.values()) + 1
        self.unused = frozenset(range(self.size)) - set(self.ids.values())  # some tokenizers have gaps
        added = tokenizer.get_added_tokens_decoder()
        self.added = frozenset(added)
        self.special = frozenset(number for number, token in added.items() if token.special)
        parts = _parts(self.description)
        self.byte_level = any(part["type"] == "ByteLevel" for part in parts)
        self.byte_fallback = bool(self.model.get("byte_fallback"))
        self.prefix: str = self.model.get("continuing_subword_prefix") or ""
        self.suffix: str = self.model.get("end_of_word_suffix") or ""
        # The mark for a space: Metaspace names it, Llama's normaliser puts it in, sentencepiece models always have it.
        marks = [part["replacement"] for part in parts if part["type"] == "Metaspace"]
        replaced = any(part["type"] == "Replace" and part["content"] == _METASPACE for part in parts)
        implied = _METASPACE if replaced or self.model["type"] == "Unigram" else ""
        self.space: str = "" if self.byte_level else marks[0] if marks else implied

    @cached_property
    def entries(self) -> dict[int, VocabularyEntry]:
        """Entries by id, without special and other added tokens."""
        ordinary = sorted((number, token) for token, number in self.ids.items() if number not in self.added)
        return {number: self.entry(token) for number, token in ordinary}

    def entry(self, token: str) -> VocabularyEntry:
        text = self.text(token)
        if self.byte_level or self.space:
            return VocabularyEntry(text.startswith(b" "), text.removeprefix(b" "))
        ends = bool(self.suffix) and token.endswith(self.suffix)
        return VocabularyEntry(not (self.prefix and token.startswith(self.prefix)), text, ends)

    def is_byte(self, token: str) -> bool:
        """Whether an entry is a single byte of byte fallback, such as `<0xC3>`."""
        return self.byte_fallback and _BYTE.fullmatch(token) is not None

    def text(self, token: str) -> bytes:
        """UTF-8 bytes of a token, without the marks of its algorithm; a space before a word stays a space."""
        if self.is_byte(token):
            return bytes.fromhex(token[3:5])
        if self.byte_level:
            letters = byte_alphabet()
            if all(letter in letters for letter in token):
                return bytes(letters[letter] for letter in token)
        text = token.removeprefix(self.prefix).removesuffix(self.suffix)
        return (text.replace(self.space, " ") if self.space else text).encode()


@cache
def byte_alphabet() -> dict[str, int]:
    """Letters of byte-level vocabularies: printable Latin-1 stands for itself, other bytes are letters from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in plain)
    return {chr(byte): byte for byte in plain} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


def _parts(description: Any) -> list[dict[str, Any]]:
    """Normalisers, pre-tokenizers and decoders of a tokenizer.json, nested ones included."""
    if isinstance(description, list):
        return [part for item in description for part in _parts(item)]
    if not isinstance(description, dict):
        return []
    own = [description] if "type" in description else []
    return own + [part for key in _NESTED for part in _parts(description.get(key))]


@dataclass(frozen=True)
class Origins:
    """For each entry of a new vocabulary, the old entries it is made of (none if no old entry expresses it)."""

    rows: tuple[tuple[int, ...], ...]
    old_size: int
    special: int
    kept: int
    composed: int
    unknown: int


def origins(old: Tokenizer, new: Tokenizer) -> Origins:
    """Find what each entry of the new tokenizer is made of in the old one."""
    source, target = Inventory(old), Inventory(new)
    names = {number: token for token, number in target.ids.items()}
    rows: list[tuple[int, ...]] = []
    counts = {"special": 0, "kept": 0, "composed": 0, "unknown": 0}
    for number in range(target.size):
        entry = target.entries.get(number)
        token = names.get(number, "")
        if entry is None:  # a special or added token, or an unused id
            same = source.role(token)
            entry = VocabularyEntry(False, token.encode())
            kind = "special" if number in target.special else "kept"
        else:
            same, kind = source.find(entry), "kept"
        row = (same,) if same is not None else source.compose(entry)
        rows.append(row)
        counts[kind if same is not None else "composed" if row else "unknown"] += 1
    return Origins(tuple(rows), source.size, **counts)


_ROLES: tuple[tuple[str, ...], ...] = (
    ("<s>", "[CLS]", "<cls>"),
    ("</s>", "[SEP]", "<sep>"),
    ("<pad>", "[PAD]"),
    ("<unk>", "[UNK]"),
    ("<mask>", "[MASK]"),
)


class Inventory(SubwordVocabulary):
    """A vocabulary whose entries can be looked up by what they stand for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        # A copy, because SubwordTokenizer changes the settings of its tokenizer.
        self._tokenizer = SubwordTokenizer(Tokenizer.from_str(tokenizer.to_str()))
        self._numbers: dict[VocabularyEntry, int] = {}
        for number, entry in self.entries.items():
            # `##.` is never used: WordPiece tokenizers split off punctuation, so only `.` was trained.
            mark = entry.text.decode() if self.prefix else ""
            if not (_is_mark(mark) and self.ids.get(mark) not in (None, number)):
                self._numbers.setdefault(entry, number)

    def entry(self, token: str) -> VocabularyEntry:
        # WordPiece tokenizers split off punctuation with or without a space before it.
        return VocabularyEntry(False, token.encode()) if self.prefix and _is_mark(token) else super().entry(token)

    def role(self, token: str) -> int | None:
        """Id of the special token with the same role: the same name, or another tokenizer's name for it."""
        same = next((names for names in _ROLES if token in names), (token,))
        return next((self.ids[name] for name in (token, *same) if name in self.ids), None)

    def find(self, entry: VocabularyEntry) -> int | None:
        """Id of the entry that stands for exactly this."""
        return self._numbers.get(entry)

    def compose(self, entry: VocabularyEntry) -> tuple[int, ...]:
        """Ids of the entries that this tokenizer splits another's entry into; empty if it cannot express it."""
        try:
            text = entry.text.decode()
        except UnicodeDecodeError:
            found = [self.find(VocabularyEntry(False, bytes([byte]))) for byte in entry.text]
            return tuple(number for number in found if number is not None) if None not in found else ()
        [encoding] = self._tokenizer.encode([f" {text}" if entry.begins and self.byte_level else text])
        numbers = [number for number in encoding.ids if number in self.entries]
        if not numbers:
            return ()
        # The tokenizer may write this text only at the start of a word. Prefer the form inside a word if there is one.
        first = self.entries[numbers[0]]
        if first.begins and not entry.begins:
            inner = self.find(VocabularyEntry(False, first.text))
            if inner is not None:
                numbers[0] = inner
            elif not first.text and len(numbers) > 1:
                del numbers[0]
        return tuple(numbers)


def _is_mark(text: str) -> bool:
    return len(text) == 1 and (unicodedata.category(text).startswith("P") or (text.isascii() and not text.isalnum()))
