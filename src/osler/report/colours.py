"""A colour-blind-safe palette, and one colour for each label wherever it appears.

The hues are Okabe and Ito's. There are fewer hues than labels, so a label has a hue and a line style under the text. Its name
is always shown too, so nothing depends on colour alone.
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
    """A hue and a line style of the palette."""

    hue: str
    line: str

    @property
    def rgb(self) -> tuple[int, int, int]:
        return HUES[self.hue]

    @property
    def hex(self) -> str:
        return hex_colour(self.hue)

    @property
    def css(self) -> str:
        """Its classes in style.css."""
        return f"h-{self.hue} l-{self.line}"


_PALETTE = tuple(Colour(hue, line) for line in LINES for hue in HUES)


def hex_colour(hue: str) -> str:
    """A hue of the palette as #rrggbb."""
    return "#{:02x}{:02x}{:02x}".format(*HUES[hue])


@cache
def _usual_colours() -> dict[str, Colour]:
    text = resources.files("osler.report").joinpath("data/label_colours.toml").read_text("utf-8")
    return {label: Colour(hue, line) for label, (hue, line) in tomllib.loads(text).items()}


def label_colours(labels: Iterable[str]) -> dict[str, Colour]:
    """Give each label its usual colour, or one derived from its name; the next free one if that is taken."""
    usual = _usual_colours()
    order = {name: index for index, name in enumerate(usual)}
    chosen: dict[str, Colour] = {}
    taken: set[Colour] = set()
    for name in sorted(set(labels), key=lambda name: (order.get(name, len(order)), name)):
        first = _PALETTE.index(usual[name]) if name in usual else hashlib.sha256(name.encode()).digest()[0]
        candidates = [_PALETTE[(first + step) % len(_PALETTE)] for step in range(len(_PALETTE))]
        chosen[name] = next((colour for colour in candidates if colour not in taken), candidates[0])
        taken.add(chosen[name])
    return dict(sorted(chosen.items()))


def dark_text_on(rgb: tuple[int, int, int]) -> bool:
    """Whether black has a better WCAG 2 contrast ratio than white on this colour."""
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else float(((c + 0.055) / 1.055) ** 2.4) for c in (channel / 255 for channel in rgb)
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05)
