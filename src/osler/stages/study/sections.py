"""Tables beside the main one: differences with intervals, ranks, accounting of joint learning, learning curves, choices."""

from __future__ import annotations

from collections.abc import Sequence

from osler.metrics.ranks import RankTest
from osler.report.tables import Cell as TableCell
from osler.report.tables import Column, Table, Value
from osler.stages.study.cells import Cell, CellKey
from osler.stages.study.comparisons import draws_for
from osler.stages.study.edges import MARKS, edge_text
from osler.stages.study.layouts.common import SPREAD, deviation, mean_value, note, protocol_of, rate_text, seeds_text
from osler.stages.study.layouts.mulyar2020 import difference
from osler.stages.study.results import Results

MODES = {
    "single": "alone",
    "together": "all tasks together",
    "pair": "with",
    "refine": "refinement",
    "twin": "alone at equal updates",
}


def how(key: CellKey) -> str:
    """How a cell's task was learned, in words."""
    said = f"with {key.partner}" if key.partner else MODES[key.mode]
    if key.mode == "twin":
        said = f"alone, as many updates as {said if key.partner else 'together'}"
    return said if key.fraction == 1.0 else f"{said}, {key.fraction:g} of the data"


def interval_table(results: Results) -> Table:
    """Every cell that learned from all of the data, with its 95 % interval; a section a task."""
    heads: list[Column | str] = ["model", "learned", Column("over seeds", digits=1, scale=100)]
    heads += [Column("95 % interval", digits=1, scale=100), "seeds", "documents"]
    rows: list[list[TableCell]] = []
    headings: dict[int, str] = {}
    for column in results.columns:
        headings[len(rows)] = _heading(results, column)
        for cell in results.cells.values():
            if cell.key.column == column and cell.key.fraction == 1.0 and not cell.key.partner:
                mean, interval = cell.summary.mean, cell.interval
                spread = Value(mean, std=deviation(cell))
                whole = Value(mean, low=interval.low, high=interval.high) if interval else None
                rows.append([cell.key.row, how(cell.key), spread, whole, len(cell.seeds), cell.documents])
    text = (
        "Mean ± standard deviation over seeds, times 100; the interval is a bootstrap over documents and seeds "
        f"({results.resamples:,} draws). – where the metric cannot be taken apart by document."
    )
    return Table(heads, rows, f"Every score on the {results.split} split with its interval", text, headings)


def difference_table(results: Results) -> Table:
    """Every comparison with the baseline; a section a task."""
    heads: list[Column | str] = ["model", "learned", Column("difference", digits=1, scale=100)]
    heads += [Column("p", digits=4), Column("corrected p", digits=4)]
    rows: list[list[TableCell]] = []
    headings: dict[int, str] = {}
    for column in results.columns:
        mine = [(key, found) for key, found in results.comparisons.items() if key.column == column]
        if mine:
            headings[len(rows)] = _heading(results, column)
        for key, found in mine:
            c = found.comparison
            value = Value(c.difference, low=c.low, high=c.high, mark="*" if found.significant else "")
            rows.append([key.row, how(key), value, c.p_value, found.p_value])
    seeds = seeds_text(results.cells[key] for key in results.comparisons)
    text = (
        f"Difference in points with its 95 % interval, from a paired bootstrap over documents and seeds ({seeds} a model, "
        f"{draws_for(len(rows), results.resamples):,} draws). Corrected: Holm over the {len(rows)} comparisons of this "
        "study. * below 0.05 after correction."
    )
    return Table(heads, rows, f"Differences from {results.baseline}", text, headings)


def _heading(results: Results, column: str) -> str:
    return f"{results.protocol(column)} ({results.metric(column)})"


def rank_table(results: Results) -> Table:
    """Average ranks over tasks."""
    assert results.ranks is not None
    found = results.ranks
    order = sorted(zip(found.names, found.ranks, strict=True), key=lambda item: item[1])
    rows: list[list[TableCell]] = [
        [name, rank, ", ".join(other for other, _ in order if other != name and _joined(found, name, other)) or "none"]
        for name, rank in order
    ]
    verdict = "finds a difference" if found.rejected else "finds no difference, so no pair is called different"
    text = (
        f"Ranks of the means over {found.sets} tasks, 1 is best. Friedman's test {verdict} "
        f"(statistic {found.statistic:.2f}, p = {found.p_value:.4f}). Nemenyi's critical difference at "
        f"{found.level:.0%}: {found.difference:.2f}. Each task counts once, whatever its size and protocol."
    )
    return Table(["model", Column("average rank", digits=2), "not told apart from"], rows, "Average ranks", text)


def _joined(found: RankTest, one: str, other: str) -> bool:
    return any(one in clique and other in clique for clique in found.cliques)


