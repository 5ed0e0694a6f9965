"""The windows of a document: the one way every head that reads whole documents sees them, so that they can share a pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from osler.tasks.instances.base import Instance
from osler.tasks.tokens import Tokens
from osler.text.align import trim_offsets, word_of_subword
from osler.text.document import Document, Record
from osler.text.windows import Window, windows
from osler.text.words import words


@dataclass(frozen=True, slots=True)
class Aligned:
    """The words of a document and, for each sub-word, the word it belongs to."""

    words: list[tuple[int, int]]
    word_ids: list[int | None]
    ids: list[int]
    encoded_words: np.ndarray = field(init=False)
    """The words that have a sub-word, in order."""
    first_tokens: np.ndarray = field(init=False)
    """The first sub-word of each of them."""

    def __post_init__(self) -> None:
        words, tokens = np.unique([-1 if word is None else word for word in self.word_ids], return_index=True)
        real = words >= 0
        object.__setattr__(self, "encoded_words", words[real].astype(np.int64))
        object.__setattr__(self, "first_tokens", tokens[real].astype(np.int64))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a windowed instance stands: its window, and the aligned document it was cut from."""

    window: Window
    aligned: Aligned


def document_windows(tokens: Tokens, records: Sequence[Record], max_length: int, overlap: int) -> list[Instance]:
    """Every window of every document, without targets; an empty document has one that holds the special tokens alone."""
    documents = [record for record in records if isinstance(record, Document)]
    found = []
    for number, aligned in enumerate(align(tokens, documents)):
        for window in cut(aligned, max_length - tokens.overhead, overlap):
            ids = tokens.wrap(aligned.ids[window.start : window.end])
            found.append(Instance(ids, number, place=Place(window, aligned)))
    return found


def align(tokens: Tokens, documents: Sequence[Document]) -> list[Aligned]:
    """Tokenise documents and tie sub-words to words by their characters."""
    aligned = []
    for document, encoding in zip(documents, tokens.encode([document.text for document in documents]), strict=True):
        spans = words(document.text)
        offsets = trim_offsets(document.text, encoding.offsets)
        aligned.append(Aligned(spans, word_of_subword(spans, offsets), encoding.ids))
    return aligned


def cut(aligned: Aligned, size: int, overlap: int) -> list[Window]:
    """Windows over the sub-words of a document, cut between words. They depend on the text alone."""
    word_ids = aligned.word_ids
    boundaries = [i for i in range(1, len(word_ids)) if word_ids[i] is None or word_ids[i] != word_ids[i - 1]]
    # A document without a single token still gets a window, so that every head has something to say about it.
    return windows(len(word_ids), size, overlap, boundaries) or [Window(0, 0, 0, 0, 0)]
