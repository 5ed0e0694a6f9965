"""The sentences of a document as its corpus marks them: given places, lines, or else osler's own splitter."""

from __future__ import annotations

import re

from osler.tasks.card import TaskCard
from osler.text.document import Document, Fragment
from osler.text.sentences import sentences

_PLACES = re.compile(r"\d+ \d+(;\d+ \d+)*")


def sentences_of(card: TaskCard, document: Document) -> list[Fragment]:
    """Character ranges of the sentences, found without a look at gold."""
    if card.sentences == "meta" and _PLACES.fullmatch(document.meta.get("sentences", "")):
        cells = (piece.split(" ") for piece in document.meta["sentences"].split(";"))
        return [(int(start), int(end)) for start, end in cells if start != end]
    if card.sentences == "lines":
        return lines_of(document.text)
    # Text without the marks of the corpus, a user's own for one, is split.
    return sentences(document.text, card.language)


def joined(text: str, units: list[Fragment]) -> list[Fragment]:
    """Sentences joined as the BLUE benchmark joins them: an end needs one of `.?!` before it and a capital behind it."""
    found: list[Fragment] = []
    for start, end in units:
        before = text[found[-1][0] : found[-1][1]].rstrip() if found else ""
        if before and not (before.endswith((".", "?", "!")) and not before.endswith("i.v.") and text[start].isupper()):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def lines_of(text: str) -> list[Fragment]:
    """The lines of a text that hold more than blanks."""
    found = []
    start = 0
    for line in text.split("\n"):
        if line.strip():
            found.append((start, start + len(line)))
        start += len(line) + 1
    return found
