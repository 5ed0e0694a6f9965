"""Lewis et al. 2020, table 2: tasks as rows, models as columns, medians over seeds, means of groups of tasks."""

from __future__ import annotations

from collections.abc import Sequence

from osler.report.tables import Cell as TableCell
from osler.report.tables import Column, Table, Value
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts.common import NamedTable, TableLine, lines, mean_of_cells, note, protocol_of, star
from osler.stages.study.results import Results


def tables(results: Results) -> list[NamedTable]:
    """The main table, and the group means alone with models as rows (table 3)."""
    columns, models = results.columns, lines(results)
    heads: list[Column | str] = ["task", Column("protocol", align="left")]
    heads += [Column(line.label, digits=1, scale=100, best="max") for line in models]
    rows: list[list[TableCell]] = []
    for column in columns:
        found = [line.cell(results, column) for line in models]
        rows.append([column, protocol_of(results, column), *(_median(results, cell) for cell in found)])
    groups = {**_groups(results), "all": tuple(columns)}
    begin = len(rows)
    for name, members in groups.items():
        rows.append(
            [
                f"Mean ({name})",
                f"{len(members)} task{'s' if len(members) > 1 else ''}",
                *_means(results, models, members),
            ]
        )
    shown = [line.cell(results, column) for line in models for column in columns]
    text = note(
        results,
        columns,
        shown,
        "Median [smallest, largest]",
        "Times 100; the best of a row is bold. Group means are means of medians, over tasks with different metrics.",
    )
    caption = f"Scores on the {results.split} split"
    main = Table(heads, rows, caption, text, {0: "Tasks", begin: "Groups"}, best_along="row")
    return [NamedTable("table", main), NamedTable("groups", _group_table(results, models, groups))]


def _group_table(results: Results, models: Sequence[TableLine], groups: dict[str, tuple[str, ...]]) -> Table:
    heads: list[Column | str] = ["model"]
    heads += [Column(name, digits=1, scale=100, best="max", group="Mean") for name in groups]
    rows: list[list[TableCell]] = [
        [
            line.label,
            *(mean_of_cells([line.cell(results, c) for c in members], medians=True) for members in groups.values()),
        ]
        for line in models
    ]
    shown = [line.cell(results, column) for line in models for column in results.columns]
    named = "; ".join(f"{name}: {', '.join(members)}" for name, members in groups.items() if name != "all")
    text = note(results, results.columns, shown, "Means of medians", f"Groups: {named}." if named else "")
    return Table(heads, rows, "Means of groups of tasks, times 100", text)


def _groups(results: Results) -> dict[str, tuple[str, ...]]:
    kept = {name: tuple(c for c in members if c in results.columns) for name, members in results.groups.items()}
    return {name: members for name, members in kept.items() if members}


def _means(results: Results, models: Sequence[TableLine], members: Sequence[str]) -> list[Value | None]:
    return [mean_of_cells([line.cell(results, column) for column in members], medians=True) for line in models]


def _median(results: Results, cell: StudyCell | None) -> Value | None:
    if cell is None:
        return None
    several = cell.summary.n > 1
    low, high = (cell.summary.low, cell.summary.high) if several else (None, None)
    return Value(cell.summary.median, low=low, high=high, mark=star(results, cell))
