"""Run a study: every run that is not done, then the tables, the plots and the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from osler.artifacts.run import RunSpec
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.files import remove_tree, write_json
from osler.stages.study.engines import Engine, InlineEngine, RunExecutor, RunJob, RunOutcome
from osler.stages.study.page import write_reports
from osler.stages.study.plan import StudyPlan, expand, home, points
from osler.stages.study.progress import StudyView, remember
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.schedule import Schedule, complain, do_runs, record


def plan(recipe: StudyRecipe, out: Path) -> list[str]:
    """What `run` will do, for a person."""
    grid = len(points(recipe.grid))
    sizes = {"model": len(recipe.models), "task": len(recipe.tasks) + len(recipe.folds), "seed": len(recipe.seeds)}
    sizes |= {"grid point": grid} if grid > 1 else {}
    sizes |= {"fraction": 1 + len(recipe.fractions)} if recipe.fractions else {}
    parts = [f"{number} {name}{'s' * (number > 1)}" for name, number in sizes.items()]
    parts += [", ".join(recipe.modes)] if recipe.modes != ("single",) else []
    where = "on a Ray cluster" if recipe.engine == "ray" else "on this machine"
    how = f"{recipe.workers} at a time" if recipe.workers else "as many at a time as fit"
    chosen = "all runs" if recipe.score == "all" else "each run" if grid == 1 else "the runs that dev chose"
    twins = recipe.twins == "updates" and set(recipe.modes) & {"together", "pairs"}
    return [
        f"{' x '.join(parts)}, {how} {where}",
        *(["learn each task of a joint run alone too, for as many updates as that run gave it"] if twins else []),
        f"score the {recipe.split} split once for {chosen}; choices are made on dev alone",
        f"keep runs in {recipe.store or home(out)}, write table and report to {out}",
    ]


def run(
    recipe: StudyRecipe, out: Path, *, runner: RunExecutor, force: bool = False, retry_failed: bool = False
) -> Artifact:
    """Make the study artifact; `runner` does a single run. Runs that failed before are tried again only when asked to."""
    planned = expand(recipe, out, runner)

    def build(work: Workspace) -> None:
        remember(recipe, planned, out)
        schedule = Schedule(recipe, planned, retry_failed=retry_failed)
        _do(recipe, schedule, runner)
        _write(recipe, schedule, work)

    return _made(recipe, planned, out, build, force=force)


def report(
    recipe: StudyRecipe, out: Path, *, runner: RunExecutor, force: bool = False
) -> tuple[Path, Sequence[RunSpec]]:
    """Tables of what is done, and the runs that are missing.

    A whole study becomes the artifact; of one that is not, the tables go to a folder beside it, marked as incomplete.
    """
    planned = expand(recipe, out, runner)
    schedule = Schedule(recipe, planned)
    missing = schedule.missing()
    if not missing:

        def build(work: Workspace) -> None:
            _write(recipe, schedule, work)

        return _made(recipe, planned, out, build, force=force).path, missing
    folder = _so_far(out)
    write_reports(recipe, schedule.finished(), missing, folder)
    write_json(folder / "choices.json", record(recipe, schedule.decided()))
    return folder, missing


def _made(
    recipe: StudyRecipe, planned: StudyPlan, out: Path, build: Callable[[Workspace], None], *, force: bool
) -> Artifact:
    """The whole study; tables of what was done so far go, for it has all of them."""
    made = produce(out, kind="study", recipe=recipe, parents=_parents(planned), build=build, force=force)
    remove_tree(_so_far(out))
    return made


def _so_far(out: Path) -> Path:
    """Where the tables of a study go that is not complete."""
    return out.with_name(f"{out.name}.so-far")


def _parents(planned: StudyPlan) -> dict[str, str | Artifact]:
    parents: dict[str, str | Artifact] = {f"model:{row}": digest for row, digest in planned.digests.items()}
    for name, tasks in planned.columns.items():
        for number, task in enumerate(tasks):
            parents[f"task:{name}/{number + 1}" if len(tasks) > 1 else f"task:{name}"] = task.artifact
    tasks_known = {parent.manifest.digest for parent in parents.values() if isinstance(parent, Artifact)}
    named = dict.fromkeys(digest for run in planned.runs for digest in run.spec.inputs if digest not in tasks_known)
    return parents | {f"settings:{number}": digest for number, digest in enumerate(named, start=1)}


def _write(recipe: StudyRecipe, schedule: Schedule, work: Workspace) -> None:
    finished = schedule.finished()
    write_reports(recipe, finished, (), work.path)
    write_json(work.path / "choices.json", record(recipe, schedule.decided()))
    work.counts.update(
        runs=len({run.folder for run in finished}),
        scored=len({run.folder for run in finished if run.scored}),
        models=len(recipe.models),
        tasks=len(schedule.plan.columns),
        seeds=len(recipe.seeds),
    )


def _do(recipe: StudyRecipe, schedule: Schedule, runner: RunExecutor) -> None:
    jobs = [runs[0].spec for key, runs in schedule.by_key.items() if schedule.progress.states[key] == "waiting"]
    if jobs:
        engine = _engine(recipe, jobs, runner)
        runs = [(run.key, run.spec, run.cost) for run in schedule.plan.runs]
        with StudyView(runs, live=not isinstance(engine, InlineEngine)) as view:

            def show(job: RunJob, outcome: RunOutcome | None) -> None:
                view.show(schedule.progress.states, schedule.progress.statuses, engine.at_once, job, outcome)

            do_runs(schedule, _Sized(engine, runner), show)
    complain(schedule, schedule.plan.store)


def _engine(recipe: StudyRecipe, specs: Sequence[RunSpec], runner: RunExecutor) -> Engine:
    if recipe.engine == "ray":
        from osler.stages.study.engine_ray import RayEngine

        return RayEngine(runner, limit=recipe.workers, processes=recipe.processes)
    if recipe.workers == 1:
        return InlineEngine(runner)
    from osler.stages.study.engine_local import LocalEngine
    from osler.stages.study.engines import room

    cpu_only = all(json.loads(spec.runtime).get("device") == "cpu" for spec in specs)
    smallest = min(runner.memory(spec) for spec in specs)
    space = room(recipe.workers, runs=len(specs), processes=recipe.processes, cpu_only=cpu_only, smallest=smallest)
    return LocalEngine(runner, space)


class _Sized:
    """An engine whose jobs say how much memory they need."""

    def __init__(self, engine: Engine, runner: RunExecutor) -> None:
        self._engine = engine
        self._runner = runner
        self._known: dict[str, int] = {}

    @property
    def at_once(self) -> int:
        return self._engine.at_once

    def take(self, job: RunJob) -> bool:
        if job.key not in self._known:
            self._known[job.key] = self._runner.memory(job.spec)
        return self._engine.take(replace(job, memory=self._known[job.key]))

    def wait(self) -> Sequence[tuple[RunJob, RunOutcome]]:
        return self._engine.wait()

    def close(self) -> None:
        self._engine.close()
