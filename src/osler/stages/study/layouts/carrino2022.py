"""Carrino et al. 2022, table 2: per task, each model's mean over all configurations and its best on dev."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from osler.metrics.significance import summarise
from osler.report.tables import Column, Row, Table, Value
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts.common import lines, note, rate_text, sections, star
from osler.stages.study.results import Results

ALL, BEST = "Average of all configurations", "Best on development set"


def tables(results: Results) -> dict[str, Table]:
    """One table with a section per task; F1, precision and recall for tasks that have them."""
    metrics = {name for cell in results.cells.values() for run in cell.scored for name in run.metrics}
    others = [name for name in ("precision", "recall") if name in metrics]
    settings = dict.fromkeys(name for cell in results.cells.values() for name in cell.winner.settings)
    names = [name for name in settings if name != "lr"]
    score = partial(Column, digits=2, scale=100, best="max")
    heads: list[Column | str] = ["model", score("score", group=ALL), *(score(name, group=ALL) for name in others)]
    heads += [Column("runs", group=ALL), score("score", group=BEST), Column("LR", group=BEST, align="right")]
    heads += [Column(name, group=BEST, align="right") for name in names]
    heads += [Column("epoch", digits=1, group=BEST)]
    shown: list[StudyCell] = []

    def rows_of(column: str) -> list[Row]:
        found = [(line.label, cell) for line in lines(results) if (cell := line.cell(results, column)) is not None]
        shown.extend(cell for _, cell in found)
        return [_row(results, label, cell, others, names) for label, cell in found]

    rows, headings = sections(results, rows_of)
    one = results.choose == "run"
    statistic = (
        "The single best run on dev, ± deviation" if one else "Best on dev is one configuration: mean ± deviation"
    )
    unscored = sum(len(cell.runs) - len(cell.scored) for cell in shown)
    text = note(
        results,
        results.columns,
        shown,
        statistic,
        "The average is over every scored run of every configuration (learning rate, seed), ± its standard deviation; "
        "the configuration is chosen on dev alone. Epoch: the one with the best dev score (median over seeds).",
        f"Runs that were not chosen on dev and not scored: {unscored}; the average does not cover all configurations."
        if unscored
        else "",
    )
    caption = f"Scores on the {results.split} split, times 100"
    return {"table": Table(heads, rows, caption, text, headings, best_along="section")}


def _row(results: Results, label: str, cell: StudyCell, others: Sequence[str], names: Sequence[str]) -> Row:
    settings = results.setting(cell)
    averages = [_over_all(cell), *(_over_all(cell, name) if "f1" in cell.metric else None for name in others)]
    chosen = [rate_text(settings.get("lr")), *(rate_text(settings.get(name)) for name in names), cell.best_epoch]
    return [label, *averages, len(cell.scored), _best(results, cell), *chosen]


def _over_all(cell: StudyCell, metric: str | None = None) -> Value | None:
    summary = cell.over_all(metric)
    return None if summary is None else Value(summary.mean, std=summary.std if summary.n > 1 else None)


def _best(results: Results, cell: StudyCell) -> Value:
    """Return the chosen score, with its deviation over all seeds of its configuration even if a single run was chosen."""
    siblings = [run.score for run in cell.scored if run.score is not None and run.point == cell.chosen[0].point]
    scores = siblings if cell.summary.n == 1 and not cell.folds else list(cell.scores)
    std = summarise(scores).std if len(scores) > 1 else None
    return Value(cell.summary.mean, std=std, mark=star(results, cell))
