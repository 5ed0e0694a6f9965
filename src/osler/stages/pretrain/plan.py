"""What a run will do and cost: a few lines before every run, in full for a dry run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from osler.artifacts.corpus import Corpus
from osler.artifacts.token_shards import INDEX
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, identity_of
from osler.core.config import runtime
from osler.core.console import duration, flop_count, flop_rate
from osler.core.errors import ArtifactError, InputError, RecipeError
from osler.nn.cost import flops_per_token, memory_of
from osler.nn.folders import load_config, quiet
from osler.nn.masking import MaskingVocabulary
from osler.nn.presets import PRESETS, find_preset, preset_config
from osler.stages.pretrain.config import PretrainRecipe, StepBatches
from osler.stages.pretrain.data import source_weights
from osler.stages.pretrain.model import chosen_layers, describe, load_vocabulary
from osler.stages.pretrain.probe import Probe, probe
from osler.stages.pretrain.tokenise import TokensRecipe
from osler.text.subwords import SubwordTokenizer
from osler.train.config import Budget
from osler.train.optim import parameter_groups
from osler.train.precision import Autocast, choose_device

_GROUPS, _DOCUMENTS = 8, 1024


def tokens_of(recipe: PretrainRecipe, updates: int) -> int:
    """Tokens that so many updates see, the smaller ones of a ramp at their own size."""
    return StepBatches(recipe.accumulate, recipe.ramp).batches_before(updates) * recipe.batch_tokens


def updates_of(recipe: PretrainRecipe, tokens: float) -> int:
    """Whole updates that so many tokens suffice for, at least one."""
    return max(1, StepBatches(recipe.accumulate, recipe.ramp).whole_within(int(tokens // recipe.batch_tokens)))


@dataclass(frozen=True)
class CorpusSize:
    """An epoch of a corpus as this run would see it."""

    documents: int
    epoch_tokens: int
    """Special tokens around every piece included; held-out documents not."""
    piece_lengths: tuple[int, ...]
    """Of the training pieces, or of those of a sample of documents."""
    sampled: int | None
    """Documents in the sample the tokens are estimated from; None where the corpus is tokenised already."""


def corpus_size(recipe: PretrainRecipe, out: Path) -> CorpusSize | None:
    """The size of the recipe's corpus: counted where it is tokenised, else from a sample.

    None where corpus or tokenizer is not there yet.
    """
    if not recipe.corpus.exists() or not recipe.tokenizer.exists():
        return None
    corpus = Corpus.open(recipe.corpus)
    tokens = Tokenizer.open(recipe.tokenizer)
    lengths, words, documents = _sample(corpus, tokens)
    room = recipe.max_length - tokens.overhead
    pieces = tuple(piece + tokens.overhead for length in lengths for piece in _pieces(length, room))
    if not pieces:
        raise InputError("the corpus holds no text", where=corpus.path, fix="Build it from documents with text")
    framed = sum(pieces) / sum(lengths)  # with the special tokens around every piece
    weights = source_weights(corpus, recipe.source_weights)
    counted = _counted(recipe, corpus, out)
    if counted is not None:
        shards, index = counted
        tokens_an_epoch = sum(weights[name] * parts["train"] for name, parts in index["sources"].items())
        return CorpusSize(int(shards["train_documents"]), round(framed * tokens_an_epoch), pieces, None)
    share = 1.0 - recipe.validation_share
    estimate = framed * sum(lengths) / max(1, words) * _words(corpus, weights) * share
    return CorpusSize(round(corpus.manifest.counts["documents"] * share), round(estimate), pieces, documents)


def _words(corpus: Corpus, weights: Mapping[str, float]) -> float:
    """Words read in an epoch."""
    if not corpus.sources:
        return float(corpus.counts["words"])
    return float(sum(source.words * weights[name] for name, source in corpus.sources.items()))


def _counted(recipe: PretrainRecipe, corpus: Corpus, out: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Counts and index of the tokenised corpus, where an earlier run has left the one that this run would reuse."""
    parents: dict[str, str | Artifact] = {
        "corpus": corpus,
        "tokenizer": Tokenizer.open(recipe.tokenizer).digest,
    }
    identity = identity_of("tokens", TokensRecipe(validation_share=recipe.validation_share), parents)
    try:
        shards = Artifact.open(recipe.tokens or out.with_name(f"{out.name}.tokens"), kind="tokens")
        index = json.loads((shards.path / INDEX).read_text(encoding="utf-8"))
    except (ArtifactError, ValueError):
        return None
    return (shards.manifest.counts, index) if shards.manifest.identity == identity else None


