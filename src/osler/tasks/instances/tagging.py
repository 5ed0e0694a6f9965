"""Entities: one tag per word, decoded to character spans."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from osler.core.errors import InputError
from osler.tasks.card import Kind
from osler.tasks.instances.base import (
    IGNORED,
    PLAIN,
    Aligned,
    Confidence,
    Instance,
    TokenBuilder,
    by_document,
    softmax,
)
from osler.tasks.instances.chains import ChainRules, best_paths, chain_marginals, chain_paths
from osler.text.document import Document, Record, Span
from osler.text.tags import OUTSIDE, label_set, spans_to_tags, tags_to_spans
from osler.text.tags import transitions as legal_transitions
from osler.text.words import Range, covered


class TaggerOutputs(NamedTuple):
    """Outputs of a tagger for some windows, and what is needed to decode them."""

    builder: TaggingBuilder
    outputs: Sequence[np.ndarray]
    transitions: np.ndarray | None
    confidence: Confidence


class _Words(NamedTuple):
    """The words that a tagger labels, concatenated over documents."""

    documents: list[tuple[Document, Aligned]]
    words: np.ndarray
    """Index of each word in its document."""
    logits: np.ndarray
    borders: list[int]
    """Where tag sequences begin, except the first: at each sentence, or at each document without sentences."""
    ends: list[int]
    """0, and where the words of each document end."""


def decode_taggers(
    heads: Sequence[TaggerOutputs], records: Sequence[Record], instances: Sequence[Instance]
) -> list[list[Record]]:
    """Decode taggers that read the same windows. CRFs with the same number of tags are searched together."""
    read = [head.builder._read_words(records, instances, head.outputs) for head in heads]
    together: dict[int, list[int]] = {}
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for number, (head, words) in enumerate(zip(heads, read, strict=True)):
        if head.builder.head == "crf":
            together.setdefault(len(head.builder.outputs), []).append(number)
        else:
            found[number] = head.builder._paths(words.logits, words.borders, head.confidence)
    for numbers in together.values():
        alike = [heads[number] for number in numbers]
        chains = _read_chains(alike, [read[number].logits for number in numbers], read[numbers[0]].borders)
        found.update(zip(numbers, chains, strict=True))
    return [
        head.builder._documents(words, *found[number], head.confidence)
        for number, (head, words) in enumerate(zip(heads, read, strict=True))
    ]


def _read_chains(
    heads: Sequence[TaggerOutputs], logits: Sequence[np.ndarray], borders: Sequence[int]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Decode CRFs with the same words and number of tags: the tag of each word, and the probability of every tag."""
    steps = [head.transitions for head in heads if head.transitions is not None]
    if len(steps) < len(heads):
        raise ValueError("a CRF cannot be decoded without its transition scores")
    scales = [head.confidence.temperature for head in heads]
    tempered = np.stack([one if scale == 1.0 else one / scale for one, scale in zip(logits, scales, strict=True)])
    decided = np.stack([_less(one, head.confidence.bias) for one, head in zip(logits, heads, strict=True)])
    rules = ChainRules(*(np.stack(rule) for rule in zip(*(head.builder._legal for head in heads), strict=True)))
    lengths = np.diff([0, *borders, tempered.shape[1]])
    softer = np.stack([step / scale for step, scale in zip(steps, scales, strict=True)])
    likely = chain_marginals(tempered, lengths, rules, softer)
    paths = chain_paths(decided, lengths, rules, np.stack(steps))
    return list(zip(paths, likely, strict=True))


