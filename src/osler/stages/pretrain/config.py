"""The recipe of pretraining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from osler.core.config import Recipe, runtime
from osler.core.errors import RecipeError
from osler.nn.masking import Masking
from osler.nn.presets import find_preset
from osler.train.config import TrainConfig


@dataclass(frozen=True)
class StepBatches:
    """Micro-batches of every update. `ramp` holds pairs (up to this update, micro-batches), before `accumulate` applies."""

    accumulate: int
    ramp: Sequence[tuple[int, int]] = ()

    def batches_before(self, update: int) -> int:
        """How many micro-batches the updates before this one take: where its own begin in the stream."""
        total = begin = 0
        for end, count in self.ramp:
            total += max(0, min(update, end) - begin) * count
            begin = end
        return total + max(0, update - begin) * self.accumulate

    def batches(self, update: int) -> range:
        """The numbers of an update's micro-batches in the stream; none is left out and none comes twice."""
        return range(self.batches_before(update), self.batches_before(update + 1))

    def whole_within(self, batches: int) -> int:
        """How many updates so many micro-batches are enough for."""
        total = begin = 0
        for end, count in self.ramp:
            if batches < total + (end - begin) * count:
                return begin + (batches - total) // count
            total += (end - begin) * count
            begin = end
        return begin + (batches - total) // self.accumulate


class Shape(Recipe):
    """Departures from the preset's shape; what is left out stays the preset's."""

    layers: int | None = Field(None, ge=1)
    width: int | None = Field(None, ge=8)
    heads: int | None = Field(None, ge=1)
    inner: int | None = Field(None, ge=8)
    dropout: float | None = Field(None, ge=0.0, lt=1.0)


class Distillation(Recipe):
    """A frozen teacher beside the student, with the weights of the three losses (lewis2020, section 7)."""

    teacher: Path = runtime()
    """The folder of a masked language model with the student's vocabulary."""
    mlm: float = Field(5.0, ge=0.0)
    """Weight of the cross-entropy with the masked tokens themselves."""
    kl: float = Field(2.0, ge=0.0)
    """Weight of the divergence from the teacher's distribution at the masked positions."""
    temperature: float = Field(2.0, gt=0.0)
    cosine: float = Field(0.0, ge=0.0)
    """Weight of the alignment of last hidden states, through a learned projection where the widths differ."""
    top_k: int | None = Field(None, ge=1)
    """Compare only the teacher's k most likely tokens and the rest as one; all of them when left out."""
    teacher_layers: tuple[int, ...] | Literal["even"] | None = None
    """Start the student from these layers of the teacher (counted from 0), or from evenly spaced ones."""

    @model_validator(mode="after")
    def _teaches(self) -> Self:
        if not (self.kl or self.cosine):
            raise ValueError("kl and cosine are both 0: the teacher has no say; leave the section out")
        return self


class PretrainSettings(TrainConfig):
    """Training settings with the defaults of pretraining."""

    lr: float = Field(5e-4, gt=0, description="peak learning rate")
    schedule: Literal["linear", "constant", "wsd"] = "wsd"
    warmup: int | float = Field(0.06, ge=0, description="a whole number of steps, or a fraction of the run below 1.0")
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = Field(1e-6, gt=0)
    spike: float = Field(10.0, ge=0, description="skip a step whose gradient norm is so many times the usual; 0: none")


class PretrainRecipe(Recipe):
    """An encoder from a corpus and a tokenizer: from random weights, onward from a checkpoint, or from a teacher."""

    corpus: Path = runtime()
    """A corpus artifact."""
    tokenizer: Path = runtime()
    """A tokenizer folder."""
    tokens: Path | None = runtime(None)
    """Where the tokenised corpus is kept for the next run; by default beside --out."""
    workers: int = runtime(0, ge=0)
    """Processes that tokenise; 0 means one for each core."""
    start_from: Path | None = runtime(None)
    """A checkpoint to continue from; without it the preset starts from random weights."""
    swap_vocabulary: bool = False
    """Continue with another vocabulary than the checkpoint's: new embeddings start as the mean of its pieces'."""
    preset: str = "compact"
    """Size of a new encoder; see osler.nn.presets."""
    shape: Shape = Shape()
    max_length: int = Field(512, ge=8)
    batch_tokens: int = Field(32_768, ge=64)
    """Tokens in one micro-batch, all of them real: documents are laid end to end."""
    accumulate: int = Field(1, ge=1)
    """Micro-batches in one update, over all processes."""
    ramp: tuple[tuple[int, int], ...] = ()
    """Smaller updates at first: pairs (up to this update, micro-batches), before `accumulate` applies."""
    source_weights: dict[str, float] = Field(default_factory=dict)
    """How often a source is read relative to the others, by its name in the corpus card; 1 where nothing is said."""
    validation_share: float = Field(0.01, gt=0.0, lt=0.5)
    """The share of documents kept for validation, chosen by their text."""
    validation_tokens: int = Field(200_000, ge=100)
    """At most so many tokens are used for each validation."""
    masking: Masking = Masking()
    distill: Distillation | None = None
    train: PretrainSettings = PretrainSettings()

    @field_validator("preset")
    @classmethod
    def _known_preset(cls, value: str) -> str:
        try:
            find_preset(value)
        except RecipeError as error:
            raise ValueError(f"{error.problem}. {error.fix}") from None
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.start_from is None and (self.distill is None or self.distill.teacher_layers is None):
            shape = self.shape
            try:
                find_preset(self.preset).changed(
                    layers=shape.layers, width=shape.width, heads=shape.heads, inner=shape.inner
                )
            except RecipeError as error:
                raise ValueError(f"shape: {error.problem}. {error.fix}") from None
        if self.swap_vocabulary and self.start_from is None:
            raise ValueError("swap_vocabulary changes a checkpoint's vocabulary; name the checkpoint in start_from")
        if self.distill and self.distill.teacher_layers is not None and self.start_from is not None:
            raise ValueError("a student starts from start_from or from teacher_layers, not from both")
        ends = [end for end, _ in self.ramp]
        if ends != sorted(set(ends)) or any(end < 1 or count < 1 for end, count in self.ramp):
            raise ValueError("ramp: pairs of a rising number of updates and a number of micro-batches, both at least 1")
        if any(weight <= 0 for weight in self.source_weights.values()):
            raise ValueError("source_weights must be greater than 0")
        return self
