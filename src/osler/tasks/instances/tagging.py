"""Entities: one tag per word, decoded to character spans."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from osler.text.document import Document, Record, Span, number_spans
from osler.text.tags import OUTSIDE, label_set, spans_to_tags, tags_to_spans
from osler.text.tags import transitions as legal_transitions
from osler.text.words import covered


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
        encoded = {number: _read_tokens(aligned[number], last=last) for number, _ in documents}
        # Each sentence is one sequence of tags; a document without sentences is one.
        borders = {number: np.searchsorted(words, aligned[number].starts[1:]) for number, (words, _) in encoded.items()}
        rows = [
            part
            for number, (_, tokens) in encoded.items()
            for part in np.split(logits[number][tokens], borders[number])
        ]
        decoded = iter(zip(*self._paths(rows, transitions, confidence), strict=True))
        results: list[Record] = []
        for number, document in documents:
            parts = [next(decoded) for _ in aligned[number].starts]
            path, likely = (np.concatenate(values) for values in zip(*parts, strict=True))
            spans = self._spans(aligned[number], encoded[number][0], path, likely, confidence)
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
        self, documents: Sequence[np.ndarray], transitions: np.ndarray | None, confidence: Confidence = PLAIN
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return, for each document, the tag of each word and the probability of every tag.

        A bias changes only the tags: the score of a mention that it adds stays as low as it is.
        """
        # Output 0 is O.
        decided = [_less(logits, confidence.bias) for logits in documents] if confidence.bias else documents
        if self.head == "crf":
            if transitions is None:
                raise ValueError("a CRF cannot be decoded without its transition scores")
            scale = confidence.temperature
            tempered = documents if scale == 1.0 else [logits / scale for logits in documents]
            likely = marginals(tempered, *self._legal, transitions / scale)
            return best_paths(decided, *self._legal, transitions), likely
        likely = [_probabilities(logits) for logits in decided]
        paths = [rows.argmax(axis=1) for rows in likely]
        if self.constrained:
            paths = best_paths([np.log(rows + 1e-12) for rows in likely], *self._legal)
        if confidence.bias or confidence.temperature != 1.0:
            likely = [_probabilities(logits / confidence.temperature) for logits in documents]
        return paths, likely

    def _spans(
        self,
        aligned: Aligned,
        words: np.ndarray,
        path: np.ndarray,
        probabilities: np.ndarray,
        confidence: Confidence,
    ) -> tuple[Span, ...]:
        # A word without a sub-word (the tokenizer drops some characters) cannot be part of a mention.
        tags = [OUTSIDE] * len(aligned.words)
        scores = [1.0] * len(aligned.words)
        for row in np.flatnonzero(path).tolist():  # output 0 is O
            word = words[row]
            tags[word] = self.outputs[path[row]]
            scores[word] = float(probabilities[row, path[row]])
        found: list[Span] = []
        for start, end in pairwise([*aligned.starts, len(tags)]):
            read = (tags[start:end], aligned.words[start:end])
            found += tags_to_spans(*read, self.protocol.scheme, self.protocol.repair, scores[start:end])
        return number_spans([replace(span, score=confidence.mention(span.score or 0.0)) for span in found])

    @property
    def constrained(self) -> bool:
        """Whether only legal tag sequences are predicted: as the recipe says, else as the protocol does."""
        if self.head == "crf" or self.options.decoding == "constrained":
            return True
        return self.options.decoding == "protocol" and self.protocol.decoding == "constrained"


def _less(logits: np.ndarray, bias: float) -> np.ndarray:
    """Word outputs with the one for O lowered."""
    lowered = logits.copy()
    lowered[:, 0] -= bias
    return lowered


def _probabilities(logits: np.ndarray) -> np.ndarray:
    return softmax(logits) if len(logits) else logits


def _read_tokens(aligned: Aligned, *, last: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the words with at least one sub-word, in order, and the first or last sub-word of each."""
    owners = np.array([-1 if word is None else word for word in aligned.word_ids], dtype=np.int64)
    words, tokens = np.unique(owners[::-1] if last else owners, return_index=True)
    tokens = len(owners) - 1 - tokens if last else tokens
    return words[words >= 0], tokens[words >= 0]


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
    paths = [np.asarray(scores.argmax(axis=1)) for scores in sequences]
    searched = [number for number, path in enumerate(paths) if len(path)]
    if transitions is None:  # after training most paths are legal and need no search

        def legal(path: np.ndarray) -> bool:
            return bool(starts[path[0]] and ends[path[-1]] and allowed[path[:-1], path[1:]].all())

        searched = [number for number in searched if not legal(paths[number])]
    weights = np.where(allowed, 0.0 if transitions is None else transitions, -np.inf)
    for group in _groups(sequences, searched):
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
    tags = weights.shape[0]
    rows = np.zeros((len(sequences), lengths[0], tags), dtype=sequences[0].dtype)
    for row, scores in zip(rows, sequences, strict=True):
        row[: len(scores)] = scores
    reach = _reach(lengths)
    onto = np.ascontiguousarray(weights.T)  # [next tag, tag]: numpy searches the last axis fastest
    total = np.where(starts, rows[:, 0], -np.inf)
    back = np.zeros(rows.shape, dtype=np.int64)
    for position in range(1, lengths[0]):
        here = slice(reach[position])
        options = total[here, None, :] + onto
        back[here, position] = options.argmax(axis=2)
        total[here] = options.max(axis=2) + rows[here, position]
    path = np.zeros(rows.shape[:2], dtype=np.int64)
    every = np.arange(len(sequences))
    path[every, lengths - 1] = np.where(ends, total, -np.inf).argmax(axis=1)
    for position in range(lengths[0] - 1, 0, -1):
        rest = every[: reach[position]]
        path[rest, position - 1] = back[rest, position, path[rest, position]]
    return [found[:length] for found, length in zip(path, lengths, strict=True)]


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
    """Marginals of sequences sorted by length, longest first."""
    lengths = np.array([len(scores) for scores in sequences])
    local = np.zeros((len(sequences), lengths[0], weights.shape[0]))
    for row, scores in zip(local, sequences, strict=True):
        row[: len(scores)] = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    forward, backward = np.zeros(local.shape), np.zeros(local.shape)
    reach = _reach(lengths)
    for position in range(lengths[0]):
        here = slice(reach[position])
        before = np.where(starts, 1.0, 0.0) if position == 0 else forward[here, position - 1] @ weights
        forward[here, position] = _scaled(before * local[here, position])
    for position in range(lengths[0] - 1, -1, -1):
        going_on = reach[position + 1] if position + 1 < lengths[0] else 0
        after = local[:going_on, position + 1 : position + 2, :] * backward[:going_on, position + 1 : position + 2, :]
        backward[:going_on, position] = _scaled(after.reshape(going_on, weights.shape[0]) @ weights.T)
        backward[going_on : reach[position], position] = np.where(ends, 1.0, 0.0)
    joint = _scaled(forward * backward)
    return [likely[:length] for likely, length in zip(joint, lengths, strict=True)]


def _scaled(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.maximum(rows.sum(axis=-1, keepdims=True), _LEAST))
