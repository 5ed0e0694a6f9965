"""From records to annotated records: the one path that the command line, Python and the service share, so that their answers are equal."""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
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
    """Heads that read a record, set to find as much as is asked for."""

    kind: type
    heads: tuple[str, ...]
    biases: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class AnnotationEngine:
    """A loaded bundle and what is asked of it."""

    bundle: Bundle
    options: AnnotateOptions

    @classmethod
    def load(
        cls, bundle: str | Path, options: AnnotateOptions, device: str = "auto", precision: Precision = "fp32"
    ) -> AnnotationEngine:
        """Load a bundle, which is then `steady`."""
        return cls.steady(Bundle.load(bundle, device, precision), options)

    @classmethod
    def steady(cls, bundle: Bundle, options: AnnotateOptions) -> AnnotationEngine:
        """An engine of which, on a CPU, what it finds in a record does not depend, to the last bit, on the records beside it.

        On a GPU it may in the last digits of a score: matrix products there change with the size of a batch, and one text at a
        time would leave the GPU idle.
        """
        if isinstance(bundle.runner, TorchRunner) and bundle.runner.device != "cpu":
            return cls(bundle, options)
        return cls(replace(bundle, runner=SteadyRunner(bundle.runner, lambda: _probe(bundle))), options)

    def languages(self, records: Sequence[Record]) -> list[str | None]:
        """The language whose heads read each record, by its text; None where all heads that are asked for do.

        A document is read by the heads of the language that at least two in three of its common words are of. One without common words,
        with a mixture of them, or in a language that the bundle has no heads for, is read by all heads. Nothing but the document's own
        text counts.
        """
        if not chooses_language(self.bundle.spec, self.options):
            return [None] * len(records)
        known = self.bundle.spec.languages
        likely = (LanguageGuess.of([r.text]).likely if isinstance(r, Document) else None for r in records)
        return [language if language in known else None for language in likely]

    def annotate(self, records: Sequence[Record], languages: Sequence[str | None] | None = None) -> list[Record]:
        """Annotate documents and pairs of texts, in the order given.

        A caller who has asked for the `languages` of these records hands them on, so that texts are not looked through twice.
        """
        languages = self.languages(records) if languages is None else languages
        return annotate_together([(self, *pair) for pair in zip(records, languages, strict=True)])

    def language_mismatch(
        self, records: Sequence[Record], languages: Sequence[str | None] | None = None
    ) -> LanguageMismatch | None:
        """Heads in use that were trained on another language than these records, if their language is beyond doubt.

        Records that are read by the heads of their language have none.
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
        """What thresholds or a target recall cost on dev; an error if they cannot be met."""
        return self._demands.costs(heads)

    def reading(self, kind: type, language: str | None) -> HeadChoice:
        """Which heads read records of this kind and language; an error if what is asked for cannot be had."""
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
        """What heads find in records of one kind, before anything is dropped or added."""
        if reading.kind is TextPair:
            return self.bundle.compare([r for r in records if isinstance(r, TextPair)], reading.heads)
        return self._biased.annotate([r for r in records if isinstance(r, Document)], reading.heads)

    def _asked_for(self, record: Record) -> Record:
        """What is left of what the heads found, with the attributes that rules find."""
        if isinstance(record, TextPair):
            return record
        kept = self._without_identifiers(self._demands.kept(record))
        return self._by_rules(kept) if self.options.attributes in ("rules", "both") else kept

    def _with_attributes(self, chosen: list[str]) -> list[str]:
        """The heads to run: attribute heads run if `attributes` asks for them and a head of their language finds mentions."""
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
        """Drop entities that an identifier covers: heads for entities never saw names and addresses, and mark some of them."""
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
        """Add what the rules say about the mentions, in the language of the head that found them."""
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
        """The heads that may be run on a document, with those for attributes."""
        return self._with_attributes(self._document_heads)

    @cached_property
    def _readings(self) -> dict[tuple[type, str | None], HeadChoice]:
        return {}

    @cached_property
    def _demands(self) -> Demands:
        return Demands(self.bundle.spec, self.bundle.calibration, self.options)

    @cached_property
    def _biased(self) -> Bundle:
        """The bundle, set to find as much as is asked for."""
        biases = self._demands.biases(self._document_heads)
        return replace(self.bundle, biases=biases) if biases != self.bundle.biases else self.bundle


def annotate_together(asked: Sequence[tuple[AnnotationEngine, Record, str | None]]) -> list[Record]:
    """Annotate records, each with its engine and the language that the engine gives it; all engines have the same bundle.

    Records that the same heads read share everything up to what is asked of the scores.
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
    """Whether each document is read by the heads of its own language: there are several, and neither heads nor a language are asked for."""
    return options.language is None and not options.heads and len(spec.languages) > 1


class _Covers:
    """Identifiers by place, so that a mention is not compared with all of them."""

    def __init__(self, identifiers: Sequence[Span]) -> None:
        self._places = sorted((span.start, span.end, span.score or 0.0) for span in identifiers)
        self._starts = [start for start, _, _ in self._places]
        self._furthest = list(accumulate((end for _, end, _ in self._places), max))

    def reaches_over(self, span: Span) -> bool:
        """Whether an identifier covers all of a mention and is at least as sure."""
        start, end, score = span.start, span.end, span.score or 0.0
        number = bisect_right(self._starts, start) - 1
        while number >= 0 and self._furthest[number] >= end:
            if self._places[number][1] >= end and self._places[number][2] >= score:
                return True
            number -= 1
        return False


@contextmanager
def kept_objects() -> Iterator[None]:
    """Leave what is loaded out of garbage collection: it stays anyway, and looking through it costs a fifth of the time."""
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
