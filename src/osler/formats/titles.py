"""Join title and abstract into one text, and split them again. The length of the title is kept in meta."""

from __future__ import annotations

from collections import Counter

from osler.core.parsing import to_int
from osler.formats.output import flattened
from osler.text.document import Document

TITLE_LENGTH = "title_length"


def join_title(title: str, abstract: str) -> tuple[str, dict[str, str]]:
    """Return title and abstract as one text, and meta with the length of the title."""
    return (f"{title} {abstract}", {TITLE_LENGTH: str(len(title))}) if abstract else (title, {})


def split_title(document: Document, losses: Counter[str]) -> tuple[str, str, str]:
    """Return the text without line breaks and tabs, its title and its abstract.

    The title ends where `title_length` in meta says, else at the first line break, else at the end of the text.
    """
    text = flattened(document.text, "\n\r\t", losses)
    known = to_int(document.meta.get(TITLE_LENGTH, ""))
    end = document.text.find("\n") if known is None else known
    if not (0 < end < len(text) - 1 and text[end] == " "):
        end = len(text)
    return text, text[:end], text[end + 1 :]
