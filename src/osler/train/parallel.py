"""One process or several under torchrun: DDP replicas or FSDP2 shards."""

from __future__ import annotations

import atexit
import copy
import gc
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from osler.train.precision import compiled, worth_compiling

if TYPE_CHECKING:
    from osler.train.config import TrainConfig

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

        return Sharded(module, config, world, device)
    kind = Holding if world.size == 1 else Replicated
    return kind(module.to(device), config, world, device)


log = get_logger("osler.train")

_CPU = torch.device("cpu")


class Sharded(Holding):
    """A shard on every rank."""

    def __init__(self, module: nn.Module, config: TrainConfig, world: World, device: torch.device) -> None:
        super().__init__(module.to(_CPU), config, world, device)
        self.trained = copy.deepcopy(module).to(device)
        self._every = getattr(module, "uses_every_parameter", False)
        self._layers = layers(self.trained)
        _check(self.trained, self._layers)
        mesh = _mesh(device.type, world.size)
        for layer in self._layers:
            fully_shard(layer, mesh=mesh)
        # What is no layer is needed again as soon as the backward pass begins.
        fully_shard(self.trained, mesh=mesh, reshard_after_forward=False)
        self.scatter()
        if world.main:
            log.event("train.sharded", ranks=world.size, layers=len(self._layers))

    def runner(self, *, static: bool) -> nn.Module:
        """The sharded module; layers are compiled one by one, since weights arrive and leave between them."""
        if worth_compiling(self._config, self._device, static=static):
            for layer in self._layers:
                layer.compile()
        return self.trained

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        """Exchange nothing before the last pass."""
        cast(FSDPModule, self.trained).set_requires_gradient_sync(last)
        return nullcontext()

    def backward(self, loss: torch.Tensor, *, last: bool) -> None:
        """The backward pass; ranks may have used different parts of what is no layer, such as heads.

        Ranks exchange the gradients of such parts in one piece, so each must have all of them, if only zeros. What no rank used
        has none in the end, as in one process: the optimiser must not move it.
        """
        if self._every or not last:
            loss.backward()  # type: ignore[no-untyped-call]
            return
        # Between the passes these are whole, and those of the layers are not.
        whole = {
            name: parameter
            for name, parameter in self.trained.named_parameters()
            if parameter.requires_grad and not isinstance(parameter, DTensor)
        }
        used = {name: parameter.grad is not None for name, parameter in whole.items()}
        hooks = []
        for name, parameter in whole.items():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
                note = partial(_note, used, name)
                hooks.append(parameter.register_post_accumulate_grad_hook(note))  # type: ignore[no-untyped-call]
        loss.backward()  # type: ignore[no-untyped-call]
        for hook in hooks:
            hook.remove()
        counts = self._world.sum(torch.tensor([float(flag) for flag in used.values()], device=self._device)).tolist()
        shards = dict(self.trained.named_parameters())
        for name, count in zip(used, counts, strict=True):
            if not count:
                shards[name].grad = None

    def norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        """The norm over all shards, the same on every rank."""
        return _whole(get_total_norm(gradients))

    @torch.no_grad()
    def gather(self) -> None:
        """Copy the weights into the whole module of every rank."""
        whole = module_tensors(self.whole)
        for name, shard in module_tensors(self.trained).items():
            whole[name].copy_(_whole(shard))

    @torch.no_grad()
    def scatter(self) -> None:
        """Give every rank its shards of the first one's whole module."""
        whole = module_tensors(self.whole)
        for name, shard in module_tensors(self.trained).items():
            shard.copy_(_shard_like(shard, whole[name]))
            if not isinstance(shard, DTensor):
                self._world.spread([shard])

    def gathered(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """One tensor after the other, which only the first rank keeps."""
        found = {}
        for name in sorted(state):
            whole = _whole(state[name])
            if self._world.main:
                found[name] = whole.to(_CPU)
        return found

    def scattered(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """What has the shape of its parameter is sharded like it."""
        parameters = dict(self.trained.named_parameters())
        found = {}
        for key in sorted(state):
            value, parameter = state[key], parameters.get(key.partition("/")[2])
            fits = parameter is not None and parameter.shape == value.shape
            found[key] = _shard_like(cast(torch.Tensor, parameter), value) if fits else value
        return found

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Evaluation may call any part of the module, so the first rank does it alone on a whole one, as it does elsewhere."""
        self.gather()
        if self._world.main:
            self.whole.to(self._device)
        yield
        self.whole.to(_CPU)

    def release(self) -> None:
        """Gather a last time and drop the shards."""
        self.gather()
        self.trained = self.whole.to(self._device)


def layers(module: nn.Module) -> list[nn.Module]:
    """What is sharded, and gathered for a pass, as one piece: the members of module lists, inner ones first."""
    parts = list(module.modules())  # a module before those inside it
    members = {id(layer) for part in parts if isinstance(part, nn.ModuleList) for layer in part}
    return [
        part
        for part in reversed(parts)
        if id(part) in members
        and not isinstance(part, nn.ModuleList | nn.ModuleDict)  # never called themselves, only what they hold
        and next(part.parameters(), None) is not None
    ]


def _check(module: nn.Module, pieces: list[nn.Module]) -> None:
    """Refuse what cannot be sharded, before anything is."""
    fix = "Set train.parallel to 'ddp'"
    if not pieces:
        raise RecipeError("fsdp shards layer by layer, and this model has no list of layers", fix=fix)
    known = {id(piece) for piece in pieces}
    owners: dict[int, int] = {}

    def visit(part: nn.Module, piece: int, path: str) -> None:
        piece = id(part) if id(part) in known else piece
        for name, parameter in part.named_parameters(recurse=False):
            if parameter.ndim == 0:
                raise RecipeError(f"the parameter {path}{name} is a single number, which fsdp cannot shard", fix=fix)
            if owners.setdefault(id(parameter), piece) != piece:
                raise RecipeError(f"{path}{name} is shared by two layers, which fsdp shards one by one", fix=fix)
        for name, child in part.named_children():
            visit(child, piece, f"{path}{name}.")

    visit(module, id(module), "")


@cache
def _mesh(device_type: str, size: int) -> DeviceMesh:
    """All ranks in a row."""
    mesh = init_device_mesh(device_type, (size,))
    atexit.register(_let_go, mesh)  # after the group's own end was registered, so before it comes
    return mesh


def _let_go(mesh: DeviceMesh) -> None:
    """Drop what still holds the group: its threads would outlive their destruction and abort the interpreter's shutdown."""
    getattr(mesh, "_pg_registry", {}).clear()  # torch's caches of sharded operations keep the mesh
    gc.collect()  # shards and what gathers them refer to each other


def _note(used: dict[str, bool], name: str, _: torch.Tensor) -> None:
    used[name] = True


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _shard_like(shard: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """This rank's shard of the first rank's tensor."""
    whole = whole.to(shard.device)
    return distribute_tensor(whole, shard.device_mesh, shard.placements) if isinstance(shard, DTensor) else whole
