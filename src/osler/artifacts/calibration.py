"""How far the scores of a bundle can be trusted: fitted on dev, kept beside its spec, applied when it predicts. No torch."""

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
"""Key of a curve over all labels of a head together."""


class OperatingPoint(NamedTuple):
    """What a setting, a score threshold or a bias, gives on dev."""

    setting: float
    precision: float
    recall: float


Curves = dict[str, tuple[OperatingPoint, ...]]
"""By label; `ALL` for all labels together."""


class ReliabilityRow(NamedTuple):
    """Dev predictions with a score in (low, high]."""

    low: float
    high: float
    number: int
    score: float
    """Their mean score."""
    right: float
    """Share of them that is right."""


class HeadCalibration(Recipe):
    """What was fitted for one head, and what was measured on its dev split."""

    temperature: float = Field(1.0, gt=0.0)
    slope: float = Field(1.0, gt=0.0)
    offset: float = 0.0
    predictions: int = 0
    """Predictions on dev: mentions, relations, labels."""
    error_before: float = 0.0
    """Expected calibration error of the scores as they were."""
    error_after: float = 0.0
    """Expected calibration error after fitting, each fifth of dev scored by what was fitted on the other four."""
    reliability: tuple[ReliabilityRow, ...] = ()
    """Of the fitted scores, in the same way."""
    counted: Literal["mentions", "characters", "relations", "labels"] | None = None
    """What `recall` counts: mentions that share a character and the label, relations, labels, or, for protected health
    information, characters whatever their label."""
    thresholds: Curves = Field(default_factory=dict)
    """Precision and recall of the predictions with at least a score. A mention is right if label and extent are."""
    recall: Curves = Field(default_factory=dict)
    """Precision and recall at a bias."""

    def confidence(self, bias: float = 0.0) -> Confidence:
        return Confidence(self.temperature, self.slope, self.offset, bias)

    def at_recall(self, target: float) -> OperatingPoint | None:
        """The point with the best precision among those that reach a recall on dev; None if none does."""
        reached = [point for point in self.recall.get(ALL, ()) if point.recall >= target]
        return max(reached, key=lambda point: (point.precision, -point.setting), default=None)

    def best_recall(self) -> OperatingPoint | None:
        return max(self.recall.get(ALL, ()), key=lambda point: (point.recall, point.precision), default=None)

    def at_score(self, score: float, label: str = ALL) -> OperatingPoint | None:
        """What dev gives at a score threshold, or at the nearest one above it that was measured."""
        points = self.thresholds.get(label, ())
        return next((point for point in points if point.setting >= score), points[-1] if points else None)


class BundleCalibration(Recipe):
    """The calibration of each head; heads that have none give their scores as they are."""

    heads: dict[str, HeadCalibration] = Field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path) -> BundleCalibration:
        """The calibration in a bundle folder; empty for a bundle without one."""
        path = Path(folder) / CALIBRATION_FILE
        if not path.is_file():
            return cls()
        return read_model(cls, path, fix="Make the bundle again")

    def save(self, folder: Path) -> None:
        """Write it, unless it has nothing to say."""
        if self.heads:
            write_atomic(folder / CALIBRATION_FILE, self.model_dump_json(exclude_defaults=True) + "\n")

    def confidence(self, head: str, bias: float = 0.0) -> Confidence:
        known = self.heads.get(head)
        return known.confidence(bias) if known else PLAIN._replace(bias=bias)
