"""Which task helps which: pairs of tasks trained together, compared with each task alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from osler.report.bars import heatmap
from osler.report.diagrams import Edge, EdgeKind, directed_graph
from osler.report.page import Page
from osler.report.tables import Column, Row, Table, Value
from osler.stages.study.cells import CellKey
from osler.stages.study.layouts.common import equal_text, points_text, protocols_text, score_column, seeds_text
from osler.stages.study.results import Compared, Results

RULE = (
    "An edge from one task to another shows how training on both changes the second task, compared with training it alone. "
    "It helps if the 95 % interval of the paired difference over documents and seeds is above zero, hurts if it is below zero, "
    "and has no effect shown if it contains zero."
)
HELPS, HURTS, NOTHING, UNKNOWN = "helps", "hurts", "no effect shown", "not known"
_KINDS = {
    UNKNOWN: EdgeKind("grey", 0.8, dashed=True),
    NOTHING: EdgeKind("grey", 0.8),
    HURTS: EdgeKind("vermilion", 2.2, dashed=True),
    HELPS: EdgeKind("green", 2.2),
}


@dataclass(frozen=True)
class Effect:
    """The effect of one task on another, for one model."""

    helper: str
    helped: str
    difference: float
    compared: Compared | None
    """Tested comparison; None if the metric cannot be decomposed by document."""
    steps: int
    """Steps on the helped task in the pair."""
    single_steps: int
    """Steps on the helped task when trained alone."""

    @property
    def kind(self) -> str:
        if self.compared is None:
            return UNKNOWN
        comparison = self.compared.comparison
        if not comparison.excludes_zero:
            return NOTHING
        return HELPS if comparison.low > 0 else HURTS

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "helper": self.helper,
            "helped": self.helped,
            "effect": self.kind,
            "difference": self.difference,
            "updates": self.steps,
            "single_updates": self.single_steps,
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
    """Tasks that may be worth training together, and the effects that suggest it."""

    tasks: tuple[str, ...]
    reasons: tuple[Effect, ...]


def effects(results: Results, row: str) -> list[Effect]:
    """Return all effects between tasks for one model, in column order."""
    found = []
    for helped, helper in product(results.columns, results.columns):
        key = CellKey(row, helped, "pair", 1.0, helper)
        pair, single = results.cells.get(key), results.single_task_baseline(key)
        if pair is not None and single is not None:
            difference = pair.summary.mean - single.summary.mean
            found.append(Effect(helper, helped, difference, results.pairs.get(key), pair.task_steps, single.task_steps))
    return found


def affinity_groups(tasks: Sequence[str], found: Sequence[Effect]) -> list[AffinityGroup]:
    """Join tasks greedily, the largest gain first, but never where a task would hurt another in its group.

    A task that joins no other is a group of its own.
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


def _paired_tasks(results: Results, found: Sequence[Effect]) -> list[str]:
    return [column for column in results.columns if any(column in (e.helper, e.helped) for e in found)]


def matrix(tasks: Sequence[str], found: Sequence[Effect]) -> list[list[float | None]]:
    """Return the differences with one row per helped and one column per helping task; None on the diagonal."""
    by_pair: Mapping[tuple[str, str], float] = {(e.helped, e.helper): e.difference for e in found}
    return [[by_pair.get((helped, helper)) for helper in tasks] for helped in tasks]


def pairwise_dict(results: Results) -> dict[str, Any]:
    """Return matrix, effects and suggested groups of every model, for pairwise.json."""
    by_model = {row: effects(results, row) for row in results.rows}
    models: dict[str, Any] = {}
    for row, found in by_model.items():
        if found:
            tasks = _paired_tasks(results, found)
            models[row] = {
                "tasks": tasks,
                "matrix": matrix(tasks, found),
                "effects": [effect.to_dict() for effect in found],
                "groups": [list(group.tasks) for group in affinity_groups(tasks, found)],
            }
    columns = _paired_tasks(results, [effect for found in by_model.values() for effect in found])
    return {
        "rule": RULE,
        "split": results.split,
        "resamples": results.resamples,
        "protocols": {column: results.protocol(column) for column in columns},
        "metrics": {column: results.metric(column) for column in columns},
        "models": models,
    }


