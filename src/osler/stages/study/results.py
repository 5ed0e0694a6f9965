"""Results of a study: cells, comparisons and costs, enough to rebuild every table without predictions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from osler.artifacts.run import FinishedRun
from osler.core.errors import ArtifactError, OslerError
from osler.metrics.ranks import RankTest, rank_test
from osler.metrics.significance import PairedComparison, holm, paired_bootstrap
from osler.stages.study.cells import CellKey, Evidence, StudyCell, gather, read_cell
from osler.stages.study.recipe import StudyRecipe


@dataclass(frozen=True)
class Timing:
    """The time of one model on one set of tasks learned in one way, over seeds, folds and grid points."""

    row: str
    columns: tuple[str, ...]
    mode: str
    fraction: float
    runs: int
    seconds: float
    """Of all runs, those that dev did not choose included: choosing is part of the cost."""
    chosen_runs: int
    chosen_seconds: float
    gpu_seconds: float
    """Of all runs: their seconds on a GPU, times the GPUs that each had; runs that share one count each."""
    devices: tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """What a study computed, each run once however many cells it stands in."""

    runs: int = 0
    tokens: int = 0
    """Tokens of training."""
    flops: float = 0.0
    """Floating-point operations of training."""
    uncounted: int = 0
    """Runs whose work is not known: they were done before fine-tuning counted it."""


def work(finished: Sequence[FinishedRun]) -> Work:
    """The work of all finished runs."""
    counts = {run.folder: run.counts for run in finished}.values()
    known = [count for count in counts if "flops" in count]
    return Work(
        len(counts),
        sum(int(count["tokens"]) for count in known),
        sum(float(count["flops"]) for count in known),
        len(counts) - len(known),
    )


def timings(finished: Sequence[FinishedRun]) -> list[Timing]:
    """Times by model, tasks and way of learning; a run whose time is not known is left out."""
    grouped: dict[tuple[str, tuple[str, ...], str, float], list[FinishedRun]] = {}
    plain = {run.folder for run in finished if run.spec.mode != "twin"}
    for run in finished:
        if run.spec.mode == "twin" and run.folder in plain:
            continue  # a twin that needed no run of its own
        if (run.folder / "status.json").is_file() and run.status.get("seconds") is not None:
            spec = run.spec
            grouped.setdefault((spec.row, spec.columns, spec.mode, spec.fraction), []).append(run)
    return [
        Timing(
            *key,
            len(runs),
            sum(float(run.status["seconds"]) for run in runs),
            sum(run.chosen for run in runs),
            sum(float(run.status["seconds"]) for run in runs if run.chosen),
            sum(_gpu_seconds(run) for run in runs),
            tuple(sorted({str(run.status["device"]) for run in runs if run.status.get("device")})),
        )
        for key, runs in grouped.items()
    ]


def _gpu_seconds(run: FinishedRun) -> float:
    if run.status.get("device") in (None, "cpu"):
        return 0.0
    return float(run.status["seconds"]) * int(run.status.get("processes", 1))


COMPARED = ("single", "together", "refine")
"""Ways of learning in which models are compared with the baseline."""
Cells = Mapping[CellKey, tuple[StudyCell, Evidence]]


@dataclass(frozen=True)
class Compared:
    """A cell against another of the same task; `p_value` is corrected for all comparisons of its family in the study."""

    key: CellKey
    other: CellKey
    comparison: PairedComparison
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether the difference holds at 5 % after correction."""
        return self.p_value < 0.05

    def as_dict(self) -> dict[str, Any]:
        """Plain data; `read_compared` makes it again."""
        return {
            "cell": list(self.key),
            "other": list(self.other),
            **asdict(self.comparison),
            "p_holm": self.p_value,
        }


def read_compared(values: Mapping[str, Any]) -> Compared:
    """From what `Compared.as_dict` gave."""
    plain = {name: values[name] for name in ("first", "second", "difference", "low", "high", "p_value")}
    return Compared(CellKey(*values["cell"]), CellKey(*values["other"]), PairedComparison(**plain), values["p_holm"])


def against_baseline(cells: Cells, baseline: str, resamples: int) -> dict[CellKey, Compared]:
    """Every model's cells with the baseline's, learned in the same way from all of the data; a refinement with the plain baseline."""
    pairs = [
        (key, key._replace(row=baseline, mode="single" if key.mode == "refine" else key.mode))
        for key in cells
        if key.row != baseline and key.mode in COMPARED and key.fraction == 1.0
    ]
    return _compared(cells, pairs, resamples)


def against_twins(cells: Cells, mode: str, resamples: int, *, equal: bool) -> dict[CellKey, Compared]:
    """Tasks learned with others, each with the same task learned alone by the same model, with `equal` for as many updates."""
    found = [(key, key.twin(cells, equal=equal)) for key in cells if key.mode == mode and key.fraction == 1.0]
    return _compared(cells, [(key, twin) for key, twin in found if twin is not None], resamples)


