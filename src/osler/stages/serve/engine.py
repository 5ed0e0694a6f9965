"""From records to annotated records: the one path that the command line, Python and the service share, so that their answers are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import LanguageMismatch, RecordKind
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.demands import Demands
from osler.text.document import Document, Record, TextPair
from osler.text.language import LanguageGuess


@dataclass(frozen=True)
class AnnotationEngine:
    """A loaded bundle and what is asked of it."""

    bundle: Bundle
    options: AnnotateOptions

    @classmethod
    def load(cls, bundle: str | Path, options: AnnotateOptions, device: str = "auto") -> AnnotationEngine:
        return cls(Bundle.load(bundle, device), options)

    def annotate(self, records: Sequence[Record]) -> list[Record]:
        """Annotate documents and pairs of texts, in the order given."""
        return [made for kind, group in groupby(records, type) for made in self._annotate(kind, list(group))]

    def language_mismatch(self, records: Sequence[Record]) -> LanguageMismatch | None:
        """Heads in use that were trained on another language than these records, if their language is beyond doubt."""
        if self.options.language is not None or not records:
            return None
        guess = LanguageGuess()
        for record in records:
            guess.add(record.text if isinstance(record, Document) else f"{record.first} {record.second}")
        kind: RecordKind = "document" if isinstance(records[0], Document) else "pair"
        spec = self.bundle.spec
        return spec.language_mismatch(guess, spec.heads_for(kind, self.options.heads))

    def costs(self, heads: Sequence[str]) -> list[str]:
        """What thresholds or a target recall cost on dev; an error if they cannot be met."""
        return self._demands.costs(heads)

    def _annotate(self, kind: type, records: list[Record]) -> Sequence[Record]:
        spec, heads, language = self.bundle.spec, self.options.heads, self.options.language
        if kind is TextPair:
            pairs = [record for record in records if isinstance(record, TextPair)]
            return self.bundle.compare(pairs, spec.pair_heads(heads, language))
        documents = [record for record in records if isinstance(record, Document)]
        return [self._demands.kept(found) for found in self._biased.annotate(documents, self._document_heads)]

    @property
    def _document_heads(self) -> list[str]:
        return self.bundle.spec.document_heads(self.options.heads, self.options.language)

    @cached_property
    def _demands(self) -> Demands:
        return Demands(self.bundle.spec, self.bundle.calibration, self.options)

    @cached_property
    def _biased(self) -> Bundle:
        """The bundle, set to find as much as is asked for."""
        return replace(self.bundle, biases=self._demands.biases(self._document_heads))
