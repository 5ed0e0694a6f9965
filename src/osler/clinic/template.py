"""The template language of the clinic's sentences.

    "<Started|Begun> on {rx=d} for {problem=p}. => TrAP d p"

- `<a|b|>` picks one alternative; alternatives may nest.
- `{kind.modifier=name}` is a slot. A capital first letter (`{Problem}`) asks for a capital in the text.
- `{LABEL.modifier=name|text}` annotates the text itself with LABEL.
- After `=>` come relations between named slots, separated by `;`. A relation whose slots were not written is left out.
  The relation `attrs d` links every part of a prescription in this sentence to the drug `d`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from osler.clinic.dice import Dice

_TEXT = re.compile("[^<{>}]+")
_ALTERNATIVE_TEXT = re.compile("[^<{>}|]+")
_SLOT_HEAD = re.compile(r"([^|}=]*)(?:=([^|}]*))?([|}])")


@dataclass(frozen=True, slots=True)
class Slot:
    """A gap to fill: its kind, modifiers and name, and the text to annotate if the template gives it."""

    kind: str
    modifiers: tuple[str, ...] = ()
    name: str = ""
    literal: tuple[Node, ...] | None = None
    capital: bool = False

    @property
    def modifier(self) -> str:
        """The first modifier, or an empty string."""
        return self.modifiers[0] if self.modifiers else ""

    def capitalise(self, words: str) -> str:
        """Capitalise the first letter if the slot asks for it."""
        return words[:1].upper() + words[1:] if self.capital else words


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    """Alternatives; `resolve` picks one."""

    options: tuple[tuple[Node, ...], ...]


Node = str | Slot | TemplateChoice


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed sentence: its nodes, and the relations it states."""

    nodes: tuple[Node, ...]
    links: tuple[tuple[str, ...], ...]


@cache
def parse(source: str) -> Template:
    """Parse one template; raise ValueError if it is malformed."""
    text, _, relations = source.partition("=>")
    nodes, _ = _sequence(text.rstrip() if relations else text, 0, "")
    links = tuple(tuple(part.split()) for part in relations.split(";") if part.strip())
    for link in links:
        if len(link) != (2 if link[0] == "attrs" else 3):
            raise ValueError(f"relation {link} has the wrong number of arguments in template {source!r}")
    return Template(nodes, links)


def resolve(nodes: tuple[Node, ...], dice: Dice) -> Iterator[str | Slot]:
    """Yield text and slots in order; pick an alternative only when its turn comes."""
    for node in nodes:
        if isinstance(node, TemplateChoice):
            yield from resolve(dice.pick(node.options), dice)
        else:
            yield node


def _sequence(text: str, position: int, stops: str) -> tuple[tuple[Node, ...], int]:
    """Read nodes up to one of `stops`; without stops, up to the end of the text."""
    nodes: list[Node] = []
    plain = _ALTERNATIVE_TEXT if "|" in stops else _TEXT
    while position < len(text) and text[position] not in stops:
        node: Node
        if match := plain.match(text, position):
            node, position = match[0], match.end()
        elif text[position] == "<":
            node, position = _choice(text, position + 1)
        elif text[position] == "{":
            node, position = _slot(text, position + 1)
        else:
            raise ValueError(f"unbalanced {text[position]!r} at {position} in template {text!r}")
        nodes.append(node)
    if stops and position == len(text):
        raise ValueError(f"missing {stops[-1]!r} in template {text!r}")
    return tuple(nodes), position


def _choice(text: str, position: int) -> tuple[TemplateChoice, int]:
    options = []
    while True:
        option, position = _sequence(text, position, "|>")
        options.append(option)
        position += 1
        if text[position - 1] == ">":
            return TemplateChoice(tuple(options)), position


def _slot(text: str, position: int) -> tuple[Slot, int]:
    head = _SLOT_HEAD.match(text, position)
    if head is None:
        raise ValueError(f"missing '}}' in template {text!r}")
    kind, *modifiers = head[1].split(".")
    name, position = head[2] or "", head.end()
    if head[3] == "|":
        literal, position = _sequence(text, position, "}")
        return Slot(kind, tuple(modifiers), name, literal), position + 1
    return Slot(kind.lower() if kind[0].isupper() else kind, tuple(modifiers), name, None, kind[0].isupper()), position
