"""osler's own record format: one JSON object per line, without loss.

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
from typing import Any, Literal

from osler.core.errors import InputError
from osler.core.parsing import json_kind, parse_json, to_float
from osler.formats.base import Format, Problems, SourceReading
from osler.formats.output import output_file
from osler.formats.sources import SourceTree
from osler.text.document import Document, Record, Relation, Span, TextPair, split_meta

_OWN = {"spans", "relations", "labels", "label", "value", "meta"}


@dataclass(frozen=True)
class Jsonl(Format):
    """JSON Lines of records. Writing loses nothing."""

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
        """Yield documents and pairs. A line without an id gets its line number as id."""
        for name in self._files(reading.tree):
            for number, line in reading.tree.lines(name):
                if not line.strip():
                    continue
                where = reading.tree.where(name, number)
                try:
                    record = self._record(parse_json(line, where=where), number, where, reading.problems)
                except InputError as error:
                    reading.report("malformed-line", error.problem, name, number, fix=error.fix)
                else:
                    yield record

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        with output_file(path) as stream:
            for record in records:
                stream.write(json_line(record).encode() + b"\n")

    def _record(self, data: Any, number: int, where: str, problems: Problems) -> Record:
        if not isinstance(data, dict):
            raise InputError(f"the line is {json_kind(data)}, not an object", fix='Write {"id": ..., "text": ...}')
        known = _OWN | {self.id, self.text, self.first, self.second, self.label, self.value}
        meta, scores = split_meta(_strings(data, "meta"))
        if isinstance(data.get("scores"), dict):
            known |= {"scores"}
            scores |= {label: _number(score, "scores") for label, score in data["scores"].items()}
        for key, item in data.items():
            if key in known or item is None or item == [] or item == {}:
                continue
            if isinstance(item, str | int | float):
                meta[key] = str(item)
            else:
                problems.report("unknown-field", "a field is not part of a record and has no plain value", where=where)
        label = data.get(self.label)
        labels = _list(data, "labels") if label is None else label if isinstance(label, list) else [str(label)]
        value, given_id = data.get(self.value), data.get(self.id, number)
        if not isinstance(given_id, str | int | float):
            raise _wrong(self.id, given_id, "a string or a number")
        common: dict[str, Any] = {
            "id": str(given_id),
            "labels": tuple(_string(item, "labels") for item in labels),
            "value": None if value is None else _number(value, self.value),
            "meta": meta,
            "scores": scores,
        }
        if self.text not in data and self.first in data:
            return TextPair(first=self._text(data, "first"), second=self._text(data, "second"), **common)
        text = self._text(data, "text")
        spans = tuple(map(_span, _objects(data, "spans")))
        relations = tuple(map(_relation, _objects(data, "relations")))
        if len({span.id for span in spans if span.id}) != sum(bool(span.id) for span in spans):
            problems.report("duplicate-id", "two spans have one id", where=where)
        try:
            return Document(text=text, spans=spans, relations=relations, **common)
        except InputError:
            raise InputError("a span lies outside the text or a relation points to no span") from None

    def _text(self, data: Mapping[str, Any], role: Literal["text", "first", "second"]) -> str:
        field = getattr(self, role)
        if field not in data:
            fix = (
                f"If another field holds it, name that field: --set read.{role}=FIELD, or options.{role} in a task card"
            )
            raise InputError(f"the object has no field {field!r}", fix=fix)
        return _string(data[field], field)


def _wrong(field: str, item: Any, wanted: str) -> InputError:
    return InputError(f"the field {field!r} holds {json_kind(item)}, not {wanted}", fix="Correct the line")


def _string(item: Any, field: str) -> str:
    if not isinstance(item, str):
        raise _wrong(field, item, "a string")
    return item


def _number(item: Any, field: str) -> float:
    number = to_float(item)
    if number is None:
        raise InputError(f"the field {field!r} does not hold a finite number", fix="Correct the line")
    return number


def _list(data: Mapping[str, Any], field: str) -> list[Any]:
    items = data.get(field) or []
    if not isinstance(items, list):
        raise _wrong(field, items, "a list")
    return items


def _objects(data: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    items = _list(data, field)
    for item in items:
        if not isinstance(item, dict):
            raise _wrong(field, item, "objects only")
    return items


def _strings(data: Mapping[str, Any], field: str) -> dict[str, str]:
    items = data.get(field) or {}
    if not isinstance(items, dict):
        raise _wrong(field, items, "an object")
    return {key: _string(item, field) for key, item in items.items()}


def _shared(data: Mapping[str, Any]) -> dict[str, Any]:
    score = data.get("score")
    return {
        "id": _string(data.get("id", ""), "id"),
        "score": None if score is None else _number(score, "score"),
        "attributes": _strings(data, "attributes"),
    }


def _span(data: Mapping[str, Any]) -> Span:
    pieces = data["fragments"] if "fragments" in data else [[data.get("start"), data.get("end")]]
    places = pieces if isinstance(pieces, list) else []
    if not places or not all(isinstance(p, list) and len(p) == 2 and all(type(o) is int for o in p) for p in places):
        fix = 'Give "start" and "end", or "fragments" as [[start, end], ...]'
        raise InputError("a span has no offsets, or they are not whole numbers", fix=fix)
    return Span(tuple((start, end) for start, end in places), _string(data.get("label"), "label"), **_shared(data))


def _relation(data: Mapping[str, Any]) -> Relation:
    label, head, tail = (_string(data.get(field), field) for field in ("label", "head", "tail"))
    return Relation(label, head, tail, **_shared(data))


def as_json(record: Record) -> dict[str, Any]:
    """Return a record as a plain object for JSON, without empty fields."""
    return {name: value for name, value in record.to_dict().items() if value not in ([], {}, None)}


def json_line(record: Record) -> str:
    """Return a record as one line without line end, as used in files, by the command line and by the service."""
    return json.dumps(as_json(record), ensure_ascii=False, allow_nan=False)


def read_line(line: str, *, where: str) -> Record:
    """Return the record of a line made by `json_line`."""
    return FORMAT._record(parse_json(line, where=where), 1, where, Problems())


def from_json(data: Mapping[str, Any], *, where: str) -> Record:
    """Return the record of a plain object made by `as_json`."""
    return FORMAT._record(dict(data), 1, where, Problems())


FORMAT = Jsonl("jsonl", "osler records, one JSON object per line (lossless)", (".jsonl", ".ndjson"))
