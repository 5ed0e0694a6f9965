"""MedNLI: JSON Lines in the SNLI layout (`pairID`, `sentence1`, `sentence2`, `gold_label`).

Parse trees are not read. The SNLI label "-" (annotators disagree) is read as no label.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.core.errors import InputError
from osler.core.parsing import parse_json
from osler.formats.base import Format, SourceReading
from osler.formats.output import LABELS, output_file, pairs
from osler.formats.sources import SourceTree
from osler.text.document import Record, TextPair


@dataclass(frozen=True)
class MedNli(Format):
    """Premise, hypothesis and label, one JSON object per line."""

    def _detect(self, tree: SourceTree) -> bool:
        return any('"sentence1"' in line and '"pairID"' in line for line in tree.first_lines("*.jsonl", 1))

    def _read(self, reading: SourceReading) -> Iterator[TextPair]:
        for name in self._files(reading.tree):
            for number, line in reading.tree.lines(name):
                if not line.strip():
                    continue
                where = reading.tree.where(name, number)
                try:
                    row = parse_json(line, where=where)
                    cells = [row[key] for key in ("pairID", "sentence1", "sentence2")]
                    pair_id, first, second = (cell.strip() for cell in cells)
                    label = str(row.get("gold_label") or "-")
                except InputError as error:
                    reading.report("malformed-line", error.problem, name, number)
                    continue
                except (KeyError, TypeError, AttributeError):
                    detail = "not an object with pairID, sentence1 and sentence2"
                    reading.report("malformed-line", detail, name, number)
                    continue
                reading.check_new(pair_id, name, number)
                yield TextPair(pair_id, first, second, labels=() if label == "-" else (label,))

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        with output_file(path) as stream:
            for pair in pairs(records, losses, holds={LABELS}):
                losses["outer white space"] += any(t != t.strip() for t in (pair.id, pair.first, pair.second))
                row = {
                    "gold_label": pair.labels[0] if pair.labels else "-",
                    "sentence1": pair.first,
                    "sentence2": pair.second,
                    "pairID": pair.id,
                }
                stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


FORMAT = MedNli("mednli", "MedNLI: JSON Lines in the SNLI layout", (".jsonl",))