def draws_for(comparisons: int, resamples: int) -> int:
    """How many draws a family of comparisons needs: enough for the smallest corrected p-value to be half of 5 %.

    A bootstrap's p-value is at least 2 / (draws + 1), and Holm multiplies it by the number of comparisons: with too few draws no
    difference of a large study, however clear, could ever hold.
    """
    return max(resamples, 80 * comparisons)


def _compared(cells: Cells, pairs: Iterable[tuple[CellKey, CellKey]], resamples: int) -> dict[CellKey, Compared]:
    known = {}
    for key, other in pairs:
        one, two = cells[key][1], cells[other][1] if other in cells else None
        if one is not None and two is not None:
            known[key, other] = (one, two)
    draws = draws_for(len(known), resamples)
    found = [paired_bootstrap(one, two, resamples=draws) for one, two in known.values()]
    adjusted = holm([comparison.p_value for comparison in found])
    return {
        key: Compared(key, other, comparison, p)
        for (key, other), comparison, p in zip(known, found, adjusted, strict=True)
    }


@dataclass(frozen=True)
class Results:
    """Every cell, and what was found by comparing them."""

    title: str
    layout: str
    split: str
    baseline: str
    cells: Mapping[CellKey, StudyCell]
    comparisons: Mapping[CellKey, Compared]
    """Models against the baseline."""
    together: Mapping[CellKey, Compared] = field(default_factory=dict)
    """All tasks in one run, each against its single-task twin; at equal updates where the study has such twins."""
    pairs: Mapping[CellKey, Compared] = field(default_factory=dict)
    """Pairs of tasks in one run, each task against its single-task twin."""
    alone: Mapping[CellKey, Compared] = field(default_factory=dict)
    """All tasks in one run, each against the task learned alone for its own epochs, where the twins are others than that."""
    ranks: RankTest | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Models that were refined before they were fine-tuned, and the tasks they were refined on."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Learning rate and epochs that the chosen runs of a cell had, by "model/task/mode"."""
    choose: str = "settings"
    resamples: int = 2000
    missing: int = 0
    """Runs that are not done: the study is not complete."""
    work: Work = field(default_factory=Work)
    """Of all runs, those that dev did not choose and refinements included."""
    timings: Sequence[Timing] = ()
    """Seconds and devices; they differ from run to run and are no part of results.json."""

    @property
    def rows(self) -> list[str]:
        """Models, in recipe order."""
        return list(dict.fromkeys(key.row for key in self.cells))

    @property
    def columns(self) -> list[str]:
        """Tasks, in recipe order."""
        return list(dict.fromkeys(key.column for key in self.cells))

    def cell(self, row: str, column: str, mode: str = "single", fraction: float = 1.0) -> StudyCell | None:
        """A cell, or none where there is none."""
        return self.cells.get(CellKey(row, column, mode, fraction))

    def has(self, mode: str) -> bool:
        """Whether anything was learned in this way."""
        return any(key.mode == mode for key in self.cells)

    def twin(self, key: CellKey) -> StudyCell | None:
        """What a cell that was learned with other tasks is compared with: the task alone, at equal updates where the study has that."""
        twin = key.twin(self.cells, equal=self.has("twin"))
        return None if twin is None else self.cells[twin]

    def of_column(self, column: str) -> StudyCell:
        """Any cell of a column, for what they all share: protocol and metric."""
        return next(cell for key, cell in self.cells.items() if key.column == column)

    def protocol(self, column: str) -> str:
        """The protocol of a column; a column never mixes two."""
        return self.of_column(column).protocol

    def metric(self, column: str) -> str:
        """The metric of a column."""
        return self.of_column(column).metric

    def setting(self, cell: StudyCell) -> dict[str, Any]:
        """Learning rate and epochs of a cell, and the rest of the grid point that dev chose."""
        base = self.settings.get(setting_name(cell.key.row, cell.key.column, cell.key.mode), {})
        return {**base, **cell.setting}

    def as_dict(self) -> dict[str, Any]:
        """Plain data for results.json; `read_results` makes the same again."""
        cells = []
        for key, cell in self.cells.items():
            row = cell.as_dict()
            families = {"against": self.comparisons, "alone": self.alone}
            for name, family in [*families.items(), ("twin", self.together), ("twin", self.pairs)]:
                if key in family:
                    row[name] = family[key].as_dict()
            if "against" in row:
                row["against"]["baseline"] = self.baseline
            cells.append(row)
        return {
            "title": self.title,
            "layout": self.layout,
            "split": self.split,
            "baseline": self.baseline,
            "choose": self.choose,
            "resamples": self.resamples,
            "missing_runs": self.missing,
            "work": asdict(self.work),
            "groups": {name: list(columns) for name, columns in self.groups.items()},
            "refined": {name: list(columns) for name, columns in self.refined.items()},
            "settings": {name: dict(values) for name, values in self.settings.items()},
            "ranks": asdict(self.ranks) if self.ranks else None,
            "cells": cells,
        }


