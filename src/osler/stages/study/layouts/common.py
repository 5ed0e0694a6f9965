"""What the layouts share: cells as table values, and notes that say protocol, seeds and spread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from osler.metrics.significance import summarise
from osler.report.tables import Table, Value
from osler.stages.study.cells import StudyCell
from osler.stages.study.results import Results

SPREAD = "Mean ± standard deviation"


@dataclass(frozen=True)
class NamedTable:
    """A table and the name of its files."""

    name: str
    table: Table


@dataclass(frozen=True)
class TableLine:
    """A line of scores: a model that learned in one way."""

    label: str
    row: str
    mode: str

    def cell(self, results: Results, column: str) -> StudyCell | None:
        """Its cell in a column."""
        return results.cell(self.row, column, self.mode)


def lines(results: Results, modes: Sequence[str] = ("single", "together", "twin", "refine")) -> list[TableLine]:
    """Every model in every way it learned from all of the data."""
    said = {
        "single": "",
        "together": ", all tasks together",
        "refine": ", refined only",
        "twin": ", alone at equal updates",
    }
    present = {(key.row, key.mode) for key in results.cells if key.fraction == 1.0 and not key.partner}
    return [
        TableLine(f"{row}{said[mode]}", row, mode) for row in results.rows for mode in modes if (row, mode) in present
    ]


def mean_value(results: Results, cell: StudyCell | None, *, mark: bool = True) -> Value | None:
    """Mean and deviation over seeds, marked where the cell differs from the baseline's."""
    if cell is None:
        return None
    return Value(cell.summary.mean, std=deviation(cell), mark=star(results, cell) if mark else "")


def deviation(cell: StudyCell) -> float | None:
    """The deviation over seeds; one seed has none."""
    return cell.summary.std if cell.summary.n > 1 else None


def star(results: Results, cell: StudyCell) -> str:
    """* where the cell differs from the baseline's."""
    found = results.comparisons.get(cell.key)
    return "*" if found is not None and found.significant else ""


def mean_of_cells(cells: Sequence[StudyCell | None], *, medians: bool = False) -> Value | None:
    """The mean over columns; its deviation is over seeds where all cells have the same ones. None where a cell is missing."""
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


def seeds_text(cells: Iterable[StudyCell]) -> str:
    """How many seeds stand behind the numbers: "3 seeds", or "1 to 3 seeds"."""
    counts = sorted({len(cell.seeds) for cell in cells})
    if not counts:
        return "no seed"
    if len(counts) == 1:
        return f"{counts[0]} seed{'s' if counts[0] > 1 else ''}"
    return f"{counts[0]} to {counts[-1]} seeds"


def protocols_text(results: Results, columns: Sequence[str]) -> str:
    """The protocol and metric of every column, and which are cross-validated."""
    named = "; ".join(f"{results.protocol(column)} ({results.metric(column)})" for column in columns)
    folded = [(column, results.of_column(column).folds) for column in columns if results.of_column(column).folds]
    mean = "; ".join(f"{column} is the mean over {folds} folds" for column, folds in folded)
    return f"Protocols: {named}." + (f" Cross-validated: {mean}." if mean else "")


def protocol_of(results: Results, column: str) -> str:
    """Protocol and metric of a column, without the name of its task, for tables that have tasks as rows."""
    return f"{results.protocol(column).rpartition('/')[2]} {results.metric(column)}"


def rate_text(value: object) -> str | None:
    """A setting as people write it: 5e-5, not 5e-05."""
    if value is None:
        return None
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def star_text(results: Results, cells: Iterable[StudyCell]) -> str:
    """What * means, where there is one or could be."""
    if not any(cell.key in results.comparisons for cell in cells):
        return ""
    return (
        f"* differs from {results.baseline} at 5 % (paired bootstrap over documents and seeds, Holm-corrected over "
        f"{len(results.comparisons)} comparison{'s' if len(results.comparisons) > 1 else ''})."
    )


def missing_text(results: Results) -> str:
    """That the study is not complete, where it is not."""
    if not results.missing:
        return ""
    return f"{results.missing:,} run{'s' if results.missing > 1 else ''} of the study not done yet."


def note(
    results: Results,
    columns: Sequence[str],
    cells: Iterable[StudyCell | None],
    statistic: str,
    *more: str,
    stars: bool = True,
) -> str:
    """The note under a table of scores: split, statistic, seeds, protocols, marks, and what is missing."""
    known = [cell for cell in cells if cell is not None]
    parts = [
        f"{results.split.capitalize()} split. {statistic} over {seeds_text(known)}.",
        "One seed says nothing about spread." if known and all(len(cell.seeds) == 1 for cell in known) else "",
        protocols_text(results, columns),
        star_text(results, known) if stars else "",
        *more,
        missing_text(results),
    ]
    return " ".join(part for part in parts if part)
