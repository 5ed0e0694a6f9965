"""Checkpoints of everything a run needs to resume exactly: safetensors and JSON, written in the background."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from osler.core.errors import ArtifactError, writing
from osler.core.files import remove_tree, sha256, sync_folder
from osler.core.logs import get_logger
from osler.core.seeding import RngState

log = get_logger("osler.train.checkpoint")

FORMAT = 1
_NAME = re.compile(r"step-(\d{10})")
_SUMS = "checksums.json"


@dataclass(frozen=True)
class Checkpoint:
    """A run at one step: weights, optimiser state by parameter name, random states, best weights, and plain state."""

    step: int
    state: dict[str, Any]
    model: Mapping[str, torch.Tensor]
    optimizer: Mapping[str, torch.Tensor]
    rng: RngState
    best: Mapping[str, torch.Tensor] | None = None


class Checkpoints:
    """The checkpoints of one run, newest `keep` of them, in `folder/checkpoints`."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder / "checkpoints"
        self._keep = keep

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint whole or not at all, then drop the oldest ones."""
        target = self.folder / f"step-{checkpoint.step:010d}"
        partial = self.folder / f".{target.name}.partial"
        with writing(self.folder):
            try:
                remove_tree(partial)
                partial.mkdir(parents=True)
                _write(partial, checkpoint)
                os.rename(partial, target)
                sync_folder(self.folder)
            except BaseException:
                remove_tree(partial)
                raise
            self._drop_old()
        return target

    def paths(self) -> list[Path]:
        """The finished checkpoints, oldest first; half-written ones are not among them."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def newest(self) -> Path | None:
        """The newest whole checkpoint. Removes what a kill left, half-written or one too many, and damaged newer ones with a log line."""
        if self.folder.is_dir():
            for leftover in self.folder.glob(".step-*.partial"):
                remove_tree(leftover)
        for path in reversed(self.paths()):
            problem = _problem(path)
            if problem is None:
                self._drop_old()
                return path
            log.event("checkpoint.damaged", level=logging.WARNING, path=path, problem=problem)
            remove_tree(path)
        return None

    def _drop_old(self) -> None:
        for old in self.paths()[: -self._keep]:
            remove_tree(old)

    def load(self, path: Path) -> Checkpoint:
        """Read a checkpoint that `newest` found whole."""
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        if state["format"] != FORMAT:
            raise ArtifactError(
                f"checkpoint format {state['format']} is not {FORMAT}",
                where=path,
                fix="Use the osler version that wrote it",
            )
        best = path / "best.safetensors"
        return Checkpoint(
            step=state["step"],
            state=state["run"],
            model=load_file(path / "model.safetensors"),
            optimizer=load_file(path / "optimizer.safetensors"),
            rng=RngState(state["rng"], load_file(path / "rng.safetensors")),
            best=load_file(best) if best.exists() else None,
        )


def module_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and saved buffers by name; tied ones once, under their first name."""
    seen: set[int] = set()
    tensors: dict[str, torch.Tensor] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        if isinstance(value, torch.Tensor) and id(value) not in seen:
            seen.add(id(value))
            tensors[name] = value.detach()
    return tensors


def load_module(module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Copy weights into a module in place; names and shapes must be its own."""
    own = module_tensors(module)
    if own.keys() != tensors.keys() or any(own[name].shape != value.shape for name, value in tensors.items()):
        raise ArtifactError(
            "the weights of a checkpoint are not those of this model", fix="Use another --out, or --force"
        )
    with torch.no_grad():
        for name, value in tensors.items():
            own[name].copy_(value)


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    parts = {
        "model": checkpoint.model,
        "optimizer": checkpoint.optimizer,
        "rng": checkpoint.rng.tensors,
        "best": checkpoint.best,
    }
    for name, tensors in parts.items():
        if tensors is not None:
            with _io_errors():
                save_file({key: value.contiguous() for key, value in tensors.items()}, folder / f"{name}.safetensors")
    state = {"format": FORMAT, "step": checkpoint.step, "run": checkpoint.state, "rng": checkpoint.rng.plain}
    (folder / "state.json").write_text(json.dumps(state) + "\n", encoding="utf-8")
    sums = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    (folder / _SUMS).write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")
    for path in folder.iterdir():
        _sync_file(path)
    sync_folder(folder)


def _problem(path: Path) -> str | None:
    """What is wrong with a checkpoint, in one word, or None."""
    try:
        sums = json.loads((path / _SUMS).read_text(encoding="utf-8"))
        changed = [name for name, digest in sums.items() if sha256(path / name) != digest]
    except (OSError, ValueError, AttributeError):
        return "unreadable"
    return "checksum" if changed else None


@contextmanager
def _io_errors() -> Iterator[None]:
    """Give back the OSError that the safetensors library wraps in a message."""
    try:
        yield
    except SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))
        if code is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1]))) from error


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
