"""Teach one encoder one task or many, and write encoder and heads as one bundle."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from torch import nn

from osler.artifacts.bundle import Bundle, BundleSpec
from osler.artifacts.task_folder import TaskFolder
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import progress, training_status
from osler.core.errors import RecipeError
from osler.core.files import write_atomic
from osler.core.logs import get_logger
from osler.nn.cost import flops_per_token
from osler.nn.encoder import PackedEncoder, fresh_encoder, load_encoder
from osler.nn.folders import model_digest, resolve
from osler.nn.mlm import MaskedLM
from osler.nn.multihead import MultiHeadModel, Partial, own_dropout
from osler.stages.finetune.batches import Lane, TaskBatches, TaskInstances, balanced, share
from osler.stages.finetune.config import FinetuneRecipe, LanguageModelTask
from osler.stages.finetune.heads import check, extended, head_specs, hold_still, taught
from osler.stages.finetune.mlm_task import NAME as MLM
from osler.stages.finetune.mlm_task import TextLane, language_model, read_text, sequences_a_batch
from osler.stages.finetune.model import MultiTask, add_adapters, freeze, merge_adapters
from osler.stages.finetune.report import bundle_card, choices
from osler.stages.finetune.teacher import soft_labels, teacher_digest
from osler.tasks.instances.base import Builder, Instance, make_builder
from osler.tasks.leakage import HeldOut, without_leaks
from osler.text.document import Record
from osler.train.loop import StepReport, train
from osler.train.source import EpochSource
from osler.train.stats import BestOf

log = get_logger("osler.finetune")


def plan(recipe: FinetuneRecipe, out: Path) -> list[str]:
    """What `run` will do, for a person."""
    names = ", ".join(path.name for path in recipe.tasks)
    weights = " with its weights thrown away" if recipe.reinitialise else ""
    mixed = len(recipe.tasks) + len(recipe.rehearse) > 1 or recipe.mlm is not None
    turns = f", mixed {recipe.mixing.order}" if mixed else ""
    windows = "the bundle's windows" if recipe.add_to else f"windows of {recipe.max_length} tokens"
    verb = f"add to {recipe.add_to}:" if recipe.add_to else f"fine-tune {recipe.model}{weights} on"
    return [
        f"{verb} {names}{turns}",
        f"{recipe.epochs} epochs, batches of {recipe.batch_size}, {windows}, "
        f"peak rate {recipe.train.lr:g}, seed {recipe.train.seed}; the best epoch on dev is kept, "
        "the last one under a protocol that trains on dev",
        *choices(recipe),
        *_several(recipe),
        *_teaching(recipe),
        f"write the bundle to {out}",
    ]


def _several(recipe: FinetuneRecipe) -> list[str]:
    lines = [
        f"one head {head} for {', '.join(members)}; none teaches that another's types are absent"
        for head, members in recipe.joint.items()
    ]
    if recipe.mlm:
        lines.append(f"the text of {recipe.mlm.corpus} as one more task, {recipe.mlm.rate:.0%} of it masked")
    if recipe.rehearse:
        lines.append(f"rehearse {', '.join(path.name for path in recipe.rehearse)}; encoder and old heads learn on")
    elif recipe.add_to:
        lines.append("the encoder and the heads of the bundle stay as they are")
    return lines


def _teaching(recipe: FinetuneRecipe) -> list[str]:
    teacher = recipe.teacher
    if teacher is None:
        return []
    return [
        f"{teacher.weight:.0%} of the loss by the soft labels of {teacher.bundle} at temperature {teacher.temperature:g}"
    ]


def run(recipe: FinetuneRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the bundle artifact."""
    old = {"bundle": Artifact.open(recipe.add_to, kind="bundle")} if recipe.add_to else {}
    folder = resolve(recipe.model)
    tasks = [TaskFolder.open(path) for path in recipe.tasks]
    rehearsed = [TaskFolder.open(path) for path in recipe.rehearse]
    check(recipe, tasks, rehearsed)
    parents: dict[str, str | Artifact] = {"model": model_digest(folder)}
    parents |= {f"task:{task.card.name}": task.artifact for task in tasks}
    parents |= {f"rehearsed:{task.card.name}": task.artifact for task in rehearsed}
    later = [Artifact.open(path, kind="task") for path in recipe.keep_out]
    parents |= {f"kept-out:{number}": artifact for number, artifact in enumerate(later)}
    parents |= old
    if recipe.mlm:
        parents["mlm"] = Artifact.open(recipe.mlm.corpus, kind="corpus")
    if recipe.teacher:
        parents["teacher"] = teacher_digest(recipe.teacher)

    def build(work: Workspace) -> None:
        if not work.training_is_finished():
            _Finetuning(recipe, folder, tasks, rehearsed).run(work)

    return produce(out, kind="bundle", recipe=recipe, parents=parents, build=build, force=force, together=True)


