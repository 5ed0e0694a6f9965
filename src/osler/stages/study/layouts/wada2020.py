"""Wada et al. 2020: the BLUE table with its total, and every model's own settings on every task."""

from __future__ import annotations

from osler.report.tables import Cell as TableCell
from osler.report.tables import Column, Table
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts.common import (
    SPREAD,
    NamedTable,
    lines,
    mean_of_cells,
    mean_value,
    note,
    protocol_of,
    rate_text,
)
from osler.stages.study.results import Results


def tables(results: Results) -> list[NamedTable]:
    """Tasks as rows and models as columns with a total; then learning rate, epochs, dev and test of each."""
    return [NamedTable("table", _blue(results)), NamedTable("settings", _settings(results))]


def _ordered(results: Results) -> tuple[list[str], dict[int, str]]:
    """Tasks by group, each once, with the group's name above its first."""
    order: list[str] = []
    headings: dict[int, str] = {}
    for name, members in results.groups.items():
        mine = [column for column in members if column in results.columns and column not in order]
        if mine:
            headings[len(order)] = name
            order += mine
    rest = [column for column in results.columns if column not in order]
    if rest and headings:
        headings[len(order)] = "Other tasks"
    return order + rest, headings


def _blue(results: Results) -> Table:
    models = lines(results)
    columns, headings = _ordered(results)
    heads: list[Column | str] = ["task", Column("protocol", align="left")]
    heads += [Column(line.label, digits=1, scale=100, best="max") for line in models]
    rows: list[list[TableCell]] = []
    for column in columns:
        rows.append(
            [
                column,
                protocol_of(results, column),
                *(mean_value(results, line.cell(results, column)) for line in models),
            ]
        )
    headings[len(rows)] = "All tasks"
    totals = [mean_of_cells([line.cell(results, column) for column in columns]) for line in models]
    rows.append(["Total", f"mean of {len(columns)}", *totals])
    shown = [line.cell(results, column) for line in models for column in columns]
    more = "The total is the mean over tasks, its deviation over seeds; its tasks have different metrics."
    text = note(results, columns, shown, f"{SPREAD}, times 100,", more)
    return Table(heads, rows, f"Scores on the {results.split} split", text, headings, best_along="row")


def _settings(results: Results) -> Table:
    models = lines(results, ("single",))
    columns, headings = _ordered(results)
    heads: list[Column | str] = ["task"]
    for line in models:
        heads += [
            Column("LR", group=line.label, align="right"),
            Column("epochs", group=line.label),
            Column("dev", digits=1, scale=100, group=line.label),
            Column(results.split, digits=1, scale=100, group=line.label),
        ]
    rows: list[list[TableCell]] = []
    shown: list[StudyCell | None] = []
    for column in columns:
        found: list[TableCell] = [column]
        for line in models:
            cell = line.cell(results, column)
            shown.append(cell)
            found += _four(results, cell)
        rows.append(found)
    more = (
        "LR and epochs are what the chosen runs were trained with; dev is the score that choices are made by, so it is "
        "optimistic, and it means nothing where a protocol trains on dev."
    )
    return Table(
        heads, rows, "Settings of each model on each task", note(results, columns, shown, "Means", more), headings
    )


def _four(results: Results, cell: StudyCell | None) -> list[TableCell]:
    if cell is None:
        return [None, None, None, None]
    used = results.setting(cell)
    return [
        rate_text(used.get("lr")),
        used.get("epochs"),
        cell.dev,
        cell.summary.mean,
    ]
