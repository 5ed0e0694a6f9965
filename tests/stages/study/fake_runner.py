"""Runs without training, for tests of what runs when. Imported by name, so that worker processes find it too."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from osler.artifacts.run import RunSpec, RunStatus
from osler.artifacts.task_folder import TaskFolder, write_records
from osler.core.errors import OslerError, writing
from osler.core.files import write_json
from osler.stages.study import engine_local, run, runner
from osler.stages.study.runner import DeviceUse, RunJob


@dataclass
class FakeRunner:
    """Takes the place of the functions of `runner`. Dev scores are given by model or by "model value-of-the-grid seed"; on the
    scored split it misses all mentions of the first documents, as many as `missed` says. A task has two batches, or as many as
    `batches` says, and tasks trained together take turns until the largest is through."""

    log: Path
    dev: dict[str, float] = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)
    protocol: dict[str, str] = field(default_factory=dict)
    fails: dict[str, float] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    hangs: bool = False
    """Whether every run but the first to come goes on until it is stopped."""
    disk_full: tuple[str, int] = ("", 0)
    """Model and seed of a run that finds the disk full until the file "mended" exists."""
    status_full: tuple[str, int] = ("", 0)
    """The same, and from then on its worker process can write no status either."""

    def install(self, replace: Callable[[Any, str, Any], None] = setattr) -> None:
        replace(run, "expect", lambda runs: None)
        replace(run, "describe", lambda runs, expected: ["expected time: not known of a fake"])
        for name in ("identify", "check", "memory", "train", "score"):
            replace(runner, name, getattr(self, name))
        replace(engine_local, "PRELOADED", ())

    def identify(self, model: str) -> str:
        return f"digest of {model}"

    def check(self, spec: RunSpec, where: str) -> tuple[str, ...]:
        return ()

    def memory(self, spec: RunSpec) -> int:
        return 1

    def train(self, job: RunJob) -> DeviceUse:
        model = job.spec.model
        if self._of(self.fails, job.spec, 0) and not (self.log.parent / "mended").exists():
            raise OslerError("this one cannot be done")
        if not (self.log.parent / "mended").exists():
            if (model, job.spec.seed) == self.status_full:
                RunStatus.write = _no_space  # type: ignore[method-assign]
            if (model, job.spec.seed) in (self.disk_full, self.status_full):
                _no_space(job, job.folder / "bundle")
        if model == "odd":
            raise ValueError("the patient was given aspirin")
        if model == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        bundle = job.folder / "bundle"
        if (bundle / "manifest.json").exists():
            return DeviceUse("fake")
        if self.hangs and not self._is_first():
            signal.pause()
        self._note("train", job)
        bundle.mkdir(parents=True, exist_ok=True)
        names = [TaskFolder.open(path).card.name for path in job.spec.tasks]
        value = self._of(self.dev, job.spec, 0.5)
        steps = [{"kind": "eval", "step": step, **dict.fromkeys(names, step / 10)} for step in (1, 2)]
        write_json(bundle / "history.json", steps)
        turns = dict.fromkeys(names, max(self.batches.get(name, 2) for name in names))
        trained = turns if job.length is None else {names[0]: job.length.steps}
        counts = {
            "dev": dict.fromkeys(names, value),
            "steps": sum(trained.values()),
            "best_step": 2,
            "start": job.start,
        }
        counts |= {"batches_trained": trained, "batches_by_epoch": [turns]}
        (bundle / "model.safetensors").touch()
        write_manifest(bundle, counts, {"epochs": 1}, {"model.safetensors": ""})
        return DeviceUse(os.environ.get("FAKE_DEVICE", "fake"))

    def score(self, job: RunJob) -> DeviceUse:
        for column, path in zip(job.spec.columns, job.spec.tasks, strict=True):
            self._score("score", job, path, job.folder / "evaluation" / column)
        for target in job.across:
            assert (job.folder / "bundle" / "model.safetensors").exists()
            self._score("across", job, target.task, target.evaluation(job.folder))
        return DeviceUse("fake")

    def _score(self, kind: str, job: RunJob, path: Path, folder: Path) -> None:
        if (folder / "metrics.json").exists():
            return
        self._note(kind, job)
        task = TaskFolder.open(path)
        gold = task.read(job.spec.split)
        missed = self._of(self.missed, job.spec, 0)
        found = [doc.with_(spans=()) if i < missed + job.spec.seed else doc for i, doc in enumerate(gold)]
        folder.mkdir(parents=True, exist_ok=True)
        write_records(found, folder / "predictions.parquet")
        name = self.protocol.get(job.spec.model, "strict")
        protocol = f"{task.card.name}/{name}@v1"
        write_json(folder / "metrics.json", {"protocol": protocol, "metric": "f1", "main": 0.5, "metrics": {}})

    def done(self, kind: str = "train") -> list[str]:
        """The labels of all jobs of a kind, in the order they were done."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(kind)]

    def _is_first(self) -> bool:
        try:
            (self.log.parent / "first").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _note(self, kind: str, job: RunJob) -> None:
        with open(self.log, "a") as stream:
            stream.write(f"{kind} {job.spec.label}\n")

    def _of(self, table: dict[str, float], spec: RunSpec, default: float) -> float:
        values = " ".join(str(value) for value in spec.point.values())
        for name in (f"{spec.model} {values} {spec.seed}", f"{spec.model} {values}", spec.model):
            if name in table:
                return table[name]
        return default


def _no_space(_: object, path: Path) -> None:
    with writing(path):
        raise OSError(errno.ENOSPC, "No space left on device")


def write_manifest(
    bundle: Path, counts: dict[str, Any], recipe: dict[str, Any], files: dict[str, str] | None = None
) -> None:
    """The manifest of a bundle; without files by default."""
    known = {"kind": "bundle", "format_version": 1, "identity": "", "parents": {}, "files": files or {}}
    write_json(bundle / "manifest.json", {**known, "recipe": recipe, "counts": counts})
