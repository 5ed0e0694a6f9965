"""Do one run of a study: check its settings, estimate its memory, fine-tune, score, and record the outcome."""

from __future__ import annotations

import errno
import gc
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osler.artifacts.encoder import Encoder
from osler.artifacts.run import AcrossTask, Run, RunSpec, RunStatus, holding, is_trained, lacks_weights
from osler.artifacts.task_folder import TaskFolder
from osler.core.artifact import MANIFEST, Artifact, Manifest
from osler.core.config import validate
from osler.core.errors import OslerError, OutputError, RecipeError, place_of
from osler.core.files import remove_tree, write_atomic
from osler.stages.study.matched import MatchedLength

if TYPE_CHECKING:
    from osler.stages.finetune.config import FinetuneRecipe

# Modules that load torch are imported in functions, to keep `osler study status` fast.

_CONTEXT = 600 << 20
"""GPU memory in bytes that a process takes before it allocates anything."""
_MACHINE = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the disk or the network drive has an error",
    errno.ESTALE: "the network drive was disconnected",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
    errno.ENOMEM: "memory ran out",
}
"""Errors of the machine rather than the run, which can resume once they are fixed."""


@dataclass(frozen=True)
class RunJob:
    """One run to fine-tune if that is not done, and to score if asked to."""

    spec: RunSpec
    key: str
    folder: Path
    start: str
    """Model to start from: the row's, or the bundle of a refinement."""
    score: bool
    cost: float = 0.0
    memory: int = 0
    """Expected memory in bytes."""
    threads: int | None = None
    """CPU threads; None leaves them to the settings and torch."""
    processes: int = 1
    """Processes of the run; several are started with torchrun."""
    length: MatchedLength | None = None
    """Length of a single-task baseline, which replaces its epochs."""
    across: tuple[AcrossTask, ...] = ()
    """Other tasks to score the run on."""

    @property
    def is_scored(self) -> bool:
        """Whether all requested scores exist."""
        own = not self.score or Run(self.spec, self.folder).scored
        return own and all(target.is_scored(self.folder) for target in self.across)


@dataclass(frozen=True)
class DeviceUse:
    """The device a run used, and its peak memory on a GPU."""

    device: str | None = None
    peak_memory: int | None = None


def identify(model: str) -> str:
    """Return the digest of a model's weights, configuration and vocabulary."""
    return Encoder.open(model).digest


def configuration(model: str) -> Any:
    """Return the configuration of a model, which decides its default learning rate."""
    return Encoder.open(model).config


def check(spec: RunSpec, where: str) -> tuple[str, ...]:
    """Reject settings that fine-tuning would reject.

    Returns further inputs of the result: the digests of the teacher, the corpus and the task with forms in the settings, and the
    learning rate if the settings leave it to the encoder.
    """
    from osler.stages.finetune.heads import check as check_finetuning
    from osler.stages.finetune.heads import check_pooler

    recipe, tasks = finetune_recipe(spec, where), [TaskFolder.open(path) for path in spec.tasks]
    try:
        check_finetuning(recipe, tasks)
        if recipe.head == "pooler":
            check_pooler(recipe, tasks, Encoder.open(spec.model).path)
    except RecipeError as error:
        raise RecipeError(error.problem, where=error.where or where, fix=error.fix) from None
    digests = [identify(str(recipe.teacher.bundle))] if recipe.teacher else []
    if recipe.mlm:
        digests.append(Artifact.open(recipe.mlm.corpus, kind="corpus").manifest.digest)
    if recipe.forms:
        digests.append(TaskFolder.open(recipe.forms).artifact.manifest.digest)
    if recipe.train.lr is None:
        digests.append(f"train.lr={recipe.default_learning_rate(configuration(spec.model)):g}")
    return tuple(digests)


