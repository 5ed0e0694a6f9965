"""Label Studio JSON: a list of tasks, each with its data, annotations by people and predictions by models.

A mention is a result of type "labels", a label of the whole text is of type "choices", and a value of type "number". A result of type
"choices" or "textarea" with the id of a mention is an attribute of that mention. Label Studio counts characters; older versions
counted UTF-16 code units, which `offsets = utf-16` reads.

The id, metadata and label scores of a document are fields of "data", which Label Studio keeps. `labeling_config.xml` next to the tasks
is the labelling interface: paste it into the project before importing the tasks.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from osler.core.errors import InputError
from osler.core.parsing import json_kind, parse_json, to_float, to_int
from osler.formats.base import SourceReading, StandOffFormat
from osler.formats.draft import Draft
from osler.formats.output import (
    ATTRIBUTES,
    LABELS,
    META,
    RELATIONS,
    SPANS,
    VALUES,
    OutputFolder,
    count_lost,
    distinct_ids,
    output_file,
    renumbered,
)
from osler.formats.sources import SourceTree
from osler.formats.xml import encoded
from osler.text.document import Document, Record, Span

_TASKS = "tasks.json"
_CONFIG = "labeling_config.xml"
# Names of the controls in the labelling interface. Each attribute has its own control, named after it.
_MENTION, _RECORD, _VALUE, _TEXT = "label", "labels", "value", "text"
_FREE = ".text"
_CHOICE = re.compile(r"[A-Za-z][A-Za-z_-]{0,39}")
_OWN = {"id", "meta", "scores"}


@dataclass(frozen=True)
class LabelStudio(StandOffFormat):
    """Label Studio tasks.

    `results` selects annotations or predictions. `auto` reads the annotation of a task if it has one, else its prediction, and writes
    predictions if there are scores. Of several annotations, the one marked as ground truth is read, else the last. `annotator`
    restricts reading to one person (id or e-mail address). `text` is the field of "data" that contains the text.
    """

    results: Literal["auto", "annotations", "predictions"] = "auto"
    annotator: str = ""
    text: str = "text"
    model_version: str = "osler"

    def _detect(self, tree: SourceTree) -> bool:
        head = "\n".join(line for name in self._named(tree)[:1] for line in tree.head(name, 200))
        return head.lstrip()[:1] in ("[", "{") and bool(re.search(r'"(annotations|predictions)"\s*:\s*\[', head))

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        for name in self._files(reading.tree):
            where = reading.tree.where(name)
            data = parse_json(reading.tree.text(name).removeprefix("\ufeff"), where=where, complete_file=True)
            tasks = [data] if isinstance(data, dict) else data
            if not isinstance(tasks, list):
                raise InputError("not a list of Label Studio tasks", where=where, fix="Give a JSON export of a project")
            for number, task in enumerate(tasks, 1):
                place = f"{name}: task {number}"
                try:
                    document = self._document(reading, task, number, place)
                except _MalformedTask as error:
                    reading.report("malformed-line", str(error), place)
                else:
                    if document is not None:
                        yield document

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        OutputFolder(path, losses)  # create the folder, or raise
        interface = _Interface()
        holds = {SPANS, RELATIONS, ATTRIBUTES, LABELS, VALUES, META, "scores"}
        with output_file(path / _TASKS) as stream:
            before = b"[\n"
            for record in records:
                if not isinstance(record, Document):
                    losses["text pairs"] += 1
                    continue
                count_lost(record, losses, holds=holds)
                task = self._task(record, interface, losses)
                stream.write(before + json.dumps(task, ensure_ascii=False, allow_nan=False).encode())
                before = b",\n"
            stream.write(b"[]\n" if before == b"[\n" else b"\n]\n")
        with output_file(path / _CONFIG) as stream:
            stream.write(interface.xml(self.text, losses).encode())

    def _document(self, reading: SourceReading, task: Any, number: int, place: str) -> Document | None:
        data = _object(_object(task, "a task").get("data"), "data")
        text = data.get(self.text)
        if not isinstance(text, str):
            known = f"the field {self.text!r} of data holds {json_kind(text)}, not a text"
            raise _MalformedTask(f"{known}; name the right one with the option 'text'")
        given = data.get("id", task.get("id", number))
        if not isinstance(given, str | int):
            raise _MalformedTask("the id is neither a string nor a number")
        chosen = self._chosen(task)
        if chosen is None and self.annotator:
            return None
        reading.check_new(str(given), place)
        results = _objects((chosen or {}).get("result"), "result")
        made = _Results(Draft(reading, str(given), text, place))
        for result in results:
            if result.get("type") in ("labels", "relation"):
                made.add(result)
        for result in results:  # second pass: an attribute may come before its mention
            if result.get("type") not in ("labels", "relation"):
                made.add(result)
        meta = {key: str(item) for key, item in _object(data.get("meta") or {}, "data.meta").items()}
        for key, item in data.items():
            if key != self.text and key not in _OWN and isinstance(item, str | int | float):
                meta[key] = str(item)
        if self.annotator:
            meta["annotator"] = self.annotator
        scores = {key: _number(item) for key, item in _object(data.get("scores") or {}, "data.scores").items()}
        found = made.draft.document(labels=made.labels, meta=meta)
        return found.with_(value=made.value, scores=scores)

    def _chosen(self, task: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the annotation or prediction to read, or None if the task has none."""
        if self.results != "predictions":
            finished = [
                item for item in _objects(task.get("annotations"), "annotations") if not item.get("was_cancelled")
            ]
            if self.annotator:
                finished = [item for item in finished if self.annotator in _names(item.get("completed_by"))]
            if finished:
                return next((item for item in finished if item.get("ground_truth")), finished[-1])
        if self.results != "annotations" and not self.annotator:
            return next(reversed(_objects(task.get("predictions"), "predictions")), None)
        return None

    def _task(self, document: Document, interface: _Interface, losses: Counter[str]) -> dict[str, Any]:
        data: dict[str, Any] = {"id": document.id, self.text: document.text}
        if document.meta:
            data["meta"] = dict(document.meta)
        if document.scores:
            data["scores"] = dict(document.scores)
        results = list(_results(document, interface, losses))
        scores = [span.score for span in document.spans if span.score is not None]
        predicted = self.results == "predictions" or (self.results == "auto" and bool(scores or document.scores))
        if not predicted:
            return {"data": data, "annotations": [{"result": results}]}
        scored = {"score": min(scores)} if scores else {}  # the least certain mention decides what is reviewed first
        return {"data": data, "predictions": [{"model_version": self.model_version, **scored, "result": results}]}


