"""What a run costs, in lines for a person: tokens, work, memory, and time from what the probe measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from osler.core.console import duration, flop_count, flop_rate
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.extent import CorpusSize, tokens_of, updates_of
from osler.stages.pretrain.memory import memory_of
from osler.stages.pretrain.probe import Probe
from osler.stages.pretrain.skeleton import Skeleton
from osler.train.budget import Budget
from osler.train.precision import Autocast, choose_device

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
