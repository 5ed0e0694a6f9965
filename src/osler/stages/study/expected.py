"""Expected cost of a study's runs for its dry run: training sequences, updates and time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from osler.artifacts.encoder import Encoder
from osler.artifacts.run import RunSettings, RunSpec
from osler.artifacts.task_folder import TaskFolder
from osler.artifacts.tokenizer import Tokenizer
from osler.core.console import count_text, duration, progress
from osler.core.files import fingerprint
from osler.stages.study import runner
from osler.stages.study.layouts.common import rate_text
from osler.stages.study.plan import PlannedRun

if TYPE_CHECKING:
    from osler.nn.encoder import PackedEncoder
    from osler.stages.finetune.config import FinetuneRecipe
    from osler.stages.finetune.run import FinetuneData

# Modules that load torch are imported in functions, because only a dry run needs them.

_LAYERS = 3
"""Layers of the encoder that is timed; ModernBERT repeats its kinds of attention every three."""
_TRIAL = {"cpu": 2_048, "cuda": 16_384}
"""Tokens per trial step."""
_TRIAL_LENGTH = 128
_TRIAL_SECONDS = 0.5


@dataclass(frozen=True)
class RunWork:
    """The work of one run."""

    sequences: Mapping[str, int]
    """Training sequences by column: sentences, windows, pairs or candidates, as the recipe reads them."""
    updates: int
    by_column: Mapping[str, int]
    """Updates by column; batches if a step takes several."""
    evaluations: int
    """Number of evaluations on dev; 0 if the protocol trains on dev."""
    flops: float
    """FLOP of training and of its evaluations on dev."""

    def for_updates(self, updates: int) -> RunWork:
        """Return the work of the same task alone for another number of updates, with as many evaluations on dev."""
        columns = dict.fromkeys(self.by_column, updates)
        return replace(self, updates=updates, by_column=columns, flops=self.flops * updates / self.updates)


@dataclass(frozen=True)
class Expected:
    """Work and seconds by key of every run to do, and the speeds behind the seconds."""

    work: Mapping[str, RunWork]
    seconds: Mapping[str, float]
    speeds: Mapping[str, tuple[float, str]]
    """By row: FLOP/s and the device they were measured on."""


def expect(runs: Sequence[PlannedRun]) -> Expected:
    """Count the work of all runs and time a trial step of each model. Reads all tasks, but does not train."""
    from osler.nn.encoder import fresh_encoder

    first = {run.spec.model: run.spec for run in reversed(runs)}
    encoders = {model: fresh_encoder(Encoder.open(model).path, seed=0, layers=_LAYERS) for model in first}
    work = _work(runs, encoders)
    measured = {model: speed(encoders[model], spec) for model, spec in first.items()}
    models = {run.key: run.spec.model for run in runs}
    seconds = {key: found.flops / measured[models[key]][0] for key, found in work.items()}
    return Expected(work, seconds, {run.spec.row: measured[run.spec.model] for run in runs})


def _work(runs: Sequence[PlannedRun], encoders: Mapping[str, PackedEncoder]) -> dict[str, RunWork]:
    """Return the work of each run by key. Data shared by several runs is read once; all seeds are assumed to have equal work.

    Single-task baselines that would only repeat the plain run of their task are left out.
    """
    readers: dict[tuple[Any, ...], dict[tuple[str, RunSettings], dict[str, RunSpec]]] = {}
    for run in runs:
        spec = run.spec
        alike = readers.setdefault(_data_key(spec, encoders[spec.model]), {})
        # A baseline's work follows from that of its task alone.
        alike.setdefault((spec.model, spec.settings), {})[spec.alone or run.key] = spec
    counted: dict[str, RunWork] = {}
    with progress("read tasks", len(readers)) as bar:
        for alike in readers.values():
            data: FinetuneData | None = None
            for specs in alike.values():
                spec = next(iter(specs.values()))
                recipe = _countable(spec)
                data = data or _read(spec, recipe, encoders[spec.model])
                counted.update(dict.fromkeys(specs, _count(spec, recipe, data)))
            bar.advance()
    planned = {run.key for run in runs}
    found = {key: work for key, work in counted.items() if key in planned}
    for run in runs:
        if run.spec.equal_to:
            [column] = run.spec.columns
            steps, alone = found[run.spec.equal_to].by_column[column], run.spec.alone or ""
            if steps != counted[alone].updates or alone not in planned:
                found[run.key] = counted[alone].for_updates(steps)
    return found


def _data_key(spec: RunSpec, encoder: PackedEncoder) -> tuple[Any, ...]:
    """Return everything that determines a run's training sequences and their batches."""
    settings = {name: value for name, value in spec.settings.items() if name not in ("train", "epochs")}
    tokenizer = Encoder.open(spec.model).tokenizer
    vocabulary = fingerprint([tokenizer]) if tokenizer else spec.model
    return vocabulary, encoder.mode, encoder.max_length, spec.tasks, spec.kept_out, RunSettings(settings)


