"""Registry, seeding, files, logs, extras and errors."""

from __future__ import annotations

import errno
import logging
import random
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from osler.core.errors import (
    MissingExtraError,
    OslerError,
    OutputError,
    UnknownNameError,
    explain_system_error,
    nearest,
    writing,
)
from osler.core.extras import _EXTRA_OF, available, explain_missing, require
from osler.core.files import fingerprint, write_atomic
from osler.core.logs import get_logger
from osler.core.registry import Registry
from osler.core.seeding import generator, restore, seed_everything, snapshot


def test_registry_imports_only_what_is_asked_for():
    registry = Registry("things", {"join": "os.path:join", "broken": "no_such_module:x"})
    assert registry.get("join")("a", "b") == "a/b"
    assert registry.names() == ["broken", "join"]
    with pytest.raises(ModuleNotFoundError):
        registry.get("broken")


def test_registry_takes_plug_ins_but_built_in_names_win(monkeypatch):
    class Point:
        def __init__(self, name, value):
            self.name, self.value = name, value

    points = [Point("extra", "os.path:basename"), Point("join", "os.path:dirname")]
    monkeypatch.setattr("osler.core.registry.entry_points", lambda group: points if group == "osler.things" else [])
    registry = Registry("things", {"join": "os.path:join"})
    assert registry.get("extra")("a/b") == "b"
    assert registry.get("join")("a", "b") == "a/b"
    assert "extra" in registry


def test_an_unknown_name_names_the_nearest_and_all():
    registry = Registry("formats", {"brat": "x:y", "conll": "x:y"})
    with pytest.raises(UnknownNameError, match=r"Did you mean 'brat'\? Known: brat, conll"):
        registry.get("bart")
    with pytest.raises(UnknownNameError, match="built in"):
        registry.register("brat", object())


def test_generators_depend_on_seed_and_every_key_only():
    assert generator(1, "a", 2).integers(1 << 60) == generator(1, "a", 2).integers(1 << 60)
    draws = {generator(*key).integers(1 << 60) for key in [(1,), (2,), (1, "a"), (1, "b"), (1, "a", 0), (1, "a", 1)]}
    assert len(draws) == 6


def test_restore_resets_every_generator():
    torch = pytest.importorskip("torch")
    seed_everything(3)
    random.gauss(0, 1)
    state = snapshot()
    first = (random.random(), random.gauss(0, 1), np.random.rand(), float(torch.rand(1)))
    restore(state)
    assert (random.random(), random.gauss(0, 1), np.random.rand(), float(torch.rand(1))) == first


def test_write_atomic_replaces_the_file_and_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "deep" / "file"
    write_atomic(path, "one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [item.name for item in path.parent.iterdir()] == ["file"]


def test_fingerprint_depends_on_content_and_order(tmp_path):
    for name, content in [("a", "1"), ("b", "2"), ("c", "1")]:
        (tmp_path / name).write_text(content)
    a, b, c = (tmp_path / name for name in "abc")
    assert fingerprint([a, b]) == fingerprint([c, b])
    assert fingerprint([a, b]) != fingerprint([b, a])


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


def test_logs_refuse_text(caplog):
    log = get_logger("osler.test")
    with caplog.at_level(logging.INFO, logger="osler.test"):
        log.event("done", documents=3, rate=0.5, name="en-train", missing=None)
        with pytest.raises(ValueError, match="document text never"):
            log.event("done", text="Mr John Smith was seen today")
    assert '"documents": 3' in caplog.text
    assert "Smith" not in caplog.text


def test_missing_extras_name_the_extra_to_install():
    with pytest.raises(MissingExtraError, match=r'pip install "osler\[peft\]"'):
        require("no_such_package_at_all", "peft")
    assert require("json", "base").dumps([]) == "[]"
    assert available("json")
    assert not available("no_such_package_at_all")
    error = explain_missing(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert error is not None
    assert "osler[train]" in str(error)
    assert explain_missing(ModuleNotFoundError("x", name="left_pad")) is None


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
        assert top in known[extra], (module, extra)


def test_the_train_extra_runs_the_whole_flow(root):
    known = extras(root)
    assert known["corpus"] | known["formats"] | known["report"] | known["study"] <= known["train"]
    assert known["train"] | known["peft"] | known["ray"] == known["all"]


def test_errors_say_where_what_and_how():
    error = OslerError("broken", where="a.txt:3", fix="Mend it")
    assert str(error) == "a.txt:3: broken. Mend it."
    assert error.exit_code == 2
    assert str(OslerError("unknown", fix="Did you mean a?")) == "unknown. Did you mean a?"
    assert nearest("tagging", ["taging", "other"]) == "taging"
    assert nearest("zzz", ["abc"]) is None