def memory(spec: RunSpec) -> int:
    """Estimate the GPU memory of a run in bytes; 0 if nothing is known."""
    from osler.nn.cost import memory_of
    from osler.nn.folders import load_config, resolve

    recipe = finetune_recipe(spec, "settings")
    folder = resolve(spec.model)
    try:
        parameters = sum(_parameters(path) for path in folder.glob("*.safetensors"))
        needed = memory_of(
            load_config(folder),
            parameters=parameters,
            optimiser_values=2 * parameters,
            batch_tokens=recipe.batch_tokens,
            masked=0.0,
            half=recipe.train.precision != "fp32",
        ).total
    except (AttributeError, ValueError):
        return 0  # an architecture whose configuration uses other names
    return needed + _CONTEXT


def train(job: RunJob) -> DeviceUse:
    """Fine-tune into the run's bundle, with torchrun if the run has several processes."""
    recipe = finetune_recipe(job.spec, "the study's fine-tuning settings", job)
    bundle = Run(job.spec, job.folder).bundle
    if job.processes > 1:
        _torchrun(recipe, bundle, job)
        return DeviceUse()
    import torch

    from osler.stages.finetune import run as finetune

    _use_threads(job)
    if _on_gpu():
        torch.cuda.reset_peak_memory_stats()
    try:
        finetune.run(recipe, bundle)
        return _device_use()
    finally:
        _free_gpu_memory()


def score(job: RunJob) -> DeviceUse:
    """Score the study's split once for every column and every task of `across`."""
    from osler.stages.evaluate.config import EvaluateRecipe
    from osler.stages.evaluate.run import run as evaluate

    run = Run(job.spec, job.folder)
    _use_threads(job)
    device = job.spec.runtime.get("device", "auto")
    try:
        for column, task in zip(job.spec.columns, job.spec.tasks, strict=True):
            recipe = EvaluateRecipe(bundle=run.bundle, task=task, split=job.spec.split, device=device)
            evaluate(recipe, run.evaluation(column), force=_of_other_weights(run, run.evaluation(column)))
        for target in job.across:
            out = target.evaluation(job.folder)
            recipe = EvaluateRecipe(
                bundle=run.bundle,
                task=target.task,
                head=target.head,
                split=job.spec.split,
                protocol=target.protocol,
                label_map=dict(target.label_map),
                device=device,
            )
            evaluate(recipe, out, force=_of_other_weights(run, out))
        return _device_use()
    finally:
        _free_gpu_memory()


def _of_other_weights(run: Run, evaluation: Path) -> bool:
    """Whether a score belongs to other weights: removed ones may come out differently when retrained on a GPU."""
    path = evaluation / MANIFEST
    return path.is_file() and Manifest.read(path).parents["bundle"] != Manifest.read(run.bundle / MANIFEST).digest


Step = Callable[[RunJob], DeviceUse]


def attempt(job: RunJob, train: Step, score: Step) -> RunStatus:
    """Do one job and record the outcome in its folder. A failure becomes a status; an interrupt is raised.

    Engines pass this module's `train` and `score` as arguments, even to other processes, so tests can replace them.
    """
    try:
        return _attempt(job, train, score)
    except (OSError, OutputError) as error:
        # The status itself could not be written.
        return replace(RunStatus.read(job.folder), state="stopped", reason=_machine_error(error) or _safe_reason(error))


def _attempt(job: RunJob, train: Step, score: Step) -> RunStatus:
    with holding(job.folder):
        before = RunStatus.read(job.folder)
        if lacks_weights(job.folder):  # needed again for another score or for runs that start from them
            remove_tree(job.folder / "bundle")
        trained = is_trained(job.folder)
        if before.state == "done" and trained and job.is_scored:
            return before  # another study with the same store has done it meanwhile
        job.spec.write(job.folder)
        # Scoring an already trained run is not a new attempt.
        attempts = before.attempts + (before.state != "done")
        processes = before.processes if trained else job.processes
        status = replace(before, state="running", reason=None, attempts=attempts, processes=processes)
        status.write(job.folder)
        started = time.monotonic()
        use = DeviceUse()
        try:
            use = train(job)
            if job.score:
                scored = score(job)
                use = use if use.device else scored
            status = replace(status, state="done")
        except (KeyboardInterrupt, SystemExit):
            replace(status, state="waiting").write(job.folder)
            raise
        except Exception as error:
            machine = _machine_error(error)
            reason = machine or (error.problem if isinstance(error, OslerError) else _safe_reason(error))
            status = replace(status, state="stopped" if machine else "failed", reason=reason)
        status = replace(
            status,
            seconds=round(before.seconds + time.monotonic() - started, 3),
            device=use.device or before.device,
            peak_memory=use.peak_memory or before.peak_memory,
        )
        status.write(job.folder)
        return status


