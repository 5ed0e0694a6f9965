"""How the processes of a run hold the module they train: one process alone, a whole copy each (DDP), or a shard each (FSDP2).

The caller's module stays an ordinary one throughout. Evaluation, checkpoints and the result are read from it, so they are the
same files and the same calls for any number of processes and either way of holding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import get_total_norm

from osler.train.distributed import World
from osler.train.precision import compiled

if TYPE_CHECKING:
    from osler.train.config import TrainConfig


class Holding:
    """One process: the caller's module is the one that is trained."""

    def __init__(self, module: nn.Module, config: TrainConfig, world: World, device: torch.device) -> None:
        self.whole = module
        """The caller's module; up to date after `gather`."""
        self.trained = module
        """The module whose parameters the optimiser moves; they have the same names."""
        self._config = config
        self._world = world
        self._device = device

    def runner(self, *, static: bool) -> nn.Module:
        """What is called in training, compiled where that pays; `static`: all batches have one shape."""
        return compiled(self.trained, self._config, self._device, static=static)

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        """Around a forward and backward pass; ranks exchange gradients in the last one of a step."""
        return nullcontext()

    def backward(self, loss: torch.Tensor, *, last: bool) -> None:
        """The backward pass; after the last one of a step gradients are those of all ranks, averaged."""
        loss.backward()  # type: ignore[no-untyped-call]

    def norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        """The norm of the whole gradient."""
        return get_total_norm(gradients)

    def gather(self) -> None:
        """Bring the caller's module up to date; all ranks take part."""

    def scatter(self) -> None:
        """Train on from the weights in the first rank's whole module; all ranks take part."""

    def gathered(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Optimiser state as whole tensors, on the rank that writes; all ranks take part."""
        return state

    def scattered(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Optimiser state as this holding's optimiser keeps it; all ranks take part."""
        return state

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Inside, the first rank's whole module is up to date and on the device."""
        yield

    def release(self) -> None:
        """Training is over: the whole module is up to date, and on the device on every rank."""


class Replicated(Holding):
    """A whole copy on every rank; gradients are averaged at the end of a step."""

    _replica: DistributedDataParallel

    def runner(self, *, static: bool) -> nn.Module:
        """The module in DDP, which gives all ranks the first one's weights.

        A module whose every pass touches every trainable parameter can say so with `uses_every_parameter = True` and
        spare the search for the others; one with several heads must not.
        """
        self._replica = DistributedDataParallel(
            self.trained,
            device_ids=[self._device.index] if self._device.type == "cuda" else None,
            find_unused_parameters=not getattr(self.trained, "uses_every_parameter", False),
        )
        # They are constants; as an argument its name depends on the torch version.
        self._replica.broadcast_buffers = False
        return compiled(self._replica, self._config, self._device, static=static)

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        """Exchange nothing before the last pass."""
        return nullcontext() if last else self._replica.no_sync()


def hold(module: nn.Module, config: TrainConfig, world: World, device: torch.device) -> Holding:
    """The module as the ranks of this run train it, on the device."""
    if world.size > 1 and config.parallel == "fsdp":
        # Here and not above: it takes a second to import.
        from osler.train.sharded import Sharded

        return Sharded(module, config, world, device)
    kind = Holding if world.size == 1 else Replicated
    return kind(module.to(device), config, world, device)
