"""Tables in addition to the main one: intervals, differences, ranks, learning curves, choices and costs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from osler.core.console import count_text
from osler.metrics.ranks import RankTest
from osler.metrics.significance import Summary
from osler.report.tables import Column, Row, Table, Value
from osler.stages.study.cells import CellKey, StudyCell
from osler.stages.study.grid import MARKS, edge_text, edges
from osler.stages.study.layouts.common import (
    SPREAD,
    compared_value,
    deviation,
    difference,
    equal_text,
    mean_value,
    missing_text,
    note,
    protocol_of,
    rate_text,
    score_column,
    sections,
    seeds_text,
)
from osler.stages.study.results import Results, Timing, draws_for

_MODES = {
    "single": "alone",
    "together": "all tasks together",
    "pair": "in a pair",
    "refine": "refinement",
    "twin": "alone at equal steps",
}


def extra_tables(results: Results) -> dict[str, Table]:
    """Return the tables that the papers do not have, by file name."""
    made = {"intervals": interval_table(results)}
    if any("unseen_f1" in run.metrics for cell in results.cells.values() for run in cell.chosen):
        made["seen"] = seen_table(results)
    if results.across:
        made["across"] = across_table(results)
    if results.comparisons:
        made["differences"] = difference_table(results)
    # Ranks over one or two tasks add nothing to the scores.
    if results.ranks and len(results.columns) > 2:
        made["ranks"] = rank_table(results.ranks)
    if any(key.mode == "together" and results.single_task_baseline(key) for key in results.cells):
        made["accounting"] = accounting_table(results)
    for column in curved_columns(results):
        made[f"learning-{column}"] = learning_table(results, column)
    if any(cell.configurations > 1 for cell in results.cells.values()):
        made["choices"] = choice_table(results)
    made["cost"] = cost_table(results)
    return made


def _trained(key: CellKey) -> str:
    """Describe how a cell's task was trained."""
    if key.mode == "twin":
        text = f"alone, as many steps as {f'with {key.partner}' if key.partner else 'together'}"
    else:
        text = f"with {key.partner}" if key.partner else _MODES[key.mode]
    return text if key.fraction == 1.0 else f"{text}, {key.fraction:g} of the data"


def interval_table(results: Results) -> Table:
    """Table of every cell on the full data with its 95 % interval, one section per task."""

    def rows_of(column: str) -> list[Row]:
        rows: list[Row] = []
        for key, cell in results.cells.items():
            if key.column == column and key.fraction == 1.0 and not key.partner:
                mean, interval = cell.summary.mean, cell.interval
                spread = Value(mean, std=deviation(cell))
                bounds = Value(mean, low=interval.low, high=interval.high) if interval else None
                rows.append([key.row, _trained(key), spread, bounds, len(cell.seeds), cell.documents])
        return rows

    heads: list[Column | str] = ["model", "trained", score_column("over seeds"), score_column("95 % interval")]
    heads += ["seeds", "documents"]
    rows, headings = sections(results, rows_of)
    text = (
        "Mean ± standard deviation over seeds, times 100; the interval is a bootstrap over documents and seeds "
        f"({results.resamples:,} draws).{_untested(results)}"
    )
    return Table(heads, rows, f"Every score on the {results.split} split with its interval", text, headings)


def seen_table(results: Results) -> Table:
    """Table of scores of mentions with seen and unseen forms, one section per task."""

    def rows_of(column: str) -> list[Row]:
        rows: list[Row] = []
        for key, cell in results.cells.items():
            if key.column == column and key.fraction == 1.0 and not key.partner:
                share, *found = (cell.over_chosen(name) for name in ("unseen_share", *measures))
                if share:
                    rows.append([key.row, _trained(key), Value(share.mean), *map(_spread, found)])
        return rows

    measures = ("seen_recall", "unseen_recall", "seen_f1", "unseen_f1")
    heads: list[Column | str] = ["model", "trained", score_column("mentions unseen")]
    heads += [score_column(name.replace("_", " ").replace("f1", "F1")) for name in measures]
    rows, headings = sections(results, rows_of)
    text = (
        "Mean ± standard deviation over seeds, times 100. Seen: the form of the mention, whatever its case, is annotated in the task's "
        "train split. A predicted mention counts on the side of its own form."
    )
    return Table(heads, rows, f"Seen and unseen mentions of the {results.split} split", text, headings)


