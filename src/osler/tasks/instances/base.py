"""Convert records to model inputs and model outputs to predictions: the builder interface and what builders share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, SerializerFunctionWrapHandler, model_serializer

from osler.core.config import Recipe
from osler.core.registry import Registry
from osler.tasks.card import Protocol, TaskCard
from osler.text.document import Document, Fragment, Record, documents_in, has_tokens, parse_fragments, token_ranges
from osler.text.sentences import sentences
from osler.text.subwords import SubwordTokenizer
from osler.text.windows import Window, windows
from osler.text.words import Range, line_ranges, subword_owners

IGNORED = -100
"""Target of a token without a label."""

Tagger = Literal["linear", "crf"]
Decoding = Annotated[
    Literal["protocol", "greedy", "constrained"], BeforeValidator(lambda value: "greedy" if value == "free" else value)
]
"""How tags are decoded. Older recipes, bundles and studies call greedy decoding `free`."""
Relations = Literal["tagged", "markers"]
Layers = Literal["mlp", "linear", "pooler"]
Unit = Literal["document", "sentence"]
LabelledTokens = Literal["protocol", "every"]


class HeadOptions(Recipe):
    """Options of a head. A head ignores those of other kinds."""

    later: ClassVar = ("head", "unit", "max_words", "subwords")

    tagger: Tagger = "linear"
    decoding: Decoding = "protocol"
    relations: Relations = "tagged"
    head: Layers = "mlp"
    unit: Unit = "document"
    max_words: int | None = None
    subwords: LabelledTokens = "protocol"

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit newer options left at their default, so that existing bundles keep their bytes."""
        return self.without_later(write(self))

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


class Confidence(NamedTuple):
    """How outputs become scores, and a bias for or against predicting something. The defaults change nothing."""

    temperature: float = 1.0
    """Divides outputs before they become probabilities. Does not change what is predicted."""
    slope: float = 1.0
    """With `offset`, maps the log-odds of a mention's mean word score to the log-odds that the mention is right."""
    offset: float = 0.0
    bias: float = 0.0
    """Subtracted from the output for nothing (O, no relation), or added to each label's. Above 0, more is predicted."""

    def mention(self, score: float) -> float:
        """Return the probability that a mention is right, given the mean probability of its tags."""
        if (self.slope, self.offset) == (1.0, 0.0):
            return score
        sure = min(max(score, LEAST_SURE), 1.0 - LEAST_SURE)
        return round(1.0 / (1.0 + math.exp(-self.slope * math.log(sure / (1.0 - sure)) - self.offset)), 6)


class Evidence(NamedTuple):
    """Outputs of a head with the gold answers, one row per decision."""

    outputs: np.ndarray
    """[n, outputs]"""
    targets: np.ndarray
    """Index of the right output [n], or 1 for each right label [n, outputs]."""
    records: np.ndarray
    """Index of each row's record [n]."""


LEAST_SURE = 1e-6
"""Scores are clipped this far from 0 and 1 before their log-odds are taken."""
PLAIN = Confidence()


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
    def reading(self) -> ReadingUnit | None:
        """How documents are cut into windows; None if they are not. Heads with the same reading share one encoder pass."""
        return None

    @property
    def orders(self) -> tuple[bool, ...]:
        """Orders in which a pair is read for a prediction, True for the second text first."""
        return (False,)

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
        confidence: Confidence = PLAIN,
    ) -> list[Record]:
        """Return the records with predictions in place of gold. Only a CRF has `transitions`, its scores [tag, next tag]."""

    def evidence(
        self, gold: Sequence[Record], instances: Sequence[Instance], outputs: Sequence[np.ndarray]
    ) -> Evidence | None:
        """Return what a temperature is fitted on; None if the head has no temperature."""
        return None

    def weight(self, instance: Instance) -> float:
        """Number of labels in an instance; losses are averaged over labels."""
        return 1.0


