"""Two Ray nodes on loopback give the same bytes as this machine, and fail as loudly."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import two_nodes
from corpora import start

from osler.artifacts.corpus import Corpus
from osler.core.config import load_recipe
from osler.core.errors import InputError
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run

pytest.importorskip("ray")

# What is done on a node leaves a note of where, and part 3 is killed the first time. Functions of a script travel to the nodes whole.
SCRIPT = """
import json, os, sys, time
from pathlib import Path

import ray

from osler.core.config import load_recipe
from osler.core.cluster import RayPool
from osler.stages.corpus import clean, near_duplicates
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run

NOTES = Path(sys.argv[2]).with_name("notes")


def noted(function, pause):
    def do(task):
        import os, ray, signal, time

        with open(NOTES / ray.get_runtime_context().get_node_id(), "a") as file:
            print(function.__name__, file=file)
        if not pause and str(getattr(task, "kept", "")).endswith("kept-000003.parquet"):
            try:
                (NOTES / "killed").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(pause)
        function(task)

    return do


if __name__ == "__main__":
    options, out = json.loads(sys.argv[1]), Path(sys.argv[2])
    pause, run_all = options.pop("pause", 0), RayPool.run_all
    NOTES.mkdir(exist_ok=True)
    RayPool.run_all = lambda pool, function, tasks, label: run_all(pool, noted(function, pause), tasks, label=label)
    clean.PART_BYTES, near_duplicates._FEW, near_duplicates._PART_ROWS = 20_000, 0, 100
    ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)
    while len([node for node in ray.nodes() if node["Alive"]]) < 2:
        time.sleep(0.1)
    run(load_recipe(CorpusRecipe, None, [], options), out)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    with two_nodes() as environment:
        yield environment


def notes(folder: Path) -> dict[str, list[str]]:
    """What was done on each node."""
    return {path.name: path.read_text().split() for path in (folder / "notes").iterdir() if path.name != "killed"}


def test_two_nodes_give_the_same_bytes_although_a_worker_is_lost(
    tmp_path: Path, every_step: dict[str, Any], whole: Corpus, cluster: dict[str, str]
) -> None:
    relative = [
        source | {"files": [os.path.relpath(file, tmp_path) for file in source["files"]]}
        for source in every_step["sources"]
    ]
    process = start(every_step | {"engine": "ray", "sources": relative}, tmp_path / "out", cluster, SCRIPT)
    errors = process.communicate()[1]
    assert process.returncode == 0, errors
    made = Corpus.open(tmp_path / "out")
    assert made.manifest.files == whole.manifest.files
    assert made.card.sha256 == whole.card.sha256
    assert not [path for path in made.path.rglob("*") if path.name.startswith((".", "parts"))]
    done = notes(tmp_path)
    assert len(done) == 2
    assert (tmp_path / "notes" / "killed").exists()
    assert {name for names in done.values() for name in names} == {
        "clean_part",
        "_count_lines",
        "_remove_lines",
        "_write_bands",
        "_write_pairs",
        "_write_sets",
        "_write_similar",
        "_scan",
        "_write_shard",
    }


def test_a_killed_driver_is_resumed_on_this_machine(
    tmp_path: Path, every_step: dict[str, Any], whole: Corpus, cluster: dict[str, str]
) -> None:
    out = tmp_path / "out"
    process = start(every_step | {"engine": "ray", "pause": 0.5}, out, cluster, SCRIPT)
    parts = tmp_path / "out.partial" / "parts-2"
    deadline = time.monotonic() + 100
    while len(list(parts.glob("kept-*.parquet"))) < 2 and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = {path: path.stat().st_mtime_ns for path in parts.glob("kept-*.parquet")}
    assert start(every_step | {"workers": 1}, out).wait() == 0
    assert 2 <= len(done) < 10
    assert Corpus.open(out).manifest.files == whole.manifest.files


def test_a_task_that_fails_stops_the_run_with_its_own_error(
    tmp_path: Path, every_step: dict[str, Any], cluster: dict[str, str]
) -> None:
    with pytest.raises(InputError) as here:
        run(load_recipe(CorpusRecipe, None, [], every_step | {"strict": True, "workers": 1}), tmp_path / "here")
    process = start(every_step | {"strict": True, "engine": "ray"}, tmp_path / "out", cluster, SCRIPT)
    errors = process.communicate()[1]
    assert process.returncode == 1
    assert errors.strip().splitlines()[-1] == f"osler.core.errors.InputError: {here.value}"
    assert "web.jsonl:71: " in str(here.value)
    assert not (tmp_path / "out").exists()
