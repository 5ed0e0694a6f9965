"""The small language in which the clinic's sentences are written, parsed once into a tree.

    "<Started|Begun> on {rx=d} for {problem=p}. => TrAP d p"

`<a|b|>` picks one alternative; alternatives may nest. `{kind.modifier=name}` is a slot that a scribe fills; a capital
first letter (`{Problem}`) asks for a capital in the text. `{LABEL.modifier=name|text}` marks that very text with LABEL.
After `=>` stand relations between named slots, separated by `;`; one whose slots were not written in this rendering is
left out. The relation `attrs d` ties every part of a prescription written in this sentence to the drug `d`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Slot:
    """A place to fill: what kind, with which modifiers, under which name."""

    kind: str
    modifiers: tuple[str, ...]
    name: str
    literal: tuple[Node, ...] | None
    capital: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives of which a rendering takes one."""

    options: tuple[tuple[Node, ...], ...]


Node = str | Slot | Choice


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed sentence: what to write, and the relations it states."""

    nodes: tuple[Node, ...]
    links: tuple[tuple[str, ...], ...]


@cache
def parse(source: str) -> Template:
    """Parse one template; a mistake in it is a mistake in the package's data and raises ValueError."""
    text, _, relations = source.partition("=>")
    if relations:
        text = text.rstrip()
    nodes, position = _sequence(text, 0, "")
    if position != len(text):
        raise ValueError(f"unbalanced {text[position]!r} at {position} in template {source!r}")
    links = tuple(tuple(part.split()) for part in relations.split(";") if part.strip())
    for link in links:
        if len(link) != (2 if link[0] == "attrs" else 3):
            raise ValueError(f"relation {link} has the wrong number of arguments in template {source!r}")
    return Template(nodes, links)


def _sequence(text: str, position: int, stops: str) -> tuple[tuple[Node, ...], int]:
    """Read nodes until one of `stops` or the end."""
    nodes: list[Node] = []
    start = position
    while position < len(text) and text[position] not in stops:
        character = text[position]
        if character not in "<{>}":
            position += 1
            continue
        if position > start:
            nodes.append(text[start:position])
        node: Node
        if character == "<":
            node, position = _choice(text, position + 1)
        elif character == "{":
            node, position = _slot(text, position + 1)
        else:
            raise ValueError(f"unbalanced {character!r} at {position} in template {text!r}")
        nodes.append(node)
        start = position
    if position > start:
        nodes.append(text[start:position])
    return tuple(nodes), position


def _choice(text: str, position: int) -> tuple[Choice, int]:
    options = []
    while True:
        option, position = _sequence(text, position, "|>")
        options.append(option)
        if position >= len(text):
            raise ValueError(f"an alternative is not closed in template {text!r}")
        position += 1
        if text[position - 1] == ">":
            return Choice(tuple(options)), position


def _slot(text: str, position: int) -> tuple[Slot, int]:
    end = position
    while end < len(text) and text[end] not in "|}":
        end += 1
    if end >= len(text):
        raise ValueError(f"a slot is not closed in template {text!r}")
    head, _, name = text[position:end].partition("=")
    kind, *modifiers = head.split(".")
    literal: tuple[Node, ...] | None = None
    if text[end] == "|":
        literal, end = _sequence(text, end + 1, "}")
    elif kind[0].isupper():
        return Slot(kind.lower(), tuple(modifiers), name, None, True), end + 1
    return Slot(kind, tuple(modifiers), name, literal, False), end + 1
