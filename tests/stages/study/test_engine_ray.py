"""Two Ray nodes on loopback give the same study as this process: the same keys and the same files."""

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
from pathlib import Path

import pytest
from encoders import preset_encoder

from osler.core.artifact import Artifact
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import run

ray = pytest.importorskip("ray")

SCRIPT = """
import os
import sys
import time
from pathlib import Path

import ray

from osler.core.config import load_recipe
from osler.stages.study import runner
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import run


def noted(job, train=runner.train):
    (job.folder / "node.txt").write_text(ray.get_runtime_context().get_node_id())
    return train(job)


if __name__ == "__main__":
    ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)
    while len([node for node in ray.nodes() if node["Alive"]]) < 2:
        time.sleep(0.1)
    recipe = load_recipe(StudyRecipe, Path(sys.argv[1]), ["engine=ray"])
    runner.train = noted
    run(recipe, Path(sys.argv[2]))
"""


@pytest.fixture
def cluster() -> Iterator[dict[str, str]]:
    """A head and a second node with one core each; gives the environment that joins them."""
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
            running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True))
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


def files(store: Path) -> dict[str, dict[str, str]]:
    """Every artifact of every run, by its place, with the hashes of its files."""
    found = {
        path.parent.relative_to(store).as_posix(): Artifact.open(path.parent) for path in store.rglob("manifest.json")
    }
    return {name: artifact.manifest.files for name, artifact in found.items()}


def test_two_ray_nodes_give_the_same_study_as_this_process(tokenizer_folder, tmp_path, cluster):
    encoder = tmp_path / "encoder"
    preset_encoder("tiny", vocab_size=400, pad_token_id=1, max_length=64, seed=1).save(encoder)
    shutil.copyfile(tokenizer_folder / "tokenizer.json", encoder / "tokenizer.json")
    sizes = {"train": 3, "dev": 1, "test": 2}
    task = prepare(PrepareRecipe(task="clinic-entities-en", options=sizes), tmp_path / "task").path
    train = {"lr": 1e-3, "device": "cpu", "threads": 1}
    recipe = StudyRecipe.model_validate(
        {
            "models": {"tiny": {"model": str(encoder)}},
            "tasks": [task],
            "seeds": [1, 2],
            "workers": 1,
            "finetune": {"max_length": 64, "overlap": 8, "epochs": 1, "train": train},
        }
    )
    here = run(recipe, tmp_path / "here")
    (tmp_path / "study.toml").write_text(recipe.changed(workers=0).to_toml())
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "study.toml"), str(tmp_path / "there")]
    done = subprocess.run(command, env=cluster, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "there.runs") == files(tmp_path / "here.runs")
    assert Artifact.open(tmp_path / "there").manifest.files == here.manifest.files
    nodes = {path.read_text() for path in (tmp_path / "there.runs").glob("*/node.txt")}
    assert len(nodes) == 2
