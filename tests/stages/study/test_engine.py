"""Runs in worker processes: shared out by room, ended one by one, and none the worse for a kill."""

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

from osler.artifacts.run import RunSpec, state_of
from osler.core.errors import OslerError
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study.engine_local import LocalEngine
from osler.stages.study.engines import Room, RunJob, RunSlot, fits, listed_gpus, room
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import run

HERE = Path(__file__).parent

SCRIPT = """
import sys
from pathlib import Path
from fake_runner import FakeRunner
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import run

if __name__ == "__main__":
    folder, task = Path(sys.argv[1]), sys.argv[2]
    models = {name: {"model": name} for name in ("one", "two", "three")}
    recipe = StudyRecipe(models=models, tasks=(task,), seeds=(0, 1), resamples=200, workers=2)
    run(recipe, folder / "study", runner=FakeRunner(folder / "log", seconds=float(sys.argv[3])))
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    sizes = {"train": 3, "dev": 1, "test": 3}
    return prepare(PrepareRecipe(task="clinic-entities-en", options=sizes), tmp_path_factory.mktemp("t") / "task").path


def recipe(task: Path, *models: str, **more) -> StudyRecipe:
    values = {"models": {name: {"model": name} for name in models}, "tasks": [task], "seeds": [0, 1], "resamples": 200}
    return StudyRecipe.model_validate(values | {"workers": 2} | more)


def start(folder: Path, task: Path, seconds: float) -> subprocess.Popen[bytes]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    command = [sys.executable, str(script), str(folder), str(task), str(seconds)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)


def finished(folder: Path) -> dict[Path, int]:
    found = {}
    for status in folder.glob("study.runs/*/status.json"):
        if json.loads(status.read_text())["state"] == "done":
            found |= {path: path.stat().st_mtime_ns for path in status.parent.rglob("*") if path.is_file()}
    return found


def test_a_killed_worker_fails_its_run_alone_and_the_others_go_on(task, tmp_path, fake):
    runner = fake()
    with pytest.raises(OslerError, match=r"2 of 4 runs failed.*SIGKILL, most likely for want of memory"):
        run(recipe(task, "killed", "one"), tmp_path / "study", runner=runner)
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


def test_a_killed_study_goes_on_where_it_was_to_the_same_tables(task, tmp_path):
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    whole.mkdir()
    torn.mkdir()
    before = stop(start(torn, task, 0.3), torn, signal.SIGKILL)
    processes = [start(torn, task, 0), start(whole, task, 0)]
    assert [process.wait() for process in processes] == [0, 0]
    after = finished(torn)
    assert {path: after[path] for path in before} == before
    for name in ("table.md", "table.csv", "results.json", "choices.json"):
        assert (torn / "study" / name).read_bytes() == (whole / "study" / name).read_bytes()


def test_ctrl_c_ends_the_workers_too(task, tmp_path):
    process = start(tmp_path, task, 2)
    stop(process, tmp_path, signal.SIGINT)
    states = [state_of(status.parent) for status in tmp_path.glob("study.runs/*/status.json")]
    # None failed, and none is held by a process that was left behind.
    assert {status.state for status in states} <= {"done", "waiting"}


def test_workers_have_the_environment_of_their_study(task, tmp_path, fake, monkeypatch):
    """Workers come from a server that was started with the first study, whatever was set since."""
    for name in ("one", "two"):
        monkeypatch.setenv("FAKE_DEVICE", name)
        run(recipe(task, "model"), tmp_path / name, runner=fake())
        devices = {state_of(status.parent).device for status in tmp_path.glob(f"{name}.runs/*/status.json")}
        assert devices == {name}


def test_small_runs_share_a_gpu_by_memory_and_a_large_one_waits(tmp_path, fake):
    engine = LocalEngine(fake(), Room((RunSlot("0", 100), RunSlot("1", 100)), workers=4, threads=1, gated=True))
    busy: list[Any] = []

    def place(memory: int) -> int | None:
        spec = RunSpec("m", "m", ("c",), (tmp_path,), ("d",), 1, "test", "{}")
        job = RunJob(spec, "key", tmp_path, "m", score=False, memory=memory)
        found = engine._place(job, busy)
        if found is not None:
            busy.append(type("Worker", (), {"job": job, "place": found})())
        return found

    assert [place(40), place(70), place(40), place(40)] == [0, 1, 0, None]
    assert fits(RunSlot(None, 100), 0, 1000)  # what fits nowhere is tried alone


def test_the_room_is_by_cores_without_a_gpu_and_by_memory_with_one(monkeypatch):
    monkeypatch.setattr("osler.stages.study.engines.cores", lambda: 8)
    monkeypatch.setattr("osler.stages.study.engines.visible_gpus", list)
    assert (room(0, runs=100).workers, room(0, runs=100).threads) == (4, 2)
    assert (room(0, runs=2).workers, room(0, runs=2).threads) == (2, 4)
    assert (room(8, runs=100).workers, room(8, runs=100).threads, room(8, runs=100).gated) == (8, 1, False)
    monkeypatch.setattr("osler.stages.study.engines.visible_gpus", lambda: [RunSlot("0", 1000), RunSlot("1", 1000)])
    assert room(0, runs=100, smallest=300).workers == 6
    assert [room(0, runs=runs, smallest=10).workers for runs in (1, 7, 8, 9, 20, 100)] == [1, 7, 8, 5, 7, 8]
    assert room(0, runs=100, cpu_only=True).places[0].visible is None
    pairs = room(0, runs=100, processes=2, smallest=900)
    assert [place.visible for place in pairs.places] == ["0,1"]


def test_gpus_are_those_that_the_process_may_see():
    listing = "0, GPU-a, 1000\n1, GPU-b, 2000\n"
    assert listed_gpus(listing, None) == [RunSlot("0", 1000 << 20), RunSlot("1", 2000 << 20)]
    assert listed_gpus(listing, "1") == [RunSlot("1", 2000 << 20)]
    assert listed_gpus(listing, "GPU-b,0") == [RunSlot("1", 2000 << 20), RunSlot("0", 1000 << 20)]