def collect(recipe: StudyRecipe, finished: Sequence[FinishedRun], missing: int = 0) -> Results:
    """Score every chosen run's predictions again, group them into cells, and compare.

    `finished` may hold runs that dev did not choose, with or without an evaluation; `FinishedRun.chosen` says which it chose.
    """
    baseline = recipe.baseline or next(iter(recipe.models))
    gathered = gather(_in_recipe_order(recipe, finished), recipe.resamples)
    if not gathered:
        raise OslerError("no run of the study has a score yet", fix="Run the study first: osler study run")
    cells = {key: cell for key, (cell, _) in gathered.items()}
    equal = any(key.mode == "twin" for key in cells)
    return Results(
        title=recipe.title,
        layout=recipe.layout,
        split=recipe.split,
        baseline=baseline,
        cells=cells,
        comparisons=against_baseline(gathered, baseline, recipe.resamples),
        together=against_twins(gathered, "together", recipe.resamples, equal=equal),
        pairs=against_twins(gathered, "pair", recipe.resamples, equal=equal),
        alone=against_twins(gathered, "together", recipe.resamples, equal=False) if equal else {},
        ranks=_ranks(cells),
        groups=recipe.groups,
        refined={name: model.refine.tasks for name, model in recipe.models.items() if model.refine},
        settings=_settings(finished),
        choose=recipe.choose,
        resamples=recipe.resamples,
        missing=missing,
        work=work(finished),
        timings=timings(finished),
    )


def read_results(path: Path) -> Results:
    """The results of a study from its results.json."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        cells = [read_cell(cell) for cell in values["cells"]]
        ranks = values["ranks"]
        return Results(
            title=values["title"],
            layout=values["layout"],
            split=values["split"],
            baseline=values["baseline"],
            cells={cell.key: cell for cell in cells},
            comparisons=_family(values, "against", COMPARED),
            together=_family(values, "twin", ("together",)),
            pairs=_family(values, "twin", ("pair",)),
            alone=_family(values, "alone", ("together",)),
            ranks=_read_ranks(ranks) if ranks else None,
            groups={name: tuple(columns) for name, columns in values["groups"].items()},
            refined={name: tuple(columns) for name, columns in values["refined"].items()},
            settings=values["settings"],
            choose=values["choose"],
            resamples=values["resamples"],
            missing=values["missing_runs"],
            work=Work(**values.get("work", {})),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError("not the results of a study", where=path, fix="Run osler study run again") from error


def setting_name(row: str, column: str, mode: str) -> str:
    """The name of a cell in `Results.settings`."""
    return f"{row}/{column}/{mode}"


def _family(values: Mapping[str, Any], name: str, modes: tuple[str, ...]) -> dict[CellKey, Compared]:
    found = [read_compared(cell[name]) for cell in values["cells"] if name in cell and cell["mode"] in modes]
    return {compared.key: compared for compared in found}


def _read_ranks(values: Mapping[str, Any]) -> RankTest:
    plain = {name: tuple(values[name]) for name in ("names", "ranks")}
    return RankTest(**{**values, **plain, "cliques": tuple(tuple(clique) for clique in values["cliques"])})


def _in_recipe_order(recipe: StudyRecipe, finished: Sequence[FinishedRun]) -> list[FinishedRun]:
    """Models as the recipe names them; runs of one model stay in the order they came (tasks, then seeds)."""
    place = {name: index for index, name in enumerate(recipe.models)}
    return sorted(finished, key=lambda run: place.get(run.spec.row, len(place)))


def _ranks(cells: Mapping[CellKey, StudyCell]) -> RankTest | None:
    """Ranks of models over the columns that every one of them has a score on."""
    main = {(key.row, key.column): cell for key, cell in cells.items() if key == key.plain}
    rows = list(dict.fromkeys(row for row, _ in main))
    columns = [
        column for column in dict.fromkeys(column for _, column in main) if all((row, column) in main for row in rows)
    ]
    if len(rows) < 2 or len(columns) < 2:
        return None
    return rank_test(rows, [[main[row, column].summary.mean for column in columns] for row in rows])


def _settings(finished: Sequence[FinishedRun]) -> dict[str, dict[str, Any]]:
    """Peak rate and epochs of each model on each task, from the recipes its bundles were made with."""
    found: dict[str, dict[str, Any]] = {}
    for run in finished:
        if run.spec.mode in ("pair", "twin") or run.spec.fraction != 1.0 or not run.chosen:
            continue
        for column in run.spec.columns:
            name = setting_name(run.spec.row, column, run.spec.mode)
            if name not in found:
                made = json.loads((run.folder / "bundle" / "manifest.json").read_text()).get("recipe", {})
                found[name] = {"lr": made.get("train", {}).get("lr"), "epochs": made.get("epochs")}
    return found
