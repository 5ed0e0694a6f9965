"""Attributes of given mentions, such as negation, read from their words.

The head has one output per attribute for every token, so it shares the encoder pass of the taggers, and mentions need not be
known beforehand. It is trained only on the words of gold mentions. The score of a mention is the mean over its words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from osler.tasks.card import Kind
from osler.tasks.instances.base import (
    IGNORED,
    PLAIN,
    Aligned,
    Confidence,
    Instance,
    TokenBuilder,
    by_document,
)
from osler.text.document import YES, Document, Record, Span
from osler.text.words import covered


class AttributeBuilder(TokenBuilder):
    """Converts attributes of mentions to bits on their words, and outputs at these words to attributes."""

    @property
    def head(self) -> str:
        return Kind.ATTRIBUTES

    @property
    def outputs(self) -> list[str]:
        return list(self.card.labels)

    def decode(
        self,
        records: Sequence[Record],
        instances: Sequence[Instance],
        outputs: Sequence[np.ndarray],
        transitions: np.ndarray | None = None,
        confidence: Confidence = PLAIN,
    ) -> list[Record]:
        """Return the documents with predicted attributes on their mentions."""
        aligned, logits = by_document(instances, outputs, len(self.tokens.prefix))
        found: list[Record] = []
        for number, document in enumerate(records):
            if isinstance(document, Document) and document.spans:
                first = _first_subwords(aligned[number])
                spans = (self._read(span, aligned[number], first, logits[number]) for span in document.spans)
                document = document.with_(spans=tuple(spans))
            found.append(document)
        return found

    def _read(self, span: Span, aligned: Aligned, first: dict[int, int], logits: np.ndarray) -> Span:
        places = [first[word] for word in _words_of(span, aligned) if word in first]
        means = logits[places].mean(axis=0) if places else np.full(len(self.outputs), -np.inf)
        return replace(span, attributes={name: YES for name, mean in zip(self.outputs, means, strict=True) if mean > 0})

    def _targets(self, document: Document, instance: Instance, unexpressed: Counter[str]) -> np.ndarray:
        """Attributes of each sub-word of a document, as bits. A word in several mentions has those of the shortest."""
        aligned: Aligned = instance.place.aligned
        targets = np.full(len(aligned.ids), IGNORED, dtype=np.int64)
        first = _first_subwords(aligned)
        for span in sorted(document.spans, key=lambda span: (span.start - span.end, span.start)):
            bits = sum(1 << bit for bit, name in enumerate(self.outputs) if span.attributes.get(name) == YES)
            places = [first[word] for word in _words_of(span, aligned) if word in first]
            targets[places] = bits
            unexpressed["mentions without a word"] += not places
        return targets


def _words_of(span: Span, aligned: Aligned) -> list[int]:
    return [word for start, end in span.fragments for word in covered(aligned.words, start, end)]


def _first_subwords(aligned: Aligned) -> dict[int, int]:
    """The first sub-word of each word. A word of unusual characters may have none."""
    words, places = aligned.first_subwords
    return dict(zip(words.tolist(), places.tolist(), strict=True))
