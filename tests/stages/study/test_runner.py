"""What decides the result of a run beyond its settings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from encoders import preset_encoder

from osler.artifacts.run import RunSettings, RunSpec
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import ArtifactError
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study import runner


def spec_of(model: Path, task: TaskFolder, **settings) -> RunSpec:
    return RunSpec(
        row="tiny",
        model=str(model),
        columns=(task.card.name,),
        tasks=(task.artifact.path,),
        task_digests=(task.artifact.manifest.digest,),
        seed=1,
        split="test",
        settings=RunSettings(settings),
    )


@pytest.fixture
def model(tokenizer_folder: Path, tmp_path: Path) -> Path:
    preset_encoder("tiny", vocab_size=400, pad_token_id=1, max_length=64, seed=1).save(tmp_path / "model")
    shutil.copyfile(tokenizer_folder / "tokenizer.json", tmp_path / "model" / "tokenizer.json")
    return tmp_path / "model"


def prepared(name: str, folder: Path) -> TaskFolder:
    sizes = {"train": 2, "dev": 1, "test": 1}
    return TaskFolder.open(prepare(PrepareRecipe(task=name, options=sizes), folder / name).path)


def test_a_rate_that_is_left_to_the_encoder_is_part_of_the_key(model: Path, tmp_path: Path):
    task = prepared("clinic-phi-en", tmp_path)
    assert runner.check(spec_of(model, task), "settings") == ("train.lr=0.001",)
    assert runner.check(spec_of(model, task, train={"lr": 5e-5}), "settings") == ()


def test_a_model_without_a_pooler_is_refused_before_the_first_run(model: Path, tmp_path: Path):
    with pytest.raises(ArtifactError, match="has no pooler to start from"):
        runner.check(spec_of(model, prepared("clinic-entailment-en", tmp_path), head="pooler"), "settings")
    runner.check(spec_of(model, prepared("clinic-phi-en", tmp_path), head="pooler"), "settings")  # reads every token
