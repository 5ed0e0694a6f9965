"""Teach one encoder one task or many, and write encoder and heads as one bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from torch import nn

from osler.bundle.bundle import Bundle
from osler.bundle.spec import BundleSpec, HeadSpec
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import progress, training_status
from osler.core.errors import RecipeError
from osler.core.files import remove_tree, write_atomic
from osler.core.logs import get_logger
from osler.nn.encoder import Encoder, fresh_encoder, load_encoder
from osler.nn.flops import flops_per_token
from osler.nn.folders import model_digest, resolve
from osler.nn.multihead import MultiHeadModel
from osler.stages.finetune.batches import TaskBatches, TaskInstances
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.objective import MultiTask
from osler.stages.finetune.report import bundle_card
from osler.stages.finetune.teacher import soft_labels, teacher_digest
from osler.tasks.data import TaskData
from osler.tasks.leakage import without_leaks
from osler.tasks.tokens import Tokens
from osler.text.document import Record
from osler.train.loop import train
from osler.train.run import StepReport
from osler.train.selection import BestOf
from osler.train.source import EpochSource

log = get_logger("osler.finetune")


def plan(recipe: FinetuneRecipe, out: Path) -> list[str]:
    """What `run` will do, for a person."""
    names = ", ".join(path.name for path in recipe.tasks)
    weights = " with its weights thrown away" if recipe.reinitialise else ""
    turns = f", mixed {recipe.mixing.order}" if len(recipe.tasks) > 1 else ""
    return [
        f"fine-tune {recipe.model}{weights} on {names}{turns}",
        f"{recipe.epochs} epochs, batches of {recipe.batch_size}, windows of {recipe.max_length} tokens, "
        f"peak rate {recipe.train.lr:g}, seed {recipe.train.seed}; the best epoch on dev is kept, "
        "the last one under a protocol that trains on dev",
        *_teaching(recipe),
        f"write the bundle to {out}",
    ]


def _teaching(recipe: FinetuneRecipe) -> list[str]:
    teacher = recipe.teacher
    if teacher is None:
        return []
    return [
        f"{teacher.weight:.0%} of the loss by the soft labels of {teacher.bundle} at temperature {teacher.temperature:g}"
    ]


def run(recipe: FinetuneRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the bundle artifact."""
    folder = resolve(recipe.model)
    tasks = [TaskData.open(path) for path in recipe.tasks]
    _check(recipe, tasks)
    parents: dict[str, str | Artifact] = {"model": model_digest(folder)}
    parents |= {f"task:{task.card.name}": task.artifact for task in tasks}
    if recipe.teacher:
        parents["teacher"] = teacher_digest(recipe.teacher, [task.card.name for task in tasks])

    def build(work: Workspace) -> None:
        _Finetuning(recipe, folder, tasks).run(work)

    return produce(out, kind="bundle", recipe=recipe, parents=parents, build=build, force=force, together=True)


