"""Shards of the module on every rank (FSDP2): weights, gradients and optimiser state are divided by the number of GPUs.

A copy of the caller's module is sharded, layer by layer, and the caller's own stays whole in main memory: weights are
gathered into it, one parameter at a time, where they must be whole. A GPU sees the whole weights only at the start, at the
end and, the first one, for evaluation; never the whole optimiser state.
"""

from __future__ import annotations

import atexit
import copy
import gc
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, cast

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.utils import get_total_norm

from osler.core.errors import RecipeError
from osler.core.logs import get_logger
from osler.train.checkpoint import module_tensors
from osler.train.distributed import World
from osler.train.holding import Holding
from osler.train.precision import worth_compiling

if TYPE_CHECKING:
    from osler.train.config import TrainConfig

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
