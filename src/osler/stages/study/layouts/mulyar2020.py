"""Mulyar and McInnes 2020, table 2: one model for all tasks against one model per task, with the difference.

If a study has single-task baselines of matched length, the table adds the difference from those, which the paper lacks.
"""

from __future__ import annotations

from osler.report.tables import Column, Row, Table
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts.common import SPREAD, difference, mean_value, note, protocol_of, score_column
from osler.stages.study.results import Results


def tables(results: Results) -> dict[str, Table]:
    """Tasks as rows; for every model its multi-task score, the difference with its interval, and the single-task score."""
    # Skip models without a joint run, unless no model has one.
    models = list(dict.fromkeys(key.row for key in results.cells if key.mode == "together")) or results.rows
    # Mode, column suffix and comparisons of each kind of single-task baseline.
    baselines = [("single", "", results.together)]
    if results.has("twin"):
        baselines = [("single", "", results.alone)] if results.has("single") else []
        baselines.append(("twin", " at equal steps", results.together))
    heads: list[Column | str] = ["task", Column("protocol", align="left")]
    for model in models:
        heads.append(score_column("multi-task", group=model))
        for _, suffix, _ in baselines:
            heads += [score_column(f"{name}{suffix}", group=model) for name in ("difference", "single-task")]
    rows: list[Row] = []
    shown: list[StudyCell | None] = []
    for column in results.columns:
        row: Row = [column, protocol_of(results, column)]
        for model in models:
            joint = results.cell(model, column, "together")
            shown.append(joint)
            row.append(mean_value(results, joint, mark=False))
            for mode, _, family in baselines:
                single = results.cell(model, column, mode)
                shown.append(single)
                row += [difference(family, joint, single), mean_value(results, single, mark=False)]
        rows.append(row)
    equal = " At equal steps: the task alone for as many steps as the joint run spent on it, not for its own epochs."
    text = note(
        results,
        results.columns,
        shown,
        f"{SPREAD}, times 100,",
        "Multi-task: one encoder with one head per task; single-task: one model per task. Difference: multi-task minus "
        "single-task with its 95 % interval over documents and seeds; † its interval excludes zero. The steps of both are in "
        "the accounting table." + (equal if results.has("twin") else ""),
        stars=False,
    )
    caption = f"One model for all tasks and one model per task, {results.split} split"
    return {"table": Table(heads, rows, caption, text)}
