"""Which run is next, and what dev selects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from osler.artifacts.run import FinishedRun, Mode, RunSpec, RunStatus, State, is_trained, read_status
from osler.core.errors import OslerError
from osler.stages.study.engines import Engine, RunJob, RunOutcome, folder_of, updates_of
from osler.stages.study.plan import PlannedRun, StudyPlan, edges
from osler.stages.study.recipe import StudyRecipe


class ChoiceGroup(NamedTuple):
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
class DevChoice:
    """What dev chose in a group, and by what."""

    group: ChoiceGroup
    point: str
    """The grid point of the chosen runs."""
    dev: float
    """Their dev score: the mean over seeds, or that of the one run."""
    keys: tuple[str, ...]
    candidates: tuple[tuple[str, int, str, float], ...]
    """Grid point, seed, key and dev score of every run there was to choose from."""


def group_of(spec: RunSpec) -> ChoiceGroup:
    """The group of a run."""
    return ChoiceGroup(spec.row, spec.mode, spec.columns, spec.fold, spec.fraction, spec.partner)


def groups(plan: StudyPlan) -> dict[ChoiceGroup, list[PlannedRun]]:
    """All groups of a study; what is only a start for other runs is in none, for it is not scored."""
    found: dict[ChoiceGroup, list[PlannedRun]] = {}
    for run in plan.runs:
        if not run.spec.only_start:
            found.setdefault(group_of(run.spec), []).append(run)
    return found


def needs_choice(runs: Sequence[PlannedRun], rule: Literal["settings", "run"]) -> bool:
    """Whether there is anything to choose."""
    return len(runs if rule == "run" else {run.spec.point for run in runs}) > 1


def choose(
    group: ChoiceGroup, runs: Sequence[PlannedRun], folders: Mapping[str, Path], rule: Literal["settings", "run"]
) -> DevChoice:
    """Choose by dev; of equals the first in the order of the grid and the seeds."""
    scores = {run.key: dev_score(folders[run.key]) for run in runs}
    candidates = tuple((run.spec.point, run.spec.seed, run.key, scores[run.key]) for run in runs)
    if rule == "run":
        best = max(runs, key=lambda run: scores[run.key])
        return DevChoice(group, best.spec.point, scores[best.key], (best.key,), candidates)
    by_point: dict[str, list[PlannedRun]] = {}
    for run in runs:
        by_point.setdefault(run.spec.point, []).append(run)
    means = {point: sum(scores[run.key] for run in found) / len(found) for point, found in by_point.items()}
    point = max(means, key=lambda name: means[name])
    return DevChoice(group, point, means[point], tuple(run.key for run in by_point[point]), candidates)


def dev_score(folder: Path) -> float:
    """The dev score of a fine-tuned run: the mean over its tasks, each under its own protocol."""
    counts = json.loads((folder / "bundle" / "manifest.json").read_text())["counts"]
    scores = list(counts.get("dev", {}).values())
    if not scores:
        raise OslerError(
            "this run has no dev score to choose by", where=folder, fix="Choose a protocol that keeps dev apart"
        )
    return float(sum(scores) / len(scores))


def record(recipe: StudyRecipe, choices: Sequence[DevChoice]) -> dict[str, Any]:
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


@dataclass
class Progress:
    """Where every run stands, by key."""

    states: dict[str, State] = field(default_factory=dict)
    statuses: dict[str, RunStatus] = field(default_factory=dict)


class Schedule:
    """The runs of a study as jobs. A key that two rows share is one job."""

    def __init__(self, recipe: StudyRecipe, plan: StudyPlan, *, retry_failed: bool = False) -> None:
        self.recipe = recipe
        self.plan = plan
        self.by_key: dict[str, list[PlannedRun]] = {}
        # A refinement that is also a run of its own (all tasks together) is scored as that.
        for run in sorted(plan.runs, key=lambda run: run.spec.only_start):
            self.by_key.setdefault(run.key, []).append(run)
        self.choices: dict[ChoiceGroup, DevChoice] = {}
        self.progress = Progress()
        self._groups = groups(plan)
        self._to_score: set[str] = set()
        self._running: set[str] = set()
        self._same: dict[str, str] = {}
        """Twins that need no run of their own, with the run that has their updates."""
        for key in self.by_key:
            status = read_status(plan.folder(key))
            known: State = "done" if status.state == "done" and is_trained(plan.folder(key)) else "waiting"
            if status.state == "failed" and not retry_failed:
                known = "failed"
            self.progress.states[key] = known
            self.progress.statuses[key] = status
        for runs in self._groups.values():
            if recipe.score == "all" or not needs_choice(runs, recipe.choose):
                self._to_score.update(run.key for run in runs)
        self._advance()

    @property
    def running(self) -> bool:
        """Whether any job is under way."""
        return bool(self._running)

    def ready(self) -> list[RunJob]:
        """Jobs that can begin now, the longest first, so that the end is not one long run."""
        jobs = []
        for key, runs in self.by_key.items():
            if self.progress.states[key] != "waiting" or key in self._same or not self._may_begin(runs[0].spec):
                continue
            # One training may stand in columns of several names (a task, and a fold): each of them is scored.
            spec = (self._unscored(key) or [runs[0].spec])[0]
            folder = self.plan.folder(key)
            # A column of a run of several tasks bears the name of its task: cross-validated ones have no such runs.
            length = updates_of(self.plan.folder(spec.equal_to), spec.columns[0]) if spec.equal_to else None
            start = str(self.plan.folder(spec.after) / "bundle") if spec.after else spec.model
            score = key in self._to_score
            # Scoring alone is short, whatever the training took.
            cost = 0.0 if is_trained(folder) else runs[0].cost
            processes = self.recipe.processes
            jobs.append(RunJob(spec, key, folder, start, score, cost, processes=processes, updates=length))
        return sorted(jobs, key=lambda job: -job.cost)

    def begin(self, job: RunJob) -> None:
        """Note that a job is under way."""
        self._running.add(job.key)
        self.progress.states[job.key] = "running"

    def end(self, job: RunJob, outcome: RunOutcome) -> None:
        """Note what came of a job; the last of a group lets dev choose."""
        self._running.discard(job.key)
        self.progress.statuses[job.key] = outcome.status
        self.progress.states[job.key] = "failed" if outcome.failed else "done"
        self._advance()

    def finished(self) -> list[FinishedRun]:
        """Every run that is done, in the order of the recipe, with what dev made of it."""
        chosen = {(group, key) for group, choice in self.choices.items() for key in choice.keys}
        found = []
        for run in self.plan.runs:
            if self._is_done(run.key):
                group = group_of(run.spec)
                pick = group not in self._groups or not needs_choice(self._groups[group], self.recipe.choose)
                found.append(FinishedRun(run.spec, self._folder(run.key), chosen=pick or (group, run.key) in chosen))
        return found

    def decided(self) -> list[DevChoice]:
        """What dev chose, in the order of the recipe."""
        return [self.choices[group] for group in self._groups if group in self.choices]

    def missing(self) -> list[RunSpec]:
        """Runs that are not done."""
        return [run.spec for run in self.plan.runs if not self._is_done(run.key)]

    def failures(self) -> list[tuple[RunSpec, str]]:
        """Runs that failed, with the reason."""
        states, statuses = self.progress.states, self.progress.statuses
        return [
            (runs[0].spec, statuses[key].reason or "no reason is known")
            for key, runs in self.by_key.items()
            if states[key] == "failed"
        ]

    def _is_done(self, key: str) -> bool:
        return self.progress.states[key] == "done"

    def _folder(self, key: str) -> Path:
        """Where the files of a run are: its own folder, or that of the run it would have repeated."""
        return self.plan.folder(self._same.get(key, key))

    def _may_begin(self, spec: RunSpec) -> bool:
        """Whether all that a run starts from is there: its refinement; of a twin, the number of its updates."""
        if spec.after and not self._is_done(spec.after):
            return False
        if spec.equal_to is None:
            return True
        # The plain run of the task may turn out to be the twin, so it comes first.
        coming = spec.alone in self.by_key and self.progress.states[spec.alone] != "failed"
        return self._trained(spec.equal_to) and (not coming or self._trained(spec.alone or ""))

    def _advance(self) -> None:
        """Draw the conclusions of what is done: twins that are done with it, what dev chose, what is to be scored."""
        for key, runs in self.by_key.items():
            spec = runs[0].spec
            if spec.equal_to and spec.alone in self.by_key and key not in self._same:
                folder = folder_of(self.plan.store, key, spec)
                if folder != self.plan.folder(key) and self._trained(spec.alone):
                    self._same[key] = spec.alone
        self._decide()
        self._to_score.update(alone for key, alone in self._same.items() if key in self._to_score)
        for key in self.by_key:
            self._settle(key)
        for key, alone in self._same.items():
            self.progress.states[key] = self.progress.states[alone]
            self.progress.statuses[key] = self.progress.statuses[alone]

    def _settle(self, key: str) -> None:
        """A trained run that dev chose has one thing left to do."""
        if self.progress.states[key] == "done" and key in self._to_score and self._unscored(key):
            self.progress.states[key] = "waiting"

    def _unscored(self, key: str) -> list[RunSpec]:
        """Of the runs that share a training, those with a column that has no score; a start for others needs none."""
        folder = self.plan.folder(key)
        specs = [run.spec for run in self.by_key[key] if not run.spec.only_start]
        return [spec for spec in specs if not FinishedRun(spec, folder).scored]

    def _decide(self) -> None:
        for group, runs in self._groups.items():
            if group in self.choices or not needs_choice(runs, self.recipe.choose):
                continue
            # A failed run leaves its group undecided: a choice among the rest would depend on what broke.
            if all(self._trained(run.key) for run in runs):
                folders = {run.key: self._folder(run.key) for run in runs}
                self.choices[group] = choose(group, runs, folders, self.recipe.choose)
                self._to_score.update(self.choices[group].keys)

    def _trained(self, key: str) -> bool:
        """Fine-tuned, whether or not a later evaluation of it failed."""
        return self.progress.states[key] != "running" and is_trained(self._folder(key))


def do_runs(schedule: Schedule, engine: Engine, show: Callable[[RunJob, RunOutcome | None], None]) -> None:
    """Do every run that is not done. A failure does not stop the others; being stopped does, and nothing finished is lost."""
    try:
        while True:
            for job in schedule.ready():
                if engine.take(job):
                    schedule.begin(job)
                    show(job, None)
            if not schedule.running:
                return
            for job, outcome in engine.wait():
                schedule.end(job, outcome)
                show(job, outcome)
    finally:
        engine.close()


def complain(schedule: Schedule, store: Path) -> None:
    """Say which runs failed, and how to go on."""
    failures = schedule.failures()
    total = len(schedule.by_key)
    if failures:
        spec, reason = failures[0]
        raise OslerError(
            f"{len(failures)} of {total} runs failed; the first, {spec.label}: {reason}",
            where=store,
            fix="Mend the cause and run again with --retry-failed; finished runs are kept, and `osler study report` shows them",
        )
    missing: Sequence[RunSpec] = schedule.missing()
    if missing:
        raise OslerError(
            f"{len(missing)} of {total} runs are not done; the first: {missing[0].label}",
            where=store,
            fix="Run the same command again",
        )