def record_failure(job: RunJob, reason: str) -> RunStatus:
    """Record that the process of a job died."""
    status = replace(RunStatus.read(job.folder), state="failed", reason=reason)
    with suppress(OutputError):  # if this fails, the next study treats the run as killed and resumes it
        status.write(job.folder)
    return status


def finetune_recipe(spec: RunSpec, where: str, job: RunJob | None = None) -> FinetuneRecipe:
    """Return the fine-tuning recipe of a run; a job adds its threads, its start and its length."""
    from osler.stages.finetune.config import FinetuneRecipe

    settings = spec.settings.plain()
    threads = {"threads": job.threads} if job and job.threads else {}
    train: dict[str, Any] = {**threads, **settings.pop("train", {}), **spec.runtime, "seed": spec.seed}
    if job and job.length:
        # A single-task baseline of matched length takes exactly this many steps; nothing else may end it.
        train |= {"steps": job.length.steps, "eval_every": job.length.eval_every, "patience": None, "budget": None}
    # A study does not use the confidence of single predictions, and its metrics do not depend on it.
    values = {"calibrate": False, **settings, "model": job.start if job else spec.model, "tasks": list(spec.tasks)}
    return validate(FinetuneRecipe, {**values, "keep_out": list(spec.kept_out), "train": train}, where=where)


def _torchrun(recipe: FinetuneRecipe, bundle: Path, job: RunJob) -> None:
    path = job.folder / "finetune.toml"
    write_atomic(path, recipe.to_toml())
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(job.processes)]
    command += ["-m", "osler", "finetune", "--recipe", str(path), "--out", str(bundle)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(job.threads or 1)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        # Only osler's own error line is safe to repeat; anything else may quote a document.
        errors = [line.partition("error: ")[2] for line in done.stderr.splitlines() if line.startswith("error: ")]
        raise OslerError(errors[0] if errors else f"torchrun exited with code {done.returncode}")


def _use_threads(job: RunJob) -> None:
    import torch

    if job.threads:
        torch.set_num_threads(job.threads)


def _parameters(path: Path) -> int:
    """Read the number of parameters in a safetensors file from its header."""
    with open(path, "rb") as handle:
        header = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")


def _on_gpu() -> bool:
    import torch

    # is_initialized tells whether this process already uses a GPU; asking CUDA for more would allocate memory on it.
    return torch.cuda.is_available() and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _device_use() -> DeviceUse:
    import torch

    if _on_gpu():
        return DeviceUse(torch.cuda.get_device_name(), torch.cuda.max_memory_allocated())
    return DeviceUse("cpu")


def _free_gpu_memory() -> None:
    """Free cached GPU memory, because other runs may share the GPU."""
    import torch

    if _on_gpu():
        gc.collect()
        torch.cuda.empty_cache()


def _machine_error(error: BaseException | None) -> str | None:
    """Describe the machine's problem if that caused the error, else return None."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _MACHINE:
            return _MACHINE[error.errno]
        # A run of several processes reports its error as text.
        if isinstance(error, OslerError) and (told := [text for text in _MACHINE.values() if text in error.problem]):
            return told[0]
        error = error.__cause__ or error.__context__
    return None


def _safe_reason(error: BaseException) -> str:
    """Describe an unexpected error without its message, which may quote a document."""
    kind = type(error).__name__
    if kind in {"OutOfMemoryError", "MemoryError"}:
        return "out of memory; use fewer workers or smaller batch_tokens"
    return f"internal error ({kind} at {place_of(error)})"
