"""Training in one process, or in several under torchrun as DDP replicas or FSDP2 shards."""

from __future__ import annotations

import atexit
import copy
import gc
import importlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import get_total_norm

from osler.core.errors import RecipeError
from osler.core.logs import get_logger
from osler.train.checkpoint import module_tensors
from osler.train.precision import choose_device, compiled, worth_compiling

if TYPE_CHECKING:
    from osler.train.config import TrainConfig

log = get_logger("osler.train")

T = TypeVar("T")

_CPU = torch.device("cpu")

# The other ranks wait while rank 0 evaluates, far longer than a collective normally takes.
_TIMEOUT = timedelta(hours=4)


@dataclass(frozen=True)
class World:
    """The processes that train together; a world of one needs no communication."""

    rank: int = 0
    size: int = 1

    @property
    def main(self) -> bool:
        """Whether this process writes files and evaluates."""
        return self.rank == 0

    def share(self, refs: Sequence[Any]) -> list[tuple[int, Any, bool]]:
        """Return this rank's micro-batches of a step: index in the step, reference, and whether it counts.

        All ranks get the same number. Extra ones repeat earlier ones and do not count.
        """
        if not refs:
            raise ValueError("a step without micro-batches")
        passes = -(-len(refs) // self.size)
        indices = (self.rank + turn * self.size for turn in range(passes))
        return [(index, refs[index % len(refs)], index < len(refs)) for index in indices]

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sum a tensor over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks in rank order."""
        values: list[Any] = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values

    def broadcast(self, value: T) -> T:
        """Return rank 0's value on all ranks."""
        values = [value]
        if self.size > 1:
            dist.broadcast_object_list(values, src=0)
        return values[0]

    def spread(self, tensors: Iterable[torch.Tensor]) -> None:
        """Copy rank 0's tensors to all ranks, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)


def world_size() -> int:
    """Return the number of processes that torchrun started, or 1 without torchrun.

    Raises an error if only some of torchrun's variables are set, as by some batch systems: the processes would never find each other.
    """
    text = os.environ.get("WORLD_SIZE", "1")
    needed = ("RANK", "MASTER_ADDR", "MASTER_PORT") if text != "1" else ()
    missing = [name for name in needed if name not in os.environ]
    if not text.isdecimal() or missing:
        why = f"{missing[0]} is not set" if missing else "that is not a number"
        raise RecipeError(
            f"the environment says WORLD_SIZE={text}, but {why}",
            fix="Start several processes with torchrun --nproc-per-node N -m osler, or unset WORLD_SIZE for one process",
        )
    return int(text)


def join_world(device_name: str) -> tuple[World, torch.device]:
    """Join the world that torchrun describes in the environment, or a world of one; return it and this process's device."""
    size = world_size()
    if size == 1:
        return World(), choose_device(device_name)
    world = World(int(os.environ["RANK"]), size)
    device = choose_device(device_name, int(os.environ.get("LOCAL_RANK", "0")))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        # DDP imports this module, whose default arguments would keep the group alive; its threads would then abort the
        # interpreter's shutdown. Imported before the group exists, they keep nothing alive.
        importlib.import_module("torch.distributed.nn.functional")
        # Once per process: rejoining a group would find its old addresses in torchrun's store and hang.
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_TIMEOUT)
        atexit.register(dist.destroy_process_group)
    return world, device


def abandon_world() -> None:
    """After a failure, exit without waiting for ranks that wait for this one; torchrun ends them."""
    if dist.is_initialized() and dist.get_backend() == "nccl":
        atexit.unregister(dist.destroy_process_group)


def choose_strategy(module: nn.Module, config: TrainConfig, world: World, device: torch.device) -> Strategy:
    """Place a module on the device for one process, DDP or FSDP."""
    if world.size > 1 and config.parallel == "fsdp":
        return Sharded(module, config, world, device)
    kind = Strategy if world.size == 1 else Replicated
    return kind(module.to(device), config, world, device)


