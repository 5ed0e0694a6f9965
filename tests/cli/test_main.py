"""The frame around every command: help with examples, shell completion, and one line for every failure."""

from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from osler import __version__
from osler.cli import main as module
from osler.cli.main import COMMANDS, EXAMPLES, app


def commands() -> Iterator[tuple[str, Any]]:
    """Every command and subcommand by its full name; the empty name is `osler` itself."""
    root = typer.main.get_command(app)
    yield "", root
    for name in COMMANDS:
        command = root.get_command(None, name)
        yield name, command
        for child, inner in getattr(command, "commands", {}).items():
            yield f"{name} {child}", inner


ALL = dict(commands())


@pytest.fixture
def osler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command line in this process: exit code and standard error."""

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["osler", *arguments])
        with pytest.raises(SystemExit) as caught:
            module.main()
        code = caught.value.code
        assert isinstance(code, int)
        return code, capsys.readouterr().err

    return run


def shown(command: str, columns: int = 80) -> str:
    arguments = [*command.split(), "--help"]
    return CliRunner().invoke(app, arguments, prog_name="osler", env={"COLUMNS": str(columns)}).output


@pytest.mark.parametrize("command", ALL)
def test_every_help_ends_with_examples_that_fit_80_columns(command):
    text = shown(command)
    assert EXAMPLES[command]
    for example in EXAMPLES[command]:
        assert f" {example} " in text.partition("Examples:")[2], text


@pytest.mark.parametrize("command", ALL)
def test_no_name_is_truncated_in_80_columns(command):
    text = shown(command)
    assert "…" not in text
    assert "<bool>" not in text
    assert "list[" not in text.partition("Options")[2]
    for parameter in ALL[command].params:
        for name in (*parameter.opts, *parameter.secondary_opts):
            if name.startswith("-"):
                assert re.search(rf"[ ,]{name}[ ,]", text), name


@pytest.mark.parametrize("example", sorted({line for lines in EXAMPLES.values() for line in lines}))
def test_every_example_has_options_that_exist(example):
    first, *arguments = shlex.split(example.partition(" > ")[0])
    assert first == "osler"
    name = max((name for name in ALL if example.startswith(f"osler {name} ")), key=len)
    rest = arguments[len(name.split()) :]
    context = ALL[name].make_context(name, rest)
    for override in context.params.get("sets") or ():
        assert "=" in override


def test_examples_set_keys_that_exist(osler, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("Aspirin 81 mg daily.")
    for example in EXAMPLES["corpus build"]:
        if "abstracts" not in example:
            code, error = osler(*shlex.split(example)[1:], "--dry-run")
            assert code == 0, error


@pytest.mark.parametrize(
    ("words", "position", "offered"),
    [
        ("osler fin", 1, "finetune"),
        ("osler tasks pre", 2, "prepare"),
        ("osler finetune --mod", 2, "--model"),
        ("osler corpus build --recipe demo/cor", 4, "demo/corpus"),
    ],
)
def test_the_shell_completes_commands_options_and_recipes(words, position, offered):
    request = {"COMP_WORDS": words, "COMP_CWORD": str(position), "_OSLER_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "osler"], capture_output=True, text=True, env={**os.environ, **request}, check=True
    )
    assert done.stdout.split() == [offered]


def test_completing_a_command_imports_none_of_them():
    request = {"COMP_WORDS": "osler ", "COMP_CWORD": "1", "_OSLER_COMPLETE": "complete_bash"}
    code = "import sys\nfrom osler.cli.main import main\ntry: main()\nfinally: print('osler.cli.corpus' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **request}, check=False
    )
    assert done.stdout.split() == [*COMMANDS, "False"]


def test_completion_can_be_shown_for_a_shell():
    done = subprocess.run(
        [sys.executable, "-m", "osler", "--show-completion", "bash"],
        capture_output=True,
        text=True,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        check=False,
    )
    assert "_OSLER_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("corpuss", "error: no such command 'corpuss'. Did you mean 'corpus'? Run `osler --help` for"),
        ("corpus bild", "error: no such command 'bild'. Did you mean 'build'? Run `osler corpus --help` for"),
        ("xyz", "error: no such command 'xyz'. Run `osler --help` for"),
        ("corpus build --outt x", "error: no such option: --outt. Did you mean --out? Run `osler corpus build --help`"),
        ("corpus build --zzz", "error: no such option: --zzz. Run `osler corpus build --help`"),
        ("finetune t -m m --epochs three", "error: --epochs must be a whole number, not 'three'. Run `osler finetune"),
        ("finetune t -m m --epochs 0", "error: --epochs must be at least 1, not 0."),
        ("tasks info", "error: the argument TASK is required. Run `osler tasks info --help` for"),
        ("corpus build", "error: the argument SOURCES is required: files, folders and glob patterns"),
        ("annotate a.txt", "error: a.txt: no such file"),
        ("evaluate b", "error: --task is required"),
        ("finetune t -m m --set train.learning_rate=1", "error: --set: unknown key 'train.learning_rate', did you mean 'train.lr'?"),
        ("finetune t -m m --set train.betas=0.9", "error: --set train.betas must be a list of 2 numbers, not a list of 1. Write"),
        ("finetune t -m m --mixing robin", "error: --mixing must be 'round-robin', 'proportional', 'temperature' or"),
    ],
)  # fmt: skip
def test_every_wrong_call_is_one_line(osler, arguments, message):
    code, error = osler(*arguments.split())
    assert code == 2
    assert len(error.splitlines()) == 1
    assert error.startswith(message)


def test_ctrl_c_says_how_to_continue(osler, monkeypatch):
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("osler.stages.corpus.run.plan", interrupt)
    code, error = osler("corpus", "build", "x")
    assert (code, error) == (130, "error: stopped. Run the same command again to continue.\n")


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "error: the disk is full. Free some space and run again."),
        (MemoryError(), "error: memory ran out."),
        (ModuleNotFoundError("x", name="torch"), "error: this needs the Python package 'torch'"),
    ],
)
def test_what_the_system_refuses_is_explained(osler, monkeypatch, raised, message):
    def fail(*_: Any) -> None:
        raise raised

    monkeypatch.setattr("osler.stages.corpus.run.plan", fail)
    code, error = osler("corpus", "build", "x")
    assert code == 2
    assert error.startswith(message)


def test_an_internal_error_says_what_to_report_and_quotes_nothing(osler, monkeypatch):
    def fail(*_: Any) -> None:
        int("CANARY John Smith")

    monkeypatch.setattr("osler.stages.corpus.run.plan", fail)
    code, error = osler("corpus", "build", "CANARY-file.txt")
    assert code == 1
    assert "CANARY" not in error
    assert f"osler {__version__}, corpus build, ValueError at cli/common.py:" in error
    assert f"{Path(__file__).name}:" in error
    assert "OSLER_DEBUG=1" in error


def test_the_traceback_is_shown_only_on_request(osler, monkeypatch):
    def fail(*_: Any) -> None:
        raise KeyError("CANARY")

    monkeypatch.setattr("osler.stages.corpus.run.plan", fail)
    monkeypatch.setenv("OSLER_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["osler", "corpus", "build", "x"])
    with pytest.raises(KeyError):
        module.main()


def test_quiet_leaves_out_the_plan(osler, tmp_path, monkeypatch):
    monkeypatch.setenv("OSLER_QUIET", "0")
    (tmp_path / "a.txt").write_text("Aspirin 81 mg daily for chest pain and headache.")
    command = ["corpus", "build", str(tmp_path / "a.txt"), "--out", str(tmp_path / "corpus"), "--set", "workers=1"]
    code, error = osler("--quiet", *command)
    assert code == 0
    assert len(error.splitlines()) == 1
    assert "corpus made: documents 1" in error


def test_a_closed_pipe_ends_without_a_word():
    command = f"{shlex.quote(sys.executable)} -m osler tasks info clinic-phi-en --toml | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_a_dry_run_fails_where_the_run_would(osler, tmp_path):
    (tmp_path / "a.txt").write_text("Aspirin")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    source = str(tmp_path / "a.txt")
    for arguments, message in [
        ((str(tmp_path / "missing.txt"), "--out", str(tmp_path / "out")), "no such file or folder"),
        ((source, "--out", str(tmp_path / "taken")), "this exists and is not a finished osler artifact"),
        ((source, "--out", str(tmp_path / "out"), "--set", "shard_megabytes=0"), "must be at least 1"),
    ]:
        dry, real = osler("corpus", "build", *arguments, "--dry-run"), osler("corpus", "build", *arguments)
        assert dry[0] == real[0] == 2
        assert message in dry[1].splitlines()[-1]
        assert dry[1].splitlines()[-1] == real[1].splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "taken"]
    assert osler("corpus", "build", source, "--out", str(tmp_path / "taken"), "--force", "--dry-run")[0] == 0


def test_settings_of_files_named_on_the_command_line(osler, tmp_path):
    (tmp_path / "notas.txt").write_bytes("Dolor de cabeza desde hace años, sin fiebre ni tos.\n".encode("latin-1") * 2)
    command = ["corpus", "build", str(tmp_path / "notas.txt"), "--out", str(tmp_path / "corpus"), "--set", "workers=1"]
    code, error = osler(*command)
    assert code == 2
    assert "notas.txt:1: byte 29 of this line is not valid utf-8" in error
    assert "--encoding latin-1" in error
    code, error = osler(*command, "--encoding", "latin-1", "--language", "es", "--unit", "line")
    assert code == 0
    assert "documents 1 " in error  # the other line is a copy
    assert osler(*command, "--language", "Spanish") == (
        2, "error: --language must be a language code such as en or es, not 'Spanish'.\n"
    )  # fmt: skip
    assert osler(*command, "--unit", "page")[1] == "error: --unit must be 'file', 'line' or 'block', not 'page'.\n"
    assert osler("corpus", "build", "--language", "es")[1].startswith("error: --language is for files named on the")


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
sys.argv = ["osler", *{arguments!r}]
from osler.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [
        ("pyarrow", "corpus", ["corpus", "build", __file__, "--reader", "text"]),
        ("ftfy", "corpus", ["corpus", "build", __file__, "--reader", "text", "--set", "workers=1"]),
        ("pyarrow", "corpus", ["vocab", "train", "corpus"]),
        ("pyarrow", "train", ["tasks", "prepare", "clinic-phi-en"]),
        ("torch", "train", ["finetune", "task", "--model", "encoder"]),
        ("fastapi", "serve", ["serve", "--port", "0"]),
    ],
)
def test_a_missing_package_names_the_extra_that_has_it(tmp_path, module, extra, arguments):
    code = BLOCKED.format(module=module, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2, done.stderr
    assert f'pip install "osler[{extra}]"' in done.stderr
    assert f"'{module}'" in done.stderr
    assert "Traceback" not in done.stderr
