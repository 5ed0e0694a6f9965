"""Worker processes that share what takes long to load."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, sys
from osler.core.processes import with_modules

LOOK = "import os, sys; print('colorsys' in sys.modules, os.environ['OMP_NUM_THREADS'], flush=True)"

if __name__ == "__main__":
    context = with_modules(["colorsys"])
    workers = [context.Process(target=exec, args=(LOOK,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("colorsys" in sys.modules, os.environ["OMP_NUM_THREADS"], "OPENBLAS_NUM_THREADS" in os.environ)
"""


def test_workers_start_with_modules_loaded_and_the_environment_is_restored(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "3"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["True 1", "True 1", "False 3 False"]
