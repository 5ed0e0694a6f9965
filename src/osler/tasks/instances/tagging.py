"""Entities: one tag per word, decoded to character spans."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from osler.core.errors import InputError
from osler.tasks.card import Kind
from osler.tasks.instances.base import (
    IGNORED,
    Aligned,
    Builder,
    Built,
    Instance,
    WindowPlace,
    document_windows,
    softmax,
)
from osler.text.document import Document, Record, number_spans
from osler.text.tags import OUTSIDE, label_set, spans_to_tags, tags_to_spans, transitions
from osler.text.windows import Window

_LEAST = 1e-300
_TOGETHER = 1 << 22
"""Cells (sequences x places x tags) that are searched at once."""


def best_path(
    scores: np.ndarray,
    allowed: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    steps: np.ndarray | None = None,
) -> np.ndarray:
    """The path through log scores [n, tags] that uses only allowed transitions, legal first tags and legal last tags.

    `steps` [tags, tags] is added for each tag after each other, as a chain has learned it; without it all legal steps are equal.
    """
    return best_paths([scores], allowed, starts, ends, steps)[0]


def best_paths(
    sequences: Sequence[np.ndarray],
    allowed: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    steps: np.ndarray | None = None,
) -> list[np.ndarray]:
    """The best path of each sequence, as `best_path` has it. All places of equal number are done together, which
    is what makes the documents of a whole split quick."""
    paths = [np.asarray(scores.argmax(axis=1)) for scores in sequences]
    searched = [number for number, path in enumerate(paths) if len(path)]
    if steps is None:  # the usual case after training: nothing to repair, no search

        def legal(path: np.ndarray) -> bool:
            return bool(starts[path[0]] and ends[path[-1]] and allowed[path[:-1], path[1:]].all())

        searched = [number for number in searched if not legal(paths[number])]
    searched.sort(key=lambda number: -len(paths[number]))
    weights = np.where(allowed, 0.0 if steps is None else steps, -np.inf)
    while searched:
        size = max(1, _TOGETHER // sequences[searched[0]].size)
        group, searched = searched[:size], searched[size:]
        for number, path in zip(group, _search([sequences[n] for n in group], weights, starts, ends), strict=True):
            paths[number] = path
    return paths


def _search(
    sequences: Sequence[np.ndarray], weights: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> list[np.ndarray]:
    """Viterbi's search over sequences that are sorted by length, the longest first."""
    lengths = np.array([len(scores) for scores in sequences])
    tags = weights.shape[0]
    rows = np.zeros((len(sequences), lengths[0], tags), dtype=sequences[0].dtype)
    for row, scores in zip(rows, sequences, strict=True):
        row[: len(scores)] = scores
    # How many sequences reach each place: they are the first ones.
    reach = [int((lengths > place).sum()) for place in range(lengths[0])]
    total = np.where(starts, rows[:, 0], -np.inf)
    back = np.zeros(rows.shape, dtype=np.int64)
    for place in range(1, lengths[0]):
        here = slice(reach[place])
        options = total[here, :, None] + weights
        best = options.argmax(axis=1)
        back[here, place] = best
        total[here] = np.take_along_axis(options, best[:, None], axis=1)[:, 0] + rows[here, place]
    path = np.zeros(rows.shape[:2], dtype=np.int64)
    path[np.arange(len(sequences)), lengths - 1] = np.where(ends, total, -np.inf).argmax(axis=1)
    for place in range(lengths[0] - 1, 0, -1):
        rest = np.arange(reach[place])
        path[rest, place - 1] = back[rest, place, path[rest, place]]
    return [found[:length] for found, length in zip(path, lengths, strict=True)]


def marginals(
    scores: np.ndarray, allowed: np.ndarray, starts: np.ndarray, ends: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """The probability of every tag at every place over all legal paths [n, tags]: forward and backward, scaled at each step."""
    length = len(scores)
    local = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True)) if length else scores
    weights = np.where(allowed, np.exp(steps.astype(np.float64) - steps.max()), 0.0)
    forward, backward = np.zeros(scores.shape), np.zeros(scores.shape)
    for place in range(length):
        before = np.where(starts, 1.0, 0.0) if place == 0 else forward[place - 1] @ weights
        here = before * local[place]
        forward[place] = here / max(here.sum(), _LEAST)
    for place in range(length - 1, -1, -1):
        after = np.where(ends, 1.0, 0.0) if place == length - 1 else weights @ (local[place + 1] * backward[place + 1])
        backward[place] = after / max(after.sum(), _LEAST)
    joint = forward * backward
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), _LEAST))


