"""Settings of one training run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from osler.core.config import Recipe, runtime

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_WORK = re.compile(r"(\d+(?:\.\d+)?(?:e\+?\d+)?)\s*flops?", re.IGNORECASE)


@dataclass(frozen=True)
class Budget:
    """Exactly one of them is set."""

    seconds: float | None = None
    flops: float | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read `25m`, `1h30m`, `90s` or `1e18flop`; a ValueError says what is meant."""
        written = text.strip().replace(" ", "")
        if work := _WORK.fullmatch(written):
            budget = cls(flops=float(work[1]))
        elif written and (time := _TIME.fullmatch(written)):
            budget = cls(
                seconds=sum(float(part) * _UNITS[unit] for part, unit in zip(time.groups(), "hms", strict=True) if part)
            )
        else:
            raise ValueError(f"{text!r} is no budget; write a time such as 25m or 1h30m, or work such as 1e18flop")
        if not (budget.seconds or budget.flops):
            raise ValueError("a budget must be greater than 0")
        return budget


class TrainConfig(Recipe):
    """How to train: steps, optimiser, schedule, precision, and when to log, evaluate and checkpoint."""

    evaluates_each_epoch: ClassVar[bool] = False
    """Whether whoever trains evaluates once an epoch where eval_every is left out."""

    steps: int | None = Field(None, ge=1, description="optimiser steps; as many as the data source plans when left out")
    budget: str | None = Field(
        None, description="instead of steps: a time such as 25m or 1h30m, or work such as 1e18flop"
    )
    seed: int = Field(1, ge=0)

    lr: float = Field(5e-5, gt=0, description="peak learning rate")
    schedule: Literal["linear", "constant", "wsd"] = "linear"
    warmup: int | float = Field(0, ge=0, description="a whole number of steps, or a fraction of the run below 1.0")
    decay: float = Field(0.1, ge=0, le=1, description="wsd: the last fraction of the run, over which the rate falls")
    final_lr_ratio: float = Field(0.0, ge=0, le=1, description="the rate at the end of the decay, relative to the peak")
    layer_decay: float = Field(1.0, gt=0, le=1, description="learning rate of a layer relative to the one above it")
    head_lr: float = Field(1.0, gt=0, description="learning rate of task heads, relative to the encoder's")

    optimizer: Literal["adamw", "adam", "adamax", "muon"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    matrix_lr: float = Field(1.0, gt=0, description="muon: learning rate of the layers' matrices, relative to the rest")
    decay_vectors: bool = Field(False, description="decay biases and norms too, as fairseq does; matrices always are")
    clip: float = Field(1.0, ge=0, description="largest norm of the whole gradient; 0 does not clip")
    spike: float = Field(0.0, ge=0, description="skip a step whose gradient norm is so many times the usual; 0: none")
    max_skipped: int = Field(20, ge=1, description="give up after this many skipped steps in a row")

    precision: Literal["auto", "fp32", "bf16"] = "auto"
    compile: Literal["auto", "on", "off"] = "auto"

    log_every: int = Field(10, ge=1)
    eval_every: int | None = Field(None, ge=1, description="steps between evaluations; only at the end when left out")
    patience: int | None = Field(None, ge=1, description="stop after this many evaluations without a better one")
    checkpoint_every: int = runtime(500, ge=0, description="steps between checkpoints; 0 writes none")
    keep: int = runtime(2, ge=1, description="checkpoints kept; two outlive the loss of one")

    parallel: Literal["ddp", "fsdp"] = runtime(
        "ddp", description="several processes: a whole copy on each GPU, or fsdp: weights and optimiser state in shards"
    )
    device: str = runtime("auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    threads: int | None = runtime(None, ge=1, description="CPU threads; what torch chooses when left out")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if isinstance(self.warmup, float) and self.warmup >= 1:
            raise ValueError(f"warmup = {self.warmup} is a fraction of the run; write a whole number for steps")
        if self.budget is not None:
            Budget.parse(self.budget)
            if self.steps is not None:
                raise ValueError("steps and budget both say when to end; give one of them")
        if self.patience is not None and self.eval_every is None and not self.evaluates_each_epoch:
            raise ValueError("patience counts evaluations; set eval_every too")
        if self.parallel == "fsdp" and self.optimizer == "muon":
            raise ValueError(
                "muon needs whole matrices, which fsdp has nowhere; use parallel = 'ddp' or another optimizer"
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError("betas must be at least 0 and below 1")
        return self
