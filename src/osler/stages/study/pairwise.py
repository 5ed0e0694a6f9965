"""Which task helps which: every pair of tasks learned together, each task against the same task learned alone.

The decision rule: a task helps another where the 95 % interval of the paired difference (over documents and seeds) lies above
zero, hurts it where the interval lies below zero, and otherwise has no effect that these data can show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from osler.stages.study.cells import CellKey
from osler.stages.study.comparisons import Compared
from osler.stages.study.results import Results

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
class Group:
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


def affinity_groups(tasks: Sequence[str], found: Sequence[Effect]) -> list[Group]:
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
    groups: list[Group] = []
    for task in tasks:
        members = tuple(name for name in tasks if name in group_of[task])
        if all(members != group.tasks for group in groups):
            inside = tuple(e for e in helps if e.helper in members and e.helped in members)
            groups.append(Group(members, inside))
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
