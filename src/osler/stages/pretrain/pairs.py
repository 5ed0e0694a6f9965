"""Pairs of texts for next-sentence prediction, as in BERT (Devlin et al. 2019).

A document is cut into chunks of whole sentences, and each chunk in two at a sentence border. In half of the pairs, and wherever a
chunk is a single sentence, the second text is replaced by sentences from another document. Borders and replacements are redrawn in
every epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from osler.artifacts.token_shards import TokenisedDocuments, offsets_within
from osler.core.errors import InputError
from osler.core.seeding import generator
from osler.nn.masking import IGNORED
from osler.stages.pretrain.data import ChunkStream, Epoch, Sequences
from osler.text.subwords import SubwordTokenizer

FOLLOWS, RANDOM = 0, 1
"""Classes of the second text, in the order of BERT's head."""
_RANDOM_SHARE = 0.5
_SHORT_SHARE = 0.1
"""Share of chunks with a random shorter length, as in BERT's code, because fine-tuning sees short texts too."""


@dataclass(frozen=True)
class PairFrame:
    """Special tokens before, between and after two texts. The second segment begins with between[second_segment:]."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    second_segment: int | None
    """None if the tokenizer has only one segment."""

    @classmethod
    def of(cls, tokenizer: SubwordTokenizer) -> PairFrame:
        """Derive the frame from how the tokenizer encodes a pair."""
        text = tokenizer.encode(["a"])[0].ids
        pair = tokenizer.tokenizer.encode("a", "a")
        places = [place for place in range(len(pair.ids)) if pair.ids[place : place + len(text)] == text]
        first, second = places[0] + len(text), places[-1]
        types = pair.type_ids[first : second + 1]
        segment = types.index(1) if 1 in types else None
        after = pair.ids[second + len(text) :]
        return cls(tuple(pair.ids[: places[0]]), tuple(pair.ids[first:second]), tuple(after), segment)

    @property
    def size(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)


@dataclass(frozen=True)
class PairEpoch(Epoch):
    """The pairs of an epoch: where each text begins, how long it is, and whether the second follows the first."""

    number: int
    first: np.ndarray
    first_sizes: np.ndarray
    second: np.ndarray
    second_sizes: np.ndarray
    second_texts: np.ndarray


class PairStream(ChunkStream):
    """An endless stream of pairs with their special tokens: like ChunkStream, a pure function of seed and position."""

    def __init__(
        self,
        documents: TokenisedDocuments,
        max_length: int,
        frame: PairFrame,
        seed: int | None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        assert documents.sentence_ends is not None
        # Start with 0, so that every position has a border at or before it.
        self._borders = np.concatenate([[0], documents.sentence_ends])
        self._room = max_length - frame.size
        self._frame = frame
        self._epoch_starts = [0]
        self._drawn: PairEpoch | None = None
        super().__init__(documents, max_length, frame.before, (*frame.between, *frame.after), seed, weights)

    def _cut_documents(self, room: int) -> None:
        """Cut every document into chunks of as many whole sentences as fit; a sentence too long for a chunk is cut."""
        documents, rng = self.documents, generator(self.seed or 0, "pair chunks")
        stops = documents.starts + documents.lengths
        position = documents.starts.copy()
        active = np.arange(len(position))
        found = []
        while len(active):  # one chunk of every document that has text left
            short = rng.random(len(active)) < _SHORT_SHARE
            wanted = np.where(short, rng.integers(2, room + 1, len(active)), room)
            begin = position[active]
            next_border = self._borders[np.searchsorted(self._borders, begin, "right")]
            end = self._last_border(begin, begin + wanted, otherwise=np.minimum(next_border, begin + room))
            end = np.minimum(end, stops[active])
            found.append((active, begin, end - begin))
            position[active] = end
            active = active[end < stops[active]]
        document, starts, sizes = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(starts)
        self.starts, self.sizes = starts[order], sizes[order].astype(np.int32)
        self._document = document[order]
        self._chunks_per_document = np.bincount(document, minlength=len(stops))

    def _last_border(self, after: np.ndarray, limit: np.ndarray, *, otherwise: np.ndarray) -> np.ndarray:
        """Return the last sentence end after `after` and up to `limit`, or `otherwise`."""
        border = self._borders[np.searchsorted(self._borders, limit, "right") - 1]
        found: np.ndarray = np.where(border > after, border, otherwise)
        return found

    @property
    def epoch_tokens(self) -> int:
        """Tokens of the first epoch; other epochs have about as many."""
        return self.epoch_start(1)

    def epoch_start(self, epoch: int) -> int:
        """Return the position of an epoch's first token. Draws all epochs before it, once."""
        while len(self._epoch_starts) <= epoch:
            self._epoch_starts.append(self._pairs(len(self._epoch_starts) - 1).end)
        return self._epoch_starts[epoch]

    @cached_property
    def _length_statistics(self) -> tuple[float, float]:
        lengths = np.diff(self._pairs(0).ends, prepend=0)
        return float(lengths.mean()), float(lengths.std())

    def _epoch_at(self, position: int) -> PairEpoch:
        epoch = 0
        while self.epoch_start(epoch + 1) <= position:
            epoch += 1
        return self._pairs(epoch)

    def _pairs(self, epoch: int) -> PairEpoch:
        if self._drawn is None or self._drawn.number != epoch:
            self._drawn = None  # free the old pairs before new ones are drawn
            self._drawn = self._draw(epoch)
        return self._drawn

    def _draw(self, epoch: int) -> PairEpoch:
        rng, order = generator(self.seed or 0, "pairs", epoch), self._order(epoch)
        borders, room = self._borders, self._room
        starts, document = self.starts[order], self._document[order]
        stops = starts + self.sizes[order]
        # The borders inside a chunk are borders[inner : inner + count].
        inner = np.searchsorted(borders, starts, "right")
        count = np.searchsorted(borders, stops, "left") - inner
        middle = np.where(count > 0, borders[inner + _below(count, rng)], stops)
        random = (rng.random(len(order)) < _RANDOM_SHARE) | (count == 0)

        other = _other_documents(document, rng)
        # A border inside the other chunk, or the one before it, which stands for its start.
        sentence = inner[other] + _below(count[other] + 1, rng) - 1
        second = np.where(random, np.maximum(borders[sentence], starts[other]), middle)
        second_stops = np.where(random, stops[other], stops)

        first_sizes = middle - starts
        # Drop trailing sentences of the other document until the pair fits; cut a single sentence that is too long.
        limit = second + np.maximum(room - first_sizes, room // 2)
        fitting = np.where(second_stops > limit, self._last_border(second, limit, otherwise=limit), second_stops)
        second_sizes = fitting - second
        # If the pair is still too long, drop tokens from the start of the first text.
        surplus = np.maximum(0, first_sizes + second_sizes - room)
        return PairEpoch(
            start=self.epoch_start(epoch),
            order=order,
            number=epoch,
            first=starts + surplus,
            first_sizes=(first_sizes - surplus).astype(np.int32),
            second=second,
            second_sizes=second_sizes.astype(np.int32),
            second_texts=np.where(random, RANDOM, FOLLOWS).astype(np.int8),
            ends=np.cumsum(first_sizes - surplus + second_sizes + self._frame.size),
        )

    def _take(self, epoch: Epoch, start: int, stop: int) -> Sequences:
        """Return tokens `start` to `stop` of one epoch: lay out complete pairs, then cut both edges."""
        assert isinstance(epoch, PairEpoch)
        pairs, frame = epoch, self._frame
        low = int(np.searchsorted(pairs.ends, start, side="right"))
        high = int(np.searchsorted(pairs.ends, stop, side="left")) + 1
        first, second = pairs.first_sizes[low:high].astype(np.int64), pairs.second_sizes[low:high].astype(np.int64)
        lengths = first + second + frame.size
        begins = np.cumsum(lengths) - lengths
        middles = begins + len(frame.before) + first
        ids = np.empty(int(lengths.sum()), dtype=np.int64)
        is_text = np.ones(len(ids), dtype=bool)
        placed = ((begins, frame.before), (middles, frame.between), (begins + lengths - len(frame.after), frame.after))
        for places, tokens in placed:
            for offset, token in enumerate(tokens):
                ids[places + offset] = token
                is_text[places + offset] = False
        texts = np.stack([pairs.first[low:high], pairs.second[low:high]], axis=1).ravel()
        ids[is_text] = self.documents.gather(texts, np.stack([first, second], axis=1).ravel())
        types = np.zeros(len(ids), dtype=np.int64)
        if frame.second_segment is not None:
            types = (offsets_within(lengths) >= np.repeat(middles - begins + frame.second_segment, lengths)).astype(
                np.int64
            )
        second_texts = pairs.second_texts[low:high].astype(np.int64)
        begin = start - int(pairs.ends[low] - lengths[0])
        surplus = int(pairs.ends[high - 1]) - stop
        # A cut pair has lost its first token or part of its texts, so it has no label.
        if begin:
            second_texts[0] = IGNORED
        if surplus:
            second_texts[-1] = IGNORED
        lengths[-1] -= surplus
        lengths[0] -= begin
        here = slice(begin, begin + stop - start)
        return Sequences(ids[here], lengths, types[here], second_texts)


def _below(limits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw an integer below each limit; 0 for a limit of 0."""
    drawn: np.ndarray = (rng.random(len(limits)) * limits).astype(np.int64)
    return drawn


def _other_documents(document: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw for each chunk a chunk of another document."""
    if (document == document[0]).all():
        raise InputError(
            "next-sentence prediction takes sentences of other documents, and training or validation has one document only",
            fix="Use a larger corpus, or set next_sentence = false",
        )
    other = rng.integers(len(document), size=len(document))
    while len(same := np.flatnonzero(document[other] == document)):
        other[same] = rng.integers(len(document), size=len(same))
    return other
