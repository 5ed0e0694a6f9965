"""Results of a study: cells, comparisons and costs. Every table can be made from results.json alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from osler.artifacts.run import Run
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import ArtifactError, OslerError
from osler.metrics.ranks import RankTest, rank_test
from osler.metrics.significance import PairedComparison, holm, paired_bootstrap
from osler.stages.study.across import Across, AcrossCell, gather_across
from osler.stages.study.cells import RESAMPLES, CellKey, Evidence, StudyCell, gather
from osler.stages.study.recipe import StudyRecipe
from osler.tasks.published import PublishedPaper, load_published, rows_of_models

COMPARED = ("single", "together", "refine")
"""Modes in which models are compared with the baseline."""
_COPIED = ("title", "layout", "split", "baseline", "choose", "resamples")
"""Fields of `Results` that go to results.json unchanged."""


@dataclass(frozen=True)
class Compared:
    """A comparison of two cells of the same task. `p_value` is corrected for all comparisons in its family."""

    key: CellKey
    other: CellKey
    comparison: PairedComparison
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether the corrected p-value is below 5 %."""
        return self.p_value < 0.05

    def to_dict(self) -> dict[str, Any]:
        cells = {"cell": list(self.key), "other": list(self.other)}
        return {**cells, **asdict(self.comparison), "p_holm": self.p_value}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Compared:
        plain = {name: values[name] for name in ("first", "second", "difference", "low", "high", "p_value")}
        return cls(CellKey(*values["cell"]), CellKey(*values["other"]), PairedComparison(**plain), values["p_holm"])


@dataclass(frozen=True)
class Timing:
    """Time of one model on one set of tasks in one mode, summed over seeds, folds and grid points."""

    row: str
    columns: tuple[str, ...]
    mode: str
    fraction: float
    runs: int
    seconds: float
    """Time of all runs, chosen or not."""
    chosen_runs: int
    chosen_seconds: float
    gpu_seconds: float
    """GPU time of all runs: seconds on a GPU times the number of GPUs. Runs that share a GPU count in full."""
    devices: tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """Training work of a study. A run counts once, no matter how many cells share it."""

    runs: int = 0
    tokens: int = 0
    flops: float = 0.0
    uncounted: int = 0
    """Number of older runs, from before fine-tuning recorded its work."""


@dataclass(frozen=True)
class ComparedPaper:
    """A paper whose numbers are shown next to the study's, in tables of their own."""

    paper: PublishedPaper
    rows: Mapping[str, tuple[str, ...]]
    """Rows of the paper that each model is compared with."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Tasks with unofficial data, and why: synthetic files, or only some of the documents."""

    def to_dict(self) -> dict[str, Any]:
        return {"paper": self.paper.resolved(), "rows": self.rows, "data": self.data}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ComparedPaper:
        rows = {model: tuple(rows) for model, rows in values["rows"].items()}
        return cls(PublishedPaper.model_validate(values["paper"]), rows, values["data"])


