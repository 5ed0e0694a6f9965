"""Colours of the reports and the service's web page: light and dark themes, and a consistent colour for each label.

The hues are Okabe and Ito's. There are fewer hues than labels, so a label has a hue and an underline style. Its name is always
shown too, so that nothing depends on colour alone.
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
LIGHT: dict[str, str] = {
    "page": "#f6f7f9",
    "card": "#ffffff",
    "sunken": "#eff2f5",
    "ink": "#1b2430",
    "muted": "#566273",
    "line": "#dee3e9",
    "strong-line": "#98a4b1",
    "accent": "#0b5cad",
    "on-accent": "#ffffff",
    "wrong": "#a3240f",
    "tint": "0.16",
    "shadow": "0 10px 30px rgb(20 30 45 / 0.16)",
}
"""CSS variables and their values in the light theme. `tint` is the opacity of a label's hue behind text."""
DARK: dict[str, str] = {
    "page": "#11161c",
    "card": "#181e26",
    "sunken": "#222b35",
    "ink": "#e4e8ed",
    "muted": "#a0acb9",
    "line": "#2c3540",
    "strong-line": "#5a6876",
    "accent": "#7ab8f5",
    "on-accent": "#0d1620",
    "wrong": "#ff9d8a",
    "tint": "0.28",
    "shadow": "0 10px 30px rgb(0 0 0 / 0.5)",
}


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
        """CSS classes of this colour in `palette_css`."""
        return f"h-{self.hue} l-{self.line}"


_PALETTE = tuple(Colour(hue, line) for line in LINES for hue in HUES)


def hex_colour(hue: str) -> str:
    """Return a hue of the palette as #rrggbb."""
    return "#{:02x}{:02x}{:02x}".format(*HUES[hue])


@cache
def palette_css() -> str:
    """Return the CSS of themes, hues and line styles. `data-theme` on the root element overrides the system preference."""
    light, dark = (
        f"color-scheme: {name}; " + " ".join(f"--{variable}: {value};" for variable, value in theme.items())
        for name, theme in (("light", LIGHT), ("dark", DARK))
    )
    rules = [
        f":root {{ {light} }}",
        # Dark on screen only: paper is white. With :where, a later style sheet can change a variable in both themes.
        f'@media screen and (prefers-color-scheme: dark) {{ :root:where(:not([data-theme="light"])) {{ {dark} }} }}',
        f'@media screen {{ :root:where([data-theme="dark"]) {{ {dark} }} }}',
    ]
    for hue, rgb in HUES.items():
        text = "#14181d" if dark_text_on(rgb) else "#ffffff"
        rules.append(f".h-{hue} {{ --hue: {' '.join(map(str, rgb))}; --on: {text}; }}")
    rules += [f".l-{line} {{ --stroke: {line}; }}" for line in LINES]
    return "\n".join(rules) + "\n"


@cache
def _usual_colours() -> dict[str, Colour]:
    text = resources.files("osler.report").joinpath("data/label_colours.toml").read_text("utf-8")
    return {label: Colour(hue, line) for label, (hue, line) in tomllib.loads(text).items()}


def label_colours(labels: Iterable[str]) -> dict[str, Colour]:
    """Give each label its usual colour or one derived from its name, or the next free colour if that is taken."""
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
