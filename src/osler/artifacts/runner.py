"""Run the heads of a bundle on encoder inputs. Runners hide the backend, so that annotation needs no torch."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from osler.core.logs import get_logger
from osler.tasks.instances.base import Instance

if TYPE_CHECKING:
    import torch

    from osler.nn.multihead import MultiHeadModel
    from osler.nn.packing import Packed

log = get_logger(__name__)

_BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536}
Advance = Callable[[int], None]
Outputs = dict[str, list[np.ndarray]]
"""By head, one array per instance: [tokens, outputs] or [outputs]."""


class Waiting(Protocol):
    """Waits for the outputs of a pass."""

    def __call__(self, advance: Advance | None = None) -> Outputs: ...


class Runner(Protocol):
    """Computes the outputs of heads."""

    def outputs(self, instances: Sequence[Instance], heads: Sequence[str], advance: Advance | None = None) -> Outputs:
        """Return the outputs of each head for each instance: [tokens, outputs] or [outputs].

        `advance` is called after each batch with its number of instances.
        """

    def begin(self, instances: Sequence[Instance], heads: Sequence[str]) -> Waiting:
        """Start computing in the background where the runner can, and return a function that waits for the outputs.

        Elsewhere, the function itself computes the outputs, so that no memory is held before.
        """

    def transitions(self, head: str) -> np.ndarray | None:
        """Scores [tag, next tag] of a CRF head; None for any other head."""


@dataclass(frozen=True, eq=False)
class TorchRunner:
    """Runs heads with torch."""

    model: MultiHeadModel
    bf16: bool = False
    """Whether the encoder computes in bfloat16. Outputs are float32 either way."""
    _processes: set[int] = field(default_factory=set, repr=False)
    """Processes that have computed with this runner: this one and, after a fork, its parents."""

    @classmethod
    def rounded(cls, model: MultiHeadModel) -> TorchRunner:
        """Create a bfloat16 runner that takes over a model. Rounds its weights once instead of in every pass."""
        from osler.nn.layers import round_weights

        round_weights(model.encoder)
        return cls(model, bf16=True)

    @property
    def device(self) -> str:
        """cpu or cuda."""
        return next(self.model.parameters()).device.type

    def outputs(self, instances: Sequence[Instance], heads: Sequence[str], advance: Advance | None = None) -> Outputs:
        if (process := os.getpid()) not in self._processes:
            if self._processes:
                import torch

                # After a fork, torch would wait forever for the threads of the parent, which are not there.
                torch.set_num_threads(1)
            self._processes.add(process)
        return run_heads(self.model, instances, heads, advance, bf16=self.bf16)

    def begin(self, instances: Sequence[Instance], heads: Sequence[str]) -> Waiting:
        if self.ahead:
            return _HeadRun(self.model, instances, heads, bf16=self.bf16).outputs
        return partial(self.outputs, instances, heads)

    @property
    def ahead(self) -> bool:
        """Whether one pass can be computed while another is decoded: a GPU does that."""
        return self.device != "cpu"

    @property
    def pass_characters(self) -> int:
        """Characters of text that fill a few batches."""
        return 4 * _BATCH_TOKENS[self.device]

    def transitions(self, head: str) -> np.ndarray | None:
        scores = self.model.head(head).steps()
        return None if scores is None else np.asarray(scores.cpu().numpy())


class SteadyRunner:
    """Makes the outputs of an instance independent of its batch, to the last bit.

    An annotation then depends on its text alone, and the service returns the same as the command line. If the outputs of a
    runner change with the batch, instances are computed one at a time. This is the case for runners that pad to the longest
    instance or quantise with the range of the batch, and on machines whose matrix products depend on the batch size. It is
    checked with probe instances the first time that two instances are computed together.
    """

    def __init__(self, runner: Runner, probe: Callable[[], tuple[Sequence[Instance], Sequence[str]]]) -> None:
        """`probe` returns instances of several lengths, and the heads to compute for them."""
        self._runner, self._probe = runner, probe
        self._lock = Lock()
        self._together: bool | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has its own lock, and probes again: it may run on another machine.
        return SteadyRunner, (self._runner, self._probe)

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the wrapped runner."""
        return getattr(self._runner, name)

    @property
    def together(self) -> bool:
        """Whether instances can share a batch."""
        with self._lock:
            if self._together is None:
                self._together = self._steady()
                if not self._together:
                    log.event("runner.alone")
            return self._together

    def outputs(self, instances: Sequence[Instance], heads: Sequence[str], advance: Advance | None = None) -> Outputs:
        if len(instances) < 2 or self.together:
            return self._runner.outputs(instances, heads, advance)
        results: Outputs = {head: [] for head in heads}
        for instance in instances:
            for head, found in self._runner.outputs([instance], heads, advance).items():
                results[head] += found
        return results

    def begin(self, instances: Sequence[Instance], heads: Sequence[str]) -> Waiting:
        if len(instances) < 2 or self.together:
            return self._runner.begin(instances, heads)
        return partial(self.outputs, instances, heads)

    def transitions(self, head: str) -> np.ndarray | None:
        return self._runner.transitions(head)

    def _steady(self) -> bool:
        instances, heads = self._probe()
        alone = [self._runner.outputs([instance], heads) for instance in instances]
        numbers = range(len(instances))
        for mixed in (numbers, numbers[:2], [*[0] * 16, numbers[-1]]):
            found = self._runner.outputs([instances[number] for number in mixed], heads)
            for head in heads:
                if not all(map(np.array_equal, found[head], (alone[number][head][0] for number in mixed))):
                    return False
        return True


