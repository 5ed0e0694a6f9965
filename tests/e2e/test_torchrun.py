"""Several processes: `torchrun -m osler pretrain` learns what one process learns."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("demo")]


def losses(folder):
    records = [json.loads(line) for line in (folder / "logs" / "log.jsonl").read_text().splitlines()]
    return [record.get("loss", record.get("validation_loss")) for record in records]


def test_two_processes_pretrain_as_one_does(osler, demo, tmp_path):
    arguments = ["pretrain", str(demo / "corpus"), "-t", str(demo / "tokenizer"), "-r", "demo/pretrain", "--steps", "6"]
    arguments += [
        "--set",
        "accumulate=2",
        "--set",
        "batch_tokens=512",
        "--set",
        "train.log_every=2",
        "--set",
        "validation_tokens=2000",
    ]
    done = osler(*arguments, "-o", "one", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "osler",
        *arguments,
    ]
    two = subprocess.run(
        [*command, "-o", "two"], capture_output=True, text=True, cwd=tmp_path, env=os.environ, check=False
    )
    assert two.returncode == 0, two.stderr
    assert losses(tmp_path / "one") == pytest.approx(losses(tmp_path / "two"), abs=1e-5)
    assert two.stderr.count("encoder made") == 1