class _MalformedTask(Exception):
    pass


@dataclass
class _Results:
    """Collects the results of one annotation into a document."""

    draft: Draft
    labels: list[str] = field(default_factory=list)
    value: float | None = None

    def add(self, result: Mapping[str, Any]) -> None:
        kind = result.get("type")
        value = _object(result.get("value") or {}, "value")
        name, region = str(result.get("from_name", "")), str(result.get("id", ""))
        if kind == "labels":
            self._mention(value, region, result.get("score"))
        elif kind == "relation":
            self._relation(result)
        elif kind in ("choices", "textarea") and (region in self.draft.spans or "start" in value):
            given = value.get("choices") if kind == "choices" else value.get("text")
            values = [str(item) for item in given] if isinstance(given, list) else [str(given or "")]
            if region not in self.draft.spans:
                self.draft.dangling(None)
                return
            span = self.draft.spans[region]
            key = name.removesuffix(_FREE) if kind == "textarea" else name
            self.draft.spans[region] = replace(span, attributes={**span.attributes, key: "; ".join(values)})
        elif kind == "choices":
            self.labels += [_string(item) for item in _list(value.get("choices"), "choices")]
        elif kind == "number":
            self.value = _number(value.get("number"))
        else:
            self.draft.report("unknown-field", "a result is neither a mention, a relation, a choice nor a number", None)

    def _mention(self, value: Mapping[str, Any], region: str, score: Any) -> None:
        edges = [to_int(str(value.get(edge, ""))) for edge in ("start", "end")]
        if edges[0] is None or edges[1] is None:
            self.draft.report("malformed-line", "a mention has no offsets, or they are not whole numbers", None)
            return
        shown = value.get("text")
        expected = shown if isinstance(shown, str) else None
        labels = [_string(item) for item in _list(value.get("labels"), "labels")] or [""]
        for number, label in enumerate(labels, 1):
            name = f"{region}#{number}" if region and number > 1 else region
            span = self.draft.span([(edges[0], edges[1])], label, span_id=name, expected=expected)
            if span is not None and score is not None:
                self.draft.spans[span.id] = replace(span, score=_number(score))

    def _relation(self, result: Mapping[str, Any]) -> None:
        head, tail = str(result.get("from_id", "")), str(result.get("to_id", ""))
        if result.get("direction") == "left":
            head, tail = tail, head
        for label in [_string(item) for item in _list(result.get("labels"), "labels")] or [""]:
            self.draft.relation(label, head, tail)


