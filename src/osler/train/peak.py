"""What a device can do at best: the speed of one large matrix product, to hold training speed against."""

from __future__ import annotations

import time

import torch

from osler.train.precision import cpu_threads


def matmul_peak(device: torch.device | str, *, seconds: float = 0.25, threads: int | None = None) -> float:
    """FLOP/s of the best of several rounds in about so many seconds: bf16 on a GPU that has it, fp32 elsewhere."""
    device = torch.device(device)
    cuda = device.type == "cuda"
    size, repeats = (8192, 10) if cuda else (1024, 1)
    dtype = torch.bfloat16 if cuda and torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    # Random numbers, since a GPU multiplies zeros faster; of a generator of its own, since a run counts on torch's.
    drawn = torch.Generator(device).manual_seed(0)
    left, right = (torch.randn(size, size, generator=drawn, device=device, dtype=dtype) for _ in range(2))
    best = 0.0
    with cpu_threads(threads):
        torch.matmul(left, right)  # the first call loads the library
        _finish(device)
        began = last = time.perf_counter()
        while best == 0.0 or last - began < seconds:
            for _ in range(repeats):
                torch.matmul(left, right)
            _finish(device)
            now = time.perf_counter()
            best = max(best, repeats * 2 * size**3 / (now - last))
            last = now
    return best


def device_name(device: torch.device | str) -> str:
    """The device in words."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU with {threads} thread{'s' if threads > 1 else ''}"


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
