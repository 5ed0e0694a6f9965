"""One fast demo, made once for all end-to-end tests of a worker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from forked import run_osler


@pytest.fixture(scope="session")
def osler() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in a process of its own."""
    return run_osler


@pytest.fixture(scope="session")
def demo_command() -> list[str]:
    """The command that makes `demo`. Only its bundle must find something: the encoder and the study train less than in `--fast`."""
    pretrain = 'pretrain={batch_tokens=1024,"train.steps"=20}'
    study = 'study={seeds=[1],"finetune.epochs"=1}'
    notes = "notes={train=44,dev=3,test=4}"
    return ["demo", "--fast", "--set", pretrain, "--set", study, "--set", notes]


@pytest.fixture(scope="session")
def demo(demo_command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished `osler demo --fast`, started as a user starts it."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "osler", *demo_command]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "demo" / "fast"
