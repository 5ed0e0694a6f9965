"""How a plot becomes SVG text: the same data give the same bytes, colours that can be told apart, light and dark.

Text stays text, set in the reader's own font. The ink changes with the reader's colour scheme by rules inside the SVG,
which programs without colour schemes pass over. A description of the data goes in as alternative text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from html import escape
from typing import Any

from osler.core.extras import require
from osler.report.colours import HUES

INK, _MUTED, GRID = "#1b2431", "#586475", "#e3e7eb"
_DARK = {INK: "#e4e8ed", _MUTED: "#9ba7b5", GRID: "#2f3944"}
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif"
SERIES = ("blue", "vermilion", "green", "orange", "purple", "sky", "grey")


def series_colour(index: int) -> str:
    """The colour of the series with this number."""
    return "#{:02x}{:02x}{:02x}".format(*HUES[SERIES[index % len(SERIES)]])


def legend(axes: Any, entries: int) -> None:
    """Put the names of the series above the plot, where they cover no data, in as many columns as there is room for."""
    longest = max(len(name) for name in axes.get_legend_handles_labels()[1])
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=max(1, min(entries, 4, 84 // (longest + 6))),
        frameon=False,
        borderaxespad=0.2,
        handlelength=1.9,
    )


def _style() -> AbstractContextManager[None]:
    style: AbstractContextManager[None] = require("matplotlib", "report").rc_context(
        {
            "axes.axisbelow": True,
            "axes.edgecolor": _MUTED,
            "axes.labelcolor": _MUTED,
            "axes.linewidth": 0.8,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlelocation": "left",
            "axes.titlesize": 11.5,
            "axes.titleweight": "bold",
            "font.family": "DejaVu Sans",
            "font.size": 9.5,
            "legend.fontsize": 9.5,
            "legend.labelcolor": INK,
            "svg.fonttype": "none",
            "svg.hashsalt": "osler",
            "text.color": INK,
            "text.parse_math": False,
            "xtick.color": _MUTED,
            "xtick.labelcolor": _MUTED,
            "ytick.color": _MUTED,
            "ytick.labelcolor": INK,
        }
    )
    return style


def draw_svg(draw: Callable[[Any], None], size: tuple[float, float], title: str, described: str) -> str:
    """Draw on fresh axes of this size in inches and return the SVG."""
    figures = require("matplotlib.figure", "report")
    with _style():
        figure = figures.Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        if title:
            figure.suptitle(title, x=0.012, ha="left", fontsize=11.5, fontweight="bold")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _finished(buffer.getvalue(), described)


def _finished(svg: str, described: str) -> str:
    """Drop the XML preamble, use the reader's font, and add the description and the rules for a dark scheme."""
    body = svg[svg.index("<svg") :].replace("'DejaVu Sans'", _FONT)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark} !important}}'
        for light, dark in _DARK.items()
        for what in ("fill", "stroke")
    )
    style = f"<style>@media screen and (prefers-color-scheme:dark){{{rules}}}</style>"
    head, rest = body.split(">", 1)
    return f'{head} role="img"><desc>{escape(described, quote=False)}</desc>{style}{rest}'.strip() + "\n"
