"""Which task helps which: pairs of tasks trained together, compared with each task alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from osler.report.diagrams import Edge, EdgeKind, directed_graph
from osler.report.page import Page
from osler.report.plots import heatmap
from osler.report.tables import Cell as TableCell
from osler.report.tables import Column, Table, Value
from osler.stages.study.cells import CellKey
from osler.stages.study.layouts.common import protocols_text, seeds_text
from osler.stages.study.results import Compared, Results

RULE = (
    "An edge from one task to another says that learning both together changes the second against learning it alone. It is drawn "
    "as help where the 95 % interval of the paired difference over documents and seeds lies above zero, as hurt where it lies "
    "below zero, and as no effect where it holds zero."
)
HELPS, HURTS, NOTHING, UNKNOWN = "helps", "hurts", "no effect shown", "not known"


@dataclass(frozen=True)
class Effect:
    """What one task does to another, for one model."""

    helper: str
    helped: str
    difference: float
    compared: Compared | None
    """None where the metric cannot be taken apart by document, so that there is no interval."""
    updates: int
    """Updates of the helped task in the pair."""
    twin_updates: int
    """Its updates when it was learned alone."""

    @property
    def kind(self) -> str:
        """Helps, hurts, no effect shown, or not known without an interval."""
        if self.compared is None:
            return UNKNOWN
        comparison = self.compared.comparison
        if not comparison.excludes_zero:
            return NOTHING
        return HELPS if comparison.low > 0 else HURTS

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        found: dict[str, Any] = {
            "helper": self.helper,
            "helped": self.helped,
            "effect": self.kind,
            "difference": self.difference,
            "updates": self.updates,
            "single_updates": self.twin_updates,
        }
        if self.compared is not None:
            comparison = self.compared.comparison
            found |= {
                "low": comparison.low,
                "high": comparison.high,
                "p_value": comparison.p_value,
                "p_holm": self.compared.p_value,
            }
        return found


@dataclass(frozen=True)
class AffinityGroup:
    """Tasks that may be worth learning together, and the effects that say so."""

    tasks: tuple[str, ...]
    reasons: tuple[Effect, ...]


def effects(results: Results, row: str) -> list[Effect]:
    """All effects between tasks for one model, in the order of the study's columns."""
    found = []
    for helped, helper in product(results.columns, results.columns):
        key = CellKey(row, helped, "pair", 1.0, helper)
        cell, twin = results.cells.get(key), results.twin(key)
        if cell is not None and twin is not None:
            difference = cell.summary.mean - twin.summary.mean
            found.append(Effect(helper, helped, difference, results.pairs.get(key), cell.updates, twin.updates))
    return found


def affinity_groups(tasks: Sequence[str], found: Sequence[Effect]) -> list[AffinityGroup]:
    """Groups of tasks by greedy joining: the largest help first, never where a task would hurt another of its group.

    A task that no effect joins to another stands alone.
    """
    group_of = {task: {task} for task in tasks}
    hurts = {(effect.helper, effect.helped) for effect in found if effect.kind == HURTS}
    helps = sorted((e for e in found if e.kind == HELPS), key=lambda e: (-e.difference, e.helper, e.helped))
    for effect in helps:
        one, other = group_of[effect.helper], group_of[effect.helped]
        if one is other or any((a, b) in hurts or (b, a) in hurts for a, b in product(one, other)):
            continue
        joined = one | other
        group_of.update(dict.fromkeys(joined, joined))
    groups: list[AffinityGroup] = []
    for task in tasks:
        members = tuple(name for name in tasks if name in group_of[task])
        if all(members != group.tasks for group in groups):
            inside = tuple(e for e in helps if e.helper in members and e.helped in members)
            groups.append(AffinityGroup(members, inside))
    return groups


def as_dict(results: Results) -> dict[str, Any]:
    """Matrix, edges and suggested groups of every model, for pairwise.json."""
    models: dict[str, Any] = {}
    for row in results.rows:
        found = effects(results, row)
        if found:
            tasks = tasks_of(results, found)
            models[row] = {
                "tasks": tasks,
                "matrix": matrix(tasks, found),
                "effects": [effect.as_dict() for effect in found],
                "groups": [list(group.tasks) for group in affinity_groups(tasks, found)],
            }
    columns = tasks_of(results, [effect for row in results.rows for effect in effects(results, row)])
    return {
        "rule": RULE,
        "split": results.split,
        "resamples": results.resamples,
        "protocols": {column: results.protocol(column) for column in columns},
        "metrics": {column: results.metric(column) for column in columns},
        "models": models,
    }


def tasks_of(results: Results, found: Sequence[Effect]) -> list[str]:
    """The tasks that were paired, in the order of the study's columns."""
    return [column for column in results.columns if any(column in (e.helper, e.helped) for e in found)]


def matrix(tasks: Sequence[str], found: Sequence[Effect]) -> list[list[float | None]]:
    """Differences: a row a task that is helped, a column a task that helps; none on the diagonal."""
    by_pair: Mapping[tuple[str, str], float] = {(e.helped, e.helper): e.difference for e in found}
    return [[by_pair.get((helped, helper)) for helper in tasks] for helped in tasks]


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