def _spread(found: Summary | None) -> Value | None:
    """Return mean and deviation over seeds; one seed has no deviation."""
    return None if found is None else Value(found.mean, std=found.std if found.n > 1 else None)


def across_table(results: Results) -> Table:
    """Table of models on other tasks than their own, next to the same models trained on those tasks."""
    rows: list[Row] = []
    for cell in results.across:
        difference = None if cell.comparison is None else compared_value(cell.comparison)
        scores: Row = [_spread(cell.summary), _spread(cell.in_corpus_summary), difference]
        rows.append([cell.row, cell.trained_on, cell.tested_on, *scores, cell.documents, cell.left_out])
    heads: list[Column | str] = ["model", "trained on", "tested on", score_column("score"), score_column("in-corpus")]
    heads += [score_column("difference"), "documents", "left out"]
    protocols = "; ".join(dict.fromkeys(f"{cell.protocol} ({cell.metric})" for cell in results.across))
    refined = ", ".join(row for row in results.refined if any(row == cell.row for cell in results.across))
    text = (
        f"{results.split.capitalize()} split of the task tested on, without further training. {SPREAD} over seeds, times 100. "
        "In-corpus: the same model trained on the task it is tested on, on the same documents. Difference: score minus in-corpus "
        "with its 95 % interval (paired bootstrap over documents and seeds); † it excludes zero. Left out: documents that the "
        f"task trained on has in its training or dev data, word for word or nearly. Protocols: {protocols}."
        + (f" Refined on several tasks before it was trained on one: {refined}." if refined else "")
        + " The table shows how much of a score holds for another corpus of the same kind. Annotation guidelines differ, so part of "
        f"a loss is disagreement between the corpora, not ignorance of the model. {missing_text(results)}"
    )
    return Table(heads, rows, "Across corpora", text.rstrip())


def _untested(results: Results) -> str:
    """Name the tasks whose scores have no interval and therefore no test."""
    found = {key.column: cell.metric for key, cell in results.cells.items() if cell.interval is None}
    if not found:
        return ""
    listed = ", ".join(f"{column} ({metric})" for column, metric in found.items())
    return (
        f" No interval and no test (–) for {listed}: the metric cannot be computed from sums over documents, "
        "or some seeds lack a fold."
    )


def difference_table(results: Results) -> Table:
    """Table of comparisons with the baseline model, one section per task."""

    def rows_of(column: str) -> list[Row]:
        rows: list[Row] = []
        for key, found in results.comparisons.items():
            if key.column == column:
                c = found.comparison
                value = Value(c.difference, low=c.low, high=c.high, mark="*" if found.significant else "")
                rows.append([key.row, _trained(key), value, c.p_value, found.p_value])
        return rows

    heads: list[Column | str] = ["model", "trained", score_column("difference")]
    heads += [Column(name, digits=4) for name in ("p", "corrected p")]
    rows, headings = sections(results, rows_of)
    seeds = seeds_text(results.cells[key] for key in results.comparisons)
    text = (
        f"Difference in points with its 95 % interval, from a paired bootstrap over documents and seeds ({seeds} per model, "
        f"{draws_for(len(rows), results.resamples):,} draws). Corrected: Holm over the {len(rows)} comparisons of this "
        f"study. * below 0.05 after correction.{_untested(results)}"
    )
    return Table(heads, rows, f"Differences from {results.baseline}", text, headings)


def rank_table(found: RankTest) -> Table:
    """Table of average ranks over tasks."""
    order = sorted(zip(found.names, found.ranks, strict=True), key=lambda item: item[1])
    joined = {(one, other) for clique in found.cliques for one in clique for other in clique if one != other}
    rows: list[Row] = [
        [name, rank, ", ".join(other for other, _ in order if (name, other) in joined) or "none"]
        for name, rank in order
    ]
    verdict = "finds a difference" if found.rejected else "finds no difference, so no pair is called different"
    text = (
        f"Ranks of the means over {found.sets} tasks, 1 is best. Friedman's test {verdict} "
        f"(statistic {found.statistic:.2f}, p = {found.p_value:.4f}). Nemenyi's critical difference at "
        f"{found.level:.0%}: {found.difference:.2f}. Each task counts once, whatever its size and protocol."
    )
    heads: list[Column | str] = ["model", Column("average rank", digits=2), "not significantly different from"]
    return Table(heads, rows, "Average ranks", text)