def accounting_table(results: Results) -> Table:
    """Every task learned with all others against its single-task twin, with the updates of both."""
    heads: list[Column | str] = ["task", "protocol", Column("together", digits=1, scale=100)]
    heads += [Column("alone", digits=1, scale=100), Column("difference", digits=1, scale=100)]
    heads += [Column("together", group="updates"), Column("alone", group="updates")]
    heads += [Column("equal", group="updates", align="left")]
    rows: list[list[TableCell]] = []
    shown: list[Cell] = []
    headings: dict[int, str] = {}
    for key, cell in sorted(results.cells.items(), key=lambda item: results.rows.index(item[0].row)):
        twin = results.twin(key)
        if key.mode != "together" or key.fraction != 1.0 or twin is None:
            continue
        shown += [cell, twin]
        if key.row not in headings.values():
            headings[len(rows)] = key.row
        rows.append(
            [
                key.column,
                protocol_of(results, key.column),
                mean_value(results, cell, mark=False),
                mean_value(results, twin, mark=False),
                difference(results.together, cell, twin),
                cell.updates,
                twin.updates,
                "yes" if cell.updates == twin.updates else f"no, {cell.updates / max(twin.updates, 1):.2f} x",
            ]
        )
    text = note(
        results,
        list(dict.fromkeys(cell.key.column for cell in shown)),
        shown,
        f"{SPREAD}, times 100,",
        "Difference: together minus alone with its 95 % interval (paired bootstrap over documents and seeds); † it excludes zero. "
        "Updates: batches of the task that one run was trained on (the median over seeds). " + _updates_text(shown),
        stars=False,
    )
    return Table(heads, rows, "What learning together does to each task", text, headings)


def _updates_text(shown: Sequence[Cell]) -> str:
    if any(cell.key.mode == "twin" for cell in shown):
        return "Alone is the twin with the updates of the joint run, under a schedule of its own."
    return "Where they are not equal, the difference is of tasks and of updates; twins = 'updates' makes them equal."


def fractions(results: Results, column: str) -> list[float]:
    """The shares of training data that a column was learned from, smallest first."""
    return sorted({key.fraction for key in results.cells if key.column == column and key.mode == "single"})


def learning_table(results: Results, column: str) -> Table:
    """One task by share of training data."""
    shares = fractions(results, column)
    heads: list[Column | str] = ["model"]
    heads += [
        Column(f"{share:.3g}", digits=1, scale=100, best="max", group="share of the training data") for share in shares
    ]
    rows: list[list[TableCell]] = []
    shown: list[Cell | None] = []
    for row in results.rows:
        cells = [results.cell(row, column, fraction=share) for share in shares]
        shown += cells
        if any(cell is not None for cell in cells):
            rows.append([row, *(mean_value(results, cell, mark=False) for cell in cells)])
    text = note(results, [column], shown, f"{SPREAD}, times 100,", stars=False)
    return Table(heads, rows, f"{column} from less data", text)


def choice_table(results: Results) -> Table:
    """What dev chose, and among how many configurations."""
    cells = [cell for cell in results.cells.values() if cell.configurations > 1]
    rows: list[list[TableCell]] = []
    for cell in cells:
        points = list(dict.fromkeys(run.point for run in cell.runs))
        by_point = {p: [run.dev for run in cell.runs if run.point == p and run.dev is not None] for p in points}
        means = [sum(devs) / len(devs) for devs in by_point.values() if devs]
        marks = {name: f" {MARKS[edge]}" for name, edge in cell.edges.items()}
        chosen = ", ".join(f"{name} {rate_text(value)}{marks.get(name, '')}" for name, value in cell.setting.items())
        rows.append(
            [
                cell.key.row,
                cell.key.column,
                how(cell.key),
                len(points),
                chosen,
                cell.dev,
                min(means) if means else None,
                cell.best_epoch,
                cell.summary.mean,
            ]
        )
    heads: list[Column | str] = [
        "model",
        "task",
        "learned",
        "configurations",
        "chosen",
        Column("dev", digits=1, scale=100),
    ]
    heads += [Column("worst on dev", digits=1, scale=100), Column("epoch", digits=1)]
    heads += [Column(results.split, digits=1, scale=100)]
    what = "the single run" if results.choose == "run" else "the configuration with the mean over seeds"
    beyond = edge_text(edge for cell in cells for edge in cell.edges.items())
    text = note(
        results,
        list(dict.fromkeys(cell.key.column for cell in cells)),
        cells,
        "Means, times 100,",
        f"Chosen is {what} that is best on dev; the {results.split} split took no part. {beyond}".rstrip(),
        stars=False,
    )
    return Table(heads, rows, "What was chosen on dev", text)
