"""`osler evaluate`: a dry run stops where the run would stop, and progress is shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from encoders import preset_encoder
from typer.testing import CliRunner

from osler.cli.main import app
from osler.core.errors import OslerError
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import run as train
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare

SIZES = {"train": 4, "dev": 2, "test": 3}


@pytest.fixture(scope="module")
def folder(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with one head, its task and two others."""
    folder = tmp_path_factory.mktemp("work")
    preset_encoder("tiny", vocab_size=400, pad_token_id=1, max_length=64, seed=1).save(folder / "encoder")
    shutil.copyfile(tokenizer_folder / "tokenizer.json", folder / "encoder" / "tokenizer.json")
    for name in ("clinic-entities-en", "clinic-phi-en", "clinic-specialty-en"):
        prepare(PrepareRecipe(task=name, options=SIZES), folder / name)
    values = {"model": str(folder / "encoder"), "tasks": [folder / "clinic-entities-en"], "epochs": 1}
    train(FinetuneRecipe.model_validate(values | {"train": {"device": "cpu"}}), folder / "bundle")
    return folder


def evaluate(*arguments: str) -> tuple[int, str]:
    """Exit code and message of the command, as `main` reports them."""
    done = CliRunner().invoke(app, ["evaluate", *arguments])
    if isinstance(done.exception, OslerError):
        return done.exception.exit_code, str(done.exception)
    return done.exit_code, done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nowhere", "--task", "clinic-entities-en"], "nowhere: no such folder. Make it first (osler finetune)"),
        (["encoder", "--task", "clinic-entities-en"], "not a bundle made by osler"),
        (["clinic-entities-en", "--task", "clinic-entities-en"], "holds a task, not a bundle"),
        (["bundle", "--task", "./no-task"], "no-task: no such folder. Make it first (osler tasks prepare)"),
        (["bundle", "--task", "clinic-phi-en"], "no head was trained on the task clinic-phi-en (heads: clinic-entities-en)"),
        (["bundle", "--task", "clinic-entities-en", "--head", "clinic-entity"], "Did you mean 'clinic-entities-en'?"),
        (["bundle", "--task", "clinic-specialty-en", "--head", "clinic-entities-en"], "the head is for tagging"),
        (["bundle", "--task", "clinic-entities-en", "--protocol", "strikt"], "no protocol 'strikt'"),
        (["bundle", "--task", "clinic-entities-en", "--split", "tset"], "Use one of: train, dev, test"),
        (["bundle", "--task", "clinic-entities-en", "--set", "device=cuda"], "no CUDA device is available"),
        (["bundle", "--task", "clinic-entities-en", "--out", "bundle"], "this folder holds a bundle"),
    ],
)  # fmt: skip
def test_a_dry_run_stops_where_the_run_stops(folder, monkeypatch, tmp_path, arguments, problem):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    arguments = [*arguments, *([] if "--out" in arguments else ["--out", str(tmp_path / "out")])]
    dry = evaluate(*arguments, "--dry-run")
    assert dry[0] == 2
    assert problem in dry[1]
    assert dry == evaluate(*arguments)
    assert not list(tmp_path.iterdir())


def test_a_dry_run_names_head_protocol_and_documents(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    code, shown = evaluate("bundle", "--task", "clinic-entities-en", "--out", str(tmp_path / "out"), "--dry-run")
    assert code == 0
    assert "the test split of clinic-entities-en (3 documents) with the head clinic-entities-en of bundle" in shown
    assert "under clinic-entities-en/strict@v1: f1" in shown
    assert not list(tmp_path.iterdir())


def test_progress_covers_every_window(folder, monkeypatch, tmp_path):
    from contextlib import contextmanager

    seen: list[tuple[str, float]] = []

    class Bar:
        def advance(self, amount: float = 1) -> None:
            seen.append(("done", amount))

    @contextmanager
    def bar(description, total):
        seen.append((description, total))
        yield Bar()

    monkeypatch.chdir(folder)
    monkeypatch.setattr("osler.stages.evaluate.run.progress", bar)
    code, message = evaluate(
        "bundle", "--task", "clinic-entities-en", "--out", str(tmp_path / "out"), "--set", "device=cpu"
    )
    assert code == 0, message
    (name, total), *done = seen
    assert name == "evaluate clinic-entities-en"
    assert total == sum(amount for _, amount in done) > 3
