"""Tokens as people read them: `é`, not `Ã©`, and one way to write them whatever the algorithm.

Byte-level tokenizers write every byte as a letter of an alphabet of their own, WordPiece marks what goes on a word (`##itis`),
sentencepiece marks what begins one (`▁nefr`), others mark what ends one (`itis</w>`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from osler.stages.vocab.cutting import Cutter, Piece
from osler.text.subwords import byte_alphabet, part_types, tokenizer_parts

JOINT = "·"
"""Stands between two pieces of one word."""
_META = "▁"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True)
class Style:
    """How a tokenizer writes its tokens."""

    byte_level: bool = False
    byte_fallback: bool = False
    blank: str = ""
    """The mark of a blank, at the head of a token that begins a word; "" where there is none."""
    prefix: str = ""
    """The mark of a token that goes on a word."""
    suffix: str = ""
    """The mark of a token that ends a word."""

    @classmethod
    def of(cls, cutter: Cutter) -> Style:
        """Read from the tokenizer's description."""
        kinds = part_types(cutter.description)
        prefix = cutter.model.get("continuing_subword_prefix") or ""
        marks = [part["replacement"] for part in tokenizer_parts(cutter.description) if part.get("type") == "Metaspace"]
        replaced = [
            part["content"]
            for part in tokenizer_parts(cutter.description.get("normalizer"))
            if part.get("type") == "Replace"
        ]
        if not marks and _META in replaced:
            marks = [_META]
        return cls(
            byte_level="ByteLevel" in kinds,
            byte_fallback=bool(cutter.model.get("byte_fallback")),
            blank=marks[0] if marks else "",
            prefix=prefix,
            suffix=cutter.model.get("end_of_word_suffix") or "",
        )

    def data(self, token: str) -> bytes:
        """The UTF-8 bytes a token stands for, without the marks of beginning and going on; a blank stays a blank."""
        if self.byte_fallback and (found := _BYTE.fullmatch(token)):
            return bytes.fromhex(found[1])
        if self.byte_level:
            table = byte_alphabet()
            if all(letter in table for letter in token):
                return bytes(table[letter] for letter in token)
        text = token
        if self.prefix:
            text = text.removeprefix(self.prefix)
        if self.suffix:
            text = text.removesuffix(self.suffix)
        if self.blank:
            text = text.replace(self.blank, " ")
        return text.encode()

    def entry(self, token: str) -> tuple[bool, bytes]:
        """A token in a form that can be compared between kinds: whether it goes on a word, and its bytes."""
        data = self.data(token)
        if self.byte_level or self.blank:
            return not data.startswith(b" "), data.removeprefix(b" ")
        if self.prefix:
            return token.startswith(self.prefix), data
        return False, data

    def readable(self, tokens: Iterable[str]) -> list[str]:
        """The tokens of one word for a reader, without blanks before them.

        Where a cut goes through the bytes of a character, each side shows the character with the number of its part: `í₁`, `í₂`.
        """
        parts = [self.data(token) for token in tokens]
        # A byte of no character becomes a lone surrogate, so that nothing is lost and bytes can be counted.
        text = b"".join(parts).decode("utf-8", "surrogateescape")
        shown = [""] * len(parts)
        owner = [number for number, part in enumerate(parts) for _ in part]
        place = 0
        for character in text:
            size = len(character.encode("utf-8", "surrogateescape"))
            owners = list(dict.fromkeys(owner[place : place + size]))
            for number, piece in enumerate(owners, 1):
                shown[piece] += _written(character) + (chr(0x2080 + number) if len(owners) > 1 else "")
            place += size
        return [piece.lstrip(" ") or piece.replace(" ", _META) for piece in shown]

    def shown(self, word: str, pieces: Sequence[Piece]) -> str:
        """A word or several with a joint at every cut: `insuf·iciencia cardí·aca`."""
        result, before = "", 0
        for piece, text in zip(pieces, self.readable(piece.token for piece in pieces), strict=True):
            # The blank may belong to the piece, or lie between it and the one before.
            gap = word[before : max(before, piece.end)]
            joint = " " if gap[:1].isspace() else JOINT
            result += (joint if result else "") + text
            before = max(before, piece.end)
        return result


def _written(character: str) -> str:
    """The character itself; a byte of none in hexadecimal."""
    code = ord(character)
    return f"⟨{code - 0xDC00:02x}⟩" if 0xDC80 <= code <= 0xDCFF else character
