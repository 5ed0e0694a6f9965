"""Models as rows, tasks as columns."""

from __future__ import annotations

from osler.core.console import count_text
from osler.report.tables import Column, Row, Table
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts.common import (
    SPREAD,
    known_groups,
    lines,
    mean_of_cells,
    mean_value,
    note,
    score_column,
    task_rows,
)
from osler.stages.study.results import Results


def tables(results: Results) -> dict[str, Table]:
    """One table: mean ± standard deviation over seeds, times 100, with the means of the study's groups."""
    columns, groups = results.columns, known_groups(results)
    heads: list[Column | str] = ["model"]
    heads += [score_column(f"{column} ({results.metric(column)})", best="max") for column in columns]
    heads += [score_column(f"mean ({name})", best="max") for name in groups]
    rows: list[Row] = []
    shown: list[StudyCell | None] = []
    for line in lines(results):
        cells = line.cells(results, columns)
        means = [mean_of_cells(line.cells(results, members)) for members in groups.values()]
        rows.append([line.label, *(mean_value(results, cell) for cell in cells), *means])
        shown += cells
    text = note(results, columns, shown, f"{SPREAD}, times 100,")
    return {"table": Table(heads, rows, f"Scores on the {results.split} split", text)}


def by_task(results: Results) -> Table:
    """The same scores with tasks as rows and models as columns, for a terminal."""
    columns, models = results.columns, lines(results)
    heads: list[Column | str] = ["task", Column("protocol", align="left")]
    heads += [score_column(line.label, best="max") for line in models]
    rows = task_rows(results, columns, models)
    for name, members in known_groups(results).items():
        means = [mean_of_cells(line.cells(results, members)) for line in models]
        rows.append([f"mean ({name})", count_text(len(members), "task"), *means])
    shown = [cell for line in models for cell in line.cells(results, columns)]
    text = note(results, columns, shown, f"{SPREAD}, times 100,")
    return Table(heads, rows, f"Scores on the {results.split} split", text, best_along="row")
