"""Run a study: do every run that is not done, then write the tables, the plots and the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from osler.artifacts.run import Mode, RunSpec
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import console, count_text
from osler.core.files import remove_tree, write_json
from osler.stages.study import runner
from osler.stages.study.engines import Engine, InlineEngine, room
from osler.stages.study.expected import describe, expect
from osler.stages.study.extend import compare
from osler.stages.study.grid import points
from osler.stages.study.layouts.common import rate_text
from osler.stages.study.page import write_report
from osler.stages.study.plan import StudyPlan, expand
from osler.stages.study.progress import StudyView, planned_lines, save_study, summary
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.results import collect
from osler.stages.study.schedule import Schedule, do_runs

_KINDS: dict[Mode, str] = {
    "single": "of one task",
    "together": "of all tasks together",
    "pair": "of two tasks",
    "refine": "that others start from",
    "twin": "of one task at equal steps",
}


def plan(
    recipe: StudyRecipe, out: Path, planned: StudyPlan, *, force: bool = False, dry_run: bool = False
) -> list[str]:
    """Describe what `run` will do: the runs, how they are chosen and scored, and which are done.

    A dry run also reads all tasks and times a step of each model, to list the settings, updates and time of every row and task.
    """
    found = planned_lines(planned)
    names = []
    for column, tasks in planned.columns.items():
        card, protocol = tasks[0].card, recipe.protocols.get(column)
        name = card.protocol_id(protocol).removeprefix(f"{card.name}/")
        names.append(f"{column}/{name} ({card.protocol_named(protocol).metric})")
    folded = [f"{name} in {len(tasks)} folds" for name, tasks in planned.columns.items() if len(tasks) > 1]
    where = "on a Ray cluster" if recipe.engine == "ray" else "on this machine"
    how = f"{recipe.workers} at a time" if recipe.workers else "as many at a time as fit"
    there = "free" if force else compare(out, recipe, _parents(planned))
    verb = {"free": "write", "same": "reuse", "extended": "extend"}[there]
    known = dry_run or any(line.state == "done" for line in found)
    estimate = "" if known else "; the time can be estimated after the first, or with --dry-run"
    return [
        f"{_product(recipe, planned)}, {how} {where}",
        f"models: {'; '.join(f'{row} ({model.model})' for row, model in recipe.models.items())}",
        *([f"cross-validated, {recipe.over_folds} over folds: {'; '.join(folded)}"] if folded else []),
        f"protocols: {'; '.join(names)}",
        _tried(recipe),
        _selection(recipe),
        *_across_lines(recipe),
        *(describe(planned.runs, expect(planned.runs)) if dry_run else []),
        f"{summary(found)}{estimate}",
        f"keep runs in {planned.store}; {verb} the tables and the report in {out}",
    ]


def _tried(recipe: StudyRecipe) -> str:
    """Describe seeds and grid."""
    grid = [f"{name} {', '.join(rate_text(value) or '' for value in values)}" for name, values in recipe.grid.items()]
    tried = f"grid: {'; '.join(grid)}" if grid else "no grid"
    return f"seeds {', '.join(map(str, recipe.seeds))}; {tried}"


def _product(recipe: StudyRecipe, planned: StudyPlan) -> str:
    """Describe models x tasks x grid x seeds = runs."""
    splits = sum(len(tasks) for tasks in planned.columns.values())
    sizes = [("model", len(recipe.models)), ("task or fold" if recipe.folds else "task", splits)]
    sizes += [("grid point", len(points(recipe.grid)))] if recipe.grid else []
    sizes += [("seed", len(recipe.seeds))]
    sizes += [("share of the data", 1 + len(recipe.fractions))] if recipe.fractions else []
    text = " x ".join(f"{number} {_plural(name, number)}" for name, number in sizes)
    runs = {run.key: run.spec for run in reversed(planned.runs)}
    if len(runs) == math.prod(number for _, number in sizes):
        return f"{text} = {count_text(len(runs), 'run')}"
    modes = Counter(spec.mode for spec in runs.values())
    kinds = ", ".join(f"{modes[mode]:,} {text}" for mode, text in _KINDS.items() if modes[mode])
    return f"{text}: {count_text(len(runs), 'run')} ({kinds})"


def _plural(name: str, number: int) -> str:
    if number == 1:
        return name
    return {"task or fold": "tasks and folds", "share of the data": "shares of the data"}.get(name, f"{name}s")


def _selection(recipe: StudyRecipe) -> str:
    """Describe what is chosen on dev and what is scored."""
    score = f"score the {recipe.split} split once for"
    if recipe.choose == "run":
        chosen, rule = "the chosen run", "choose the single run with the best dev score"
    elif len(points(recipe.grid)) > 1:
        chosen, rule = "each chosen run", "choose the grid point with the best mean dev score over seeds"
    else:
        return f"nothing to choose: {score} every run"
    return f"{rule}, for each model and task; {score} {'every run' if recipe.score == 'all' else chosen}"


def _across_lines(recipe: StudyRecipe) -> list[str]:
    """Describe the scores on other tasks than the one trained on."""
    if not recipe.across:
        return []
    pairs = "; ".join(f"{name} on {', '.join(others)}" for name, others in recipe.across.items())
    return [
        f"score the chosen runs across corpora, without further training: {pairs}; "
        "leave out documents that the task trained on has in train or dev"
    ]


def run(
    recipe: StudyRecipe,
    out: Path,
    *,
    force: bool = False,
    retry_failed: bool = False,
    planned: StudyPlan | None = None,
) -> Artifact:
    """Make the study artifact, or extend an existing one. Failed runs are retried only with `retry_failed`.

    Pass `planned` if the recipe is already expanded, to save time.
    """
    planned = planned or expand(recipe, out)

    def build(work: Workspace) -> None:
        save_study(recipe, planned, out)
        schedule = Schedule(recipe, planned, retry_failed=retry_failed)
        waiting = [runs[0].spec for key, runs in schedule.by_key.items() if schedule.states[key] == "waiting"]
        if waiting:
            engine = _engine(recipe, waiting)
            with StudyView(schedule, engine.at_once, live=not isinstance(engine, InlineEngine)) as view:
                do_runs(schedule, engine, view.show)
        schedule.check_complete()
        _write(schedule, work)

    made = _produce(recipe, planned, out, build, force=force)
    if not recipe.keep_weights:
        Schedule(recipe, planned).remove_weights()
    return made


def report(recipe: StudyRecipe, out: Path, *, force: bool = False) -> tuple[Path, Sequence[RunSpec]]:
    """Write the tables of finished runs, and return their folder and the missing runs.

    A complete study becomes the artifact. The tables of an incomplete one go to OUT.so-far, marked as incomplete.
    """
    planned = expand(recipe, out)
    schedule = Schedule(recipe, planned)
    missing = schedule.missing()
    if not missing:
        made = _produce(recipe, planned, out, lambda work: _write(schedule, work), force=force)
        return made.path, missing
    folder = _so_far(out)
    write_report(collect(recipe, schedule.finished(), len(missing), planned.across), folder)
    write_json(folder / "choices.json", schedule.choices())
    return folder, missing


def _produce(
    recipe: StudyRecipe, planned: StudyPlan, out: Path, build: Callable[[Workspace], None], *, force: bool
) -> Artifact:
    parents = _parents(planned)
    force = force or compare(out, recipe, parents) == "extended"
    made = produce(out, kind="study", recipe=recipe, parents=parents, build=build, force=force)
    remove_tree(_so_far(out))
    return made


def _parents(planned: StudyPlan) -> dict[str, str | Artifact]:
    parents: dict[str, str | Artifact] = {f"model:{row}": digest for row, digest in planned.digests.items()}
    for name, tasks in planned.columns.items():
        for number, task in enumerate(tasks):
            parents[f"task:{name}/{number + 1}" if len(tasks) > 1 else f"task:{name}"] = task.artifact
    tasks_known = {parent.manifest.digest for parent in parents.values() if isinstance(parent, Artifact)}
    named = dict.fromkeys(digest for run in planned.runs for digest in run.spec.inputs if digest not in tasks_known)
    return parents | {f"settings:{number}": digest for number, digest in enumerate(named, start=1)}


def _so_far(out: Path) -> Path:
    return out.with_name(f"{out.name}.so-far")


def _write(schedule: Schedule, work: Workspace) -> None:
    recipe, finished = schedule.recipe, schedule.finished()
    write_report(collect(recipe, finished, across=schedule.plan.across), work.path)
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
    space = room(recipe.workers, runs=len(specs), processes=recipe.processes, cpu_only=cpu_only, smallest=smallest)
    threads = count_text(space.threads, "CPU thread") + (" each" if space.workers > 1 else "")
    console().print(f"  {space.workers} at a time, {threads}", style="dim")
    return LocalEngine(space)
