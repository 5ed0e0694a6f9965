"""Cut text into words with character offsets.

Words are the units that tags are put on, so they are fine on purpose: annotated mentions start and end at punctuation
and between a number and its unit. A word is a run of letters, a run of digits, or one character of anything else;
combining marks stay with the character they modify, and scripts written without blanks give one word a character.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

Range = tuple[int, int]

_PLAIN = re.compile(r"[^\W\d_]+|\d+|\S")
# Kana and Han: no blanks show where their words end, so a finer cut is the only one that every mention can match.
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
_UNSPACED = _KANA + "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")


@lru_cache(maxsize=256)
def _pattern(marks: str, unspaced: bool) -> re.Pattern[str]:
    """The word pattern for a text that contains these combining marks."""
    letter = rf"(?![{_UNSPACED}])[^\W\d_]" if unspaced else r"[^\W\d_]"
    if not marks:
        return re.compile(rf"(?:{letter})+|\d+|\S")
    mark = f"[{marks}]"
    return re.compile(rf"(?:{letter}{mark}*)+|(?:\d{mark}*)+|\S{mark}*")


def words(text: str) -> list[Range]:
    """The half-open character range of every word; what lies between two words is whitespace only."""
    pattern = _PLAIN
    if not text.isascii():
        # `re` knows no class of combining marks, so those that occur are named one by one.
        marks = "".join(sorted(c for c in set(text) if c > "\u02ff" and unicodedata.category(c)[0] == "M"))
        unspaced = _HAS_UNSPACED.search(text) is not None
        if marks or unspaced:
            pattern = _pattern(marks, unspaced)
    return [match.span() for match in pattern.finditer(text)]
