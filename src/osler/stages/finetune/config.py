"""The fine-tuning recipe."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from osler.core.config import Recipe, runtime
from osler.tasks.instances.base import Decoding, HeadOptions, LabelledTokens, Layers, Relations, Tagger, Unit
from osler.train.config import TrainConfig

MLM = "mlm"
"""Name of the raw-text task in the mix and in the log."""

LEARNING_RATES = {
    # Measured up to 640 (docs/log/compact.md). Larger encoders are others' long-trained ones and need a lower rate.
    "modernbert": {256: 1e-3, 384: 5e-4, 640: 5e-4, 768: 1e-4, 1024: 5e-5},
    # BERT and RoBERTa, as published: Turc et al. 2019 for the small ones, then Devlin et al. 2019 and Liu et al. 2019.
    "other": {256: 3e-4, 384: 1e-4, 512: 1e-4, 768: 5e-5, 1024: 2e-5},
}
"""Default peak learning rate by architecture and hidden size. A small encoder barely learns at the rate of a large one."""
HEADS_LEARNING_RATE = 1e-3
"""Default peak learning rate if the encoder's own weights are frozen."""


def learning_rate_for(encoder: Any) -> float:
    """Interpolate LEARNING_RATES for a Hugging Face configuration, log-log and rounded to two digits."""
    table = LEARNING_RATES.get(encoder.model_type, LEARNING_RATES["other"])
    sizes, rates = np.log(list(table)), np.log(list(table.values()))
    return float(f"{math.exp(np.interp(math.log(encoder.hidden_size), sizes, rates)):.1e}")


