"""A real bash in which `osler` is answered by this process, so that a command does not pay for Python and torch again.

Everything else in a script (quotes, patterns, loops, pipes, redirections, other programs) is bash's own work.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from osler.cli import main as command_line

# Sends the command line to the socket, and hands on what comes back.
_CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    call = [sys.argv[1:], os.getcwd(), sys.stdin.buffer.read().decode("latin-1")]
    server.sendall(json.dumps(call).encode() + b"\\n")
    code, out, err = json.loads(server.makefile("rb").read())
sys.stdout.buffer.write(out.encode("latin-1"))
sys.stderr.buffer.write(err.encode("latin-1"))
sys.exit(code)
"""


@dataclass
class Call:
    """One call of `osler`, and how it ended."""

    arguments: list[str]
    folder: Path
    code: int
    error: str

    @property
    def out(self) -> Path | None:
        """The path after --out."""
        for option in ("--out", "-o"):
            if option in self.arguments:
                return self.folder / self.arguments[self.arguments.index(option) + 1]
        return None


class Shell:
    """Runs scripts. `change` may alter the arguments of a call before it runs, and see what else there is to see."""

    def __init__(self, change: Callable[[list[str], Path], list[str]] = lambda arguments, _: arguments) -> None:
        self._change = change
        self.calls: list[Call] = []

    def run(self, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a script in a folder, up to its first failure."""
        with tempfile.TemporaryDirectory() as place, socket.socket(socket.AF_UNIX) as server:
            address = f"{place}/osler.socket"
            server.bind(address)
            server.listen()
            server.settimeout(0.05)
            client = Path(place, "osler")
            client.write_text(_CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
            client.chmod(0o700)
            environment = {**os.environ, "PATH": f"{place}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
            with tempfile.TemporaryFile("w+") as output:
                bash = subprocess.Popen(
                    ["bash", "-eu", "-o", "pipefail", "-c", script],
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                while bash.poll() is None:
                    with contextlib.suppress(TimeoutError):
                        connection, _ = server.accept()
                        with connection:
                            connection.settimeout(None)
                            self._answer(connection)
                output.seek(0)
                return subprocess.CompletedProcess(script, bash.returncode, output.read())

    def _answer(self, connection: socket.socket) -> None:
        arguments, folder, given = json.loads(connection.makefile("rb").readline())
        changed = self._change(arguments, Path(folder))
        code, out, err = run_here(changed, Path(folder), given.encode("latin-1"))
        self.calls.append(Call(changed, Path(folder), code, err.decode(errors="replace")))
        # The client may be gone: `osler … | head -1`.
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(json.dumps([code, out.decode("latin-1"), err.decode("latin-1")]).encode())


def run_here(arguments: list[str], folder: Path, given: bytes) -> tuple[int, bytes, bytes]:
    """Run the command line in this process: exit code, standard output, standard error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["osler", *arguments])
        patch.setenv("COLUMNS", "120")
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        with _captured(patch, "stdout") as out, _captured(patch, "stderr") as err:
            code = 0
            try:
                command_line.main()
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            sys.stdout.flush()
            sys.stderr.flush()
            return code, out.getvalue(), err.getvalue()


@contextlib.contextmanager
def _captured(patch: pytest.MonkeyPatch, name: str) -> Iterator[io.BytesIO]:
    stream = io.BytesIO()
    patch.setattr(sys, name, io.TextIOWrapper(stream, encoding="utf-8", write_through=True))
    yield stream
