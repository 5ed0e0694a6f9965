"""How tokenizers write their entries: the alphabet of bytes, and the parts a tokenizer.json is made of."""

from __future__ import annotations

from functools import cache
from typing import Any

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
