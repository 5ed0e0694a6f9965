"""PubMedQA: one JSON object keyed by PubMed id, with question, contexts, and the decision yes, no or maybe.

The contexts, one per line, are the first text and the question is the second. A second file that maps ids to decisions
(`test_ground_truth.json`) lists the test set: its pairs have `split = "test"` in meta.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.formats.base import Format, SourceReading
from osler.formats.output import LABELS, output_file, pairs
from osler.formats.sources import SourceTree, read_object
from osler.text.document import Record, TextPair

_META = {"LABELS": "sections", "YEAR": "year", "LONG_ANSWER": "long_answer", "MESHES": "mesh"}


@dataclass(frozen=True)
class PubMedQa(Format):
    """Questions with abstracts."""

    def _detect(self, tree: SourceTree) -> bool:
        return any('"QUESTION"' in line for name in tree.names("*.json") for line in tree.head(name, 4))

    def _read(self, reading: SourceReading) -> Iterator[TextPair]:
        tables = {name: read_object(reading.tree, name) for name in self._files(reading.tree)}
        test: set[str] = set()
        for name in [name for name, rows in tables.items() if all(isinstance(row, str) for row in rows.values())]:
            test |= tables.pop(name).keys()
        for name, rows in tables.items():
            for number, (key, row) in enumerate(rows.items(), 1):
                try:
                    yield _pair(key, row, key in test)
                except (KeyError, TypeError, AttributeError):
                    reading.report("malformed-line", f"entry {number} is not a question with contexts", name)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        rows: dict[str, Any] = {}
        for pair in pairs(records, losses, holds={LABELS}, meta=_META.values()):
            losses["pairs with an id used before"] += pair.id in rows
            row: dict[str, Any] = {"QUESTION": pair.second, "CONTEXTS": pair.first.split("\n")}
            for key, name in _META.items():
                if name in pair.meta:
                    row[key] = pair.meta[name].split("; ") if key in ("LABELS", "MESHES") else pair.meta[name]
            if pair.labels:
                row["final_decision"] = pair.labels[0]
            rows.setdefault(pair.id, row)
        with output_file(path) as stream:
            stream.write(json.dumps(rows, indent=1, ensure_ascii=False).encode() + b"\n")


def _pair(key: str, row: Mapping[str, Any], test: bool) -> TextPair:
    meta = {}
    for field, name in _META.items():
        value = row.get(field)
        if value:
            meta[name] = "; ".join(value) if isinstance(value, list) else str(value)
    if test:
        meta["split"] = "test"
    decision = row.get("final_decision")
    labels = (str(decision),) if decision else ()
    first, second = "\n".join(row["CONTEXTS"]), row["QUESTION"]
    if not isinstance(second, str):
        raise TypeError
    return TextPair(key, first, second, labels=labels, meta=meta)


FORMAT = PubMedQa("pubmedqa", "PubMedQA JSON: question, contexts, yes/no/maybe", (".json",))
