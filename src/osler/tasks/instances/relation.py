"""Relations: every candidate pair of mentions, marked in its sentence and classified.

Gold relations whose mentions are not a candidate pair (across sentences under the `sentence` protocol) stay in gold, are counted,
and cost recall. A pair with several labels makes several training instances, and all of its labels stay in gold.

A candidate in a long text is cut to what the model reads before it is tokenised. Otherwise a note of 20,000 words with 1,000 mentions
would be copied and tokenised once for each of its pairs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Encoding

from osler.tasks.card import Kind
from osler.tasks.instances.base import (
    PLAIN,
    Builder,
    Built,
    Confidence,
    Evidence,
    Instance,
    joined,
    sentences_of,
    softmax,
)
from osler.text.document import Document, Record, Relation, Span

_AT_ONCE = 256
"""Number of candidates tokenised at once."""
_MARGIN = 64
"""Sub-words kept beyond those that are read, because a cut can change the sub-words next to it."""
_LONG_SENTENCE = 16
"""A sentence with more characters per sub-word of the window is cut before it is tokenised."""
_LONG_WORD = 100


class RelationCandidate(NamedTuple):
    """Two mentions of a document, and the range of characters that the model reads."""

    head: Span
    tail: Span
    start: int
    end: int
    gap: tuple[int, int] | None = None
    """Range of characters between the mentions that is left out."""


class MarkedPair(NamedTuple):
    """The text of a candidate with marked mentions: offsets of head and tail, and the middle between them."""

    text: str
    head: int
    tail: int
    middle: int


class RelationBuilder(Builder):
    """Converts candidate pairs to marked texts, and outputs to relations."""

    @property
    def head(self) -> str:
        return "markers" if self.options.relations == "markers" else Kind.CLASSIFICATION

    @property
    def outputs(self) -> list[str]:
        return [*self.card.labels, self.card.negative]

    def build(self, records: Sequence[Record], *, gold: bool) -> Built:
        """Build one instance per candidate; with gold, one per label of the candidate."""
        built = Built([])
        waiting: list[tuple[int, RelationCandidate, list[str], MarkedPair]] = []
        for number, record in enumerate(records):
            if not isinstance(record, Document):
                continue
            labels = self._labels(record) if gold else {}
            seen = set()
            for candidate in self._readable(record.text, self.candidates(record)):
                key = self._key(candidate.head, candidate.tail)
                seen.add(key)
                names = labels.get(key) or [self.card.negative]
                waiting.append((number, candidate, names, self._marked(record.text, candidate)))
                if len(waiting) == _AT_ONCE:
                    built.instances += self._instances(waiting, gold=gold)
                    waiting.clear()
            missed = sum(len(names) for key, names in labels.items() if key not in seen)
            built.unexpressed["relations whose mentions are no candidate pair"] += missed
        built.instances += self._instances(waiting, gold=gold)
        return built

    def _instances(
        self, found: Sequence[tuple[int, RelationCandidate, list[str], MarkedPair]], *, gold: bool
    ) -> Iterator[Instance]:
        """Tokenise candidates, each with the number of its document, its labels and its text."""
        index = {label: place for place, label in enumerate(self.outputs)}
        encodings = self.tokens.encode([marked.text for *_, marked in found])
        for (number, candidate, names, marked), encoding in zip(found, encodings, strict=True):
            marks: tuple[int, ...] | None = None
            if self.head == "markers":
                kept, marks = self._fit_marks(encoding, marked)
            else:
                kept = self._fit(encoding, marked.middle)
            ids = self.tokens.wrap(kept)
            place = (candidate.head.id, candidate.tail.id)
            for name in names if gold else names[:1]:
                target = index[name] if gold else None
                yield Instance(ids, number, target, place=place, marks=marks)

    def decode(
        self,
        records: Sequence[Record],
        instances: Sequence[Instance],
        outputs: Sequence[np.ndarray],
        transitions: np.ndarray | None = None,
        confidence: Confidence = PLAIN,
    ) -> list[Record]:
        """Return a relation with its score for each candidate whose most probable class is not the negative one."""
        found: dict[int, list[Relation]] = defaultdict(list)
        negative = len(self.card.labels)
        for instance, output in zip(instances, outputs, strict=True):
            less = np.zeros_like(output)
            less[negative] = confidence.bias
            best = int((output - less).argmax())
            if best != negative:
                probabilities = softmax(output / confidence.temperature)
                relations = found[instance.record]
                head, tail = instance.place
                score = round(float(probabilities[best]), 4)
                relations.append(Relation(self.card.labels[best], head, tail, f"R{len(relations) + 1}", score))
        return [
            record.with_(relations=tuple(found[number])) if isinstance(record, Document) else record
            for number, record in enumerate(records)
        ]

    def evidence(
        self, gold: Sequence[Record], instances: Sequence[Instance], outputs: Sequence[np.ndarray]
    ) -> Evidence | None:
        known = {number: self._labels(record) for number, record in enumerate(gold) if isinstance(record, Document)}
        index = {label: place for place, label in enumerate(self.outputs)}
        negative = [self.card.negative]
        targets = [index[known[i.record].get(i.place, negative)[0]] for i in instances]
        owners = np.array([i.record for i in instances])
        return Evidence(np.stack(outputs), np.array(targets), owners) if targets else None

    def candidates(self, document: Document) -> Iterator[RelationCandidate]:
        """All pairs of the card's types within one sentence or document, in text order."""
        allowed = set(self.card.pairs)
        units = [(0, len(document.text))]
        if self.protocol.candidates != "document":
            units = sentences_of(self.card, document)
        if self.protocol.candidates == "joined":
            units = joined(document.text, units)
        for start, end in units:
            inside = [span for span in document.spans if start <= span.start < end]
            for first in inside:
                for second in inside:
                    if first is second or (first.label, second.label) not in allowed:
                        continue
                    if self.card.symmetric and _position(second) < _position(first):
                        continue
                    yield RelationCandidate(first, second, start, max(end, first.end, second.end))

    def _readable(self, text: str, candidates: Iterable[RelationCandidate]) -> Iterator[RelationCandidate]:
        """Cut candidates in long texts to what the model reads.

        With document candidates, a pair with more than a window between its mentions is skipped, because the head would see
        neither of them; a marker head reads the text around both.
        """
        room = self.max_length - self.tokens.overhead
        document = self.protocol.candidates == "document"
        short = room if document else _LONG_SENTENCE * room
        reach = room + _MARGIN
        starts: dict[tuple[int, int], list[int]] = {}
        for candidate in candidates:
            unit = (candidate.start, candidate.end)
            if unit[1] - unit[0] <= short:
                yield candidate
                continue
            if unit not in starts:
                [encoding] = self.tokens.encode([text[slice(*unit)]])
                starts[unit] = [unit[0] + start for start, _ in encoding.offsets]
            places = starts[unit]
            first, second = sorted((candidate.head, candidate.tail), key=_position)
            before = bisect_left(places, first.start) - reach
            after = bisect_left(places, max(first.end, second.end)) + reach
            left, right = bisect_left(places, first.end), bisect_left(places, second.start)
            if document and self.head != "markers" and right - left > room:
                continue
            gap = None
            if self.head == "markers" and right - left > 2 * reach:
                gap = (_word_start(text, places[left + reach]), _word_start(text, places[right - reach]))
            start = _word_start(text, places[before]) if before > 0 else candidate.start
            end = _word_start(text, places[after]) if after < len(places) else candidate.end
            yield candidate._replace(start=max(start, candidate.start), end=end, gap=gap)

    def _key(self, head: Span, tail: Span) -> tuple[str, str]:
        if self.card.symmetric and _position(tail) < _position(head):
            head, tail = tail, head
        return head.id, tail.id

    def _labels(self, document: Document) -> dict[tuple[str, str], list[str]]:
        labels: dict[tuple[str, str], list[str]] = defaultdict(list)
        spans = {span.id: span for span in document.spans}
        for relation in document.relations:
            if relation.label in self.card.labels:
                key = self._key(spans[relation.head], spans[relation.tail])
                if relation.label not in labels[key]:
                    labels[key].append(relation.label)
        return labels

    def _marked(self, text: str, candidate: RelationCandidate) -> MarkedPair:
        """Enclose the two mentions in markers, replace them by their types, or both."""
        edits = []
        blind = self.protocol.markers == "blind"
        for span, left, right in ((candidate.head, "<< ", " >>"), (candidate.tail, "[[ ", " ]]")):
            shown = f"@{span.label.upper()}$" if blind else text[span.start : span.end]
            # A marker head needs the markers even where types replace the mentions.
            enclosed = shown if blind and self.head != "markers" else f"{left}{shown}{right}"
            edits.append((span.start, span.end, enclosed))
        swapped = edits[1] < edits[0]
        edits.sort()
        (start, end, first), (start2, end2, second) = edits
        before = text[candidate.start : start]
        # Overlapping mentions are written one after the other.
        between = text[end:start2] if start2 >= end else " "
        if candidate.gap:
            between = text[end : candidate.gap[0]] + text[candidate.gap[1] : start2]
        marked = f"{before}{first}{between}{second}"
        places = (len(before), len(marked) - len(second))
        head, tail = reversed(places) if swapped else places
        return MarkedPair(
            f"{marked}{text[max(end, end2) : candidate.end]}", head, tail, (len(before) + len(marked)) // 2
        )

    def _fit(self, encoding: Encoding, middle: int) -> list[int]:
        """Return the sub-words of a candidate; if it is too long, those around the middle of its two mentions."""
        room = self.max_length - self.tokens.overhead
        ids = encoding.ids
        if len(ids) <= room:
            return ids
        centre = sum(1 for start, _ in encoding.offsets if start < middle)
        skip = min(max(0, centre - room // 2), len(ids) - room)
        return ids[skip : skip + room]

    def _fit_marks(self, encoding: Encoding, marked: MarkedPair) -> tuple[list[int], tuple[int, ...]]:
        """Return the sub-words that fit, and where head and tail begin among them.

        Both markers always fit: a long text is cut at its ends, and between the mentions where they are far apart.
        """
        room = self.max_length - self.tokens.overhead
        ids = encoding.ids
        if not ids:  # the tokenizer dropped every character: only the special tokens are left
            return [], (0, 0)
        ends = [end for _, end in encoding.offsets]
        head, tail = (min(bisect_right(ends, place), len(ids) - 1) for place in (marked.head, marked.tail))
        first, second = sorted((head, tail))
        if len(ids) <= room:
            kept = list(range(len(ids)))
        elif second - first < room * 3 // 4:
            skip = min(max(0, (first + second - room) // 2), len(ids) - room)
            kept = list(range(skip, skip + room))
        else:
            # Each half keeps a quarter of its sub-words before its marker, the rest after it.
            half = room // 2
            start = max(0, first - half // 4)
            again = max(start + half, min(second - half // 4, len(ids) - half))
            kept = [*range(start, start + half), *range(again, min(again + half, len(ids)))]
        shift = len(self.tokens.prefix)
        return [ids[place] for place in kept], (kept.index(head) + shift, kept.index(tail) + shift)


def _word_start(text: str, place: int) -> int:
    """Where the word at a place begins, or the place itself if the word is very long."""
    least = max(0, place - _LONG_WORD)
    start = place
    while start > least and not text[start - 1].isspace():
        start -= 1
    return start if start > least else place


def _position(span: Span) -> tuple[int, int, str]:
    return span.start, span.end, span.id
