"""A study as a table and as a page: means with their spread, differences with intervals, and how the scores came to be."""

from __future__ import annotations

from osler.report.page import Page
from osler.report.plots import curves
from osler.report.tables import Column, Table, Value
from osler.stages.study.results import Results


def study_table(results: Results) -> Table:
    """Models as rows, tasks as columns under their protocol: mean ± standard deviation over seeds, times 100."""
    columns: list[Column | str] = ["model"]
    for task in results.tasks:
        metric = next(cell.metric for (_, name), cell in results.cells.items() if name == task)
        columns.append(Column(f"{task} ({metric})", digits=1, scale=100, best="max"))
    rows = []
    for model in results.models:
        row: list[str | Value] = [model]
        for task in results.tasks:
            summary = results.cells[model, task].summary
            found = results.comparisons.get((model, task))
            mark = "*" if found is not None and found.significant else ""
            row.append(Value(summary.mean, std=summary.std, mark=mark))
        rows.append(row)
    seeds = len(next(iter(results.cells.values())).seeds)
    protocols = "; ".join(results.protocol(task) for task in results.tasks)
    note = (
        f"Mean ± standard deviation over {seeds} seed(s), times 100. Protocols: {protocols}. "
        f"* differs from {results.baseline} at 5 % (paired bootstrap over documents and seeds, Holm-corrected)."
    )
    return Table(columns, rows, "Scores on the test split", note)


def difference_table(results: Results) -> Table:
    """Every comparison with the baseline."""
    columns: list[Column | str] = [
        "model",
        "task",
        Column("difference", digits=1, scale=100),
        Column("corrected p", digits=4),
    ]
    rows: list[list[str | float | Value]] = [
        [
            model,
            task,
            Value(found.comparison.difference, low=found.comparison.low, high=found.comparison.high),
            found.p_value,
        ]
        for (model, task), found in results.comparisons.items()
    ]
    note = "Difference in points with its 95 % interval; the interval covers documents and seeds."
    return Table(columns, rows, f"Against {results.baseline}", note)


def add_results(page: Page, results: Results) -> None:
    """Add the table, the comparisons and the curves of a study to a page."""
    page.table(study_table(results))
    if results.comparisons:
        page.table(difference_table(results))
    for task in results.tasks:
        cells = [results.cells[model, task] for model in results.models]
        page.figure(
            curves(
                {cell.model: [(step, 100 * value) for step, value in cell.curve] for cell in cells},
                xlabel="updates",
                ylabel=f"dev {cells[0].metric} x 100",
                title=task,
            ),
            caption=f"How {task} was learned: dev score by update, mean over seeds.",
        )


def study_page(title: str, results: Results) -> Page:
    """The page of a study."""
    page = Page(title, "Models compared under named protocols")
    page.heading("Scores")
    add_results(page, results)
    return page