@dataclass(frozen=True)
class Results:
    """All cells and the comparisons between them."""

    title: str
    layout: str
    split: str
    baseline: str
    cells: Mapping[CellKey, StudyCell]
    comparisons: Mapping[CellKey, Compared]
    """Each model against the baseline model."""
    together: Mapping[CellKey, Compared] = field(default_factory=dict)
    """All tasks in one run: each task against its single-task baseline, of matched length if the study has those."""
    pairs: Mapping[CellKey, Compared] = field(default_factory=dict)
    """Pairs of tasks in one run: each task against its single-task baseline."""
    alone: Mapping[CellKey, Compared] = field(default_factory=dict)
    """All tasks in one run: each task against its plain single-task run, if `together` has other baselines."""
    ranks: RankTest | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Refined models, and the tasks they were refined on."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Learning rate and epochs of a cell's chosen runs, by "model/task/mode"."""
    choose: str = "settings"
    resamples: int = RESAMPLES
    missing: int = 0
    """Number of unfinished runs."""
    work: Work = field(default_factory=Work)
    """Work of all runs, chosen or not, including refinements."""
    published: ComparedPaper | None = None
    across: Sequence[AcrossCell] = ()
    """Models scored on other tasks than the one they were trained on."""
    timings: Sequence[Timing] = ()
    """Not part of results.json, because times differ from run to run."""

    @property
    def rows(self) -> list[str]:
        """Models, in recipe order."""
        return list(dict.fromkeys(key.row for key in self.cells))

    @property
    def columns(self) -> list[str]:
        """Tasks, in recipe order."""
        return list(dict.fromkeys(key.column for key in self.cells))

    def cell(self, row: str, column: str, mode: str = "single", fraction: float = 1.0) -> StudyCell | None:
        return self.cells.get(CellKey(row, column, mode, fraction))

    def has(self, mode: str) -> bool:
        """Whether the study has cells of this mode."""
        return any(key.mode == mode for key in self.cells)

    def single_task_baseline(self, key: CellKey) -> StudyCell | None:
        """Return the baseline cell of a joint cell, of matched length if the study has such cells."""
        baseline = key.single_task(self.cells, matched=self.has("twin"))
        return None if baseline is None else self.cells[baseline]

    def of_column(self, column: str) -> StudyCell:
        """Return any cell of a column; all share protocol, metric and folds."""
        return next(cell for key, cell in self.cells.items() if key.column == column)

    def protocol(self, column: str) -> str:
        return self.of_column(column).protocol

    def metric(self, column: str) -> str:
        return self.of_column(column).metric

    def setting(self, cell: StudyCell) -> dict[str, Any]:
        """Return learning rate, epochs and chosen grid point of a cell."""
        return {**self.settings.get("/".join(cell.key[:3]), {}), **cell.winner.settings}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for results.json; `read_results` reads it back."""
        families = [("against", self.comparisons), ("alone", self.alone), ("twin", self.together), ("twin", self.pairs)]
        cells = []
        for key, cell in self.cells.items():
            row = cell.to_dict()
            row |= {name: family[key].to_dict() for name, family in families if key in family}
            if "against" in row:
                row["against"]["baseline"] = self.baseline
            cells.append(row)
        return {
            **{name: getattr(self, name) for name in _COPIED},
            "missing_runs": self.missing,
            "work": asdict(self.work),
            "groups": self.groups,
            "refined": self.refined,
            "settings": self.settings,
            "ranks": asdict(self.ranks) if self.ranks else None,
            "cells": cells,
            **({"published": self.published.to_dict()} if self.published else {}),
            **({"across": [cell.to_dict() for cell in self.across]} if self.across else {}),
        }


def read_results(path: Path) -> Results:
    """Read the results.json of a study."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        cells = [StudyCell.from_dict(cell) for cell in values["cells"]]
        ranks = values["ranks"]
        if ranks:
            ranks |= {"names": tuple(ranks["names"]), "ranks": tuple(ranks["ranks"])}
            ranks["cliques"] = tuple(tuple(clique) for clique in ranks["cliques"])
        return Results(
            **{name: values[name] for name in _COPIED},
            cells={cell.key: cell for cell in cells},
            comparisons=_family(values, "against", COMPARED),
            together=_family(values, "twin", ("together",)),
            pairs=_family(values, "twin", ("pair",)),
            alone=_family(values, "alone", ("together",)),
            ranks=RankTest(**ranks) if ranks else None,
            groups={name: tuple(columns) for name, columns in values["groups"].items()},
            refined={name: tuple(columns) for name, columns in values["refined"].items()},
            settings=values["settings"],
            missing=values["missing_runs"],
            work=Work(**values.get("work", {})),
            published=ComparedPaper.from_dict(values["published"]) if "published" in values else None,
            across=tuple(map(AcrossCell.from_dict, values.get("across", ()))),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError("not the results of a study", where=path, fix="Run osler study run again") from error


def _family(values: Mapping[str, Any], name: str, modes: tuple[str, ...]) -> dict[CellKey, Compared]:
    found = [Compared.from_dict(cell[name]) for cell in values["cells"] if name in cell and cell["mode"] in modes]
    return {compared.key: compared for compared in found}


def collect(recipe: StudyRecipe, finished: Sequence[Run], missing: int = 0, across: Across | None = None) -> Results:
    """Score the chosen runs, group all runs into cells, and compare the cells."""
    order = {name: index for index, name in enumerate(recipe.models)}
    by_model = sorted(finished, key=lambda run: order.get(run.spec.row, len(order)))
    gathered = gather(by_model, recipe.over_folds)
    if not gathered:
        raise OslerError("no run of the study has a score yet", fix="Run the study first: osler study run")
    baseline = recipe.baseline or next(iter(recipe.models))
    cells = {key: cell for key, (cell, _) in gathered.items()}
    matched = any(key.mode == "twin" for key in cells)
    return Results(
        title=recipe.title,
        layout=recipe.layout,
        split=recipe.split,
        baseline=baseline,
        cells=cells,
        comparisons=_against_baseline(gathered, baseline),
        together=_against_single_task(gathered, "together", matched=matched),
        pairs=_against_single_task(gathered, "pair", matched=matched),
        alone=_against_single_task(gathered, "together", matched=False) if matched else {},
        ranks=_ranks(cells),
        groups=recipe.groups,
        refined={name: model.refine.tasks for name, model in recipe.models.items() if model.refine},
        settings=_settings(finished),
        choose=recipe.choose,
        missing=missing,
        work=_work(finished),
        published=_compared_paper(recipe, finished, cells),
        across=gather_across(by_model, across or {}, RESAMPLES),
        timings=_timings(finished),
    )


Gathered = Mapping[CellKey, tuple[StudyCell, Evidence]]


def _against_baseline(cells: Gathered, baseline: str) -> dict[CellKey, Compared]:
    """Compare every model with the baseline in the same mode, on the full data. Refinements compare with the plain baseline."""
    return _compared(
        cells,
        (
            (key, key._replace(row=baseline, mode="single" if key.mode == "refine" else key.mode))
            for key in cells
            if key.row != baseline and key.mode in COMPARED and key.fraction == 1.0
        ),
    )


def _against_single_task(cells: Gathered, mode: str, *, matched: bool) -> dict[CellKey, Compared]:
    """Compare each task of joint runs with its single-task baseline of the same model."""
    found = [
        (key, key.single_task(cells, matched=matched)) for key in cells if key.mode == mode and key.fraction == 1.0
    ]
    return _compared(cells, ((key, other) for key, other in found if other is not None))


def draws_for(comparisons: int, resamples: int) -> int:
    """Return enough draws for the smallest corrected p-value of a family of comparisons to be half of 5 %.

    A bootstrap p-value is at least 2 / (draws + 1), and Holm multiplies it by the number of comparisons. With too few draws, no
    difference in a large study could be significant.
    """
    return max(resamples, 80 * comparisons)


def _compared(cells: Gathered, pairs: Iterable[tuple[CellKey, CellKey]]) -> dict[CellKey, Compared]:
    known = {}
    for key, other in pairs:
        one, two = cells[key][1], cells[other][1] if other in cells else None
        if one is not None and two is not None:
            known[key, other] = (one, two)
    draws = draws_for(len(known), RESAMPLES)
    found = [paired_bootstrap(one, two, resamples=draws) for one, two in known.values()]
    adjusted = holm([comparison.p_value for comparison in found])
    return {
        key: Compared(key, other, comparison, p)
        for (key, other), comparison, p in zip(known, found, adjusted, strict=True)
    }


def _ranks(cells: Mapping[CellKey, StudyCell]) -> RankTest | None:
    """Rank the models over the columns on which all of them have a score."""
    main = {(key.row, key.column): cell for key, cell in cells.items() if key == key.plain}
    rows = list(dict.fromkeys(row for row, _ in main))
    columns = [
        column for column in dict.fromkeys(column for _, column in main) if all((row, column) in main for row in rows)
    ]
    if len(rows) < 2 or len(columns) < 2:
        return None
    return rank_test(rows, [[main[row, column].summary.mean for column in columns] for row in rows])


def _settings(finished: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Return peak learning rate and epochs of each model on each task."""
    found: dict[str, dict[str, Any]] = {}
    for run in finished:
        spec = run.spec
        if spec.mode in ("pair", "twin") or spec.fraction != 1.0 or not run.chosen:
            continue
        for column in spec.columns:
            values = {"lr": run.training.train.get("lr"), "epochs": run.training.recipe.get("epochs")}
            found.setdefault(f"{spec.row}/{column}/{spec.mode}", values)
    return found


def _compared_paper(
    recipe: StudyRecipe, finished: Sequence[Run], cells: Mapping[CellKey, StudyCell]
) -> ComparedPaper | None:
    if recipe.published is None:
        return None
    paper = load_published(recipe.published)
    rows = rows_of_models(paper, {row: model.published for row, model in recipe.models.items()})
    folders = {column: path for run in finished for column, path in zip(run.spec.columns, run.spec.tasks, strict=True)}
    of_column = {key.column: cell for key, cell in cells.items()}
    data = {column: _not_official(TaskFolder.open(folders[column]), cell) for column, cell in of_column.items()}
    return ComparedPaper(paper, rows, {column: why for column, why in data.items() if why})


def _not_official(task: TaskFolder, cell: StudyCell) -> str:
    """Describe how the data of a task differs from the official files; empty if it is not known to."""
    card = task.card
    if task.artifact.manifest.counts.get("synthetic"):
        return "synthetic data here"
    stated = card.counts.get("test") or (card.paper and card.paper.splits.get("test"))
    number = stated.documents if stated else None
    # Folds differ in size, and some protocols leave out records on purpose.
    if number is None or cell.folds or card.protocol_behind(cell.protocol).records != "all" or cell.documents >= number:
        return ""
    return f"{cell.documents:,} of {number:,} test documents here"


def _work(finished: Sequence[Run]) -> Work:
    runs = {run.folder: run.training for run in finished}.values()
    known = [(run.tokens or 0, run.flops) for run in runs if run.flops is not None]
    return Work(len(runs), sum(t for t, _ in known), sum(float(f) for _, f in known), len(runs) - len(known))


def _timings(finished: Sequence[Run]) -> list[Timing]:
    """Sum up the known times of runs by model, tasks and mode."""
    grouped: dict[tuple[str, tuple[str, ...], str, float], list[Run]] = {}
    plain = {run.folder for run in finished if run.spec.mode != "twin"}
    for run in finished:
        repeated = run.spec.mode == "twin" and run.folder in plain  # this baseline needed no run of its own
        if not repeated and run.status.state == "done":
            spec = run.spec
            grouped.setdefault((spec.row, spec.columns, spec.mode, spec.fraction), []).append(run)
    return [
        Timing(
            *key,
            len(runs),
            sum(run.status.seconds for run in runs),
            sum(run.chosen for run in runs),
            sum((run.status.seconds for run in runs if run.chosen), 0.0),
            sum(
                (run.status.seconds * run.status.processes for run in runs if run.status.device not in (None, "cpu")),
                0.0,
            ),
            tuple(sorted({run.status.device for run in runs if run.status.device})),
        )
        for key, runs in grouped.items()
    ]
