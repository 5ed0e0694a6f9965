"""Plan a run: a short description before every run, and all costs for a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from osler.artifacts.corpus import Corpus
from osler.artifacts.encoder import Encoder, describe_shape
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import check_out
from osler.core.config import runtime
from osler.core.console import duration, flop_count, flop_rate
from osler.core.errors import InputError, RecipeError
from osler.core.parsing import to_int
from osler.nn.cost import Memory, memory_of
from osler.nn.masking import MaskingVocabulary
from osler.nn.presets import PRESETS
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.data import source_weights
from osler.stages.pretrain.model import ModelSize, load_vocabulary, machine_memory, model_size
from osler.stages.pretrain.probe import Probe, probe
from osler.stages.pretrain.run import open_inputs
from osler.stages.pretrain.tokenise import check_folder, check_splits, reusable_shards, tokens_folder
from osler.train.config import Budget
from osler.train.parallel import world_size
from osler.train.precision import Autocast, choose_device

EFFICIENCY = 0.9  # assumed share of a linear speed-up that several GPUs keep after exchanging gradients
VOCABULARY = 50_265  # entries assumed for a missing tokenizer: RoBERTa's size, close to those of the papers
_PROGRAM = 2**29  # bytes that Python, torch and transformers take, measured on Linux
_SAMPLE_GROUPS, _SAMPLE_DOCUMENTS = 8, 1024


class PlannedRecipe(PretrainRecipe):
    """A recipe to plan before the data exists: corpus and tokenizer are optional, and models may be missing."""

    corpus: Path = runtime(Path("CORPUS"))
    tokenizer: Path = runtime(Path("TOKENIZER"))


def numbers_of_gpus(text: str) -> tuple[int, ...]:
    """Parse `8` or `1,2,4`."""
    numbers = [to_int(part) or 0 for part in text.split(",")]
    if min(numbers) < 1:
        raise RecipeError(f"--gpus must be a list of numbers such as 1,2,4, got {text!r}")
    return tuple(sorted(set(numbers)))


def plan(recipe: PretrainRecipe, out: Path) -> list[str]:
    """Describe the run in a few lines."""
    processes = world_size()
    start = f"a new {recipe.preset} encoder from random weights"
    if recipe.start_from:
        start = f"from the checkpoint {recipe.start_from}" + (", which gets a new head," if recipe.new_head else "")
    elif recipe.distill and recipe.distill.teacher_layers is not None:
        start = "a new encoder from layers of the teacher"
    train = recipe.train
    length = f"{train.steps:,} steps" if train.steps else f"steps for {train.budget or 'one epoch'}, each"
    return [
        f"pretrain {start} on {recipe.corpus} with the tokenizer {recipe.tokenizer}",
        f"{length} of {recipe.accumulate} x {recipe.batch_tokens:,} tokens, context {recipe.max_length}",
        f"masking {recipe.masking.rate:.0%} (validation always 15%), peak learning rate {train.lr:g}, {train.schedule} schedule",
        *(
            ["next-sentence prediction: pairs of texts, the second one in half of them from another document"]
            if recipe.uses_pairs
            else []
        ),
        *([f"teacher {recipe.distill.teacher}: {recipe.distill.describe()}"] if recipe.distill else []),
        *([_idle(f"{processes} processes", recipe.accumulate)] if processes > recipe.accumulate else []),
        f"write it to {out}",
    ]


def full_plan(
    recipe: PretrainRecipe,
    out: Path,
    *,
    gpus: Sequence[int] = (1, 2, 4, 8, 16),
    seconds: float = 10.0,
    vocab_size: int | None = None,
    force: bool = False,
) -> list[str]:
    """Describe the run and its costs, measured by a probe of `seconds` (0 for none). Leaves no files behind.

    If the recipe names a corpus, this raises every error that the run would raise before training. Otherwise missing models
    are replaced by stand-ins.
    """
    if "corpus" in recipe.model_fields_set:
        feasible, notes = recipe, _check_run(recipe, out, force=force)
        vocabulary, origin = load_vocabulary(recipe.tokenizer), ""
    else:
        feasible, notes = with_stand_ins(recipe)
        notes.append("no corpus is named: this is a plan only; the run needs a corpus and a tokenizer")
        vocabulary, origin = _vocabulary(recipe, vocab_size)
    corpus = corpus_size(recipe, out)
    if seconds and world_size() > 1:
        seconds = 0.0
        notes.append("no probe under torchrun: plan with one process and read the time for several GPUs from the table")
    lengths = corpus.chunk_lengths if corpus else ()
    measured = probe(feasible, vocabulary, seconds=seconds, lengths=lengths) if seconds else None
    size = model_size(feasible, vocabulary)
    costs = Costs(feasible, size, corpus, measured)
    work = "" if costs.tokens is None else f", {flop_count(costs.tokens * size.flops_per_token)} in total"
    sections = {
        "encoder": [describe_shape(size.config), f"vocabulary of {vocabulary.size:,} entries{origin}"],
        "parameters": [f"{size.parameters:,}, of which {size.parameters - size.embeddings:,} are not embeddings"],
        "corpus": [str(corpus) if corpus else "none yet: planned without it"],
        "tokens": costs.tokens_lines(),
        "work": [f"{flop_count(size.flops_per_token)} per token (forward and backward, full context){work}"],
        "memory": costs.memory_lines(gpus),
        "speed": costs.speed_lines(),
        "time": costs.time_lines(gpus),
    }
    lines = [f"{'' if i else name:<14}{line}" for name, block in sections.items() for i, line in enumerate(block)]
    return [*plan(recipe, out), *lines, *(f"note: {note}" for note in notes)]


def _check_run(recipe: PretrainRecipe, out: Path, *, force: bool) -> list[str]:
    """Raise the errors that the run would raise before training. Returns notes for the plan."""
    inputs = open_inputs(recipe)
    if check_out(out, kind="encoder", recipe=recipe, parents=inputs.parents, force=force):
        return [f"{out} is finished already: the run would reuse it"]
    share = recipe.validation_share
    folder, sentences = tokens_folder(recipe, out), recipe.uses_pairs
    check_folder(inputs.corpus, inputs.tokenizer, folder, share, replace=force, sentences=sentences)
    check_splits(inputs.corpus, share)
    return list(inputs.notes)


def with_stand_ins(recipe: PretrainRecipe) -> tuple[PretrainRecipe, list[str]]:
    """Replace missing models, so that a run can be planned before they exist. Returns the recipe and notes."""
    notes = []
    if recipe.distill and not recipe.distill.teacher.exists():
        notes.append(f"the teacher {recipe.distill.teacher} does not exist: its forward pass is not counted")
        recipe = recipe.changed(distill=None)
    if recipe.start_from and not recipe.start_from.exists():
        name = recipe.start_from.name.lower()
        preset = next((preset for preset in PRESETS if preset in name), recipe.preset)
        preset = "bert-base" if recipe.next_sentence else preset
        notes.append(f"the checkpoint {recipe.start_from} does not exist: planned with a new {preset} encoder")
        recipe = recipe.changed(
            start_from=None, needs_start=False, swap_vocabulary=False, new_head=False, preset=preset
        )
    return recipe, notes


def _vocabulary(recipe: PretrainRecipe, size: int | None) -> tuple[MaskingVocabulary, str]:
    """Return the vocabulary of the tokenizer, the checkpoint or the teacher, or an assumed one, and its origin."""
    origin = ", from --vocab-size"
    if size is None:
        if recipe.tokenizer.exists():
            return load_vocabulary(recipe.tokenizer), ""
        for model in (recipe.start_from, recipe.distill.teacher if recipe.distill else None):
            if model and Encoder(model).tokenizer:
                return load_vocabulary(model), f", those of {model}"
        size, origin = VOCABULARY, f", assumed because the tokenizer {recipe.tokenizer} does not exist"
        if recipe.start_from and recipe.start_from.exists():
            size, origin = int(Encoder.open(recipe.start_from).config.vocab_size), ", those of the checkpoint"
    specials = frozenset(range(5))  # RoBERTa's
    return MaskingVocabulary(size, pad_id=1, mask_id=size - 1, special_ids=specials, prefix=(0,), suffix=(2,)), origin


@dataclass(frozen=True)
class CorpusSize:
    """One epoch of a corpus as the run would read it."""

    documents: int
    epoch_tokens: int
    """Tokens of the training split, special tokens included."""
    chunk_lengths: tuple[int, ...]
    """Chunk lengths of the sampled documents."""
    sampled: int | None
    """Number of sampled documents behind the estimate; None if the corpus is already tokenised."""

    def __str__(self) -> str:
        how = f"estimated from {self.sampled:,} documents" if self.sampled else "counted"
        return f"{self.epoch_tokens:,} tokens per epoch in {self.documents:,} documents ({how}), without validation"


def corpus_size(recipe: PretrainRecipe, out: Path) -> CorpusSize | None:
    """Count an epoch if the corpus is tokenised, else estimate it from a sample; None if the recipe names no corpus."""
    if "corpus" not in recipe.model_fields_set:
        return None
    corpus, tokenizer = Corpus.open(recipe.corpus), Tokenizer.open(recipe.tokenizer)
    # Spread the sample over the corpus, because documents of one source are adjacent.
    groups = corpus.row_groups()
    chosen = _spread(len(groups), _SAMPLE_GROUPS)
    lengths: list[int] = []
    words = 0
    for place in chosen:
        texts = groups[place].texts()
        texts = [texts[row] for row in _spread(len(texts), _SAMPLE_DOCUMENTS // len(chosen))]
        lengths += [len(encoding.ids) for encoding in tokenizer.encode(texts)]
        words += sum(len(text.split()) for text in texts)
    room = recipe.max_length - tokenizer.overhead
    chunks = tuple(
        min(room, length - start) + tokenizer.overhead for length in lengths for start in range(0, length, room)
    )
    if not chunks:
        raise InputError("the corpus has no text", where=corpus.path, fix="Build it from documents with text")
    with_specials = sum(chunks) / sum(lengths)
    weights = source_weights(corpus, recipe.source_weights)
    folder, share, sentences = tokens_folder(recipe, out), recipe.validation_share, recipe.uses_pairs
    shards = reusable_shards(corpus, tokenizer, folder, share, sentences=sentences)
    if shards:
        tokens = sum(weights[name] * splits["train"] for name, splits in shards.index.sources.items())
        return CorpusSize(shards.counts["train_documents"], round(with_specials * tokens), chunks, None)
    kept = 1.0 - share
    read = sum(source.words * weights[name] for name, source in corpus.sources.items()) or corpus.counts["words"]
    tokens = with_specials * sum(lengths) / max(1, words) * read * kept
    return CorpusSize(round(corpus.documents * kept), round(tokens), chunks, len(lengths))


def _spread(total: int, wanted: int) -> list[int]:
    """Choose at most `wanted` evenly spaced numbers below `total`."""
    return sorted(set(np.linspace(0, total - 1, wanted).astype(int).tolist())) if total else []


@dataclass(frozen=True)
class Costs:
    """Tokens, FLOPs, memory and time of one run, as lines of text."""

    recipe: PretrainRecipe
    size: ModelSize
    corpus: CorpusSize | None
    measured: Probe | None

    @property
    def budget(self) -> Budget:
        return Budget.parse(self.recipe.train.budget) if self.recipe.train.budget else Budget()

    @cached_property
    def steps(self) -> int | None:
        """Steps of the run; None if they depend on a missing corpus or probe."""
        batches, budget = self.recipe.step_batches, self.budget
        if budget.flops:
            return batches.steps_for(budget.flops / self.size.flops_per_token)
        if budget.seconds:
            return batches.steps_for(self.measured.tokens_per_second * budget.seconds) if self.measured else None
        if self.recipe.train.steps:
            return self.recipe.train.steps
        return batches.steps_for(self.corpus.epoch_tokens) if self.corpus else None

    @property
    def tokens(self) -> int | None:
        return None if self.steps is None else self.recipe.step_batches.tokens(self.steps)

    def tokens_lines(self) -> list[str]:
        recipe, batch = self.recipe, self.recipe.batch_tokens
        ramp = ", ".join(f"{count * batch:,} up to step {end:,}" for end, count in recipe.ramp)
        step = f"{recipe.accumulate * batch:,} per step ({recipe.accumulate} x {batch:,})"
        lines = [f"{step}, fewer at first: {ramp}" if ramp else step]
        if self.tokens is None:
            return [*lines, f"total unknown without {'the probe' if self.budget.seconds else 'corpus or train.steps'}"]
        within = f" within {recipe.train.budget}" if recipe.train.budget else ""
        device = " on one device like this" if self.budget.seconds else ""
        lines.append(f"{self.tokens:,} in total, {self.steps:,} steps{within}{device}")
        if self.corpus:
            epochs = self.tokens / self.corpus.epoch_tokens
            read = f"{epochs:,.1f} epochs" if epochs >= 0.1 else f"{epochs:.2%} of an epoch"
            again = f": the corpus is smaller than the plan, each document is read about {epochs:,.1f} times"
            lines.append(read + (again if epochs > 1 else ""))
        return lines

    def memory_lines(self, gpus: Sequence[int]) -> list[str]:
        device = choose_device(self.recipe.train.device)
        half = Autocast(self.recipe.train, device).enabled
        memory, precision = self._memory(half=half), "bf16" if half else "fp32"
        parts = ", ".join(f"{name} {_gib(value)}" for name, value in asdict(memory).items() if value)
        if device.type == "cpu":
            on_gpu = self._memory(half=self.recipe.train.precision != "fp32")
            return [
                f"at least {_gib(memory.total + _PROGRAM)} on this CPU in {precision}, {_gib(_PROGRAM)} of it for the program; "
                f"the machine has {_gib(machine_memory())}",
                parts,
                f"on a GPU about {_gib(on_gpu.total)}" + (" in bf16" if on_gpu != memory else ""),
            ]
        lines = [f"about {_gib(memory.total)} per GPU in {precision}, with the full model on every GPU", parts]
        if self.recipe.train.parallel == "fsdp" and max(gpus) > 1:
            shards = ", ".join(f"{_gib(memory.sharded(count))} on {count}" for count in gpus if count > 1)
            lines.append(f"per GPU with fsdp: {shards} GPUs")
        return lines

    def _memory(self, *, half: bool) -> Memory:
        return memory_of(
            self.size.config,
            parameters=self.size.parameters,
            optimiser_values=self.size.optimiser_values,
            batch_tokens=self.recipe.batch_tokens,
            masked=self.recipe.masking.rate,
            half=half,
            teacher_parameters=self.size.teacher_parameters,
        )

    def speed_lines(self) -> list[str]:
        measured, wanted = self.measured, self.recipe.batch_tokens
        if measured is None:
            return []
        speed = f"{measured.tokens_per_second:,.0f} tokens/s on this {measured.device}: {flop_rate(measured.flops_per_second)}"
        share = f"{measured.flops_per_second / measured.peak:.0%} of its matmul peak of {flop_rate(measured.peak)}"
        memory = "" if measured.memory is None else f"; peak memory {_gib(measured.memory)}"
        lines = [f"{speed}, {share}", f"measured in {measured.seconds:.1f} s of training on random tokens{memory}"]
        if measured.out_of_memory:
            fix = f"set batch_tokens to {measured.batch_tokens:,} and raise accumulate"
            lines.append(f"a micro-batch of {wanted:,} tokens does not fit into this GPU: {fix}")
        elif measured.batch_tokens < wanted:
            lines.append(f"in micro-batches of {measured.batch_tokens:,} tokens: the recipe's take too long to probe")
        return lines

    def time_lines(self, gpus: Sequence[int]) -> list[str]:
        if self.measured is None or self.tokens is None:
            return [f"unknown without {'the probe' if self.measured is None else 'the number of tokens'}"]
        if self.measured.memory is None:
            return [
                f"{self._time(1)} on this CPU, without validation",
                "for the time on a GPU, plan on a machine that has one",
            ]
        # A GPU helps only if a step has a micro-batch for it.
        accumulate = self.recipe.accumulate
        useful = [count for count in gpus if count <= accumulate] or [1]
        lines = [f"{count:>2} GPU{'s' if count > 1 else ' '} like this: {self._time(count)}" for count in useful]
        if max(useful) > 1:
            lines.append(f"several are assumed to reach {EFFICIENCY:.0%} of a linear speed-up")
        if max(gpus) > accumulate:
            lines.append(_idle(f"{max(gpus)} GPUs", accumulate))
        return [*lines, "without validation"]

    def _time(self, count: int) -> str:
        """Return the run's time on `count` devices or, with a time budget, the tokens that fit into it."""
        assert self.measured is not None
        assert self.tokens is not None
        speed, batches = self.measured.tokens_per_second * self.speed_up(count), self.recipe.step_batches
        if self.budget.seconds:
            steps = batches.steps_for(speed * self.budget.seconds)
            return f"{batches.tokens(steps):,} tokens in {steps:,} steps"
        return duration(self.tokens / speed)

    def speed_up(self, count: int) -> float:
        """Return the speed-up of `count` GPUs over one. A micro-batch cannot be split between GPUs."""
        batches = self.recipe.accumulate
        return max(1.0, EFFICIENCY * batches / -(-batches // count))


def _idle(devices: str, accumulate: int) -> str:
    """Say that there are more devices than micro-batches in a step."""
    has = "1 micro-batch" if accumulate == 1 else f"{accumulate} micro-batches"
    fix = "lower batch_tokens and raise accumulate by the same factor"
    return f"a step has {has}, so {devices} are no faster than {accumulate}: to use them, {fix}"


def _gib(value: float) -> str:
    return f"{value / 2**30:,.1f} GiB" if value >= 0.1 * 2**30 else f"{value / 2**20:,.1f} MiB"
