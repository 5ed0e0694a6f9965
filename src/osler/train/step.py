"""One optimiser step: load micro-batches, accumulate gradients, clip, step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils import clip_grads_with_norm_

from osler.core.seeding import derive
from osler.train.optim import Optimiser
from osler.train.parallel import Holding, World
from osler.train.precision import Autocast
from osler.train.replay import Replay, repeatable
from osler.train.source import Batch, BatchSource, LossOutput, move, pin
from osler.train.stats import StepSums

if TYPE_CHECKING:
    from osler.train.config import TrainConfig


@dataclass(frozen=True)
class LoadedStep:
    """A micro-batch in memory: its place in the step, and whether it counts or only keeps a rank in time."""

    index: int
    batch: Batch
    counts: bool


class Stepper:
    """Turns micro-batches into updates; the same update for any number of processes, up to the order of additions."""

    def __init__(
        self,
        holding: Holding,
        source: BatchSource,
        optimiser: Optimiser,
        tally: StepSums,
        config: TrainConfig,
        world: World,
        device: torch.device,
    ) -> None:
        self._source = source
        self._optimiser = optimiser
        self._tally = tally
        self._config = config
        self._world = world
        self._device = device
        self._autocast = Autocast(config, device)
        self._holding = holding
        self._runner = holding.runner(static=getattr(source, "static_shapes", False))
        # Several processes exchange gradients inside a pass, and compiled code has no need of it.
        plain = device.type == "cuda" and world.size == 1 and config.compile == "auto"
        self._replay = Replay(self._pass, holding.trained, device) if plain else None

    def load(self, index: int) -> list[LoadedStep]:
        """This rank's micro-batches of a step; called ahead of time, in a background thread."""
        loaded = []
        for share in self._world.share(self._source.step(index)):
            batch = self._source.load(share.ref)
            if self._device.type == "cuda":
                batch = Batch(pin(batch.payload), batch.weight, batch.tokens)
            loaded.append(LoadedStep(share.index, batch, share.counts))
        return loaded

    def update(self, index: int, micro_batches: list[LoadedStep], rate_factor: float) -> None:
        """Do optimiser step `index`, unless its loss or gradient is not finite, or the gradient is a spike."""
        weight, scale = self._weigh(micro_batches)
        loss = torch.zeros((), dtype=torch.float64, device=self._device)
        for place, loaded in enumerate(micro_batches):
            self._reseed(index, loaded.index)
            payload, last = loaded.batch.payload, place == len(micro_batches) - 1
            if self._replay is not None and repeatable(payload):
                output = self._replay(payload, scale)
            else:
                output = self._pass(move(payload, self._device), scale if loaded.counts else 0.0, last=last)
            if loaded.counts:
                loss += output.loss_sum
                self._tally.note(output.logs, loaded.batch.tokens)
        norm = self._clip()
        self._world.sum(loss)
        # The same on all ranks, since loss and gradients are: they skip together.
        bad = ~(torch.isfinite(loss) & torch.isfinite(norm))
        if self._config.spike:
            bad |= self._tally.spike(norm, self._config.spike)
        self._optimiser.set_rate(rate_factor)
        self._optimiser.step(bad)
        self._optimiser.zero_grad()
        self._tally.add(loss, weight, norm, bad)

    def _pass(self, payload: Any, scale: torch.Tensor | float, *, last: bool = True) -> LossOutput:
        """The forward and backward pass of one micro-batch; nothing that it returns keeps the pass itself alive."""
        with self._holding.micro_batch(last=last):
            with self._autocast.context():
                output: LossOutput = self._runner(payload)
            self._holding.backward(output.loss_sum * scale, last=last)
        return LossOutput(output.loss_sum.detach(), output.logs)

    def _weigh(self, micro_batches: list[LoadedStep]) -> tuple[torch.Tensor | float, torch.Tensor | float]:
        """The weight of the step over all ranks, and what to multiply a loss sum with.

        Gradients are averaged over ranks, so the scale makes up for their number.
        """
        own = float(sum(loaded.batch.weight for loaded in micro_batches if loaded.counts))
        if self._world.size == 1:
            return own, 1.0 / own if own else 0.0
        weight = self._world.sum(torch.tensor(own, dtype=torch.float64, device=self._device))
        scale = torch.where(weight > 0, self._world.size / weight, 0.0)
        return weight, scale.to(torch.float32)

    def _reseed(self, step: int, index: int) -> None:
        """Make what dropout draws depend on the place in the run alone, not on what any process drew before."""
        seed = derive(self._config.seed, "micro-batch", step, index) >> 1
        torch.default_generator.manual_seed(seed)
        if self._device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _clip(self) -> torch.Tensor:
        """The norm of the whole gradient, before it is cut to the largest allowed."""
        gradients = [parameter.grad for parameter in self._optimiser.parameters if parameter.grad is not None]
        norm = self._holding.norm(gradients)
        if self._config.clip:
            clip_grads_with_norm_(self._optimiser.parameters, self._config.clip, norm)
        return norm.to(self._device)
