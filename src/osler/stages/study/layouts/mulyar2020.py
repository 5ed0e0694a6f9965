"""Mulyar and McInnes 2020, table 2: one model for all tasks beside one model a task, with the difference.

Where a study has twins at equal updates, what the paper has not stands beside it: the difference from those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from osler.report.tables import Cell as TableCell
from osler.report.tables import Column, Table, Value
from osler.stages.study.cells import CellKey, StudyCell
from osler.stages.study.layouts.common import SPREAD, NamedTable, mean_value, note, protocol_of
from osler.stages.study.results import Compared, Results


def tables(results: Results) -> list[NamedTable]:
    """Tasks as rows; for every model its multi-task score, the difference with its interval, and the single-task score."""
    heads: list[Column | str] = ["task", Column("protocol", align="left")]
    # A model that learned nothing jointly has nothing to say here, unless none did.
    joint_rows = list(dict.fromkeys(key.row for key in results.cells if key.mode == "together")) or results.rows
    ways = _ways(results)
    for row in joint_rows:
        heads.append(Column("multi-task", digits=1, scale=100, group=row))
        for way in ways:
            heads.append(Column(f"difference{way.said}", digits=1, scale=100, group=row))
            heads.append(Column(f"single-task{way.said}", digits=1, scale=100, group=row))
    rows: list[list[TableCell]] = []
    shown: list[StudyCell | None] = []
    for column in results.columns:
        line: list[TableCell] = [column, protocol_of(results, column)]
        for row in joint_rows:
            joint = results.cell(row, column, "together")
            shown.append(joint)
            line.append(mean_value(results, joint, mark=False))
            for way in ways:
                single = results.cell(row, column, way.mode)
                shown.append(single)
                line.append(difference(way.family, joint, single))
                line.append(mean_value(results, single, mark=False))
        rows.append(line)
    text = note(
        results,
        results.columns,
        shown,
        f"{SPREAD}, times 100,",
        "Multi-task: a single encoder with a head a task; single-task: one model a task. Difference: multi-task minus "
        "single-task with its 95 % interval over documents and seeds; † its interval excludes zero. Updates of both are in "
        "the table of accounting." + _equal_text(results),
        stars=False,
    )
    caption = f"One model for all tasks and one model a task, {results.split} split"
    return [NamedTable("table", Table(heads, rows, caption, text))]


def difference(family: Mapping[CellKey, Compared], joint: StudyCell | None, single: StudyCell | None) -> Value | None:
    """Multi-task minus single-task; without an interval where the metric has none."""
    if joint is None or single is None:
        return None
    found = family.get(joint.key)
    if found is None:
        return Value(joint.summary.mean - single.summary.mean)
    c = found.comparison
    return Value(c.difference, low=c.low, high=c.high, mark="†" if c.excludes_zero else "")


@dataclass(frozen=True)
class _Way:
    """A way of learning a task alone that the joint run is compared with."""

    mode: str
    said: str
    family: Mapping[CellKey, Compared]


def _ways(results: Results) -> list[_Way]:
    if not results.has("twin"):
        return [_Way("single", "", results.together)]
    twins = _Way("twin", " at equal updates", results.together)
    return [_Way("single", "", results.alone), twins] if results.has("single") else [twins]


def _equal_text(results: Results) -> str:
    if not results.has("twin"):
        return ""
    return " At equal updates: the task alone for as many updates as the joint run gave it, in place of its own epochs."
