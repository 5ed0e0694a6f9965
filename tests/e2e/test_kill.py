from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e


def attack(root: Path, *arguments: str) -> None:
    command = [sys.executable, str(root / "benchmarks" / "kill.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_killed_or_out_of_room_ends_with_the_same_bytes(root):
    """A short run of the killer; `python benchmarks/kill.py --kills 100` is a long one.

    A corpus with two workers is killed in tests/stages/corpus/test_run_identity.py and out of room in test_run_bad_input.py.
    """
    attack(root, "--kills", "1", "--disks", "1", "--without", "corpus build, two workers")


def test_a_corpus_with_every_step_and_format_killed_again_and_again_ends_with_the_same_bytes(root):
    """The seed decides where the traps are: before which change of a file."""
    attack(root, "--stages", "corpus build", "--kills", "2", "--disks", "0", "--seed", "2")
