from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from osler.train.stats import read_history


def test_a_run_killed_again_and_again_ends_as_if_it_never_was(tmp_path):
    worker = Path(__file__).with_name("killed_worker.py")
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    paths = filter(None, [str(worker.parents[1]), os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, str(worker), str(straight), str(broken)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "kills 15 of 15\n", done.stderr
    assert (broken / "final.bin").read_bytes() == (straight / "final.bin").read_bytes()
    records = read_history(straight)
    assert [record["step"] for record in records if record["kind"] == "train"] == [*range(3, 200, 3), 200]
    assert read_history(broken) == records
    assert [path.name for path in sorted((broken / "checkpoints").iterdir())] == ["step-0000000196", "step-0000000200"]
    for path in sorted((straight / "checkpoints").rglob("*.*")):
        copy = broken / path.relative_to(straight)
        assert path.is_dir() or copy.read_bytes() == path.read_bytes(), path.name
