"""`osler annotate` on the command line: standard input, exit codes and messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bundles import HEADS, make_bundle
from typer.testing import CliRunner

from osler.cli.main import app
from osler.core.errors import OslerError


@pytest.fixture(scope="module")
def bundle(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_bundle(tmp_path_factory.mktemp("cli") / "bundle", tokenizer_folder, tuple(HEADS)))


def run(*arguments: str, piped: str | bytes = ""):
    return CliRunner().invoke(app, ["annotate", *arguments], input=piped, env={"COLUMNS": "200"})


@pytest.mark.parametrize("files", [["-"], []])
def test_a_note_is_piped_in_and_json_lines_come_out(bundle, files):
    done = run(*files, "-b", bundle, piped="Aspirin 81 mg.\n")
    assert done.exit_code == 0, done.output
    [found] = [json.loads(line) for line in done.stdout.splitlines()]
    assert (found["id"], found["text"]) == ("stdin", "Aspirin 81 mg.\n")


def test_a_piped_note_makes_an_artifact_too(bundle, tmp_path):
    for expected in ("made", "reused"):
        done = run("-", "-b", bundle, "-o", str(tmp_path / "out"), piped="Aspirin 81 mg.")
        assert done.exit_code == 0, done.output
        assert f"annotations {expected}: documents 1" in done.stderr


def test_some_skipped_is_exit_code_three_with_and_without_out_and_again(bundle, tmp_path):
    (tmp_path / "a.txt").write_text("Aspirin.")
    (tmp_path / "b.txt").write_bytes(b"fiebre m\xe1s tos")
    out = ["-o", str(tmp_path / "out")]
    for more in ([], out, out):
        done = run(str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "-b", bundle, *more)
        assert done.exit_code == 3, done.output
        assert "1 input was skipped" in done.stderr
        assert "b.txt: not UTF-8 at byte 8" in done.stderr
        assert "--encoding latin-1" in done.stderr
        assert "fiebre" not in done.stderr
    assert run(str(tmp_path / "b.txt"), "-b", bundle, "--encoding", "latin-1").exit_code == 0


def test_the_last_lines_say_how_many_documents_were_read_in_which_language(bundle, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "Aspirin for pain."}\n{"text": "Aspirina para el dolor."}\n')
    told = "documents read: 1 as English, 1 as Spanish"
    for more in ([], ["-o", str(tmp_path / "out")], ["-o", str(tmp_path / "out")]):
        done = run(str(tmp_path / "a.jsonl"), "-b", bundle, *more)
        assert told in done.stderr
    for more in (["--language", "all"], ["--head", "drugs"]):
        done = run(str(tmp_path / "a.jsonl"), "-b", bundle, *more)
        assert done.exit_code == 0
        assert "documents read" not in done.stderr


def test_the_help_explains_the_exit_codes_and_how_to_pipe():
    shown = " ".join(run("--help").output.split())
    assert "3: some files or lines could not be read" in shown
    for option in ("--text-column", "--id-column", "--encoding"):
        assert option in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{note}", "-b", "{note}"], "this is a file, not a bundle"),
        (["{note}", "-b", "{folder}"], "not a bundle: bundle.json is missing"),
        (["{note}", "-b", "{folder}/nothing"], "no such folder"),
        (["{note}", "-b", "{bundle}", "--head", "drug"], "this bundle has no head 'drug'. Did you mean 'drugs'?"),
        (["{note}", "-b", "{bundle}", "--language", "xx"], "no head for single texts in the language 'xx'"),
        (["{note}", "-b", "{bundle}", "-f", "brat"], "brat is written to a folder. Give --out"),
        (["{note}", "-b", "{bundle}", "--set", "device=cuda:9"], "device = 'cuda:9'"),
        (["{note}", "-b", "{bundle}", "-o", "{note}/out"], "cannot write: a part of the path is a file"),
        (["{folder}/nothing.txt", "-b", "{bundle}"], "no such file"),
        (["{folder}/empty", "-b", "{bundle}"], "no .txt or .jsonl file in this folder"),
        (["-b", "{bundle}"], "nothing was piped in. Name files or folders"),
    ],
)
def test_messages(bundle, tmp_path, arguments, message):
    (tmp_path / "note.txt").write_text("Aspirin.")
    (tmp_path / "empty").mkdir()
    places = {"note": tmp_path / "note.txt", "folder": tmp_path, "bundle": bundle}
    done = run(*(argument.format(**places) for argument in arguments))
    assert isinstance(done.exception, OslerError), done.output
    assert message in str(done.exception)