class TokenBuilder(Builder):
    """A builder whose head labels every token, so that such heads can share the windows of a document."""

    @property
    def reading(self) -> ReadingUnit:
        if self.options.unit == "document":
            return ReadingUnit()
        return ReadingUnit("sentence", self.options.max_words, self.card.sentences, self.card.language)

    def build(self, records: Sequence[Record], *, gold: bool) -> Built:
        """Build the windows of each document; with gold, a target for each token that its window labels."""
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

    @abstractmethod
    def _targets(self, document: Document, instance: Instance, unexpressed: Counter[str]) -> np.ndarray:
        """Target of each sub-word of a document; `instance` is its first window."""

    def weight(self, instance: Instance) -> float:
        return float((instance.target != IGNORED).sum())


BUILDERS = Registry(
    "builders",
    {
        "tagging": "osler.tasks.instances.tagging:TaggingBuilder",
        "relation": "osler.tasks.instances.relation:RelationBuilder",
        "classification": "osler.tasks.instances.text:ClassificationBuilder",
        "multilabel": "osler.tasks.instances.text:MultiLabelBuilder",
        "regression": "osler.tasks.instances.text:RegressionBuilder",
        "attributes": "osler.tasks.instances.attributes:AttributeBuilder",
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
    chosen = card.protocol_named(protocol)
    return kind(card.under(chosen), chosen, tokens, max_length, overlap, options or HeadOptions())


class ReadingUnit(NamedTuple):
    """What the encoder reads at once: as much of a document as fits its window, or one sentence."""

    unit: Unit = "document"
    max_words: int | None = None
    """Longer sentences are cut into pieces of this many words."""
    sentences: str = ""
    """The card's rule for where sentences end."""
    language: str = ""


@dataclass(frozen=True, eq=False)
class Aligned:
    """The words of a document and the word of each sub-word, shared by heads with the same reading."""

    words: list[Range]
    owners: np.ndarray
    """Word of each sub-word; -1 if it has none."""
    ids: list[int]
    starts: list[int]
    """First word of each sentence that mentions must stay within; only 0 if they may cross sentences."""

    @cached_property
    def word_ids(self) -> list[int | None]:
        """Word of each sub-word; None if it has none."""
        return [None if word < 0 else word for word in self.owners.tolist()]

    @cached_property
    def first_subwords(self) -> tuple[np.ndarray, np.ndarray]:
        """The words with at least one sub-word, in order, and the first sub-word of each."""
        words, tokens = np.unique(self.owners, return_index=True)
        return words[words >= 0], tokens[words >= 0]

    @cached_property
    def borders(self) -> list[int]:
        """Where sentences begin, counted in words with a sub-word."""
        found: list[int] = np.searchsorted(self.first_subwords[0], self.starts).tolist()
        return found

    @cached_property
    def last_subwords(self) -> tuple[np.ndarray, np.ndarray]:
        """The words with at least one sub-word, in order, and the last sub-word of each."""
        words, tokens = np.unique(self.owners[::-1], return_index=True)
        return words[words >= 0], len(self.owners) - 1 - tokens[words >= 0]


@dataclass(frozen=True, slots=True)
class WindowPlace:
    """The window of an instance and the document it comes from."""

    window: Window
    aligned: Aligned


def document_windows(
    tokens: SubwordTokenizer,
    records: Sequence[Record],
    max_length: int,
    overlap: int,
    reading: ReadingUnit = ReadingUnit(),  # noqa: B008 - immutable
) -> list[Instance]:
    """Cut documents into windows between words, without targets. Windows depend on the text alone, never on gold."""
    documents = documents_in(records)
    size = max_length - tokens.overhead
    found = []
    for number, (document, encoding) in enumerate(
        zip(documents, tokens.encode([document.text for document in documents]), strict=True)
    ):
        spans = token_ranges(document)
        owners = subword_owners(spans, encoding.offsets)
        aligned = Aligned(spans, owners, encoding.ids, _sentence_starts(document, spans, reading))
        boundaries: list[int] = []  # needed only where something is cut
        if len(owners) > size:
            boundaries = (np.flatnonzero((owners[1:] != owners[:-1]) | (owners[1:] < 0)) + 1).tolist()
        for start, end in pairwise(_unit_borders(aligned, reading)):
            inside = boundaries[bisect_right(boundaries, start) : bisect_left(boundaries, end)]
            for window in windows(end - start, size, overlap, [cut - start for cut in inside]) or [_EMPTY]:
                window = window.moved(start)
                ids = tokens.wrap(aligned.ids[window.start : window.end])
                found.append(Instance(ids, number, place=WindowPlace(window, aligned)))
    return found


def with_target(window: Instance, targets: np.ndarray, prefix: int) -> Instance:
    """Return a window with targets for the sub-words that it labels; `targets` covers the whole document."""
    place: Window = window.place.window
    shift = prefix - place.start
    target = np.full(window.length, IGNORED, dtype=np.int64)
    target[place.core_start + shift : place.core_end + shift] = targets[place.core_start : place.core_end]
    return replace(window, target=target)


def by_document(
    instances: Sequence[Instance], outputs: Sequence[np.ndarray], prefix: int
) -> tuple[dict[int, Aligned], dict[int, np.ndarray]]:
    """Words and outputs [sub-words, outputs] of each document.

    Each sub-word is read in the window where it has the most context.
    """
    aligned: dict[int, Aligned] = {}
    logits: dict[int, np.ndarray] = {}
    for instance, output in zip(instances, outputs, strict=True):
        number, window = instance.record, instance.place.window
        if number not in aligned:
            aligned[number] = instance.place.aligned
            logits[number] = np.zeros((len(aligned[number].ids), output.shape[1]), dtype=np.float32)
        shift = prefix - window.start
        core = output[window.core_start + shift : window.core_end + shift]
        logits[number][window.core_start : window.core_end] = core
    return aligned, logits


_EMPTY = Window(0, 0, 0, 0)
"""An empty document still gets one window, so that every head makes a prediction for it."""


def _sentence_starts(document: Document, words: Sequence[Range], reading: ReadingUnit) -> list[int]:
    """First word of each sentence within which mentions are decoded.

    A tokenised corpus is scored sentence by sentence, so its mentions stay within sentences whatever the encoder reads at once.
    """
    if has_tokens(document):
        found = line_ranges(document.text)
    elif reading.unit == "sentence":
        found = split_sentences(document, reading.sentences, reading.language)
    else:
        return [0]
    begins = [start for start, _ in words]
    starts = [bisect_left(begins, start) for start, _ in found]
    # The first sentence may begin after the first word, and a line may be empty.
    return sorted({0, *(start for start in starts if start < len(words))})


def _unit_borders(aligned: Aligned, reading: ReadingUnit) -> list[int]:
    """Sub-words at which the reading units (document, sentences or pieces of them) begin, and the end."""
    if reading.unit == "document":
        return [0, len(aligned.ids)]
    first_words: list[int] = []
    for start, end in pairwise([*aligned.starts, len(aligned.words)]):
        first_words += range(start, end, reading.max_words or max(1, end - start))
    owners = [(word, place) for place, word in enumerate(aligned.word_ids) if word is not None]
    borders = [bisect_left(owners, (word, 0)) for word in first_words[1:]]
    places = {owners[border][1] for border in borders if border < len(owners)}
    # What comes before the first word belongs to it.
    return sorted({0, len(aligned.ids), *places}) if aligned.ids else [0, 0]


def sentences_of(card: TaskCard, document: Document) -> list[Fragment]:
    """Character ranges of a document's sentences, found without looking at gold."""
    return split_sentences(document, card.sentences, card.language)


def split_sentences(document: Document, rule: str, language: str) -> list[Fragment]:
    """Split a document by the rule of its card: `meta`, `lines` or `split`."""
    if rule == "meta" and (places := parse_fragments(document.meta.get("sentences", ""))):
        return [(start, end) for start, end in places if start != end]
    if rule == "lines":
        return [(start, end) for start, end in line_ranges(document.text) if document.text[start:end].strip()]
    # Also the fallback for text without the corpus's own marks, such as a user's.
    return sentences(document.text, language)


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


def fold_last(operation: np.ufunc, rows: np.ndarray) -> np.ndarray:
    """Reduce the last axis to one, entry by entry: numpy's own reduction is ten times slower over an axis of a few tags."""
    found = np.array(rows[..., :1])
    for entry in range(1, rows.shape[-1]):
        operation(found, rows[..., entry : entry + 1], out=found)
    return found


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis."""
    shifted = np.exp(logits - fold_last(np.maximum, logits))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))
