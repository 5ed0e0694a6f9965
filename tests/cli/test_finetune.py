"""`osler finetune`: a dry run stops where the run would stop, and tells what the run would do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from encoders import preset_encoder
from typer.testing import CliRunner

from osler.cli.main import app
from osler.core.errors import OslerError
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare

SIZES = {"train": 6, "dev": 2, "test": 2}


@pytest.fixture(scope="module")
def folder(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder with windows of 64 tokens, a decoder, a task, and an output of another kind."""
    from transformers import GPT2Config, GPT2Model

    folder = tmp_path_factory.mktemp("work")
    preset_encoder("tiny", vocab_size=400, pad_token_id=1, max_length=64, seed=1).save(folder / "encoder")
    GPT2Model(GPT2Config(vocab_size=400, n_embd=8, n_layer=1, n_head=1)).save_pretrained(folder / "decoder")
    for name in ("encoder", "decoder"):
        shutil.copyfile(tokenizer_folder / "tokenizer.json", folder / name / "tokenizer.json")
    shutil.copytree(folder / "encoder", folder / "damaged")
    (folder / "damaged" / "model.safetensors").write_bytes(b"\0" * 100)
    prepare(PrepareRecipe(task="clinic-entities-en", options=SIZES), folder / "task")
    (folder / "file").write_text("")
    return folder


def finetune(*arguments: str) -> tuple[int, str]:
    """Exit code and message of the command, as `main` reports them."""
    done = CliRunner().invoke(app, ["finetune", *arguments])
    if isinstance(done.exception, OslerError):
        return done.exception.exit_code, str(done.exception)
    return done.exit_code, done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["task", "--model", "./nowhere"], "no such folder"),
        (["task", "--model", "task"], "no config.json"),
        (["task", "--model", "decoder"], "decoder: this is a gpt2 model, not an encoder"),
        (["task", "--model", "damaged"], "damaged or incomplete"),
        (["./no-task", "--model", "encoder"], "no-task: no such folder. Make it first (osler tasks prepare)"),
        (["encoder", "--model", "encoder"], "not a task made by osler"),
        (["task", "task", "--model", "encoder"], "given twice"),
        (["task", "--model", "encoder", "--out", "task"], "this folder holds a task"),
        (["task", "--model", "encoder", "--out", "file/bundle"], "a part of the path is a file"),
        (["task", "--model", "encoder", "--set", "train.device=cuda"], "no CUDA device is available"),
        (["task", "--model", "encoder", "--set", "protocols.clinic-entities-en=strikt"], "no protocol 'strikt'"),
        (["task", "--model", "encoder", "--set", "batch_tokens=64", "--set", "mixing.batch_sizes.x=2"], "'x'"),
        (["task", "--add-to", "encoder"], "not a bundle made by osler"),
        (["task", "--model", "encoder", "--teacher", "encoder"], "not a bundle"),
    ],
)
def test_a_dry_run_stops_where_the_run_stops(folder, monkeypatch, tmp_path, arguments, problem):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    arguments = [*arguments, *([] if "--out" in arguments else ["--out", str(tmp_path / "out")])]
    dry = finetune(*arguments, "--dry-run")
    assert dry[0] == 2
    assert problem in dry[1]
    assert dry == finetune(*arguments)
    assert not list(tmp_path.iterdir())


def test_a_dry_run_shows_the_windows_steps_and_rate_of_the_run(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    arguments = ["task", "--model", "encoder", "--out", str(tmp_path / "out"), "--epochs", "2"]
    code, shown = finetune(*arguments, "--dry-run")
    assert code == 0
    assert "windows of 64 tokens (the encoder takes no more; max_length is 512)" in shown
    assert "peak learning rate 0.001 (the default for a modernbert encoder of hidden size 128)" in shown
    assert "clinic-entities-en: 6 training documents" in shown
    assert "2 evaluations on dev" in shown
    assert not list(tmp_path.iterdir())
    code, printed = finetune(*arguments, "--set", "train.device=cpu")
    assert code == 0
    planned = [line for line in shown.splitlines() if "dry run" not in line]
    assert set(planned) <= set(printed.splitlines())
    (steps,) = [line.split()[0] for line in planned if "steps (" in line]
    assert f"steps {steps} ·" in printed
    assert "reuse the bundle" in finetune(*arguments, "--dry-run")[1]


def test_a_dry_run_with_a_task_that_is_not_prepared_checks_the_model(folder, monkeypatch):
    monkeypatch.chdir(folder)
    code, shown = finetune("clinic-phi-en", "--model", "encoder", "--dry-run")
    assert code == 0
    assert "prepare task clinic-phi-en" in shown
    assert "once they are prepared" in shown
    assert finetune("clinic-phi-en", "--model", "decoder", "--dry-run")[0] == 2
    assert not (folder / "tasks").exists()
