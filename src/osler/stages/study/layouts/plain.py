"""Models as rows, tasks as columns."""

from __future__ import annotations

from osler.report.tables import Column, Row, Table
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts.common import SPREAD, known_groups, lines, mean_of_cells, mean_value, note, score_column
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
