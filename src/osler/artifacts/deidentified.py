"""The artifact of de-identified notes: the notes, a map of offsets to the originals, and what was skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from osler.core.artifact import Artifact
from osler.text.replacing import OffsetMap

NOTES = "notes"
OFFSETS = "offsets.jsonl"
SKIPPED = "skipped.jsonl"
REPORT = "report.json"
MAPPING = "mapping.jsonl"
REVIEW = "review.html"


class SkippedNote(NamedTuple):
    """A note that was not written: its number in reading order, and why. Contains no text and no file name."""

    note: str
    problem: str
    fix: str


class Deidentified(Artifact):
    """De-identified notes on disk."""

    kind = "deidentified"

    def offsets(self) -> dict[str, OffsetMap]:
        """Map between the new text and the original, for each note."""
        rows = (json.loads(line) for line in self._lines(OFFSETS))
        return {row.pop("note"): OffsetMap.from_lists(**row) for row in rows}

    def skipped(self) -> list[SkippedNote]:
        return [SkippedNote(**json.loads(line)) for line in self._lines(SKIPPED)]

    def report(self) -> dict[str, Any]:
        """Counts by category, and how the notes were made."""
        found: dict[str, Any] = json.loads((self.path / REPORT).read_text(encoding="utf-8"))
        return found

    def _lines(self, name: str) -> Iterator[str]:
        path = self.path / name
        if path.is_file():
            with open(path, encoding="utf-8", newline="\n") as lines:
                yield from lines
