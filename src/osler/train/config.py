"""Settings of one training run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from osler.core.config import Recipe, runtime

Precision = Literal["auto", "fp32", "bf16"]
"""Precision of arithmetic; auto is bf16 on a GPU that supports it, fp32 on a CPU."""

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_WORK = re.compile(r"(\d+(?:\.\d+)?(?:e\+?\d+)?)\s*flops?", re.IGNORECASE)


@dataclass(frozen=True)
class Budget:
    """Limit of a run, either a time or an amount of work. Exactly one field is set."""

    seconds: float | None = None
    flops: float | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Parse a budget such as `25m`, `1h30m`, `90s` or `1e18flop`."""
        written = text.strip().replace(" ", "")
        if work := _WORK.fullmatch(written):
            budget = cls(flops=float(work[1]))
        elif written and (time := _TIME.fullmatch(written)):
            budget = cls(
                seconds=sum(float(part) * _UNITS[unit] for part, unit in zip(time.groups(), "hms", strict=True) if part)
            )
        else:
            raise ValueError(f"budget must be a time such as 25m or 1h30m, or work such as 1e18flop, got {text!r}")
        if not (budget.seconds or budget.flops):
            raise ValueError("budget must be greater than 0")
        return budget


class TrainConfig(Recipe):
    """How to train: steps, optimiser, schedule, precision, and when to log, evaluate and checkpoint."""

    evaluates_each_epoch: ClassVar[bool] = False
    """Whether the stage evaluates after each epoch if `eval_every` is not set."""
    retired: ClassVar[Mapping[str, Any]] = {"matrix_lr": 1.0, "max_skipped": 20}

    steps: int | None = Field(None, ge=1, description="optimiser steps; as many as the data source plans when left out")
    budget: str | None = Field(
        None, description="instead of steps: a time such as 25m or 1h30m, or work such as 1e18flop"
    )
    seed: int = Field(1, ge=0, description="seed of new weights, the order of batches and dropout")

    lr: float = Field(5e-5, gt=0, description="peak learning rate")
    schedule: Literal["linear", "constant", "wsd", "root"] = Field(
        "linear",
        description="after the warm-up; wsd is flat, then falls; root falls with the square root of the steps left",
    )
    warmup: int | float = Field(0, ge=0, description="a number of steps, or a fraction of the run below 1.0")
    decay: float = Field(
        0.1, ge=0, le=1, description="wsd: the last fraction of the run, where the learning rate falls"
    )
    final_lr_ratio: float = Field(0.0, ge=0, le=1, description="learning rate at the end, relative to the peak")
    layer_decay: float = Field(1.0, gt=0, le=1, description="learning rate of a layer relative to the one above it")
    head_lr: float = Field(1.0, gt=0, description="learning rate of task heads, relative to the encoder's")

    optimizer: Literal["adamw", "adamax", "muon", "lamb"] = Field(
        "adamw", description="all use decoupled weight decay, which lamb scales by layer"
    )
    betas: tuple[float, float] = Field((0.9, 0.999), description="decay rates of Adam's two moving averages")
    eps: float = Field(1e-8, gt=0, description="added to Adam's denominator")
    weight_decay: float = Field(0.01, ge=0, description="per step, times the learning rate")
    decay_vectors: bool = Field(False, description="decay biases and norms too, as fairseq does; matrices always are")
    clip: float = Field(1.0, ge=0, description="largest gradient norm; 0: no clipping")
    spike: float = Field(0.0, ge=0, description="skip a step if its gradient norm is this many times the usual; 0: off")

    precision: Precision = Field("auto", description="auto: bf16 on a GPU, fp32 on a CPU")
    compile: Literal["auto", "layers", "on", "off"] = Field(
        "auto", description="torch.compile; auto: where it pays; layers: the layers in short runs on a GPU too"
    )

    log_every: int = Field(10, ge=1, description="steps between log lines")
    eval_every: int | None = Field(None, ge=1, description="steps between evaluations; only at the end when left out")
    patience: int | None = Field(None, ge=1, description="stop after this many evaluations without a better one")
    checkpoint_every: int = runtime(500, ge=0, description="steps between checkpoints; 0: none")

    parallel: Literal["ddp", "fsdp"] = runtime(
        "ddp", description="several GPUs: ddp keeps a full copy on each, fsdp shards weights and optimiser state"
    )
    device: str = runtime("auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$", description="auto, cpu, cuda or cuda:N")
    threads: int | None = runtime(None, ge=1, description="CPU threads; torch's choice when left out")

    @model_validator(mode="before")
    @classmethod
    def _read_older_recipes(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        values = dict(values)
        if values.get("optimizer") == "adam":  # "adam" always meant AdamW
            values["optimizer"] = "adamw"
        if values.pop("keep", 2) != 2:  # a runtime setting: not in `retired`, which is part of the identity
            raise ValueError("keep is no longer a setting; the newest two checkpoints are always kept")
        return values

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if isinstance(self.warmup, float) and self.warmup >= 1:
            raise ValueError(f"warmup = {self.warmup} is a fraction of the run; use a whole number for steps")
        if self.budget is not None:
            Budget.parse(self.budget)
            if self.steps is not None:
                raise ValueError("steps and budget both set the end of the run; give one of them")
        if self.patience is not None and self.eval_every is None and not self.evaluates_each_epoch:
            raise ValueError("patience counts evaluations; set eval_every too")
        if self.parallel == "fsdp" and self.optimizer in ("muon", "lamb"):
            raise ValueError(f"{self.optimizer} needs unsharded matrices; use parallel = 'ddp' or another optimizer")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError("betas must be at least 0 and below 1")
        return self