def _check(recipe: FinetuneRecipe, tasks: Sequence[TaskData]) -> None:
    names = [task.card.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(f"the task {name} is given twice", fix="Give each task once")
    for name in recipe.protocols:
        if name not in names:
            raise RecipeError(
                f"protocols names the task {name!r}, which is not among the tasks", fix=f"Tasks: {', '.join(names)}"
            )
    for task in tasks:
        if "test" in _trained_on(recipe, task):
            raise RecipeError(
                f"protocol {task.card.protocol_id(recipe.protocols.get(task.card.name))} trains on test",
                fix="Choose a protocol that leaves the test split alone",
            )


def _trained_on(recipe: FinetuneRecipe, task: TaskData) -> tuple[str, ...]:
    return task.card.protocol_named(recipe.protocols.get(task.card.name)).train_on


class _Finetuning:
    def __init__(self, recipe: FinetuneRecipe, folder: Path, tasks: Sequence[TaskData]) -> None:
        self.recipe = recipe
        self.folder = folder
        encoder = self._encoder()
        spec = BundleSpec(
            max_length=min(recipe.max_length, encoder.max_length),
            overlap=recipe.overlap,
            heads={
                task.card.name: HeadSpec(
                    card=task.card, protocol=recipe.protocols.get(task.card.name, task.card.protocol)
                )
                for task in tasks
            },
        )
        self.bundle = Bundle(MultiHeadModel(encoder), Tokens.load(folder), spec)
        for name, builder in self.bundle.builders.items():
            self.bundle.model.add_head(
                name,
                builder.head,
                len(builder.outputs),
                seed=recipe.train.seed,
                labels=builder.outputs,
                dropout=recipe.dropout,
            )
        self.train_data: dict[str, TaskInstances] = {}
        self.dev: dict[str, list[Record]] = {}
        # No text that any task is chosen or tested by may teach another one.
        splits = {task.card.name: _trained_on(recipe, task) for task in tasks}
        train_records, self.leaked = without_leaks(
            {task.card.name: [r for split in splits[task.card.name] for r in task.read(split)] for task in tasks},
            {task.card.name: task.held_out(splits[task.card.name]) for task in tasks},
        )
        for task in tasks:
            name = task.card.name
            builder = self.bundle.builders[name]
            built = builder.build(train_records[name], gold=True)
            if not built.instances:
                raise RecipeError(f"task {name} has no training instances", fix="Prepare it with more data")
            self.train_data[name] = TaskInstances(builder, built.instances, built.unexpressed)
            # A protocol that trains on dev leaves nothing to choose by: such a head keeps its last epoch.
            if "dev" not in splits[name]:
                self.dev[name] = task.read("dev")
        self.soft: dict[str, list[np.ndarray]] = {}
        if recipe.teacher:
            self.soft = soft_labels(recipe, recipe.teacher, self.bundle, self.train_data, train_records)

    def run(self, work: Workspace) -> None:
        batches = TaskBatches(self.recipe, self.bundle.model, self.train_data, self.soft)
        source = batches.source()
        turns = batches.turns()
        for name, count in turns.items():
            log.event("finetune.mixing", order=self.recipe.mixing.order, task=name, batches_an_epoch=count)
        config = self.recipe.train
        if config.eval_every is None:
            config = config.changed(eval_every=_per_epoch(source, self.recipe.epochs))
        with progress("finetune", config.steps or len(source)) as bar:

            def show(report: StepReport) -> None:
                bar.update(completed=report.step, status=training_status(report.loss, report.tokens_per_second))

            result = train(
                MultiTask(self.bundle.model, self.recipe.teacher),
                source,
                config,
                folder=work.path,
                evaluate=self._evaluate if self.dev else None,
                best=BestOf("mean") if self.dev else None,
                flops_per_token=flops_per_token(self.bundle.model.encoder.config, length=self.bundle.spec.max_length),
                on_step=show,
            )
        if not work.main:
            return
        remove_tree(work.path / "checkpoints")
        self.bundle.save(work.path, tokenizer_from=self.folder)
        dev = {name: round(self.bundle.evaluate(name, gold).main, 6) for name, gold in self.dev.items()}
        unexpressed = {name: {k: v for k, v in task.unexpressed.items() if v} for name, task in self.train_data.items()}
        work.counts.update(
            heads=len(dev),
            parameters=sum(p.numel() for p in self.bundle.model.parameters()),
            steps=result.step,
            best_step=result.best_step if self.dev else result.step,
            dev_mean=round(float(result.best_value), 6) if result.best_value is not None else None,
            dev=dev,
            batches_an_epoch=turns,
            not_expressible=unexpressed,
            leaked_removed=self.leaked,
        )
        write_atomic(work.path / "history.json", json.dumps(list(result.history), indent=1) + "\n")
        write_atomic(work.path / "README.md", bundle_card(self.recipe, self.bundle.spec, work.counts))

    def _encoder(self) -> Encoder:
        if self.recipe.reinitialise:
            return fresh_encoder(self.folder, seed=self.recipe.train.seed)
        return load_encoder(self.folder)

    def _evaluate(self, module: nn.Module, step: int) -> Mapping[str, float]:
        scores = {name: self.bundle.evaluate(name, gold).main for name, gold in self.dev.items()}
        return {**scores, "mean": sum(scores.values()) / len(scores)}


def _per_epoch(source: EpochSource, epochs: int) -> int:
    """Evaluate about once an epoch."""
    return max(1, len(source) // epochs)