def accounting_table(results: Results) -> Table:
    """Table of every task trained with all others against its single-task baseline, with the steps of both."""
    heads: list[Column | str] = ["task", "protocol", score_column("together"), score_column("alone")]
    heads += [score_column("difference"), Column("together", group="steps"), Column("alone", group="steps")]
    heads += [Column("equal", group="steps", align="left")]
    rows: list[Row] = []
    shown: list[StudyCell] = []
    headings: dict[int, str] = {}
    for key, cell in sorted(results.cells.items(), key=lambda item: results.rows.index(item[0].row)):
        single = results.single_task_baseline(key)
        if key.mode != "together" or key.fraction != 1.0 or single is None:
            continue
        shown += [cell, single]
        if key.row not in headings.values():
            headings[len(rows)] = key.row
        rows.append(
            [
                key.column,
                protocol_of(results, key.column),
                mean_value(results, cell, mark=False),
                mean_value(results, single, mark=False),
                difference(results.together, cell, single),
                cell.task_steps,
                single.task_steps,
                equal_text(cell.task_steps, single.task_steps),
            ]
        )
    if any(cell.key.mode == "twin" for cell in shown):
        more = "Alone is the single-task baseline with the steps of the joint run, under its own schedule."
    else:
        more = "If they differ, the difference reflects steps as well as the other tasks; twins = 'updates' makes them equal."
    text = note(
        results,
        list(dict.fromkeys(cell.key.column for cell in shown)),
        shown,
        f"{SPREAD}, times 100,",
        "Difference: together minus alone with its 95 % interval (paired bootstrap over documents and seeds); † it excludes zero. "
        f"Steps: batches of the task that one run was trained on (the median over seeds). {more}",
        stars=False,
    )
    return Table(heads, rows, "Effect of joint training on each task", text, headings)


def fractions(results: Results, column: str) -> list[float]:
    """Return the fractions of training data that a column was trained on, smallest first."""
    return sorted({key.fraction for key in results.cells if key.column == column and key.mode == "single"})


def curved_columns(results: Results) -> list[str]:
    """Return the columns with a learning curve, trained on several fractions of their data."""
    return [column for column in results.columns if len(fractions(results, column)) > 1]


def learning_table(results: Results, column: str) -> Table:
    """Table of one task by fraction of training data."""
    shares = fractions(results, column)
    heads: list[Column | str] = ["model"]
    heads += [score_column(f"{share:.3g}", best="max", group="share of the training data") for share in shares]
    rows: list[Row] = []
    shown: list[StudyCell | None] = []
    for row in results.rows:
        cells = [results.cell(row, column, fraction=share) for share in shares]
        shown += cells
        if any(cell is not None for cell in cells):
            rows.append([row, *(mean_value(results, cell, mark=False) for cell in cells)])
    text = note(results, [column], shown, f"{SPREAD}, times 100,", stars=False)
    return Table(heads, rows, f"{column} from less data", text)


