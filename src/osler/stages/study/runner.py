"""One run of a study: a fine-tuning and its evaluation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osler.artifacts.run import RunSpec
from osler.core.config import validate
from osler.core.errors import OslerError, RecipeError
from osler.core.files import write_atomic
from osler.stages.study.engines import Facts, MatchedLength, RunJob

if TYPE_CHECKING:
    from osler.stages.finetune.config import FinetuneRecipe

_CONTEXT = 600 << 20
"""Bytes of GPU memory a process takes before it does anything."""


class LocalRunner:
    """Runs in the process it is called in; it has no state, so it can be sent to another."""

    modules = ("osler.stages.finetune.run", "osler.stages.evaluate.run", "transformers.models.auto.modeling_auto")

    def identify(self, model: str) -> str:
        """A digest of the weights, the shape and the vocabulary."""
        from osler.nn.folders import model_digest, resolve

        return model_digest(resolve(model))

    def check(self, spec: RunSpec, where: str) -> tuple[str, ...]:
        """Refuse settings that fine-tuning would; returns the digests of a teacher and of a corpus that they name."""
        from osler.artifacts.task_folder import TaskFolder
        from osler.core.artifact import Artifact
        from osler.stages.finetune.heads import check

        recipe = _recipe(spec, spec.model, None, where)
        try:
            check(recipe, [TaskFolder.open(path) for path in spec.tasks])
        except RecipeError as error:
            raise RecipeError(error.problem, where=error.where or where, fix=error.fix) from None
        found = []
        if recipe.teacher:
            found.append(self.identify(str(recipe.teacher.bundle)))
        if recipe.mlm:
            found.append(Artifact.open(recipe.mlm.corpus, kind="corpus").manifest.digest)
        return tuple(found)

    def memory(self, spec: RunSpec) -> int:
        """Weights, gradients and optimiser, 16 bytes a parameter, and what the layers keep of the largest batch."""
        from osler.nn.cost import memory_of
        from osler.nn.folders import load_config, resolve

        recipe = _recipe(spec, spec.model, None, "settings")
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
            return 0  # an architecture whose shape is named otherwise
        return needed + _CONTEXT

    def train(self, job: RunJob) -> Facts:
        """Fine-tune into folder/bundle, with torchrun where the run has several processes."""
        recipe = _recipe(job.spec, job.start, job.threads, "the study's fine-tuning settings", job.updates)
        if job.processes > 1:
            _torchrun(recipe, job)
            return Facts()
        from osler.stages.finetune import run as finetune

        _reset_peak()
        try:
            finetune.run(recipe, job.folder / "bundle")
            return _facts()
        finally:
            _let_go()

    def score(self, job: RunJob) -> Facts:
        """Score the study's split once for every column."""
        from osler.stages.evaluate import run as evaluate
        from osler.stages.evaluate.run import EvaluateRecipe

        device = json.loads(job.spec.runtime).get("device", "auto")
        if job.threads:
            import torch

            torch.set_num_threads(job.threads)
        try:
            for column, task in zip(job.spec.columns, job.spec.tasks, strict=True):
                recipe = EvaluateRecipe(bundle=job.folder / "bundle", task=task, split=job.spec.split, device=device)
                evaluate.run(recipe, job.folder / "evaluation" / column)
            return _facts()
        finally:
            _let_go()


def _recipe(
    spec: RunSpec, model: str, threads: int | None, where: str, updates: MatchedLength | None = None
) -> FinetuneRecipe:
    from osler.stages.finetune.config import FinetuneRecipe

    settings: dict[str, Any] = json.loads(spec.settings)
    own = {"threads": threads} if threads else {}
    train = {**own, **settings.pop("train", {}), **json.loads(spec.runtime), "seed": spec.seed}
    if updates is not None:
        # So many updates and no fewer: nothing else may end a twin.
        train |= {"steps": updates.steps, "eval_every": updates.eval_every, "patience": None, "budget": None}
    values = {**settings, "model": model, "tasks": list(spec.tasks), "keep_out": list(spec.kept_out), "train": train}
    return validate(FinetuneRecipe, values, where=where)


def _torchrun(recipe: FinetuneRecipe, job: RunJob) -> None:
    """Fine-tune in several processes."""
    path = job.folder / "finetune.toml"
    write_atomic(path, recipe.to_toml())
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(job.processes)]
    command += ["-m", "osler", "finetune", "--recipe", str(path), "--out", str(job.folder / "bundle")]
    environment = {**os.environ, "OMP_NUM_THREADS": str(job.threads or 1)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        # The command line's own last word is safe to repeat; anything else may quote a document.
        said = [line.partition("error: ")[2] for line in done.stderr.splitlines() if line.startswith("error: ")]
        raise OslerError(said[0] if said else f"torchrun ended with code {done.returncode}")


def _parameters(path: Path) -> int:
    """How many numbers a safetensors file holds, by its header."""
    with open(path, "rb") as handle:
        header = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))
    count = 0
    for name, entry in header.items():
        if name != "__metadata__":
            size = 1
            for length in entry["shape"]:
                size *= length
            count += size
    return count


def _on_gpu() -> bool:
    import torch

    # Whether this process already uses one: asking more would take memory on it.
    return torch.cuda.is_available() and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _reset_peak() -> None:
    import torch

    if _on_gpu():
        torch.cuda.reset_peak_memory_stats()


def _facts() -> Facts:
    import torch

    if _on_gpu():
        return Facts(torch.cuda.get_device_name(), torch.cuda.max_memory_allocated())
    return Facts("cpu")


def _let_go() -> None:
    """Give the GPU's memory back, for other runs share it."""
    import gc

    import torch

    if _on_gpu():
        gc.collect()
        torch.cuda.empty_cache()
