"""MedNLI: JSON Lines in the SNLI layout (`pairID`, `sentence1`, `sentence2`, `gold_label`).

Parse trees beside the sentences are not read. The label "-" of SNLI (no agreement) is no label.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from osler.formats.base import Loss, Once, Problems, checked_text, strict_unless
from osler.formats.output import LABELS, only_pairs, output_file, unheld
from osler.formats.sources import Source, opened
from osler.text.document import Record, TextPair


@dataclass(frozen=True)
class MedNli:
    """Premise, hypothesis and label, one JSON object a line."""

    name: str = "mednli"
    description: str = "MedNLI: JSON Lines in the SNLI layout"
    suffixes: tuple[str, ...] = (".jsonl",)
    layout: Literal["file", "folder"] = "file"

    def detect(self, source: Source) -> bool:
        """Whether the first line has both sentences and a pair id."""
        with opened(source) as tree:
            heads = (tree.head(name, 1) for name in tree.names("*.jsonl")[:1])
            return any(head and all(f'"{key}"' in head[0] for key in ("sentence1", "pairID")) for head in heads)

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[TextPair]:
        """Yield the pairs in file order."""
        found = strict_unless(problems)
        once = Once(found)
        with opened(source) as tree:
            for name in tree.names("*.jsonl") or list(tree):
                for number, line in tree.lines(name):
                    if not line.strip():
                        continue
                    where = tree.where(name, number)
                    try:
                        row = json.loads(line)
                        cells = [row[key] for key in ("pairID", "sentence1", "sentence2")]
                        pair_id, first, second = (checked_text(cell.strip(), where) for cell in cells)
                        label = str(row.get("gold_label") or "-")
                    except (ValueError, KeyError, TypeError, AttributeError):
                        detail = "not an object with pairID, sentence1 and sentence2"
                        found.report("malformed-line", detail, where=where)
                        continue
                    once.check(pair_id, where)
                    yield TextPair(pair_id, first, second, labels=() if label == "-" else (label,))

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write one file."""
        losses: Counter[str] = Counter()
        with output_file(path) as stream:
            for record in records:
                if (pair := only_pairs(record, losses)) is None:
                    continue
                losses.update(unheld(pair, {LABELS}))
                losses[LABELS] += max(len(pair.labels) - 1, 0)
                losses["outer white space"] += any(t != t.strip() for t in (pair.id, pair.first, pair.second))
                row = {
                    "gold_label": pair.labels[0] if pair.labels else "-",
                    "sentence1": pair.first,
                    "sentence2": pair.second,
                    "pairID": pair.id,
                }
                stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        return Loss(+losses)


FORMAT = MedNli()
