"""Which job is next: refinements before what starts from them, joint runs before their twins, dev's choice before the split that is
scored, long runs before short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from osler.core.errors import OslerError
from osler.stages.study.config import StudyRecipe
from osler.stages.study.engine import Engine, Job, Outcome
from osler.stages.study.plan import Plan, PlannedRun
from osler.stages.study.select import Choice, Group, choose, group_of, groups, needs_choice
from osler.stages.study.spec import FinishedRun, RunSpec
from osler.stages.study.status import RunStatus, State, is_trained, read_status
from osler.stages.study.twins import folder_of, updates_of


@dataclass
class Progress:
    """Where every run stands, by key."""

    states: dict[str, State] = field(default_factory=dict)
    statuses: dict[str, RunStatus] = field(default_factory=dict)


class Schedule:
    """The runs of a study as jobs. A key that two rows share is one job."""

    def __init__(self, recipe: StudyRecipe, plan: Plan, *, retry_failed: bool = False) -> None:
        self.recipe = recipe
        self.plan = plan
        self.by_key: dict[str, list[PlannedRun]] = {}
        # A refinement that is also a run of its own (all tasks together) is scored as that.
        for run in sorted(plan.runs, key=lambda run: run.spec.only_start):
            self.by_key.setdefault(run.key, []).append(run)
        self.choices: dict[Group, Choice] = {}
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

    def ready(self) -> list[Job]:
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
            jobs.append(Job(spec, key, folder, start, score, cost, processes=processes, updates=length))
        return sorted(jobs, key=lambda job: -job.cost)

    def begin(self, job: Job) -> None:
        """Note that a job is under way."""
        self._running.add(job.key)
        self.progress.states[job.key] = "running"

    def end(self, job: Job, outcome: Outcome) -> None:
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

    def decided(self) -> list[Choice]:
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


def do_runs(schedule: Schedule, engine: Engine, show: Callable[[Job, Outcome | None], None]) -> None:
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
