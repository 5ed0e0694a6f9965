"""osler's own record format: one JSON object per line with everything a record holds.

A document has "id" and "text", a pair of texts has "id", "first" and "second". Optional: "labels" (or one "label"),
"value", "scores" (label to probability), "meta", and for documents "spans" ({"start", "end"} or {"fragments":
[[start, end], …]}, "label", "id", "score", "attributes") and "relations" ("label", "head", "tail", "id", "score",
"attributes"). Any other field with a plain value goes to "meta", so that any JSON Lines file with texts can be read; the
options name its fields if they differ.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.core.errors import InputError
from osler.formats.base import FileFormat, Problems, SourceReading, checked_text
from osler.formats.output import output_file
from osler.formats.sources import SourceTree
from osler.text.document import Document, Record, Relation, Span, TextPair, split_meta

_OWN = {"spans", "relations", "labels", "label", "value", "meta"}


@dataclass(frozen=True)
class Jsonl(FileFormat):
    """JSON Lines of records, without any loss."""

    id: str = "id"
    text: str = "text"
    first: str = "first"
    second: str = "second"
    label: str = "label"
    value: str = "value"

    def _detect(self, tree: SourceTree) -> bool:
        head = [line for name in self._named(tree)[:1] for line in tree.head(name, 1)]
        return any(f'"{self.text}"' in line or f'"{self.first}"' in line for line in head)

    def _read(self, reading: SourceReading) -> Iterator[Record]:
        """Yield documents and pairs; a line without an id gets its number as id."""
        for name in self._files(reading.tree):
            for number, line in reading.tree.lines(name):
                if not line.strip():
                    continue
                where = reading.tree.where(name, number)
                try:
                    record = self._record(json.loads(line, parse_constant=_refuse), number, where, reading.problems)
                except json.JSONDecodeError as error:
                    reading.report("malformed-line", f"not JSON at column {error.colno}", name, number)
                except (KeyError, TypeError, ValueError, AttributeError):
                    reading.report("malformed-line", "the object is not a record: see the format", name, number)
                except InputError as error:
                    reading.report("malformed-line", error.problem, name, number)
                else:
                    yield record

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        with output_file(path) as stream:
            for record in records:
                text = record.text if isinstance(record, Document) else record.first + record.second
                checked_text(text, where=f"{path}: record")
                line = json.dumps(as_json(record), ensure_ascii=False, allow_nan=False)
                stream.write(line.encode() + b"\n")

    def _record(self, data: Mapping[str, Any], number: int, where: str, problems: Problems) -> Record:
        known = _OWN | {self.id, self.text, self.first, self.second, self.label, self.value}
        meta, scores = split_meta({str(key): _string(item) for key, item in (data.get("meta") or {}).items()})
        if isinstance(data.get("scores"), dict):
            known |= {"scores"}
            scores |= {str(label): float(score) for label, score in data["scores"].items()}
        for key, item in data.items():
            if key in known or item is None or item == [] or item == {}:
                continue
            if isinstance(item, str | int | float):
                meta[key] = str(item)
            else:
                problems.report("unknown-field", "a field is not part of a record and has no plain value", where=where)
        label = data.get(self.label)
        labels = data.get("labels") if label is None else label if isinstance(label, list) else [str(label)]
        value = data.get(self.value)
        common: dict[str, Any] = {
            "id": str(data.get(self.id, number)),
            "labels": tuple(_string(item) for item in labels or ()),
            "value": None if value is None else float(value),
            "meta": meta,
            "scores": scores,
        }
        if self.text not in data and self.first in data:
            first, second = _string(data[self.first]), _string(data[self.second])
            return TextPair(first=checked_text(first, where), second=checked_text(second, where), **common)
        text = checked_text(_string(data[self.text]), where)
        spans = tuple(_span(item) for item in data.get("spans") or ())
        relations = tuple(_relation(item) for item in data.get("relations") or ())
        if len({span.id for span in spans if span.id}) != sum(bool(span.id) for span in spans):
            problems.report("duplicate-id", "two spans have one id", where=where)
        try:
            return Document(text=text, spans=spans, relations=relations, **common)
        except InputError:
            raise InputError("a span lies outside the text or a relation points to no span") from None


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _string(item: Any) -> str:
    if not isinstance(item, str):
        raise TypeError
    return item


def _attributes(data: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {str(key): _string(item) for key, item in (data.get("attributes") or {}).items()}
    score = data.get("score")
    return {
        "id": _string(data.get("id", "")),
        "score": None if score is None else float(score),
        "attributes": attributes,
    }


def _span(data: Mapping[str, Any]) -> Span:
    pieces = data["fragments"] if "fragments" in data else [[data["start"], data["end"]]]
    if not all(type(offset) is int for piece in pieces for offset in piece):
        raise TypeError
    fragments = tuple((start, end) for start, end in pieces)
    return Span(fragments, _string(data["label"]), **_attributes(data))


def _relation(data: Mapping[str, Any]) -> Relation:
    return Relation(_string(data["label"]), _string(data["head"]), _string(data["tail"]), **_attributes(data))


def as_json(record: Record) -> dict[str, Any]:
    """A record as the plain object that is written; empty fields are left out."""
    return {name: value for name, value in record.to_dict().items() if value not in ([], {}, None)}


FORMAT = Jsonl("jsonl", "osler records, one JSON object per line (lossless)", (".jsonl", ".ndjson"))
