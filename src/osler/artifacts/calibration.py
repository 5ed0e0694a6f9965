"""Calibration of a bundle's scores: fitted on dev, stored beside the spec, applied at prediction. Needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from osler.core.artifact import read_model
from osler.core.config import Recipe
from osler.core.files import write_atomic
from osler.tasks.instances.base import PLAIN, Confidence

CALIBRATION_FILE = "calibration.json"
ALL = "*"
"""Key of the curve over all labels of a head."""


class OperatingPoint(NamedTuple):
    """Precision and recall on dev at a setting: a score threshold or a bias."""

    setting: float
    precision: float
    recall: float


Curves = dict[str, tuple[OperatingPoint, ...]]
"""Curves by label, with `ALL` for all labels together."""


class ReliabilityRow(NamedTuple):
    """Dev predictions with a score in (low, high]."""

    low: float
    high: float
    number: int
    score: float
    """Their mean score."""
    right: float
    """Share of correct predictions."""


class HeadCalibration(Recipe):
    """Calibration of one head, with measurements on its dev split."""

    temperature: float = Field(1.0, gt=0.0)
    slope: float = Field(1.0, gt=0.0)
    offset: float = 0.0
    predictions: int = 0
    """Number of predictions on dev (mentions, relations or labels)."""
    error_before: float = 0.0
    """Expected calibration error before fitting."""
    error_after: float = 0.0
    """Expected calibration error after fitting, by five-fold cross-validation on dev."""
    reliability: tuple[ReliabilityRow, ...] = ()
    """Reliability of the fitted scores, from the same cross-validation."""
    counted: Literal["mentions", "characters", "relations", "labels"] | None = None
    """What `recall` counts: mentions that share a character and the label, relations, labels, or, for protected health
    information, characters regardless of label."""
    thresholds: Curves = Field(default_factory=dict)
    """Precision and recall of predictions at or above a score. A mention is correct if its label and extent are."""
    recall: Curves = Field(default_factory=dict)
    """Precision and recall at each bias."""

    def confidence(self, bias: float = 0.0) -> Confidence:
        return Confidence(self.temperature, self.slope, self.offset, bias)

    def at_recall(self, target: float) -> OperatingPoint | None:
        """Return the most precise point that reaches a recall on dev, or None."""
        reached = [point for point in self.recall.get(ALL, ()) if point.recall >= target]
        return max(reached, key=lambda point: (point.precision, -point.setting), default=None)

    def best_recall(self) -> OperatingPoint | None:
        return max(self.recall.get(ALL, ()), key=lambda point: (point.recall, point.precision), default=None)

    def at_score(self, score: float, label: str = ALL) -> OperatingPoint | None:
        """Return the dev point at a score threshold, or at the nearest measured one above it."""
        points = self.thresholds.get(label, ())
        return next((point for point in points if point.setting >= score), points[-1] if points else None)


class BundleCalibration(Recipe):
    """Calibration of each head. Scores of other heads stay unchanged."""

    heads: dict[str, HeadCalibration] = Field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path) -> BundleCalibration:
        """Load the calibration of a bundle folder; empty if it has none."""
        path = Path(folder) / CALIBRATION_FILE
        if not path.is_file():
            return cls()
        return read_model(cls, path, fix="Make the bundle again")

    def save(self, folder: Path) -> None:
        """Write the calibration, unless it is empty."""
        if self.heads:
            write_atomic(folder / CALIBRATION_FILE, self.model_dump_json(exclude_defaults=True) + "\n")

    def confidence(self, head: str, bias: float = 0.0) -> Confidence:
        known = self.heads.get(head)
        return known.confidence(bias) if known else PLAIN._replace(bias=bias)
