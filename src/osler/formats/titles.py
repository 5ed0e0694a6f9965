"""Title and abstract as one text: the title, one blank, the abstract, where there is one."""

from __future__ import annotations

from collections import Counter

from osler.formats.output import flattened
from osler.text.document import Document

TITLE_LENGTH = "title_length"


def joined(title: str, abstract: str) -> tuple[str, dict[str, str]]:
    """The text, and the meta that tells where its title ends."""
    return (f"{title} {abstract}", {TITLE_LENGTH: str(len(title))}) if abstract else (title, {})


def parted(document: Document, losses: Counter[str]) -> tuple[str, str, str]:
    """The text as single lines can hold it, its title and its abstract.

    The title ends where it was read to end, else at the first line break, else with the text.
    """
    text = flattened(document.text, "\n\r\t", losses)
    known = document.meta.get(TITLE_LENGTH, "")
    end = int(known) if known.isdigit() else document.text.find("\n")
    if not (0 < end < len(text) - 1 and text[end] == " "):
        end = len(text)
    return text, text[:end], text[end + 1 :]
