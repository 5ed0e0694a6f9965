"""Peng et al. 2020, tables 2 to 6: models fine-tuned, refined on many tasks, and fine-tuned after that; 0 to 1 as in the paper."""

from __future__ import annotations

from collections.abc import Sequence

from osler.report.tables import Cell as TableCell
from osler.report.tables import Column, Table
from osler.stages.study.layouts.common import (
    SPREAD,
    NamedTable,
    TableLine,
    mean_of_cells,
    mean_value,
    note,
    protocol_of,
)
from osler.stages.study.results import Results


def tables(results: Results) -> list[NamedTable]:
    """By group of tasks, all stages (tables 2 and 3) and the refined models alone (4 and 5); then all tasks (6)."""
    groups = {name: [c for c in members if c in results.columns] for name, members in results.groups.items()}
    groups = {name: members for name, members in groups.items() if members} or {"all tasks": results.columns}
    models = _stages(results)
    made = [
        NamedTable("table" if not index else f"stages-{_slug(name)}", _stages_table(results, models, name, members))
        for index, (name, members) in enumerate(groups.items())
    ]
    tuned = [line for line in models if line.row in results.refined and line.mode == "single"]
    if len(tuned) > 1:
        for name, members in groups.items():
            caption = f"Models fine-tuned after refinement, {name}"
            made.append(NamedTable(f"refined-{_slug(name)}", _by_model(results, tuned, members, caption)))
    if len(groups) > 1 or len(results.columns) > len(next(iter(groups.values()))):
        made.append(NamedTable("all-tasks", _by_task(results, models)))
    return made


def _stages(results: Results) -> list[TableLine]:
    """Plain models, then what refinement made of them, then what fine-tuning made of that."""
    present = {(key.row, key.mode) for key in results.cells if key.fraction == 1.0}
    found = []
    for row in results.rows:
        refined = row in results.refined
        said = {
            "single": ", refined and fine-tuned" if refined else "",
            "together": ", one model",
            "refine": ", refined",
        }
        order = ("refine", "together", "single") if refined else ("single", "together")
        found += [TableLine(f"{row}{said[mode]}", row, mode) for mode in order if (row, mode) in present]
    return found


def _stages_table(results: Results, models: Sequence[TableLine], name: str, columns: Sequence[str]) -> Table:
    return _by_model(results, models, columns, f"Results on {name}, {results.split} split")


def _by_model(results: Results, models: Sequence[TableLine], columns: Sequence[str], caption: str) -> Table:
    heads: list[Column | str] = ["model"]
    heads += [Column(f"{column} ({results.metric(column)})", digits=3, best="max") for column in columns]
    heads += [Column("Avg", digits=3, best="max")]
    rows: list[list[TableCell]] = []
    shown = []
    for line in models:
        cells = [line.cell(results, column) for column in columns]
        if any(cell is not None for cell in cells):
            rows.append([line.label, *(mean_value(results, cell) for cell in cells), mean_of_cells(cells)])
            shown += cells
    return Table(heads, rows, caption, note(results, columns, shown, SPREAD, _said(results)))


def _by_task(results: Results, models: Sequence[TableLine]) -> Table:
    heads: list[Column | str] = ["task", Column("protocol", align="left")]
    heads += [Column(line.label, digits=3, best="max") for line in models]
    rows: list[list[TableCell]] = []
    for column in results.columns:
        rows.append(
            [
                column,
                protocol_of(results, column),
                *(mean_value(results, line.cell(results, column)) for line in models),
            ]
        )
    means = [mean_of_cells([line.cell(results, column) for column in results.columns]) for line in models]
    rows.append(["Avg", "", *means])
    shown = [line.cell(results, column) for line in models for column in results.columns]
    text = note(results, results.columns, shown, SPREAD, _said(results))
    return Table(heads, rows, f"Results on all tasks, {results.split} split", text, best_along="row")


def _said(results: Results) -> str:
    named = "; ".join(f"{row} on {', '.join(columns)}" for row, columns in results.refined.items())
    return (
        f"Refined: {named}. Avg is over tasks with different metrics."
        if named
        else "Avg is over tasks with different metrics."
    )


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split()) or "group"
