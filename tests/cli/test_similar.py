"""`osler similar` and `osler infer` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bundles import make_bundle
from typer.testing import CliRunner

from osler.cli.main import app
from osler.core.errors import OutputError


@pytest.fixture(scope="module")
def bundle(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("cli") / "pairs"
    return str(make_bundle(folder, tokenizer_folder, ("entailment", "similarity")))


def run(*arguments: str, piped: str = ""):
    return CliRunner().invoke(app, list(arguments), input=piped, env={"COLUMNS": "200"})


def test_pairs_are_piped_in_and_lines_come_out(bundle):
    lines = "".join(json.dumps({"id": n, "premise": "Fever.", "hypothesis": "Ill."}) + "\n" for n in (7, 8))
    done = run("infer", "-b", bundle, "--format", "jsonl", piped=lines)
    assert done.exit_code == 0, done.output
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["7", "8"]


def test_a_file_is_written_and_some_skipped_is_exit_code_three(bundle, tmp_path):
    table, out = tmp_path / "pairs.csv", tmp_path / "out.tsv"
    table.write_text("a,b\nFever.,Ill.\nalone\n")
    given = ("similar", str(table), "-b", bundle, "--text-column", "a", "--text-column", "b", "-o", str(out))
    done = run(*given)
    assert done.exit_code == 3, done.output
    assert "1 input was skipped" in done.stderr
    header, row = out.read_text().splitlines()
    assert (header, row.split("\t")[0]) == ("id\tsimilarity", "1")
    before = out.read_bytes()
    assert isinstance(run(*given).exception, OutputError)
    assert run(*given, "--force").exit_code == 3
    assert out.read_bytes() == before


def test_a_dry_run_says_which_head_answers(bundle, tmp_path):
    (tmp_path / "pairs.tsv").write_text("first\tsecond\na\tb\n")
    done = run("similar", str(tmp_path / "pairs.tsv"), "-b", bundle, "--dry-run")
    assert done.exit_code == 0
    assert "head: similarity" in done.stderr
    assert done.stdout == ""
