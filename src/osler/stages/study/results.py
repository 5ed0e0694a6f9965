"""The numbers of a study: all cells, all comparisons, and what is needed to make every table again without the predictions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from osler.core.errors import ArtifactError, OslerError
from osler.metrics.ranks import RankTest, rank_test
from osler.stages.study.cells import Cell, CellKey, read_cell
from osler.stages.study.comparisons import COMPARED, Compared, against_baseline, against_twins, read_compared
from osler.stages.study.config import StudyRecipe
from osler.stages.study.costs import Timing, Work, timings, work
from osler.stages.study.gather import gather
from osler.stages.study.spec import FinishedRun


@dataclass(frozen=True)
class Results:
    """Every cell, and what was found by comparing them."""

    title: str
    layout: str
    split: str
    baseline: str
    cells: Mapping[CellKey, Cell]
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

    def cell(self, row: str, column: str, mode: str = "single", fraction: float = 1.0) -> Cell | None:
        """A cell, or none where there is none."""
        return self.cells.get(CellKey(row, column, mode, fraction))

    def has(self, mode: str) -> bool:
        """Whether anything was learned in this way."""
        return any(key.mode == mode for key in self.cells)

    def twin(self, key: CellKey) -> Cell | None:
        """What a cell that was learned with other tasks is compared with: the task alone, at equal updates where the study has that."""
        twin = key.twin(self.cells, equal=self.has("twin"))
        return None if twin is None else self.cells[twin]

    def of_column(self, column: str) -> Cell:
        """Any cell of a column, for what they all share: protocol and metric."""
        return next(cell for key, cell in self.cells.items() if key.column == column)

    def protocol(self, column: str) -> str:
        """The protocol of a column; a column never mixes two."""
        return self.of_column(column).protocol

    def metric(self, column: str) -> str:
        """The metric of a column."""
        return self.of_column(column).metric

    def setting(self, cell: Cell) -> dict[str, Any]:
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


def _ranks(cells: Mapping[CellKey, Cell]) -> RankTest | None:
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
