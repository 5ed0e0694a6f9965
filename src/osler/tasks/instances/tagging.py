"""Entities: one tag per word, decoded to character spans."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from osler.core.errors import InputError
from osler.tasks.card import Kind
from osler.tasks.instances.base import (
    IGNORED,
    PLAIN,
    Aligned,
    Builder,
    Built,
    Confidence,
    Instance,
    ReadingUnit,
    by_document,
    document_windows,
    softmax,
    with_target,
)
from osler.text.document import Document, Record, Span
from osler.text.tags import OUTSIDE, label_set, spans_to_tags, tags_to_spans
from osler.text.tags import transitions as legal_transitions
from osler.text.words import Range, covered


class TaggingBuilder(Builder):
    """Spans to tags and back. Each token is labelled in the window where it has the most context."""

    @property
    def head(self) -> str:
        return "crf" if self.options.tagger == "crf" else Kind.TAGGING

    @property
    def reading(self) -> ReadingUnit:
        if self.options.unit == "document":
            return ReadingUnit()
        return ReadingUnit("sentence", self.options.max_words, self.card.sentences, self.card.language)

    @cached_property
    def outputs(self) -> list[str]:
        """Tags, O first."""
        return label_set(self.card.labels, self.protocol.scheme)

    @cached_property
    def _legal(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        legal = legal_transitions(self.outputs, self.protocol.scheme)
        return np.array(legal.allowed), np.array(legal.start), np.array(legal.end)

    def build(self, records: Sequence[Record], *, gold: bool) -> Built:
        """Build the windows of each document; with gold, a tag index for each token that its window labels."""
        built = Built(document_windows(self.tokens, records, self.max_length, self.overlap, self.reading))
        if not gold:
            return built
        targets: dict[int, np.ndarray] = {}
        for number, instance in enumerate(built.instances):
            document = records[instance.record]
            if instance.record not in targets and isinstance(document, Document):
                targets[instance.record] = self._targets(document, instance, built.unexpressed)
            built.instances[number] = with_target(instance, targets[instance.record], len(self.tokens.prefix))
        return built

    def weight(self, instance: Instance) -> float:
        return float((instance.target != IGNORED).sum())

    def decode(
        self,
        records: Sequence[Record],
        instances: Sequence[Instance],
        outputs: Sequence[np.ndarray],
        transitions: np.ndarray | None = None,
        confidence: Confidence = PLAIN,
    ) -> list[Record]:
        """Return documents with scored spans. Each word is labelled by the window where it has the most context."""
        aligned, logits = by_document(instances, outputs, len(self.tokens.prefix))
        documents = [(number, document) for number, document in enumerate(records) if isinstance(document, Document)]
        last = self.protocol.read == "last" and self.head != "crf"
        if not documents:
            return []
        # Small arrays cost more to call numpy for than to compute, so the words of all documents go end to end.
        words: list[np.ndarray] = []
        rows: list[np.ndarray] = []
        borders: list[int] = []  # each sentence is one sequence of tags; a document without sentences is one
        ends: list[int] = [0]
        for number, _ in documents:
            read, tokens = aligned[number].last_subwords if last else aligned[number].first_subwords
            words.append(read)
            rows.append(logits[number][tokens])
            borders += (ends[-1] + np.searchsorted(read, aligned[number].starts)).tolist()
            ends.append(ends[-1] + len(read))
        path, likely = self._paths(np.concatenate(rows), borders[1:], transitions, confidence)
        found = np.flatnonzero(path)  # output 0 is O
        tags = [self.outputs[tag] for tag in path[found].tolist()]
        scores: list[float] = likely[found, path[found]].tolist()
        places: list[int] = np.concatenate(words)[found].tolist()
        results: list[Record] = []
        for (number, document), (start, end) in zip(
            documents, pairwise(np.searchsorted(found, ends).tolist()), strict=True
        ):
            here = slice(start, end)
            spans = self._spans(aligned[number], places[here], tags[here], scores[here], confidence)
            results.append(document.with_(spans=spans, relations=()))
        return results

    def _targets(self, document: Document, instance: Instance, unexpressed: Counter[str]) -> np.ndarray:
        """Tag index of each sub-word of a document."""
        spans = self.protocol.spans_of(document)
        unknown = {span.label for span in spans} - set(self.card.labels)
        if unknown:
            raise InputError(
                f"document {instance.record + 1} has labels that are not in the card: {', '.join(sorted(unknown))}",
                where=f"task {self.card.name}",
                fix="Add them to the card's labels, or prepare the task again",
            )
        aligned: Aligned = instance.place.aligned
        tag_fragments = self.protocol.fragments == "tag"
        result = spans_to_tags(spans, aligned.words, self.protocol.scheme, tag_fragments=tag_fragments)
        unexpressed["overlapping, nested or discontinuous mentions"] += len(result.unexpressed)
        unexpressed["mentions that begin or end inside a word"] += len(result.inexact)
        unexpressed["mentions that continue in the next sentence"] += sum(
            _crosses(span, aligned) for span in document.spans
        )
        targets = np.full(len(aligned.ids), IGNORED, dtype=np.int64)
        # A CRF scores transitions between words, in training as in decoding, so it labels only first sub-words.
        between = self.options.subwords == "every" and self.head != "crf"
        every = between or (self.protocol.subwords != "first" and self.head != "crf")
        copied = self.protocol.subwords == "copy" and not between
        index = {tag: number for number, tag in enumerate(self.outputs)}
        previous: int | None = None
        for place, word in enumerate(aligned.word_ids):
            if word is not None and (word != previous or every):
                tag = result.tags[word]
                # A later sub-word of a B- word continues the mention, unless it has a copy of the tag.
                targets[place] = index[_continued(tag) if word == previous and not copied else tag]
            previous = word
        if between:
            self._label_between(targets, aligned)
        return targets

    def _label_between(self, targets: np.ndarray, aligned: Aligned) -> None:
        """Label tokens of whitespace and the like: inside the mention that goes on after them, else outside."""
        following = self.outputs[0]
        for place in range(len(targets) - 1, -1, -1):
            if aligned.word_ids[place] is not None:
                following = self.outputs[targets[place]]
            else:
                goes_on = following[:2] in ("I-", "E-")
                targets[place] = self.outputs.index(f"I-{following[2:]}") if goes_on else 0

    def _paths(
        self, logits: np.ndarray, borders: Sequence[int], transitions: np.ndarray | None, confidence: Confidence
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the tag of each word and the probability of every tag. Sequences of tags begin at the borders.

        A bias changes only the tags: the score of a mention that it adds stays as low as it is.
        """
        decided = _less(logits, confidence.bias) if confidence.bias else logits
        if self.head == "crf":
            if transitions is None:
                raise ValueError("a CRF cannot be decoded without its transition scores")
            scale = confidence.temperature
            tempered = logits if scale == 1.0 else logits / scale
            found = marginals(np.split(tempered, borders), *self._legal, transitions / scale)
            paths = best_paths(np.split(decided, borders), *self._legal, transitions)
            return np.concatenate(paths), np.concatenate(found)
        likely = softmax(decided)
        path = likely.argmax(axis=1)
        if self.constrained:
            path = np.concatenate(best_paths(np.split(np.log(likely + 1e-12), borders), *self._legal))
        if confidence.bias or confidence.temperature != 1.0:
            likely = softmax(logits / confidence.temperature)
        return path, likely

    def _spans(
        self,
        aligned: Aligned,
        words: Sequence[int],
        tags: Sequence[str],
        scores: Sequence[float],
        confidence: Confidence,
    ) -> tuple[Span, ...]:
        """Read the mentions of a document from its words that are tagged, which are few, and their tags and scores."""
        # One word outside stands for all between two tagged words, and for the border of a sentence. A word without a sub-word
        # (the tokenizer drops some characters) is outside, so it cannot be part of a mention.
        starts = set(aligned.starts)
        read: list[str] = []
        ranges: list[Range] = []
        values: list[float] = []
        for place, word in enumerate(words):
            if word in starts or not place or word != words[place - 1] + 1:
                read.append(OUTSIDE)
                ranges.append((0, 0))
                values.append(1.0)
            read.append(tags[place])
            ranges.append(aligned.words[word])
            values.append(scores[place])
        rules = self.protocol.scheme, self.protocol.repair
        return tuple(tags_to_spans(read, ranges, *rules, values, mention=confidence.mention, numbered=True))

    @property
    def constrained(self) -> bool:
        """Whether only legal tag sequences are predicted: as the recipe says, else as the protocol does."""
        if self.head == "crf" or self.options.decoding == "constrained":
            return True
        return self.options.decoding == "protocol" and self.protocol.decoding == "constrained"


