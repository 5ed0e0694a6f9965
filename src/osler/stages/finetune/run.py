"""Fine-tune one encoder on one or more tasks, and save encoder and heads as one bundle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.calibration import BundleCalibration
from osler.artifacts.encoder import Encoder
from osler.artifacts.task_folder import TaskFolder
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, check_out, produce
from osler.core.console import console, progress, training_status
from osler.core.errors import RecipeError
from osler.core.logs import get_logger
from osler.nn.cost import flops_per_token
from osler.nn.encoder import fresh_encoder, load_encoder, max_length_of
from osler.nn.folders import load_encoder_config
from osler.nn.mlm import MaskedLM
from osler.nn.multihead import MultiHeadModel, Partial, own_dropout, pooler_of
from osler.stages.finetune.batches import InstanceStream, TaskBatches, TaskInstances, TaskStream, balanced, share
from osler.stages.finetune.calibrate import DevSet, calibrate
from osler.stages.finetune.config import MLM, FinetuneRecipe, FinetuneTraining
from osler.stages.finetune.excerpts import excerpts
from osler.stages.finetune.forms import with_forms
from osler.stages.finetune.heads import check, check_pooler, head_specs
from osler.stages.finetune.mlm_task import language_model, text_stream
from osler.stages.finetune.model import MultiTask, add_adapters, freeze, merge_adapters, train_only
from osler.stages.finetune.report import bundle_card, choices, describe_leaks, learning_rate, run_warnings, selection
from osler.stages.finetune.teacher import with_soft_labels
from osler.tasks.card import BY_TOKEN, Kind, TaskCard
from osler.tasks.instances.base import Instance, make_builder
from osler.tasks.leakage import HeldOut, Leaks, without_leaks
from osler.tasks.scoring import score
from osler.text.document import Record
from osler.train.loop import StepReport, train
from osler.train.precision import choose_device
from osler.train.stats import BestOf

log = get_logger("osler.finetune")


@dataclass(frozen=True)
class _Inputs:
    """The inputs named in a recipe, opened and checked, but without reading weights or records."""

    recipe: FinetuneRecipe
    """The recipe with its learning rate filled in."""
    encoder: Encoder
    tasks: list[TaskFolder]
    rehearsed: list[TaskFolder]

    @classmethod
    def open(cls, recipe: FinetuneRecipe) -> _Inputs:
        if recipe.add_to:
            Artifact.open(recipe.add_to, kind="bundle")
        encoder = Encoder.open(recipe.model)
        encoder.check_weights()
        tasks = [TaskFolder.open(path) for path in recipe.tasks]
        rehearsed = [TaskFolder.open(path) for path in recipe.rehearse]
        check(recipe, tasks, rehearsed)
        check_pooler(recipe, tasks, encoder.path)
        choose_device(recipe.train.device)
        return cls(recipe.with_learning_rate(load_encoder_config(encoder.path)), encoder, tasks, rehearsed)

    def parents(self) -> dict[str, str | Artifact]:
        recipe = self.recipe
        found: dict[str, str | Artifact] = {"model": self.encoder.digest}
        if recipe.add_to:
            found["bundle"] = Artifact.open(recipe.add_to, kind="bundle")
        found |= {f"task:{task.card.name}": task.artifact for task in self.tasks}
        found |= {f"rehearsed:{task.card.name}": task.artifact for task in self.rehearsed}
        for number, path in enumerate(recipe.keep_out):
            found[f"kept-out:{number}"] = Artifact.open(path, kind="task")
        if recipe.mlm:
            found["mlm"] = Artifact.open(recipe.mlm.corpus, kind="corpus")
        if recipe.forms:
            found["forms"] = Artifact.open(recipe.forms, kind="task")
        if recipe.teacher:
            found["teacher"] = Bundle.digest(recipe.teacher.bundle)
        return found

    def prepare(self) -> FinetuneData:
        return prepare(self.recipe, self.encoder.path, self.tasks, self.rehearsed)


def plan(recipe: FinetuneRecipe, out: Path, *, dry_run: bool = False, force: bool = False) -> list[str]:
    """Describe what `run` will do, and raise the same errors if the inputs do not fit.

    A dry run also loads the encoder, checks `out` and builds the training data; it only skips training.
    """
    inputs = _Inputs.open(recipe)
    config = load_encoder_config(inputs.encoder.path)
    names = ", ".join(task.card.name for task in inputs.tasks)
    weights = " without its weights" if recipe.reinitialise else ""
    mixed = len(recipe.tasks) + len(recipe.rehearse) > 1 or recipe.mlm is not None
    mixing = f", mixed {recipe.mixing.order}" if mixed else ""
    verb = f"add to {recipe.add_to}:" if recipe.add_to else f"fine-tune {recipe.model}{weights} on"
    lines = [
        f"{verb} {names}{mixing}",
        f"{recipe.epochs} epochs, batches of {recipe.batch_size}, {_windows(recipe, max_length_of(config))}, "
        f"seed {recipe.train.seed}; {selection(recipe)}",
        f"peak learning rate {learning_rate(inputs.recipe, config)}; train.lr sets another",
        *choices(recipe),
    ]
    lines += [f"one joint head {head} for {', '.join(members)}" for head, members in recipe.joint.items()]
    if recipe.mlm:
        lines.append(f"masked language modelling on {recipe.mlm.corpus}, {recipe.mlm.rate:.0%} masked")
    if recipe.rehearse:
        lines.append(f"rehearse {', '.join(path.name for path in recipe.rehearse)}; encoder and old heads are trained")
    elif recipe.add_to:
        lines.append("the encoder and the heads of the bundle stay as they are")
    if recipe.teacher:
        lines.append(
            f"{recipe.teacher.weight:.0%} of the loss on soft labels of {recipe.teacher.bundle} "
            f"at temperature {recipe.teacher.temperature:g}"
        )
    if dry_run:
        made = check_out(out, kind="bundle", recipe=inputs.recipe, parents=inputs.parents(), force=force)
        data = inputs.prepare()
        lines += describe_data(inputs.recipe, data)
        if made:
            return [*lines, f"reuse the bundle in {out}, which was made from this recipe and these inputs"]
    return [*lines, f"write the bundle to {out}"]


def _windows(recipe: FinetuneRecipe, longest: int) -> str:
    if recipe.add_to:
        return f"the bundle's windows of {BundleSpec.load(recipe.add_to).max_length} tokens"
    if recipe.max_length <= longest:
        return f"windows of {recipe.max_length} tokens"
    return f"windows of {longest} tokens (the encoder takes no more; max_length is {recipe.max_length})"


def run(
    recipe: FinetuneRecipe, out: Path, *, force: bool = False, show: Callable[[Sequence[str]], None] | None = None
) -> Artifact:
    """Make the bundle artifact. `show` receives the lines that describe the training data."""
    inputs = _Inputs.open(recipe)
    lost: list[str] = []

    def build(work: Workspace) -> None:
        if not work.training_is_finished():
            data = inputs.prepare()
            if show:
                show(describe_data(inputs.recipe, data))
            lost.extend(left_out(inputs.recipe, data))
            lost.extend(unlearnable(data) if show else [])
            _finetune(inputs.recipe, inputs.encoder.path, data, work)

    made = produce(
        out, kind="bundle", recipe=inputs.recipe, parents=inputs.parents(), build=build, force=force, together=True
    )
    # Repeat at the end, because the output of `show` has scrolled away by now.
    for warning in (*lost, *made.counts.get("warnings", ())):
        console().print(f"warning: {warning}", style="yellow", markup=False)
    return made


@dataclass(frozen=True)
class FinetuneData:
    """Everything training needs: the untrained bundle, batches and dev sets."""

    bundle: Bundle
    language: MaskedLM | None
    """Masked language model that shares the bundle's encoder, for raw text."""
    instances: dict[str, TaskInstances]
    batches: TaskBatches
    dev: dict[str, DevSet]
    documents: dict[str, int]
    """Number of training documents by task."""
    leaks: dict[str, Leaks]
    """Training documents that are also in held-out data, by task."""


