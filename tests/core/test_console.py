"""Progress for people: in a terminal, in a notebook, and silent elsewhere."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from osler.core import console as module


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a notebook cell shows, one entry per change."""
    lines: list[str] = []

    def display(data, **_):
        lines.append(data["text/plain"])
        return SimpleNamespace(update=lambda data, **_: lines.append(data["text/plain"]))

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr(module, "console", lambda: Console(stderr=True, force_jupyter=True))
    return lines


def test_a_notebook_shows_the_start_and_the_end(shown: list[str]) -> None:
    with module.progress("finetune", 2) as bar:
        bar.update(completed=1, status="loss 2.000")
        bar.update(completed=2, status="loss 1.000")
    assert shown[0] == "finetune 0/2  "
    assert shown[-1] == "finetune 2/2  loss 1.000"


def test_a_pipe_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with module.progress("finetune", 1) as bar:
        bar.advance()
    assert capsys.readouterr().err == ""