def length_batches(instances: Sequence[Instance], budget: int) -> list[list[int]]:
    """Group instance indices into batches of similar length, longest first, with at most `budget` tokens per batch."""
    batches: list[list[int]] = []
    used = budget
    for index in sorted(range(len(instances)), key=lambda index: -instances[index].length):
        if used + instances[index].length > budget:
            batches.append([])
            used = 0
        batches[-1].append(index)
        used += instances[index].length
    return batches


def run_heads(
    model: MultiHeadModel,
    instances: Sequence[Instance],
    heads: Sequence[str],
    advance: Advance | None = None,
    *,
    bf16: bool = False,
) -> Outputs:
    """Return the outputs of each head for each instance: [tokens, outputs] or [outputs]."""
    return _HeadRun(model, instances, heads, bf16=bf16).outputs(advance)


class _Pass(NamedTuple):
    """A batch in flight. On a GPU, `values` are ready once `done` is."""

    indices: list[int]
    values: torch.Tensor
    """Outputs of all heads, flattened and concatenated."""
    shapes: dict[str, tuple[int, ...]]
    done: torch.cuda.Event | None


class _HeadRun:
    """Runs heads on instances. The next batch is started before the outputs of a batch are split, so that a GPU stays busy."""

    def __init__(
        self, model: MultiHeadModel, instances: Sequence[Instance], heads: Sequence[str], *, bf16: bool
    ) -> None:
        self._model, self._instances, self._heads, self._bf16 = model, instances, heads, bf16
        self._device = next(model.parameters()).device
        self._left = deque(length_batches(instances, _BATCH_TOKENS[self._device.type]))
        self._running: deque[_Pass] = deque()
        self._begin()

    def outputs(self, advance: Advance | None = None) -> Outputs:
        """Wait for running batches, and run the remaining ones."""
        results: Outputs = {head: [np.empty(0)] * len(self._instances) for head in self._heads}
        while self._running:
            self._begin()
            done = self._running.popleft()
            self._take_apart(done, results)
            if advance:
                advance(len(done.indices))
        return results

    def _begin(self) -> None:
        if not self._left:
            return
        training = self._model.training
        self._model.eval()
        try:
            self._running.append(self._compute(self._left.popleft()))
        finally:
            self._model.train(training)

    def _compute(self, indices: list[int]) -> _Pass:
        import torch

        from osler.nn.packing import few_shapes, least_rows

        batch = [self._instances[index] for index in indices]
        tokens = sum(instance.length for instance in batch)
        least = least_rows(self._device)
        total = max(tokens if self._device.type == "cuda" else few_shapes(tokens), least)
        packed = pack_instances(batch, self._model, total=total)
        found = self._model.predict(packed.to(self._device), self._heads, bf16=self._bf16)
        # One copy for all heads, because each copy would wait for the GPU.
        values = torch.cat([output.flatten() for output in found.values()])
        shapes = {head: tuple(output.shape) for head, output in found.items()}
        if not values.is_cuda:
            return _Pass(indices, values, shapes, None)
        there = torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return _Pass(indices, there, shapes, event)

    def _take_apart(self, done: _Pass, results: Outputs) -> None:
        if done.done is not None:
            done.done.synchronize()
        lengths = [self._instances[index].length for index in done.indices]
        borders = np.cumsum(lengths)
        values, start = done.values.numpy(), 0
        for head, shape in done.shapes.items():
            size = int(np.prod(shape))
            output = values[start : start + size].reshape(shape)
            start += size
            # The output may have padding after the last token.
            of_tokens = self._model.heads[head].level == "token"
            rows = np.split(output[: borders[-1]], borders[:-1]) if of_tokens else list(output)
            for index, row in zip(done.indices, rows, strict=True):
                results[head][index] = row


def pack_instances(instances: Sequence[Instance], model: MultiHeadModel, **shape: int) -> Packed:
    """Pack instances for this model's encoder. `shape` pads the batch: total, max_sequences, max_length."""
    from osler.nn.packing import pack

    config = model.encoder.config
    types = None
    if getattr(config, "type_vocab_size", 1) > 1:
        types = [np.zeros(i.length, dtype=np.int64) if i.types is None else i.types for i in instances]
    marks = [instance.marks for instance in instances if instance.marks is not None]
    ids = [instance.ids for instance in instances]
    return pack(ids, token_types=types, marks=marks or None, pad_id=config.pad_token_id or 0, **shape)
