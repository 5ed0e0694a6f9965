"""`osler convert-model`: from a folder as it was published to a fine-tuned model, as a user does it."""

from __future__ import annotations

import checkpoints
import pytest
from typer.testing import CliRunner

import osler
from osler.artifacts.bundle import Bundle
from osler.cli.main import app
from osler.core.errors import OslerError
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare


def call(*arguments: str) -> str:
    """What a command prints, or the message of its error."""
    done = CliRunner().invoke(app, list(arguments))
    if isinstance(done.exception, OslerError):
        return str(done.exception)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_published_model_is_converted_and_fine_tuned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkpoints.bert_folder(tmp_path / "biobert", rename=checkpoints.old_names)
    prepare(PrepareRecipe(task="clinic-phi-en", options={"train": 4, "dev": 2, "test": 2}), tmp_path / "task")
    tune = ("finetune", "task", "--model", "biobert", "--epochs", "1", "--device", "cpu", "--out", "bundle")
    assert "osler convert-model biobert --out DIR" in call(*tune)
    assert "--allow-pickle" in call("convert-model", "biobert", "--out", "encoder")
    assert "suggests --cased" in call("convert-model", "biobert", "--allow-pickle", "--out", "encoder")
    options = ("--cased", "--allow-pickle", "--out", "encoder")
    assert "dry run: nothing was done" in call("convert-model", "biobert", *options, "--dry-run")
    assert not (tmp_path / "encoder").exists()
    assert "encoder made" in call("convert-model", "biobert", *options)
    assert "encoder reused" in call("convert-model", "biobert", *options)
    call("finetune", "task", "--model", "encoder", *tune[4:])
    assert list(Bundle.load(tmp_path / "bundle", device="cpu").spec.heads) == ["clinic-phi-en"]


def test_python_has_the_same_function(tmp_path):
    folder = checkpoints.bert_folder(tmp_path / "model", cased=False)
    with pytest.raises(osler.OslerError, match="allow_pickle=True"):
        osler.convert_model(folder=folder, out=tmp_path / "out")
    with pytest.raises(osler.OslerError, match="Add cased=True or cased=False"):
        osler.convert_model(folder=folder, allow_pickle=True, out=tmp_path / "out")
    made = osler.convert_model(folder=folder, allow_pickle=True, cased=False, out=tmp_path / "out")
    assert made.config.model_type == "bert"