def _countable(spec: RunSpec) -> FinetuneRecipe:
    """Return the fine-tuning recipe of a run without its teacher, which changes none of the counts."""
    return runner.finetune_recipe(spec, "settings").changed(teacher=None)


def _read(spec: RunSpec, recipe: FinetuneRecipe, encoder: PackedEncoder) -> FinetuneData:
    """Read the data of a run as fine-tuning does; the encoder's weights do not matter."""
    from osler.artifacts.bundle import Bundle
    from osler.nn.multihead import MultiHeadModel
    from osler.stages.finetune.run import new_spec, read_data

    tasks = [TaskFolder.open(path) for path in spec.tasks]
    heads = new_spec(recipe, [task.card for task in tasks], encoder.max_length)
    tokens = Tokenizer.open(Encoder.open(spec.model).path)
    return read_data(recipe, Bundle.of(MultiHeadModel(encoder), tokens, heads), tasks)


def _count(spec: RunSpec, recipe: FinetuneRecipe, data: FinetuneData) -> RunWork:
    from osler.nn.cost import flops_per_token
    from osler.stages.finetune.batches import TaskBatches

    config = Encoder.open(spec.model).config
    batches = TaskBatches(recipe, data.batches.streams)
    planned = len(batches.source())  # reads every epoch, which fills `batches.counts`
    steps = recipe.train.steps or planned
    trained: Counter[str] = Counter()
    for counts in batches.counts.values():
        trained.update(counts)
    epoch = {name: data.batches.streams[name].cut(0) for name in data.instances}
    flops = 0.0
    for name, number in trained.items():
        # Raw text has no instances; assume full batches.
        lengths, tokens = [recipe.max_length], float(recipe.batch_tokens)
        if made := data.instances.get(name):
            lengths = [made.instances[index].length for batch in epoch[name] for index in batch]
            tokens = sum(lengths) / len(epoch[name])
        flops += number * tokens * flops_per_token(config, length=_attended(lengths))
    flops *= steps / planned
    evaluations = -(-steps // (recipe.train.eval_every or max(1, planned // recipe.epochs))) if data.dev else 0
    for dev in data.dev.values():
        lengths = [instance.length for instance in dev.instances]
        once = sum(lengths) * flops_per_token(config, length=_attended(lengths), backward=False)
        flops += (evaluations + 1) * once  # one more for the weights that are kept
    names = dict(zip((TaskFolder.open(path).card.name for path in spec.tasks), spec.columns, strict=True))
    return RunWork(
        sequences={column: sum(map(len, epoch[name])) for name, column in names.items()},
        updates=steps,
        by_column={column: round(trained[name] * steps / planned) for name, column in names.items()},
        evaluations=evaluations,
        flops=flops,
    )


def _attended(lengths: Sequence[int]) -> float:
    """Return the mean number of tokens that a token attends to."""
    total = sum(lengths)
    return sum(length * length for length in lengths) / total if total else 1.0


def speed(encoder: PackedEncoder, spec: RunSpec) -> tuple[float, str]:
    """Measure FLOP/s of training steps with a few encoder layers on the device of the runs; also return the device's name."""
    import numpy as np

    from osler.nn.cost import flops_per_token
    from osler.nn.packing import pack
    from osler.train.precision import Autocast, choose_device, device_name, wait_for

    config = runner.finetune_recipe(spec, "settings").train
    device = choose_device(config.device)
    length = min(_TRIAL_LENGTH, encoder.max_length)
    number = _TRIAL[device.type] // length
    ids = np.arange(length) % 97 + 3
    batch = pack([ids] * number, pad_id=0).to(device)
    encoder = encoder.to(device).train()
    autocast = Autocast(config, device)
    steps, began = -1, 0.0  # the first step only warms up
    while steps < 1 or time.perf_counter() - began < _TRIAL_SECONDS:
        with autocast.context():
            loss = encoder(batch).float().square().mean()
        loss.backward()
        wait_for(device)
        steps += 1
        if not steps:
            began = time.perf_counter()
    spent = time.perf_counter() - began
    encoder.zero_grad(set_to_none=True)
    encoder.cpu()
    flops = steps * number * length * flops_per_token(encoder.config, length=length)
    return flops / spent, device_name(device)


_HEADER = ("", "learning rate", "epochs", "batch", "sequences", "updates", "dev scores", "runs", "time")


def describe(runs: Sequence[PlannedRun], expected: Expected) -> list[str]:
    """Describe every row: its settings, and the sequences, updates and time of each task. Equal rows share their lines."""
    blocks: dict[tuple[str, ...], list[str]] = {}
    for row in dict.fromkeys(run.spec.row for run in runs):
        blocks.setdefault(tuple(_block([run for run in runs if run.spec.row == row], expected)), []).append(row)
    lines = [
        f"{', '.join(rows)}{line}" if not line.startswith(" ") else line
        for block, rows in blocks.items()
        for line in block
    ]
    repeated = {run.key for run in runs} - expected.work.keys()
    if repeated:
        lines.append(f"{len(repeated)} single-task baselines at equal steps need no run of their own")
    speeds: dict[str, list[str]] = {}
    for row, (value, device) in expected.speeds.items():
        speeds.setdefault(f"{_rate(value)} on {device}", []).append(row)
    measured = "; ".join(f"{', '.join(rows)}: {value}" for value, rows in speeds.items())
    number, total = len(expected.seconds), duration(sum(expected.seconds.values()))
    return [
        *lines,
        f"expected time: {total} for {count_text(number, 'run')}, one after the other: the work of training and of scoring dev, "
        f"at the speed of a trial step here ({measured}). Loading and scoring {runs[0].spec.split} come on top",
    ]


def _block(runs: Sequence[PlannedRun], expected: Expected) -> Iterator[str]:
    """Yield the lines of one row: its settings, then one per task or set of tasks. The caller adds the row's name to the first."""
    table: dict[str, list[tuple[str, ...]]] = {}
    groups: dict[tuple[str, ...], dict[str, RunSpec]] = {}
    for run in runs:
        if run.key in expected.work:
            spec = run.spec
            groups.setdefault((spec.mode, spec.partner, str(spec.fraction), *spec.columns), {})[run.key] = spec
    for group in groups.values():
        used = [_used(spec) for spec in group.values()]
        table.setdefault(_how(used[0]), []).extend(_cells(group, used, expected))
    for number, (how, cells) in enumerate(table.items()):
        yield f"{'  and' if number else ''}: {how}"
        rows = [_HEADER, *cells]
        widths = [max(len(row[place]) for row in rows) for place in range(len(_HEADER))]
        for row in rows:
            name, *values = (text.rjust(width) for text, width in zip(row, widths, strict=True))
            yield f"    {row[0].ljust(len(name))}  {'  '.join(values)}".rstrip()


def _cells(
    group: Mapping[str, RunSpec], used: Sequence[FinetuneRecipe], expected: Expected
) -> Iterator[tuple[str, ...]]:
    specs = list(group.values())
    work = [expected.work[key] for key in group]
    first, columns = specs[0], specs[0].columns
    name = {
        "refine": "refinement on all of",
        "together": "together",
        "pair": " + ".join(columns),
        "twin": f"{columns[0]}, equal steps{f' with {first.partner}' if first.partner else ''}",
    }.get(first.mode, columns[0])
    share = f", {first.fraction:.0%} of the data" if first.fraction < 1 else ""
    sizes = [str(recipe.mixing.batch_sizes.get(columns[0], recipe.batch_size)) for recipe in used]
    batches = [
        f"{size} x {recipe.accumulate}" if recipe.accumulate > 1 else size
        for size, recipe in zip(sizes, used, strict=True)
    ]
    joint = len(columns) > 1
    yield (
        f"{name}{share}",
        _range([recipe.train.lr for recipe in used]),
        _range([recipe.epochs for recipe in used]),
        _range(batches if not joint or not used[0].mixing.batch_sizes else [""]),
        _range([sum(each.sequences.values()) for each in work]),
        _range([each.updates for each in work]),
        _range([each.evaluations for each in work]),
        f"{len(group)}",
        duration(sum(expected.seconds[key] for key in group)),
    )
    for column in columns if joint else ():
        size = str(used[0].mixing.batch_sizes.get(column, used[0].batch_size)) if used[0].mixing.batch_sizes else ""
        sequences, updates = (
            _range([each[column] for each in found])
            for found in ([each.sequences for each in work], [each.by_column for each in work])
        )
        yield (f"  {column}", "", "", size, sequences, updates, "", "", "")


def _used(spec: RunSpec) -> FinetuneRecipe:
    return runner.finetune_recipe(spec, "settings").with_learning_rate(runner.configuration(spec.model))


def _how(used: FinetuneRecipe) -> str:
    """Describe the settings that a row's tasks usually share."""
    train = used.train
    warmup = f"{train.warmup} steps" if isinstance(train.warmup, int) else f"{train.warmup:.0%}"
    words = f" of at most {used.max_words} words" if used.max_words else ""
    parts = [
        train.optimizer,
        f"{train.schedule} schedule, warm-up {warmup}, weight decay {train.weight_decay:g}, clip {train.clip:g}",
        f"NER by {used.unit}{words}, at most {used.max_length} tokens, {used.tagger} tagger",
        f"{used.head} heads for texts and pairs{'' if used.train_heads else '; no head is trained'}",
        "the last step is kept" if used.keep == "last" else "the best step on dev is kept",
    ]
    return "; ".join(parts)


def _range(values: Sequence[Any]) -> str:
    """Format one value, or the smallest and largest of several."""
    found = sorted(set(values))
    texts = [f"{value:,}" if isinstance(value, int) else rate_text(value) or "" for value in found]
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def _rate(flops: float) -> str:
    for size, unit in ((1e12, "TFLOP/s"), (1e9, "GFLOP/s")):
        if flops >= size:
            return f"{flops / size:.1f} {unit}"
    return f"{flops / 1e6:.0f} MFLOP/s"
