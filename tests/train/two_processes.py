"""Run a worker script by two processes under torchrun (gloo, on this machine), and compare runs by their files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from osler.train.stats import read_history

# Additions happen in another order: (a + c) + (b + d) for two ranks, ((a + b) + c) + d for one. Weights are of order
# 0.1 to 1.
CLOSE = 1e-6


def run_by_two(script: str, out: Path) -> None:
    """Run a worker script to its end."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [*launch, script, str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as torchrun:
        try:
            _, errors = torchrun.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            torchrun.terminate()  # not kill: torchrun ends its workers when asked to
            raise
    assert torchrun.returncode == 0, errors


def notes(runs: Path, name: str, rank: int = 0) -> dict[str, Any]:
    """What a worker wrote down about a run."""
    found: dict[str, Any] = json.loads((runs / name / f"notes-{rank}.json").read_text())
    return found


def assert_same_run(left: Path, right: Path, rank: int = 0) -> None:
    """Final weights and every logged value agree."""
    expected = load_file(left / "final-0.safetensors")
    for name, value in load_file(right / f"final-{rank}.safetensors").items():
        torch.testing.assert_close(value, expected[name], atol=CLOSE, rtol=0.0)
    for one, two in zip(read_history(left), read_history(right), strict=True):
        assert two.keys() == one.keys()
        for key in one:
            assert two[key] == pytest.approx(one[key], abs=CLOSE), (one["step"], key)