class Mixing(Recipe):
    """How the batches of several tasks are mixed."""

    order: Literal["round-robin", "proportional", "temperature", "annealed"] = "round-robin"
    """Order in which tasks take turns: round-robin, proportional, temperature or annealed."""
    temperature: float = Field(2.0, ge=1.0)
    """For order = "temperature": 1 mixes tasks by size, higher values mix them more equally."""
    loss_weights: dict[str, Annotated[float, Field(gt=0.0)]] = Field(default_factory=dict)
    """Loss weight by task, 1 by default."""
    batch_sizes: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Sequences per batch by task, `batch_size` by default."""


class Lora(Recipe):
    """Low-rank adapters on a frozen encoder (needs the extra `peft`), merged into its weights when the bundle is saved."""

    rank: int = Field(8, ge=1, description="rank of the adapters")
    alpha: float = Field(16.0, gt=0, description="adapters are scaled by alpha / rank")
    dropout: float = Field(0.0, ge=0.0, lt=1.0, description="dropout before the adapters")


class LanguageModelTask(Recipe):
    """Masked language modelling on raw text as an additional task."""

    corpus: Path = runtime()
    """A corpus whose raw text becomes an additional masked language modelling task."""
    weight: float = Field(1.0, gt=0.0)
    """Loss weight."""
    rate: float = Field(0.15, gt=0.0, lt=1.0, description="fraction of the sub-words to predict")
    """Fraction of tokens to mask."""
    batches: int | None = Field(None, ge=1)
    """Batches per epoch, spread evenly. By default raw text is mixed as a task as large as the largest one."""


class TaskTeacher(Recipe):
    """A fine-tuned bundle whose outputs the student is trained on, with or without gold labels."""

    bundle: Path = runtime()
    """A bundle that has a head of the same name for every task."""
    weight: float = Field(0.5, gt=0.0, le=1.0)
    """Weight of the soft labels in the loss; gold labels get the rest."""
    temperature: float = Field(2.0, gt=0.0)
    """Softmax temperature of the soft labels; no effect on regression."""


class FinetuneTraining(TrainConfig):
    """Training settings with a warm-up, and an evaluation after each epoch by default."""

    evaluates_each_epoch: ClassVar[bool] = True

    # Optional only here: `FinetuneRecipe.with_learning_rate` sets it once the encoder is known.
    lr: float | None = Field(  # type: ignore[assignment]
        None, gt=0, description="peak learning rate; chosen by the encoder's architecture and hidden size when left out"
    )
    warmup: int | float = Field(0.1, ge=0, description="steps as a whole number, or a fraction of the run below 1.0")
    eval_every: int | None = Field(None, ge=1, description="steps between evaluations; once per epoch by default")


class FinetuneRecipe(Recipe):
    """Fine-tune one encoder on one or more tasks."""

    later: ClassVar = (
        "leaks",
        "head",
        "train_heads",
        "keep",
        "average_epochs",
        "unit",
        "max_words",
        "subwords",
        "excerpts",
    )

    model: str = runtime()
    """An encoder or bundle folder, or a hub name."""
    tasks: tuple[Path, ...] = runtime(min_length=1)
    """Task artifacts (osler tasks prepare)."""
    keep_out: tuple[Path, ...] = runtime(())
    """Other tasks whose dev and test documents are kept out of training, because the bundle is tested on them later."""
    leaks: Literal["remove", "keep"] = "remove"
    """What to do with training documents that are also in a dev or test split. With keep, scores there are inflated."""
    protocols: dict[str, str] = Field(default_factory=dict)
    """Protocol by task, where it is not the task's default."""
    reinitialise: bool = False
    """Keep the architecture and vocabulary but not the weights: a baseline without pretraining."""
    max_length: int = Field(512, ge=16, description="tokens per window")
    overlap: int = Field(64, ge=0, description="tokens that neighbouring windows share")
    unit: Unit = "document"
    """Input unit of a tagger: a document, split into windows if it is long, or one sentence, as in most papers."""
    max_words: int | None = Field(
        None, ge=2, description="longest sentence in words; longer ones are cut (unit = sentence)"
    )
    excerpts: float = Field(0.0, ge=0.0)
    """Excerpts of one to three sentences to add per epoch; 1.0 adds as many as there are windows. A head trained only on whole
    documents over-predicts on single sentences. Only for taggers and attributes."""
    forms: Path | None = runtime(None)
    """A task whose documents begin with a form, such as patient details (meddocan). Taggers in its language also train on about half of
    their documents wrapped in such a form, because a head that never saw one may find nothing next to it."""
    epochs: int = Field(10, ge=1, description="passes over the largest task")
    batch_size: int = Field(32, ge=1)
    """Maximum number of sequences per batch."""
    batch_tokens: int = Field(16_384, ge=64)
    """Maximum number of tokens per batch, with padding where the encoder needs it."""
    accumulate: int = Field(1, ge=1, description="batches per step")
    keep: Literal["best", "last"] = "best"
    """Keep the weights with the best mean dev score, or the last ones. Dev is scored either way."""
    average_epochs: int = Field(0, ge=0)
    """Average the weights of the last N epochs, and keep the mean if it is at least as good on dev; 0 turns it off."""
    dropout: float | None = Field(None, ge=0.0, lt=1.0)
    """Dropout of the heads. Default: 0.1, and for tagging the encoder's own value (0 for ModernBERT)."""
    fraction: float = Field(1.0, gt=0.0, le=1.0)
    """Fraction of the training documents to use, for learning curves; smaller fractions are subsets of larger ones."""
    tagger: Tagger = "linear"
    """Label each word independently (linear) or as a sequence (crf)."""
    decoding: Decoding = "protocol"
    """Decoding of a linear tagger: the best tag of each word (greedy), the best legal sequence (constrained), or as in the protocol."""
    subwords: LabelledTokens = "protocol"
    """Tokens that a linear tagger is trained on: those of the protocol, or every token, line breaks included, for a head to run in stock
    Hugging Face pipelines (osler export), which read every token. Predictions in osler read the same tokens either way."""
    relations: Relations = "tagged"
    """Classify a relation from the first token (tagged) or from the markers around its arguments (markers)."""
    head: Layers = "mlp"
    """Layers of text, pair and relation heads: dense + tanh + linear (mlp), linear, or the encoder's own pooler + linear."""
    train_heads: bool = True
    """Train the heads. If false, only the encoder learns and the heads keep their random weights, as in the code of mulyar2020."""
    calibrate: bool = runtime(True)
    """Calibrate the scores on dev after training, and measure precision and recall by threshold. Does not change weights or
    predictions."""
    class_weights: Literal["none", "balanced"] = "none"
    """Class weights in the loss; balanced weights by inverse frequency (classification, multilabel, tagging)."""
    freeze: Literal["nothing", "embeddings", "encoder"] | Annotated[int, Field(strict=True, ge=0)] = "nothing"
    """Part of the encoder to freeze; a number N freezes the embeddings and the first N layers."""
    lora: Lora | None = None
    joint: dict[str, Annotated[tuple[str, ...], Field(min_length=2)]] = Field(default_factory=dict)
    """Joint tagging heads by name: the tasks of each, which may annotate different entity types."""
    mlm: LanguageModelTask | None = None
    add_to: Path | None = runtime(None)
    """A bundle to add the tasks to, instead of `model`. Its encoder and heads stay unchanged unless `rehearse` is set."""
    rehearse: tuple[Path, ...] = runtime(())
    """Tasks that the bundle was trained on, to train on again together with the new ones."""
    mixing: Mixing = Mixing()
    teacher: TaskTeacher | None = None
    train: FinetuneTraining = FinetuneTraining()

    @model_validator(mode="before")
    @classmethod
    def _model_of_bundle(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("add_to") is not None:
            if values.get("model") not in (None, str(values["add_to"])):
                raise ValueError("model and add_to cannot both be set; remove one of them")
            return {**values, "model": str(values["add_to"])}
        return values

    @field_validator("freeze", mode="before")
    @classmethod
    def _freezable(cls, value: Any) -> Any:
        # One message for both types; pydantic would report each separately.
        number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not number and value not in ("nothing", "embeddings", "encoder"):
            raise ValueError("must be 'nothing', 'embeddings', 'encoder' or a number of first layers")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.rehearse and self.add_to is None:
            raise ValueError("rehearse needs add_to; list new tasks under tasks")
        if self.overlap >= self.max_length // 2:
            raise ValueError("overlap must be less than half of max_length")
        if self.max_words is not None and self.unit != "sentence":
            raise ValueError('max_words cuts sentences: set unit = "sentence" too, or remove it')
        if self.excerpts and (self.unit == "sentence" or self.teacher is not None):
            other = "a teacher, which reads whole documents" if self.teacher else 'unit = "sentence"'
            raise ValueError(f"excerpts does not go with {other}; remove one of them")
        if self.lora is not None and self.freeze != "nothing":
            raise ValueError("lora already freezes the encoder; remove freeze")
        if self.keep == "last" and self.train.patience is not None:
            raise ValueError('patience stops on the dev score, which keep = "last" ignores; remove one of them')
        if self.average_epochs and (self.train.patience is not None or self.train.budget is not None):
            raise ValueError("average_epochs needs to know the last epoch; remove train.patience and train.budget")
        if not self.train_heads and (self.freeze == "encoder" or (self.add_to and not self.rehearse)):
            raise ValueError("train_heads = false and a frozen encoder leave nothing to train; remove one of them")
        return self

    def identity(self) -> dict[str, Any]:
        """Return the identity, with greedy decoding as `free` to recognise bundles of earlier versions."""
        values = super().identity()
        return values | {"decoding": "free"} if self.decoding == "greedy" else values

    @property
    def trains_encoder(self) -> bool:
        """Whether the encoder's own weights are trained, rather than only heads or adapters."""
        return not (self.lora or self.freeze == "encoder" or (self.add_to and not self.rehearse))

    def default_learning_rate(self, encoder: Any) -> float:
        """Return the default peak learning rate for an encoder with this configuration."""
        return learning_rate_for(encoder) if self.trains_encoder else HEADS_LEARNING_RATE

    def with_learning_rate(self, encoder: Any) -> Self:
        """Return the recipe with its learning rate filled in, so that the identity includes the rate used."""
        if self.train.lr is not None:
            return self
        return self.changed(train=self.train.changed(lr=self.default_learning_rate(encoder)))

    @property
    def head_options(self) -> HeadOptions:
        return HeadOptions(
            tagger=self.tagger,
            decoding=self.decoding,
            relations=self.relations,
            head=self.head,
            unit=self.unit,
            max_words=self.max_words,
            subwords=self.subwords,
        )
