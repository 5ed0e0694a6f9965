"""Wada et al. 2020: the BLUE table with its total, and each model's settings on each task."""

from __future__ import annotations

from osler.report.tables import Column, Row, Table
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts.common import (
    SPREAD,
    known_groups,
    lines,
    mean_of_cells,
    note,
    rate_text,
    score_column,
    task_rows,
)
from osler.stages.study.results import Results


def tables(results: Results) -> dict[str, Table]:
    """Tasks as rows and models as columns with a total; then learning rate, epochs, dev and test score of each."""
    return {"table": _blue(results), "settings": _settings(results)}


def _ordered(results: Results) -> tuple[list[str], dict[int, str]]:
    """Order tasks by group, each once, with the group's name above its first task."""
    order: list[str] = []
    headings: dict[int, str] = {}
    for name, members in known_groups(results).items():
        new = [column for column in members if column not in order]
        if new:
            headings[len(order)] = name
            order += new
    rest = [column for column in results.columns if column not in order]
    if rest and headings:
        headings[len(order)] = "Other tasks"
    return order + rest, headings


def _blue(results: Results) -> Table:
    models = lines(results)
    columns, headings = _ordered(results)
    heads: list[Column | str] = ["task", Column("protocol", align="left")]
    heads += [score_column(line.label, best="max") for line in models]
    rows = task_rows(results, columns, models)
    headings[len(rows)] = "All tasks"
    totals = [mean_of_cells(line.cells(results, columns)) for line in models]
    rows.append(["Total", f"mean of {len(columns)}", *totals])
    shown = [cell for line in models for cell in line.cells(results, columns)]
    more = "The total is the mean over tasks with different metrics; its deviation is over seeds."
    text = note(results, columns, shown, f"{SPREAD}, times 100,", more)
    return Table(heads, rows, f"Scores on the {results.split} split", text, headings, best_along="row")


def _settings(results: Results) -> Table:
    models = lines(results, ("single",))
    columns, headings = _ordered(results)
    heads: list[Column | str] = ["task"]
    for line in models:
        heads += [Column("LR", group=line.label, align="right"), Column("epochs", group=line.label)]
        heads += [score_column(name, group=line.label) for name in ("dev", results.split)]
    rows: list[Row] = []
    shown: list[StudyCell | None] = []
    for column in columns:
        row: Row = [column]
        for cell in (line.cell(results, column) for line in models):
            shown.append(cell)
            if cell is None:
                row += [None] * 4
            else:
                used = results.setting(cell)
                row += [rate_text(used.get("lr")), used.get("epochs"), cell.dev, cell.summary.mean]
        rows.append(row)
    more = (
        "LR and epochs are those of the chosen runs. Dev is the score that choices are made by, so it is optimistic; "
        "it means nothing if the protocol trains on dev."
    )
    text = note(results, columns, shown, "Means", more)
    return Table(heads, rows, "Settings of each model on each task", text, headings)
