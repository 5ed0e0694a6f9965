"""A cell of a study: every run behind one number, and what is said of them together."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

from osler.metrics.significance import Interval, Summary, summarise
from osler.stages.study.edges import Edge, edges

Curve = list[tuple[float, float]]


class CellKey(NamedTuple):
    """Where a cell stands: a model, a task, and how the task was learned."""

    row: str
    column: str
    mode: str = "single"
    fraction: float = 1.0
    partner: str = ""
    """The other task of a pair; of a twin, the other task of the pair whose updates it has."""

    @property
    def plain(self) -> CellKey:
        """The same model on the same task, learned alone from all of its data."""
        return CellKey(self.row, self.column)

    def twin(self, cells: Container[CellKey], *, equal: bool) -> CellKey | None:
        """What a task learned with others is compared with: itself learned alone, with `equal` for as many updates."""
        key = CellKey(self.row, self.column, "twin", 1.0, self.partner) if equal else self.plain
        return key if key in cells else None


@dataclass(frozen=True)
class RunScore:
    """One run, seen from one column."""

    seed: int
    point: str
    """The grid point as canonical JSON."""
    fold: int | None
    chosen: bool
    """Whether dev chose it."""
    dev: float | None
    score: float | None
    """The main score on the study's split; none where dev did not choose the run and it was not scored."""
    metrics: Mapping[str, float]
    steps: int
    """Updates of the whole run."""
    updates: int
    """Batches of this column's task that were trained on: its updates, where an update takes one batch."""
    best_step: int | None
    best_epoch: float | None
    tokens: int | None
    flops: float | None
    parameters: int | None

    @property
    def settings(self) -> dict[str, Any]:
        """The grid point by the last part of each name: {"lr": 3e-5}."""
        return {short(name): value for name, value in json.loads(self.point).items()}


@dataclass(frozen=True)
class Cell:
    """All runs of one model on one task learned in one way, under one protocol."""

    key: CellKey
    protocol: str
    metric: str
    documents: int
    """How many documents were scored."""
    runs: tuple[RunScore, ...]
    interval: Interval | None
    """95 % over documents and seeds; none where the metric cannot be taken apart by document."""
    curve: Curve
    """Mean dev score of the chosen runs by update."""

    @property
    def chosen(self) -> list[RunScore]:
        """The runs that dev chose."""
        return [run for run in self.runs if run.chosen]

    @property
    def groups(self) -> list[tuple[int, list[RunScore]]]:
        """The chosen runs by seed: one, or one a fold."""
        return by_seed(self.chosen)

    @property
    def seeds(self) -> tuple[int, ...]:
        """One a score."""
        return tuple(seed for seed, _ in self.groups)

    @property
    def scores(self) -> tuple[float, ...]:
        """The score of each seed; where the column is cross-validated, its mean over the folds."""
        return tuple(_mean([_known(run.score) for run in runs]) for _, runs in self.groups)

    @property
    def folds(self) -> int:
        """How many folds were scored; 0 where the column is not cross-validated."""
        return len({run.fold for run in self.chosen if run.fold is not None})

    @property
    def summary(self) -> Summary:
        """Mean, spread and median over seeds."""
        return summarise(self.scores)

    @property
    def dev(self) -> float | None:
        """The mean on dev of the chosen runs."""
        known = [run.dev for run in self.chosen if run.dev is not None]
        return _mean(known) if known else None

    @property
    def scored(self) -> list[RunScore]:
        """Every run with a score, chosen or not: all configurations where all were scored."""
        return [run for run in self.runs if run.score is not None]

    @property
    def configurations(self) -> int:
        """How many grid points were run."""
        return len({run.point for run in self.runs})

    @property
    def winner(self) -> RunScore:
        """A run with the chosen grid point; with the one most runs have where folds or seeds chose differently."""
        points = [run.point for run in self.chosen]
        winner = max(dict.fromkeys(points), key=points.count)
        return next(run for run in self.chosen if run.point == winner)

    @property
    def setting(self) -> dict[str, Any]:
        """The chosen grid point, by short names."""
        return self.winner.settings

    @property
    def edges(self) -> dict[str, Edge]:
        """By short name: settings that were chosen at an edge of the grid."""
        found = edges(json.loads(self.winner.point), [json.loads(run.point) for run in self.runs])
        return {short(name): edge for name, edge in found.items()}

    @property
    def best_epoch(self) -> float | None:
        """The median over chosen runs of the epoch that dev kept."""
        known = [run.best_epoch for run in self.chosen if run.best_epoch is not None]
        return float(median(known)) if known else None

    @property
    def updates(self) -> int:
        """Batches of the task that one chosen run was trained on (the median)."""
        return round(median(run.updates for run in self.chosen))

    def over_all(self, metric: str | None = None) -> Summary | None:
        """Mean and spread over every scored run (mean over folds first); of another metric where named."""
        groups: dict[tuple[int, str], list[float]] = {}
        for run in self.scored:
            value = run.score if metric is None else run.metrics.get(metric)
            if value is None:
                return None
            groups.setdefault((run.seed, run.point), []).append(value)
        return summarise([_mean(values) for values in groups.values()]) if groups else None

    def as_dict(self) -> dict[str, Any]:
        """Plain data; `read_cell` makes the cell again from it."""
        summary = self.summary
        return {
            "model": self.key.row,
            "task": self.key.column,
            "mode": self.key.mode,
            "fraction": self.key.fraction,
            "partner": self.key.partner,
            "protocol": self.protocol,
            "metric": self.metric,
            "documents": self.documents,
            "seeds": list(self.seeds),
            "scores": list(self.scores),
            "folds": self.folds,
            "mean": summary.mean,
            "std": summary.std,
            "median": summary.median,
            "interval": [self.interval.low, self.interval.high] if self.interval else None,
            "dev": self.dev,
            "chosen": {"settings": self.setting, "epoch": self.best_epoch, "updates": self.updates},
            "runs": [asdict(run) for run in self.runs],
            "dev_curve": [list(point) for point in self.curve],
        }


def read_cell(values: Mapping[str, Any]) -> Cell:
    """A cell from what `Cell.as_dict` gave."""
    interval = values["interval"]
    return Cell(
        CellKey(values["model"], values["task"], values["mode"], values["fraction"], values["partner"]),
        values["protocol"],
        values["metric"],
        values["documents"],
        tuple(RunScore(**run) for run in values["runs"]),
        Interval(values["mean"], interval[0], interval[1]) if interval else None,
        [(step, score) for step, score in values["dev_curve"]],
    )


def short(name: str) -> str:
    """The last part of a setting's name: lr of train.lr."""
    return name.rpartition(".")[2]


def by_seed(runs: Sequence[RunScore]) -> list[tuple[int, list[RunScore]]]:
    """Runs by seed, in the order they came. Where each fold chose one run of its own, they are one group."""
    groups: dict[int, list[RunScore]] = {}
    for run in runs:
        groups.setdefault(run.seed, []).append(run)
    folds = {run.fold for run in runs}
    if len(folds) > 1 and len(runs) == len(folds) and len(groups) > 1:
        return [(runs[0].seed, list(runs))]
    return list(groups.items())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _known(score: float | None) -> float:
    assert score is not None
    return score
