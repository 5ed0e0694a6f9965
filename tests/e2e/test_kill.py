from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.e2e


def test_every_command_killed_or_out_of_room_ends_with_the_same_bytes(root):
    """A short run of the killer; `python benchmarks/kill.py --kills 100` is a long one."""
    command = [sys.executable, str(root / "benchmarks" / "kill.py"), "--kills", "1", "--disks", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
