"""Run a study: every model on every task with every seed, then the table, the plots and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from osler.core.artifact import Artifact, Workspace, produce
from osler.core.errors import RecipeError
from osler.core.files import write_atomic, write_json
from osler.report.latex import latex_table
from osler.report.tables import csv_table, markdown_table
from osler.stages.study.config import StudyRecipe
from osler.stages.study.report import study_page, study_table
from osler.stages.study.results import collect
from osler.stages.study.runs import Runner, RunSpec, do_runs
from osler.tasks.data import TaskData


def plan(recipe: StudyRecipe, out: Path) -> list[str]:
    """What `run` will do, for a person."""
    runs = len(recipe.models) * len(recipe.tasks) * len(recipe.seeds)
    return [
        f"{len(recipe.models)} models x {len(recipe.tasks)} tasks x {len(recipe.seeds)} seeds = {runs} runs, {recipe.workers} at a time",
        f"score the {recipe.split} split once a run; choices are made on dev alone",
        f"keep runs in {_store(recipe, out)}, write table and report to {out}",
    ]


def run(recipe: StudyRecipe, out: Path, *, runner: Runner, force: bool = False) -> Artifact:
    """Make the study artifact; `runner` does a single run."""
    baseline = recipe.baseline or next(iter(recipe.models))
    if baseline not in recipe.models:
        raise RecipeError(
            f"the baseline {baseline!r} is not among the models", fix=f"Models: {', '.join(recipe.models)}"
        )
    tasks = {path: TaskData.open(path) for path in recipe.tasks}
    specs = _specs(recipe, tasks)
    parents: dict[str, str | Artifact] = {f"task:{task.card.name}": task.artifact for task in tasks.values()}
    parents |= {f"model:{name}": runner.identify(model.model) for name, model in recipe.models.items()}

    def build(work: Workspace) -> None:
        folders = do_runs(specs, _store(recipe, out), runner, recipe.workers)
        results = collect(folders, baseline, recipe.resamples)
        write_json(work.path / "results.json", results.as_dict())
        table = study_table(results)
        write_atomic(work.path / "table.md", markdown_table(table))
        write_atomic(work.path / "table.csv", csv_table(table))
        write_atomic(work.path / "table.tex", latex_table(table))
        study_page(recipe.title, results).write(work.path / "report.html")
        work.counts.update(runs=len(specs), models=len(recipe.models), tasks=len(recipe.tasks), seeds=len(recipe.seeds))

    return produce(out, kind="study", recipe=recipe, parents=parents, build=build, force=force)


def _store(recipe: StudyRecipe, out: Path) -> Path:
    return recipe.store or out.with_name(f"{out.name}.runs")


def _specs(recipe: StudyRecipe, tasks: dict[Path, TaskData]) -> list[RunSpec]:
    specs = []
    for name, model in recipe.models.items():
        settings = json.dumps(_merged(recipe.finetune, model.settings), sort_keys=True)
        for path, task in tasks.items():
            for seed in recipe.seeds:
                digest = task.artifact.manifest.digest
                specs.append(RunSpec(name, model.model, path, digest, seed, recipe.split, settings))
    return specs


def _merged(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The study's settings with the model's own on top, section by section."""
    merged = dict(common)
    for key, value in own.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
