"""What dev chooses: among the grid points and seeds of one row, its columns, fold and fraction. No other split is read here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from osler.core.errors import OslerError
from osler.stages.study.config import StudyRecipe
from osler.stages.study.edges import edges
from osler.stages.study.plan import Plan, PlannedRun
from osler.stages.study.spec import Mode, RunSpec


class Group(NamedTuple):
    """The runs among which dev chooses.

    Every fold chooses by itself: the dev documents of one fold are test documents of another.
    """

    row: str
    mode: Mode
    columns: tuple[str, ...]
    fold: int | None
    fraction: float
    partner: str = ""
    """Of a twin of a pair: the other task."""


@dataclass(frozen=True)
class Choice:
    """What dev chose in a group, and by what."""

    group: Group
    point: str
    """The grid point of the chosen runs."""
    dev: float
    """Their dev score: the mean over seeds, or that of the one run."""
    keys: tuple[str, ...]
    candidates: tuple[tuple[str, int, str, float], ...]
    """Grid point, seed, key and dev score of every run there was to choose from."""


def group_of(spec: RunSpec) -> Group:
    """The group of a run."""
    return Group(spec.row, spec.mode, spec.columns, spec.fold, spec.fraction, spec.partner)


def groups(plan: Plan) -> dict[Group, list[PlannedRun]]:
    """All groups of a study; what is only a start for other runs is in none, for it is not scored."""
    found: dict[Group, list[PlannedRun]] = {}
    for run in plan.runs:
        if not run.spec.only_start:
            found.setdefault(group_of(run.spec), []).append(run)
    return found


def needs_choice(runs: Sequence[PlannedRun], rule: Literal["settings", "run"]) -> bool:
    """Whether there is anything to choose."""
    return len(runs if rule == "run" else {run.spec.point for run in runs}) > 1


def choose(
    group: Group, runs: Sequence[PlannedRun], folders: Mapping[str, Path], rule: Literal["settings", "run"]
) -> Choice:
    """Choose by dev; of equals the first in the order of the grid and the seeds."""
    scores = {run.key: dev_score(folders[run.key]) for run in runs}
    candidates = tuple((run.spec.point, run.spec.seed, run.key, scores[run.key]) for run in runs)
    if rule == "run":
        best = max(runs, key=lambda run: scores[run.key])
        return Choice(group, best.spec.point, scores[best.key], (best.key,), candidates)
    by_point: dict[str, list[PlannedRun]] = {}
    for run in runs:
        by_point.setdefault(run.spec.point, []).append(run)
    means = {point: sum(scores[run.key] for run in found) / len(found) for point, found in by_point.items()}
    point = max(means, key=lambda name: means[name])
    return Choice(group, point, means[point], tuple(run.key for run in by_point[point]), candidates)


def dev_score(folder: Path) -> float:
    """The dev score of a fine-tuned run: the mean over its tasks, each under its own protocol."""
    counts = json.loads((folder / "bundle" / "manifest.json").read_text())["counts"]
    scores = list(counts.get("dev", {}).values())
    if not scores:
        raise OslerError(
            "this run has no dev score to choose by", where=folder, fix="Choose a protocol that keeps dev apart"
        )
    return float(sum(scores) / len(scores))


def record(recipe: StudyRecipe, choices: Sequence[Choice]) -> dict[str, Any]:
    """The choices as plain data, for choices.json."""
    by = "mean dev score over seeds, one grid point" if recipe.choose == "settings" else "dev score of the single run"
    return {
        "chosen_on": "dev",
        "by": by,
        "scored": f"{recipe.split}, once for each chosen run"
        if recipe.score == "chosen"
        else f"{recipe.split}, all runs",
        "choices": [
            {
                **choice.group._asdict(),
                "point": json.loads(choice.point),
                "at_edge": edges(json.loads(choice.point), [json.loads(point) for point, *_ in choice.candidates]),
                "dev": choice.dev,
                "runs": list(choice.keys),
                "candidates": [
                    {"point": json.loads(point), "seed": seed, "run": key, "dev": dev}
                    for point, seed, key, dev in choice.candidates
                ],
            }
            for choice in choices
        ],
    }
