"""What the loop is fed: a source of micro-batches whose order is a pure function of the step number.

Because `step` depends on nothing but its index, resuming needs no sampler state, and one process and many see the same
samples in the same order. `load` runs in a background thread: it must draw its randomness from
`osler.core.seeding.generator`, never from a global generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch


@dataclass(frozen=True)
class Batch:
    """One micro-batch: what the module is called with, its share of the loss denominator, and its real tokens."""

    payload: Any
    weight: float
    tokens: int


@dataclass(frozen=True)
class LossOutput:
    """What a module returns: a loss SUMMED over what `Batch.weight` counts, and values to log.

    A logged value is averaged over the micro-batches of the log window that report it.
    """

    loss_sum: torch.Tensor
    logs: Mapping[str, torch.Tensor | float] = field(default_factory=dict)


class BatchSource(Protocol):
    """Where micro-batches come from."""

    def __len__(self) -> int:
        """Optimiser steps in the whole run."""
        ...

    def step(self, index: int) -> Sequence[Any]:
        """References to all micro-batches of optimiser step `index`, over all ranks; a pure function of `index`."""
        ...

    def load(self, ref: Any) -> Batch:
        """Collate the micro-batch behind one reference; called from a background thread."""
        ...


@runtime_checkable
class CountedSource(Protocol):
    """A source whose steps have known numbers of tokens, so that a budget of work can be turned into steps."""

    def steps_for(self, tokens: float) -> int:
        """The steps that see about so many tokens, at least one."""
        ...


class EpochSource:
    """A source over epochs: `order(epoch)` lists the micro-batches, `accumulate` of them make an optimiser step.

    No step reaches over the end of an epoch, so the last one of each may hold fewer micro-batches.
    """

    def __init__(
        self, order: Callable[[int], Sequence[Any]], load: Callable[[Any], Batch], *, epochs: int, accumulate: int = 1
    ) -> None:
        self._order = order
        self._load = load
        self._epochs = epochs
        self._accumulate = accumulate
        self._ends: list[int] = []  # the first step after each epoch seen so far
        self._current: tuple[int, Sequence[Any]] = (-1, ())

    def __len__(self) -> int:
        return self._end(self._epochs - 1)

    def step(self, index: int) -> Sequence[Any]:
        """The references of one step; an index past the planned epochs runs into further ones."""
        epoch = 0
        while self._end(epoch) <= index:
            epoch += 1
        first = self._end(epoch - 1) if epoch else 0
        start = (index - first) * self._accumulate
        return self._batches(epoch)[start : start + self._accumulate]

    def load(self, ref: Any) -> Batch:
        """Collate one micro-batch."""
        return self._load(ref)

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


def move(payload: Any, device: torch.device) -> Any:
    """Put a payload on a device: tensors, dataclasses, mappings, tuples and lists of them, or anything with `.to(device)`."""
    if isinstance(payload, torch.Tensor):
        return payload.to(device, non_blocking=True)
    if hasattr(payload, "to") and not is_dataclass(payload):
        return payload.to(device)
    return _each(payload, lambda item: move(item, device))


def pin(payload: Any) -> Any:
    """Put a payload in page-locked memory; from elsewhere the host would wait for the device before every copy."""
    return payload.pin_memory() if hasattr(payload, "pin_memory") else _each(payload, pin)


def parts(payload: Any) -> list[Any] | None:
    """What a payload holds, in order; None of one that holds nothing else (a tensor, a name, a number)."""
    if is_dataclass(payload) and not isinstance(payload, type):
        return [getattr(payload, part.name) for part in fields(payload)]
    if isinstance(payload, Mapping):
        return list(payload.values())
    return list(payload) if isinstance(payload, tuple | list) else None


def _each(payload: Any, function: Callable[[Any], Any]) -> Any:
    inner = parts(payload)
    if inner is None:
        return payload  # a name, a number: the same on every device
    made = map(function, inner)
    if isinstance(payload, Mapping):
        return dict(zip(payload, made, strict=True))
    if isinstance(payload, tuple | list):
        return type(payload)(made)
    return replace(payload, **{part.name: value for part, value in zip(fields(payload), made, strict=True)})
