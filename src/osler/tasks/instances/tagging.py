"""Entities: one tag a word, on the first of its sub-words or on all of them, decoded to spans of characters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from osler.core.errors import InputError
from osler.tasks.card import Kind
from osler.tasks.instances.base import IGNORED, Builder, Built, Instance, softmax
from osler.tasks.instances.document import Aligned, Place, document_windows
from osler.tasks.instances.viterbi import best_paths, marginals
from osler.text.document import Document, Record, number_spans
from osler.text.tags import OUTSIDE, label_set, spans_to_tags, tags_to_spans, transitions
from osler.text.windows import Window


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
        grouped: dict[int, list[tuple[Place, np.ndarray]]] = defaultdict(list)
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

    def _word_logits(self, pieces: Sequence[tuple[Place, np.ndarray]]) -> np.ndarray:
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
