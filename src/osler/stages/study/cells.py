"""Cells of a study, each with all runs of one model on one task, read from their folders and scored."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

from osler.artifacts.run import Run, RunSettings, RunSpec
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import OslerError
from osler.metrics.scores import Decomposed, over_parts
from osler.metrics.significance import Interval, Summary, bootstrap_interval, summarise
from osler.tasks.card import Kind, Protocol
from osler.tasks.scoring import score
from osler.tasks.seen import form_metrics, mention_forms, score_by_form
from osler.text.document import Record

RESAMPLES = 2000
"""Number of bootstrap resamples."""
Curve = list[tuple[float, float]]
OverFolds = Literal["mean", "median"]


class CellKey(NamedTuple):
    """A model, a task, and how the task was trained."""

    row: str
    column: str
    mode: str = "single"
    fraction: float = 1.0
    partner: str = ""
    """The other task of a pair; for a single-task baseline, of the pair it is matched to."""

    @property
    def plain(self) -> CellKey:
        """The same model on the same task, trained alone on all of its data."""
        return CellKey(self.row, self.column)

    def single_task(self, cells: Container[CellKey], *, matched: bool) -> CellKey | None:
        """Return the key of a joint cell's single-task baseline: the plain cell, or with `matched` the one with equal steps."""
        key = CellKey(self.row, self.column, "twin", 1.0, self.partner) if matched else self.plain
        return key if key in cells else None


