"""Write checkpoints in the background: training waits for a copy of its state, not for the disk.

On a GPU the copy goes to page-locked memory that is kept from one checkpoint to the next, in the order of the device's
work, so the host does not wait for it either. One checkpoint is written at a time; the next one waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch

from osler.train.checkpoint import Checkpoint, Checkpoints


class CheckpointWriter:
    """Takes a copy of a checkpoint now and writes it while training goes on."""

    def __init__(self, checkpoints: Checkpoints, device: torch.device) -> None:
        self._checkpoints = checkpoints
        self._device = device
        self._pinned: dict[str, torch.Tensor] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._writing: Future[Path] | None = None

    def save(self, checkpoint: Checkpoint) -> None:
        """Begin to write a checkpoint; its tensors may change once this returns (but for `best`, which nobody changes)."""
        self.wait()
        copy = replace(
            checkpoint,
            model=self._copies("model", checkpoint.model),
            optimizer=self._copies("optimizer", checkpoint.optimizer),
        )
        copied = self._mark()

        def write() -> Path:
            copied()
            return self._checkpoints.save(copy)

        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="osler-checkpoint")
        self._writing = self._pool.submit(write)

    def wait(self) -> None:
        """Wait until the checkpoint is on disk; raises what went wrong there."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """End the thread, after the checkpoint at hand."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def _copies(self, part: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: self._copy(f"{part}/{name}", tensor) for name, tensor in tensors.items()}

    def _copy(self, key: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "cuda":
            return tensor.detach().clone(memory_format=torch.contiguous_format)
        buffer = self._pinned.get(key)
        if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
            buffer = self._pinned[key] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return buffer.copy_(tensor.detach(), non_blocking=True)

    def _mark(self) -> Callable[[], None]:
        """A function that waits until the copies asked for so far are made."""
        if self._device.type != "cuda":
            return lambda: None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return event.synchronize
