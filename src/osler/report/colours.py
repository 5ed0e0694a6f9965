"""Colours that people with colour-blindness can tell apart, and the same colour for a label wherever it appears.

The hues are Okabe and Ito's. There are fewer hues than labels, so a label is a hue and a kind of line under the text;
its name always stands beside it, so that nothing depends on colour alone.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

HUES: dict[str, tuple[int, int, int]] = {
    "blue": (0, 114, 178),
    "orange": (230, 159, 0),
    "green": (0, 158, 115),
    "vermilion": (213, 94, 0),
    "purple": (204, 121, 167),
    "sky": (86, 180, 233),
    "yellow": (240, 228, 66),
    "grey": (136, 136, 136),
}
LINES = ("solid", "dashed", "dotted", "double")


@dataclass(frozen=True, slots=True)
class Colour:
    """A place in the palette."""

    hue: str
    line: str

    @property
    def rgb(self) -> tuple[int, int, int]:
        """Red, green and blue, 0 to 255."""
        return HUES[self.hue]

    @property
    def hex(self) -> str:
        """The hue as #rrggbb."""
        return "#{:02x}{:02x}{:02x}".format(*self.rgb)

    @property
    def css(self) -> str:
        """The classes that style.css knows it by."""
        return f"h-{self.hue} l-{self.line}"


_SLOTS = tuple(Colour(hue, line) for line in LINES for hue in HUES)


@cache
def _usual() -> dict[str, Colour]:
    text = resources.files("osler.report").joinpath("data/label_colours.toml").read_text("utf-8")
    return {label: Colour(hue, line) for label, (hue, line) in tomllib.loads(text).items()}


def label_colours(labels: Iterable[str]) -> dict[str, Colour]:
    """A colour for each label: its usual one or one drawn from its name, and the next where that is taken."""
    order = {name: index for index, name in enumerate(_usual())}
    names = sorted(set(labels), key=lambda name: (order.get(name, len(order)), name))
    chosen: dict[str, Colour] = {}
    taken: set[Colour] = set()
    for name in names:
        first = _SLOTS.index(_usual()[name]) if name in _usual() else hashlib.sha256(name.encode()).digest()[0]
        around = [_SLOTS[(first + step) % len(_SLOTS)] for step in range(len(_SLOTS))]
        chosen[name] = next((slot for slot in around if slot not in taken), around[0])
        taken.add(chosen[name])
    return dict(sorted(chosen.items()))


def dark_text_on(rgb: tuple[int, int, int]) -> bool:
    """Whether black reads better than white on a colour, by the contrast ratio of WCAG 2."""
    red, green, blue = (_linear(channel / 255) for channel in rgb)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05)


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)