class Strategy:
    """How ranks train a module together. The base class is for one process and trains the caller's module itself."""

    def __init__(self, module: nn.Module, config: TrainConfig, world: World, device: torch.device) -> None:
        self.full = module
        """The caller's module; up to date after `gather`."""
        self.trained = module
        """The module whose parameters the optimiser changes, under the same names."""
        self._config = config
        self._world = world
        self._device = device

    def runner(self, *, static: bool) -> nn.Module:
        """Return the module to call in training, compiled where that pays. `static` means that all batches have one shape."""
        return compiled(self.trained, self._config, self._device, static=static)

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        """Return the context of a forward and backward pass. Ranks exchange gradients in the last pass of a step."""
        return nullcontext()

    def backward(self, loss: torch.Tensor, *, last: bool) -> None:
        """Run the backward pass. After the last one of a step, gradients are averaged over all ranks."""
        loss.backward()  # type: ignore[no-untyped-call]

    def norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        """Return the norm of the full gradient, the same on every rank."""
        return get_total_norm(gradients)

    def gather(self) -> None:
        """Bring the caller's module up to date; all ranks take part."""

    def scatter(self) -> None:
        """Continue from the weights in rank 0's `full`; all ranks take part."""

    def gathered(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Return the optimiser state as full tensors on rank 0; all ranks take part."""
        return state

    def scattered(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Return this rank's part of a full optimiser state; all ranks take part."""
        return state

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Inside the context, rank 0's `full` is up to date and on the device."""
        yield

    def release(self) -> None:
        """End training, leaving `full` up to date and on the device on every rank."""


class Replicated(Strategy):
    """DDP: a full copy on every rank, with gradients averaged at the end of a step."""

    _replica: DistributedDataParallel

    def runner(self, *, static: bool) -> nn.Module:
        """Wrap the module in DDP, which gives all ranks the weights of rank 0.

        A module that uses every trainable parameter in every pass can set `uses_every_parameter = True`, which saves the search for
        unused ones. A module with several heads must not.
        """
        self._replica = DistributedDataParallel(
            self.trained,
            device_ids=[self._device.index] if self._device.type == "cuda" else None,
            find_unused_parameters=not getattr(self.trained, "uses_every_parameter", False),
        )
        # Buffers are constant. Set as an attribute, because the argument's name depends on the torch version.
        self._replica.broadcast_buffers = False
        return compiled(self._replica, self._config, self._device, static=static)

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        return nullcontext() if last else self._replica.no_sync()


class Sharded(Strategy):
    """FSDP2: every rank holds a shard of weights and optimiser state."""

    def __init__(self, module: nn.Module, config: TrainConfig, world: World, device: torch.device) -> None:
        super().__init__(module.to(_CPU), config, world, device)
        self.trained = copy.deepcopy(module).to(device)
        self._every = getattr(module, "uses_every_parameter", False)
        self._layers = layers(self.trained)
        _check(self.trained, self._layers)
        mesh = _mesh(device.type, world.size)
        for layer in self._layers:
            fully_shard(layer, mesh=mesh)
        # Parameters outside the layers are needed again as soon as the backward pass begins.
        fully_shard(self.trained, mesh=mesh, reshard_after_forward=False)
        self.scatter()
        if world.main:
            log.event("train.sharded", ranks=world.size, layers=len(self._layers))

    def runner(self, *, static: bool) -> nn.Module:
        """Compile layer by layer, because weights are gathered and freed between layers."""
        if worth_compiling(self._config, self._device, static=static):
            for layer in self._layers:
                layer.compile()
        return self.trained

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        cast(FSDPModule, self.trained).set_requires_gradient_sync(last)
        return nullcontext()

    def backward(self, loss: torch.Tensor, *, last: bool) -> None:
        """Run the backward pass, even if ranks used different parameters outside the layers, such as different heads.

        Ranks exchange the gradients of those parameters in one piece, so each rank needs all of them, if only as zeros. Parameters that
        no rank used end up without a gradient, as in one process, so the optimiser does not update them.
        """
        if self._every or not last:
            loss.backward()  # type: ignore[no-untyped-call]
            return
        # Outside the layers, parameters are unsharded between the two passes.
        unsharded = {
            name: parameter
            for name, parameter in self.trained.named_parameters()
            if parameter.requires_grad and not isinstance(parameter, DTensor)
        }
        used = {name: parameter.grad is not None for name, parameter in unsharded.items()}
        hooks = []

        def mark_used(name: str, _: torch.Tensor) -> None:
            used[name] = True

        for name, parameter in unsharded.items():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
                hook = parameter.register_post_accumulate_grad_hook(partial(mark_used, name))  # type: ignore[no-untyped-call]
                hooks.append(hook)
        loss.backward()  # type: ignore[no-untyped-call]
        for hook in hooks:
            hook.remove()
        counts = self._world.sum(torch.tensor([float(flag) for flag in used.values()], device=self._device)).tolist()
        shards = dict(self.trained.named_parameters())
        for name, count in zip(used, counts, strict=True):
            if not count:
                shards[name].grad = None

    def norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        return _full(get_total_norm(gradients))

    @torch.no_grad()
    def gather(self) -> None:
        full = module_tensors(self.full)
        for name, shard in module_tensors(self.trained).items():
            full[name].copy_(_full(shard))

    @torch.no_grad()
    def scatter(self) -> None:
        full = module_tensors(self.full)
        for name, shard in module_tensors(self.trained).items():
            shard.copy_(_shard_like(shard, full[name]))
            if not isinstance(shard, DTensor):
                self._world.spread([shard])

    def gathered(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Gather one tensor at a time, and keep them on rank 0 only."""
        found = {}
        for name in sorted(state):
            full = _full(state[name])
            if self._world.main:
                found[name] = full.to(_CPU)
        return found

    def scattered(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Shard each tensor like its parameter if the shapes match."""
        parameters = dict(self.trained.named_parameters())
        found = {}
        for key in sorted(state):
            value, parameter = state[key], parameters.get(key.partition("/")[2])
            fits = parameter is not None and parameter.shape == value.shape
            found[key] = _shard_like(cast(torch.Tensor, parameter), value) if fits else value
        return found

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Rank 0 evaluates alone on the full module, because evaluation may call any part of it."""
        self.gather()
        if self._world.main:
            self.full.to(self._device)
        yield
        self.full.to(_CPU)

    def release(self) -> None:
        self.gather()
        self.trained = self.full.to(self._device)


def layers(module: nn.Module) -> list[nn.Module]:
    """Return the modules to shard and gather as one unit: the members of module lists, inner ones first."""
    parts = list(module.modules())  # outer modules first
    members = {id(layer) for part in parts if isinstance(part, nn.ModuleList) for layer in part}
    return [
        part
        for part in reversed(parts)
        if id(part) in members
        and not isinstance(part, nn.ModuleList | nn.ModuleDict)  # containers are never called themselves
        and next(part.parameters(), None) is not None
    ]


def _check(module: nn.Module, units: list[nn.Module]) -> None:
    """Raise an error for a module that cannot be sharded, before changing anything."""
    fix = "Set train.parallel to 'ddp'"
    if not units:
        raise RecipeError("fsdp shards layer by layer, but this model has no list of layers", fix=fix)
    known = {id(unit) for unit in units}
    owners: dict[int, int] = {}

    def visit(part: nn.Module, unit: int, path: str) -> None:
        unit = id(part) if id(part) in known else unit
        for name, parameter in part.named_parameters(recurse=False):
            if parameter.ndim == 0:
                raise RecipeError(f"the parameter {path}{name} is a single number, which fsdp cannot shard", fix=fix)
            if owners.setdefault(id(parameter), unit) != unit:
                raise RecipeError(
                    f"{path}{name} is shared by two layers, but fsdp shards each layer on its own", fix=fix
                )
        for name, child in part.named_children():
            visit(child, unit, f"{path}{name}.")

    visit(module, id(module), "")


@cache
def _mesh(device_type: str, size: int) -> DeviceMesh:
    mesh = init_device_mesh(device_type, (size,))
    atexit.register(_release_mesh, mesh)  # runs before destroy_process_group, which was registered earlier
    return mesh


def _release_mesh(mesh: DeviceMesh) -> None:
    """Drop references to the group, whose threads would otherwise outlive it and abort the interpreter's shutdown."""
    getattr(mesh, "_pg_registry", {}).clear()  # torch's caches of sharded operations keep the mesh alive
    gc.collect()  # shards and the objects that gather them form reference cycles


def _full(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _shard_like(shard: torch.Tensor, full: torch.Tensor) -> torch.Tensor:
    """Return this rank's shard of rank 0's tensor."""
    full = full.to(shard.device)
    return distribute_tensor(full, shard.device_mesh, shard.placements) if isinstance(shard, DTensor) else full
