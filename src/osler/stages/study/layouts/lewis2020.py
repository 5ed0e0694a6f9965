"""Lewis et al. 2020, table 2: tasks as rows, models as columns, medians over seeds, means of groups of tasks."""

from __future__ import annotations

from osler.core.console import count_text
from osler.report.tables import Column, Row, Table, Value
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts.common import known_groups, lines, mean_of_cells, note, score_column, star, task_rows
from osler.stages.study.results import Results


def tables(results: Results) -> dict[str, Table]:
    """The main table, and the group means alone with models as rows (table 3)."""
    columns, models = results.columns, lines(results)
    groups = {**known_groups(results), "all": columns}
    means = {
        name: [mean_of_cells(line.cells(results, members), medians=True) for line in models]
        for name, members in groups.items()
    }
    shown = [cell for line in models for cell in line.cells(results, columns)]

    heads: list[Column | str] = ["task", Column("protocol", align="left")]
    heads += [score_column(line.label, best="max") for line in models]
    rows = task_rows(results, columns, models, _median)
    headings = {0: "Tasks", len(rows): "Groups"}
    for name, members in groups.items():
        rows.append([f"Mean ({name})", count_text(len(members), "task"), *means[name]])
    text = note(
        results,
        columns,
        shown,
        "Median [smallest, largest]",
        "Times 100; the best of a row is bold. Group means are means of medians, over tasks with different metrics.",
    )
    main = Table(heads, rows, f"Scores on the {results.split} split", text, headings, best_along="row")

    heads = ["model", *(score_column(name, best="max", group="Mean") for name in groups)]
    by_model: list[Row] = [
        [line.label, *(values[number] for values in means.values())] for number, line in enumerate(models)
    ]
    named = "; ".join(f"{name}: {', '.join(members)}" for name, members in groups.items() if name != "all")
    text = note(results, columns, shown, "Means of medians", f"Groups: {named}." if named else "")
    group_table = Table(heads, by_model, "Means of groups of tasks, times 100", text)
    return {"table": main, "groups": group_table}


def _median(results: Results, cell: StudyCell | None) -> Value | None:
    if cell is None:
        return None
    several = cell.summary.n > 1
    low, high = (cell.summary.low, cell.summary.high) if several else (None, None)
    return Value(cell.summary.median, low=low, high=high, mark=star(results, cell))
