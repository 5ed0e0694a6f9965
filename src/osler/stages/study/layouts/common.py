"""Parts of all tables: scores as table values, rows by task, and notes with protocol, seeds and spread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from osler.core.console import count_text
from osler.metrics.significance import PairedComparison, summarise
from osler.report.tables import Column, Row, Value
from osler.stages.study.cells import CellKey, StudyCell
from osler.stages.study.results import Compared, Results

SPREAD = "Mean ± standard deviation"
score_column = partial(Column, digits=1, scale=100)
"""A column of scores or differences, times 100."""


@dataclass(frozen=True)
class TableLine:
    """A line of scores: a model in one mode."""

    label: str
    row: str
    mode: str

    def cell(self, results: Results, column: str) -> StudyCell | None:
        return results.cell(self.row, column, self.mode)

    def cells(self, results: Results, columns: Iterable[str]) -> list[StudyCell | None]:
        return [self.cell(results, column) for column in columns]


def lines(results: Results, modes: Sequence[str] = ("single", "together", "twin", "refine")) -> list[TableLine]:
    """Return a line for every model in every mode that it was run in, on the full data."""
    suffixes = {
        "single": "",
        "together": ", all tasks together",
        "refine": ", refined only",
        "twin": ", alone at equal steps",
    }
    present = {(key.row, key.mode) for key in results.cells if key.fraction == 1.0 and not key.partner}
    return [
        TableLine(f"{row}{suffixes[mode]}", row, mode)
        for row in results.rows
        for mode in modes
        if (row, mode) in present
    ]


def known_groups(results: Results) -> dict[str, list[str]]:
    """Return the study's groups of columns, without columns that have no cell yet."""
    groups = {name: [c for c in members if c in results.columns] for name, members in results.groups.items()}
    return {name: members for name, members in groups.items() if members}


def mean_value(results: Results, cell: StudyCell | None, *, mark: bool = True) -> Value | None:
    """Return mean and deviation over seeds, marked if the cell differs from the baseline's."""
    if cell is None:
        return None
    return Value(cell.summary.mean, std=deviation(cell), mark=star(results, cell) if mark else "")


def deviation(cell: StudyCell) -> float | None:
    """Return the standard deviation over seeds, or None for one seed."""
    return cell.summary.std if cell.summary.n > 1 else None


def star(results: Results, cell: StudyCell) -> str:
    """Return * if the cell differs from the baseline's."""
    found = results.comparisons.get(cell.key)
    return "*" if found is not None and found.significant else ""


def mean_of_cells(cells: Sequence[StudyCell | None], *, medians: bool = False) -> Value | None:
    """Return the mean over columns, with deviation if all cells have the same seeds; None if a cell is missing."""
    known = [cell for cell in cells if cell is not None]
    if not known or len(known) < len(cells):
        return None
    if medians:
        return Value(sum(cell.summary.median for cell in known) / len(known))
    mean = sum(cell.summary.mean for cell in known) / len(known)
    if len({cell.seeds for cell in known}) != 1 or len(known[0].seeds) < 2:
        return Value(mean)
    by_seed = [sum(scores) / len(known) for scores in zip(*(cell.scores for cell in known), strict=True)]
    return Value(mean, std=summarise(by_seed).std)


def difference(family: Mapping[CellKey, Compared], joint: StudyCell | None, single: StudyCell | None) -> Value | None:
    """Return joint minus single-task score, with its interval if the metric has one; † if the interval excludes zero."""
    if joint is None or single is None:
        return None
    found = family.get(joint.key)
    if found is None:
        return Value(joint.summary.mean - single.summary.mean)
    return compared_value(found.comparison)


def compared_value(c: PairedComparison) -> Value:
    """Format a difference with its interval; † if the interval excludes zero."""
    return Value(c.difference, low=c.low, high=c.high, mark="†" if c.excludes_zero else "")


def equal_text(joint: int, single: int) -> str:
    """Say whether a joint run and its single-task baseline have the same steps on a task."""
    return "yes" if joint == single else f"no, {joint / max(single, 1):.2f} x"


def task_rows(
    results: Results,
    columns: Iterable[str],
    models: Sequence[TableLine],
    value: Callable[[Results, StudyCell | None], Value | None] = mean_value,
) -> list[Row]:
    """Return one row per task: its name, its protocol and the value of each model."""
    return [
        [column, protocol_of(results, column), *(value(results, line.cell(results, column)) for line in models)]
        for column in columns
    ]


def sections(results: Results, rows_of: Callable[[str], list[Row]]) -> tuple[list[Row], dict[int, str]]:
    """Return the rows of each column under a heading with its protocol and metric."""
    rows: list[Row] = []
    headings: dict[int, str] = {}
    for column in results.columns:
        found = rows_of(column)
        if found:
            headings[len(rows)] = f"{results.protocol(column)} ({results.metric(column)})"
            rows += found
    return rows, headings


def seeds_text(cells: Iterable[StudyCell]) -> str:
    """Format the number of seeds: "3 seeds", or "1 to 3 seeds"."""
    counts = sorted({len(cell.seeds) for cell in cells})
    if not counts:
        return "no seed"
    if len(counts) == 1:
        return count_text(counts[0], "seed")
    return f"{counts[0]} to {counts[-1]} seeds"


def protocols_text(results: Results, columns: Sequence[str]) -> str:
    """Describe protocol and metric of every column, and which are cross-validated."""
    named = "; ".join(f"{results.protocol(column)} ({results.metric(column)})" for column in columns)
    cells = [(column, results.of_column(column)) for column in columns]
    folded = "; ".join(
        f"{column} is the {cell.over_folds} over {cell.folds} folds" for column, cell in cells if cell.folds
    )
    return f"Protocols: {named}." + (f" Cross-validated: {folded}." if folded else "")


def protocol_of(results: Results, column: str) -> str:
    """Return protocol and metric of a column without the task name, for tables with tasks as rows."""
    return f"{results.protocol(column).rpartition('/')[2]} {results.metric(column)}"


def rate_text(value: object) -> str | None:
    """Format a setting the usual way: 5e-5, not 5e-05."""
    if value is None:
        return None
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def points_text(difference: float) -> str:
    """Format a difference in points (times 100) with its sign."""
    return f"{100 * difference + 0.0:+.1f}".replace("-", "−")


def missing_text(results: Results) -> str:
    """Say how many runs are missing; empty if the study is complete."""
    if not results.missing:
        return ""
    return f"{count_text(results.missing, 'run')} of the study not done yet."


def note(
    results: Results,
    columns: Sequence[str],
    cells: Iterable[StudyCell | None],
    statistic: str,
    *more: str,
    stars: bool = True,
) -> str:
    """Compose the note under a table of scores: split, statistic, seeds, protocols, marks, and missing runs."""
    known = [cell for cell in cells if cell is not None]
    number = len(results.comparisons)
    starred = stars and any(cell.key in results.comparisons for cell in known)
    parts = [
        f"{results.split.capitalize()} split. {statistic} over {seeds_text(known)}.",
        "One seed has no spread." if known and all(len(cell.seeds) == 1 for cell in known) else "",
        protocols_text(results, columns),
        f"* differs from {results.baseline} at 5 % (paired bootstrap over documents and seeds, Holm-corrected over "
        f"{count_text(number, 'comparison')})."
        if starred
        else "",
        *more,
        missing_text(results),
    ]
    return " ".join(part for part in parts if part)
