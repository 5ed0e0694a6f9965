"""What decides the result of a run beyond its settings."""

from __future__ import annotations

import shutil
from pathlib import Path

from encoders import preset_encoder

from osler.artifacts.run import RunSettings, RunSpec
from osler.artifacts.task_folder import TaskFolder
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study import runner


def test_a_rate_that_is_left_to_the_encoder_is_part_of_the_key(tokenizer_folder: Path, tmp_path: Path):
    preset_encoder("tiny", vocab_size=400, pad_token_id=1, max_length=64, seed=1).save(tmp_path / "model")
    shutil.copyfile(tokenizer_folder / "tokenizer.json", tmp_path / "model" / "tokenizer.json")
    sizes = {"train": 2, "dev": 1, "test": 1}
    task = TaskFolder.open(prepare(PrepareRecipe(task="clinic-phi-en", options=sizes), tmp_path / "task").path)

    def inputs(**settings) -> tuple[str, ...]:
        spec = RunSpec(
            row="tiny",
            model=str(tmp_path / "model"),
            columns=("clinic-phi-en",),
            tasks=(task.artifact.path,),
            task_digests=(task.artifact.manifest.digest,),
            seed=1,
            split="test",
            settings=RunSettings(settings),
        )
        return runner.check(spec, "settings")

    assert inputs() == ("train.lr=0.001",)
    assert inputs(train={"lr": 5e-5}) == ()