def pairwise_page(results: Results) -> Page:
    """Build the page with matrix, graph, suggested groups and numbers of every model."""
    page = Page(f"{results.title}: pairs of tasks", "Which task helps which, compared with training each alone")
    page.text(RULE)
    for row in results.rows:
        found = effects(results, row)
        if not found:
            continue
        tasks = _paired_tasks(results, found)
        seeds = _seeds(results, row, tasks)
        protocols = protocols_text(results, tasks)
        page.heading(row)
        counts = {kind: sum(effect.kind == kind for effect in found) for kind in (HELPS, HURTS, NOTHING, UNKNOWN)}
        page.numbers([(kind, str(number)) for kind, number in counts.items() if number or kind != UNKNOWN])
        page.figure(
            heatmap(
                [[None if value is None else 100 * value for value in line] for line in matrix(tasks, found)],
                rows=tasks,
                columns=tasks,
                digits=1,
                diverging=True,
                title=f"{row}: gain or loss of each task",
                xlabel="trained together with",
                ylabel="scored task",
            ),
            f"Points gained or lost compared with training the task alone, mean over {seeds}. {protocols}",
        )
        arrows = [
            Edge(
                effect.helper,
                effect.helped,
                effect.kind,
                points_text(effect.difference) if effect.kind in (HELPS, HURTS) else "",
            )
            for effect in found
        ]
        graph = directed_graph(tasks, arrows, kinds=_KINDS, title=f"{row}: which task helps which")
        page.figure(graph, "Arrows point from the task that helps or hurts to the task that changes.")
        page.text(_suggestion(tasks, found))
        page.table(_effect_table(results, row, found))
    return page


def effect_tables(results: Results) -> dict[str, Table]:
    """Return a table of effects for every model that was trained on pairs."""
    by_model = {row: effects(results, row) for row in results.rows}
    return {row: _effect_table(results, row, found) for row, found in by_model.items() if found}


def _seeds(results: Results, model: str, tasks: Sequence[str]) -> str:
    return seeds_text(cell for key, cell in results.cells.items() if key.row == model and key.column in tasks)


def _effect_table(results: Results, model: str, found: Sequence[Effect]) -> Table:
    heads: list[Column | str] = ["helped", "by", score_column("difference"), "effect", Column("corrected p", digits=4)]
    heads += [Column(name, group="steps on the helped task") for name in ("in the pair", "alone")]
    heads += [Column("equal", align="left")]
    rows: list[Row] = []
    for effect in found:
        c = effect.compared.comparison if effect.compared else None
        value = Value(effect.difference, low=c.low, high=c.high) if c else Value(effect.difference)
        p_value = effect.compared.p_value if effect.compared else None
        equal = equal_text(effect.steps, effect.single_steps)
        row: Row = [effect.helped, effect.helper, value, effect.kind, p_value]
        rows.append([*row, effect.steps, effect.single_steps, equal])
    tasks = _paired_tasks(results, found)
    note = (
        f"{results.split.capitalize()} split, {_seeds(results, model, tasks)}; difference in points (pair minus alone) with its "
        f"95 % interval, paired bootstrap over documents and seeds. {protocols_text(results, tasks)} The effect follows from the "
        "interval, pair by pair; corrected p is Holm's over all pairs of the study."
    )
    return Table(heads, rows, f"Every pair, {model}", note)


def _suggestion(tasks: Sequence[str], found: Sequence[Effect]) -> str:
    groups = affinity_groups(tasks, found)
    together = [group for group in groups if len(group.tasks) > 1]
    if not together:
        return "**No group suggested**: no task helps another beyond doubt."
    lines = []
    for group in together:
        reasons = "; ".join(f"{e.helper} helps {e.helped} by {100 * e.difference:.1f}" for e in group.reasons)
        lines.append(f"- train together: {', '.join(group.tasks)} ({reasons})")
    alone = [group.tasks[0] for group in groups if len(group.tasks) == 1]
    if alone:
        lines.append(f"- train alone: {', '.join(alone)}")
    return (
        "**Suggested groups**, joined greedily by the largest help first, never where one task would hurt another of the group. "
        "Pairs do not show how three tasks get along: try a group before relying on it.\n\n" + "\n".join(lines)
    )
