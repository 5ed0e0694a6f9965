"""Annotate records: the single path shared by the command line, Python and the service, so that all return the same results."""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import ALL_LANGUAGES, BundleSpec, LanguageMismatch, RecordKind, reads
from osler.artifacts.runner import SteadyRunner, TorchRunner
from osler.core.errors import RecipeError
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.demands import Demands
from osler.tasks.card import Kind
from osler.tasks.instances.base import Instance
from osler.text.context import attributes
from osler.text.document import Document, Record, Span, TextPair
from osler.text.language import LanguageGuess
from osler.text.sentences import LANGUAGES
from osler.train.config import Precision


class HeadChoice(NamedTuple):
    """Heads that read a record, with their biases for the target recall."""

    kind: type
    heads: tuple[str, ...]
    biases: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class AnnotationEngine:
    """A loaded bundle with the options of an annotation."""

    bundle: Bundle
    options: AnnotateOptions

    @classmethod
    def load(
        cls, bundle: str | Path, options: AnnotateOptions, device: str = "auto", precision: Precision = "fp32"
    ) -> AnnotationEngine:
        """Load a bundle and make it `steady`."""
        return cls.steady(Bundle.load(bundle, device, precision), options)

    @classmethod
    def steady(cls, bundle: Bundle, options: AnnotateOptions) -> AnnotationEngine:
        """Create an engine whose results on a CPU do not depend on the batch, to the last bit.

        On a GPU, the last digits of a score may depend on it: matrix products change with the size of a batch, and one text at
        a time would leave the GPU idle.
        """
        if isinstance(bundle.runner, TorchRunner) and bundle.runner.device != "cpu":
            return cls(bundle, options)
        return cls(replace(bundle, runner=SteadyRunner(bundle.runner, partial(_probe, bundle))), options)

    def languages(self, records: Sequence[Record]) -> list[str | None]:
        """Choose the language whose heads read each record, from its text. None if all requested heads read it.

        A document is read by the heads for the language of at least two in three of its common words. All heads read a document
        without common words, with a mixture of them, or in a language without heads in the bundle. Only the text of the
        document itself counts.
        """
        if not chooses_language(self.bundle.spec, self.options):
            return [None] * len(records)
        known = self.bundle.spec.languages
        likely = (LanguageGuess.of([r.text]).likely if isinstance(r, Document) else None for r in records)
        return [language if language in known else None for language in likely]

    def annotate(self, records: Sequence[Record], languages: Sequence[str | None] | None = None) -> list[Record]:
        """Annotate documents and pairs of texts, in the order given.

        Pass `languages` if they are already known for these records, to avoid scanning the texts twice.
        """
        languages = self.languages(records) if languages is None else languages
        return annotate_together([(self, *pair) for pair in zip(records, languages, strict=True)])

    def language_mismatch(
        self, records: Sequence[Record], languages: Sequence[str | None] | None = None
    ) -> LanguageMismatch | None:
        """Find heads in use that were trained on another language than these records, if their language is certain.

        Records that are read by the heads for their language never mismatch.
        """
        if self.options.language is not None:
            return None
        languages = self.languages(records) if languages is None else languages
        records = [record for record, language in zip(records, languages, strict=True) if language is None]
        if not records:
            return None
        guess = LanguageGuess.of(
            record.text if isinstance(record, Document) else f"{record.first} {record.second}" for record in records
        )
        kind: RecordKind = "document" if isinstance(records[0], Document) else "pair"
        spec = self.bundle.spec
        return spec.language_mismatch(guess, spec.heads_for(kind, self.options.heads))

    def costs(self, heads: Sequence[str]) -> list[str]:
        """Lines that state what thresholds or a target recall cost on dev. Raises an error if they cannot be met."""
        return self._demands.costs(heads)

    def reading(self, kind: type, language: str | None) -> HeadChoice:
        """Choose the heads for records of this kind and language. Raises an error if the options cannot be met."""
        known = self._readings.get((kind, language))
        if known is None:
            spec, asked = self.bundle.spec, self.options
            if kind is TextPair:
                known = HeadChoice(kind, tuple(spec.pair_heads(asked.heads, asked.language)), ())
            else:
                heads = tuple(name for name in self._running if reads(spec.heads[name].card.language, language))
                known = HeadChoice(kind, heads, tuple(self._biased.biases.items()))
            self._readings[kind, language] = known
        return known

    def _annotate(self, reading: HeadChoice, records: Sequence[Record]) -> Sequence[Record]:
        """Apply the heads to records of one kind, without thresholds and rules."""
        if reading.kind is TextPair:
            return self.bundle.compare([r for r in records if isinstance(r, TextPair)], reading.heads)
        return self._biased.annotate([r for r in records if isinstance(r, Document)], reading.heads)

    def _asked_for(self, record: Record) -> Record:
        """Apply thresholds to a record, drop entities covered by identifiers, and add attributes found by rules."""
        if isinstance(record, TextPair):
            return record
        kept = self._without_identifiers(self._demands.kept(record))
        return self._by_rules(kept) if self.options.attributes in ("rules", "both") else kept

    def _with_attributes(self, chosen: list[str]) -> list[str]:
        """Select the heads to run. Attribute heads run if `attributes` includes them and a head of their language finds
        mentions."""
        spec, able = self.bundle.spec, self.bundle.spec.attribute_heads()
        others = [name for name in chosen if name not in able]
        if not others:
            raise RecipeError(
                f"{', '.join(chosen)}: attributes belong to mentions, and no head here finds any",
                fix="Add a head that finds mentions, or give a bundle that has one",
            )
        if self.options.attributes in ("rules", "off"):
            return others
        cards = [spec.heads[name].card for name in others]
        languages = {card.language for card in cards if card.kind is Kind.TAGGING and not card.phi}
        named = [name for name in able if name in self.options.heads] or able
        fitting = [name for name in named if spec.heads[name].card.language in languages]
        if self.options.attributes == "head" and not fitting:
            there = ", ".join(f"{name} ({spec.heads[name].card.language})" for name in able)
            raise RecipeError(
                f"this bundle has no attribute head for {', '.join(others)}" + (f", only {there}" if there else ""),
                fix="Give --attributes rules, or fine-tune a head on a task such as e3c-attributes-en",
            )
        return [*others, *fitting]

    def _without_identifiers(self, document: Document) -> Document:
        """Drop entities covered by an identifier: heads for entities never saw names and addresses, and mark some of them."""
        heads = self.bundle.spec.heads
        known = [heads.get(span.attributes.get("head", "")) for span in document.spans]
        by_phi = [head is not None and bool(head.card.phi) for head in known]
        identifiers = [span for span, phi in zip(document.spans, by_phi, strict=True) if phi]
        if not identifiers or all(by_phi):
            return document

        covers = _Covers(identifiers)
        dropped = {s.id for s, phi in zip(document.spans, by_phi, strict=True) if not phi and covers.reaches_over(s)}
        relations = tuple(r for r in document.relations if not {r.head, r.tail} & dropped)
        return document.with_(spans=tuple(s for s in document.spans if s.id not in dropped), relations=relations)

    def _by_rules(self, document: Document) -> Document:
        """Add attributes found by rules to mentions, in the language of the head that found them."""
        asked = "" if self.options.language == ALL_LANGUAGES else self.options.language or ""
        by_language: dict[str, list[int]] = {}
        for number, span in enumerate(document.spans):
            head = self.bundle.spec.heads.get(span.attributes.get("head", ""))
            if head is None or not head.card.phi:
                own = head.card.language if head else ""
                by_language.setdefault(own if own in LANGUAGES else asked, []).append(number)
        spans = list(document.spans)
        for language, numbers in by_language.items():
            found = attributes(
                document.text, [spans[n] for n in numbers], language or LanguageGuess.of([document.text]).language
            )
            for number, more in zip(numbers, found, strict=True):
                if more:
                    spans[number] = spans[number].with_attributes(more)
        return document.with_(spans=tuple(spans))

    @property
    def _document_heads(self) -> list[str]:
        return self.bundle.spec.document_heads(self.options.heads, self.options.language)

    @cached_property
    def _running(self) -> list[str]:
        """All heads that may run on a document, including attribute heads."""
        return self._with_attributes(self._document_heads)

    @cached_property
    def _readings(self) -> dict[tuple[type, str | None], HeadChoice]:
        return {}

    @cached_property
    def _demands(self) -> Demands:
        return Demands(self.bundle.spec, self.bundle.calibration, self.options)

    @cached_property
    def _biased(self) -> Bundle:
        """The bundle with the biases for the target recall."""
        biases = self._demands.biases(self._document_heads)
        return replace(self.bundle, biases=biases) if biases != self.bundle.biases else self.bundle