@dataclass(frozen=True)
class RunScore:
    """One run's result in one column."""

    seed: int
    point: RunSettings
    """The grid point."""
    fold: int | None
    chosen: bool
    """Whether it was chosen on dev."""
    dev: float | None
    score: float | None
    """The main score on the study's split; None if the run was not scored."""
    metrics: Mapping[str, float]
    steps: int
    """All steps of the run."""
    task_steps: int
    """Training batches of this column's task, which are its steps if a step takes one batch."""
    best_step: int | None
    best_epoch: float | None
    tokens: int | None
    flops: float | None
    parameters: int | None

    @property
    def settings(self) -> dict[str, Any]:
        """The grid point with names cut to their last part, such as {"lr": 3e-5}."""
        return {name.rpartition(".")[2]: value for name, value in self.point.items()}

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self) | {"point": self.point.json}
        return {"updates" if name == "task_steps" else name: value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunScore:
        renamed = {"task_steps" if name == "updates" else name: value for name, value in values.items()}
        return cls(**{**renamed, "point": RunSettings(values["point"])})


@dataclass(frozen=True)
class StudyCell:
    """All runs of one model on one task trained in one way, under one protocol."""

    key: CellKey
    protocol: str
    metric: str
    documents: int
    """Number of documents scored."""
    runs: tuple[RunScore, ...]
    interval: Interval | None
    """95 % interval over documents and seeds; None if the metric cannot be decomposed by document."""
    curve: Curve
    """Mean dev score of the chosen runs by step."""
    over_folds: OverFolds = "mean"
    """How the folds of a seed are combined if the column is cross-validated."""

    @property
    def chosen(self) -> list[RunScore]:
        return [run for run in self.runs if run.chosen]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(seed for seed, _ in by_seed(self.chosen))

    @property
    def scores(self) -> tuple[float, ...]:
        """The score of each seed, as mean or median over folds if the column is cross-validated."""
        scores = [[run.score for run in runs if run.score is not None] for _, runs in by_seed(self.chosen)]
        return tuple(self._of_folds(found) for found in scores)

    def _of_folds(self, scores: Sequence[float]) -> float:
        return median(scores) if self.over_folds == "median" else sum(scores) / len(scores)

    @property
    def folds(self) -> int:
        """Number of folds scored; 0 if the column is not cross-validated."""
        return len({run.fold for run in self.chosen if run.fold is not None})

    @property
    def summary(self) -> Summary:
        """Mean, spread and median over seeds."""
        return summarise(self.scores)

    @property
    def dev(self) -> float | None:
        """The mean dev score of the chosen runs."""
        known = [run.dev for run in self.chosen if run.dev is not None]
        return sum(known) / len(known) if known else None

    @property
    def scored(self) -> list[RunScore]:
        """Every run with a score, chosen or not."""
        return [run for run in self.runs if run.score is not None]

    @property
    def configurations(self) -> int:
        """Number of grid points that were run."""
        return len({run.point for run in self.runs})

    @property
    def winner(self) -> RunScore:
        """A run with the chosen grid point, or the most frequent one if folds or seeds chose differently."""
        points = [run.point for run in self.chosen]
        winner = max(dict.fromkeys(points), key=points.count)
        return next(run for run in self.chosen if run.point == winner)

    @property
    def best_epoch(self) -> float | None:
        """The epoch with the best dev score (median over the chosen runs)."""
        known = [run.best_epoch for run in self.chosen if run.best_epoch is not None]
        return float(median(known)) if known else None

    @property
    def task_steps(self) -> int:
        """Steps on the task in one chosen run (the median)."""
        return round(median(run.task_steps for run in self.chosen))

    def over_all(self, metric: str | None = None) -> Summary | None:
        """Summarise a metric (by default the main one) over all scored runs, combining folds first."""
        groups: dict[tuple[int, RunSettings], list[float]] = {}
        for run in self.scored:
            value = run.score if metric is None else run.metrics.get(metric)
            if value is None:
                return None
            groups.setdefault((run.seed, run.point), []).append(value)
        return summarise([self._of_folds(values) for values in groups.values()]) if groups else None

    def over_chosen(self, metric: str) -> Summary | None:
        """Summarise a metric over the seeds of the chosen runs, combining folds first; None if a run lacks the metric."""
        seeds = [[run.metrics.get(metric) for run in runs] for _, runs in by_seed(self.chosen)]
        known = [[value for value in values if value is not None] for values in seeds]
        return summarise([self._of_folds(values) for values in known]) if known == seeds else None

    def to_dict(self) -> dict[str, Any]:
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
            **({"over_folds": self.over_folds} if self.folds and self.over_folds != "mean" else {}),
            "mean": summary.mean,
            "std": summary.std,
            "median": summary.median,
            "interval": [self.interval.low, self.interval.high] if self.interval else None,
            "dev": self.dev,
            "chosen": {"settings": self.winner.settings, "epoch": self.best_epoch, "updates": self.task_steps},
            "runs": [run.to_dict() for run in self.runs],
            "dev_curve": [list(point) for point in self.curve],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> StudyCell:
        interval = values["interval"]
        return cls(
            CellKey(values["model"], values["task"], values["mode"], values["fraction"], values["partner"]),
            values["protocol"],
            values["metric"],
            values["documents"],
            tuple(RunScore.from_dict(run) for run in values["runs"]),
            Interval(values["mean"], *interval) if interval else None,
            [(step, value) for step, value in values["dev_curve"]],
            values.get("over_folds", "mean"),
        )


def by_seed(runs: Sequence[RunScore]) -> list[tuple[int, list[RunScore]]]:
    """Group runs by seed, in order. If each fold chose a run of its own, they form one group."""
    groups: dict[int, list[RunScore]] = {}
    for run in runs:
        groups.setdefault(run.seed, []).append(run)
    folds = {run.fold for run in runs}
    if len(folds) > 1 and len(runs) == len(folds) and len(groups) > 1:
        return [(runs[0].seed, list(runs))]
    return list(groups.items())


Evidence = tuple[Decomposed, ...] | None
"""One decomposed score per seed; None if the metric cannot be decomposed by document."""


@dataclass(frozen=True)
class _ReadRun:
    run: RunScore
    protocol: str
    metric: str
    decomposed: Decomposed | None
    documents: int
    curve: Curve


def gather(finished: Sequence[Run], over_folds: OverFolds = "mean") -> dict[CellKey, tuple[StudyCell, Evidence]]:
    """Score the predictions of every chosen run again and group the runs into cells, in the order of their first run."""
    grouped: dict[CellKey, list[tuple[Run, str]]] = {}
    for run in finished:
        # A refinement that others only start from gets no cell, even if another study with the same store scored it.
        for column in () if run.spec.only_start else run.spec.columns:
            grouped.setdefault(_key(run.spec, column), []).append((run, column))
    # Runs of a cell share their task or its folds, so a small cache is enough.
    gold = lru_cache(maxsize=12)(_Gold.read)
    cells: dict[CellKey, tuple[StudyCell, Evidence]] = {}
    protocols: dict[str, str] = {}
    for key, runs in grouped.items():
        read = [_read(run, column, gold) for run, column in runs]
        if any(item.run.chosen and item.run.score is not None for item in read):
            cells[key] = _cell(key, read, over_folds)
            for protocol in sorted({item.protocol for item in read if item.run.score is not None}):
                first = protocols.setdefault(key.column, protocol)
                if protocol != first:
                    raise OslerError(
                        f"task {key.column} was scored under {first} and under {protocol}",
                        fix="Use one protocol for every model of a study",
                    )
    return cells


def _key(spec: RunSpec, column: str) -> CellKey:
    others = [name for name in spec.columns if name != column]
    partner = others[0] if spec.mode == "pair" and others else spec.partner
    return CellKey(spec.row, column, spec.mode, spec.fraction, partner)


@dataclass(frozen=True)
class _Gold:
    """A task's split, and the mention forms in its training split."""

    task: TaskFolder
    records: list[Record]
    forms: set[str]

    @classmethod
    def read(cls, path: Path, split: str) -> _Gold:
        task = TaskFolder.open(path)
        mentions = task.card.kind is Kind.TAGGING and "train" in task.splits
        return cls(task, task.read(split), mention_forms(task.read("train")) if mentions else set())

    def by_form(self, protocol: Protocol, predicted: Sequence[Record]) -> dict[str, float]:
        """Return the scores of mentions with seen and unseen forms, and the share of unseen ones."""
        if not self.forms:
            return {}
        found = score_by_form(self.task.card, protocol, self.records, predicted, self.forms)
        seen, unseen = (found[name].tp + found[name].fn for name in ("seen", "unseen"))
        if not seen or not unseen:
            return {}
        return {**form_metrics(found), "unseen_share": unseen / (seen + unseen)}


def _read(run: Run, column: str, gold_of: Callable[[Path, str], _Gold]) -> _ReadRun:
    spec, training = run.spec, run.training
    path = spec.tasks[spec.columns.index(column)]
    task = TaskFolder.open(path).card.name
    metrics = run.metrics(column)
    main = metrics.main if metrics else None
    values = dict(metrics.metrics) if metrics else {}
    decomposed: Decomposed | None = None
    documents = 0
    if metrics and run.chosen:
        gold, predicted = gold_of(path, spec.split), run.predictions(column)
        protocol = gold.task.card.protocol_behind(metrics.protocol)
        scored = score(gold.task.card, protocol, gold.records, predicted)
        main, documents = scored.main, scored.documents
        values = {**scored.metrics, **gold.by_form(protocol, predicted)}
        decomposed = scored.decomposed
    return _ReadRun(
        RunScore(
            seed=spec.seed,
            point=spec.point,
            fold=spec.fold,
            chosen=run.chosen,
            dev=training.dev.get(task),
            score=main,
            metrics=values,
            steps=training.steps,
            task_steps=training.steps_on(task),
            best_step=training.best_step,
            best_epoch=training.best_epoch,
            tokens=run.tokens,
            flops=training.flops,
            parameters=training.parameters,
        ),
        f"{column}/{metrics.protocol.rpartition('/')[2]}" if metrics else "",
        metrics.metric if metrics else "",
        decomposed,
        documents,
        run.dev_curve(task) if run.chosen else [],
    )


def _cell(key: CellKey, read: Sequence[_ReadRun], over_folds: OverFolds) -> tuple[StudyCell, Evidence]:
    chosen = [item for item in read if item.run.chosen and item.run.score is not None]
    # A fold used only for choices is not scored and does not enter the column's score.
    runs = tuple(replace(item.run, chosen=item.run.chosen and item.run.score is not None) for item in read)
    evidence = _evidence(chosen, over_folds)
    folds: dict[int | None, int] = {item.run.fold: item.documents for item in chosen}
    values: dict[float, list[float]] = {}
    for step, value in (point for item in chosen for point in item.curve):
        values.setdefault(step, []).append(value)
    cell = StudyCell(
        key,
        chosen[0].protocol,
        chosen[0].metric,
        sum(folds.values()),
        runs,
        bootstrap_interval(evidence, resamples=RESAMPLES) if evidence else None,
        [(step, sum(found) / len(found)) for step, found in sorted(values.items())],
        over_folds,
    )
    return cell, evidence


def _evidence(chosen: Sequence[_ReadRun], over_folds: OverFolds) -> Evidence:
    parts = {id(item.run): item.decomposed for item in chosen}
    seeds = []
    for _, runs in by_seed([item.run for item in chosen]):
        known = [parts[id(run)] for run in sorted(runs, key=lambda run: run.fold or 0)]
        decomposed = [part for part in known if part is not None]
        if len(decomposed) < len(known):
            return None
        seeds.append(decomposed[0] if len(decomposed) == 1 else over_parts(decomposed, over_folds))
    # Documents cannot be paired if some seeds lack a fold.
    return tuple(seeds) if len({len(seed.rows) for seed in seeds}) == 1 else None
