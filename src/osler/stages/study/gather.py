"""Finished runs to cells: scores read and made again from predictions, grouped, with the per-document counts behind each."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from osler.core.errors import OslerError
from osler.metrics.decomposed import Decomposed, mean_over_parts
from osler.metrics.significance import bootstrap_interval
from osler.stages.study.cells import Cell, CellKey, Curve, RunScore, by_seed
from osler.stages.study.spec import FinishedRun, RunSpec
from osler.tasks.data import TaskData, read_records
from osler.tasks.scoring import score
from osler.text.document import Record

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


def gather(finished: Sequence[FinishedRun], resamples: int) -> dict[CellKey, tuple[Cell, Evidence]]:
    """Every cell that has a score, in the order its first run came."""
    grouped: dict[CellKey, list[tuple[FinishedRun, str]]] = {}
    for run in finished:
        if run.spec.only_start:
            continue  # it has no line, also where another study that shares the store has scored it
        for column in run.spec.columns:
            grouped.setdefault(_key(run.spec, column), []).append((run, column))
    # Runs of a cell share their task, or the folds of it: a few tasks in memory are enough.
    gold = lru_cache(maxsize=12)(_gold)
    cells: dict[CellKey, tuple[Cell, Evidence]] = {}
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


def _cell(key: CellKey, read: Sequence[_Read], resamples: int) -> tuple[Cell, Evidence] | None:
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
    cell = Cell(
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


def _read(run: FinishedRun, column: str, gold_of: Callable[[Path, str], tuple[TaskData, list[Record]]]) -> _Read:
    spec, counts = run.spec, run.counts
    path = spec.tasks[spec.columns.index(column)]
    task = TaskData.open(path).card.name
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


def _gold(path: Path, split: str) -> tuple[TaskData, list[Record]]:
    task = TaskData.open(path)
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


def _one_protocol_a_column(cells: Sequence[Cell]) -> None:
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
