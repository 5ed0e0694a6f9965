"""Short excerpts to train on in addition to whole documents.

A head trained only on whole documents finds false mentions in single sentences, and single sentences are what users type.
"""

from __future__ import annotations

from collections.abc import Sequence

from osler.core.seeding import generator
from osler.tasks.card import TaskCard
from osler.tasks.instances.base import sentences_of
from osler.text.document import TOKENS, Document, Record

_LONGEST = 3


def excerpts(card: TaskCard, records: Sequence[Record], seed: int) -> list[Record]:
    """Cut documents into excerpts of one to three sentences, each a document of its own with its mentions.

    Excerpts that would split a mention or span the whole document are dropped.
    """
    return [part for record in records if isinstance(record, Document) for part in _runs(card, record, seed)]


def _runs(card: TaskCard, document: Document, seed: int) -> list[Document]:
    sentences = sentences_of(card, document)
    sizes = generator(seed, "excerpts", document.id).integers(1, _LONGEST + 1, len(sentences)).tolist()
    meta = {key: value for key, value in document.meta.items() if key in TOKENS}
    found: list[Document] = []
    first = 0
    for size in sizes:
        run = sentences[first : first + size]
        if not run or len(run) == len(sentences):
            break
        first += size
        start, end = run[0][0], run[-1][1]
        inside = [span for span in document.spans if start < span.end and span.start < end]
        if all(start <= span.start and span.end <= end for span in inside):
            spans = tuple(span.moved(-start) for span in inside)
            found.append(Document(f"{document.id}/{start}", document.text[start:end], spans=spans, meta=meta))
    return found