class TaggingBuilder(Builder):
    """Spans to tags and back. Each token's tag is learned and decided in the window where it has most context."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.head = "crf" if self.options.tagger == "crf" else Kind.TAGGING

    @property
    def windowed(self) -> bool:
        """Always: tags are decided in windows."""
        return True

    @cached_property
    def outputs(self) -> list[str]:
        """The tags, O first."""
        return label_set(self.card.labels, self.protocol.scheme)

    @cached_property
    def _legal(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        legal = transitions(self.outputs, self.protocol.scheme)
        return np.array(legal.allowed), np.array(legal.start), np.array(legal.end)

    def build(self, records: Sequence[Record], *, gold: bool) -> Built:
        """The windows of every document; with gold, a tag index for each token that its window decides."""
        built = Built(document_windows(self.tokens, records, self.max_length, self.overlap))
        if gold:
            index = {tag: number for number, tag in enumerate(self.outputs)}
            targets: dict[int, np.ndarray] = {}
            for number, instance in enumerate(built.instances):
                document = records[instance.record]
                if instance.record not in targets and isinstance(document, Document):
                    aligned = instance.place.aligned
                    targets[instance.record] = self._targets(
                        document, instance.record, aligned, index, built.unexpressed
                    )
                target = self._window_target(targets[instance.record], instance.place.window)
                built.instances[number] = replace(instance, target=target)
        return built

    def weight(self, instance: Instance) -> float:
        """How many tokens carry a label."""
        return float((instance.target != IGNORED).sum())

    def decode(
        self, records: Sequence[Record], instances: Sequence[Instance], outputs: Sequence[np.ndarray]
    ) -> list[Record]:
        """Spans of characters with scores, from each window's own part of the document."""
        grouped: dict[int, list[tuple[WindowPlace, np.ndarray]]] = defaultdict(list)
        for instance, output in zip(instances, outputs, strict=True):
            grouped[instance.record].append((instance.place, output))
        documents = [(number, document) for number, document in enumerate(records) if isinstance(document, Document)]
        decided = self._paths([self._word_logits(grouped[number]) for number, _ in documents])
        return [
            self._spans(document, grouped[number][0][0].aligned, *found)
            for (number, document), found in zip(documents, decided, strict=True)
        ]

    def _targets(
        self, document: Document, number: int, aligned: Aligned, index: dict[str, int], unexpressed: Counter[str]
    ) -> np.ndarray:
        unknown = {span.label for span in document.spans} - set(self.card.labels)
        if unknown:
            raise InputError(
                f"document {number + 1} carries labels the card does not list: {', '.join(sorted(unknown))}",
                where=f"task {self.card.name}",
                fix="Add them to the card's labels, or prepare the task again",
            )
        result = spans_to_tags(document.spans, aligned.words, self.protocol.scheme)
        unexpressed["overlapping, nested or discontinuous mentions"] += len(result.unexpressed)
        unexpressed["mentions that begin or end inside a word"] += len(result.inexact)
        targets = np.full(len(aligned.ids), IGNORED, dtype=np.int64)
        # A chain steps from word to word, in training as in decoding: later sub-words would be steps of another kind.
        every = self.protocol.subwords == "all" and self.head != "crf"
        previous: int | None = None
        for place, word in enumerate(aligned.word_ids):
            if word is not None and (word != previous or every):
                tag = result.tags[word]
                # A later sub-word of a B- word continues the mention, it does not begin another.
                targets[place] = index[_continued(tag) if word == previous else tag]
            previous = word
        return targets

    def _window_target(self, targets: np.ndarray, window: Window) -> np.ndarray:
        part = np.full(window.end - window.start + self.tokens.overhead, IGNORED, dtype=np.int64)
        shift = len(self.tokens.prefix) - window.start
        part[window.core_start + shift : window.core_end + shift] = targets[window.core_start : window.core_end]
        return part

    def _word_logits(self, pieces: Sequence[tuple[WindowPlace, np.ndarray]]) -> np.ndarray:
        """The logits of each word that has a sub-word, from the window that decides it."""
        aligned = pieces[0][0].aligned
        logits = np.zeros((len(aligned.ids), len(self.outputs)), dtype=np.float32)
        for place, output in pieces:
            window, shift = place.window, len(self.tokens.prefix) - place.window.start
            logits[window.core_start : window.core_end] = output[window.core_start + shift : window.core_end + shift]
        return np.asarray(logits[aligned.first_tokens])

    def _spans(self, document: Document, aligned: Aligned, path: np.ndarray, probabilities: np.ndarray) -> Document:
        # A word without any sub-word (a character the tokenizer drops) cannot be part of a mention.
        tags = [OUTSIDE] * len(aligned.words)
        scores = [1.0] * len(aligned.words)
        for row in np.flatnonzero(path).tolist():  # output 0 is O
            word = aligned.encoded_words[row]
            tags[word] = self.outputs[path[row]]
            scores[word] = float(probabilities[row, path[row]])
        spans = tags_to_spans(tags, aligned.words, self.protocol.scheme, self.protocol.repair, scores)
        return document.with_(spans=number_spans(spans), relations=())

    def _paths(self, documents: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each document the tag of each word, and how probable every tag was for it: under the chain where there is one."""
        if self.head == "crf":
            steps = self.steps
            if steps is None:
                raise ValueError("a chain cannot be decoded without the scores of its steps")
            chains = [marginals(logits, *self._legal, steps) for logits in documents]
            return list(zip(best_paths(documents, *self._legal, steps), chains, strict=True))
        likely = [softmax(logits) if len(logits) else logits for logits in documents]
        if self.constrained:
            paths = best_paths([np.log(rows + 1e-12) for rows in likely], *self._legal)
        else:
            paths = [rows.argmax(axis=1) for rows in likely]
        return list(zip(paths, likely, strict=True))

    @property
    def constrained(self) -> bool:
        """Whether only well-formed tag sequences are given: as the recipe chose, else as the protocol says."""
        if self.head == "crf" or self.options.decoding == "constrained":
            return True
        return self.options.decoding == "protocol" and self.protocol.decoding == "constrained"


def _continued(tag: str) -> str:
    """The tag of the following sub-words of a word: inside the same mention."""
    prefix, dash, label = tag.partition("-")
    return f"I-{label}" if dash and prefix in {"B", "S", "E"} else tag
