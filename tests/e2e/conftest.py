"""One fast demo, made once for all end-to-end tests of a worker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def osler() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in a process of its own."""

    def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "osler", *arguments]
        everything = {**os.environ, **environment}
        return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=everything, check=False)

    return run


@pytest.fixture(scope="session")
def demo(osler: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished `osler demo --fast`."""
    folder = tmp_path_factory.mktemp("demo")
    done = osler("demo", "--fast", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "demo" / "fast"
