"""From records to annotated records: the one path that the command line, Python and the service share, so that their answers are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import LanguageMismatch, RecordKind
from osler.artifacts.runner import SteadyRunner
from osler.stages.serve.config import AnnotateOptions
from osler.tasks.instances.base import Instance
from osler.text.document import Document, Record, Relation, Span, TextPair
from osler.text.language import LanguageGuess


@dataclass(frozen=True)
class AnnotationEngine:
    """A loaded bundle and what is asked of it."""

    bundle: Bundle
    options: AnnotateOptions

    @classmethod
    def load(cls, bundle: str | Path, options: AnnotateOptions, device: str = "auto") -> AnnotationEngine:
        """Load a bundle so that what it finds in a record does not depend, to the last bit, on the records beside it."""
        loaded = Bundle.load(bundle, device)
        return cls(replace(loaded, runner=SteadyRunner(loaded.runner, lambda: _probe(loaded))), options)

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

    def _annotate(self, kind: type, records: list[Record]) -> Sequence[Record]:
        spec, heads, language = self.bundle.spec, self.options.heads, self.options.language
        if kind is TextPair:
            pairs = [record for record in records if isinstance(record, TextPair)]
            return self.bundle.compare(pairs, spec.pair_heads(heads, language))
        documents = [record for record in records if isinstance(record, Document)]
        found = self.bundle.annotate(documents, spec.document_heads(heads, language))
        return [_above(self.options.min_score, document) for document in found]


def _probe(bundle: Bundle) -> tuple[list[Instance], list[str]]:
    """Encoder inputs of several lengths, with marked tokens for heads that read some."""
    words = ["No", "fever", "after", "500", "mg", "paracetamol;", "afebrile", "since", "2019-03-04."]
    text = " ".join(words[number % len(words)] for number in range(130))
    [encoding] = bundle.tokens.encode([text])
    size = min(bundle.spec.max_length - bundle.tokens.overhead, 130)
    lengths = sorted({min(length, size) for length in (1, 5, 12, 33, 70, 130)})
    instances = [Instance(bundle.tokens.wrap(encoding.ids[:length]), 0, marks=(0, 1)) for length in lengths]
    return instances, list(bundle.spec.heads)


def _above(min_score: float, document: Document) -> Document:
    """Drop spans and relations with a low score, and relations of dropped spans. What has no score is kept."""

    def high(item: Span | Relation) -> bool:
        return item.score is None or item.score >= min_score

    spans = tuple(filter(high, document.spans))
    kept = {span.id for span in spans}
    relations = tuple(r for r in document.relations if high(r) and {r.head, r.tail} <= kept)
    return document.with_(spans=spans, relations=relations)
