"""What the records of a corpus hold, counted in one pass: enough to say what kind of task they make."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from osler.core.errors import InputError
from osler.tasks.card import Kind
from osler.tasks.discover.language import LanguageCount
from osler.text.document import Document, Record
from osler.text.sentences import sentences

_PATIENT = ("patient", "patient_id", "subject", "subject_id")
_CROSSING = 0.1
"""Past this share of relations between sentences, a protocol that looks inside sentences only would be unfair."""


@dataclass
class Survey:
    """Counts over all records, whatever split they are in."""

    records: int = 0
    pairs: int = 0
    spans: Counter[str] = field(default_factory=Counter)
    relations: Counter[str] = field(default_factory=Counter)
    arguments: Counter[tuple[str, str]] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    several: int = 0
    """Records with more than one label."""
    unlabelled: int = 0
    values: int = 0
    crossing: int = 0
    """Relations between mentions in different sentences."""
    meta: Counter[str] = field(default_factory=Counter)
    tokenised: int = 0
    language: LanguageCount = field(default_factory=LanguageCount)

    def add(self, record: Record) -> None:
        """Count one record."""
        self.records += 1
        self.labels.update(record.labels)
        self.several += len(record.labels) > 1
        self.unlabelled += not record.labels
        self.values += record.value is not None
        self.meta.update(record.meta.keys())
        self.tokenised += record.meta.get("tokens") == "blanks"
        if not isinstance(record, Document):
            self.pairs += 1
            self.language.add(record.first)
            self.language.add(record.second)
            return
        self.language.add(record.text)
        self.spans.update(span.label for span in record.spans)
        if record.relations:
            self._relate(record)

    def _relate(self, document: Document) -> None:
        spans = {span.id: span for span in document.spans}
        starts = [start for start, _ in sentences(document.text)]
        for relation in document.relations:
            head, tail = spans[relation.head], spans[relation.tail]
            self.relations[relation.label] += 1
            self.arguments[head.label, tail.label] += 1
            first, last = sorted((head.start, tail.start))
            self.crossing += any(first < start <= last for start in starts)

    def kind(self) -> Kind:
        """The kind of task these records make: the richest thing they have."""
        if self.relations:
            return Kind.RELATION
        # Spans that repeat the labels of their document are the evidence for them (HoC marks sentences), not mentions.
        if self.spans and not self.spans.keys() <= self.labels.keys():
            return Kind.TAGGING
        if self.labels:
            return Kind.MULTILABEL if self.several else Kind.CLASSIFICATION
        if self.values:
            return Kind.REGRESSION
        columns = [name for name, count in sorted(self.meta.items()) if count == self.records]
        fix = "Check --format and the files"
        if columns:
            fix = f"If one of these columns has the labels, name it (--set options.label=NAME): {', '.join(columns)}"
        raise InputError("no mention, relation, label or value was found, so there is nothing to learn", fix=fix)

    def possible(self) -> list[Kind]:
        """Every kind of task for which the records have what it needs."""
        has = {
            Kind.RELATION: self.relations,
            Kind.TAGGING: self.spans,
            Kind.MULTILABEL: self.labels,
            Kind.CLASSIFICATION: self.labels and not self.several,
            Kind.REGRESSION: self.values,
        }
        return [kind for kind, there in has.items() if there]

    def task_labels(self, kind: Kind) -> Counter[str]:
        """The labels a task of this kind predicts, with how often they occur."""
        if kind is Kind.REGRESSION:
            return Counter()
        return {Kind.TAGGING: self.spans, Kind.RELATION: self.relations}.get(kind, self.labels)

    def group(self) -> str:
        """What keeps records together when a split is carved out: the patient, the first text of a pair, the document."""
        for key in _PATIENT:
            if self.meta[key] == self.records:
                return f"meta:{key}"
        return "first" if self.pairs == self.records else "id"

    def sentence_source(self) -> str:
        """Where sentences end, in the words of a card."""
        if self.meta["sentences"] == self.records:
            return "meta"
        return "lines" if self.tokenised == self.records else "split"

    def candidates(self) -> str:
        """Whether relations are looked for inside sentences or across the whole document."""
        return "document" if self.crossing > _CROSSING * self.relations.total() else "sentence"
