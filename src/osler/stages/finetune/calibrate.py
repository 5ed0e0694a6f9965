"""Calibrate a bundle's scores on its dev splits, and measure precision and recall there by threshold and bias.

All numbers are rounded, so equal head outputs give a byte-identical file.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from osler.artifacts.bundle import Bundle
from osler.artifacts.calibration import (
    ALL,
    BundleCalibration,
    Curves,
    HeadCalibration,
    OperatingPoint,
    ReliabilityRow,
)
from osler.metrics.calibration import calibration
from osler.metrics.deid import score_deid
from osler.metrics.spans import touching_joined
from osler.tasks.card import Kind, Protocol, TaskCard
from osler.tasks.instances.base import LEAST_SURE, PLAIN, Confidence, Instance, softmax
from osler.tasks.scoring import in_text_order
from osler.text.document import Document, Record, documents_in

_KINDS = (Kind.TAGGING, Kind.RELATION, Kind.CLASSIFICATION, Kind.MULTILABEL)
"""Kinds of tasks whose predictions are right or wrong, unlike a regression value."""
_FOLDS = 5
_SCORES = (*(number / 20 for number in range(20)), 0.98, 0.99)
_BIASES = (*(number / 2 for number in range(20)), 10.0, 11.0, 12.0, 14.0, 16.0)
_LABELS = 60
"""Maximum number of labels for curves by label."""
_CHARACTERS = 400_000
"""Maximum number of characters for the curve over biases; a larger dev split is subsampled."""
_ENOUGH, _USELESS = 0.9995, 0.01
"""Stop raising the bias once recall reaches the first or precision falls below the second."""
_LEAST_SLOPE = 0.05


@dataclass(frozen=True)
class DevSet:
    """The dev split of a task, and how it is scored."""

    card: TaskCard
    protocol: Protocol
    head: str
    records: list[Record]
    instances: list[Instance]


class _Predicted(NamedTuple):
    """Predictions on dev: the score of each, whether it is right, its record and its label."""

    scores: np.ndarray
    right: np.ndarray
    records: np.ndarray
    labels: np.ndarray


def calibrate(bundle: Bundle, dev: Mapping[str, DevSet]) -> BundleCalibration:
    """Calibrate every head that has a dev split; a joint head on the dev splits of all its tasks."""
    heads: dict[str, list[_Answers]] = {}
    for data in dev.values():
        if data.card.kind in _KINDS and data.instances:
            heads.setdefault(data.head, []).append(_Answers.of(bundle, data))
    return BundleCalibration(heads={name: _calibrate(answers) for name, answers in heads.items()})


def _calibrate(answers: Sequence[_Answers]) -> HeadCalibration:
    kind = answers[0].data.card.kind
    if kind is Kind.TAGGING:
        before = _predictions(answers, PLAIN)
        fitted, after = _fit_mentions(before)
    else:
        fitted, before, after = _fit_temperature(answers[0])
    counted: str | None = {Kind.TAGGING: "mentions", Kind.RELATION: "relations", Kind.MULTILABEL: "labels"}.get(kind)
    if kind is Kind.TAGGING and all(item.data.card.phi for item in answers):
        counted = "characters"
    values: dict[str, Any] = {"temperature": fitted.temperature, "slope": fitted.slope, "offset": fitted.offset}
    if len(after):
        raw, rated = (calibration(scores.tolist(), before.right.tolist()) for scores in (before.scores, after))
        values |= {"error_before": round(raw.expected_error, 4), "error_after": round(rated.expected_error, 4)}
        values["reliability"] = [
            ReliabilityRow(b.low, b.high, b.count, round(b.confidence, 4), round(b.accuracy, 4)) for b in rated.bins
        ]
    if counted:
        values["thresholds"] = _threshold_curves(answers, _predictions(answers, fitted))
        values["recall"] = _recall_curves([item.thinned() for item in answers], phi=counted == "characters")
    return HeadCalibration(predictions=len(after), counted=counted, **values)


@dataclass(frozen=True)
class _Answers:
    """Outputs of a head on one dev set, kept undecoded to decode them in several ways."""

    bundle: Bundle
    data: DevSet
    outputs: list[np.ndarray]

    @classmethod
    def of(cls, bundle: Bundle, data: DevSet) -> _Answers:
        return cls(bundle, data, bundle.runner.outputs(data.instances, [data.head])[data.head])

    def decoded(self, confidence: Confidence) -> list[Record]:
        """Decode the predictions for scoring: only the task's own labels, under its protocol."""
        data, builder = self.data, self.bundle.builders[self.data.head]
        transitions = self.bundle.runner.transitions(data.head)
        found = builder.decode(data.records, data.instances, self.outputs, transitions, confidence)
        if data.card.kind is Kind.TAGGING:
            own = data.card.under(data.protocol).labels
            found = [record.only(own) if isinstance(record, Document) else record for record in found]
        return found

    def gold(self) -> list[Record]:
        return [self.data.protocol.relabelled(record) for record in self.data.records]

    def thinned(self) -> _Answers:
        """Keep every nth record if dev is larger than the curves need."""
        records = self.data.records
        size = sum(len(r.text) if isinstance(r, Document) else len(r.first) + len(r.second) for r in records)
        step = max(1, -(-size // _CHARACTERS))
        if step == 1:
            return self
        pairs = zip(self.data.instances, self.outputs, strict=True)
        kept = [(replace(i, record=i.record // step), output) for i, output in pairs if i.record % step == 0]
        data = replace(self.data, records=records[::step], instances=[instance for instance, _ in kept])
        return _Answers(self.bundle, data, [output for _, output in kept])


def _items(card: TaskCard, record: Record) -> dict[tuple[str, Hashable], float]:
    """Return the mentions, relations or labels of a record with their scores."""
    if isinstance(record, Document) and card.kind is Kind.TAGGING:
        return {(span.label, touching_joined(span.fragments)): span.score or 0.0 for span in record.spans}
    if isinstance(record, Document) and card.kind is Kind.RELATION:
        record = in_text_order(record) if card.symmetric else record
        return {(r.label, (r.head, r.tail)): r.score or 0.0 for r in record.relations}
    return {(label, ""): record.scores.get(label, 0.0) for label in record.labels}


def _predictions(answers: Sequence[_Answers], confidence: Confidence) -> _Predicted:
    """Collect all predictions of a head. Record numbers run through all of its dev sets."""
    rows: list[tuple[float, bool, int, str]] = []
    first = 0
    for item in answers:
        for number, (want, have) in enumerate(zip(item.gold(), item.decoded(confidence), strict=True), first):
            wanted = _items(item.data.card, want)
            rows += [(s, key in wanted, number, key[0]) for key, s in _items(item.data.card, have).items()]
        first += len(item.data.records)
    scores, right, records, labels = zip(*rows, strict=True) if rows else ((), (), (), ())
    return _Predicted(
        np.array(scores, dtype=np.float64), np.array(right, dtype=bool), np.array(records, dtype=int), np.array(labels)
    )


def _fit_mentions(found: _Predicted) -> tuple[Confidence, np.ndarray]:
    """Fit the map from a mention's mean word probability to the probability that it is right; also cross-fit the scores."""

    def fit(rows: np.ndarray) -> Confidence:
        return Confidence(1.0, *_logistic(_log_odds(found.scores[rows]), found.right[rows]))

    def apply(confidence: Confidence, rows: np.ndarray) -> np.ndarray:
        return np.array([confidence.mention(score) for score in found.scores[rows]])

    return _crosswise(found.records, fit, apply)


def _fit_temperature(answers: _Answers) -> tuple[Confidence, _Predicted, np.ndarray]:
    """Fit the temperature; return it, the predictions before scaling, and their cross-fitted scores."""
    data = answers.data
    evidence = answers.bundle.builders[data.head].evidence(data.records, data.instances, answers.outputs)
    if evidence is None:
        nothing = np.zeros(0)
        return PLAIN, _Predicted(nothing, nothing, nothing, nothing), nothing
    best = evidence.outputs.argmax(axis=1)
    if data.card.kind is Kind.MULTILABEL:
        rows, places = np.nonzero(evidence.outputs > 0)
        right = evidence.targets[rows, places] == 1
    else:
        rows = (
            np.flatnonzero(best != len(data.card.labels)) if data.card.kind is Kind.RELATION else np.arange(len(best))
        )
        places, right = best[rows], best[rows] == evidence.targets[rows]

    def scores(confidence: Confidence, chosen: np.ndarray) -> np.ndarray:
        tempered = evidence.outputs[rows[chosen]].astype(np.float64) / confidence.temperature
        likely = _sigmoid(tempered) if data.card.kind is Kind.MULTILABEL else softmax(tempered)
        return np.asarray(likely[np.arange(len(tempered)), places[chosen]])

    def fit(predicted: np.ndarray) -> Confidence:
        # Records held out of a fold's predictions are held out of its evidence too.
        kept = np.isin(evidence.records, np.unique(records[predicted])) if len(predicted) < len(rows) else slice(None)
        return Confidence(_temperature(evidence.outputs[kept], evidence.targets[kept]))

    records = evidence.records[rows]
    fitted, after = _crosswise(records, fit, scores)
    before = scores(PLAIN, np.arange(len(rows)))
    return fitted, _Predicted(before, right, records, places), after


def _crosswise(
    records: np.ndarray, fit: Callable[[np.ndarray], Confidence], apply: Callable[[Confidence, np.ndarray], np.ndarray]
) -> tuple[Confidence, np.ndarray]:
    """Return the fit on all predictions, and for each fifth of the records the scores by a fit on the other four."""
    everything = np.arange(len(records))
    scores = np.zeros(len(records))
    for fold in range(_FOLDS):
        held = records % _FOLDS == fold
        if held.any():
            scores[held] = apply(fit(everything[~held]), everything[held])
    return fit(everything), scores


def _temperature(outputs: np.ndarray, targets: np.ndarray) -> float:
    """Return the temperature that minimises the negative log-likelihood.

    A normal prior on its logarithm keeps it near 1 where dev is too small or too easy to determine it.
    """
    logits = outputs.astype(np.float64)

    def loss(log_temperature: float) -> float:
        scaled = logits / math.exp(log_temperature)
        if targets.ndim == 2:
            loss = np.logaddexp(0.0, scaled) - targets * scaled
        else:
            top = scaled.max(axis=1)
            spread = top + np.log(np.exp(scaled - top[:, None]).sum(axis=1))
            loss = spread - scaled[np.arange(len(scaled)), targets]
        return float(loss.sum()) + 0.5 * log_temperature**2

    low, high = math.log(0.05), math.log(20.0)
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    while high - low > 1e-5:  # the loss has a single minimum
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return round(math.exp((low + high) / 2), 3)


def _logistic(log_odds: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Fit slope and offset of a logistic regression, with a normal prior around the identity and a positive slope."""
    inputs = np.stack([log_odds, np.ones(len(log_odds))], axis=1)
    prior = np.array([1.0, 0.0])

    def loss(weights: np.ndarray) -> float:
        values = inputs @ weights
        return float((np.logaddexp(0.0, values) - right * values).sum() + 0.5 * ((weights - prior) ** 2).sum())

    weights = prior
    for _ in range(50):  # Newton's method, which takes about five steps
        likely = _sigmoid(inputs @ weights)
        gradient = inputs.T @ (likely - right) + (weights - prior)
        curvature = (inputs * (likely * (1.0 - likely))[:, None]).T @ inputs + np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        while loss(weights - step) > loss(weights) and np.abs(step).max() > 1e-8:
            step = step / 2
        weights = weights - step
        if np.abs(step).max() < 1e-7:
            break
    return max(round(float(weights[0]), 3), _LEAST_SLOPE), round(float(weights[1]), 3)


def _threshold_curves(answers: Sequence[_Answers], found: _Predicted) -> Curves:
    """Return precision and recall at each score threshold, overall and by label."""
    wanted: Counter[str] = Counter()
    for item in answers:
        for record in item.gold():
            wanted.update(label for label, _ in _items(item.data.card, record))
    total = wanted.total()
    chosen = sorted(wanted) if len(wanted) <= _LABELS else []

    def curve(rows: np.ndarray, gold: int) -> tuple[OperatingPoint, ...]:
        scores, right = found.scores[rows], found.right[rows]
        points = []
        for score in _SCORES:
            kept = scores >= score
            exact = int(right[kept].sum())
            points.append(_Counts(exact, gold, exact, int(kept.sum())).at(score))
        return tuple(points)

    curves = {ALL: curve(np.ones(len(found.scores), dtype=bool), total)}
    return curves | {label: curve(found.labels == label, wanted[label]) for label in chosen}


def _recall_curves(answers: Sequence[_Answers], *, phi: bool) -> Curves:
    """Return precision and recall at each bias, until nearly everything is found or nearly everything found is wrong."""
    points: dict[str, list[OperatingPoint]] = {}
    golds = [item.gold() for item in answers]
    for bias in _BIASES:
        found = [item.decoded(Confidence(bias=bias)) for item in answers]
        counts: dict[str, _Counts] = {}
        for item, gold, predicted in zip(answers, golds, found, strict=True):
            counted = _masked(item.data.card, gold, predicted) if phi else _matched(item.data.card, gold, predicted)
            for label, one in counted.items():
                counts[label] = counts[label].plus(one) if label in counts else one
        labels = [ALL, *sorted(counts.keys() - {ALL})] if len(counts) <= _LABELS + 1 else [ALL]
        for label in labels:
            points.setdefault(label, []).append(counts[label].at(float(bias)))
        last = points[ALL][-1]
        if last.recall >= _ENOUGH or last.precision < _USELESS:
            break
    return {label: tuple(found) for label, found in points.items()}


class _Counts(NamedTuple):
    """Counts for recall (`reached` of `gold`) and precision (`right` of `found`)."""

    reached: int
    gold: int
    right: int
    found: int

    def plus(self, other: _Counts) -> _Counts:
        return _Counts(*(one + more for one, more in zip(self, other, strict=True)))

    def at(self, setting: float) -> OperatingPoint:
        # Precision is 1 if nothing is found.
        precision = self.right / self.found if self.found else 1.0
        recall = self.reached / self.gold if self.gold else 1.0
        return OperatingPoint(setting, round(precision, 4), round(recall, 4))


def _matched(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> dict[str, _Counts]:
    """Count matches by label; a mention matches if any part of it is found with the right label."""
    counts: dict[str, _Counts] = {}
    for want, have in zip(gold, predicted, strict=True):
        golds, guesses = _by_label(card, want), _by_label(card, have)
        for label in golds.keys() | guesses.keys():
            one, other = golds.get(label, []), guesses.get(label, [])
            met = _touching if card.kind is Kind.TAGGING else _shared
            found = _Counts(met(one, other), len(one), met(other, one), len(other))
            counts[label] = counts[label].plus(found) if label in counts else found
    total = _Counts(0, 0, 0, 0)
    for found in counts.values():
        total = total.plus(found)
    return {ALL: total} | counts


def _by_label(card: TaskCard, record: Record) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for label, key in _items(card, record):
        grouped.setdefault(label, []).append(key)
    return grouped


def _shared(items: Sequence[Any], others: Sequence[Any]) -> int:
    return len(set(items) & set(others))


def _touching(items: Sequence[Any], others: Sequence[Any]) -> int:
    """Count the mentions that share a character with one of the others."""
    if not others:
        return 0
    fragments = sorted(fragment for extent in others for fragment in extent)
    starts = [start for start, _ in fragments]
    furthest = np.maximum.accumulate([end for _, end in fragments]).tolist()

    def touched(start: int, end: int) -> bool:
        place = bisect_left(starts, end)
        return place > 0 and furthest[place - 1] > start

    return sum(any(touched(*fragment) for fragment in extent) for extent in items)


def _masked(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> dict[str, _Counts]:
    """Count the characters of protected health information that are masked, under any label.

    Recall counts letters and digits, precision every masked character that is not whitespace.
    """
    assert card.phi is not None
    scores = score_deid(documents_in(gold), documents_in(predicted), card.phi)
    characters, leaked = scores.total.characters, scores.total.leaked_characters
    masked = scores.masked_characters
    return {ALL: _Counts(characters - leaked, characters, masked - scores.masked_needlessly, masked)}


def _log_odds(scores: np.ndarray) -> np.ndarray:
    sure = np.clip(scores, LEAST_SURE, 1.0 - LEAST_SURE)
    return np.asarray(np.log(sure / (1.0 - sure)))


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))
