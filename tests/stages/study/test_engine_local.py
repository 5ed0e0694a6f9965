"""Runs in worker processes: placed by room, stopped with their study, resumed after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from osler.artifacts.run import RunSettings, RunSpec, RunStatus
from osler.core.errors import OslerError
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study.engine_local import LocalEngine
from osler.stages.study.engines import Room, RunSlot, fits
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import run
from osler.stages.study.runner import RunJob

HERE = Path(__file__).parent

SCRIPT = """
import signal
import sys
from pathlib import Path
from fake_runner import FakeRunner
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import run

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with it ignored
    folder, task = Path(sys.argv[1]), sys.argv[2]
    models = {name: {"model": name} for name in ("one", "two", "three")}
    recipe = StudyRecipe(models=models, tasks=(task,), seeds=(0, 1), workers=2)
    FakeRunner(folder / "log", hangs=sys.argv[3] == "hangs").install()
    run(recipe, folder / "study")
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    sizes = {"train": 3, "dev": 1, "test": 3}
    return prepare(PrepareRecipe(task="clinic-entities-en", options=sizes), tmp_path_factory.mktemp("t") / "task").path


def recipe(task: Path, *models: str, **more) -> StudyRecipe:
    values = {"models": {name: {"model": name} for name in models}, "tasks": [task], "seeds": [0, 1]}
    return StudyRecipe.model_validate(values | {"workers": 2} | more)


def start(folder: Path, task: Path, then: str = "") -> subprocess.Popen[bytes]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(script), str(folder), str(task), then]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)


def finished(folder: Path) -> dict[Path, int]:
    found = {}
    for status in folder.glob("study.runs/*/status.json"):
        if json.loads(status.read_text())["state"] == "done":
            found |= {path: path.stat().st_mtime_ns for path in status.parent.rglob("*") if path.is_file()}
    return found


def test_a_killed_worker_fails_only_its_own_run(task, tmp_path, fake):
    runner = fake()
    with pytest.raises(OslerError, match=r"2 of 4 runs failed.*SIGKILL, most likely because memory ran out"):
        run(recipe(task, "killed", "one"), tmp_path / "study")
    assert sorted(runner.done("score")) == ["one, clinic-entities-en, seed 0", "one, clinic-entities-en, seed 1"]


def stop(process: subprocess.Popen[bytes], folder: Path, number: int) -> dict[Path, int]:
    """Stop a study once a run is done; returns what was done by then."""
    deadline = time.monotonic() + 60
    while not finished(folder):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait() != 0
    assert not (folder / "study").exists()
    return finished(folder)


def test_a_killed_study_resumes_and_gives_the_same_tables(task, tmp_path):
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    whole.mkdir()
    torn.mkdir()
    before = stop(start(torn, task, "hangs"), torn, signal.SIGKILL)
    processes = [start(torn, task), start(whole, task)]
    assert [process.wait() for process in processes] == [0, 0]
    after = finished(torn)
    assert {path: after[path] for path in before} == before
    for name in ("table.md", "table.csv", "results.json", "choices.json"):
        assert (torn / "study" / name).read_bytes() == (whole / "study" / name).read_bytes()


def test_ctrl_c_ends_the_workers_too(task, tmp_path):
    process = start(tmp_path, task, "hangs")
    stop(process, tmp_path, signal.SIGINT)
    states = [RunStatus.current(status.parent) for status in tmp_path.glob("study.runs/*/status.json")]
    # None failed, and none is held by a process that was left behind.
    assert {status.state for status in states} <= {"done", "waiting"}


def test_workers_have_the_environment_of_their_study(task, tmp_path, fake, monkeypatch):
    """Workers come from a server that was started with the first study, whatever was set since."""
    for name in ("one", "two"):
        monkeypatch.setenv("FAKE_DEVICE", name)
        fake()
        run(recipe(task, "model"), tmp_path / name)
        devices = {RunStatus.current(status.parent).device for status in tmp_path.glob(f"{name}.runs/*/status.json")}
        assert devices == {name}


def test_small_runs_share_a_gpu_by_memory_and_a_large_one_waits(tmp_path, fake):
    fake()
    engine = LocalEngine(Room((RunSlot("0", 100), RunSlot("1", 100)), workers=4, threads=1, gated=True))
    busy: list[Any] = []

    def place(memory: int) -> int | None:
        spec = RunSpec("m", "m", ("c",), (tmp_path,), ("d",), 1, "test", RunSettings())
        job = RunJob(spec, "key", tmp_path, "m", score=False, memory=memory)
        found = engine._find_slot(job, busy)
        if found is not None:
            busy.append(type("Worker", (), {"job": job, "slot": found})())
        return found

    assert [place(40), place(70), place(40), place(40)] == [0, 1, 0, None]
    assert fits(RunSlot(None, 100), 0, 1000)  # a run that fits nowhere is tried alone