def annotate_together(asked: Sequence[tuple[AnnotationEngine, Record, str | None]]) -> list[Record]:
    """Annotate records, each with its engine and the language chosen by it. All engines must have the same bundle.

    Records with the same heads and biases share their passes. Thresholds and rules are applied to each record separately.
    """
    groups: dict[HeadChoice, list[int]] = {}
    for number, (engine, record, language) in enumerate(asked):
        groups.setdefault(engine.reading(type(record), language), []).append(number)
    made: dict[int, Record] = {}
    for reading, numbers in groups.items():
        found = asked[numbers[0]][0]._annotate(reading, [asked[number][1] for number in numbers])
        for number, record in zip(numbers, found, strict=True):
            made[number] = asked[number][0]._asked_for(record)
    return [made[number] for number in range(len(asked))]


def chooses_language(spec: BundleSpec, options: AnnotateOptions) -> bool:
    """Whether each document is read by the heads for its language: the bundle has several, and the options name no heads and no
    language."""
    return options.language is None and not options.heads and len(spec.languages) > 1


class _Covers:
    """Identifiers sorted by position, so that a mention is not compared with all of them."""

    def __init__(self, identifiers: Sequence[Span]) -> None:
        self._places = sorted((span.start, span.end, span.score or 0.0) for span in identifiers)
        self._starts = [start for start, _, _ in self._places]
        self._furthest = list(accumulate((end for _, end, _ in self._places), max))

    def reaches_over(self, span: Span) -> bool:
        """Whether an identifier covers a whole mention with at least the same score."""
        start, end, score = span.start, span.end, span.score or 0.0
        number = bisect_right(self._starts, start) - 1
        while number >= 0 and self._furthest[number] >= end:
            if self._places[number][1] >= end and self._places[number][2] >= score:
                return True
            number -= 1
        return False


@contextmanager
def kept_objects() -> Iterator[None]:
    """Exclude loaded objects from garbage collection: they are never freed, and scanning them takes a fifth of the time."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _probe(bundle: Bundle) -> tuple[list[Instance], list[str]]:
    """Encoder inputs of several lengths, with marked tokens for heads that read some."""
    words = ["No", "fever", "after", "500", "mg", "paracetamol;", "afebrile", "since", "2019-03-04."]
    text = " ".join(words[number % len(words)] for number in range(130))
    [encoding] = bundle.tokens.encode([text])
    size = min(bundle.spec.max_length - bundle.tokens.overhead, 130)
    lengths = sorted({min(length, size) for length in (1, 5, 12, 33, 70, 130)})
    instances = [Instance(bundle.tokens.wrap(encoding.ids[:length]), 0, marks=(0, 1)) for length in lengths]
    return instances, list(bundle.spec.heads)