def choice_table(results: Results) -> Table:
    """Table of what was chosen on dev, and among how many configurations."""
    cells = [cell for cell in results.cells.values() if cell.configurations > 1]
    rows: list[Row] = []
    at_edge = []
    for cell in cells:
        points = list(dict.fromkeys(run.point for run in cell.runs))
        by_point = {p: [run.dev for run in cell.runs if run.point == p and run.dev is not None] for p in points}
        means = [sum(devs) / len(devs) for devs in by_point.values() if devs]
        found = {name.rpartition(".")[2]: edge for name, edge in edges(cell.winner.point, points).items()}
        at_edge += list(found.items())
        chosen = ", ".join(
            f"{name} {rate_text(value)}{f' {MARKS[found[name]]}' if name in found else ''}"
            for name, value in cell.winner.settings.items()
        )
        key, worst = cell.key, min(means, default=None)
        rows.append(
            [
                key.row,
                key.column,
                _trained(key),
                len(points),
                chosen,
                cell.dev,
                worst,
                cell.best_epoch,
                cell.summary.mean,
            ]
        )
    heads: list[Column | str] = ["model", "task", "trained", "configurations", "chosen", score_column("dev")]
    heads += [score_column("worst on dev"), Column("epoch", digits=1), score_column(results.split)]
    what = "the single run" if results.choose == "run" else "the configuration"
    by = "dev score" if results.choose == "run" else "mean dev score over seeds"
    text = note(
        results,
        list(dict.fromkeys(cell.key.column for cell in cells)),
        cells,
        "Means, times 100,",
        f"Chosen: {what} with the best {by}; the {results.split} split is not used. {edge_text(at_edge)}".rstrip(),
        stars=False,
    )
    return Table(heads, rows, "What was chosen on dev", text)


def cost_table(results: Results) -> Table:
    """Table of steps, tokens and FLOP of one chosen run of every cell, and of all runs it was chosen from."""
    rows: list[Row] = []
    for key, cell in results.cells.items():
        chosen = cell.chosen
        tokens = [run.tokens for run in chosen if run.tokens is not None]
        flops = [run.flops for run in chosen if run.flops is not None]
        search = [run.flops for run in cell.runs if run.flops is not None]
        rows.append(
            [
                key.row,
                key.column,
                _trained(key),
                round(median(run.steps for run in chosen)),
                cell.task_steps,
                round(median(tokens)) if tokens else None,
                f"{median(flops):.2e}" if flops else None,
                f"{sum(search):.2e}" if len(search) == len(cell.runs) else None,
                len(cell.runs),
                len(chosen),
            ]
        )
    heads: list[Column | str] = ["model", "task", "trained", "steps", "batches of this task", "tokens"]
    heads += [Column(name, align="right", group="FLOP") for name in ("of a chosen run", "of all runs")]
    heads += [Column(name, group="runs") for name in ("done", "chosen")]
    # Older runs have no record of tokens and FLOP.
    kept = [i for i in range(len(heads)) if i not in (5, 6, 7) or any(row[i] is not None for row in rows)]
    work = results.work
    total = ""
    if work.flops:
        total = (
            f" The study, each run counted once and refinements included: {count_text(work.runs - work.uncounted, 'run')}, "
            f"{work.tokens:,} tokens, {work.flops:.2e} FLOP"
            + (f"; the work of {work.uncounted:,} more is not known." if work.uncounted else ".")
        )
    text = (
        "Steps, tokens and FLOP are of one chosen run (the median); FLOP of all runs includes those that were not chosen. "
        "FLOP: training, attention over full windows, all weights trained. A run of several tasks is in the line of each."
        f"{total} Seconds, GPU-seconds and devices differ from run to run and are in logs/cost.html."
    )
    return Table([heads[i] for i in kept], [[row[i] for i in kept] for row in rows], "Cost of each score", text)


def timing_table(timings: Sequence[Timing]) -> Table:
    """Table of seconds by model, tasks and mode."""
    rows: list[Row] = [
        [
            time.row,
            ", ".join(time.columns),
            _MODES[time.mode],
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
    heads: list[Column | str] = ["model", "tasks", "trained", Column("data", digits=2), Column("runs", group="all")]
    heads += [Column("seconds", digits=1, group="all"), Column("GPU-seconds", digits=1, group="all")]
    heads += [Column("runs", group="chosen"), Column("seconds per run", digits=1, group="chosen"), "device"]
    total, on_gpu = sum(time.seconds for time in timings), sum(time.gpu_seconds for time in timings)
    text = (
        f"{sum(time.runs for time in timings):,} runs took {total:,.0f} seconds and {on_gpu:,.0f} GPU-seconds (seconds on a GPU, "
        "times the GPUs of a run), for fine-tuning and scoring. Runs that share a machine slow each other down, and each counts its "
        "own seconds. Runs reused from an earlier study count with the time they took then."
    )
    return Table(heads, rows, "Time by model and task", text)
