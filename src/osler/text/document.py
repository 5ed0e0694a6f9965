"""Records: documents with spans and relations, and pairs of texts.

Offsets are half-open character offsets into the original text, which is never altered. A record validates itself when it is
created, so code that receives one can rely on it. Error messages give ids and offsets, never text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from osler.core.errors import InputError
from osler.core.parsing import to_float, to_int
from osler.text.words import Range, words

Fragment = tuple[int, int]

TOKENS = {"tokens": "blanks"}
"""Meta of a document from a tokenised corpus: whitespace separates its tokens, and each of its lines is a sentence."""
YES = "yes"
"""Value of an attribute that holds, such as {"negated": "yes"}. One that does not hold is left out."""
_TOKEN = re.compile(r"[^ \t\r\n]+")


@dataclass(frozen=True, slots=True)
class Span:
    """An annotated mention. A discontinuous mention has several fragments."""

    fragments: tuple[Fragment, ...]
    """Half-open ranges of characters, in text order."""
    label: str
    """Type of the mention."""
    id: str = ""
    """Unique in its document; relations refer to it."""
    score: float | None = None
    """Predicted probability; gold has none."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Further values by name, such as a code or a negation."""

    def __post_init__(self) -> None:
        if len(self.fragments) == 1 and 0 <= self.fragments[0][0] < self.fragments[0][1]:
            return  # nearly every span
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
        return cls(((start, end),), label, **more)

    @property
    def start(self) -> int:
        return self.fragments[0][0]

    @property
    def end(self) -> int:
        return self.fragments[-1][1]

    @property
    def discontinuous(self) -> bool:
        return len(self.fragments) > 1

    @property
    def key(self) -> tuple[tuple[Fragment, ...], str]:
        """Characters and label, which exact-match scoring compares."""
        return self.fragments, self.label

    def moved(self, by: int) -> Span:
        """The same mention `by` characters later, or earlier if it is negative."""
        return replace(self, fragments=tuple((start + by, end + by) for start, end in self.fragments))

    def with_attributes(self, more: Mapping[str, str]) -> Span:
        """The same mention with further attributes."""
        # `replace` takes four times as long, and notes have hundreds of spans.
        return Span(self.fragments, self.label, self.id, self.score, {**self.attributes, **more})

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: `start` and `end`, or `fragments` if the mention is discontinuous."""
        if len(self.fragments) == 1:
            [(start, end)] = self.fragments
            return _add_shared({"start": start, "end": end}, self)
        return _add_shared({"fragments": [list(fragment) for fragment in self.fragments]}, self)

    def text_in(self, text: str) -> str:
        """Covered text, with fragments joined by one space as in brat files."""
        return " ".join(text[start:end] for start, end in self.fragments)


@dataclass(frozen=True, slots=True)
class Relation:
    """A labelled, directed link between two spans of a document, given by their ids."""

    label: str
    """Type of the relation."""
    head: str
    """Id of the span it starts from."""
    tail: str
    """Id of the span it points to."""
    id: str = ""
    """Unique in its document."""
    score: float | None = None
    """Predicted probability; gold has none."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Further values by name."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Label and arguments, which scoring compares when gold and prediction have the same spans."""
        return self.label, self.head, self.tail

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return _add_shared({"head": self.head, "tail": self.tail}, self)


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its annotations, gold or predicted."""

    id: str
    """Unique in its file or split."""
    text: str
    """The text, never altered."""
    spans: tuple[Span, ...] = ()
    """Mentions; they may overlap."""
    relations: tuple[Relation, ...] = ()
    """Links between spans of this document."""
    labels: tuple[str, ...] = ()
    """Labels of the whole text."""
    value: float | None = None
    """Number of the whole text, in regression."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """Further values by name, such as a patient or a date."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Predicted probability of each label, best first."""

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
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with every field."""
        return {
            "id": self.id,
            "text": self.text,
            "spans": [span.to_dict() for span in self.spans],
            "relations": [relation.to_dict() for relation in self.relations],
            "labels": list(self.labels),
            "value": self.value,
            "scores": dict(self.scores),
            "meta": dict(self.meta),
        }

    def span(self, span_id: str) -> Span:
        for span in self.spans:
            if span.id == span_id:
                return span
        raise KeyError(span_id)

    def only(self, labels: Iterable[str]) -> Document:
        """Return a copy with only the spans of these labels and the relations between them."""
        wanted = set(labels)
        spans = tuple(span for span in self.spans if span.label in wanted)
        ids = {span.id for span in spans}
        relations = tuple(relation for relation in self.relations if relation.head in ids and relation.tail in ids)
        return replace(self, spans=spans, relations=relations)


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts with a label (entailment) or a value (similarity), premise first."""

    id: str
    """Unique in its file or split."""
    first: str
    """The premise, or the first text."""
    second: str
    """The hypothesis, or the second text."""
    labels: tuple[str, ...] = ()
    """Label of the pair."""
    value: float | None = None
    """Number of the pair, such as a similarity."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """Further values by name, such as a patient or a date."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Predicted probability of each label, best first."""

    def with_(self, **changes: Any) -> TextPair:
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with every field."""
        return {
            "id": self.id,
            "first": self.first,
            "second": self.second,
            "labels": list(self.labels),
            "value": self.value,
            "scores": dict(self.scores),
            "meta": dict(self.meta),
        }


Record = Document | TextPair


def _add_shared(fields: dict[str, Any], item: Span | Relation) -> dict[str, Any]:
    fields["label"] = item.label
    if item.id:
        fields["id"] = item.id
    if item.score is not None:
        fields["score"] = item.score
    if item.attributes:
        fields["attributes"] = dict(item.attributes)
    return fields


def documents_in(records: Iterable[Record]) -> list[Document]:
    """Return the documents among some records, without the pairs."""
    return [record for record in records if isinstance(record, Document)]


def number_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sort spans by position and number those without an id: T1, T2, …"""
    ordered = sorted(spans, key=lambda span: (span.start, -span.end, span.label))
    taken = {span.id for span in ordered if span.id}
    named: list[Span] = []
    number = 0
    for span in ordered:
        if not span.id:
            number += 1
            while f"T{number}" in taken:
                number += 1
            span = Span(span.fragments, span.label, f"T{number}", span.score, span.attributes)
        named.append(span)
    return tuple(named)


