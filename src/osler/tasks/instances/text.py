"""Whole texts and pairs of texts: classification, multi-label classification and regression."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from osler.core.errors import InputError
from osler.tasks.card import Kind
from osler.tasks.instances.base import Builder, Built, Instance, document_windows, sentences_of, softmax
from osler.text.document import Document, Record, TextPair
from osler.text.label_scores import score_key, score_text

_NOTED = 300
"""So many labels are noted with their probability: enough for a ranking of the codes of a terminology."""
_WORTH_NOTING = 0.01
"""A label with this probability is noted whatever its rank."""


class TextBuilder(Builder):
    """One target for a text. A document longer than the window is read in windows whose outputs are pooled."""

    @property
    def windowed(self) -> bool:
        """Whole documents are read in windows; sentences and pairs are not."""
        return self.card.record == "document" and self.protocol.unit == "document"

    @property
    def outputs(self) -> list[str]:
        """The labels of the card."""
        return list(self.card.labels)

    def build(self, records: Sequence[Record], *, gold: bool) -> Built:
        """Windows of documents, or pairs in their order (both orders at prediction time where the task is symmetric)."""
        if self.protocol.unit == "sentence" and self.card.record == "document":
            return self._sentences(records, gold=gold)
        targets = [self.target(record, number) if gold else None for number, record in enumerate(records)]
        if self.card.record == "pair":
            return Built(self._pairs(records, targets, both_orders=self.card.symmetric and not gold))
        windows = document_windows(self.tokens, records, self.max_length, self.overlap)
        kept = {number for number, record in enumerate(records) if not gold or self.takes_part(record)}
        return Built([replace(w, target=targets[w.record]) for w in windows if w.record in kept])

    def decode(
        self, records: Sequence[Record], instances: Sequence[Instance], outputs: Sequence[np.ndarray]
    ) -> list[Record]:
        """Pool the outputs of each record's instances and read the prediction off."""
        grouped: dict[int, list[np.ndarray]] = defaultdict(list)
        for instance, output in zip(instances, outputs, strict=True):
            grouped[instance.record].append(output)
        return [self.predicted(record, self.pool(np.stack(grouped[number]))) for number, record in enumerate(records)]

    def takes_part(self, record: Record) -> bool:
        """Whether a record is trained on under the protocol."""
        return self.protocol.records == "all" or bool(record.labels)

    def _sentences(self, records: Sequence[Record], *, gold: bool) -> Built:
        """One instance a sentence (or several, for a long one); its labels are those of the spans over it."""
        owners: list[int] = []
        parts: list[Document] = []
        for number, record in enumerate(records):
            if isinstance(record, Document) and (not gold or self.takes_part(record)):
                for start, end in sentences_of(self.card, record) or [(0, len(record.text))]:
                    labels = {span.label: None for span in record.spans if span.start < end and start < span.end}
                    parts.append(Document(record.id, record.text[start:end], labels=tuple(labels) if gold else ()))
                    owners.append(number)
        windows = document_windows(self.tokens, parts, self.max_length, self.overlap)
        targets = [self.target(part, owner) if gold else None for part, owner in zip(parts, owners, strict=True)]
        return Built([replace(w, record=owners[w.record], target=targets[w.record]) for w in windows])

    def _pairs(self, records: Sequence[Record], targets: Sequence[object], *, both_orders: bool) -> list[Instance]:
        instances = []
        for swapped in (False, True) if both_orders else (False,):
            pairs = [record for record in records if isinstance(record, TextPair)]
            first = self.tokens.encode([pair.second if swapped else pair.first for pair in pairs])
            second = self.tokens.encode([pair.first if swapped else pair.second for pair in pairs])
            for number, (a, b) in enumerate(zip(first, second, strict=True)):
                ids, types = self.tokens.pair(a, b, self.max_length)
                instances.append(Instance(ids, number, targets[number], types))
        return instances

    def label_index(self, label: str, number: int) -> int:
        """The output of a label, or an error for one the task does not have."""
        try:
            return self.card.labels.index(label)
        except ValueError:
            raise InputError(
                f"record {number + 1} carries the label {label!r}, which the card does not list",
                where=f"task {self.card.name}",
                fix=f"Add it to the card's labels, or remove it from the data. Known: {', '.join(self.card.labels)}",
            ) from None

    @abstractmethod
    def target(self, record: Record, number: int) -> object:
        """The training target of a record."""

    def pool(self, outputs: np.ndarray) -> np.ndarray:
        """One output from those of several windows or orders: their mean."""
        return np.asarray(outputs.mean(axis=0))

    @abstractmethod
    def predicted(self, record: Record, output: np.ndarray) -> Record:
        """The record with the prediction that the pooled output means."""


class ClassificationBuilder(TextBuilder):
    """Exactly one label."""

    head = Kind.CLASSIFICATION

    def target(self, record: Record, number: int) -> int:
        """The index of the one label."""
        if len(record.labels) != 1:
            raise InputError(
                f"record {number + 1} has {len(record.labels)} labels, a classification task needs exactly one",
                where=f"task {self.card.name}",
                fix='Use kind = "multilabel" in the card, or correct the data',
            )
        return self.label_index(record.labels[0], number)

    def predicted(self, record: Record, output: np.ndarray) -> Record:
        """The most probable label, its probability as `score` in the metadata."""
        probabilities = softmax(output)
        best = int(probabilities.argmax())
        label = self.card.labels[best]
        scores = {score_key(label): score_text(probabilities[best])}
        return record.with_(labels=(label,), value=None, meta={**record.meta, **scores})


class MultiLabelBuilder(TextBuilder):
    """Any number of labels. A long document has a label if any of its windows shows it."""

    head = Kind.MULTILABEL

    def target(self, record: Record, number: int) -> np.ndarray:
        """A row of zeros and ones."""
        row = np.zeros(len(self.card.labels), dtype=np.float32)
        for label in record.labels:
            row[self.label_index(label, number)] = 1.0
        return row

    def pool(self, outputs: np.ndarray) -> np.ndarray:
        """The largest output of each label: one window that mentions it is enough."""
        return np.asarray(outputs.max(axis=0))

    def predicted(self, record: Record, output: np.ndarray) -> Record:
        """Every label more probable than not; in the metadata probabilities, best first, for whoever ranks or draws the line elsewhere."""
        probabilities = 1.0 / (1.0 + np.exp(-output))
        noted = max(_NOTED, int((probabilities >= _WORTH_NOTING).sum()))
        best = np.argsort(-output, kind="stable")[:noted]
        scores = {score_key(self.card.labels[i]): score_text(probabilities[i]) for i in best}
        labels = tuple(label for label, p in zip(self.card.labels, probabilities, strict=True) if p > 0.5)
        return record.with_(labels=labels, value=None, meta={**record.meta, **scores})


class RegressionBuilder(TextBuilder):
    """A number."""

    head = Kind.REGRESSION

    @property
    def outputs(self) -> list[str]:
        """The one value."""
        return ["value"]

    def target(self, record: Record, number: int) -> float:
        """The value as given."""
        if record.value is None:
            raise InputError(
                f"record {number + 1} has no value", where=f"task {self.card.name}", fix="Correct the data"
            )
        return float(record.value)

    def predicted(self, record: Record, output: np.ndarray) -> Record:
        """The predicted value."""
        return record.with_(labels=(), value=float(output.reshape(-1)[0]))
