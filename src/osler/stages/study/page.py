"""A study as files: results.json, tables as Markdown, CSV and LaTeX, and one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from osler.artifacts.run import FinishedRun, RunSpec
from osler.core.files import write_atomic, write_json
from osler.report.diagrams import critical_difference
from osler.report.page import Page
from osler.report.plots import Bar, CurvePoint, bars_with_intervals, curves, learning_curves
from osler.report.tables import csv_table, latex_table, markdown_table
from osler.stages.study import pairwise
from osler.stages.study.layouts import main_tables
from osler.stages.study.layouts.common import NamedTable, lines, missing_text
from osler.stages.study.pairwise import pairwise_page
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.results import Results, collect
from osler.stages.study.tables import (
    accounting_table,
    choice_table,
    cost_table,
    difference_table,
    fractions,
    interval_table,
    learning_table,
    rank_table,
    timing_table,
)


def write_reports(
    recipe: StudyRecipe, runs: Sequence[FinishedRun], missing: Sequence[RunSpec], folder: Path
) -> Results:
    """Make the numbers of a study from its finished runs and write everything that is made from them."""
    results = collect(recipe, runs, len(missing))
    write_report(results, folder)
    return results


def write_report(results: Results, folder: Path) -> None:
    """Write results.json, the tables and the pages; `read_results` of that file gives the same ones again, but for the times."""
    write_json(folder / "results.json", results.as_dict())
    main, *others = main_tables(results)
    _write_table(main, folder)
    for table in [*others, *extra_tables(results)]:
        _write_table(table, folder / "tables")
    if results.pairs or results.has("pair"):
        write_json(folder / "pairwise.json", pairwise.as_dict(results))
        pairwise_page(results).write(folder / "pairwise.html")
    study_page(results).write(folder / "report.html")
    if results.timings:
        _write_times(results, folder / "logs")


def extra_tables(results: Results) -> list[NamedTable]:
    """The tables that the papers do not have."""
    made = [NamedTable("intervals", interval_table(results))]
    if results.comparisons:
        made.append(NamedTable("differences", difference_table(results)))
    # Over one or two tasks ranks say nothing that the scores do not.
    if results.ranks and len(results.columns) > 2:
        made.append(NamedTable("ranks", rank_table(results)))
    if results.has("together"):
        made.append(NamedTable("accounting", accounting_table(results)))
    for column in _curved(results):
        made.append(NamedTable(f"learning-{column}", learning_table(results, column)))
    if any(cell.configurations > 1 for cell in results.cells.values()):
        made.append(NamedTable("choices", choice_table(results)))
    made.append(NamedTable("cost", cost_table(results)))
    return made


def study_page(results: Results) -> Page:
    """The page of a study."""
    page = Page(results.title, "Models compared under named protocols")
    extra = {named.name: named.table for named in extra_tables(results)}
    page.numbers(
        [
            ("models", str(len(results.rows))),
            ("tasks", str(len(results.columns))),
            ("scores", str(sum(len(cell.scores) for cell in results.cells.values())), "one a seed and cell"),
        ]
    )
    if results.missing:
        page.text(f"**Not complete**: {missing_text(results)}")
    page.heading("Scores")
    for named in main_tables(results):
        page.table(named.table)
    page.heading("Intervals")
    for column in results.columns:
        plot = _interval_plot(results, column)
        if plot:
            page.figure(plot, _interval_caption(results, column))
    page.table(extra["intervals"])
    if "differences" in extra:
        page.heading(f"Against {results.baseline}")
        page.table(extra["differences"])
    if results.ranks is not None and "ranks" in extra:
        page.heading("Ranks over tasks")
        ranks = dict(zip(results.ranks.names, results.ranks.ranks, strict=True))
        plot = critical_difference(ranks, results.ranks.cliques, difference=results.ranks.difference)
        page.figure(plot, "Average ranks, the best at the left; a bar joins models that are not told apart.")
        page.table(extra["ranks"])
    if "accounting" in extra:
        page.heading("Learning together")
        page.table(extra["accounting"])
    if results.has("pair"):
        page.heading("Pairs of tasks")
        page.text("Matrix, graph and suggestions: `pairwise.html` in the same folder.")
    if _curved(results):
        page.heading("Less data")
        for column in _curved(results):
            page.figure(
                _learning_plot(results, column), f"{column} by share of the training data, with 95 % intervals."
            )
            page.table(extra[f"learning-{column}"])
    page.heading("Choices and training")
    if "choices" in extra:
        page.table(extra["choices"])
    for column in results.columns:
        _dev_curves(page, results, column)
    page.heading("Cost")
    page.table(extra["cost"])
    return page


def _interval_plot(results: Results, column: str) -> str:
    bars = []
    for line in lines(results):
        cell = line.cell(results, column)
        if cell is not None:
            low, high = (100 * cell.interval.low, 100 * cell.interval.high) if cell.interval else (None, None)
            points = tuple(100 * score for score in cell.scores)
            bars.append(Bar(line.label, 100 * cell.summary.mean, low, high, points))
    if not bars:
        return ""  # a study in progress: nothing of this task is done yet but pairs or parts
    return bars_with_intervals(bars, xlabel=f"{results.metric(column)} x 100", title=column, from_zero=False)


def _interval_caption(results: Results, column: str) -> str:
    return f"{results.protocol(column)}: mean, 95 % interval over documents and seeds, and every seed as a ring."


def _curved(results: Results) -> list[str]:
    """Columns that were learned from shares of their data."""
    return [column for column in results.columns if len(fractions(results, column)) > 1]


def _learning_plot(results: Results, column: str) -> str:
    series = {}
    for row in results.rows:
        cells = [results.cell(row, column, fraction=share) for share in fractions(results, column)]
        points = [
            CurvePoint(
                cell.key.fraction,
                100 * cell.summary.mean,
                100 * cell.interval.low if cell.interval else None,
                100 * cell.interval.high if cell.interval else None,
            )
            for cell in cells
            if cell is not None
        ]
        if points:
            series[row] = points
    metric = results.metric(column)
    return learning_curves(series, xlabel="share of the training data", ylabel=f"{metric} x 100", title=column)


def _dev_curves(page: Page, results: Results, column: str) -> None:
    series = {}
    for line in lines(results):
        cell = line.cell(results, column)
        if cell is not None and cell.curve:
            series[line.label] = [(step, 100 * value) for step, value in cell.curve]
    if series:
        label = f"dev {results.metric(column)} x 100"
        plot = curves(series, xlabel="updates of the run", ylabel=label, title=column)
        page.figure(plot, f"How {column} was learned: dev score by update, mean over the chosen runs.")


def _write_table(named: NamedTable, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / f"{named.name}.md", markdown_table(named.table))
    write_atomic(folder / f"{named.name}.csv", csv_table(named.table))
    write_atomic(folder / f"{named.name}.tex", latex_table(named.table))


def _write_times(results: Results, logs: Path) -> None:
    """Times go below logs/, which is no part of an artifact's hash: they are never the same twice."""
    logs.mkdir(parents=True, exist_ok=True)
    table = timing_table(results.timings)
    write_json(logs / "cost.json", [asdict(time) for time in results.timings])
    write_atomic(logs / "cost.md", markdown_table(table))
    Page(f"{results.title}: time", "Seconds and devices of the runs").table(table).write(logs / "cost.html")
