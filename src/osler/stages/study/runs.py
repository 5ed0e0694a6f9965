"""The runs of a study: what each one is, and how they are done, one after the other or several at once."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from osler.core.artifact import Artifact
from osler.core.console import progress
from osler.core.errors import OslerError


@dataclass(frozen=True)
class RunSpec:
    """One fine-tuning and its one evaluation."""

    name: str
    """The model's name in the study."""
    model: str
    task: Path
    task_digest: str
    seed: int
    split: str
    settings: str
    """Fine-tuning settings as canonical JSON, so that a spec can be hashed and compared."""

    def key(self, model_digest: str) -> str:
        """The content address: same model, data, settings and seed, same run."""
        content = json.dumps([model_digest, self.task_digest, self.seed, self.split, self.settings])
        return hashlib.sha256(content.encode()).hexdigest()[:20]


class Runner(Protocol):
    """Does one run in a folder and returns its evaluation. Given by the caller, for stages do not know each other."""

    def identify(self, model: str) -> str:
        """A digest of the model's files."""
        ...

    def __call__(self, spec: RunSpec, folder: Path) -> Artifact:
        """Fine-tune and evaluate, or reuse what the folder holds."""
        ...


def do_runs(specs: Iterable[RunSpec], store: Path, runner: Runner, workers: int) -> dict[RunSpec, Path]:
    """Do every run that is not done; returns the folder of each. A failure does not stop the others."""
    todo = list(specs)
    digests = {model: runner.identify(model) for model in {spec.model for spec in todo}}
    folders = {spec: store / spec.key(digests[spec.model]) for spec in todo}
    failures: list[tuple[RunSpec, str]] = []
    with progress("study", len(todo)) as bar:
        for spec, outcome in _outcomes(folders, runner, workers):
            if isinstance(outcome, OslerError):
                failures.append((spec, outcome.problem))
            bar.advance()
    if failures:
        spec, reason = failures[0]
        raise OslerError(
            f"{len(failures)} of {len(todo)} runs failed; the first, {spec.name} on {spec.task.name} with seed {spec.seed}: {reason}",
            where=store,
            fix="Mend the cause and run the same command again: finished runs are kept",
        )
    return folders


def _outcomes(
    folders: Mapping[RunSpec, Path], runner: Runner, workers: int
) -> Iterator[tuple[RunSpec, OslerError | None]]:
    if workers == 1:
        for spec, folder in folders.items():
            yield spec, _attempt(runner, spec, folder)
        return
    # Spawned, not forked: a forked torch with running threads can hang.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(_attempt, runner, spec, folder): spec for spec, folder in folders.items()}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _attempt(runner: Runner, spec: RunSpec, folder: Path) -> OslerError | None:
    """Do one run; a mistake the user can mend is kept for the end, so that it does not stop the other runs."""
    try:
        runner(spec, folder)
    except OslerError as error:
        return OslerError(str(error))  # plain, so that it travels between processes
    return None
