"""Record a forward and backward pass once and replay it, which keeps a fast GPU busy on the small batches of fine-tuning.

A forward and backward pass of RoBERTa-base launches some 1,500 kernels. On a batch of a few thousand tokens Python takes several
times as long to launch them as an H200 takes to run them, and compiling the model for every shape would take longer than the
training. A recorded pass (a CUDA graph) is one launch. It can only be replayed on batches of exactly the recorded shape, so the data
source pads its batches to a few shapes and marks them `repeatable`; all other batches run as usual. In longer runs the layers of a
recorded pass are compiled, once for all shapes (`precision.CompiledLayers`), because even in a recording every kernel costs some
microseconds.

A replay runs the same kernels on the same numbers as the pass it replaces, including dropout, because the generator is seeded before
every pass. The result therefore does not depend on which passes are replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from osler.core.logs import get_logger
from osler.train.source import LossOutput, move, parts

log = get_logger("osler.train")

_WARMUP = 1
"""Plain passes before a shape is recorded. They let libraries initialise and avoid recording a shape that occurs once."""
_MAX_SHAPES = 64
"""Maximum number of shapes to record; each takes some tenths of a second, and memory for its inputs."""

Pass = Callable[[Any, torch.Tensor], LossOutput]
"""Forward and backward pass of a payload on the device, with the loss multiplied by the second argument."""


@dataclass(frozen=True)
class _Recorded:
    """A CUDA graph, its input and output tensors, and the parameters whose gradients it adds to."""

    graph: torch.cuda.CUDAGraph
    inputs: list[torch.Tensor]
    output: LossOutput
    touched: list[nn.Parameter]


class Replay:
    """Runs passes, replaying those of recorded shapes. Gradients end up where a plain pass would leave them."""

    def __init__(self, run: Pass, module: nn.Module, device: torch.device) -> None:
        self._run = run
        self._parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self._device = device
        self._scale = torch.zeros((), device=device)
        self._seen: Counter[Hashable] = Counter()
        self._touched: dict[Hashable, list[nn.Parameter]] = {}
        self._recorded: dict[Hashable, _Recorded] = {}
        self._gradients: dict[nn.Parameter, torch.Tensor] = {}
        self._pool: Any = None
        self.able = True
        """False once recording has failed, because the model reads values on the host during its pass."""

    def __call__(self, payload: Any, scale: torch.Tensor | float) -> LossOutput:
        """Run one pass of a payload on the host or the device, with the loss multiplied by `scale`."""
        self._scale.copy_(scale) if isinstance(scale, torch.Tensor) else self._scale.fill_(scale)
        key = shape_of(payload)
        known = self._recorded.get(key)
        if known is None:
            self._seen[key] += 1
            if self.able and self._seen[key] > _WARMUP and len(self._recorded) < _MAX_SHAPES:
                known = self._record(key, move(payload, self._device))
            if known is None:
                return self._plain(key, move(payload, self._device))
        else:
            for place, tensor in zip(known.inputs, tensors(payload), strict=True):
                place.copy_(tensor, non_blocking=True)
        self._attach(known.touched)
        known.graph.replay()
        return known.output

    def _plain(self, key: Hashable, payload: Any) -> LossOutput:
        """Run an ordinary pass; the first of each shape notes which parameters get a gradient."""
        if key in self._touched:
            return self._run(payload, self._scale)
        before = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        output = self._run(payload, self._scale)
        self._touched[key] = [parameter for parameter in self._parameters if parameter.grad is not None]
        for parameter, gradient in zip(self._parameters, before, strict=True):
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else gradient.add_(parameter.grad)
        return output

    def _record(self, key: Hashable, payload: Any) -> _Recorded | None:
        """Record the pass of a shape without running it, with the tensors of this payload as inputs."""
        touched = self._touched[key]
        for parameter in touched:
            if parameter not in self._gradients:
                self._gradients[parameter] = torch.zeros_like(parameter)
        held = [parameter.grad for parameter in touched]
        for parameter in touched:  # a recorded pass writes to fixed addresses
            parameter.grad = self._gradients[parameter]
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        seed, graph = torch.cuda.initial_seed(), torch.cuda.CUDAGraph()
        try:
            # Thread-local, because the thread that loads batches may allocate page-locked memory in the meantime.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                output = self._run(payload, self._scale)
        except RuntimeError as error:
            self._give_up(seed)
            log.event("train.not_recorded", why=type(error).__name__)
            return None
        finally:
            for parameter, gradient in zip(touched, held, strict=True):
                parameter.grad = gradient
        # Recordings have their own memory. Free what plain passes of this size used, because other runs may share the GPU.
        torch.cuda.empty_cache()
        self._recorded[key] = _Recorded(graph, list(tensors(payload)), output, touched)
        return self._recorded[key]

    def _give_up(self, seed: int) -> None:
        """Stop recording and run all further passes as usual.

        A failed recording leaves the generator in capture mode, so it gets a new state, which earlier recordings would not read.
        """
        self.able = False
        self._recorded.clear()
        torch.cuda.synchronize(self._device)
        clean = torch.Generator(self._device)
        clean.manual_seed(seed)
        torch.cuda.default_generators[self._device.index or 0].graphsafe_set_state(clean.graphsafe_get_state())

    def _attach(self, touched: list[nn.Parameter]) -> None:
        """Point `grad` at the recorded gradients: zeroed at the start of a step, else holding the sum so far."""
        fresh = []
        for parameter in touched:
            gradient = self._gradients[parameter]
            if parameter.grad is None:
                fresh.append(gradient)
            elif parameter.grad is not gradient:
                gradient.copy_(parameter.grad)
            parameter.grad = gradient
        if fresh:
            torch._foreach_zero_(fresh)


def shape_of(payload: Any) -> Hashable:
    """Return a key that two payloads share if one recording serves both: everything but the values in their tensors."""
    if isinstance(payload, torch.Tensor):
        return tuple(payload.shape), payload.dtype
    inner = parts(payload)
    if inner is None:
        return payload  # type: ignore[no-any-return]
    names = tuple(payload) if isinstance(payload, Mapping) else ()
    return type(payload), names, tuple(map(shape_of, inner))


def tensors(payload: Any) -> Iterator[torch.Tensor]:
    """Yield all tensors of a payload in a fixed order."""
    if isinstance(payload, torch.Tensor):
        yield payload
    else:
        for inner in parts(payload) or ():
            yield from tensors(inner)
