"""osler's own record format: one JSON object a line, everything a record holds and nothing else.

A document has "id" and "text", a pair of texts has "id", "first" and "second". Optional: "labels" (or one "label"),
"value", "scores" (label to probability), "meta", and for documents "spans" ({"start", "end"} or {"fragments":
[[start, end], …]}, "label", "id", "score", "attributes") and "relations" ("label", "head", "tail", "id", "score",
"attributes"). A further field with a plain value goes to "meta", so that any JSON Lines file with texts can be read; the
options name its fields where they differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from osler.core.errors import InputError
from osler.formats.base import Loss, Problems, checked_text, strict_unless
from osler.formats.output import output_file
from osler.formats.sources import Source, opened
from osler.text.document import Document, Record, Relation, Span, TextPair, split_meta

_OWN = {"spans", "relations", "labels", "label", "value", "meta"}


@dataclass(frozen=True)
class Jsonl:
    """JSON Lines of records."""

    name: str = "jsonl"
    description: str = "osler records, one JSON object a line (lossless)"
    suffixes: tuple[str, ...] = (".jsonl", ".ndjson")
    layout: Literal["file", "folder"] = "file"
    id: str = "id"
    text: str = "text"
    first: str = "first"
    second: str = "second"
    label: str = "label"
    value: str = "value"

    def detect(self, source: Source) -> bool:
        """Whether there are files of this name whose first line is an object with a text."""
        with opened(source) as tree:
            for name in tree.names(*(f"*{suffix}" for suffix in self.suffixes)):
                head = tree.head(name, 1)
                return (bool(head) and f'"{self.text}"' in head[0]) or any(f'"{self.first}"' in line for line in head)
        return False

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Record]:
        """Yield documents and pairs; a line without an id is numbered."""
        found = strict_unless(problems)
        with opened(source) as tree:
            names = tree.names(*(f"*{suffix}" for suffix in self.suffixes)) or list(tree)
            for name in names:
                for number, line in tree.lines(name):
                    if not line.strip():
                        continue
                    where = tree.where(name, number)
                    try:
                        record = self._record(json.loads(line, parse_constant=_refuse), number, where, found)
                    except json.JSONDecodeError as error:
                        found.report("malformed-line", f"not JSON at column {error.colno}", where=where)
                    except (KeyError, TypeError, ValueError, AttributeError):
                        found.report("malformed-line", "the object is not a record: see the format", where=where)
                    except InputError as error:
                        found.report("malformed-line", error.problem, where=where)
                    else:
                        yield record

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

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write one line a record; nothing is lost."""
        with output_file(path) as stream:
            for record in records:
                text = record.text if isinstance(record, Document) else record.first + record.second
                checked_text(text, where=f"{path}: record")
                line = json.dumps(as_json(record), ensure_ascii=False, allow_nan=False)
                stream.write(line.encode() + b"\n")
        return Loss()


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


def _common(item: Span | Relation) -> dict[str, Any]:
    found: dict[str, Any] = {"label": item.label}
    if item.id:
        found["id"] = item.id
    if item.score is not None:
        found["score"] = item.score
    if item.attributes:
        found["attributes"] = dict(item.attributes)
    return found


def as_json(record: Record) -> dict[str, Any]:
    """A record as the plain object that is written; empty fields are left out."""
    found: dict[str, Any] = {"id": record.id}
    if isinstance(record, Document):
        found["text"] = record.text
        if record.spans:
            found["spans"] = [
                {"fragments": [list(piece) for piece in span.fragments], **_common(span)}
                if span.discontinuous
                else {"start": span.start, "end": span.end, **_common(span)}
                for span in record.spans
            ]
        if record.relations:
            found["relations"] = [{"head": r.head, "tail": r.tail, **_common(r)} for r in record.relations]
    else:
        found["first"], found["second"] = record.first, record.second
    if record.labels:
        found["labels"] = list(record.labels)
    if record.value is not None:
        found["value"] = record.value
    if record.scores:
        found["scores"] = dict(record.scores)
    if record.meta:
        found["meta"] = dict(record.meta)
    return found


FORMAT = Jsonl()
