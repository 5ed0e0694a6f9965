"""The order of a study's runs, and the choice among them on dev."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from osler.artifacts.run import (
    AcrossTask,
    Mode,
    Run,
    RunSettings,
    RunSpec,
    RunStatus,
    RunTraining,
    State,
    is_trained,
    lacks_weights,
    remove_weights,
)
from osler.core.errors import OslerError, OutputError
from osler.stages.study import runner
from osler.stages.study.engines import Engine
from osler.stages.study.grid import edges
from osler.stages.study.matched import matched_length, run_folder
from osler.stages.study.plan import PlannedRun, StudyPlan
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.runner import RunJob


class ChoiceGroup(NamedTuple):
    """Runs that compete on dev.

    Each fold has its own choice, because the dev documents of one fold are test documents of another.
    """

    row: str
    mode: Mode
    columns: tuple[str, ...]
    fold: int | None
    fraction: float
    partner: str = ""
    """For a single-task baseline of a pair, the other task."""

    @classmethod
    def of(cls, spec: RunSpec) -> ChoiceGroup:
        return cls(spec.row, spec.mode, spec.columns, spec.fold, spec.fraction, spec.partner)


@dataclass(frozen=True)
class DevChoice:
    """The choice on dev within a group of runs."""

    point: RunSettings
    """The grid point of the chosen runs."""
    dev: float
    """Their mean dev score."""
    keys: tuple[str, ...]
    scores: Mapping[str, float]
    """The dev score of every run of the group, by key."""


def choose(runs: Sequence[PlannedRun], folders: Mapping[str, Path], rule: Literal["settings", "run"]) -> DevChoice:
    """Choose by dev score. Ties go to the first in grid and seed order."""
    scores = {run.key: _dev_score(folders[run.key]) for run in runs}
    if rule == "run":
        best = max(runs, key=lambda run: scores[run.key])
        return DevChoice(best.spec.point, scores[best.key], (best.key,), scores)
    keys: dict[RunSettings, list[str]] = {}
    for run in runs:
        keys.setdefault(run.spec.point, []).append(run.key)
    means = {point: sum(scores[key] for key in found) / len(found) for point, found in keys.items()}
    point = max(means, key=lambda name: means[name])
    return DevChoice(point, means[point], tuple(keys[point]), scores)


def _dev_score(folder: Path) -> float:
    """Return the mean dev score over a run's tasks, each under its own protocol."""
    scores = RunTraining.read(folder).dev.values()
    if not scores:
        raise OslerError(
            "this run has no dev score to choose by", where=folder, fix="Use a protocol that does not train on dev"
        )
    return float(sum(scores) / len(scores))


