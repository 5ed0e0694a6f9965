"""NLI4CT: statements keyed by id in `train.json` and similar files, about sections of trials in `CT json/<trial>.json`.

The first text is the section, line by line. For a comparison it is the section of the first trial followed by that of
the second; `primary_lines` in meta is the number of lines of the first. The second text is the statement. Evidence line
numbers are kept in meta. The distribution's `test.json` has no labels and the same ids as `Gold_test.json`: if both are
present, it is not read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from osler.core.errors import InputError
from osler.core.parsing import to_int
from osler.formats.base import Format, SourceReading
from osler.formats.draft import file_stem
from osler.formats.output import FILLED, LABELS, RENAMED, OutputFolder, pairs
from osler.formats.sources import SourceTree, read_object
from osler.text.document import Record, TextPair

_META = {
    "Type": "type",
    "Section_id": "section",
    "Primary_id": "primary",
    "Secondary_id": "secondary",
    "Primary_evidence_index": "primary_evidence",
    "Secondary_evidence_index": "secondary_evidence",
}


@dataclass(frozen=True)
class Nli4ct(Format):
    """Statements about clinical trials."""

    def _detect(self, tree: SourceTree) -> bool:
        trials = tree.names("*ct json/*.json")
        return bool(trials) and len(tree.names("*.json")) > len(trials)

    def _read(self, reading: SourceReading) -> Iterator[TextPair]:
        tree = reading.tree
        trials = {file_stem(name, ".json"): name for name in tree.names("*ct json/*.json")}

        @lru_cache(maxsize=64)
        def trial(identifier: str) -> Mapping[str, Any]:
            return read_object(tree, trials[identifier])

        statements = [name for name in tree.names("*.json") if name not in set(trials.values())]
        gold = {name.lower().replace("gold_", "") for name in statements if "gold_" in name.lower()}
        for name in [name for name in statements if name.lower() not in gold]:
            for number, (key, row) in enumerate(read_object(tree, name).items(), 1):
                reading.check_new(key, name)
                try:
                    yield _pair(key, row, trial)
                except InputError:
                    raise
                except (KeyError, TypeError, AttributeError):
                    detail = f"statement {number} is incomplete or its trial is missing"
                    reading.report("dangling-reference", detail, name)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        """Write statements.json and one file per trial.

        A trial with conflicting sections gets a new name. Every statement needs a trial and a section; if a pair has none,
        they are filled in ("unnamed1", "Results") and counted.
        """
        folder = OutputFolder(path, losses)
        trials: dict[str, dict[str, list[str]]] = {}
        rows: dict[str, Any] = {}
        for pair in pairs(records, losses, holds={LABELS}, meta={*_META.values(), "primary_lines"}):
            losses["pairs with an id used before"] += pair.id in rows
            rows.setdefault(pair.id, _row(pair, trials, losses))
        for name, sections in trials.items():
            content = {"Clinical Trial ID": name, **sections}
            folder.write(f"CT json/{name}.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        folder.write("statements.json", json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def _pair(key: str, row: Mapping[str, Any], trial: Any) -> TextPair:
    meta = {}
    for field, name in _META.items():
        value = row.get(field)
        if value:
            meta[name] = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    lines = list(trial(row["Primary_id"])[row["Section_id"]])
    if row.get("Secondary_id"):
        meta["primary_lines"] = str(len(lines))
        lines += trial(row["Secondary_id"])[row["Section_id"]]
    labels = (str(row["Label"]),) if row.get("Label") else ()
    statement = row["Statement"]
    if not isinstance(statement, str):
        raise TypeError
    return TextPair(key, "\n".join(lines), statement, labels=labels, meta=meta)


def _row(pair: TextPair, trials: dict[str, dict[str, list[str]]], losses: Counter[str]) -> dict[str, Any]:
    meta = pair.meta
    losses[FILLED] += "section" not in meta
    section = meta.get("section", "Results")
    lines = pair.first.split("\n")
    known = to_int(meta.get("primary_lines", ""))
    cut = len(lines) if known is None else known
    kind = "Single" if known is None else "Comparison"
    row: dict[str, Any] = {"Type": meta.get("type", kind), "Section_id": section}
    row["Primary_id"] = _place(trials, meta.get("primary", ""), section, lines[:cut], losses)
    if known is not None:
        row["Secondary_id"] = _place(trials, meta.get("secondary", ""), section, lines[cut:], losses)
    row["Statement"] = pair.second
    if pair.labels:
        row["Label"] = pair.labels[0]
    for field in ("Primary_evidence_index", "Secondary_evidence_index"):
        if _META[field] in meta:
            row[field] = [number for cell in meta[_META[field]].split() if (number := to_int(cell)) is not None]
    return row


def _place(
    trials: dict[str, dict[str, list[str]]], name: str, section: str, lines: list[str], losses: Counter[str]
) -> str:
    """Add a section to the named trial, or to a new one if that has other lines there. Return the trial's name."""
    if not name.isalnum() or trials.get(name, {}).get(section, lines) != lines:
        losses[RENAMED if name else FILLED] += 1
        number = len(trials) + 1
        while f"unnamed{number}" in trials:
            number += 1
        name = f"unnamed{number}"
    trials.setdefault(name, {})[section] = lines
    return name


FORMAT = Nli4ct("nli4ct", "NLI4CT JSON: statements and sections of clinical trials", (".json",), "folder")
