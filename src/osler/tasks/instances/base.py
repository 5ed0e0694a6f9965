"""From records to model inputs and back: instances, windows and the builder interface."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from osler.core.config import Recipe
from osler.core.registry import Registry
from osler.tasks.card import Protocol, TaskCard
from osler.text.document import Document, Fragment, Record
from osler.text.sentences import sentences
from osler.text.subwords import SubwordTokenizer
from osler.text.windows import Window, windows
from osler.text.words import trim_offsets, word_of_subword, words

Tagger = Literal["linear", "crf"]
Decoding = Literal["protocol", "free", "constrained"]
Relations = Literal["tagged", "markers"]


class HeadOptions(Recipe):
    """How a head reads its input and how its outputs are read; what does not concern its kind of task is without effect."""

    tagger: Tagger = "linear"
    decoding: Decoding = "protocol"
    relations: Relations = "tagged"

    def read_otherwise(self, decoding: str) -> str:
        """How a linear tagger's labels are taken in place of what a protocol says ("greedy", "constrained"); empty where that holds.

        A chain is always decoded as one: that is the head, and overrules nothing.
        """
        if self.tagger != "linear" or self.decoding == "protocol":
            return ""
        asked = "greedy" if self.decoding == "free" else self.decoding
        return "" if asked == decoding else self.decoding


IGNORED = -100


@dataclass(frozen=True, slots=True)
class Instance:
    """One input of the encoder: ids with special tokens, its target, and where it came from."""

    ids: np.ndarray
    record: int
    target: Any = None
    types: np.ndarray | None = None
    place: Any = None
    marks: tuple[int, ...] | None = None
    """The tokens at which a head that reads marks reads the sequence."""

    @property
    def length(self) -> int:
        """Tokens, special ones included."""
        return len(self.ids)


@dataclass
class Built:
    """Instances and, by reason, how much gold they could not carry."""

    instances: list[Instance]
    unexpressed: Counter[str] = field(default_factory=Counter)


class Builder(ABC):
    """Builds and decodes the instances of one task under one protocol."""

    head: str
    """The kind of head that learns these targets."""
    steps: np.ndarray | None = None
    """What the head adds for each output after each other, where its rows are a chain; set by the head's owner."""

    def __init__(
        self,
        card: TaskCard,
        protocol: Protocol,
        tokens: SubwordTokenizer,
        max_length: int,
        overlap: int,
        options: HeadOptions | None = None,
    ) -> None:
        self.card = card
        self.protocol = protocol
        self.tokens = tokens
        self.max_length = max_length
        self.overlap = overlap
        self.options = options or HeadOptions()

    @property
    def windowed(self) -> bool:
        """Whether instances are the plain windows of a document, so that several heads can share one pass over them."""
        return False

    @property
    @abstractmethod
    def outputs(self) -> list[str]:
        """What each output of the head stands for, in order."""

    @abstractmethod
    def build(self, records: Sequence[Record], *, gold: bool) -> Built:
        """Instances of the records; with gold, each carries its target."""

    @abstractmethod
    def decode(
        self, records: Sequence[Record], instances: Sequence[Instance], outputs: Sequence[np.ndarray]
    ) -> list[Record]:
        """The records with predictions in place of gold."""

    def weight(self, instance: Instance) -> float:
        """How many labels an instance carries: the unit in which losses are averaged."""
        return 1.0


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis, safe against overflow."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


BUILDERS = Registry(
    "builders",
    {
        "tagging": "osler.tasks.instances.tagging:TaggingBuilder",
        "relation": "osler.tasks.instances.relation:RelationBuilder",
        "classification": "osler.tasks.instances.text:ClassificationBuilder",
        "multilabel": "osler.tasks.instances.text:MultiLabelBuilder",
        "regression": "osler.tasks.instances.text:RegressionBuilder",
    },
)


def make_builder(
    card: TaskCard,
    protocol: str | None,
    tokens: SubwordTokenizer,
    max_length: int,
    overlap: int,
    options: HeadOptions | None = None,
) -> Builder:
    """The builder of a task under one of its protocols, for a head with these options."""
    kind = BUILDERS.get(card.kind.value)
    builder: Builder = kind(card, card.protocol_named(protocol), tokens, max_length, overlap, options)
    return builder


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
class WindowPlace:
    """Where a windowed instance stands: its window, and the aligned document it was cut from."""

    window: Window
    aligned: Aligned


def document_windows(
    tokens: SubwordTokenizer, records: Sequence[Record], max_length: int, overlap: int
) -> list[Instance]:
    """Every window of every document, without targets; an empty document has one that holds the special tokens alone."""
    documents = [record for record in records if isinstance(record, Document)]
    found = []
    for number, aligned in enumerate(align(tokens, documents)):
        for window in cut(aligned, max_length - tokens.overhead, overlap):
            ids = tokens.wrap(aligned.ids[window.start : window.end])
            found.append(Instance(ids, number, place=WindowPlace(window, aligned)))
    return found


def align(tokens: SubwordTokenizer, documents: Sequence[Document]) -> list[Aligned]:
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


_PLACES = re.compile(r"\d+ \d+(;\d+ \d+)*")


def sentences_of(card: TaskCard, document: Document) -> list[Fragment]:
    """Character ranges of the sentences, found without a look at gold."""
    if card.sentences == "meta" and _PLACES.fullmatch(document.meta.get("sentences", "")):
        cells = (piece.split(" ") for piece in document.meta["sentences"].split(";"))
        return [(int(start), int(end)) for start, end in cells if start != end]
    if card.sentences == "lines":
        return lines_of(document.text)
    # Text without the marks of the corpus, a user's own for one, is split.
    return sentences(document.text, card.language)


def joined(text: str, units: list[Fragment]) -> list[Fragment]:
    """Sentences joined as the BLUE benchmark joins them: an end needs one of `.?!` before it and a capital behind it."""
    found: list[Fragment] = []
    for start, end in units:
        before = text[found[-1][0] : found[-1][1]].rstrip() if found else ""
        if before and not (before.endswith((".", "?", "!")) and not before.endswith("i.v.") and text[start].isupper()):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def lines_of(text: str) -> list[Fragment]:
    """The lines of a text that hold more than blanks."""
    found = []
    start = 0
    for line in text.split("\n"):
        if line.strip():
            found.append((start, start + len(line)))
        start += len(line) + 1
    return found
