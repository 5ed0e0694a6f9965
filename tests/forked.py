"""Commands in processes of their own that need not import everything again.

Importing torch and transformers takes most of the time of a short command. A server that has imported them, and has started nothing,
forks a process for each command. `python -m osler` itself, from its first import, is tested by the tests that start it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from osler.core.processes import with_modules

MODULES = (
    "osler.cli.main",
    "osler.stages.corpus.run",
    "osler.stages.finetune.run",
    "osler.stages.pretrain.run",
    "osler.stages.serve.annotate",
    "osler.stages.study.run",
    "transformers.models.modernbert.modeling_modernbert",
)


def run_osler(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, as `python -m osler` does."""
    return _run(_command, arguments, cwd, environment)


def run_code(source: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, as `python -c` does; the exit code is negative if a signal ended it."""
    return _run(_code, (source, *arguments), cwd, {})


def _run(
    function: Callable[..., None], arguments: tuple[str, ...], cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "stdout"), Path(folder, "stderr")
        everything = {**os.environ, **environment}
        process = with_modules(MODULES).Process(
            target=_redirected, args=(function, arguments, cwd, everything, written)
        )
        process.start()
        process.join()
        out, err = (path.read_text(encoding="utf-8") if path.exists() else "" for path in written)
    assert process.exitcode is not None
    return subprocess.CompletedProcess(arguments, process.exitcode, out, err)


def _redirected(
    function: Callable[..., None],
    arguments: tuple[str, ...],
    cwd: Path,
    environment: Mapping[str, str],
    written: tuple[Path, Path],
) -> None:
    for descriptor, path in enumerate(written, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    function(*arguments)


def _command(*arguments: str) -> None:
    from osler.cli.main import main

    sys.argv = ["osler", *arguments]
    main()


def _code(source: str, *arguments: str) -> None:
    sys.argv = ["-c", *arguments]
    exec(source, {"__name__": "__main__"})