def split_meta(meta: Mapping[str, str]) -> tuple[dict[str, str], dict[str, float]]:
    """Split metadata from label scores, which files written before `scores` was a field hold as `score:LABEL`."""
    rest: dict[str, str] = {}
    scores: dict[str, float] = {}
    for key, text in meta.items():
        score = to_float(text) if key.startswith("score:") else None
        if score is None:
            rest[key] = text  # a user's own metadata
        else:
            scores[key.removeprefix("score:")] = score
    return rest, scores


def parse_fragments(text: str) -> list[Fragment]:
    """Read fragments written as `start end;start end`; none if the text does not have this form."""
    found: list[Fragment] = []
    for part in text.split(";"):
        start, end = map(to_int, part.split(" ")) if part.count(" ") == 1 else (None, None)
        if start is None or end is None or start < 0 or end < 0:
            return []
        found.append((start, end))
    return found


def check_text(text: str, *, where: str) -> str:
    """Reject text that no tokenizer or file format can hold: NUL characters and lone surrogates."""
    if "\x00" in text:
        raise InputError(
            f"NUL character at offset {text.index(chr(0))}",
            where=where,
            fix="Remove NUL characters, or check that the file is text and not UTF-16 or binary",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"lone surrogate at offset {error.start}"
        raise InputError(problem, where=where, fix="Save the file as valid UTF-8") from None
    return text


def check_record(record: Record, *, where: str) -> None:
    """Reject a record that no file can hold: NUL characters or lone surrogates in any string, numbers that are not finite."""
    for text in (record.text,) if isinstance(record, Document) else (record.first, record.second):
        check_text(text, where=where)
    items: tuple[Span | Relation, ...] = (*record.spans, *record.relations) if isinstance(record, Document) else ()
    names = [record.id, *record.labels, *record.meta, *record.meta.values(), *record.scores]
    numbers = [record.value, *record.scores.values()]
    for item in items:
        names += (item.label, item.id, *item.attributes, *item.attributes.values())
        numbers.append(item.score)
        if isinstance(item, Relation):
            names += (item.head, item.tail)
    shown = "".join(names)
    if not shown.isascii() or "\x00" in shown:
        try:
            check_text(shown, where=where)
        except InputError:
            problem = "an id, a label, an attribute or metadata holds a NUL character or a lone surrogate"
            raise InputError(problem, where=where, fix="Remove it: no text file can hold it") from None
    if not all(number is None or math.isfinite(number) for number in numbers):
        raise InputError("a value or a score is not finite", where=where, fix="Leave it out or give a finite number")


def has_tokens(document: Document) -> bool:
    """Whether the document has the corpus's own tokens and sentences."""
    return document.meta.get("tokens") == TOKENS["tokens"]


def token_ranges(document: Document) -> list[Range]:
    """Offsets of the corpus's own tokens where it has them, else of the words of the text."""
    if has_tokens(document):
        return [match.span() for match in _TOKEN.finditer(document.text)]
    return words(document.text)