def prepare(
    recipe: FinetuneRecipe, folder: Path, tasks: Sequence[TaskFolder], rehearsed: Sequence[TaskFolder] = ()
) -> FinetuneData:
    """Load encoder and heads, read the tasks, remove leaks, and batch the data."""
    bundle, language = _load_model(recipe, folder, [task.card for task in tasks])
    return read_data(recipe, bundle, tasks, rehearsed, language)


def read_data(
    recipe: FinetuneRecipe,
    bundle: Bundle,
    tasks: Sequence[TaskFolder],
    rehearsed: Sequence[TaskFolder] = (),
    language: MaskedLM | None = None,
) -> FinetuneData:
    """Read the tasks, remove leaks, and batch the data. The weights of the bundle's model do not matter."""
    by_name = {task.card.name: task for task in [*rehearsed, *tasks]}
    trained = bundle.spec.tasks
    splits = {name: task.card.protocol_named(trained[name].protocol).train_on for name, task in by_name.items()}
    # No task may train on a document in another task's dev or test split.
    kept_out = {name: task.held_out(splits[name]) for name, task in by_name.items()}
    kept_out |= {f"{path}, tested later": TaskFolder.open(path).held_out(("train",)) for path in recipe.keep_out}
    held_out = HeldOut({f"{split} of {name}": held for name, own in kept_out.items() for split, held in own.items()})
    records = {name: [r for split in splits[name] for r in task.read(split)] for name, task in by_name.items()}
    kept, leaks = without_leaks(records, held_out)
    if recipe.leaks == "keep":
        kept = records
    for name in [name for name in kept if records[name] and not kept[name]]:
        raise RecipeError(
            f"no training document of {name} is left. {describe_leaks(recipe, name, leaks[name])}",
            fix="Or fine-tune the tasks one by one",
        )
    train_records = {name: share(found, recipe.fraction, recipe.train.seed) for name, found in kept.items()}
    documents = {name: len(found) for name, found in train_records.items()}
    if recipe.forms:
        cards = {name: task.card for name, task in by_name.items()}
        train_records = with_forms(TaskFolder.open(recipe.forms), train_records, cards, recipe.train.seed)
    instances = {name: _instances(recipe, bundle, task.card, train_records[name]) for name, task in by_name.items()}
    dev: dict[str, DevSet] = {}
    for name, task in by_name.items():
        if "dev" not in splits[name]:
            head, protocol = trained[name]
            gold = task.read("dev")
            built = bundle.builders[head].build(gold, gold=False).instances
            dev[name] = DevSet(task.card, task.card.protocol_named(protocol), head, gold, built)
    if recipe.teacher:
        instances = with_soft_labels(recipe, bundle, instances, train_records)
    streams: dict[str, TaskStream] = {
        name: InstanceStream(name, data, recipe, bundle.model) for name, data in instances.items()
    }
    if recipe.mlm:
        raw = text_stream(recipe, bundle, streams, held_out)
        streams[MLM], documents[MLM], leaks[MLM] = raw, raw.text.documents, raw.text.leaks
    return FinetuneData(bundle, language, instances, TaskBatches(recipe, streams), dev, documents, leaks)


