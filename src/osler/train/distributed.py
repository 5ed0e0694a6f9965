"""One process or several under torchrun: who takes which micro-batch, and how they agree.

Rank r of n takes references r, r+n, r+2n, ... of a step. Where they do not divide evenly, a rank repeats one with
weight zero, so that all ranks make the same number of passes and the update stays that of a single process. Only rank 0
writes.
"""

from __future__ import annotations

import atexit
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed as dist

T = TypeVar("T")

# Other ranks wait while rank 0 evaluates: far longer than a collective normally may take.
_PATIENCE = timedelta(hours=4)


@dataclass(frozen=True)
class Share:
    """One micro-batch of a rank: its place among all of the step, its reference, and whether it counts."""

    index: int
    ref: Any
    counts: bool


@dataclass(frozen=True)
class World:
    """The processes that train together; a world of one needs no communication."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def main(self) -> bool:
        """Whether this process writes files and evaluates."""
        return self.rank == 0

    def share(self, refs: Sequence[Any]) -> list[Share]:
        """The micro-batches of a step that are this rank's."""
        if not refs:
            raise ValueError("a step without micro-batches")
        passes = -(-len(refs) // self.size)
        indices = (self.rank + turn * self.size for turn in range(passes))
        return [Share(index, refs[index % len(refs)], index < len(refs)) for index in indices]

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """Add a tensor up over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def gather(self, value: T) -> list[T]:
        """Everyone's value, in rank order."""
        values: list[Any] = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values

    def decide(self, function: Callable[[], T]) -> T:
        """Run `function` on rank 0 and give its result to all; the others wait."""
        answer = [function() if self.main else None]
        if self.size > 1:
            dist.broadcast_object_list(answer, src=0)
        return answer[0]  # type: ignore[return-value]

    def spread(self, tensors: Iterable[torch.Tensor]) -> None:
        """Copy rank 0's tensors to all ranks, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)


def join_world(choose_device: Callable[[int], torch.device]) -> tuple[World, torch.device]:
    """The world torchrun describes in the environment, or a world of one; and this process's device in it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World(), choose_device(0)
    world = World(int(os.environ["RANK"]), size, int(os.environ.get("LOCAL_RANK", "0")))
    device = choose_device(world.local_rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        # DDP imports this module, whose default arguments then hold on to the group: its threads would outlive their
        # destruction and abort the interpreter's shutdown. Imported before there is a group, they hold nothing.
        importlib.import_module("torch.distributed.nn.functional")
        # Once a process: a group that is left and joined again finds its old addresses in torchrun's store, and hangs.
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
        atexit.register(dist.destroy_process_group)
    return world, device


def abandon_world() -> None:
    """After a failure of this process: do not wait at exit for others that wait for it; torchrun ends them."""
    if dist.is_initialized() and dist.get_backend() == "nccl":
        atexit.unregister(dist.destroy_process_group)
