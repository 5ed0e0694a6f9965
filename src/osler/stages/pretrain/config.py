"""The pretraining recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from osler.core.config import Recipe, runtime
from osler.core.errors import RecipeError
from osler.nn.masking import Masking
from osler.nn.presets import Preset, find_preset
from osler.train.config import TrainConfig


@dataclass(frozen=True)
class StepBatches:
    """Maps steps to micro-batches of the stream. `ramp` holds (end step, micro-batches per step) pairs."""

    batch_tokens: int
    accumulate: int
    ramp: Sequence[tuple[int, int]] = ()

    def before(self, step: int) -> int:
        """Count the micro-batches of all steps before this one."""
        total = begin = 0
        for end, count in self.ramp:
            total += max(0, min(step, end) - begin) * count
            begin = end
        return total + max(0, step - begin) * self.accumulate

    def of(self, step: int) -> range:
        """Return the positions of a step's micro-batches in the stream."""
        return range(self.before(step), self.before(step + 1))

    def tokens(self, steps: int) -> int:
        """Count the tokens of the first `steps` steps."""
        return self.before(steps) * self.batch_tokens

    def steps_for(self, tokens: float) -> int:
        """Count the complete steps that fit into `tokens`, at least one."""
        batches, begin = int(tokens // self.batch_tokens), 0
        for end, count in self.ramp:
            if batches < (end - begin) * count:
                return max(1, begin + batches // count)
            batches -= (end - begin) * count
            begin = end
        return max(1, begin + batches // self.accumulate)


class Shape(Recipe):
    """Overrides of the preset's shape; unset values keep the preset's."""

    layers: int | None = Field(None, ge=1, description="number of layers")
    width: int | None = Field(None, ge=8, description="hidden size")
    heads: int | None = Field(None, ge=1, description="attention heads")
    inner: int | None = Field(None, ge=8, description="size of the feed-forward layer")
    dropout: float | None = Field(None, ge=0.0, lt=1.0, description="dropout in all layers")


class Distillation(Recipe):
    """A frozen teacher and the weights of the three losses (lewis2020, section 7)."""

    teacher: Path = runtime()
    """Folder of a masked language model with the student's vocabulary."""
    mlm: float = Field(5.0, ge=0.0)
    """Weight of the masked-token cross-entropy."""
    kl: float = Field(2.0, ge=0.0)
    """Weight of the KL divergence from the teacher's distribution at the masked positions."""
    temperature: float = Field(2.0, gt=0.0, description="softens both distributions")
    cosine: float = Field(0.0, ge=0.0)
    """Weight of the cosine distance between last hidden states; a trained projection bridges different widths."""
    top_k: int | None = Field(None, ge=1)
    """Compare only the teacher's k most likely tokens, with all others lumped into one; all tokens by default."""
    teacher_layers: tuple[int, ...] | Literal["even"] | None = None
    """Initialise the student from these teacher layers (counted from 0), or from evenly spaced ones."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if not (self.kl or self.cosine):
            raise ValueError("kl and cosine are both 0, so the teacher has no effect; leave the section out")
        return self

    def describe(self) -> str:
        """Describe the losses in one line."""
        top = f" (top {self.top_k:,} tokens)" if self.top_k else ""
        cosine = f" + {self.cosine:g} x cosine distance of last hidden states" if self.cosine else ""
        divergence = f"{self.kl:g} x divergence from the teacher at temperature {self.temperature:g}"
        return f"{self.mlm:g} x masked tokens + {divergence}{top}{cosine}"


class PretrainSettings(TrainConfig):
    """Training settings with the defaults of pretraining."""

    lr: float = Field(5e-4, gt=0, description="peak learning rate")
    schedule: Literal["linear", "constant", "wsd", "root"] = Field(
        "wsd",
        description="after the warm-up; wsd is flat, then falls; root falls with the square root of the steps left",
    )
    warmup: int | float = Field(0.06, ge=0, description="a whole number of steps, or a fraction of the run below 1.0")
    betas: tuple[float, float] = Field((0.9, 0.98), description="decay rates of Adam's two moving averages")
    eps: float = Field(1e-6, gt=0, description="added to Adam's denominator")
    spike: float = Field(
        10.0, ge=0, description="skip a step whose gradient norm is this many times the usual; 0 skips none"
    )


class PretrainRecipe(Recipe):
    """Train an encoder from random weights, from a checkpoint or from a teacher."""

    later: ClassVar = ("next_sentence", "density_weight", "order", "new_head")

    corpus: Path = runtime()
    """A corpus artifact."""
    tokenizer: Path = runtime()
    """A tokenizer folder."""
    tokens: Path | None = runtime(None)
    """Folder to keep the tokenised corpus in for later runs; next to --out by default."""
    workers: int = runtime(0, ge=0)
    """Tokenisation processes; 0 means one per core."""
    start_from: Path | None = runtime(None)
    """A checkpoint to continue from; random weights by default."""
    needs_start: bool = runtime(False)
    """Require start_from: the recipe is for a model that is already pretrained."""
    new_head: bool = False
    """Give a checkpoint without a masked-token head, such as a sentence encoder or a bundle's encoder, a new one with random weights."""
    swap_vocabulary: bool = False
    """Replace the checkpoint's vocabulary with the tokenizer's. A new embedding starts as the mean of its old sub-words."""
    preset: str = "compact"
    """Size of a new encoder; see osler.nn.presets."""
    next_sentence: bool | None = None
    """Also train on next-sentence prediction with pairs of texts, as BERT does; by default only for a new bert-base encoder."""
    shape: Shape = Shape()
    max_length: int = Field(512, ge=8, description="longest sequence, in tokens")
    batch_tokens: int = Field(32_768, ge=64)
    """Tokens per micro-batch, without padding."""
    accumulate: int = Field(1, ge=1)
    """Micro-batches per step, over all processes."""
    ramp: tuple[tuple[int, int], ...] = ()
    """Batch-size warm-up: (end step, micro-batches per step) pairs. `accumulate` applies after the last pair."""
    source_weights: dict[str, float] = Field(default_factory=dict)
    """How often to read each source per epoch, on average; by default the weight on the corpus card, or 1."""
    density_weight: float = Field(0.0, ge=0.0)
    """How strongly to favour documents rich in medical terms: 0 reads all equally often, 1 in proportion to term density."""
    order: Literal["random", "density"] = "random"
    """Order of the text: random, or from low to high term density in ten bands, each shuffled."""
    validation_share: float = Field(0.01, gt=0.0, lt=0.5)
    """Share of documents held out for validation, chosen by a hash of the patient or, if unknown, of the text."""
    check_validation: bool = runtime(True)
    """Stop if the checkpoint or the teacher was trained on this corpus with a different validation share."""
    validation_tokens: int = Field(200_000, ge=100)
    """Maximum tokens per validation."""
    masking: Masking = Masking()
    distill: Distillation | None = None
    train: PretrainSettings = PretrainSettings()

    @property
    def step_batches(self) -> StepBatches:
        return StepBatches(self.batch_tokens, self.accumulate, self.ramp)

    @property
    def preset_shape(self) -> Preset:
        """The preset with the changes of `shape`."""
        return find_preset(self.preset).changed(**self.shape.model_dump(exclude={"dropout"}))

    @field_validator("preset")
    @classmethod
    def _known_preset(cls, value: str) -> str:
        try:
            find_preset(value)
        except RecipeError as error:
            raise ValueError(f"{error.problem}. {error.fix}") from None
        return value

    @property
    def uses_pairs(self) -> bool:
        """Whether the objective includes next-sentence prediction."""
        new_bert = self.starts_at_random and self.distill is None and self.preset_shape.bert
        return new_bert if self.next_sentence is None else self.next_sentence

    @property
    def uses_density(self) -> bool:
        """Whether term density affects how often or when documents are read."""
        return self.density_weight > 0 or self.order == "density"

    @property
    def starts_at_random(self) -> bool:
        """Whether the model starts from random weights: neither from a checkpoint nor from layers of a teacher."""
        return self.start_from is None and (self.distill is None or self.distill.teacher_layers is None)

    @model_validator(mode="after")
    def _has_a_start(self) -> Self:
        if not self.starts_at_random:
            return self
        if self.needs_start:
            raise ValueError(
                "this recipe continues a pretrained model, and none is given. Name it with --from FOLDER "
                "(start_from in a recipe)"
            )
        if self.distill and not {"preset", "shape"} & self.model_fields_set:
            raise ValueError(
                "nothing says what the student starts from. Give --from FOLDER (its own pretrained weights; start_from in a recipe), "
                "--layers even (layers of the teacher; distill.teacher_layers) or --preset NAME (random weights)"
            )
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.starts_at_random:
            try:
                _ = self.preset_shape
            except RecipeError as error:
                raise ValueError(f"shape: {error.problem}. {error.fix}") from None
        if self.next_sentence and self.distill:
            raise ValueError("next_sentence is not supported with a teacher; leave one of them out")
        if self.next_sentence and self.start_from is None and not self.preset_shape.bert:
            raise ValueError(f"next_sentence needs BERT's architecture: preset = 'bert-base', not {self.preset!r}")
        if self.new_head and self.start_from is None:
            raise ValueError("new_head is for a checkpoint without one; name the checkpoint in start_from")
        if self.swap_vocabulary and self.start_from is None:
            raise ValueError("swap_vocabulary changes a checkpoint's vocabulary; name the checkpoint in start_from")
        if self.distill and self.distill.teacher_layers is not None and self.start_from is not None:
            raise ValueError("a student starts from start_from or from teacher_layers, not from both")
        ends = [end for end, _ in self.ramp]
        if ends != sorted(set(ends)) or any(end < 1 or count < 1 for end, count in self.ramp):
            raise ValueError("ramp must be pairs (step, micro-batches), steps rising and all numbers at least 1")
        if any(weight <= 0 for weight in self.source_weights.values()):
            raise ValueError("source_weights must be greater than 0")
        if self.uses_density and self.uses_pairs:
            raise ValueError("density_weight and order = 'density' are not supported with next_sentence")
        if self.order == "density" and self.train.budget:
            raise ValueError("order = 'density' needs train.steps: with a budget, it is not known where the text ends")
        return self


class ConvertModelRecipe(Recipe):
    """Convert a published checkpoint into an encoder that every stage can open."""

    folder: Path = runtime()
    """Folder of a published model: pytorch_model.bin or model.safetensors, config.json or bert_config.json, vocabulary files."""
    cased: bool | None = None
    """Whether the model is cased. Needed only if no file in the folder says so."""
    allow_pickle: bool = runtime(False)
    """Read weights from a pickle (.bin), in a separate process that accepts only tensors and runs no code."""
