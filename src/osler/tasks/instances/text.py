"""Texts and pairs of texts: classification, multi-label classification and regression."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from osler.core.errors import InputError
from osler.tasks.card import Kind
from osler.tasks.instances.base import (
    PLAIN,
    Builder,
    Built,
    Confidence,
    Evidence,
    Instance,
    ReadingUnit,
    document_windows,
    sentences_of,
    softmax,
)
from osler.text.document import Document, Record, TextPair

_SCORED_LABELS = 300
"""Number of labels that get a score in a multi-label prediction: enough to rank the codes of a terminology."""
_WORTH_SCORING = 0.01
"""Labels with at least this probability get a score whatever their rank."""


class TextBuilder(Builder):
    """One target per text. A document longer than the window is read in windows, whose outputs are pooled."""

    @property
    def reading(self) -> ReadingUnit | None:
        return ReadingUnit() if self.card.record == "document" and self.protocol.unit == "document" else None

    @property
    def outputs(self) -> list[str]:
        return list(self.card.labels)

    @property
    def orders(self) -> tuple[bool, ...]:
        """Both orders in a symmetric task, unless the protocol asks for one."""
        first = self.protocol.swapped
        return (first, not first) if self.card.symmetric and self.protocol.order == "both" else (first,)

    def build(self, records: Sequence[Record], *, gold: bool) -> Built:
        """Build windows, sentences or pairs. Training reads a pair in one order."""
        if self.card.record == "document" and self.protocol.unit == "sentence":
            return Built(self._sentences(records, gold=gold))
        targets = [self.target(record, number) if gold else None for number, record in enumerate(records)]
        if self.card.record == "pair":
            return Built(self._pairs(records, targets, self.orders[:1] if gold else self.orders))
        windows = document_windows(self.tokens, records, self.max_length, self.overlap)
        kept = {number for number, record in enumerate(records) if not gold or self._trains_on(record)}
        return Built([replace(w, target=targets[w.record]) for w in windows if w.record in kept])

    def decode(
        self,
        records: Sequence[Record],
        instances: Sequence[Instance],
        outputs: Sequence[np.ndarray],
        transitions: np.ndarray | None = None,
        confidence: Confidence = PLAIN,
    ) -> list[Record]:
        """Pool the outputs of each record and convert them to a prediction."""
        pooled = self._pooled(instances, outputs)
        return [self.predicted(record, pooled[number], confidence) for number, record in enumerate(records)]

    def _pooled(self, instances: Sequence[Instance], outputs: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        grouped: dict[int, list[np.ndarray]] = defaultdict(list)
        for instance, output in zip(instances, outputs, strict=True):
            grouped[instance.record].append(output)
        return {number: self.pool(np.stack(parts)) for number, parts in grouped.items()}

    def evidence(
        self, gold: Sequence[Record], instances: Sequence[Instance], outputs: Sequence[np.ndarray]
    ) -> Evidence | None:
        pooled = self._pooled(instances, outputs)
        scored = [(number, record) for number, record in enumerate(gold) if self._trains_on(record)]
        if self.head == Kind.REGRESSION or not scored:
            return None
        targets = [self.target(record, number) for number, record in scored]
        owners = [number for number, _ in scored]
        return Evidence(np.stack([pooled[number] for number in owners]), np.array(targets), np.array(owners))

    @abstractmethod
    def target(self, record: Record, number: int) -> object:
        """Training target of a record."""

    def pool(self, outputs: np.ndarray) -> np.ndarray:
        """Combine the outputs of several windows or orders into one."""
        return np.asarray(outputs.mean(axis=0))

    @abstractmethod
    def predicted(self, record: Record, output: np.ndarray, confidence: Confidence) -> Record:
        """Return the record with its prediction."""

    def label_index(self, label: str, number: int) -> int:
        try:
            return self.card.labels.index(label)
        except ValueError:
            raise InputError(
                f"record {number + 1} has the label {label!r}, which is not in the card",
                where=f"task {self.card.name}",
                fix=f"Add it to the card's labels, or remove it from the data. Known: {', '.join(self.card.labels)}",
            ) from None

    def _trains_on(self, record: Record) -> bool:
        return self.protocol.records == "all" or bool(record.labels)

    def _sentences(self, records: Sequence[Record], *, gold: bool) -> list[Instance]:
        """Build one instance per sentence, or several for a long one; its labels are those of the overlapping spans."""
        owners: list[int] = []
        parts: list[Document] = []
        for number, record in enumerate(records):
            if isinstance(record, Document) and (not gold or self._trains_on(record)):
                for start, end in sentences_of(self.card, record) or [(0, len(record.text))]:
                    labels = {span.label: None for span in record.spans if span.start < end and start < span.end}
                    parts.append(Document(record.id, record.text[start:end], labels=tuple(labels) if gold else ()))
                    owners.append(number)
        windows = document_windows(self.tokens, parts, self.max_length, self.overlap)
        targets = [self.target(part, owner) if gold else None for part, owner in zip(parts, owners, strict=True)]
        return [replace(w, record=owners[w.record], target=targets[w.record]) for w in windows]

    def _pairs(self, records: Sequence[Record], targets: Sequence[object], orders: Sequence[bool]) -> list[Instance]:
        pairs = [record for record in records if isinstance(record, TextPair)]
        instances = []
        for swapped in orders:
            # Encoded again for the second order, because `pair` truncates its encodings in place.
            one = self.tokens.encode([pair.second if swapped else pair.first for pair in pairs])
            other = self.tokens.encode([pair.first if swapped else pair.second for pair in pairs])
            for number, (a, b) in enumerate(zip(one, other, strict=True)):
                ids, types = self.tokens.pair(a, b, self.max_length)
                instances.append(Instance(ids, number, targets[number], types))
        return instances


class ClassificationBuilder(TextBuilder):
    """Predicts exactly one label."""

    head = Kind.CLASSIFICATION

    def target(self, record: Record, number: int) -> int:
        if len(record.labels) != 1:
            raise InputError(
                f"record {number + 1} has {len(record.labels)} labels, a classification task needs exactly one",
                where=f"task {self.card.name}",
                fix='Use kind = "multilabel" in the card, or correct the data',
            )
        return self.label_index(record.labels[0], number)

    def predicted(self, record: Record, output: np.ndarray, confidence: Confidence) -> Record:
        best = int(output.argmax())
        probabilities = softmax(output / confidence.temperature)
        label = self.card.labels[best]
        return record.with_(labels=(label,), value=None, scores={label: _rounded(probabilities[best])})


class MultiLabelBuilder(TextBuilder):
    """Predicts any number of labels. A long document has a label if any of its windows has it."""

    head = Kind.MULTILABEL

    def target(self, record: Record, number: int) -> np.ndarray:
        row = np.zeros(len(self.card.labels), dtype=np.float32)
        for label in record.labels:
            row[self.label_index(label, number)] = 1.0
        return row

    def pool(self, outputs: np.ndarray) -> np.ndarray:
        return np.asarray(outputs.max(axis=0))

    def predicted(self, record: Record, output: np.ndarray, confidence: Confidence) -> Record:
        likely = _sigmoid(output + confidence.bias)
        labels = tuple(label for label, p in zip(self.card.labels, likely, strict=True) if p > 0.5)
        probabilities = _sigmoid(output / confidence.temperature)
        scored = max(_SCORED_LABELS, len(labels), int((probabilities >= _WORTH_SCORING).sum()))
        best = np.argsort(-output, kind="stable")[:scored]
        scores = {self.card.labels[i]: _rounded(probabilities[i]) for i in best}
        return record.with_(labels=labels, value=None, scores=scores)


class RegressionBuilder(TextBuilder):
    """Predicts a number."""

    head = Kind.REGRESSION

    @property
    def outputs(self) -> list[str]:
        return ["value"]

    def target(self, record: Record, number: int) -> float:
        if record.value is None:
            raise InputError(
                f"record {number + 1} has no value", where=f"task {self.card.name}", fix="Correct the data"
            )
        return float(record.value)

    def predicted(self, record: Record, output: np.ndarray, confidence: Confidence) -> Record:
        return record.with_(labels=(), value=_rounded(output.reshape(-1)[0]))


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-values)))


def _rounded(number: float) -> float:
    return round(float(number), 6)
