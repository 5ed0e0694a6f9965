"""Registry, seeding, files, logs, extras and errors."""

from __future__ import annotations

import errno
import logging
import random

import numpy as np
import pytest

from osler.core.errors import MissingExtraError, OslerError, OutputError, UnknownNameError, nearest, writing
from osler.core.extras import available, explain_missing, require
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


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EFBIG])
def test_refused_writes_become_one_clear_error(tmp_path, number):
    with pytest.raises(OutputError, match="cannot write"), writing(tmp_path):
        raise OSError(number, "x")


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
    with pytest.raises(MissingExtraError, match=r'pip install "osler\[serve\]"'):
        require("no_such_package_at_all", "serve")
    assert require("json", "base").dumps([]) == "[]"
    assert available("json")
    assert not available("no_such_package_at_all")
    error = explain_missing(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert error is not None
    assert "osler[train]" in str(error)
    assert explain_missing(ModuleNotFoundError("x", name="left_pad")) is None


def test_errors_say_where_what_and_how():
    error = OslerError("broken", where="a.txt:3", fix="Mend it")
    assert str(error) == "a.txt:3: broken. Mend it."
    assert error.exit_code == 2
    assert str(OslerError("unknown", fix="Did you mean a?")) == "unknown. Did you mean a?"
    assert nearest("tagging", ["taging", "other"]) == "taging"
    assert nearest("zzz", ["abc"]) is None