def _load_model(recipe: FinetuneRecipe, folder: Path, cards: Sequence[TaskCard]) -> tuple[Bundle, MaskedLM | None]:
    """Load the encoder, add new heads (and the old ones of `add_to`), and freeze what is not trained."""
    seed = recipe.train.seed
    language: MaskedLM | None = None
    if recipe.mlm:
        encoder, language = language_model(folder, seed=seed, reinitialise=recipe.reinitialise)
    else:
        encoder = fresh_encoder(folder, seed=seed) if recipe.reinitialise else load_encoder(folder)
    if recipe.lora:
        log.event("finetune.adapters", parameters=add_adapters(encoder, recipe.lora, seed))
    if recipe.freeze != "nothing":
        log.event("finetune.frozen", parameters=freeze(encoder, recipe.freeze))
    heads = head_specs(recipe, cards)
    if recipe.add_to:
        old = BundleSpec.load(recipe.add_to)
        spec = old.model_copy(update={"heads": {**old.heads, **heads}})
    else:
        spec = new_spec(recipe, cards, encoder.max_length)
    bundle = Bundle.of(MultiHeadModel(encoder), Tokenizer.open(folder), spec)
    if recipe.add_to:
        bundle.model.load_heads(recipe.add_to)
    for name in heads:
        builder = bundle.builders[name]
        dropout = own_dropout(encoder.config, builder.head) if recipe.dropout is None else recipe.dropout
        labels = builder.outputs
        layers = recipe.head if builder.card.kind not in BY_TOKEN else "mlp"
        bundle.model.add_head(name, builder.head, len(labels), seed=seed, labels=labels, dropout=dropout, layers=layers)
    if pooled := [name for name in heads if bundle.model.specs[name].layers == "pooler"]:
        bundle.model.share_pooler(pooled, None if recipe.reinitialise else pooler_of(folder))
    if recipe.add_to and not recipe.rehearse:
        train_only(bundle.model, list(heads))
    if not recipe.train_heads:
        bundle.model.heads.requires_grad_(False)
    return bundle, language


