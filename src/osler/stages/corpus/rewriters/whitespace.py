"""Tidy whitespace, without joining lines."""

from __future__ import annotations

import re

from pydantic import Field

from osler.stages.corpus.rewriters import Rewriter, Rewritten
from osler.text.characters import other_characters

_LINE_ENDS = "\r\x0b\x0c\x85\u2028\u2029"
_BLANKS = frozenset("\t\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000")
# Not between two numbers: a dilution of 1 : 10,000 stays as it is.
_BEFORE_MARK = re.compile(r" (?!(?<=\d )[:.] \d)[,;:.!?](?=\s|\Z)")
_BEFORE_FRENCH_MARK = re.compile(r" (?!(?<=\d )\. \d)[,.](?=\s|\Z)")


class Whitespace(Rewriter):
    """Which whitespace is removed."""

    blanks: bool = True
    """Collapse runs of spaces and tabs into one space, and remove those at line starts and ends. Turn off to keep table columns."""
    blank_lines: int = Field(1, ge=0)
    """Maximum number of consecutive blank lines."""
    before_marks: bool = False
    """Also remove the space before a comma, semicolon, colon, stop, question or exclamation mark; in French, before a comma or stop."""

    def rewrite(self, text: str, language: str | None) -> Rewritten:
        # `in` and `replace` run several times as fast as patterns, and most texts need few of these steps.
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        for line_end in _LINE_ENDS:
            text = text.replace(line_end, "\n")
        if self.blanks:
            for blank in "\t", *sorted(_BLANKS & other_characters(text).keys()):
                text = text.replace(blank, " ")
            text = _shortened(text, "  ", " ").replace(" \n", "\n").replace("\n ", "\n").strip(" ")
        else:
            text = "\n".join([line.rstrip() for line in text.split("\n")])
        if self.before_marks:
            pattern = _BEFORE_FRENCH_MARK if language == "fr" else _BEFORE_MARK
            text = pattern.sub(lambda match: match.group()[1:], text)
        return Rewritten(_shortened(text, "\n" * (self.blank_lines + 2), "\n" * (self.blank_lines + 1)))


def _shortened(text: str, longer: str, shorter: str) -> str:
    while longer in text:
        text = text.replace(longer, shorter)
    return text
