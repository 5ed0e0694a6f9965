"""Tables beside the main one: differences, ranks, learning curves, choices and costs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from osler.metrics.ranks import RankTest
from osler.report.tables import Cell as TableCell
from osler.report.tables import Column, Table, Value
from osler.stages.study.cells import CellKey, StudyCell
from osler.stages.study.layouts.common import SPREAD, deviation, mean_value, note, protocol_of, rate_text, seeds_text
from osler.stages.study.layouts.mulyar2020 import difference
from osler.stages.study.plan import MARKS, edge_text
from osler.stages.study.results import Results, Timing, draws_for

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
    shown: list[StudyCell] = []
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


def _updates_text(shown: Sequence[StudyCell]) -> str:
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
    shown: list[StudyCell | None] = []
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


def cost_table(results: Results) -> Table:
    """Updates, tokens and arithmetic of one chosen run of every cell, and how many runs it took to choose it."""
    rows: list[list[TableCell]] = []
    for cell in results.cells.values():
        chosen = cell.chosen
        steps = [float(run.steps) for run in chosen]
        tokens = [float(run.tokens) for run in chosen if run.tokens is not None]
        flops = [run.flops for run in chosen if run.flops is not None]
        search = [run.flops for run in cell.runs if run.flops is not None]
        rows.append(
            [
                cell.key.row,
                cell.key.column,
                how(cell.key),
                round(median(steps)),
                cell.updates,
                round(median(tokens)) if tokens else None,
                f"{median(flops):.2e}" if flops else None,
                f"{sum(search):.2e}" if len(search) == len(cell.runs) else None,
                len(cell.runs),
                len(chosen),
            ]
        )
    heads: list[Column | str] = ["model", "task", "learned", "updates"]
    heads += ["batches of this task", "tokens", Column("of a chosen run", align="right", group="FLOP")]
    heads += [Column("of all runs", align="right", group="FLOP")]
    heads += [Column("done", group="runs"), Column("chosen", group="runs")]
    # Tokens and FLOP, where no run has counted them.
    kept = [i for i in range(len(heads)) if i not in (5, 6, 7) or any(row[i] is not None for row in rows)]
    text = (
        "Updates and tokens are of one chosen run (the median), as is its FLOP; FLOP of all runs has those that dev did not choose "
        "too. FLOP: training, attention over whole windows, all weights learning. A run that teaches several tasks stands in the "
        f"line of each.{_work_text(results)} Seconds, GPU-seconds and devices differ from run to run: they are in logs/cost.html."
    )
    return Table([heads[i] for i in kept], [[row[i] for i in kept] for row in rows], "What each score cost", text)


def _work_text(results: Results) -> str:
    work = results.work
    if not work.flops:
        return ""
    missing = f"; of {work.uncounted:,} more it is not known" if work.uncounted else ""
    counted = work.runs - work.uncounted
    return (
        f" The whole study, each run counted once and refinements included: {counted:,} run{'s' * (counted > 1)}, "
        f"{work.tokens:,} tokens, {work.flops:.2e} FLOP{missing}."
    )


def timing_table(timings: Sequence[Timing]) -> Table:
    """Seconds by model, tasks and way of learning."""
    rows: list[list[TableCell]] = [
        [
            time.row,
            ", ".join(time.columns),
            MODES[time.mode] if time.mode != "pair" else "in a pair",
            time.fraction,
            time.runs,
            time.seconds,
            time.gpu_seconds,
            time.chosen_runs,
            time.chosen_seconds / time.chosen_runs if time.chosen_runs else None,
            ", ".join(time.devices),
        ]
        for time in timings
    ]
    heads: list[Column | str] = ["model", "tasks", "learned", Column("data", digits=2), Column("runs", group="all")]
    heads += [Column("seconds", digits=1, group="all"), Column("GPU-seconds", digits=1, group="all")]
    heads += [Column("runs", group="chosen")]
    heads += [Column("seconds a run", digits=1, group="chosen"), "device"]
    total, on_gpu = sum(time.seconds for time in timings), sum(time.gpu_seconds for time in timings)
    text = (
        f"{sum(time.runs for time in timings):,} runs took {total:,.0f} seconds and {on_gpu:,.0f} GPU-seconds (seconds on a GPU, times "
        "the GPUs of a run), fine-tuning and scoring; runs that share a machine slow each other and count their seconds each. "
        "Runs kept from an earlier study count with the time they took then."
    )
    return Table(heads, rows, "Time by model and task", text)
