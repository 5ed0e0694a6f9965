"""The recipe of fine-tuning: one task or many, one encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from osler.core.config import Recipe, runtime
from osler.tasks.instances.base import Decoding, HeadOptions, Relations, Tagger
from osler.train.config import TrainConfig


class Mixing(Recipe):
    """In what order several tasks take turns."""

    order: Literal["round-robin", "proportional", "temperature", "annealed"] = "round-robin"
    temperature: float = Field(2.0, ge=1.0)
    """temperature: how much more equal than their sizes tasks are visited."""
    loss_weights: dict[str, Annotated[float, Field(gt=0.0)]] = Field(default_factory=dict)
    """By task: what its loss is multiplied with; 1 where nothing is said."""
    batch_sizes: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """By task: sequences of its batches, where they differ from batch_size."""


class Lora(Recipe):
    """Low-rank adapters beside frozen weights (needs the extra `peft`); merged into the weights when the bundle is saved."""

    rank: int = Field(8, ge=1)
    alpha: float = Field(16.0, gt=0)
    dropout: float = Field(0.0, ge=0.0, lt=1.0)


class LanguageModelTask(Recipe):
    """Masked language modelling on raw text as one more task."""

    corpus: Path = runtime()
    """A corpus artifact."""
    weight: float = Field(1.0, gt=0.0)
    """What its loss is multiplied with."""
    rate: float = Field(0.15, gt=0.0, lt=1.0)
    batches: int | None = Field(None, ge=1)
    """Batches of raw text in an epoch, spread evenly over it whatever the mixing; left out, it is mixed like a task that
    has as many as the largest."""


class TaskTeacher(Recipe):
    """A fine-tuned bundle whose outputs the student learns from, beside its gold labels or in their place."""

    bundle: Path = runtime()
    """The folder of a bundle with a head for every task of the recipe, by the same name."""
    weight: float = Field(0.5, gt=0.0, le=1.0)
    """The share of the soft labels in the loss; the gold labels have the rest, at 1.0 they have none."""
    temperature: float = Field(2.0, gt=0.0)
    """How much the teacher's distributions are smoothed; a regression has no use for it."""


class FinetuneTraining(TrainConfig):
    """As everywhere, with a warm-up and an evaluation each epoch where nothing else is said."""

    evaluates_each_epoch: ClassVar[bool] = True

    warmup: int | float = Field(0.1, ge=0, description="a whole number of steps, or a fraction of the run below 1.0")
    eval_every: int | None = Field(None, ge=1, description="steps between evaluations; each epoch when left out")


class FinetuneRecipe(Recipe):
    """Single-task fine-tuning is multi-task fine-tuning with one task."""

    model: str = runtime()
    """An encoder or bundle folder, or a hub name."""
    tasks: tuple[Path, ...] = runtime(min_length=1)
    """Task artifacts (osler tasks prepare)."""
    keep_out: tuple[Path, ...] = runtime(())
    """Further tasks whose dev and test documents must not be trained on: those that the result will be tested on later."""
    protocols: dict[str, str] = Field(default_factory=dict)
    """Task name to protocol name, where it is not the task's default."""
    reinitialise: bool = False
    """Keep the shape and the vocabulary of the model, throw its weights away: the baseline for what pretraining buys."""
    max_length: int = Field(512, ge=16)
    overlap: int = Field(64, ge=0)
    epochs: int = Field(10, ge=1)
    batch_size: int = Field(32, ge=1)
    batch_tokens: int = Field(16_384, ge=64)
    """A batch holds at most `batch_size` sequences and at most so many tokens, padding included where the encoder needs it."""
    accumulate: int = Field(1, ge=1)
    dropout: float | None = Field(None, ge=0.0, lt=1.0)
    """Of the heads. When left out 0.1; for tags as the encoder's configuration has it, which for ModernBERT is none."""
    fraction: float = Field(1.0, gt=0.0, le=1.0)
    """The share of the training documents that is used; a smaller share is part of every larger one (learning curves)."""
    tagger: Tagger = "linear"
    """How tokens get their labels: each by itself, or as a chain."""
    decoding: Decoding = "protocol"
    """Whether a linear tagger's labels are taken one by one (free), or as the best sequence that its tag scheme allows (constrained);
    as the protocol says when left out."""
    relations: Relations = "tagged"
    """How a relation reads its arguments: from the sequence's first token, or from the markers around them."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: a label counts by the inverse of its frequency in training (classification, multilabel, tagging)."""
    freeze: Literal["nothing", "embeddings", "encoder"] | Annotated[int, Field(strict=True, ge=0)] = "nothing"
    """What of the encoder does not learn; a number freezes embeddings and so many first layers."""
    lora: Lora | None = None
    joint: dict[str, Annotated[tuple[str, ...], Field(min_length=2)]] = Field(default_factory=dict)
    """One tagging head for several partially annotated tasks: its name, and the tasks; none is taught that another's types are absent."""
    mlm: LanguageModelTask | None = None
    add_to: Path | None = runtime(None)
    """A bundle to add the tasks to; it takes the place of `model`. Its encoder and heads stay as they are unless it rehearses."""
    rehearse: tuple[Path, ...] = runtime(())
    """Tasks that the bundle was taught before, mixed in while its encoder learns on."""
    mixing: Mixing = Mixing()
    teacher: TaskTeacher | None = None
    train: FinetuneTraining = FinetuneTraining()

    @model_validator(mode="before")
    @classmethod
    def _model_of_bundle(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("add_to") is not None:
            if values.get("model") not in (None, str(values["add_to"])):
                raise ValueError("model and add_to both name what to start from; give one of them")
            return {**values, "model": str(values["add_to"])}
        return values

    @field_validator("freeze", mode="before")
    @classmethod
    def _what_can_be_frozen(cls, value: Any) -> Any:
        # One sentence for the words and the numbers together; the type alone would give one for each.
        number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not number and value not in ("nothing", "embeddings", "encoder"):
            raise ValueError("should be 'nothing', 'embeddings', 'encoder' or a number of first layers")
        return value

    @model_validator(mode="after")
    def _rehearsal(self) -> Self:
        if self.rehearse and self.add_to is None:
            raise ValueError("rehearse is for the tasks of the bundle that add_to names; give new tasks as tasks")
        return self

    @model_validator(mode="after")
    def _windows(self) -> Self:
        if self.overlap >= self.max_length // 2:
            raise ValueError("overlap must be less than half of max_length")
        return self

    @model_validator(mode="after")
    def _one_way_to_freeze(self) -> Self:
        if self.lora is not None and self.freeze != "nothing":
            raise ValueError("lora freezes the encoder's own weights itself; leave freeze out")
        return self

    @property
    def head_options(self) -> HeadOptions:
        """What heads are taught with, and keep."""
        return HeadOptions(tagger=self.tagger, decoding=self.decoding, relations=self.relations)
