"""`osler demo`: what is wrong is said before the first stage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bundles import make_bundle
from typer.testing import CliRunner

from osler.cli import demo
from osler.cli.main import app
from osler.core.errors import OslerError
from osler.stages.serve import annotate
from osler.stages.serve.config import AnnotateRecipe


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("vocab.sizee=3", "unknown key 'sizee', did you mean 'size'?"),
        ("pretrain.train.stepz=3", "did you mean 'train.steps'?"),
        ("finetune.epochz=3", "did you mean 'epochs'?"),
        ("study.seedz=[1]", "did you mean 'seeds'?"),
        ("raw_documentz=60", "did you mean 'raw_documents'?"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_wrong_value_of_any_stage_is_an_error_before_the_first(
    tmp_path: Path, change: str, told: str, more: list[str]
) -> None:
    with pytest.raises(OslerError, match=re.escape(told.rstrip("?"))):
        CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--set", change, *more], catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OslerError, match=r"file/fast: cannot write: a part of the path is a file.*--out"):
        CliRunner().invoke(app, ["demo", "--fast", "--out", str(tmp_path / "file")], catch_exceptions=False)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that takes no folders")
def test_a_place_that_takes_no_folder_is_named() -> None:
    with pytest.raises(OslerError, match=r"/proc/demo/fast: cannot write"):
        CliRunner().invoke(app, ["demo", "--fast", "--out", "/proc/demo"], catch_exceptions=False)


def test_the_note_is_annotated_through_the_running_service(tmp_path: Path, tokenizer_folder: Path, monkeypatch) -> None:
    make_bundle(tmp_path / "bundle", tokenizer_folder, ("drugs", "farmacos"))
    (tmp_path / "note.txt").write_text("He was given aspirin 81 mg for chest pain.", encoding="utf-8")
    recipe = AnnotateRecipe(files=(tmp_path / "note.txt",), bundle=tmp_path / "bundle", device="cpu")
    annotations = annotate.run(recipe, tmp_path / "annotations")
    monkeypatch.setenv("OSLER_TOKEN", "correct-horse-battery")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    told = demo.serve(tmp_path, annotations)
    assert annotations.counts["entities"] > 0
    assert re.fullmatch(
        rf"{annotations.counts['entities']} entities from POST /v1/annotate in \d+ ms, as from the command line", told
    )