def new_spec(recipe: FinetuneRecipe, cards: Sequence[TaskCard], longest: int) -> BundleSpec:
    """Return the spec of a new bundle, whose encoder takes up to `longest` tokens."""
    length = min(recipe.max_length, longest)
    # Shorter windows overlap by the same fraction.
    overlap = recipe.overlap * length // recipe.max_length
    return BundleSpec(max_length=length, overlap=overlap, heads=head_specs(recipe, cards))


def _instances(recipe: FinetuneRecipe, bundle: Bundle, card: TaskCard, records: Sequence[Record]) -> TaskInstances:
    spec = bundle.spec
    head, protocol = spec.tasks[card.name]
    builder, partial = bundle.builders[head], None
    if spec.heads[head].members:  # a task of a joint head has only its own tags
        joint_tags, options = builder.outputs, spec.heads[head].options
        builder = make_builder(card, protocol, bundle.tokens, spec.max_length, spec.overlap, options)
        partial = Partial.of(builder.outputs, joint_tags)
    built = builder.build(records, gold=True)
    if not built.instances:
        raise RecipeError(
            f"nothing to train on in the {len(records):,} training documents of task {card.name}",
            fix=f"Check its training split with `osler tasks show {card.name}`, and prepare it with more documents",
        )
    short: list[Instance] = []
    if recipe.excerpts and card.kind in BY_TOKEN:
        short = builder.build(excerpts(card, records, recipe.train.seed), gold=True).instances
    weights = balanced(built.instances, len(builder.outputs)) if recipe.class_weights == "balanced" else None
    gold = "relations" if card.kind is Kind.RELATION else "spans"
    return TaskInstances(
        builder,
        [*built.instances, *short],
        built.unexpressed,
        head,
        partial,
        weights,
        annotations=sum(len(getattr(record, gold, ())) for record in records),
        excerpts=len(short),
    )


def dev_scores(bundle: Bundle, dev: Mapping[str, DevSet]) -> dict[str, float]:
    """Return the dev score of each task and their mean. Tasks of a joint head are scored on their own entity types."""
    scores = {}
    for name, data in dev.items():
        predicted = bundle.predict(data.head, data.records, task=data.card, instances=data.instances)
        scores[name] = score(data.card, data.protocol, data.records, predicted, main_only=True).main
    return {**scores, "mean": sum(scores.values()) / len(scores)}


def _majority_score(data: DevSet) -> float | None:
    """Return the dev score of always predicting the most frequent class, or None without classes or with only one in dev."""
    if data.card.kind is not Kind.CLASSIFICATION:
        return None
    (label, count), *_ = Counter(record.labels[0] for record in data.records).most_common(1)
    if count == len(data.records):
        return None
    constant = [record.with_(labels=(label,)) for record in data.records]
    return score(data.card, data.protocol, data.records, constant, main_only=True).main


