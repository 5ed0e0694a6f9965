from __future__ import annotations

import pytest

from osler.core.errors import UnknownNameError
from osler.core.registry import Registry


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
