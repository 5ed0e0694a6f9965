"""Cells of a study: the scores of every run behind one number."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from osler.artifacts.run import FinishedRun, RunSpec
from osler.artifacts.task_folder import TaskFolder, read_records
from osler.core.errors import OslerError
from osler.metrics.scores import Decomposed, mean_over_parts
from osler.metrics.significance import Interval, Summary, bootstrap_interval, summarise
from osler.stages.study.plan import Edge, edges
from osler.tasks.scoring import score
from osler.text.document import Record

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
class StudyCell:
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


def read_cell(values: Mapping[str, Any]) -> StudyCell:
    """A cell from what `Cell.as_dict` gave."""
    interval = values["interval"]
    return StudyCell(
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


Evidence = tuple[Decomposed, ...] | None
"""One decomposed score a seed; none where the metric cannot be taken apart by document."""


@dataclass(frozen=True)
class _Read:
    """A run of a cell as it was read."""

    run: RunScore
    protocol: str
    metric: str
    decomposed: Decomposed | None
    documents: int
    curve: Curve


def gather(finished: Sequence[FinishedRun], resamples: int) -> dict[CellKey, tuple[StudyCell, Evidence]]:
    """Every cell that has a score, in the order its first run came."""
    grouped: dict[CellKey, list[tuple[FinishedRun, str]]] = {}
    for run in finished:
        if run.spec.only_start:
            continue  # it has no line, also where another study that shares the store has scored it
        for column in run.spec.columns:
            grouped.setdefault(_key(run.spec, column), []).append((run, column))
    # Runs of a cell share their task, or the folds of it: a few tasks in memory are enough.
    gold = lru_cache(maxsize=12)(_gold)
    cells: dict[CellKey, tuple[StudyCell, Evidence]] = {}
    for key, runs in grouped.items():
        made = _cell(key, [_read(run, column, gold) for run, column in runs], resamples)
        if made is not None:
            cells[key] = made
    _one_protocol_a_column([cell for cell, _ in cells.values()])
    return cells


def _key(spec: RunSpec, column: str) -> CellKey:
    others = [name for name in spec.columns if name != column]
    partner = others[0] if spec.mode == "pair" and others else spec.partner
    return CellKey(spec.row, column, spec.mode, spec.fraction, partner)


def _cell(key: CellKey, read: Sequence[_Read], resamples: int) -> tuple[StudyCell, Evidence] | None:
    chosen = [item for item in read if item.run.chosen and item.run.score is not None]
    if not chosen:
        return None  # a fold that is for choices alone
    # A fold that only serves choices is not scored, and is no part of the column's mean.
    scored = [item if item in chosen else replace(item, run=replace(item.run, chosen=False)) for item in read]
    protocols = {item.protocol for item in read if item.run.score is not None}
    if len(protocols) > 1:
        raise _mixed(key.column, *sorted(protocols)[:2])
    evidence = _evidence(chosen)
    interval = bootstrap_interval(evidence, resamples=resamples) if evidence else None
    folds: dict[int | None, int] = {item.run.fold: item.documents for item in chosen}
    cell = StudyCell(
        key,
        chosen[0].protocol,
        chosen[0].metric,
        sum(folds.values()),
        tuple(item.run for item in scored),
        interval,
        _mean_curve([item.curve for item in chosen]),
    )
    return cell, evidence


def _evidence(chosen: Sequence[_Read]) -> Evidence:
    parts = {id(item.run): item.decomposed for item in chosen}
    seeds = []
    for _, runs in by_seed([item.run for item in chosen]):
        known = [parts[id(run)] for run in sorted(runs, key=lambda run: run.fold or 0)]
        whole = [part for part in known if part is not None]
        if len(whole) < len(known):
            return None
        seeds.append(whole[0] if len(whole) == 1 else mean_over_parts(whole))
    # Folds that some seeds lack cannot be paired by document.
    return tuple(seeds) if len({len(seed.rows) for seed in seeds}) == 1 else None


def _read(run: FinishedRun, column: str, gold_of: Callable[[Path, str], tuple[TaskFolder, list[Record]]]) -> _Read:
    spec, counts = run.spec, run.counts
    path = spec.tasks[spec.columns.index(column)]
    task = TaskFolder.open(path).card.name
    history = _history(run.folder / "bundle" / "history.json")
    metrics: dict[str, Any] = {}
    main: float | None = None
    values: dict[str, float] = {}
    decomposed: Decomposed | None = None
    documents = 0
    if (run.evaluation(column) / "metrics.json").is_file():
        metrics = run.metrics(column)
        main, values = metrics.get("main"), dict(metrics.get("metrics", {}))
        if run.chosen:
            data, gold = gold_of(path, spec.split)
            predicted = list(read_records(run.evaluation(column) / "predictions.parquet"))
            scored = score(data.card, data.card.protocol_behind(metrics["protocol"]), gold, predicted)
            main, values, documents = scored.main, dict(scored.metrics), len(scored.decomposed.rows)
            # Where a metric has no parts by document, scoring gives those of another one: no interval is better than that.
            decomposed = scored.decomposed if abs(scored.decomposed.value - main) < 1e-9 else None
    protocol = metrics.get("protocol", "")
    dev = counts.get("dev", {}).get(task)
    return _Read(
        RunScore(
            seed=spec.seed,
            point=spec.point,
            fold=spec.fold,
            chosen=run.chosen,
            dev=None if dev is None else float(dev),
            score=main,
            metrics=values,
            steps=int(counts.get("steps", 0)),
            updates=_updates(counts, task),
            best_step=counts.get("best_step"),
            best_epoch=_best_epoch(run.folder, counts),
            tokens=counts.get("tokens", _tokens(history)),
            flops=counts.get("flops"),
            parameters=counts.get("parameters"),
        ),
        f"{column}/{protocol.rpartition('/')[2]}" if protocol else "",
        metrics.get("metric", ""),
        decomposed,
        documents,
        _dev_curve(history, task) if run.chosen else [],
    )


def _gold(path: Path, split: str) -> tuple[TaskFolder, list[Record]]:
    task = TaskFolder.open(path)
    return task, task.read(split)


def _updates(counts: dict[str, Any], task: str) -> int:
    """Batches of one task that were trained on: what the run counted, or its share of the batches of an epoch."""
    counted = counts.get("batches_trained", {})
    if task in counted:
        return int(counted[task])
    steps, turns = int(counts.get("steps", 0)), counts.get("batches_an_epoch", {})
    total = sum(turns.values())
    return round(steps * turns[task] / total) if total and task in turns else steps


def _best_epoch(folder: Path, counts: dict[str, Any]) -> float | None:
    """The epoch that dev kept, counted from 1: its update as a share of the updates that were planned."""
    made = json.loads((folder / "bundle" / "manifest.json").read_text()).get("recipe", {})
    best, epochs = counts.get("best_step"), made.get("epochs")
    # Stopping early leaves fewer updates than were planned, so the plan is what epochs are measured by.
    # No update reaches over the end of an epoch: its last one may hold fewer batches, and is one all the same.
    size = made.get("accumulate", 1)
    updates = [-(-sum(epoch.values()) // size) for epoch in counts.get("batches_by_epoch", [])]
    planned = sum(updates) or counts.get("steps")
    return round(best / planned * epochs, 1) if best and planned and epochs else None


def _history(path: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []
    return records


def _tokens(history: Sequence[dict[str, Any]]) -> int | None:
    """Tokens that the run was trained on, which its log counts as it goes."""
    return next((int(record["tokens"]) for record in reversed(history) if record.get("tokens")), None)


def _dev_curve(history: Sequence[dict[str, Any]], task: str) -> Curve:
    return [
        (float(record["step"]), float(record[task]))
        for record in history
        if record.get("kind") == "eval" and record.get(task) is not None
    ]


def _mean_curve(curves: Sequence[Curve]) -> Curve:
    values: dict[float, list[float]] = {}
    for curve in curves:
        for step, value in curve:
            values.setdefault(step, []).append(value)
    return [(step, sum(found) / len(found)) for step, found in sorted(values.items())]


def _one_protocol_a_column(cells: Sequence[StudyCell]) -> None:
    """Refuse a table whose column would hold numbers that cannot be compared."""
    seen: dict[str, str] = {}
    for cell in cells:
        first = seen.setdefault(cell.key.column, cell.protocol)
        if first != cell.protocol:
            raise _mixed(cell.key.column, first, cell.protocol)


def _mixed(column: str, one: str, other: str) -> OslerError:
    return OslerError(
        f"task {column} was scored under {one} and under {other}", fix="Use one protocol for every model of a study"
    )
