"""Two Ray nodes on loopback give the same study as this process: the same keys and the same files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import two_nodes
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
    with two_nodes() as environment:
        yield environment


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
