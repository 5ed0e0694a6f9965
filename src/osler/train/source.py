"""Sources of micro-batches whose order depends only on the step number."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import islice
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch

from osler.core.errors import RecipeError
from osler.core.seeding import generator

# Examples are sorted by length within groups of this many batches: enough for similar lengths in a batch, few enough that an
# example shares batches with different ones in each epoch, even in a small task.
_GROUP = 10


@dataclass(frozen=True)
class Batch:
    """A micro-batch: the module's argument, its share of the loss denominator, and its number of real tokens."""

    payload: Any
    weight: float
    tokens: int


@dataclass(frozen=True)
class LossOutput:
    """Output of a module: a loss SUMMED over what `Batch.weight` counts, and values to log.

    Logged values are averaged over the micro-batches in the log window that report them.
    """

    loss_sum: torch.Tensor
    logs: Mapping[str, torch.Tensor | float] = field(default_factory=dict)


class BatchSource(Protocol):
    """A source of micro-batches."""

    def __len__(self) -> int:
        """Return the number of optimiser steps in the run."""
        ...

    def step(self, index: int) -> Sequence[Any]:
        """Return references to all micro-batches of optimiser step `index`, over all ranks; a pure function of `index`."""
        ...

    def load(self, ref: Any) -> Batch:
        """Load the micro-batch of one reference; called from a background thread."""
        ...


@runtime_checkable
class CountedSource(Protocol):
    """A source that knows its tokens per step and can turn a FLOP budget into steps."""

    def steps_for(self, tokens: float) -> int:
        """Return the number of steps for about this many tokens, at least one."""
        ...


