"""Ray nodes on loopback, for tests of what runs on a cluster."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def two_nodes() -> Iterator[dict[str, str]]:
    """A head and a second node with one core each, which ask for a token; gives the environment that joins them."""
    # A short path: Ray puts sockets there, whose names may not be long. A home of its own: Ray keeps a token there.
    folder = Path(tempfile.mkdtemp(prefix="ray"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"127.0.0.1:{port}"
    (folder / "home").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"HOME": str(folder / "home"), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=1", "--num-gpus=0", "--block"]
    start += ["--disable-usage-stats", "--node-ip-address=127.0.0.1", "--object-store-memory=80000000"]
    nodes = [
        [*start, "--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}"],
        [*start, f"--address={address}"],
    ]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in nodes:
            log = open(folder / f"node{len(running)}.log", "wb")  # noqa: SIM115 - the node writes to it until it ends
            running.append(
                subprocess.Popen(
                    command, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=folder / "home"
                )
            )
            _reachable(port, running[-1], folder)
        yield {**environment, "RAY_ADDRESS": address}
    finally:
        # Its own process groups and no others: `ray stop` ends every Ray of the machine.
        for process in running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _reachable(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, [log.read_text() for log in folder.glob("node*.log")]
        assert time.monotonic() < deadline
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
