"""Convert records to model inputs and model outputs to predictions: the builder interface and what builders share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, SerializerFunctionWrapHandler, model_serializer

from osler.core.config import Recipe
from osler.core.registry import Registry
from osler.tasks.card import Protocol, TaskCard
from osler.text.document import Document, Fragment, Record, parse_fragments
from osler.text.sentences import sentences
from osler.text.subwords import SubwordTokenizer
from osler.text.windows import Window, windows
from osler.text.words import line_ranges, trim_offsets, word_of_subword, words

IGNORED = -100
"""Target of a token without a label."""

Tagger = Literal["linear", "crf"]
Decoding = Annotated[
    Literal["protocol", "greedy", "constrained"], BeforeValidator(lambda value: "greedy" if value == "free" else value)
]
"""How tags are decoded. Greedy decoding was called free in earlier recipes, bundles and studies."""
Relations = Literal["tagged", "markers"]
Layers = Literal["mlp", "linear", "pooler"]


class HeadOptions(Recipe):
    """Variants of a head. An option has no effect on heads of another kind."""

    tagger: Tagger = "linear"
    decoding: Decoding = "protocol"
    relations: Relations = "tagged"
    head: Layers = "mlp"

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out later options at their default, so that bundles without them keep their bytes."""
        values: dict[str, Any] = write(self)
        return {name: value for name, value in values.items() if name != "head" or value != "mlp"}

    def other_decoding(self, decoding: str) -> str:
        """Return the decoding of a linear tagger if it differs from the protocol's, else "". A CRF has only one."""
        if self.tagger != "linear" or self.decoding == "protocol":
            return ""
        return "" if self.decoding == decoding else self.decoding


@dataclass(frozen=True, slots=True)
class Instance:
    """One encoder input: ids with special tokens, the target, and where it comes from."""

    ids: np.ndarray
    record: int
    target: Any = None
    types: np.ndarray | None = None
    place: Any = None
    marks: tuple[int, ...] | None = None
    """Tokens that a marker head reads."""

    @property
    def length(self) -> int:
        return len(self.ids)


@dataclass
class Built:
    """Instances, and the number of gold annotations they cannot express, by reason."""

    instances: list[Instance]
    unexpressed: Counter[str] = field(default_factory=Counter)


@dataclass(eq=False)
class Builder(ABC):
    """Builds and decodes the instances of one task under one protocol."""

    card: TaskCard
    protocol: Protocol
    tokens: SubwordTokenizer
    max_length: int
    overlap: int
    options: HeadOptions = field(default_factory=HeadOptions)

    @property
    @abstractmethod
    def head(self) -> str:
        """Kind of head that is trained on these targets."""

    @property
    def windowed(self) -> bool:
        """Whether the instances are plain document windows, so that several heads can share one encoder pass."""
        return False

    @property
    @abstractmethod
    def outputs(self) -> list[str]:
        """Names of the head's outputs, in order."""

    @abstractmethod
    def build(self, records: Sequence[Record], *, gold: bool) -> Built:
        """Build the instances of the records, with targets if `gold` is set."""

    @abstractmethod
    def decode(
        self,
        records: Sequence[Record],
        instances: Sequence[Instance],
        outputs: Sequence[np.ndarray],
        transitions: np.ndarray | None = None,
    ) -> list[Record]:
        """Return the records with predictions in place of gold. Only a CRF has `transitions`, its scores [tag, next tag]."""

    def weight(self, instance: Instance) -> float:
        """Number of labels in an instance; losses are averaged over labels."""
        return 1.0


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
    """Make the builder of a task under one of its protocols."""
    kind: type[Builder] = BUILDERS.get(card.kind.value)
    return kind(card, card.protocol_named(protocol), tokens, max_length, overlap, options or HeadOptions())


@dataclass(frozen=True, slots=True)
class Aligned:
    """The words of a document, and the word of each sub-word."""

    words: list[tuple[int, int]]
    word_ids: list[int | None]
    ids: list[int]


@dataclass(frozen=True, slots=True)
class WindowPlace:
    """The window of an instance and the document it comes from."""

    window: Window
    aligned: Aligned


def document_windows(
    tokens: SubwordTokenizer, records: Sequence[Record], max_length: int, overlap: int
) -> list[Instance]:
    """Cut documents into windows between words, without targets. Windows depend on the text alone, never on gold."""
    documents = [record for record in records if isinstance(record, Document)]
    found = []
    for number, (document, encoding) in enumerate(
        zip(documents, tokens.encode([document.text for document in documents]), strict=True)
    ):
        spans = words(document.text)
        word_ids = word_of_subword(spans, trim_offsets(document.text, encoding.offsets))
        aligned = Aligned(spans, word_ids, encoding.ids)
        boundaries = [i for i in range(1, len(word_ids)) if word_ids[i] is None or word_ids[i] != word_ids[i - 1]]
        # An empty document still gets one window, so that every head makes a prediction for it.
        empty = [Window(0, 0, 0, 0)]
        for window in windows(len(word_ids), max_length - tokens.overhead, overlap, boundaries) or empty:
            ids = tokens.wrap(aligned.ids[window.start : window.end])
            found.append(Instance(ids, number, place=WindowPlace(window, aligned)))
    return found


def sentences_of(card: TaskCard, document: Document) -> list[Fragment]:
    """Character ranges of a document's sentences, found without looking at gold."""
    if card.sentences == "meta" and (places := parse_fragments(document.meta.get("sentences", ""))):
        return [(start, end) for start, end in places if start != end]
    if card.sentences == "lines":
        return [(start, end) for start, end in line_ranges(document.text) if document.text[start:end].strip()]
    # Also for text without the corpus's own sentence marks, such as a user's.
    return sentences(document.text, card.language)


def joined(text: str, units: list[Fragment]) -> list[Fragment]:
    """Join sentences as the BLUE benchmark does: a sentence ends with one of `.?!` and a capital letter follows."""
    found: list[Fragment] = []
    for start, end in units:
        before = text[found[-1][0] : found[-1][1]].rstrip() if found else ""
        if before and not (before.endswith((".", "?", "!")) and not before.endswith("i.v.") and text[start].isupper()):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))
