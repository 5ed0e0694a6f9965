"""The numbers of a study: one cell a model and task, with seeds, spread and a paired test against the baseline."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.core.errors import OslerError
from osler.metrics.decomposed import Decomposed
from osler.metrics.significance import Comparison, Summary, holm, paired_bootstrap, summarise
from osler.stages.study.runs import RunSpec
from osler.tasks.data import TaskData, read_records
from osler.tasks.scoring import score

Curve = list[tuple[float, float]]


@dataclass(frozen=True)
class Cell:
    """All seeds of one model on one task, under one protocol."""

    model: str
    task: str
    protocol: str
    metric: str
    seeds: tuple[int, ...]
    scores: tuple[float, ...]
    decomposed: tuple[Decomposed, ...]
    curve: Curve
    """Mean dev score over seeds by update."""

    @property
    def summary(self) -> Summary:
        """Mean, spread and median over seeds."""
        return summarise(self.scores)


@dataclass(frozen=True)
class Compared:
    """A cell against the baseline's cell of the same task; `p_value` is corrected for all comparisons of the study."""

    cell: Cell
    comparison: Comparison
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether the difference holds at 5 % after correction."""
        return self.p_value < 0.05


@dataclass(frozen=True)
class Results:
    """Every cell, and every comparison with the baseline."""

    cells: dict[tuple[str, str], Cell]
    comparisons: dict[tuple[str, str], Compared]
    baseline: str

    @property
    def models(self) -> list[str]:
        """Rows, in recipe order."""
        return list(dict.fromkeys(model for model, _ in self.cells))

    @property
    def tasks(self) -> list[str]:
        """Columns, in recipe order."""
        return list(dict.fromkeys(task for _, task in self.cells))

    def protocol(self, task: str) -> str:
        """The protocol of a column; a column never mixes two."""
        return next(cell.protocol for (_, name), cell in self.cells.items() if name == task)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for results.json."""
        rows = []
        for key, cell in self.cells.items():
            summary = cell.summary
            row: dict[str, Any] = {
                "model": cell.model,
                "task": cell.task,
                "protocol": cell.protocol,
                "metric": cell.metric,
                "seeds": list(cell.seeds),
                "scores": list(cell.scores),
                "mean": summary.mean,
                "std": summary.std,
                "median": summary.median,
            }
            if key in self.comparisons:
                found = self.comparisons[key]
                row["against"] = {
                    "baseline": self.baseline,
                    "difference": found.comparison.difference,
                    "low": found.comparison.low,
                    "high": found.comparison.high,
                    "p_holm": found.p_value,
                }
            rows.append(row)
        return {"baseline": self.baseline, "cells": rows}


def collect(folders: Mapping[RunSpec, Path], baseline: str, resamples: int) -> Results:
    """Score every run's predictions again, group by model and task, and compare with the baseline."""
    grouped: dict[tuple[str, Path], list[tuple[RunSpec, Path]]] = defaultdict(list)
    for spec, folder in folders.items():
        grouped[spec.name, spec.task].append((spec, folder))
    cells = [_cell(runs) for runs in grouped.values()]
    _same_protocols(cells)
    by_key = {(cell.model, cell.task): cell for cell in cells}
    others = [cell for cell in cells if cell.model != baseline]
    raw = [
        paired_bootstrap(cell.decomposed, by_key[baseline, cell.task].decomposed, resamples=resamples)
        for cell in others
    ]
    adjusted = holm([comparison.p_value for comparison in raw])
    compared = {
        (cell.model, cell.task): Compared(cell, comparison, p)
        for cell, comparison, p in zip(others, raw, adjusted, strict=True)
    }
    return Results(by_key, compared, baseline)


def _cell(runs: Sequence[tuple[RunSpec, Path]]) -> Cell:
    first, _ = runs[0]
    task = TaskData.open(first.task)
    gold = task.read(first.split)
    scores, decomposed, curves, metrics = [], [], [], {}
    for _, folder in runs:
        metrics = json.loads((folder / "evaluation" / "metrics.json").read_text())
        name = metrics["protocol"].rpartition("/")[2].partition("@")[0]
        predicted = list(read_records(folder / "evaluation" / "predictions.parquet"))
        scored = score(task.card, task.card.protocol_named(name), gold, predicted)
        scores.append(scored.main)
        decomposed.append(scored.decomposed)
        curves.append(_dev_curve(folder / "bundle" / "history.json", task.card.name))
    return Cell(
        first.name,
        task.card.name,
        metrics["protocol"],
        metrics["metric"],
        tuple(spec.seed for spec, _ in runs),
        tuple(scores),
        tuple(decomposed),
        _mean_curve(curves),
    )


def _dev_curve(history: Path, task: str) -> Curve:
    records = json.loads(history.read_text())
    return [(float(record["step"]), float(record[task])) for record in records if record.get("kind") == "eval"]


def _mean_curve(curves: Sequence[Curve]) -> Curve:
    values: dict[float, list[float]] = defaultdict(list)
    for curve in curves:
        for step, value in curve:
            values[step].append(value)
    return [(step, sum(found) / len(found)) for step, found in sorted(values.items())]


def _same_protocols(cells: Sequence[Cell]) -> None:
    """Refuse a table whose column would hold numbers that cannot be compared."""
    seen: dict[str, str] = {}
    for cell in cells:
        if seen.setdefault(cell.task, cell.protocol) != cell.protocol:
            raise OslerError(
                f"task {cell.task} was scored under {seen[cell.task]} and under {cell.protocol}",
                fix="Use one protocol for every model of a study",
            )
