"""The records everything else reads and writes: documents with spans and relations, and pairs of texts.

Offsets are characters of the original text, half-open, and the text is never altered. A record checks itself when it is
made, so that code behind a reader can rely on it; messages give ids and offsets, never text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from osler.core.errors import InputError

Fragment = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Span:
    """One annotated mention: one fragment, or several where it is discontinuous."""

    fragments: tuple[Fragment, ...]
    label: str
    id: str = ""
    score: float | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.fragments:
            raise InputError("a span needs at least one fragment", where=f"span {self.id or '?'}")
        previous = -1
        for start, end in self.fragments:
            if start < 0 or end <= start or start < previous:
                raise InputError(
                    f"fragment {start}..{end} is empty, negative, out of order or overlaps the one before it",
                    where=f"span {self.id or '?'}",
                    fix="Give fragments as half-open character offsets in text order",
                )
            previous = end

    @classmethod
    def at(cls, start: int, end: int, label: str, **more: Any) -> Span:
        """Make a span of one fragment."""
        return cls(((start, end),), label, **more)

    @property
    def start(self) -> int:
        """First character of the first fragment."""
        return self.fragments[0][0]

    @property
    def end(self) -> int:
        """One past the last character of the last fragment."""
        return self.fragments[-1][1]

    @property
    def discontinuous(self) -> bool:
        """Whether the span has more than one fragment."""
        return len(self.fragments) > 1

    @property
    def key(self) -> tuple[tuple[Fragment, ...], str]:
        """What exact-match scoring compares: the characters covered and the label."""
        return self.fragments, self.label

    def text_in(self, text: str) -> str:
        """The covered characters, fragments joined by one blank (as brat writes them)."""
        return " ".join(text[start:end] for start, end in self.fragments)


@dataclass(frozen=True, slots=True)
class Relation:
    """A typed, directed link between two spans of one document, by their ids."""

    label: str
    head: str
    tail: str
    id: str = ""
    score: float | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str]:
        """What scoring compares when both sides share their spans."""
        return self.label, self.head, self.tail


@dataclass(frozen=True, slots=True)
class Document:
    """One text with everything known or predicted about it."""

    id: str
    text: str
    spans: tuple[Span, ...] = ()
    relations: tuple[Relation, ...] = ()
    labels: tuple[str, ...] = ()
    value: float | None = None
    meta: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        length = len(self.text)
        for span in self.spans:
            if span.end > length:
                raise InputError(
                    f"span {span.id or '?'} ends at {span.end}, the text has {length} characters",
                    fix="Check that the annotation belongs to this text and counts characters, not bytes",
                )
        if self.relations:
            known = {span.id for span in self.spans}
            for relation in self.relations:
                for argument in (relation.head, relation.tail):
                    if argument not in known:
                        raise InputError(
                            f"relation {relation.id or '?'} points to span {argument or '?'}, which does not exist"
                        )

    def with_(self, **changes: Any) -> Document:
        """A copy with some fields replaced."""
        return replace(self, **changes)

    def span(self, span_id: str) -> Span:
        """The span with this id."""
        for span in self.spans:
            if span.id == span_id:
                return span
        raise KeyError(span_id)

    def only(self, labels: Iterable[str]) -> Document:
        """A copy that keeps only spans with these labels and the relations between them."""
        wanted = set(labels)
        spans = tuple(span for span in self.spans if span.label in wanted)
        ids = {span.id for span in spans}
        relations = tuple(relation for relation in self.relations if relation.head in ids and relation.tail in ids)
        return replace(self, spans=spans, relations=relations)


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts with a label (entailment) or a value (similarity). The order is premise, then hypothesis."""

    id: str
    first: str
    second: str
    labels: tuple[str, ...] = ()
    value: float | None = None
    meta: Mapping[str, str] = field(default_factory=dict)

    def with_(self, **changes: Any) -> TextPair:
        """A copy with some fields replaced."""
        return replace(self, **changes)


Record = Document | TextPair


def number_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sort spans by place and give each an id T1, T2, … where it has none."""
    ordered = sorted(spans, key=lambda span: (span.start, -span.end, span.label))
    taken = {span.id for span in ordered if span.id}
    named: list[Span] = []
    number = 0
    for span in ordered:
        if not span.id:
            number += 1
            while f"T{number}" in taken:
                number += 1
            span = replace(span, id=f"T{number}")
        named.append(span)
    return tuple(named)


def check_text(text: str, *, where: str) -> str:
    """Refuse text that no tokenizer or file format can carry: NUL characters and lone surrogates."""
    if "\x00" in text:
        raise InputError(
            f"NUL character at offset {text.index(chr(0))}",
            where=where,
            fix="Remove NUL characters, or check that the file is text and not UTF-16 or binary",
        )
    for offset, character in enumerate(text) if not text.isascii() else ():
        if 0xD800 <= ord(character) <= 0xDFFF:
            raise InputError(
                f"lone surrogate at offset {offset}", where=where, fix="Write the file again as valid UTF-8"
            )
    return text
