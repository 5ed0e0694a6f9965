"""Carrino et al. 2022, table 2: by task, every model's mean over all configurations, and its best on dev with rate and epoch."""

from __future__ import annotations

from osler.metrics.significance import summarise
from osler.report.tables import Cell as TableCell
from osler.report.tables import Column, Table, Value
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts.common import NamedTable, lines, note, rate_text, star
from osler.stages.study.results import Results

ALL, BEST = "Average of all configurations", "Best on development set"


def tables(results: Results) -> list[NamedTable]:
    """One table with a section a task; F1, precision and recall where the task has them."""
    others = [name for name in ("precision", "recall") if _anywhere(results, name)]
    names = [name for name in dict.fromkeys(n for cell in results.cells.values() for n in cell.setting) if name != "lr"]
    heads: list[Column | str] = ["model", Column("score", digits=2, scale=100, best="max", group=ALL)]
    heads += [Column(name, digits=2, scale=100, best="max", group=ALL) for name in others]
    heads += [Column("runs", group=ALL), Column("score", digits=2, scale=100, best="max", group=BEST)]
    heads += [Column("LR", group=BEST, align="right")]
    heads += [Column(name, group=BEST, align="right") for name in names]
    heads += [Column("epoch", digits=1, group=BEST)]
    rows: list[list[TableCell]] = []
    headings: dict[int, str] = {}
    shown: list[StudyCell] = []
    for column in results.columns:
        headings[len(rows)] = f"{results.protocol(column)} ({results.metric(column)})"
        for line in lines(results):
            cell = line.cell(results, column)
            if cell is not None:
                shown.append(cell)
                rows.append(_row(results, line.label, cell, others, names))
    one = results.choose == "run"
    statistic = (
        "The single best run on dev, ± deviation" if one else "Best on dev is one configuration: mean ± deviation"
    )
    more = (
        "The average is over every scored run of every configuration (learning rate, seed), ± its standard deviation; "
        "the configuration is chosen on dev alone. Epoch is the one that dev kept (median over seeds)."
    )
    lacking = sum(len(cell.runs) - len(cell.scored) for cell in shown)
    partial = (
        f"Runs that dev did not choose and that were not scored: {lacking}; the average does not cover all configurations."
        if lacking
        else ""
    )
    text = note(results, results.columns, shown, statistic, more, partial)
    caption = f"Scores on the {results.split} split, times 100"
    return [NamedTable("table", Table(heads, rows, caption, text, headings, best_along="section"))]


def _row(results: Results, label: str, cell: StudyCell, others: list[str], names: list[str]) -> list[TableCell]:
    settings = results.setting(cell)
    averages = [_over_all(cell), *(_over_all(cell, name) if "f1" in cell.metric else None for name in others)]
    chosen = [rate_text(settings.get("lr")), *(rate_text(settings.get(name)) for name in names), cell.best_epoch]
    return [label, *averages, len(cell.scored), _best(results, cell), *chosen]


def _over_all(cell: StudyCell, metric: str | None = None) -> Value | None:
    summary = cell.over_all(metric)
    return None if summary is None else Value(summary.mean, std=summary.std if summary.n > 1 else None)


def _best(results: Results, cell: StudyCell) -> Value:
    """The chosen score; its deviation is over all seeds of its configuration, also where one run was chosen."""
    siblings = [run.score for run in cell.scored if run.score is not None and run.point == cell.chosen[0].point]
    scores = siblings if cell.summary.n == 1 and not cell.folds else list(cell.scores)
    std = summarise(scores).std if len(scores) > 1 else None
    return Value(cell.summary.mean, std=std, mark=star(results, cell))


def _anywhere(results: Results, metric: str) -> bool:
    return any(metric in run.metrics for cell in results.cells.values() for run in cell.scored)
