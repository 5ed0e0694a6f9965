from __future__ import annotations

from osler.artifacts.evaluation import Evaluation, EvaluationMetrics
from osler.core.artifact import produce
from osler.core.config import Recipe
from osler.text.document import Document, Span

METRICS = EvaluationMetrics(
    task="t", split="test", protocol="t/strict@v1", metric="f1", main=0.5, metrics={"f1": 0.5}, details={"a": [1]}
)
FOUND = [Document("1", "aspirin", spans=(Span.at(0, 7, "DRUG", id="T1", score=0.25),)), Document("2", "none")]


def test_metrics_and_predictions_come_back(tmp_path):
    made = produce(
        tmp_path / "evaluation",
        kind="evaluation",
        recipe=Recipe(),
        parents={},
        build=lambda work: Evaluation.write(work.path, METRICS, FOUND, pairs=False),
    )
    opened = Evaluation.open(made.path)
    assert opened.metrics == METRICS
    assert list(opened.predictions()) == FOUND


def test_a_folder_without_scores_has_no_metrics(tmp_path):
    assert Evaluation.read_metrics(tmp_path) is None
