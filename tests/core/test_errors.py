"""Errors, and the extras that they name."""

from __future__ import annotations

import errno

import pytest

from osler.core.errors import MissingExtraError, OslerError, OutputError, nearest, writing
from osler.core.extras import available, explain_missing, require


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EFBIG])
def test_refused_writes_become_one_clear_error(tmp_path, number):
    with pytest.raises(OutputError, match="cannot write"), writing(tmp_path):
        raise OSError(number, "x")


def test_other_system_errors_pass_through(tmp_path):
    with pytest.raises(OSError, match="x") as caught, writing(tmp_path):
        raise OSError(errno.EINTR, "x")
    assert not isinstance(caught.value, OslerError)


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
