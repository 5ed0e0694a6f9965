"""Tables of what a study cost: updates, tokens and FLOP of every cell, and the seconds of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from osler.report.tables import Cell as TableCell
from osler.report.tables import Column, Table
from osler.stages.study.costs import Timing
from osler.stages.study.results import Results
from osler.stages.study.sections import MODES, how


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
