"""The lines of a brat .ann file for one document: the inverse of reading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from osler.formats.output import ATTRIBUTES, RENAMED
from osler.text.document import Document, Relation, Span

_MENTION_ID = re.compile(r"T\d+")
_RELATION_ID = re.compile(r"R\d+")
_GENERATED = re.compile(r"(E\d+|\*\d+)\.\d+")
_WORD = re.compile(r"[^\s:;]+")
_BREAKS = re.compile(r"[\t\n\r]")
_COUNTED = re.compile(r"(.+)#\d+")
_SPECIAL = {"roles", "event", "target", "equiv"}


def _word(name: str, losses: Counter[str]) -> str:
    """A label or attribute name brat can hold: one word."""
    if _WORD.fullmatch(name):
        return name
    losses["labels rewritten"] += 1
    return re.sub(r"[\s:;]+", "_", name) or "_"


def _ids(items: tuple[Span, ...] | tuple[Relation, ...], letter: str, losses: Counter[str]) -> list[str]:
    """An id for each item: its own where brat takes it, else the next free number."""
    pattern = _MENTION_ID if letter == "T" else _RELATION_ID
    taken = {item.id for item in items if pattern.fullmatch(item.id)}
    used: set[str] = set()
    found, number = [], 0
    for item in items:
        name = item.id
        if not pattern.fullmatch(name) or name in used:
            if name and not _GENERATED.fullmatch(name):
                losses[RENAMED] += 1
            number += 1
            while f"{letter}{number}" in taken:
                number += 1
            name = f"{letter}{number}"
        used.add(name)
        found.append(name)
    return found


class _Numbers:
    """Running numbers for attribute, note and normalisation lines."""

    def __init__(self) -> None:
        self._last: Counter[str] = Counter()

    def next(self, letter: str) -> str:
        self._last[letter] += 1
        return f"{letter}{self._last[letter]}"


def _attribute_lines(
    target: str, attributes: Mapping[str, str], numbers: _Numbers, losses: Counter[str]
) -> Iterator[str]:
    for key, value in attributes.items():
        if key in _SPECIAL or key.startswith("event:"):
            continue
        counted = _COUNTED.fullmatch(key)
        name = counted[1] if counted and counted[1] in attributes else key
        if not _WORD.fullmatch(name):
            losses[ATTRIBUTES] += 1
        elif name == "Reference" and re.fullmatch(r"\S+(\t[^\t\n\r]*)?", value):
            reference, _, shown = value.partition("\t")
            yield (
                f"{numbers.next('N')}\t{name} {target} {reference}\t{shown}"
                if shown
                else f"{numbers.next('N')}\t{name} {target} {reference}"
            )
        elif _BREAKS.search(value):
            losses[ATTRIBUTES] += 1
        elif name == "AnnotatorNotes" or re.search(r"\s", value):
            yield f"{numbers.next('#')}\t{name} {target}\t{value}"
        else:
            yield f"{numbers.next('A')}\t{name} {target}{' ' if value else ''}{value}"


def annotation_lines(document: Document, losses: Counter[str]) -> Iterator[str]:
    """The .ann lines: mentions, each followed by its attributes, then relations, events and equivalences."""
    numbers = _Numbers()
    names = _ids(document.spans, "T", losses)
    by_id: dict[str, str] = {}
    events: dict[str, list[str]] = {}
    for span, name in zip(document.spans, names, strict=True):
        by_id.setdefault(span.id, name)
        pieces = ";".join(f"{start} {end}" for start, end in span.fragments)
        shown = " ".join(span.text_in(document.text).splitlines()).replace("\t", " ")
        yield f"{name}\t{_word(span.label, losses)} {pieces}\t{shown}"
        yield from _attribute_lines(name, span.attributes, numbers, losses)
        for key, label in span.attributes.items():
            if key.startswith("event:"):
                events[key.removeprefix("event:")] = [f"{_word(label, losses)}:{name}"]
    equivalences: dict[str, list[str]] = {}
    plain: list[Relation] = []
    for relation in document.relations:
        head, tail = by_id[relation.head], by_id[relation.tail]
        if relation.attributes.get("event", "") in events:
            target = relation.attributes.get("target", tail)
            events[relation.attributes["event"]].append(f"{_word(relation.label, losses)}:{target}")
        elif "equiv" in relation.attributes:
            group = equivalences.setdefault(relation.attributes["equiv"], [_word(relation.label, losses), head])
            group.append(tail)
        else:
            plain.append(relation)
    for relation, name in zip(plain, _ids(tuple(plain), "R", losses), strict=True):
        role1, role2 = relation.attributes.get("roles", "Arg1 Arg2").split(" ", 1)
        arguments = f"{role1}:{by_id[relation.head]} {role2}:{by_id[relation.tail]}"
        yield f"{name}\t{_word(relation.label, losses)} {arguments}"
        yield from _attribute_lines(name, relation.attributes, numbers, losses)
    for event, parts in events.items():
        yield f"{event}\t{' '.join(parts)}"
    for members in equivalences.values():
        yield f"*\t{' '.join(members)}"
