"""Models as rows, tasks as columns."""

from __future__ import annotations

from osler.report.tables import Column, Table, Value
from osler.stages.study.layouts.common import SPREAD, NamedTable, lines, mean_of_cells, mean_value, note
from osler.stages.study.results import Results


def tables(results: Results) -> list[NamedTable]:
    """One table: mean ± standard deviation over seeds, times 100, with means of the study's groups."""
    columns = results.columns
    heads: list[Column | str] = ["model"]
    heads += [Column(f"{column} ({results.metric(column)})", digits=1, scale=100, best="max") for column in columns]
    groups = {name: [column for column in members if column in columns] for name, members in results.groups.items()}
    heads += [Column(f"mean ({name})", digits=1, scale=100, best="max") for name in groups]
    rows: list[list[str | Value | None]] = []
    shown = []
    for line in lines(results):
        cells = {column: line.cell(results, column) for column in columns}
        means = [mean_of_cells([cells[column] for column in members]) for members in groups.values()]
        rows.append([line.label, *(mean_value(results, cell) for cell in cells.values()), *means])
        shown += list(cells.values())
    text = note(results, columns, shown, f"{SPREAD}, times 100,")
    return [NamedTable("table", Table(heads, rows, f"Scores on the {results.split} split", text))]
