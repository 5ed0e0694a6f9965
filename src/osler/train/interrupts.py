"""Ctrl-C and SIGTERM end a run between two steps, never inside one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """A request to stop that waits for the end of the step."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """Note the signal; a second Ctrl-C does not wait."""
        if self.signal == signal.SIGINT == number:
            raise KeyboardInterrupt
        self.signal = number

    def obey(self) -> None:
        """Leave as the signal asked: KeyboardInterrupt for Ctrl-C, the conventional exit code for SIGTERM."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)


@contextmanager
def deferred() -> Iterator[Interrupt]:
    """Hold SIGINT and SIGTERM back; outside the main thread, where Python allows no handlers, do nothing."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    previous = {number: signal.signal(number, interrupt.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