class Schedule:
    """Schedules the runs of a study as jobs. Rows that share a key share a job."""

    def __init__(self, recipe: StudyRecipe, plan: StudyPlan, *, retry_failed: bool = False) -> None:
        self.recipe = recipe
        self.plan = plan
        self.by_key: dict[str, list[PlannedRun]] = {}
        # If a refinement is also a run of its own (all tasks together), it is scored as that run.
        for run in sorted(plan.runs, key=lambda run: run.spec.only_start):
            self.by_key.setdefault(run.key, []).append(run)
        self.states: dict[str, State] = {}
        self.statuses: dict[str, RunStatus] = {}
        self._choices: dict[ChoiceGroup, DevChoice] = {}
        self._groups: dict[ChoiceGroup, list[PlannedRun]] = {}
        self._to_score: set[str] = set()
        self._chosen: set[str] = set()
        """Runs chosen on dev, and those of groups without a choice."""
        self._repeated: dict[str, str] = {}
        """Single-task baselines that need no run of their own, each with the run that already has its length."""
        for key in self.by_key:
            status = self.statuses[key] = RunStatus.read(plan.folder(key))
            done = status.state == "done" and is_trained(plan.folder(key))
            self.states[key] = "done" if done else "failed" if status.failed and not retry_failed else "waiting"
        for key in self._started_from():
            if self.states[key] == "done" and lacks_weights(plan.folder(key)):
                self.states[key] = "waiting"
        for run in plan.runs:
            if not run.spec.only_start:
                self._groups.setdefault(ChoiceGroup.of(run.spec), []).append(run)
        for group, runs in self._groups.items():
            if not self._needs_choice(group):
                self._chosen.update(run.key for run in runs)
            elif recipe.score == "all":
                self._to_score.update(run.key for run in runs)
        self._to_score |= self._chosen
        self._advance()

    def ready(self) -> list[RunJob]:
        """Return the jobs that can start now, longest first, so the study does not end with one long run."""
        jobs = []
        for key, runs in self.by_key.items():
            if self.states[key] != "waiting" or key in self._repeated or not self._can_begin(runs[0].spec):
                continue
            # Columns with different names (a task and a fold) may share a run; each is scored.
            spec = (self._unscored(key) or [runs[0].spec])[0]
            folder = self.plan.folder(key)
            length = None
            if spec.equal_to:
                # A joint run's columns are named after their tasks, because cross-validated columns have no joint runs.
                length = matched_length(RunTraining.read(self.plan.folder(spec.equal_to)), spec.columns[0])
            start = str(Run(spec, self.plan.folder(spec.after)).bundle) if spec.after else spec.model
            # Scoring is short, no matter how long the training took.
            cost = 0.0 if is_trained(folder) else runs[0].cost
            job = RunJob(spec, key, folder, start, score=key in self._to_score, cost=cost, length=length)
            jobs.append(replace(job, processes=self.recipe.processes, across=self._across(key)))
        return sorted(jobs, key=lambda job: -job.cost)

    def end(self, job: RunJob, status: RunStatus) -> None:
        """Record how a job ended, and choose in groups that are now complete."""
        self.statuses[job.key] = status
        self.states[job.key] = status.state if status.failed or status.stopped else "done"
        self._advance()

    def remove_weights(self) -> None:
        """Remove weights that are no longer needed: of runs that are scored or not chosen, and that no pending run starts from."""
        needed = {key for key in self._to_score if self._lacks_scores(key)} | self._started_from()
        for group, runs in self._groups.items():
            if self._needs_choice(group) and group not in self._choices:
                needed.update(run.key for run in runs)
        for key, state in self.states.items():
            if state == "done" and key not in needed and key not in self._repeated:
                remove_weights(self.plan.folder(key))

    def finished(self) -> list[Run]:
        """Return every finished run in recipe order."""
        chosen = {(group, key) for group, choice in self._choices.items() for key in choice.keys}
        found = []
        for run in self.plan.runs:
            if self.states[run.key] == "done":
                group = ChoiceGroup.of(run.spec)
                pick = not self._needs_choice(group) or (group, run.key) in chosen
                found.append(Run(run.spec, self._folder(run.key), chosen=pick))
        return found

    def missing(self) -> list[RunSpec]:
        return [run.spec for run in self.plan.runs if self.states[run.key] != "done"]

    def choices(self) -> dict[str, Any]:
        """Return the choices as plain data for choices.json."""
        by_settings, scored_all = self.recipe.choose == "settings", self.recipe.score == "all"
        return {
            "chosen_on": "dev",
            "by": "mean dev score over seeds, one grid point" if by_settings else "dev score of the single run",
            "scored": f"{self.recipe.split}, {'all runs' if scored_all else 'once for each chosen run'}",
            "choices": [
                {
                    **group._asdict(),
                    "point": dict(choice.point),
                    "at_edge": edges(choice.point, [run.spec.point for run in self._groups[group]]),
                    "dev": choice.dev,
                    "runs": list(choice.keys),
                    "candidates": [
                        {
                            "point": dict(run.spec.point),
                            "seed": run.spec.seed,
                            "run": run.key,
                            "dev": choice.scores[run.key],
                        }
                        for run in self._groups[group]
                    ],
                }
                for group in self._groups
                if (choice := self._choices.get(group)) is not None
            ],
        }

    def check_complete(self) -> None:
        """Raise an error if runs stopped, failed or are missing."""
        total = len(self.by_key)
        stopped = [key for key in self.by_key if self.states[key] == "stopped"]
        if stopped:
            spec, reason = self.by_key[stopped[0]][0].spec, self.statuses[stopped[0]].reason
            done = sum(state == "done" for state in self.states.values())
            raise OutputError(
                f"the study stopped because {reason}, during {spec.label}; {done} of {total} runs are done",
                where=self.plan.store,
                fix="Once that is fixed, run the same command again: it resumes where it stopped",
            )
        failures = [key for key in self.by_key if self.states[key] == "failed"]
        if failures:
            spec, reason = self.by_key[failures[0]][0].spec, self.statuses[failures[0]].reason or "unknown reason"
            raise OslerError(
                f"{len(failures)} of {total} runs failed; the first, {spec.label}: {reason}",
                where=self.plan.store,
                fix="Fix the cause and run again with --retry-failed. Finished runs are kept; "
                "`osler study report` shows them",
            )
        missing = self.missing()
        if missing:
            raise OslerError(
                f"{len(missing)} of {total} runs are not done; the first: {missing[0].label}",
                where=self.plan.store,
                fix="Run the same command again",
            )

    def _started_from(self) -> set[str]:
        """Return the runs that pending runs start from."""
        waiting = (run.spec.after for key, runs in self.by_key.items() if self.states[key] != "done" for run in runs)
        return {key for key in waiting if key}

    def _needs_choice(self, group: ChoiceGroup) -> bool:
        runs = self._groups.get(group, [])
        return len(runs if self.recipe.choose == "run" else {run.spec.point for run in runs}) > 1

    def _folder(self, key: str) -> Path:
        """Return the folder of a run, or of the run that it would only repeat."""
        return self.plan.folder(self._repeated.get(key, key))

    def _trained(self, key: str) -> bool:
        """Whether a run is fine-tuned, even if scoring it failed."""
        return self.states[key] != "running" and is_trained(self._folder(key))

    def _can_begin(self, spec: RunSpec) -> bool:
        """Whether the run's refinement is done and, for a single-task baseline, its number of steps is known."""
        if spec.after and self.states[spec.after] != "done":
            return False
        if spec.equal_to is None:
            return True
        # Wait for the plain run of the task; if it has the same length, no baseline run is needed.
        wait_for = spec.alone if spec.alone in self.by_key and self.states[spec.alone] != "failed" else None
        return self._trained(spec.equal_to) and (wait_for is None or self._trained(wait_for))

    def _advance(self) -> None:
        """Update repeated baselines, choices and the runs to score from the runs that are done."""
        for key, runs in self.by_key.items():
            spec = runs[0].spec
            if spec.equal_to and spec.alone in self.by_key and key not in self._repeated:
                folder = run_folder(self.plan.store, key, spec)
                if folder != self.plan.folder(key) and self._trained(spec.alone):
                    self._repeated[key] = spec.alone
        for group, runs in self._groups.items():
            # A failed run leaves its group undecided, because a choice among the others would depend on which one failed.
            undecided = group not in self._choices and self._needs_choice(group)
            if undecided and all(self._trained(run.key) for run in runs):
                folders = {run.key: self._folder(run.key) for run in runs}
                self._choices[group] = choose(runs, folders, self.recipe.choose)
                self._chosen.update(self._choices[group].keys)
        self._to_score |= self._chosen
        self._to_score.update(alone for key, alone in self._repeated.items() if key in self._to_score)
        for key in self._to_score:
            if self.states[key] == "done" and self._lacks_scores(key):
                self.states[key] = "waiting"
        for key, alone in self._repeated.items():
            self.states[key] = self.states[alone]
            self.statuses[key] = self.statuses[alone]

    def _across(self, key: str) -> tuple[AcrossTask, ...]:
        """Return the other tasks to score a run on: none unless it is chosen and trains on all data of a single task."""
        plain = (run.spec for run in self.by_key[key] if key in self._chosen and run.spec.is_plain)
        found = (target for spec in plain for target in self.plan.across.get(spec.columns[0], ()))
        return tuple(dict.fromkeys(found))

    def _lacks_scores(self, key: str) -> bool:
        folder = self.plan.folder(key)
        return bool(self._unscored(key)) or not all(target.is_scored(folder) for target in self._across(key))

    def _unscored(self, key: str) -> list[RunSpec]:
        """Return the specs of this run that have a column without a score."""
        specs = [run.spec for run in self.by_key[key] if not run.spec.only_start]
        return [spec for spec in specs if not Run(spec, self.plan.folder(key)).scored]


def do_runs(schedule: Schedule, engine: Engine, show: Callable[..., None]) -> None:
    """Do all remaining runs. A failed run does not stop the others; after an interrupt or a machine error, no new run starts.

    Finished runs are kept.
    """
    memory: dict[str, int] = {}
    try:
        while True:
            for job in schedule.ready() if "stopped" not in schedule.states.values() else ():
                if job.key not in memory:
                    memory[job.key] = runner.memory(job.spec)
                if engine.take(replace(job, memory=memory[job.key])):
                    schedule.states[job.key] = "running"
                    show(job, None)
            if "running" not in schedule.states.values():
                return
            for job, status in engine.wait():
                schedule.end(job, status)
                show(job, status)
            if not schedule.recipe.keep_weights:
                schedule.remove_weights()
            show()
    finally:
        engine.close()