def _training(recipe: FinetuneRecipe, steps: int) -> FinetuneTraining:
    """Return the training settings, with one evaluation per epoch unless the recipe sets another interval."""
    config = recipe.train
    return config if config.eval_every else config.changed(eval_every=max(1, steps // recipe.epochs))


def describe_data(recipe: FinetuneRecipe, data: FinetuneData) -> list[str]:
    """Describe the training data of each task, what cannot be trained on, and the number of steps and evaluations."""
    lines = []
    for name, documents in data.documents.items():
        made = data.instances.get(name)
        card = made.builder.card if made else None
        what = "pairs" if card and card.record == "pair" else "documents"
        parts = "instances"
        if card and card.kind in BY_TOKEN:
            parts = "windows" if recipe.unit == "document" else "sentences"
        counted = f", {len(made.instances) - made.excerpts:,} {parts}" if made else ""
        if made and made.excerpts:
            counted += f" and, an epoch, {made.excerpts_drawn(recipe.excerpts):,} of {made.excerpts:,} excerpts"
        lines.append(f"{name}: {documents:,} training {what}{counted}")
    lines += [*left_out(recipe, data), *unlearnable(data)]
    steps = len(data.batches.source())
    config = _training(recipe, steps)
    assert config.eval_every is not None
    if config.budget:
        return [*lines, f"train for {config.budget}, with an evaluation on dev every {config.eval_every:,} steps"]
    total = config.steps or steps
    evaluations = f"{-(-total // config.eval_every):,} evaluations on dev" if data.dev else "no evaluation: no dev left"
    return [*lines, f"{total:,} steps ({steps // recipe.epochs:,} an epoch), {evaluations}"]


def left_out(recipe: FinetuneRecipe, data: FinetuneData) -> list[str]:
    """Describe the training documents of each task that are also in held-out data."""
    return [describe_leaks(recipe, name, leaks) for name, leaks in data.leaks.items() if leaks.found]


def unlearnable(data: FinetuneData) -> list[str]:
    """Describe the annotations of each task that its labels cannot express."""
    lines = []
    for name, made in data.instances.items():
        reasons = [f"{count:,} {reason}" for reason, count in made.unexpressed.items() if count]
        if reasons:
            count = f"{made.unexpressed.total():,} of {made.annotations:,} annotations"
            lines.append(f"{name}: {count} cannot be learned as they are: {', '.join(reasons)}")
    return lines


def _finetune(recipe: FinetuneRecipe, folder: Path, data: FinetuneData, work: Workspace) -> None:
    bundle, batches, dev = data.bundle, data.batches, data.dev
    source = batches.source()
    total_steps = len(source)  # reads every epoch, which fills `batches.counts`
    epochs = [batches.counts[epoch] for epoch in range(recipe.epochs)]
    for number, counts in enumerate(epochs, 1):
        for name, count in counts.items():
            log.event("finetune.mixing", order=recipe.mixing.order, epoch=number, task=name, batches=count)
    config = _training(recipe, total_steps)
    token_flops = flops_per_token(bundle.model.encoder.config, length=bundle.spec.max_length)
    epoch_ends = source.epoch_ends(config.steps or total_steps) if recipe.average_epochs else []

    with progress("finetune", config.steps or total_steps) as bar:

        def show(report: StepReport) -> None:
            bar.update(completed=report.step, status=training_status(report.loss, report.tokens_per_second))

        result = train(
            MultiTask(bundle.model, recipe.teacher, data.language),
            source,
            config,
            folder=work.path,
            evaluate=(lambda module, step: dev_scores(bundle, dev)) if dev else None,
            best=BestOf("mean", "last" if recipe.keep == "last" else "max") if dev else None,
            average=epoch_ends[-recipe.average_epochs :],
            flops_per_token=token_flops,
            on_step=show,
        )
    if not work.main:
        return
    if recipe.lora:
        merge_adapters(bundle.model.encoder)
    scores = dev_scores(bundle, dev) if dev else {}
    trained = Counter(ref.task for step in range(result.step) for ref in source.step(step))
    work.counts.update(
        heads=len(bundle.spec.heads),
        parameters=sum(p.numel() for p in bundle.model.parameters()),
        steps=result.step,
        tokens=result.tokens,
        flops=result.tokens * token_flops,
        best_step=result.best_step if dev else result.step,
        dev_mean=round(float(result.best_value), 6) if result.best_value is not None else None,
        dev={name: round(scores[name], 6) for name in dev},
        trained_on=data.documents,
        batches_an_epoch=epochs[0],
        batches_by_epoch=epochs,
        batches_trained={name: trained[name] for name in batches.streams},
        not_expressible={name: {k: v for k, v in t.unexpressed.items() if v} for name, t in data.instances.items()},
        leaked_removed={name: leaks.found if recipe.leaks == "remove" else 0 for name, leaks in data.leaks.items()},
    )
    if recipe.average_epochs:
        average: dict[str, Any] = {"epochs": min(recipe.average_epochs, len(epoch_ends)), "kept": result.averaged}
        if result.average_value is not None:
            average["dev_mean"] = round(result.average_value, 6)
        work.counts["average"] = average
    majority = {name: _majority_score(found) for name, found in dev.items()}
    encoder = bundle.model.encoder.config
    if warnings := run_warnings(recipe, result, majority, encoder):
        work.counts["warnings"] = warnings
    if recipe.calibrate:
        kept = BundleCalibration.load(recipe.add_to) if recipe.add_to else BundleCalibration()
        made = calibrate(bundle, dev)
        bundle = replace(bundle, calibration=made.changed(heads={**kept.heads, **made.heads}))
    card = bundle_card(recipe, bundle, work.counts, data.leaks, encoder)
    bundle.save(work.path, tokenizer_from=folder, history=result.history, card=card)
    work.finish_training()
