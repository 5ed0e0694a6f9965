"""Peng et al. 2020, tables 2 to 6: models fine-tuned, refined on many tasks, and then fine-tuned again; scores from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence

from osler.report.tables import Column, Row, Table
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts.common import (
    SPREAD,
    TableLine,
    known_groups,
    mean_of_cells,
    mean_value,
    note,
    task_rows,
)
from osler.stages.study.results import Results


def tables(results: Results) -> dict[str, Table]:
    """Per group of tasks, all stages (tables 2 and 3) and the refined models alone (4 and 5); then all tasks (6)."""
    groups = known_groups(results) or {"all tasks": results.columns}
    models = _stages(results)
    made: dict[str, Table] = {}
    for index, (name, members) in enumerate(groups.items()):
        caption = f"Results on {name}, {results.split} split"
        made[f"stages-{_slug(name)}" if index else "table"] = _by_model(results, models, members, caption)
    tuned = [line for line in models if line.row in results.refined and line.mode == "single"]
    if len(tuned) > 1:
        for name, members in groups.items():
            caption = f"Models fine-tuned after refinement, {name}"
            made[f"refined-{_slug(name)}"] = _by_model(results, tuned, members, caption)
    if len(groups) > 1 or len(results.columns) > len(next(iter(groups.values()))):
        made["all-tasks"] = _by_task(results, models)
    return made


def _stages(results: Results) -> list[TableLine]:
    """Plain models, then the refined ones, then those fine-tuned after refinement."""
    present = {(key.row, key.mode) for key in results.cells if key.fraction == 1.0}
    found = []
    for row in results.rows:
        refined = row in results.refined
        suffixes = {
            "single": ", refined and fine-tuned" if refined else "",
            "together": ", one model",
            "refine": ", refined",
        }
        order = ("refine", "together", "single") if refined else ("single", "together")
        found += [TableLine(f"{row}{suffixes[mode]}", row, mode) for mode in order if (row, mode) in present]
    return found


def _by_model(results: Results, models: Sequence[TableLine], columns: Sequence[str], caption: str) -> Table:
    heads: list[Column | str] = ["model"]
    heads += [Column(f"{column} ({results.metric(column)})", digits=3, best="max") for column in columns]
    heads += [Column("Avg", digits=3, best="max")]
    rows: list[Row] = []
    shown: list[StudyCell | None] = []
    for line in models:
        cells = line.cells(results, columns)
        if any(cell is not None for cell in cells):
            rows.append([line.label, *(mean_value(results, cell) for cell in cells), mean_of_cells(cells)])
            shown += cells
    return Table(heads, rows, caption, note(results, columns, shown, SPREAD, _refined_text(results)))


def _by_task(results: Results, models: Sequence[TableLine]) -> Table:
    columns = results.columns
    heads: list[Column | str] = ["task", Column("protocol", align="left")]
    heads += [Column(line.label, digits=3, best="max") for line in models]
    rows = task_rows(results, columns, models)
    rows.append(["Avg", "", *(mean_of_cells(line.cells(results, columns)) for line in models)])
    shown = [cell for line in models for cell in line.cells(results, columns)]
    text = note(results, columns, shown, SPREAD, _refined_text(results))
    return Table(heads, rows, f"Results on all tasks, {results.split} split", text, best_along="row")


def _refined_text(results: Results) -> str:
    named = "; ".join(f"{row} on {', '.join(columns)}" for row, columns in results.refined.items())
    return (f"Refined: {named}. " if named else "") + "Avg is over tasks with different metrics."


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split()) or "group"