class _Finetuning:
    def __init__(
        self, recipe: FinetuneRecipe, folder: Path, tasks: Sequence[TaskFolder], rehearsed: Sequence[TaskFolder] = ()
    ) -> None:
        self.recipe = recipe
        self.folder = folder
        encoder, self.language = self._encoder()
        heads = head_specs(recipe, [task.card for task in tasks])
        if recipe.add_to:
            spec = extended(BundleSpec.load(recipe.add_to), heads)
        else:
            length = min(recipe.max_length, encoder.max_length)
            # The same share of the window where the encoder takes less than the recipe says.
            spec = BundleSpec(max_length=length, overlap=recipe.overlap * length // recipe.max_length, heads=heads)
        self.bundle = Bundle(MultiHeadModel(encoder), Tokenizer.open(folder), spec)
        if recipe.add_to:
            self.bundle.model.load_heads(recipe.add_to)
        for name in heads:
            builder = self.bundle.builders[name]
            self.bundle.model.add_head(
                name,
                builder.head,
                len(builder.outputs),
                seed=recipe.train.seed,
                labels=builder.outputs,
                dropout=own_dropout(encoder.config, builder.head) if recipe.dropout is None else recipe.dropout,
            )
        if recipe.add_to and not rehearsed:
            hold_still(self.bundle.model, list(heads))
        tasks = [*rehearsed, *tasks]
        self.tasks = {task.card.name: task for task in tasks}
        self.taught = taught(spec)
        self.train_data: dict[str, TaskInstances] = {}
        self.dev: dict[str, list[Record]] = {}
        self._dev_instances: dict[str, list[Instance]] = {}
        # No text that any task is chosen or tested by may teach another one.
        splits = {
            name: task.card.protocol_named(self.taught[name].protocol).train_on for name, task in self.tasks.items()
        }
        held_out = HeldOut(
            {
                **{name: task.held_out(splits[name]) for name, task in self.tasks.items()},
                **{f"{path}, tested later": TaskFolder.open(path).held_out(("train",)) for path in recipe.keep_out},
            }
        )
        train_records, self.leaked = without_leaks(
            {name: [r for split in splits[name] for r in task.read(split)] for name, task in self.tasks.items()},
            held_out,
        )
        train_records = {
            name: share(records, recipe.fraction, recipe.train.seed) for name, records in train_records.items()
        }
        self.trained_on = {name: len(records) for name, records in train_records.items()}
        for task in tasks:
            name = task.card.name
            builder, partial = self._builder(task)
            built = builder.build(train_records[name], gold=True)
            if not built.instances:
                raise RecipeError(f"task {name} has no training instances", fix="Prepare it with more data")
            weights = None
            if recipe.class_weights == "balanced":
                weights = balanced(built.instances, len(builder.outputs))
            self.train_data[name] = TaskInstances(
                builder, built.instances, built.unexpressed, self.taught[name].head, partial, class_weights=weights
            )
            # A protocol that trains on dev leaves nothing to choose by: such a head keeps its last epoch.
            if "dev" not in splits[name]:
                self.dev[name] = task.read("dev")
        self.soft: dict[str, list[np.ndarray]] = {}
        if recipe.teacher:
            self.soft = soft_labels(recipe, recipe.teacher, self.bundle, self.train_data, train_records)

        self.lanes: dict[str, Lane] = {}
        if recipe.mlm:
            self.lanes[MLM] = self._raw_text(recipe.mlm, held_out)

    def run(self, work: Workspace) -> None:
        batches = TaskBatches(self.recipe, self.bundle.model, self.train_data, self.soft, self.lanes)
        source = batches.source()
        turns = batches.turns()
        len(source)  # goes through every epoch, so that all their counts are known
        for epoch in range(self.recipe.epochs):
            for name, count in batches.counts[epoch].items():
                log.event("finetune.mixing", order=self.recipe.mixing.order, epoch=epoch + 1, task=name, batches=count)
        config = self.recipe.train
        if config.eval_every is None:
            config = config.changed(eval_every=_per_epoch(source, self.recipe.epochs))
        a_token = flops_per_token(self.bundle.model.encoder.config, length=self.bundle.spec.max_length)
        with progress("finetune", config.steps or len(source)) as bar:

            def show(report: StepReport) -> None:
                bar.update(completed=report.step, status=training_status(report.loss, report.tokens_per_second))

            result = train(
                MultiTask(self.bundle.model, self.recipe.teacher, self.language),
                source,
                config,
                folder=work.path,
                evaluate=self._evaluate if self.dev else None,
                best=BestOf("mean") if self.dev else None,
                flops_per_token=a_token,
                on_step=show,
            )
        if not work.main:
            return
        if self.recipe.lora:
            merge_adapters(self.bundle.model.encoder)
        self.bundle.save(work.path, tokenizer_from=self.folder)
        dev = {name: round(value, 6) for name, value in self._scores().items()}
        unexpressed = {name: {k: v for k, v in task.unexpressed.items() if v} for name, task in self.train_data.items()}
        trained = Counter(ref.task for step in range(result.step) for ref in source.step(step))
        work.counts.update(
            heads=len(self.bundle.spec.heads),
            parameters=sum(p.numel() for p in self.bundle.model.parameters()),
            steps=result.step,
            tokens=result.tokens,
            flops=result.tokens * a_token,
            best_step=result.best_step if self.dev else result.step,
            dev_mean=round(float(result.best_value), 6) if result.best_value is not None else None,
            dev=dev,
            trained_on=self.trained_on,
            batches_an_epoch=turns,
            batches_by_epoch=[batches.counts[epoch] for epoch in range(self.recipe.epochs)],
            batches_trained={name: trained[name] for name in batches.lanes},
            not_expressible=unexpressed,
            leaked_removed=self.leaked,
        )
        write_atomic(work.path / "history.json", json.dumps(list(result.history), indent=1) + "\n")
        write_atomic(work.path / "README.md", bundle_card(self.recipe, self.bundle.spec, work.counts))
        work.finish_training()

    def _encoder(self) -> tuple[PackedEncoder, MaskedLM | None]:
        seed, fresh = self.recipe.train.seed, self.recipe.reinitialise
        language: MaskedLM | None = None
        if self.recipe.mlm:
            encoder, language = language_model(self.folder, seed=seed, reinitialise=fresh)
        else:
            encoder = fresh_encoder(self.folder, seed=seed) if fresh else load_encoder(self.folder)
        if self.recipe.lora:
            log.event("finetune.adapters", parameters=add_adapters(encoder, self.recipe.lora, seed))
        if self.recipe.freeze != "nothing":
            log.event("finetune.frozen", parameters=freeze(encoder, self.recipe.freeze))
        return encoder, language

    def _builder(self, task: TaskFolder) -> tuple[Builder, Partial | None]:
        """What makes a task's instances; of a head with several tasks, also which of its types the task annotates."""
        head, protocol = self.taught[task.card.name]
        shared, spec = self.bundle.builders[head], self.bundle.spec
        if not spec.heads[head].members:
            return shared, None
        own = make_builder(
            task.card, protocol, self.bundle.tokens, spec.max_length, spec.overlap, spec.heads[head].options
        )
        return own, Partial.of(own.outputs, shared.outputs)

    def _raw_text(self, settings: LanguageModelTask, held_out: HeldOut) -> TextLane:
        length, tokens = self.bundle.spec.max_length, self.bundle.tokens
        turns = TaskBatches(self.recipe, self.bundle.model, self.train_data)
        count = settings.batches or max(len(lane.cut(0)) for lane in turns.lanes.values())
        wanted = self.recipe.epochs * count * sequences_a_batch(self.recipe, length)
        text = read_text(settings, tokens, length, held_out, self.recipe.train.seed, wanted)
        self.leaked[MLM] = text.leaked
        self.trained_on[MLM] = text.documents
        types = getattr(self.bundle.model.encoder.config, "type_vocab_size", 1) > 1
        return TextLane(self.recipe, text, tokens, length, count, types=types)

    def _scores(self) -> dict[str, float]:
        """The dev score of every task that has dev left; of a head with several tasks, by the types of each."""
        scores = {}
        for name, gold in self.dev.items():
            head, protocol = self.taught[name]
            if name not in self._dev_instances:
                self._dev_instances[name] = self.bundle.instances(head, gold)
            card, instances = self.tasks[name].card, self._dev_instances[name]
            scores[name] = self.bundle.evaluate(head, gold, card, protocol, instances, main_only=True).main
        return scores

    def _evaluate(self, module: nn.Module, step: int) -> Mapping[str, float]:
        scores = self._scores()
        return {**scores, "mean": sum(scores.values()) / len(scores)}


def _per_epoch(source: EpochSource, epochs: int) -> int:
    """Evaluate about once an epoch."""
    return max(1, len(source) // epochs)
