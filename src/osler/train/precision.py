"""Device, precision, compilation and peak speed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, get_args

import torch
from torch import nn

from osler.core.console import count_text
from osler.core.errors import RecipeError
from osler.nn.attention import keep_out_of_graphs
from osler.nn.layers import cpu_features, use_fast_products
from osler.train.config import Precision

if TYPE_CHECKING:
    from osler.train.config import TrainConfig


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device of a process; `auto` is its own GPU if there is one, else the CPU."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise RecipeError(f"unknown device {name!r}", fix="Set device to 'auto', 'cpu', 'cuda' or 'cuda:N'")
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if not count:
        raise RecipeError(f"device = {name!r}, but no CUDA device is available", fix="Set device to 'auto' or 'cpu'")
    device = torch.device(name) if ":" in name else torch.device("cuda", local_rank)
    if device.index >= count:
        there = "is one CUDA device: cuda:0" if count == 1 else f"are {count} CUDA devices: cuda:0 to cuda:{count - 1}"
        raise RecipeError(f"device = {str(device)!r}, but there {there}", fix="Set device to 'auto' or one of these")
    return device


def cpu_computes_bf16() -> bool:
    """Whether this CPU multiplies bf16 in hardware (AVX512-BF16, AMX or Arm)."""
    found = cpu_features()
    return any(found.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def chooses_bf16(precision: Precision, device: torch.device) -> bool:
    """Whether matrix products run in bf16 on a device; raises an error on a CPU that would emulate it."""
    if precision not in get_args(Precision):
        raise RecipeError(f"unknown precision {precision!r}", fix=f"Use {', '.join(get_args(Precision))}")
    on_gpu = device.type == "cuda"
    if precision == "bf16" and not on_gpu and not cpu_computes_bf16():
        raise RecipeError(
            "precision = 'bf16', but this CPU has no instructions for it and would be many times slower",
            fix="Set precision to 'auto'",
        )
    # On a CPU `auto` is fp32, so a recipe gives the same numbers on every CPU.
    return precision == "bf16" or (precision == "auto" and on_gpu and torch.cuda.is_bf16_supported())


class Autocast:
    """Mixed precision of a run. Enter `context()` around every forward pass."""

    def __init__(self, config: TrainConfig, device: torch.device) -> None:
        self.enabled = chooses_bf16(config.precision, device)
        self._device = device

    def context(self) -> AbstractContextManager[object]:
        return torch.autocast(self._device.type, dtype=torch.bfloat16) if self.enabled else nullcontext()


def worth_compiling(config: TrainConfig, device: torch.device, *, static: bool) -> bool:
    """Whether to compile; `auto` compiles on a GPU if all batches have one shape, because each new shape recompiles."""
    return config.compile == "on" or (config.compile != "off" and device.type == "cuda" and static)


def compiled(module: nn.Module, config: TrainConfig, device: torch.device, *, static: bool) -> nn.Module:
    """Compile a module if that pays; it shares its parameters with the original."""
    if worth_compiling(config, device, static=static):
        keep_out_of_graphs()
        return torch.compile(module)  # type: ignore[return-value]
    return module


class CompiledLayers:
    """Layers that run compiled inside a context, with one graph for all batch lengths, and uncompiled outside of it.

    A compiled layer launches about a third of the kernels, and on a fast GPU launching the kernels of a small batch costs more than
    running them. Evaluation stays uncompiled, because compiling it takes longer than it saves.
    """

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        keep_out_of_graphs()
        self._forwards = [(layer, torch.compile(layer.forward, dynamic=True)) for layer in layers]

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside the context, the layers are compiled; one that cannot be compiled on this machine runs as usual."""
        from torch._dynamo import config

        for layer, forward in self._forwards:
            layer.forward = forward
        try:
            with config.patch(suppress_errors=True):
                yield
        finally:
            for layer, _ in self._forwards:
                del layer.forward


@contextmanager
def cpu_threads(count: int | None) -> Iterator[None]:
    """Use `count` CPU threads inside the context; None changes nothing."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def matmul_peak(device: torch.device | str, *, seconds: float = 0.25, threads: int | None = None) -> float:
    """Measure FLOP/s of matrix products, best of several rounds, in bf16 on a GPU that supports it, else in fp32."""
    device = torch.device(device)
    cuda = device.type == "cuda"
    use_fast_products()
    size, repeats = (8192, 10) if cuda else (1024, 1)
    dtype = torch.bfloat16 if cuda and torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    # Random numbers, because a GPU multiplies zeros faster; from a separate generator, because runs depend on torch's.
    drawn = torch.Generator(device).manual_seed(0)
    left, right = (torch.randn(size, size, generator=drawn, device=device, dtype=dtype) for _ in range(2))
    best = 0.0
    with cpu_threads(threads):
        torch.matmul(left, right)  # the first call loads the library
        wait_for(device)
        began = last = time.perf_counter()
        while best == 0.0 or last - began < seconds:
            for _ in range(repeats):
                torch.matmul(left, right)
            wait_for(device)
            now = time.perf_counter()
            best = max(best, repeats * 2 * size**3 / (now - last))
            last = now
    return best


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done all work that was started on it. On a CPU, nothing is left to wait for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_name(device: torch.device | str) -> str:
    """Return the name of the GPU, or of the CPU with its number of threads."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU with {count_text(threads, 'thread')}"
