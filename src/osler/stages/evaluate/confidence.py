"""The part of the error page that asks whether the model knows when it is right."""

from __future__ import annotations

from osler.metrics.calibration import calibration
from osler.report.page import Page
from osler.report.plots import curves
from osler.report.tables import Column
from osler.stages.evaluate.errors import Errors
from osler.stages.evaluate.findings import confidences

_FEW = 10


def confidence_section(page: Page, errors: Errors) -> None:
    """How often predictions are right by how sure the model was; nothing where too few have a score."""
    scores, right = confidences(errors.findings)
    if len(scores) < _FEW:
        return
    found = calibration(scores, right)
    points = [(part.confidence, part.accuracy) for part in found.bins]
    page.heading("Confidence")
    page.text(
        f"How often predictions are right, by how sure the model was of them ({len(scores):,} predictions). On average "
        f"confidence and accuracy are {found.expected_error * 100:.1f} points apart. What was not predicted has no score "
        "and is not here."
    )
    page.figure(
        curves(
            {"predictions": points, "if confidence were accuracy": [(0.0, 0.0), (1.0, 1.0)]},
            xlabel="confidence",
            ylabel="share that is right",
        ),
        "Below the diagonal the model is too sure, above it not sure enough.",
    )
    rows = [(f"{p.low:.1f} to {p.high:.1f}", p.count, p.confidence, p.accuracy, p.gap) for p in found.bins]
    shares = [Column(name, digits=1, scale=100) for name in ("mean confidence", "right", "difference")]
    page.table(["confidence", "predictions", *shares], rows)