class EpochSource:
    """A source over epochs: `order(epoch)` lists the micro-batches, and `accumulate` of them make an optimiser step.

    Steps do not cross epochs, so the last step of an epoch may hold fewer micro-batches.
    """

    def __init__(
        self, order: Callable[[int], Sequence[Any]], load: Callable[[Any], Batch], *, epochs: int, accumulate: int = 1
    ) -> None:
        self.load = load
        self._order = order
        self._epochs = epochs
        self._accumulate = accumulate
        self._ends: list[int] = []  # the first step after each epoch seen so far
        self._current: tuple[int, Sequence[Any]] = (-1, ())

    def __len__(self) -> int:
        return self._end(self._epochs - 1)

    def step(self, index: int) -> Sequence[Any]:
        """Return the references of one step; an index past the planned epochs continues into further ones."""
        epoch = 0
        while self._end(epoch) <= index:
            epoch += 1
        first = self._end(epoch - 1) if epoch else 0
        start = (index - first) * self._accumulate
        return self._batches(epoch)[start : start + self._accumulate]

    def epoch_ends(self, steps: int) -> list[int]:
        """Return the number of steps at the end of each epoch in a run of `steps` steps, which may cut the last epoch short."""
        ends: list[int] = []
        while self._end(len(ends)) < steps:
            ends.append(self._end(len(ends)))
        return [*ends, steps]

    def _end(self, epoch: int) -> int:
        while len(self._ends) <= epoch:
            batches = len(self._batches(len(self._ends)))
            if not batches:
                raise ValueError("an epoch without batches")
            done = self._ends[-1] if self._ends else 0
            self._ends.append(done + -(-batches // self._accumulate))
        return self._ends[epoch]

    def _batches(self, epoch: int) -> Sequence[Any]:
        if self._current[0] != epoch:
            self._current = (epoch, self._order(epoch))
        return self._current[1]


def packed_batches(
    lengths: Sequence[int], budget: int, seed: int, epoch: int, max_sequences: int | None = None
) -> list[list[int]]:
    """Group shuffled examples into batches of at most `budget` tokens and `max_sequences` examples."""
    sizes = _checked(lengths, budget)
    limit = max_sequences if max_sequences is not None else len(sizes)
    batches: list[list[int]] = []
    tokens = budget
    for index in generator(seed, "batches", epoch).permutation(len(sizes)).tolist():
        if tokens + sizes[index] > budget or len(batches[-1]) == limit:
            batches.append([])
            tokens = 0
        batches[-1].append(index)
        tokens += int(sizes[index])
    return batches


def padded_batches(
    lengths: Sequence[int], budget: int, seed: int, epoch: int, max_sequences: int | None = None
) -> list[list[int]]:
    """Group examples of similar length into batches of at most `budget` tokens with padding (longest times count).

    Batches hold at most `max_sequences` examples and are shuffled.
    """
    sizes = _checked(lengths, budget)
    if not len(sizes):
        return []
    usual = max(1, budget // max(1, int(sizes.mean())))
    limit = max_sequences if max_sequences is not None else len(sizes)
    stream = generator(seed, "batches", epoch)
    shuffled = stream.permutation(len(sizes))
    group = _GROUP * min(usual, limit)
    batches: list[list[int]] = []
    for start in range(0, len(shuffled), group):
        part = shuffled[start : start + group]
        ordered = part[np.argsort(sizes[part], kind="stable")]
        room = 0
        for index in reversed(ordered.tolist()):  # longest first, so the first one of a batch sets its padded length
            if room == 0:
                batches.append([])
                room = min(limit, budget // max(1, int(sizes[index])))
            batches[-1].append(index)
            room -= 1
    return [batches[index] for index in stream.permutation(len(batches))]


def _checked(lengths: Sequence[int], budget: int) -> np.ndarray:
    sizes = np.asarray(lengths, dtype=np.int64)
    longest = int(sizes.max(initial=0))
    if longest > budget:
        raise RecipeError(
            f"a batch may hold {budget} tokens, but one example has {longest}",
            fix=f"Set batch_tokens to {longest} or more, or use shorter windows (max_length)",
        )
    return sizes


def move(payload: Any, device: torch.device) -> Any:
    """Move a payload to a device: tensors, dataclasses, mappings, tuples and lists of them, or anything with `.to(device)`."""
    if isinstance(payload, torch.Tensor):
        return payload.to(device, non_blocking=True)
    if hasattr(payload, "to") and not is_dataclass(payload):
        return payload.to(device)
    return _each(payload, lambda item: move(item, device))


def pin(payload: Any) -> Any:
    """Copy a payload to page-locked memory, because a transfer from other memory would make the host wait for the device."""
    return payload.pin_memory() if hasattr(payload, "pin_memory") else _each(payload, pin)


def parts(payload: Any) -> list[Any] | None:
    """Return the values inside a payload in order, or None for a leaf such as a tensor, a name or a number."""
    if is_dataclass(payload) and not isinstance(payload, type):
        return [getattr(payload, part.name) for part in fields(payload)]
    if isinstance(payload, Mapping):
        return list(payload.values())
    return list(payload) if isinstance(payload, tuple | list) else None


def _each(payload: Any, function: Callable[[Any], Any]) -> Any:
    inner = parts(payload)
    if inner is None:
        return payload  # a name or a number needs no move
    made = map(function, inner)
    if isinstance(payload, Mapping):
        return dict(zip(payload, made, strict=True))
    if isinstance(payload, tuple | list):
        return type(payload)(made)
    return replace(payload, **{part.name: value for part, value in zip(fields(payload), made, strict=True)})


T = TypeVar("T")


def prefetch(load: Callable[[int], T], indices: Iterable[int], *, depth: int = 2) -> Generator[T]:
    """Yield `load(index)` for every index in order, up to `depth` loads ahead of the consumer.

    An exception in `load` is raised in place of its result. Closing the generator stops the thread.
    """
    waiting = iter(indices)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="osler-prefetch") as pool:
        ahead: deque[Future[T]] = deque(pool.submit(load, index) for index in islice(waiting, depth))
        try:
            while ahead:
                ready = ahead.popleft().result()
                ahead.extend(pool.submit(load, index) for index in islice(waiting, 1))
                yield ready
        finally:
            for future in ahead:
                future.cancel()
