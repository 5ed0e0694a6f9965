"""The command line as a user meets it: help, plans, errors, and no text where none may be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from forked import run_osler

COMMANDS = ["corpus", "vocab", "pretrain", "tasks", "finetune", "evaluate", "study", "annotate", "export", "demo"]


def osler(*arguments: str, cwd: Path | None = None, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-m", "osler", *arguments], capture_output=True, text=True, cwd=cwd, check=False)


def test_help_reads_like_the_flow():
    shown = osler("--help").stdout
    places = [shown.index(f" {command} ") for command in COMMANDS]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "command",
    [["corpus", "build"], ["vocab", "train"], ["pretrain"], ["tasks", "prepare"], ["finetune"], ["evaluate"], ["study", "run"],
     ["annotate"], ["export"], ["demo"]],
)  # fmt: skip
def test_every_command_has_out_set_force_and_dry_run(command):
    from typer.testing import CliRunner

    from osler.cli.main import app

    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"}).output
    for option in ("--out", "--set", "--force", "--dry-run"):
        assert option in shown, (command, option)


def test_importing_osler_brings_nothing_heavy():
    code = "import sys, osler; print([m for m in ('torch', 'transformers', 'numpy', 'pydantic', 'rich') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_help_brings_no_torch():
    code = "import sys\nfrom osler.cli.main import app\nprint([m for m in ('torch', 'transformers', 'pyarrow') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path):
    done = osler("tasks", "prepare", "clinic-phi-en", "--out", "task", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0
    assert "clinic-phi-en" in done.stderr
    assert "nothing was done" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "pieces"),
    [
        (["tasks", "info", "clinic-phi"], ["no task 'clinic-phi'", "Did you mean"]),
        (
            ["tasks", "prepare", "clinic-phi-en", "--set", "optoins.train=3"],
            ["unknown key 'optoins'", "did you mean 'options'"],
        ),
        (
            ["tasks", "prepare", "clinic-phi-en", "--set", "options.trian=3"],
            ["unknown key 'trian'", "did you mean 'train'"],
        ),
        (["tasks", "prepare", "clinic-phi-en", "--recipe", "missing.toml"], ["missing.toml", "no such recipe"]),
        (["finetune", "nothing-here", "--model", "no-model"], ["no-model"]),
        (["pretrain", "no-corpus", "--tokenizer", "no-tokenizer", "--steps", "5"], ["no-corpus", "osler corpus"]),
        (
            ["pretrain", "c", "-t", "t", "--set", "train.steps=many"],
            ["--set train.steps must be a whole number, not 'many'"],
        ),
        (["annotate", "missing.txt", "--bundle", "b"], ["missing.txt", "no such file"]),
        (["corpus", "build", "missing.txt"], ["missing.txt"]),
        (["evaluate", "no-bundle", "--task", "t"], ["no-bundle"]),
        (["study", "run", "demo/studdy"], ["Did you mean demo/study?"]),
    ],
)
def test_bad_input_is_one_clear_error_with_exit_code_two(tmp_path, arguments, pieces):
    done = run_osler(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    message = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(message) == 1
    for piece in pieces:
        assert piece in message[0], message[0]
    assert "Traceback" not in done.stderr
    assert not any(path.name == "manifest.json" for path in tmp_path.rglob("*"))


@pytest.mark.e2e
def test_the_base_install_has_no_torch_and_says_which_extra_to_install(root, tmp_path):
    python = root / ".venv-base" / "bin" / "python"
    if not python.exists():
        pytest.skip("the base environment is made by `make test`")
    base = str(python)
    found = subprocess.run(
        [base, "-c", "import importlib.util as u; print(u.find_spec('torch'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "None"
    assert osler("--help", python=base).returncode == 0
    assert "clinic-phi-en" in osler("tasks", "list", python=base).stdout
    assert "PATIENT" in osler("tasks", "info", "clinic-phi-en", python=base).stdout
    for arguments in (
        ["finetune", "t", "--model", "m"],
        ["tasks", "prepare", "clinic-phi-en"],
    ):
        done = osler(*arguments, python=base, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert 'pip install "osler[train]"' in done.stderr


@pytest.mark.parametrize("command", ["corpus build", "vocab train", "vocab compare", "pretrain", "distill", "finetune",
    "evaluate", "annotate", "export", "convert", "tasks prepare", "tasks new", "tasks synthesize"])  # fmt: skip
def test_every_option_that_comes_from_a_recipe_has_a_help_text(command):
    import typer

    from osler.cli import main

    found = typer.main.get_command(main.app)
    for name in command.split():
        found = found.get_command(None, name)
    for parameter in found.params:
        assert len(getattr(parameter, "help", "") or "") > 5, parameter.name


def test_a_negative_flag_overrides_the_recipe(tmp_path):
    from typer.testing import CliRunner

    from osler.cli.main import app

    (tmp_path / "packed.toml").write_text('task = "i2b2-2010"\nn = 8\narchives = true\n', encoding="utf-8")
    command = ["tasks", "synthesize", "-r", str(tmp_path / "packed.toml"), "--folders", "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert not list((tmp_path / "out").rglob("*.tar.gz"))
    assert not list((tmp_path / "out").rglob("*.zip"))
