"""Normalise typographic variants of characters. Doses and units stay as they are."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from osler.stages.corpus.rewriters import Rewriter, Rewritten
from osler.text.characters import other_characters

_QUOTES = {"\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "“": '"', "”": '"', "„": '"', "‟": '"'}
_HYPHENS = dict.fromkeys("\u2010\u2011\u2012\ufe63\uff0d", "-")
# After a digit or letter a minus sign may be what is left of an exponent (10−18) or a charge, which a hyphen would hide.
_MINUS = re.compile(r"\u2212(?=\d)(?<![\w)\]/]\u2212)")
_SOFT_HYPHEN_AS_BULLET = re.compile(r"\xad(?<![^\n]\xad)(?= )")
_INVISIBLE = dict.fromkeys("\xad\u200b\u200e\u200f\u2060\ufeff", "")
# NFKC loses meaning where it flattens raised or lowered characters (10⁻³, m², 1º), pulls fractions apart (1½ becomes 11⁄2) or
# puts a space under an accent. It also changes the micro sign, so that "µg" no longer matches "µg". Only these kinds of
# compatibility characters are replaced: wide and narrow forms, ligatures, letters in a mathematical font, units in one character.
_KINDS = ("<wide>", "<narrow>", "<compat>", "<font>", "<square>")
_KEPT = "µ″‴"
_RANGES = (range(0xA0, 0x10000), range(0x1D400, 0x1D800))
_RAISED = str.maketrans("23", "²³")

# The second half of a word that is divided at a line end, in lower case. The pattern begins with the hyphen because `re` skips to
# it quickly; two letters must stand before it.
_SECOND_HALF = re.compile(
    r"-\n(?<=[^\W\d_]{2}-\n)[ \t]*(?P<half>(?![A-ZÀ-ÖØ-ÞŒ])[^\W\d_]+)(?P<mark>[^\s-]*)(?P<blank>[ \t]+|(?=[\n-])|\Z)"
)
_FIRST_HALF = re.compile(r"[^\W\d_]+\Z")
_COMPOUND = re.compile(r"(?<![^\W\d_])([^\W\d_]++)-(?=([^\W\d_]+))")


class Normalise(Rewriter):
    """Which variants are replaced. Only invisible marks are removed."""

    quotes: bool = True
    """Replace curly quotation marks and apostrophes by straight ones. « and » stay."""
    hyphens: bool = True
    """Replace other hyphens, and the minus sign before a number, by -. Dashes stay, and so do exponents such as 10−18."""
    compatibility: bool = True
    """Decompose ligatures, wide letters and single-character units as NFKC does. Exponents, fractions and µ stay."""
    invisible: bool = True
    """Remove soft hyphens, zero-width spaces and text-direction marks."""
    join_lines: bool = False
    """Join words hyphenated at the end of a line. The hyphen stays if the document has the hyphenated word elsewhere."""

    def rewrite(self, text: str, language: str | None) -> Rewritten:
        if self.join_lines:
            text = _joined(text)
        if not text.isascii():
            if self.hyphens:
                text = _SOFT_HYPHEN_AS_BULLET.sub("-", _MINUS.sub("-", text))
            table = _replacements(self.quotes, self.hyphens, self.compatibility, self.invisible)
            # A text has few different characters outside ASCII, and `replace` is fast.
            for character in sorted(other_characters(text).keys() & table.keys()):
                text = text.replace(character, table[character])
        return Rewritten(text)


@cache
def _replacements(quotes: bool, hyphens: bool, compatibility: bool, invisible: bool) -> dict[str, str]:
    tables = ((compatibility, _compatible()), (quotes, _QUOTES), (hyphens, _HYPHENS), (invisible, _INVISIBLE))
    return {character: by for wanted, table in tables if wanted for character, by in table.items()}


@cache
def _compatible() -> dict[str, str]:
    """Map compatibility characters to their NFKC forms, where these keep the meaning."""
    table = {}
    for character in (chr(code) for codes in _RANGES for code in codes):
        kind = unicodedata.decomposition(character).partition(" ")[0]
        if kind in _KINDS and character not in _KEPT:
            plain = unicodedata.normalize("NFKC", character)
            if kind == "<square>":  # ㎍ and ㎡
                plain = plain.replace("μ", "µ").replace("∕", "/").translate(_RAISED)
            if not any(map(str.isspace, plain)):
                table[character] = plain
    return table


def _joined(text: str) -> str:
    text = text.replace("\xad\n", "-\n")
    if not _SECOND_HALF.search(text):
        return text
    compounds = set(_COMPOUND.findall(text.lower()))

    def join(match: re.Match[str]) -> str:
        first = _FIRST_HALF.search(text, max(0, match.start() - 40), match.start())
        halves = (first.group().lower() if first else "", match["half"].lower())
        line_end = "\n" if match["blank"] else ""
        return f"{'-' if halves in compounds else ''}{match['half']}{match['mark']}{line_end}"

    return _SECOND_HALF.sub(join, text)