def _less(logits: np.ndarray, bias: float) -> np.ndarray:
    """Word outputs with the one for O, the first, lowered."""
    lowered = logits.copy()
    lowered[:, 0] -= bias
    return lowered


def _crosses(span: Span, aligned: Aligned) -> bool:
    """Whether a sentence begins inside the span."""
    place = covered(aligned.words, span.start, span.end)
    return bool(place) and bisect_right(aligned.starts, place[0]) != bisect_right(aligned.starts, place[-1])


def _continued(tag: str) -> str:
    """Tag of the later sub-words of a word."""
    prefix, dash, label = tag.partition("-")
    return f"I-{label}" if dash and prefix in {"B", "S", "E"} else tag


_LEAST = 1e-300
_CELLS = 1 << 22
"""Cells (sequences x positions x tags) that are searched at once."""


def best_paths(
    sequences: Sequence[np.ndarray],
    allowed: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    transitions: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Best tag path through the log scores [n, tags] of each sequence that starts, continues and ends legally.

    `transitions` [tag, next tag] holds the transition scores of a CRF; without it all legal transitions are equal. The sequences are
    searched together, position by position, which is much faster for a split than one by one.
    """
    lengths = np.array([len(scores) for scores in sequences], dtype=np.int64)
    if not lengths.any():
        return [np.zeros(0, dtype=np.int64) for _ in sequences]
    best = np.concatenate(sequences).argmax(axis=1)
    after = np.cumsum(lengths)
    paths = np.split(best, after[:-1])
    searched = np.flatnonzero(lengths)
    if transitions is None:  # after training most paths are legal and need no search
        first, last = (after - lengths)[searched], after[searched] - 1
        legal = np.concatenate(([True], allowed[best[:-1], best[1:]]))
        legal[first] = starts[best[first]]
        searched = searched[~(np.logical_and.reduceat(legal, first) & ends[best[last]])]
        transitions = np.zeros(allowed.shape, dtype=sequences[0].dtype)
    weights = np.where(allowed, transitions, -np.inf)
    for group in _groups(sequences, searched.tolist()):
        for number, path in zip(group, _search([sequences[n] for n in group], weights, starts, ends), strict=True):
            paths[number] = path
    return paths


def _groups(sequences: Sequence[np.ndarray], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Divide sequences into groups that fit in memory together, longest first; none of them may be empty."""
    left = sorted(numbers, key=lambda number: -len(sequences[number]))
    while left:
        size = max(1, _CELLS // sequences[left[0]].size)
        yield left[:size]
        left = left[size:]


def _search(
    sequences: Sequence[np.ndarray], weights: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> list[np.ndarray]:
    """Viterbi search over sequences sorted by length, longest first."""
    lengths = np.array([len(scores) for scores in sequences])
    place, number = _places(lengths)
    # The sequences are the last axis, because numpy is much slower over an axis as short as that of the tags.
    total = np.zeros((lengths[0], weights.shape[0], len(sequences)), dtype=sequences[0].dtype)
    total[place, :, number] = np.concatenate(sequences)
    reach = _reach(lengths)
    total[0] = np.where(starts[:, None], total[0], -np.inf)
    step = weights[:, :, None]
    for position in range(1, lengths[0]):
        before, here = total[position - 1, :, None, : reach[position]], total[position, :, : reach[position]]
        here += np.maximum.reduce(before + step, axis=0)
    every = np.arange(len(sequences))
    path = np.zeros((lengths[0], len(sequences)), dtype=np.int64)
    path[lengths - 1, every] = np.where(ends[:, None], total[lengths - 1, :, every].T, -np.inf).argmax(axis=0)
    # The best tag before the best tag is only looked for here, not for every tag on the way.
    for position in range(lengths[0] - 1, 0, -1):
        tags, before = path[position, : reach[position]], total[position - 1, :, : reach[position]]
        (before + weights.take(tags, axis=1)).argmax(axis=0, out=path[position - 1, : reach[position]])
    return np.split(path[place, number], np.cumsum(lengths)[:-1])


def _places(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every word of sequences that are laid end to end: its position in its sequence, and the number of that sequence."""
    number = np.repeat(np.arange(len(lengths)), lengths)
    return np.arange(len(number)) - (np.cumsum(lengths) - lengths)[number], number


def _reach(lengths: np.ndarray) -> list[int]:
    """Number of sequences, the first ones, that reach each position; the longest comes first."""
    found: list[int] = np.searchsorted(-lengths, -np.arange(lengths[0])).tolist()
    return found


def marginals(
    sequences: Sequence[np.ndarray], allowed: np.ndarray, starts: np.ndarray, ends: np.ndarray, transitions: np.ndarray
) -> list[np.ndarray]:
    """Probability of each tag at each position over all legal paths [n, tags], by the scaled forward-backward algorithm.

    Like `best_paths`, it goes through all sequences together.
    """
    found = [np.zeros(scores.shape) for scores in sequences]
    weights = np.where(allowed, np.exp(transitions.astype(np.float64) - transitions.max()), 0.0)
    for group in _groups(sequences, [number for number, scores in enumerate(sequences) if len(scores)]):
        together = _forward_backward([sequences[n] for n in group], weights, starts, ends)
        for number, likely in zip(group, together, strict=True):
            found[number] = likely
    return found


def _forward_backward(
    sequences: Sequence[np.ndarray], weights: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> list[np.ndarray]:
    """Marginals of sequences sorted by length, longest first.

    Going backward is going forward through the reversed sequences, so that both directions take one loop.
    """
    lengths = np.array([len(scores) for scores in sequences])
    place, number = _places(lengths)
    mirrored = lengths[number] - 1 - place
    scores = np.concatenate(sequences).astype(np.float64)
    local = np.exp(scores - scores.max(axis=1, keepdims=True))
    own = np.zeros((lengths[0], 2, weights.shape[0], len(sequences)))
    own[place, 0, :, number] = own[mirrored, 1, :, number] = local
    reached = np.zeros(own.shape)  # by the paths up to each position, without its own scores
    reached[0] = np.array([starts, ends], dtype=np.float64)[:, :, None]
    steps = np.array([weights.T, weights])
    paths = reached[0]
    for position, here in enumerate(_reach(lengths)):
        if position:
            paths = steps @ paths[:, :, :here]
            reached[position, :, :, :here] = paths
        paths = paths * own[position, :, :, :here]
        paths /= np.maximum(np.add.reduce(paths, axis=1, keepdims=True), _LEAST)
    joint = _scaled(reached[place, 0, :, number] * local * reached[mirrored, 1, :, number])
    return np.split(joint, np.cumsum(lengths)[:-1])


def _scaled(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.maximum(rows.sum(axis=-1, keepdims=True), _LEAST))
