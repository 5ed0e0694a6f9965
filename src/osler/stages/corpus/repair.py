"""Unicode repair that does not touch meaning.

ftfy does the work: mojibake, control characters, line ends, surrogates, then NFC (not NFKC, which would turn 10² into
102). Curly quotes, ligatures and full-width forms are left as their authors wrote them. Most lines need nothing, and
ftfy's own test for mojibake runs at about 5 MB/s, so a line goes to ftfy only where something that it mends can be.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

from osler.core.extras import require

# What ftfy removes or rewrites whatever stands beside it: controls, unusual line ends, surrogates, deprecated format
# characters, the byte order mark.
_ODD = re.compile("[\x00-\x08\x0b\x0d-\x1f\x7f-\x9f\u2028\u2029\u206a-\u206f\ud800-\udfff\ufeff\ufff9-\ufffc]")
# Every pattern of ftfy's mojibake test has two neighbours outside ASCII, or is one of these two special cases.
_NEIGHBOURS = re.compile("[^\x00-\x7f](?:[^\x00-\x7f]+|(?<=[Œœ])[^A-Za-z]|(?<=[ÂÃ]) )")
_CONTEXT = 4
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


@cache
def repairer(html_entities: bool = True) -> Callable[[str], str]:
    """The function that repairs one text."""
    ftfy = require("ftfy", "corpus")
    is_bad = require("ftfy.badness", "corpus").is_bad
    settings = ftfy.TextFixerConfig(
        unescape_html=html_entities,
        uncurl_quotes=False,
        fix_latin_ligatures=False,
        fix_character_width=False,
        normalization="NFC",
        explain=False,
    )

    def suspicious(line: str) -> bool:
        if (html_entities and "&" in line) or _ODD.search(line):
            return True
        if line.isascii():
            return False
        if not unicodedata.is_normalized("NFC", line):
            return True
        # A slice can only look worse than its line (its start counts as a line's start), so nothing is missed.
        return any(
            is_bad(line[max(0, match.start() - _CONTEXT) : match.end() + _CONTEXT])
            for match in _NEIGHBOURS.finditer(line)
        )

    def repair(text: str) -> str:
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        if text.isascii() and not _ODD.search(text) and not (html_entities and "&" in text):
            return text
        # Lines keep their end, as in ftfy: a few of its patterns look at the character after a letter.
        lines = _LINES.findall(text)
        for index, line in enumerate(lines):
            if suspicious(line):
                lines[index] = ftfy.fix_text(line, settings)
        return "".join(lines)

    return repair
