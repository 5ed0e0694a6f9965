"""Checkpoints that hold everything for an exact resume, as safetensors and JSON written in the background."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from osler.core.errors import ArtifactError
from osler.core.files import remove_tree, sha256, sync_folder
from osler.core.logs import get_logger
from osler.core.seeding import RngState
from osler.nn.folders import saving

log = get_logger("osler.train.checkpoint")

FORMAT = 1
KEPT = 2  # the second covers the loss of the newest
_NAME = re.compile(r"step-(\d{10})")
_SUMS = "checksums.json"


@dataclass(frozen=True)
class Checkpoint:
    """State of a run at one step: weights, optimiser state by parameter name, random states, best and mean weights, plain state."""

    step: int
    state: dict[str, Any]
    model: Mapping[str, torch.Tensor]
    optimizer: Mapping[str, torch.Tensor]
    rng: RngState
    best: Mapping[str, torch.Tensor] | None = None
    mean: Mapping[str, torch.Tensor] | None = None


class Checkpoints:
    """The newest checkpoints of one run, in `folder/checkpoints`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkpoints"

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint atomically, then delete the oldest ones."""
        target = self.folder / f"step-{checkpoint.step:010d}"
        partial = self.folder / f".{target.name}.partial"
        parts = {
            "model": checkpoint.model,
            "optimizer": checkpoint.optimizer,
            "rng": checkpoint.rng.tensors,
            "best": checkpoint.best,
            "mean": checkpoint.mean,
        }
        state = {"format": FORMAT, "step": checkpoint.step, "run": checkpoint.state, "rng": checkpoint.rng.plain}
        with saving(self.folder):
            try:
                remove_tree(partial)
                partial.mkdir(parents=True)
                for name, tensors in parts.items():
                    if tensors is not None:
                        own = {key: value.contiguous() for key, value in tensors.items()}
                        save_file(own, partial / f"{name}.safetensors")
                (partial / "state.json").write_text(json.dumps(state) + "\n", encoding="utf-8")
                sums = {path.name: sha256(path) for path in sorted(partial.iterdir())}
                (partial / _SUMS).write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")
                for path in [*partial.iterdir(), partial]:
                    sync_folder(path)  # works for files too
                os.rename(partial, target)
                sync_folder(self.folder)
            except BaseException:
                remove_tree(partial)
                raise
            self._drop_old()
        return target

    def paths(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def newest(self) -> Path | None:
        """Find the newest intact checkpoint. Remove damaged ones, logging each, and leftovers of killed runs."""
        for leftover in self.folder.glob(".step-*.partial"):
            remove_tree(leftover)
        for path in reversed(self.paths()):
            problem = _problem(path)
            if problem is None:
                self._drop_old()
                return path
            log.warning("checkpoint.damaged", "{path} is damaged ({problem}) and removed", path=path, problem=problem)
            remove_tree(path)
        return None

    def load(self, path: Path) -> Checkpoint:
        """Read a checkpoint that `newest` found."""
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        if state["format"] != FORMAT:
            raise ArtifactError(
                f"checkpoint format {state['format']} is not {FORMAT}",
                where=path,
                fix="Use the osler version that wrote it",
            )
        best, mean = path / "best.safetensors", path / "mean.safetensors"
        return Checkpoint(
            step=state["step"],
            state=state["run"],
            model=load_file(path / "model.safetensors"),
            optimizer=load_file(path / "optimizer.safetensors"),
            rng=RngState(state["rng"], load_file(path / "rng.safetensors")),
            best=load_file(best) if best.exists() else None,
            mean=load_file(mean) if mean.exists() else None,
        )

    def _drop_old(self) -> None:
        for old in self.paths()[:-KEPT]:
            remove_tree(old)


def _problem(path: Path) -> str | None:
    try:
        sums = json.loads((path / _SUMS).read_text(encoding="utf-8"))
        changed = [name for name, digest in sums.items() if sha256(path / name) != digest]
    except (OSError, ValueError, AttributeError):
        return "unreadable"
    return "checksum" if changed else None


class CheckpointWriter:
    """Copies a checkpoint, then writes it while training continues."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._pinned: dict[str, torch.Tensor] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._writing: Future[Path] | None = None

    def save(self, checkpoint: Checkpoint) -> None:
        """Start writing a checkpoint. Its tensors may change after the call, except `best` and `mean`."""
        self.wait()
        copy = replace(
            checkpoint,
            model={name: self._copy(f"model/{name}", tensor) for name, tensor in checkpoint.model.items()},
            optimizer={name: self._copy(f"optimizer/{name}", tensor) for name, tensor in checkpoint.optimizer.items()},
        )
        copied = torch.cuda.Event() if self._pinned else None  # type: ignore[no-untyped-call]
        if copied is not None:
            copied.record()

        def write() -> Path:
            if copied is not None:
                copied.synchronize()
            return self._checkpoints.save(copy)

        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="osler-checkpoint")
        self._writing = self._pool.submit(write)

    def wait(self) -> None:
        """Wait until the checkpoint is on disk; raise the error if writing failed."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """Finish the current checkpoint and stop the thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def _copy(self, key: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "cuda":
            return tensor.detach().clone(memory_format=torch.contiguous_format)
        buffer = self._pinned.get(key)
        if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
            buffer = self._pinned[key] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return buffer.copy_(tensor.detach(), non_blocking=True)


def module_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and persistent buffers by name; tied ones once, under their first name."""
    seen: set[int] = set()
    tensors: dict[str, torch.Tensor] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        if isinstance(value, torch.Tensor) and id(value) not in seen:
            seen.add(id(value))
            tensors[name] = value.detach()
    return tensors


def load_module(module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Copy weights into a module in place; names and shapes must match."""
    own = module_tensors(module)
    if own.keys() != tensors.keys() or any(own[name].shape != value.shape for name, value in tensors.items()):
        raise ArtifactError("the weights in the checkpoint do not fit this model", fix="Use another --out, or --force")
    with torch.no_grad():
        for name, value in tensors.items():
            own[name].copy_(value)
