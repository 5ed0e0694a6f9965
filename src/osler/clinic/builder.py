"""Writes a text from left to right and records spans as they are written: gold offsets are right by construction."""

from __future__ import annotations

from collections.abc import Mapping

from osler.clinic.labels import REASON_RELATIONS
from osler.text.document import Document, Fragment, Relation, Span

_UNDIRECTED = ("DDI-", "PIP")
_PLAIN = str.maketrans("áéíóúüñÁÉÍÓÚÜÑ", "aeiouunAEIOUUN")
_NO_ATTRIBUTES: Mapping[str, str] = {}


class NoteBuilder:
    """An open text with its spans and relations; `build` closes it into a Document."""

    __slots__ = ("_labels", "_length", "_linked", "_parts", "_relations", "_spans")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._spans: list[tuple[tuple[Fragment, ...], str, Mapping[str, str]]] = []
        self._labels: dict[str, str] = {}
        self._relations: list[tuple[str, str, str]] = []
        self._linked: set[tuple[str, str, str]] = set()

    @property
    def length(self) -> int:
        """Characters written so far."""
        return self._length

    @property
    def spans(self) -> int:
        """Spans recorded so far."""
        return len(self._spans)

    def label(self, span_id: str) -> str:
        """The label of a recorded span."""
        return self._labels[span_id]

    def ends_with(self, character: str) -> bool:
        """Whether the text written so far ends with this character."""
        return bool(self._parts) and self._parts[-1].endswith(character)

    def text(self, text: str) -> None:
        """Append text that carries no annotation."""
        if text:
            self._parts.append(text)
            self._length += len(text)

    def mark(self, surface: str, label: str, attributes: Mapping[str, str] = _NO_ATTRIBUTES) -> str:
        """Append `surface` as a span and return its id."""
        start = self._length
        self.text(surface)
        return self.span(((start, self._length),), label, attributes)

    def span(self, fragments: tuple[Fragment, ...], label: str, attributes: Mapping[str, str] = _NO_ATTRIBUTES) -> str:
        """Record a span over text already written; spans are recorded in the order of their first character."""
        self._spans.append((fragments, label, attributes))
        span_id = f"T{len(self._spans)}"
        self._labels[span_id] = label
        return span_id

    def relate(self, label: str, head: str, tail: str) -> None:
        """Record a relation once, and what it also means for a drug and its reason or adverse effect."""
        if label.startswith(_UNDIRECTED) and int(head[1:]) > int(tail[1:]):
            head, tail = tail, head
        self._link(label, head, tail)
        implied = REASON_RELATIONS.get(label)
        if implied and self._labels[head] == "DRUG":
            self._link(implied, tail, head)

    def _link(self, label: str, head: str, tail: str) -> None:
        key = (label, head, tail)
        if key not in self._linked:
            self._linked.add(key)
            self._relations.append(key)

    def build(
        self,
        document_id: str,
        *,
        labels: tuple[str, ...],
        value: float | None,
        meta: Mapping[str, str],
        width: int = 0,
        accents: bool = True,
        capitals: bool = False,
    ) -> Document:
        """Close the text. Wrapping, lost accents and capitals replace one character by one: offsets stay."""
        text = "".join(self._parts).rstrip() + "\n"
        if not accents:
            text = text.translate(_PLAIN)
        if capitals:
            text = "".join(upper if len(upper := character.upper()) == 1 else character for character in text)
        if width:
            text = wrap(text, width)
        spans = tuple(
            Span(fragments, label, f"T{number}", None, attributes)
            for number, (fragments, label, attributes) in enumerate(self._spans, start=1)
        )
        relations = tuple(
            Relation(label, head, tail, f"R{number}")
            for number, (label, head, tail) in enumerate(self._relations, start=1)
        )
        return Document(document_id, text, spans, relations, labels, value, meta)


def wrap(text: str, width: int) -> str:
    """Break lines longer than `width` by turning a blank into a line break: the length stays the same."""
    lines = []
    for line in text.split("\n"):
        while len(line) > width:
            cut = line.rfind(" ", 1, width + 1)
            if cut <= 0:
                cut = line.find(" ", width)
            if cut <= 0:
                break
            lines.append(line[:cut])
            line = line[cut + 1 :]
        lines.append(line)
    return "\n".join(lines)
