"""PubMedQA: one JSON object keyed by PubMed id, with question, contexts, and the decision yes, no or maybe.

The contexts, a line each, are the first text and the question is the second. Beside it a file that maps ids to
decisions (`test_ground_truth.json`) names the test set: those pairs have `split = "test"` in meta.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from osler.formats.base import Loss, Problems, checked_text, strict_unless
from osler.formats.output import LABELS, META, only_pairs, output_file, unheld
from osler.formats.sources import Source, opened, read_object
from osler.text.document import Record, TextPair

_META = {"LABELS": "sections", "YEAR": "year", "LONG_ANSWER": "long_answer", "MESHES": "mesh"}


@dataclass(frozen=True)
class PubMedQa:
    """Questions with abstracts."""

    name: str = "pubmedqa"
    description: str = "PubMedQA JSON: question, contexts, yes/no/maybe"
    suffixes: tuple[str, ...] = (".json",)
    layout: Literal["file", "folder"] = "file"

    def detect(self, source: Source) -> bool:
        """Whether a JSON file has questions with contexts."""
        with opened(source) as tree:
            heads = (tree.head(name, 4) for name in tree.names("*.json"))
            return any('"QUESTION"' in line for head in heads for line in head)

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[TextPair]:
        """Yield the questions in file order."""
        found = strict_unless(problems)
        with opened(source) as tree:
            tables = {name: read_object(tree, name) for name in tree.names("*.json") or list(tree)}
            test: set[str] = set()
            for name in [name for name, rows in tables.items() if all(isinstance(row, str) for row in rows.values())]:
                test |= tables.pop(name).keys()
            for name, rows in tables.items():
                for number, (key, row) in enumerate(rows.items(), 1):
                    try:
                        yield _pair(key, row, key in test, tree.where(name))
                    except (KeyError, TypeError, AttributeError):
                        detail = f"entry {number} is not a question with contexts"
                        found.report("malformed-line", detail, where=tree.where(name))

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write one file."""
        losses: Counter[str] = Counter()
        rows: dict[str, Any] = {}
        for record in records:
            if (pair := only_pairs(record, losses)) is None:
                continue
            losses.update(unheld(pair, {LABELS, META}))
            losses[LABELS] += max(len(pair.labels) - 1, 0)
            losses[META] += len(pair.meta.keys() - set(_META.values()))
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
        return Loss(+losses)


def _pair(key: str, row: Mapping[str, Any], test: bool, where: str) -> TextPair:
    meta = {}
    for field, name in _META.items():
        value = row.get(field)
        if value:
            meta[name] = "; ".join(value) if isinstance(value, list) else str(value)
    if test:
        meta["split"] = "test"
    decision = row.get("final_decision")
    first = checked_text("\n".join(row["CONTEXTS"]), where)
    return TextPair(
        key, first, checked_text(row["QUESTION"], where), labels=(str(decision),) if decision else (), meta=meta
    )


FORMAT = PubMedQa()
