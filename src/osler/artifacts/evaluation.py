"""The evaluation artifact: predictions with offsets and scores, and metrics under a named protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from osler.artifacts.task_folder import read_records, write_records
from osler.core.artifact import Artifact
from osler.core.files import write_json
from osler.text.document import Record

_METRICS = "metrics.json"
_PREDICTIONS = "predictions.parquet"


@dataclass(frozen=True, kw_only=True)
class EvaluationMetrics:
    """Scores of one split of a task under one protocol."""

    task: str = ""
    """Name of the task."""
    split: str = ""
    """The split that was scored."""
    protocol: str
    """The protocol with its version, as in `ncbi-disease/strict@v1`."""
    metric: str
    """The name of the main metric."""
    main: float
    """The main score."""
    metrics: Mapping[str, float]
    """Every score by its name."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further scores, such as those per label."""


@dataclass(frozen=True)
class Evaluation(Artifact):
    """A bundle scored on a split of a task."""

    kind: ClassVar = "evaluation"

    @property
    def metrics(self) -> EvaluationMetrics:
        metrics = self.read_metrics(self.path)
        assert metrics is not None
        return metrics

    def predictions(self) -> Iterator[Record]:
        """Yield the predicted records in the order of the split."""
        return self.read_predictions(self.path)

    @staticmethod
    def read_metrics(folder: Path) -> EvaluationMetrics | None:
        """The metrics in a folder, or None where nothing was scored."""
        path = folder / _METRICS
        if not path.is_file():
            return None
        values = json.loads(path.read_text(encoding="utf-8"))
        # Greedy decoding was called free in earlier evaluations.
        return EvaluationMetrics(**values | {"protocol": values["protocol"].replace("+free@", "+greedy@")})

    @staticmethod
    def read_predictions(folder: Path) -> Iterator[Record]:
        return read_records(folder / _PREDICTIONS)

    @staticmethod
    def write(folder: Path, metrics: EvaluationMetrics, predicted: Sequence[Record], *, pairs: bool) -> None:
        """Write predictions and metrics into a folder under construction."""
        scores = any(record.scores for record in predicted)
        write_records(predicted, folder / _PREDICTIONS, pairs=pairs, scores=scores)
        write_json(folder / _METRICS, vars(metrics))
