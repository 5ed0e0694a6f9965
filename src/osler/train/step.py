"""One optimiser step: load micro-batches, accumulate gradients, clip, update."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils import clip_grads_with_norm_

from osler.core.seeding import derive
from osler.train.optim import Optimiser
from osler.train.parallel import Strategy, World, layers
from osler.train.precision import Autocast, CompiledLayers
from osler.train.replay import Replay
from osler.train.source import Batch, BatchSource, LossOutput, move, pin
from osler.train.stats import StepSums

if TYPE_CHECKING:
    from osler.train.config import TrainConfig

_LONG = 8_000
"""Steps from which compiling the layers pays on a GPU. On an H200 it took 18 seconds and saved 2 ms per step."""


@dataclass(frozen=True)
class LoadedBatch:
    """A micro-batch in memory, its index in the step, and whether it counts or only keeps a rank busy."""

    index: int
    batch: Batch
    counts: bool


class Stepper:
    """Runs optimiser steps on micro-batches, equal for any number of processes up to the order of additions."""

    def __init__(
        self,
        strategy: Strategy,
        source: BatchSource,
        optimiser: Optimiser,
        sums: StepSums,
        config: TrainConfig,
        world: World,
        device: torch.device,
    ) -> None:
        self._strategy = strategy
        self._source = source
        self._optimiser = optimiser
        self._sums = sums
        self._config = config
        self._world = world
        self._device = device
        self._autocast = Autocast(config, device)
        static = getattr(source, "static_shapes", False)
        self._model = strategy.runner(static=static)
        # Several processes exchange gradients inside a pass, and a model compiled as a whole needs no recording.
        compiles = config.compile in ("auto", "layers")
        records = device.type == "cuda" and world.size == 1 and compiles and not static
        self._replay = Replay(self._recorded_pass, strategy.trained, device) if records else None
        pays = records and (config.compile == "layers" or (config.steps or len(source)) >= _LONG)
        self._compiled = CompiledLayers(layers(strategy.trained)) if pays else nullcontext

    def load(self, index: int) -> list[LoadedBatch]:
        """Load this rank's micro-batches of a step; called ahead of time, in a background thread."""
        loaded = []
        for place, ref, counts in self._world.share(self._source.step(index)):
            batch = self._source.load(ref)
            if self._device.type == "cuda":
                batch = Batch(pin(batch.payload), batch.weight, batch.tokens)
            loaded.append(LoadedBatch(place, batch, counts))
        return loaded

    def step(self, index: int, micro_batches: list[LoadedBatch], lr_factor: float) -> None:
        """Do optimiser step `index`, unless its loss or gradient is not finite, or the gradient is a spike."""
        weight, scale = self._weigh(micro_batches)
        loss = torch.zeros((), dtype=torch.float64, device=self._device)
        for place, loaded in enumerate(micro_batches):
            # Dropout depends only on the position in the run, not on what any process drew before.
            seed = derive(self._config.seed, "micro-batch", index, loaded.index) >> 1
            torch.default_generator.manual_seed(seed)
            if self._device.type == "cuda":
                torch.cuda.manual_seed(seed)
            payload, last = loaded.batch.payload, place == len(micro_batches) - 1
            if self._replay is not None and getattr(payload, "repeatable", False):
                output = self._replay(payload, scale)
            else:
                output = self._pass(move(payload, self._device), scale if loaded.counts else 0.0, last=last)
            if loaded.counts:
                loss += output.loss_sum
                self._sums.note(output.logs, loaded.batch.tokens)

        parameters = self._optimiser.parameters
        norm = self._strategy.norm([parameter.grad for parameter in parameters if parameter.grad is not None])
        if self._config.clip:
            clip_grads_with_norm_(parameters, self._config.clip, norm)
        norm = norm.to(self._device)
        self._world.sum(loss)
        # Loss and gradients are the same on all ranks, so all ranks skip the same steps.
        bad = ~(torch.isfinite(loss) & torch.isfinite(norm))
        if self._config.spike:
            bad |= self._sums.spike(norm, self._config.spike)
        self._optimiser.set_lr(lr_factor)
        self._optimiser.step(bad)
        self._optimiser.zero_grad()
        self._sums.add(loss, weight, norm, bad)

    def _pass(self, payload: Any, scale: torch.Tensor | float, *, last: bool = True) -> LossOutput:
        """Run the forward and backward pass of one micro-batch; the result holds no reference to the graph."""
        with self._strategy.micro_batch(last=last):
            with self._autocast.context():
                output: LossOutput = self._model(payload)
            self._strategy.backward(output.loss_sum * scale, last=last)
        return LossOutput(output.loss_sum.detach(), output.logs)

    def _recorded_pass(self, payload: Any, scale: torch.Tensor | float) -> LossOutput:
        with self._compiled():
            return self._pass(payload, scale)

    def _weigh(self, micro_batches: list[LoadedBatch]) -> tuple[torch.Tensor | float, torch.Tensor | float]:
        """Return the weight of the step over all ranks, and the factor that turns a loss sum into its share of the mean.

        Gradients are averaged over ranks, so the factor includes the number of ranks.
        """
        own = float(sum(loaded.batch.weight for loaded in micro_batches if loaded.counts))
        if self._world.size == 1:
            return own, 1.0 / own if own else 0.0
        weight = self._world.sum(torch.tensor(own, dtype=torch.float64, device=self._device))
        scale = torch.where(weight > 0, self._world.size / weight, 0.0)
        return weight, scale.to(torch.float32)
