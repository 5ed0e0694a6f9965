"""A run that is killed when all its training is done: nothing is trained twice, and the bytes are those of a run that was not."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
import torch
from killing import die_at_call

from osler.artifacts.tokenizer import Tokenizer
from osler.clinic.raw import raw_texts
from osler.core import artifact as artifacts
from osler.core.config import load_recipe
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run as build_corpus
from osler.stages.pretrain import report
from osler.stages.pretrain import run as stage
from osler.stages.pretrain.config import PretrainRecipe

SETTINGS = (
    *("preset=tiny", "max_length=32", "batch_tokens=256", "validation_share=0.2", "validation_tokens=300"),
    *("train.steps=4", "train.log_every=1", "train.device=cpu", "train.checkpoint_every=2", "train.threads=1"),
)


@pytest.fixture(scope="module")
def recipe(tokenizer_folder, tmp_path_factory) -> PretrainRecipe:
    folder = tmp_path_factory.mktemp("export")
    (folder / "raw.jsonl").write_text("".join(json.dumps(record) + "\n" for record in raw_texts(60, "en", 1)))
    corpus = build_corpus(CorpusRecipe(sources=[{"files": [str(folder / "raw.jsonl")]}]), folder / "corpus").path
    given = {"corpus": corpus, "tokenizer": tokenizer_folder, "tokens": folder / "tokens"}
    return load_recipe(PretrainRecipe, None, SETTINGS, given)


@pytest.fixture(scope="module")
def straight(recipe, tmp_path_factory) -> dict[str, bytes]:
    return contents(stage.run(recipe, tmp_path_factory.mktemp("straight") / "encoder").path)


def contents(folder: Path) -> dict[str, bytes]:
    """All that must be equal: every file but the logs."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith("logs/")}


def killed(recipe: PretrainRecipe, out: Path, module: object, function: str, call: int) -> None:
    """Run in a child process that dies by SIGKILL just before the n-th call of a function."""
    child = os.fork()
    if child == 0:
        die_at_call(module, function, call)
        torch.set_num_threads(1)  # the threads of the parent are not here
        try:
            stage.run(recipe, out)
        except BaseException as error:
            print("child failed:", repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


MOMENTS = {
    "before the tokenizer is copied": (Tokenizer, "copy_to", 1),
    "while the card is written": (os, "replace", 3),  # after those of identity.json and peak.json: half a file is left
    "before the page is written": (report, "report_page", 1),
    "before the checkpoints go": (artifacts, "remove_tree", 1),
    "before the files are hashed": (artifacts, "_finish_partial", 1),
    "before the folder is moved into place": (artifacts, "remove_tree", 2),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_after_training_nothing_is_trained_again(recipe, straight, tmp_path, moment):
    out = tmp_path / "encoder"
    killed(recipe, out, *MOMENTS[moment])
    assert not out.exists()
    log = tmp_path / "encoder.partial" / "logs" / "log.jsonl"
    before = log.read_bytes()
    assert json.loads(before.splitlines()[-1])["step"] == 4
    made = stage.run(recipe, out)
    # The log has the speed of every update: of a second training it would be another.
    assert (out / "logs" / "log.jsonl").read_bytes() == before
    assert contents(out) == straight
    assert made.manifest.counts["steps"] == 4
    assert not (out / "checkpoints").exists()
    assert stage.run(recipe, out).reused


def test_a_process_that_comes_late_finds_the_run_over(tmp_path):
    """Under torchrun the first process may have moved the folder to its place before another one looks."""
    assert artifacts.Workspace(tmp_path / "encoder.partial", main=False).training_is_finished()
    (tmp_path / "encoder.partial").mkdir()
    assert not artifacts.Workspace(tmp_path / "encoder.partial", main=False).training_is_finished()