class TaggingBuilder(TokenBuilder):
    """Converts spans to tags and back. Each token is labelled in the window where it has the most context."""

    @property
    def head(self) -> str:
        return "crf" if self.options.tagger == "crf" else Kind.TAGGING

    @cached_property
    def outputs(self) -> list[str]:
        """Tags, O first."""
        return label_set(self.card.labels, self.protocol.scheme)

    @cached_property
    def _legal(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        legal = legal_transitions(self.outputs, self.protocol.scheme)
        return np.array(legal.allowed), np.array(legal.start), np.array(legal.end)

    def decode(
        self,
        records: Sequence[Record],
        instances: Sequence[Instance],
        outputs: Sequence[np.ndarray],
        transitions: np.ndarray | None = None,
        confidence: Confidence = PLAIN,
    ) -> list[Record]:
        """Return documents with scored spans. Each word is labelled by the window where it has the most context."""
        return decode_taggers([TaggerOutputs(self, outputs, transitions, confidence)], records, instances)[0]

    def _read_words(
        self, records: Sequence[Record], instances: Sequence[Instance], outputs: Sequence[np.ndarray]
    ) -> _Words:
        """Collect the outputs at all words of all documents in one array: numpy is slow on many small ones."""
        aligned, logits = by_document(instances, outputs, len(self.tokens.prefix))
        last = self.protocol.read == "last" and self.head != "crf"
        documents: list[tuple[Document, Aligned]] = []
        words: list[np.ndarray] = []
        rows: list[np.ndarray] = []
        borders: list[int] = []
        ends: list[int] = [0]
        for number, document in enumerate(records):
            if not isinstance(document, Document):
                continue
            own = aligned[number]
            read, tokens = own.last_subwords if last else own.first_subwords
            documents.append((document, own))
            words.append(read)
            rows.append(logits[number][tokens])
            borders += [ends[-1] + border for border in own.borders]
            ends.append(ends[-1] + len(read))
        empty, none = np.zeros((0, len(self.outputs)), dtype=np.float32), np.zeros(0, dtype=np.int64)
        return _Words(documents, np.concatenate([*words, none]), np.concatenate([*rows, empty]), borders[1:], ends)

    def _documents(self, read: _Words, path: np.ndarray, likely: np.ndarray, confidence: Confidence) -> list[Record]:
        """Return the documents with the mentions read from their tags."""
        found = np.flatnonzero(path)  # output 0 is O
        tags = [self.outputs[tag] for tag in path[found].tolist()]
        scores: list[float] = likely[found, path[found]].tolist()
        places: list[int] = read.words[found].tolist()
        results: list[Record] = []
        borders = pairwise(np.searchsorted(found, read.ends).tolist())
        for (document, aligned), (start, end) in zip(read.documents, borders, strict=True):
            here = slice(start, end)
            spans = self._spans(aligned, places[here], tags[here], scores[here], confidence) if start < end else ()
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
        """Label tokens without a word, such as whitespace: inside if a mention continues after them, else outside."""
        following = self.outputs[0]
        for place in range(len(targets) - 1, -1, -1):
            if aligned.word_ids[place] is not None:
                following = self.outputs[targets[place]]
            else:
                goes_on = following[:2] in ("I-", "E-")
                targets[place] = self.outputs.index(f"I-{following[2:]}") if goes_on else 0

    def _paths(
        self, logits: np.ndarray, borders: Sequence[int], confidence: Confidence
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the tag of each word and the probability of every tag, without a CRF. Tag sequences begin at `borders`.

        A bias changes only the tags, so a mention that it adds keeps its low score.
        """
        decided = _less(logits, confidence.bias)
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
        """Read the mentions of a document from its tagged words, which are few, and their tags and scores."""
        # A single O stands for all words between two tagged ones, and for a sentence border. A word without a sub-word
        # (the tokenizer drops some characters) is O too, so it cannot be part of a mention.
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
        """Whether only legal tag sequences are predicted. The recipe overrides the protocol."""
        if self.head == "crf" or self.options.decoding == "constrained":
            return True
        return self.options.decoding == "protocol" and self.protocol.decoding == "constrained"


def _less(logits: np.ndarray, bias: float) -> np.ndarray:
    """Lower the output for O, the first one, of each word."""
    if not bias:
        return logits
    lowered = logits.copy()
    lowered[:, 0] -= bias
    return lowered


def _crosses(span: Span, aligned: Aligned) -> bool:
    """Whether a sentence begins inside the span."""
    place = covered(aligned.words, span.start, span.end)
    return bool(place) and bisect_right(aligned.starts, place[0]) != bisect_right(aligned.starts, place[-1])


def _continued(tag: str) -> str:
    """Tag of a word's sub-words after the first."""
    prefix, dash, label = tag.partition("-")
    return f"I-{label}" if dash and prefix in {"B", "S", "E"} else tag
