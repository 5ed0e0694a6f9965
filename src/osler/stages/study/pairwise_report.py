"""The page of pairwise learning: a matrix and a graph a model, and groups of tasks that may be worth learning together."""

from __future__ import annotations

from collections.abc import Sequence

from osler.report.graph import Edge, EdgeKind, directed_graph
from osler.report.page import Page
from osler.report.plots import heatmap
from osler.report.tables import Cell as TableCell
from osler.report.tables import Column, Table, Value
from osler.stages.study.layouts.common import protocols_text, seeds_text
from osler.stages.study.pairwise import (
    HELPS,
    HURTS,
    NOTHING,
    RULE,
    UNKNOWN,
    Effect,
    affinity_groups,
    effects,
    matrix,
    tasks_of,
)
from osler.stages.study.results import Results

_KINDS = {
    UNKNOWN: EdgeKind("grey", 0.8, dashed=True),
    NOTHING: EdgeKind("grey", 0.8),
    HURTS: EdgeKind("vermilion", 2.2, dashed=True),
    HELPS: EdgeKind("green", 2.2),
}


def pairwise_page(results: Results) -> Page:
    """The page of `osler study pairwise`."""
    page = Page(f"{results.title}: pairs of tasks", "Which task helps which, against learning each alone")
    add_pairwise(page, results)
    return page


def add_pairwise(page: Page, results: Results) -> None:
    """Add the matrix, the graph, the numbers and the suggestions of every model."""
    page.text(RULE)
    for row in results.rows:
        found = effects(results, row)
        if not found:
            continue
        tasks = tasks_of(results, found)
        page.heading(row)
        counts = {kind: sum(effect.kind == kind for effect in found) for kind in (HELPS, HURTS, NOTHING, UNKNOWN)}
        page.numbers([(kind, str(number)) for kind, number in counts.items() if number or kind != UNKNOWN])
        page.figure(_matrix_plot(tasks, found, row), _caption(results, tasks, row))
        page.figure(
            _graph(tasks, found, row), "Arrows lead from the task that helps or hurts to the task it does so to."
        )
        page.text(_suggestion(tasks, found))
        page.table(effect_table(results, row, found))


def effect_table(results: Results, row: str, found: Sequence[Effect]) -> Table:
    """Every effect with its interval and the updates behind it."""
    heads: list[Column | str] = ["helped", "by", Column("difference", digits=1, scale=100), "effect"]
    heads += [Column("corrected p", digits=4), Column("in the pair", group="updates of the helped task")]
    heads += [Column("alone", group="updates of the helped task"), Column("equal", align="left")]
    rows: list[list[TableCell]] = []
    for effect in found:
        c = effect.compared.comparison if effect.compared else None
        value = Value(effect.difference, low=c.low, high=c.high) if c else Value(effect.difference)
        ratio = effect.updates / max(effect.twin_updates, 1)
        rows.append(
            [
                effect.helped,
                effect.helper,
                value,
                effect.kind,
                effect.compared.p_value if effect.compared else None,
                effect.updates,
                effect.twin_updates,
                "yes" if effect.updates == effect.twin_updates else f"no, {ratio:.2f} x",
            ]
        )
    tasks = tasks_of(results, found)
    cells = [cell for key, cell in results.cells.items() if key.row == row and key.column in tasks]
    text = (
        f"{results.split.capitalize()} split, {seeds_text(cells)}; difference in points (pair minus alone) with its 95 % interval, "
        f"paired bootstrap over documents and seeds. {protocols_text(results, tasks)} The effect is decided by the interval, task by "
        "task; corrected p is Holm's over all pairs of the study, for those who want one decision for all."
    )
    return Table(heads, rows, f"Every pair, {row}", text)


def _matrix_plot(tasks: Sequence[str], found: Sequence[Effect], row: str) -> str:
    points = [[None if value is None else 100 * value for value in line] for line in matrix(tasks, found)]
    return heatmap(
        points,
        rows=tasks,
        columns=tasks,
        digits=1,
        diverging=True,
        title=f"{row}: what each task gains or loses",
        xlabel="learned together with",
        ylabel="task that is scored",
    )


def _caption(results: Results, tasks: Sequence[str], row: str) -> str:
    cells = [cell for key, cell in results.cells.items() if key.row == row and key.column in tasks]
    return (
        "Points gained or lost against learning the task alone, mean over "
        f"{seeds_text(cells)}. {protocols_text(results, tasks)}"
    )


def _graph(tasks: Sequence[str], found: Sequence[Effect], row: str) -> str:
    edges = [
        Edge(
            effect.helper,
            effect.helped,
            effect.kind,
            f"{100 * effect.difference:+.1f}".replace("-", "−") if effect.kind in (HELPS, HURTS) else "",
        )
        for effect in found
    ]
    return directed_graph(tasks, edges, kinds=_KINDS, title=f"{row}: who helps whom")


def _suggestion(tasks: Sequence[str], found: Sequence[Effect]) -> str:
    groups = affinity_groups(tasks, found)
    together = [group for group in groups if len(group.tasks) > 1]
    if not together:
        return "**No group suggested**: no task helps another beyond doubt, so each is best learned alone or for other reasons."
    lines = []
    for group in together:
        reasons = "; ".join(f"{e.helper} helps {e.helped} by {100 * e.difference:.1f}" for e in group.reasons)
        lines.append(f"- learn together: {', '.join(group.tasks)} ({reasons})")
    alone = [group.tasks[0] for group in groups if len(group.tasks) == 1]
    if alone:
        lines.append(f"- alone: {', '.join(alone)}")
    return (
        "**Suggested groups**, joined greedily by the largest help first, never where one task would hurt another of the group. Pairs do "
        "not tell how three tasks get along: try a group before relying on it.\n\n" + "\n".join(lines)
    )