def _sample(corpus: Corpus, tokens: SubwordTokenizer) -> tuple[list[int], int, int]:
    """Tokens of each document of a sample spread evenly over the corpus, and the words and documents in it."""
    groups = corpus.row_groups()
    chosen = _spread(len(groups), _GROUPS)
    lengths: list[int] = []
    words = 0
    for place in chosen:
        everything = groups[place].texts()
        texts = [everything[row] for row in _spread(len(everything), _DOCUMENTS // len(chosen))]
        lengths += [len(encoding.ids) for encoding in tokens.encode(texts)]
        words += sum(len(text.split()) for text in texts)
    return [length for length in lengths if length], words, len(lengths)


def _spread(total: int, wanted: int) -> list[int]:
    """At most so many places out of a total, as far apart as can be: sources often lie one after the other."""
    return sorted(set(np.linspace(0, total - 1, wanted).astype(int).tolist())) if total else []


def _pieces(length: int, room: int) -> Iterator[int]:
    full, rest = divmod(length, room)
    yield from [room] * full
    if rest:
        yield rest


@dataclass(frozen=True)
class Skeleton:
    """A model's configuration and the numbers that follow from it."""

    config: Any
    parameters: int
    embeddings: int
    """Of them in tables that are looked up: words, positions, segments."""
    optimiser_values: int
    """Numbers the optimiser keeps: two a parameter, one for those that Muon trains."""
    flops_per_token: float
    """Of training, a teacher's forward pass included, at full context."""
    teacher_parameters: int = 0


def with_stand_ins(recipe: PretrainRecipe) -> tuple[PretrainRecipe, list[str]]:
    """The recipe with something else in the place of models that are not there, and what that is: plans come before data."""
    notes = []
    if recipe.distill and not recipe.distill.teacher.exists():
        notes.append(f"the teacher {recipe.distill.teacher} is not there: its forward pass is not counted")
        recipe = recipe.changed(distill=None)
    if recipe.start_from and not recipe.start_from.exists():
        name = recipe.start_from.name.lower()
        preset = next((preset for preset in PRESETS if preset in name), recipe.preset)
        notes.append(f"the checkpoint {recipe.start_from} is not there: a new {preset} encoder stands in for it")
        recipe = recipe.changed(start_from=None, swap_vocabulary=False, preset=preset)
    return recipe, notes


def skeleton_of(recipe: PretrainRecipe, vocabulary: MaskingVocabulary) -> Skeleton:
    """Build it on torch's meta device, which holds shapes and no values."""
    config = _config(recipe, vocabulary)
    model = _empty(config)
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    tables = {
        id(module.weight): module.weight.numel() for module in model.modules() if isinstance(module, nn.Embedding)
    }
    kept = {"muon": 1}
    values = sum(
        kept.get(group.optimizer, 2) * sizes[name]
        for group in parameter_groups(model, recipe.train)
        for name in group.names
    )
    rate, length = recipe.masking.rate, recipe.max_length
    flops = flops_per_token(config, masked_fraction=rate, length=length)
    known = 0
    if recipe.distill:
        teacher = load_config(recipe.distill.teacher)
        flops += flops_per_token(teacher, masked_fraction=rate, length=length, backward=False)
        known = sum(parameter.numel() for parameter in _empty(teacher).parameters())
    return Skeleton(config, sum(sizes.values()), sum(tables.values()), values, flops, known)


def _empty(config: Any) -> Any:
    from transformers import AutoModelForMaskedLM

    auto: Any = AutoModelForMaskedLM
    with torch.device("meta"), quiet():
        return auto.from_config(config)


def _config(recipe: PretrainRecipe, vocabulary: MaskingVocabulary) -> Any:
    if recipe.distill and recipe.distill.teacher_layers is not None:
        config = load_config(recipe.distill.teacher)
        layers = chosen_layers(recipe, recipe.distill, config)
        if getattr(config, "layer_types", None):  # local or global attention goes with the layer
            config.layer_types = [config.layer_types[layer] for layer in layers]
        config.num_hidden_layers = len(layers)
        return config
    if recipe.start_from:
        config = load_config(recipe.start_from)
        if recipe.swap_vocabulary:
            config.vocab_size = vocabulary.size
        return config
    shape = recipe.shape
    changed = find_preset(recipe.preset).changed(
        layers=shape.layers, width=shape.width, heads=shape.heads, inner=shape.inner
    )
    return preset_config(
        changed,
        vocab_size=vocabulary.size,
        pad_token_id=vocabulary.pad_id,
        max_length=recipe.max_length,
        dropout=shape.dropout,
    )


EFFICIENCY = 0.9
"""Assumed of several GPUs: the share of a linear speed-up that is left after they have exchanged gradients."""


class Costs:
    """Tokens, work, memory and time of one run."""

    def __init__(
        self, recipe: PretrainRecipe, skeleton: Skeleton, corpus: CorpusSize | None, found: Probe | None
    ) -> None:
        self.recipe = recipe
        self.skeleton = skeleton
        self.corpus = corpus
        self.budget = Budget.parse(recipe.train.budget) if recipe.train.budget else None
        self.updates = self._updates(found)
        self.tokens = None if self.updates is None else tokens_of(recipe, self.updates)

    def _updates(self, found: Probe | None) -> int | None:
        recipe = self.recipe
        if self.budget and self.budget.flops:
            return updates_of(recipe, self.budget.flops / self.skeleton.flops_per_token)
        if self.budget and self.budget.seconds:
            return updates_of(recipe, found.tokens_per_second * self.budget.seconds) if found else None
        if recipe.train.steps:
            return recipe.train.steps
        return updates_of(recipe, self.corpus.epoch_tokens) if self.corpus else None

    def tokens_lines(self) -> list[str]:
        """How much text the run sees."""
        recipe = self.recipe
        update = recipe.accumulate * recipe.batch_tokens
        lines = [f"{update:,} an update ({recipe.accumulate} x {recipe.batch_tokens:,})"]
        if recipe.ramp:
            lines[0] += ", fewer at first: " + ", ".join(
                f"{count * recipe.batch_tokens:,} up to update {end:,}" for end, count in recipe.ramp
            )
        if self.tokens is None:
            wanted = "the probe" if self.budget else "corpus and tokenizer, or train.steps"
            return [*lines, f"in all: not known without {wanted}"]
        within = f" within {recipe.train.budget}" if self.budget else ""
        if self.budget and self.budget.seconds:
            within += " on one device like this"
        total = f"{self.tokens:,} in all, {self.updates:,} updates{within}"
        if self.corpus is None:
            return [*lines, total]
        epochs = self.tokens / self.corpus.epoch_tokens
        read = f"{_epochs(epochs)} over the corpus"
        if epochs > 1:
            read += f": it is smaller than the plan, every document is read about {epochs:,.1f} times"
        return [*lines, total, read]

    def work_lines(self) -> list[str]:
        """Floating-point operations."""
        each = self.skeleton.flops_per_token
        said = f"{flop_count(each)} a token (forward and backward, full context)"
        return [said if self.tokens is None else f"{said}, {flop_count(self.tokens * each)} in all"]

    def memory_lines(self, gpus: Sequence[int]) -> list[str]:
        """What one GPU needs."""
        recipe, skeleton = self.recipe, self.skeleton
        device = choose_device(recipe.train.device)
        half = Autocast(recipe.train, device).enabled if device.type == "cuda" else recipe.train.precision != "fp32"
        memory = memory_of(
            skeleton.config,
            parameters=skeleton.parameters,
            optimiser_values=skeleton.optimiser_values,
            batch_tokens=recipe.batch_tokens,
            masked=recipe.masking.rate,
            half=half,
            teacher_parameters=skeleton.teacher_parameters,
        )
        parts = {name: value for name, value in asdict(memory).items() if value}
        lines = [
            f"about {_gib(memory.total)} a GPU in {'bf16' if half else 'fp32'}, every GPU holding the whole model",
            ", ".join(f"{name} {_gib(value)}" for name, value in parts.items()),
        ]
        if recipe.train.parallel == "fsdp":
            shared = ", ".join(f"{count}: {_gib(memory.sharded(count))}" for count in gpus if count > 1)
            lines.append(f"in shards (fsdp), on so many GPUs each: {shared}")
        return lines

    def speed_lines(self, found: Probe) -> list[str]:
        """What the probe measured."""
        share = f"{found.flops_per_second / found.peak:.0%} of its matmul peak of {flop_rate(found.peak)}"
        lines = [
            f"{found.tokens_per_second:,.0f} tokens/s on this {found.device}: {flop_rate(found.flops_per_second)}, {share}",
            f"measured in {found.seconds:.1f} s of training on random tokens",
        ]
        if found.memory is not None:
            lines[1] += f"; peak of memory {_gib(found.memory)}"
        if found.out_of_memory:
            lines.append(
                f"a micro-batch of {self.recipe.batch_tokens:,} tokens does not fit into this GPU; {found.batch_tokens:,} do: "
                "set batch_tokens to that and raise accumulate"
            )
        elif found.batch_tokens < self.recipe.batch_tokens:
            lines.append(
                f"in micro-batches of {found.batch_tokens:,} tokens: the recipe's take too long here for the probe"
            )
        return lines

    def time_lines(self, found: Probe, gpus: Sequence[int]) -> list[str]:
        """The time on several numbers of devices like this one."""
        if self.tokens is None:
            return ["not known, since the number of tokens is not"]
        if self.budget and self.budget.seconds:
            lines = []
            for count in gpus:
                speed = found.tokens_per_second * self.speed_up(count)
                updates = updates_of(self.recipe, speed * self.budget.seconds)
                lines.append(
                    f"{_devices(count, found)}: {tokens_of(self.recipe, updates):,} tokens in {updates:,} updates"
                )
        else:
            lines = [
                f"{_devices(count, found)}: {_hours(self.tokens / found.tokens_per_second / self.speed_up(count))}"
                for count in gpus
            ]
        if any(count > 1 for count in gpus):
            lines.append(
                f"assuming that several reach {EFFICIENCY:.0%} of a linear speed-up; training alone, no validation"
            )
        if max(gpus) > self.recipe.accumulate:
            lines.append(
                f"an update has {self.recipe.accumulate} micro-batch{'es' if self.recipe.accumulate > 1 else ''}, and a GPU takes at "
                "least one: for more GPUs lower batch_tokens and raise accumulate by as much"
            )
        return lines

    def speed_up(self, count: int) -> float:
        """How much faster so many GPUs are than one: none does less than a whole micro-batch of an update."""
        micro_batches = self.recipe.accumulate
        return micro_batches / -(-micro_batches // count) * (EFFICIENCY if count > 1 else 1.0)


def _epochs(epochs: float) -> str:
    return f"{epochs:,.1f} epochs" if epochs >= 0.1 else f"{epochs:.2%} of an epoch"


def _gib(value: float) -> str:
    return f"{value / 2**30:,.1f} GiB" if value >= 0.1 * 2**30 else f"{value / 2**20:,.1f} MiB"


def _devices(count: int, found: Probe) -> str:
    kind = "CPU" if found.memory is None else "GPU"
    return f"{count:>2} {kind}{'s' if count > 1 else ' '} like this"


def _hours(seconds: float) -> str:
    if seconds >= 36_000:
        return f"{seconds / 3600:,.0f} hours"
    return f"{seconds / 3600:,.1f} hours" if seconds >= 3600 else duration(seconds)


VOCABULARY = 50_265
"""Entries where no tokenizer is there yet: RoBERTa's, and about what the papers learn."""
_MARGIN = 14


class PlannedRecipe(PretrainRecipe):
    """A recipe to plan with: corpus and tokenizer may not be there yet, or not even be named."""

    corpus: Path = runtime(Path("CORPUS"))
    tokenizer: Path = runtime(Path("TOKENIZER"))


def numbers_of_gpus(text: str) -> tuple[int, ...]:
    """Read `8` or `1,2,4`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise RecipeError(
            f"{text!r} is no list of numbers of GPUs", where="--gpus", fix="Write one, or several as 1,2,4"
        )
    return tuple(sorted({int(part) for part in parts}))


def plan(recipe: PretrainRecipe, out: Path) -> list[str]:
    """The run in a few lines."""
    start = (
        f"continue from {recipe.start_from}"
        if recipe.start_from
        else f"a new {recipe.preset} encoder from random weights"
    )
    if recipe.distill and recipe.distill.teacher_layers is not None:
        start = "a new encoder from layers of the teacher"
    return [
        f"pretrain {start} on {recipe.corpus} with the vocabulary of {recipe.tokenizer}",
        f"{_length(recipe)} of {recipe.accumulate} x {recipe.batch_tokens:,} tokens, context {recipe.max_length}",
        f"masking {recipe.masking.rate:.0%} (validation always 15%), peak rate {recipe.train.lr:g}, {recipe.train.schedule} schedule",
        *([describe(recipe.distill)] if recipe.distill else []),
        f"write it to {out}",
    ]


def full_plan(
    recipe: PretrainRecipe,
    out: Path,
    *,
    gpus: Sequence[int] = (1, 2, 4, 8, 16),
    seconds: float = 10.0,
    vocab_size: int | None = None,
) -> list[str]:
    """The run with its costs, from a probe of so many seconds (0: no probe); leaves nothing behind."""
    feasible, notes = with_stand_ins(recipe)
    vocabulary, about_vocabulary = _vocabulary(recipe, vocab_size)
    corpus = corpus_size(recipe, out)
    skeleton = skeleton_of(feasible, vocabulary)
    if seconds and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        seconds = 0.0
        notes.append("no probe under torchrun: plan with one process, and read the time of several from the table")
    lengths = corpus.piece_lengths if corpus else ()
    found = probe(feasible, vocabulary, seconds=seconds, lengths=lengths) if seconds else None
    costs = Costs(feasible, skeleton, corpus, found)
    lines = [
        *plan(recipe, out),
        *_lines("encoder", [_shape(skeleton), about_vocabulary]),
        *_lines("parameters", [_parameters(skeleton)]),
        *_lines("corpus", [_corpus(recipe, corpus)]),
        *_lines("tokens", costs.tokens_lines()),
        *_lines("work", costs.work_lines()),
        *_lines("memory", costs.memory_lines(gpus)),
    ]
    if found:
        lines += [*_lines("speed", costs.speed_lines(found)), *_lines("time", costs.time_lines(found, gpus))]
    else:
        lines += _lines("time", ["not estimated without the probe"])
    return [*lines, *(f"note: {note}" for note in notes)]


def _vocabulary(recipe: PretrainRecipe, size: int | None) -> tuple[MaskingVocabulary, str]:
    """The tokenizer's, else that of the model the run starts or learns from, else one with RoBERTa's special tokens."""
    models = (recipe.start_from, recipe.distill.teacher if recipe.distill else None)
    if size is None and recipe.tokenizer.exists():
        vocabulary = load_vocabulary(recipe.tokenizer)
        return vocabulary, f"vocabulary of {vocabulary.size:,} entries"
    model = next((folder for folder in models if folder and (folder / "tokenizer.json").is_file()), None)
    if size is None and model is not None:
        vocabulary = load_vocabulary(model)
        return vocabulary, f"vocabulary of {vocabulary.size:,} entries, that of {model}"
    kept = load_config(recipe.start_from).vocab_size if recipe.start_from and recipe.start_from.exists() else None
    entries = size or kept or VOCABULARY
    assumed = MaskingVocabulary(
        size=entries, pad_id=1, mask_id=entries - 1, special_ids=frozenset(range(5)), prefix=(0,), suffix=(2,)
    )
    why = f"assumed, since the tokenizer {recipe.tokenizer} is not there"
    if size or kept:
        why = "as asked for" if size else "those of the checkpoint"
    return assumed, f"vocabulary of {entries:,} entries, {why}"


def _shape(skeleton: Skeleton) -> str:
    config = skeleton.config
    inner = getattr(config, "intermediate_size", None) or config.hidden_dim
    layers = f"{config.num_hidden_layers} layer{'s' if config.num_hidden_layers > 1 else ''}"
    return (
        f"{config.model_type}, {layers} of width {config.hidden_size}, "
        f"{config.num_attention_heads} heads, inner width {inner:,}"
    )


def _parameters(skeleton: Skeleton) -> str:
    return f"{skeleton.parameters:,}, of them {skeleton.parameters - skeleton.embeddings:,} not in embeddings"


def _corpus(recipe: PretrainRecipe, corpus: CorpusSize | None) -> str:
    if corpus is None:
        missing = recipe.corpus if not recipe.corpus.exists() else recipe.tokenizer
        return f"{missing} is not there (yet): planned without it"
    how = f"estimated from {corpus.sampled:,} documents" if corpus.sampled else "counted"
    return f"{corpus.epoch_tokens:,} tokens an epoch in {corpus.documents:,} documents ({how}), validation left out"


def _length(recipe: PretrainRecipe) -> str:
    if recipe.train.budget:
        return f"updates until {recipe.train.budget} are spent, each"
    return f"{recipe.train.steps:,} updates" if recipe.train.steps else "one epoch in updates"


def _lines(name: str, lines: Sequence[str]) -> list[str]:
    return [f"{name if not number else '':<{_MARGIN}}{line}" for number, line in enumerate(lines)]
