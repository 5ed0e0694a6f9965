"""Writes a text from left to right and records spans as it goes, so gold offsets are right by construction."""

from __future__ import annotations

from collections.abc import Mapping

from osler.clinic.labels import REASON_RELATIONS
from osler.text.document import Document, Fragment, Relation, Span

_UNDIRECTED = ("DDI-", "PIP")
_PLAIN = str.maketrans("áéíóúüñÁÉÍÓÚÜÑ", "aeiouunAEIOUUN")
_NO_ATTRIBUTES: Mapping[str, str] = {}


class NoteBuilder:
    """A growing text with its spans and relations; `build` makes a Document of it."""

    def __init__(self) -> None:
        self.length = 0
        self._parts: list[str] = []
        self._spans: list[Span] = []
        # Insertion order is the order of the relations; a relation is recorded once.
        self._relations: dict[tuple[str, str, str], None] = {}

    def label(self, span_id: str) -> str:
        return self._spans[int(span_id[1:]) - 1].label

    def ends_with(self, character: str) -> bool:
        return bool(self._parts) and self._parts[-1].endswith(character)

    def text(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self.length += len(text)

    def mark(self, surface: str, label: str, attributes: Mapping[str, str] = _NO_ATTRIBUTES) -> str:
        """Append `surface` as a span and return its id."""
        start = self.length
        self.text(surface)
        return self.span(((start, self.length),), label, attributes)

    def span(self, fragments: tuple[Fragment, ...], label: str, attributes: Mapping[str, str] = _NO_ATTRIBUTES) -> str:
        """Record a span over text already written, in order of first character, and return its id."""
        span = Span(fragments, label, f"T{len(self._spans) + 1}", None, attributes)
        self._spans.append(span)
        return span.id

    def relate(self, label: str, head: str, tail: str) -> None:
        """Record a relation, and the reason or adverse effect that it implies for a drug."""
        if label.startswith(_UNDIRECTED) and int(head[1:]) > int(tail[1:]):
            head, tail = tail, head
        self._relations[label, head, tail] = None
        implied = REASON_RELATIONS.get(label)
        if implied and self.label(head) == "DRUG":
            self._relations[implied, tail, head] = None

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
        """Finish the text. Wrapping, dropped accents and capitals replace one character by one, so offsets do not change."""
        text = "".join(self._parts).rstrip() + "\n"
        if not accents:
            text = text.translate(_PLAIN)
        if capitals:
            text = "".join(upper if len(upper := character.upper()) == 1 else character for character in text)
        if width:
            text = wrap(text, width)
        relations = tuple(Relation(*key, f"R{number}") for number, key in enumerate(self._relations, start=1))
        return Document(document_id, text, tuple(self._spans), relations, labels, value, meta)


def wrap(text: str, width: int) -> str:
    """Break lines longer than `width` by turning spaces into line breaks; the length stays the same."""
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
