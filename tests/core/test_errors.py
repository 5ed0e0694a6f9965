"""Errors of the system, missing extras, and what every error says."""

from __future__ import annotations

import errno
import re
import tomllib
from pathlib import Path

import pytest

from osler.core.errors import (
    MissingExtraError,
    OslerError,
    OutputError,
    explain_system_error,
    nearest,
    writing,
)
from osler.core.extras import _EXTRA_OF, available, explain_missing, require


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EFBIG, errno.EIO])
def test_refused_writes_become_one_clear_error(tmp_path, number):
    with pytest.raises(OutputError, match="cannot write"), writing(tmp_path):
        raise OSError(number, "x")


@pytest.mark.parametrize("name", ["out", "out/deep/file", "out.partial/file", ".out.lock", "."])
def test_an_impossible_folder_is_a_problem_of_the_output(tmp_path, name):
    with pytest.raises(OutputError, match="files cannot be created here"), writing(tmp_path / "out"):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(tmp_path / name))


def test_an_unreadable_input_is_no_problem_of_the_output(tmp_path):
    with pytest.raises(PermissionError) as caught, writing(tmp_path / "out"):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "notes.txt"))
    explained = explain_system_error(caught.value)
    assert str(explained) == f"{tmp_path}/notes.txt: permission denied. Check the path and its permissions."


def test_system_errors_are_explained_and_others_are_not():
    full = explain_system_error(OSError(errno.ENOSPC, "No space left on device"))
    assert str(full) == "the disk is full. Free some space and run again."
    assert "memory ran out" in str(explain_system_error(MemoryError()))
    assert explain_system_error(OSError("a parser's own words")) is None
    assert explain_system_error(KeyError("John Smith")) is None


def test_other_system_errors_pass_through(tmp_path):
    with pytest.raises(OSError, match="x") as caught, writing(tmp_path):
        raise OSError(errno.EINTR, "x")
    assert not isinstance(caught.value, OslerError)


def test_missing_extras_name_the_extra_to_install():
    with pytest.raises(MissingExtraError, match=r'pip install "osler\[peft\]"'):
        require("no_such_package_at_all", "peft")
    assert require("json", "base").dumps([]) == "[]"
    assert available("json")
    assert not available("no_such_package_at_all")
    error = explain_missing(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert error is not None
    assert "osler[train]" in str(error)
    error = explain_missing(ModuleNotFoundError("x", name="opentelemetry.context"))
    assert error is not None
    assert "'opentelemetry'" in str(error)
    assert "pip check" in str(error)
    assert explain_missing(ModuleNotFoundError("x", name="osler.nowhere")) is None


def extras(root: Path) -> dict[str, set[str]]:
    """The packages that each extra of osler installs, extras of extras included."""
    listed = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def packages(extra: str) -> set[str]:
        found: set[str] = set()
        for requirement in listed[extra]:
            if inner := re.match(r"osler\[(.*)\]", requirement):
                found |= set().union(*(packages(name) for name in inner[1].split(",")))
            else:
                found.add(re.split(r"[><=]", requirement)[0])
        return found

    return {extra: packages(extra) for extra in listed}


def test_every_extra_that_is_named_exists_and_has_the_module(root):
    known = extras(root)
    source = [path.read_text(encoding="utf-8") for path in (root / "src").rglob("*.py")]
    pages = [path.read_text(encoding="utf-8") for path in [root / "README.md", *(root / "docs").rglob("*.md")]]
    named = {extra for text in [*source, *pages] for extra in re.findall(r"osler\[(\w+)\]", text)}
    assert named <= known.keys()
    required = {pair for text in source for pair in re.findall(r'require\("([\w.]+)", "(\w+)"\)', text)}
    assert len(required) > 10
    for module, extra in {*required, *_EXTRA_OF.items()}:
        top = {"markupsafe": "jinja2"}.get(module.split(".")[0], module.split(".")[0])  # jinja2 brings it
        assert top.replace("_", "-") in known[extra], (module, extra)


def test_the_train_extra_runs_the_whole_flow(root):
    known = extras(root)
    assert known["corpus"] | known["formats"] | known["report"] | known["study"] <= known["train"]
    names = ("deid", "export", "peft", "ray", "serve", "spacy", "web", "zstd")
    optional = {package for name in names for package in known[name]}
    assert known["train"] | optional == known["all"]


def test_errors_say_where_what_and_how():
    error = OslerError("broken", where="a.txt:3", fix="Mend it")
    assert str(error) == "a.txt:3: broken. Mend it."
    assert error.exit_code == 2
    assert str(OslerError("unknown", fix="Did you mean a?")) == "unknown. Did you mean a?"
    assert nearest("tagging", ["taging", "other"]) == "taging"
    assert nearest("zzz", ["abc"]) is None