class _Interface:
    """Collects the labels and controls of the labelling interface."""

    def __init__(self) -> None:
        self.mentions: set[str] = set()
        self.relations: set[str] = set()
        self.labels: set[str] = set()
        self.numbers = False
        self.choices: dict[str, set[str]] = {}
        self.free: set[str] = set()

    def xml(self, text: str, losses: Counter[str]) -> str:
        def tag(name: str, value: str) -> str:
            return f'    <{name} value="{encoded(value, losses)}"/>'

        def control(opening: str, name: str, inner: Sequence[str]) -> list[str]:
            return [f"  <{opening}>", *inner, f"  </{name}>"] if inner else []

        lines = ["<View>", "  <Style>.htx-text { white-space: pre-wrap; }</Style>"]
        lines += control("Relations", "Relations", [tag("Relation", label) for label in sorted(self.relations)])
        opening = f'Labels name="{_MENTION}" toName="{_TEXT}"'
        lines += control(opening, "Labels", [tag("Label", label) for label in sorted(self.mentions)])
        lines.append(f'  <Text name="{_TEXT}" value="${encoded(text, losses)}"/>')
        opening = f'Choices name="{_RECORD}" toName="{_TEXT}" choice="multiple"'
        lines += control(opening, "Choices", [tag("Choice", label) for label in sorted(self.labels)])
        if self.numbers:
            lines.append(f'  <Number name="{_VALUE}" toName="{_TEXT}"/>')
        for key, values in sorted(self.choices.items()):
            opening = f'Choices name="{encoded(key, losses)}" toName="{_TEXT}" perRegion="true"'
            lines += control(opening, "Choices", [tag("Choice", value) for value in sorted(values)])
        for key in sorted(self.free):
            lines.append(
                f'  <TextArea name="{encoded(key, losses)}" toName="{_TEXT}" perRegion="true" editable="true"/>'
            )
        return "\n".join([*lines, "</View>", ""])


def _results(document: Document, interface: _Interface, losses: Counter[str]) -> Iterator[dict[str, Any]]:
    held = [span for span in document.spans if not span.discontinuous]
    names = dict(zip(map(id, held), distinct_ids(held, "T", losses, bool), strict=True))
    by_id: dict[str, str] = {}
    for span in held:
        name = names[id(span)]
        by_id.setdefault(span.id, name)
        interface.mentions.add(span.label)
        place = {"start": span.start, "end": span.end, "text": document.text[span.start : span.end]}
        shared = {"id": name, "to_name": _TEXT}
        score = {} if span.score is None else {"score": span.score}
        yield {**shared, "from_name": _MENTION, "type": "labels", "value": {**place, "labels": [span.label]}, **score}
        yield from ({**shared, **attribute} for attribute in _attributes(span, place, interface, losses))
    kept = [relation for relation in document.relations if relation.head in by_id and relation.tail in by_id]
    losses[RELATIONS] += len(document.relations) - len(kept)
    losses[ATTRIBUTES] += sum(len(relation.attributes) for relation in kept)
    losses["scores"] += sum(relation.score is not None for relation in kept)
    losses["ids renamed"] += renumbered(kept, "R")
    for relation in kept:
        interface.relations.add(relation.label)
        ends = {"from_id": by_id[relation.head], "to_id": by_id[relation.tail]}
        yield {**ends, "type": "relation", "direction": "right", "labels": [relation.label]}
    if document.labels:
        interface.labels |= set(document.labels)
        yield _whole("choices", _RECORD, {"choices": list(document.labels)})
    if document.value is not None:
        interface.numbers = True
        yield _whole("number", _VALUE, {"number": document.value})


def _attributes(
    span: Span, place: Mapping[str, Any], interface: _Interface, losses: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yield single words such as `absent` as choices, so that annotators can change them, and other values as free text."""
    for key, value in span.attributes.items():
        if _CHOICE.fullmatch(value) and key not in (_MENTION, _RECORD, _VALUE, _TEXT):
            interface.choices.setdefault(key, set()).add(value)
            yield {"from_name": key, "type": "choices", "value": {**place, "choices": [value]}}
        else:
            interface.free.add(name := f"{key}{_FREE}")
            yield {"from_name": name, "type": "textarea", "value": {**place, "text": [value]}}


def _whole(kind: str, control: str, value: Mapping[str, Any]) -> dict[str, Any]:
    return {"from_name": control, "to_name": _TEXT, "type": kind, "value": dict(value)}


def _names(annotator: Any) -> set[str]:
    """Return the ids and e-mail addresses that identify an annotator."""
    return {str(annotator.get(key)) for key in ("id", "email")} if isinstance(annotator, dict) else {str(annotator)}


def _object(item: Any, what: str) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise _MalformedTask(f"{what} is {json_kind(item)}, not an object")
    return item


def _list(item: Any, what: str) -> list[Any]:
    if item is not None and not isinstance(item, list):
        raise _MalformedTask(f"{what} is {json_kind(item)}, not a list")
    return item or []


def _objects(item: Any, what: str) -> list[dict[str, Any]]:
    return [_object(part, what) for part in _list(item, what)]


def _string(item: Any) -> str:
    if not isinstance(item, str):
        raise _MalformedTask(f"a label or choice is {json_kind(item)}, not a string")
    return item


def _number(item: Any) -> float:
    number = to_float(item)
    if number is None:
        raise _MalformedTask("a score or number is not finite")
    return number


FORMAT = LabelStudio(
    "label_studio",
    "Label Studio JSON: tasks with annotations or predictions, and the labelling interface",
    (".json",),
    "folder",
)
