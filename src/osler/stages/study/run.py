"""Run a study: do every run that is not done, then write the tables, the plots and the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from osler.artifacts.run import RunSpec
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.files import remove_tree, write_json
from osler.stages.study import runner
from osler.stages.study.engines import Engine, InlineEngine, room
from osler.stages.study.grid import points
from osler.stages.study.page import write_report
from osler.stages.study.plan import StudyPlan, expand, runs_folder
from osler.stages.study.progress import StudyView, remember
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.results import collect
from osler.stages.study.schedule import Schedule, do_runs


def plan(recipe: StudyRecipe, out: Path) -> list[str]:
    """Describe what `run` will do."""
    grid = len(points(recipe.grid))
    sizes = {"model": len(recipe.models), "task": len(recipe.tasks) + len(recipe.folds), "seed": len(recipe.seeds)}
    sizes |= {"grid point": grid} if grid > 1 else {}
    sizes |= {"fraction": 1 + len(recipe.fractions)} if recipe.fractions else {}
    parts = [f"{number} {name}{'s' * (number > 1)}" for name, number in sizes.items()]
    parts += [", ".join(recipe.modes)] if recipe.modes != ("single",) else []
    where = "on a Ray cluster" if recipe.engine == "ray" else "on this machine"
    how = f"{recipe.workers} at a time" if recipe.workers else "as many at a time as fit"
    chosen = "all runs" if recipe.score == "all" else "each run" if grid == 1 else "the runs chosen on dev"
    matched = recipe.twins == "updates" and set(recipe.modes) & {"together", "pairs"}
    return [
        f"{' x '.join(parts)}, {how} {where}",
        *(["train each task of a joint run alone too, for as many steps as that run spent on it"] if matched else []),
        f"score the {recipe.split} split once for {chosen}; choices are made on dev alone",
        f"keep runs in {recipe.store or runs_folder(out)}, write table and report to {out}",
    ]


def run(recipe: StudyRecipe, out: Path, *, force: bool = False, retry_failed: bool = False) -> Artifact:
    """Make the study artifact. Runs that failed before are tried again only with `retry_failed`."""
    planned = expand(recipe, out)

    def build(work: Workspace) -> None:
        remember(recipe, planned, out)
        schedule = Schedule(recipe, planned, retry_failed=retry_failed)
        waiting = [runs[0].spec for key, runs in schedule.by_key.items() if schedule.states[key] == "waiting"]
        if waiting:
            engine = _engine(recipe, waiting)
            with StudyView(schedule, engine.at_once, live=not isinstance(engine, InlineEngine)) as view:
                do_runs(schedule, engine, view.show)
        schedule.check_complete()
        _write(schedule, work)

    return _produce(recipe, planned, out, build, force=force)


def report(recipe: StudyRecipe, out: Path, *, force: bool = False) -> tuple[Path, Sequence[RunSpec]]:
    """Write the tables of finished runs; returns their folder and the missing runs.

    A complete study becomes the artifact. The tables of an incomplete one go to OUT.so-far, marked as incomplete.
    """
    planned = expand(recipe, out)
    schedule = Schedule(recipe, planned)
    missing = schedule.missing()
    if not missing:
        made = _produce(recipe, planned, out, lambda work: _write(schedule, work), force=force)
        return made.path, missing
    folder = _so_far(out)
    write_report(collect(recipe, schedule.finished(), len(missing)), folder)
    write_json(folder / "choices.json", schedule.choices())
    return folder, missing


def _produce(
    recipe: StudyRecipe, planned: StudyPlan, out: Path, build: Callable[[Workspace], None], *, force: bool
) -> Artifact:
    parents: dict[str, str | Artifact] = {f"model:{row}": digest for row, digest in planned.digests.items()}
    for name, tasks in planned.columns.items():
        for number, task in enumerate(tasks):
            parents[f"task:{name}/{number + 1}" if len(tasks) > 1 else f"task:{name}"] = task.artifact
    tasks_known = {parent.manifest.digest for parent in parents.values() if isinstance(parent, Artifact)}
    named = dict.fromkeys(digest for run in planned.runs for digest in run.spec.inputs if digest not in tasks_known)
    parents |= {f"settings:{number}": digest for number, digest in enumerate(named, start=1)}
    made = produce(out, kind="study", recipe=recipe, parents=parents, build=build, force=force)
    remove_tree(_so_far(out))
    return made


def _so_far(out: Path) -> Path:
    return out.with_name(f"{out.name}.so-far")


def _write(schedule: Schedule, work: Workspace) -> None:
    recipe, finished = schedule.recipe, schedule.finished()
    write_report(collect(recipe, finished), work.path)
    write_json(work.path / "choices.json", schedule.choices())
    work.counts.update(
        runs=len({run.folder for run in finished}),
        scored=len({run.folder for run in finished if run.scored}),
        models=len(recipe.models),
        tasks=len(schedule.plan.columns),
        seeds=len(recipe.seeds),
    )


def _engine(recipe: StudyRecipe, specs: Sequence[RunSpec]) -> Engine:
    if recipe.engine == "ray":
        from osler.stages.study.engine_ray import RayEngine

        return RayEngine(limit=recipe.workers, processes=recipe.processes)
    if recipe.workers == 1:
        return InlineEngine()
    from osler.stages.study.engine_local import LocalEngine

    cpu_only = all(spec.runtime.get("device") == "cpu" for spec in specs)
    smallest = min(runner.memory(spec) for spec in specs)
    return LocalEngine(
        room(recipe.workers, runs=len(specs), processes=recipe.processes, cpu_only=cpu_only, smallest=smallest)
    )
