"""Mulyar and McInnes 2020, table 2: one model for all tasks beside one model a task, with the difference."""

from __future__ import annotations

from osler.report.tables import Cell as TableCell
from osler.report.tables import Column, Table, Value
from osler.stages.study.cells import Cell, CellKey
from osler.stages.study.layouts.common import SPREAD, NamedTable, mean_value, note, protocol_of
from osler.stages.study.results import Results


def tables(results: Results) -> list[NamedTable]:
    """Tasks as rows; for every model its multi-task score, the difference with its interval, and the single-task score."""
    heads: list[Column | str] = ["task", Column("protocol", align="left")]
    # A model that learned nothing jointly has nothing to say here, unless none did.
    joint_rows = list(dict.fromkeys(key.row for key in results.cells if key.mode == "together")) or results.rows
    for row in joint_rows:
        heads += [
            Column("multi-task", digits=1, scale=100, group=row),
            Column("difference", digits=1, scale=100, group=row),
            Column("single-task", digits=1, scale=100, group=row),
        ]
    rows: list[list[TableCell]] = []
    shown: list[Cell | None] = []
    for column in results.columns:
        line: list[TableCell] = [column, protocol_of(results, column)]
        for row in joint_rows:
            joint, single = results.cell(row, column, "together"), results.cell(row, column)
            shown += [joint, single]
            line += [
                mean_value(results, joint, mark=False),
                difference(results, row, column),
                mean_value(results, single, mark=False),
            ]
        rows.append(line)
    text = note(
        results,
        results.columns,
        shown,
        f"{SPREAD}, times 100,",
        "Multi-task: a single encoder with a head a task; single-task: one model a task. Difference: multi-task minus "
        "single-task with its 95 % interval over documents and seeds; † its interval excludes zero. Updates of both are in "
        "the table of accounting.",
        stars=False,
    )
    caption = f"One model for all tasks and one model a task, {results.split} split"
    return [NamedTable("table", Table(heads, rows, caption, text))]


def difference(results: Results, row: str, column: str) -> Value | None:
    """Multi-task minus single-task; without an interval where the metric has none."""
    key = CellKey(row, column, "together")
    found = results.together.get(key)
    if found is not None:
        c = found.comparison
        return Value(c.difference, low=c.low, high=c.high, mark="†" if c.excludes_zero else "")
    joint, single = results.cells.get(key), results.cells.get(key.twin)
    return None if joint is None or single is None else Value(joint.summary.mean - single.summary.mean)
