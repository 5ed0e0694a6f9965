"""Logs that cannot contain document text.

A log record is an event name with fields. A field is a number, a boolean, a path given by the user, or a short name without
whitespace. Anything else raises an error, so that a note cannot leak into a log through a format string.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from pathlib import Path

Value = str | int | float | bool | None | Path
_NAME = re.compile(r"[\w.:/@+,=\-\[\]]{0,200}")


class EventLog:
    """The event log of one module."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def event(self, name: str, /, **fields: Value) -> None:
        """Log an event. Raises ValueError if a field could contain document text."""
        self._log(logging.INFO, name, fields, "")

    def warning(self, name: str, sentence: str, /, **fields: Value) -> None:
        """Log an event and show it to the user as `sentence`, formatted with the fields, such as `{step}`."""
        self._log(logging.WARNING, name, fields, sentence)

    def _log(self, level: int, name: str, fields: dict[str, Value], sentence: str) -> None:
        if self._logger.isEnabledFor(level):
            safe = {key: _safe(key, value) for key, value in fields.items()}
            spoken = {"sentence": sentence.format(**safe)}
            self._logger.log(level, "%s", json.dumps({"event": name, **safe}), extra=spoken)


def _safe(key: str, value: Value) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ValueError(f"log field {key!r} is not a number, a path or a short name; document text never goes into a log")


def get_logger(name: str) -> EventLog:
    """Return the event log of a module."""
    return EventLog(name)


def configure(verbose: bool = False) -> None:
    """Send warnings to standard error as sentences, or all events as JSON with `verbose` or OSLER_LOG=info."""
    root = logging.getLogger("osler")
    everything = verbose or os.environ.get("OSLER_LOG") == "info"
    root.setLevel(logging.INFO if everything else logging.WARNING)
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        formatter = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        formatter.converter = time.gmtime
        handler.setFormatter(formatter if everything else logging.Formatter("warning: %(sentence)s"))
        root.addHandler(handler)
