"""Progress for people: in a terminal, in a notebook, and in a log file."""

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


class Clock:
    """Seconds that pass only when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_short_work_prints_nothing_to_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with module.progress("finetune", 10, clock=clock) as bar:
        for _ in range(10):
            clock.now += 2.9
            bar.advance()
    assert capsys.readouterr().err == ""


def test_a_log_file_gets_a_line_every_30_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with module.progress("corpus: clean", 1200, clock=clock) as bar:
        for _ in range(120):
            clock.now += 1
            bar.advance(10)
    shown = capsys.readouterr().err
    assert shown.splitlines() == [
        "corpus: clean 300/1,200 (25%)  10/s  1 min left",
        "corpus: clean 600/1,200 (50%)  10/s  1 min left",
        "corpus: clean 900/1,200 (75%)  10/s  30 s left",
        "corpus: clean 1,200/1,200 (100%)  10/s  0 s left",
    ]
    assert "\x1b" not in shown
    assert "\r" not in shown


def test_a_long_run_does_not_fill_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with module.progress("pretrain", 86400, training=True, clock=clock) as bar:
        for step in range(8640):
            clock.now += 10
            bar.update(completed=10 * step, status="loss 2.000  3 h left")
    lines = capsys.readouterr().err.splitlines()
    assert 50 < len(lines) < 250
    assert lines[0] == "pretrain 20/86,400 (0%)  loss 2.000  3 h left"


def test_slow_items_and_an_unknown_total(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with module.progress("annotate", clock=clock) as bar:
        clock.now = 40
        bar.advance()
    assert capsys.readouterr().err == "annotate 1  40 s each\n"


def test_quiet_means_no_progress(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSLER_QUIET", "1")
    clock = Clock()
    with module.progress("finetune", 1, clock=clock) as bar:
        clock.now = 100
        bar.advance()
    assert capsys.readouterr().err == ""
