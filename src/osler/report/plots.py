"""Curves and intervals as SVG, drawn by matplotlib; the same data give the same bytes. `bars.py` draws simpler plots."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from osler.core.extras import require
from osler.report.colours import DARK, LIGHT, hex_colour

INK, MUTED, GRID = LIGHT["ink"], LIGHT["muted"], "#e3e7eb"
_DARK = {INK: DARK["ink"], MUTED: DARK["muted"], GRID: "#2f3944"}
_RULES = "".join(
    f'[style*="{what}: {light}"]{{{what}:{dark} !important}}'
    for light, dark in _DARK.items()
    for what in ("fill", "stroke")
)
DARK_STYLE = f"<style>@media screen and (prefers-color-scheme:dark){{{_RULES}}}</style>"
"""CSS for dark screens. It matches colours in `style` attributes, written like `fill: #1b2430`."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif"
HUES = ("blue", "vermilion", "green", "orange", "purple", "sky", "grey")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
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
    "xtick.color": MUTED,
    "xtick.labelcolor": MUTED,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
}


_WIDTH = 6.0
"""Width of most plots in inches. At the little more than half size of a phone, the text is still readable."""


def draw_svg(draw: Callable[[Any], None], size: tuple[float, float], title: str, description: str) -> str:
    """Call `draw` on new axes of `size` inches and return the SVG, with a description for screen readers."""
    figures = require("matplotlib.figure", "report")
    with require("matplotlib", "report").rc_context(_STYLE):
        figure = figures.Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        if title:
            figure.suptitle(title, x=0.012, ha="left", fontsize=11.5, fontweight="bold")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    # Drop the XML preamble and use the reader's own font and colour scheme.
    body = svg[svg.index("<svg") :].replace("'DejaVu Sans'", FONT)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    head, rest = body.split(">", 1)
    return f'{head} role="img"><desc>{escape(description, quote=False)}</desc>{DARK_STYLE}{rest}'.strip() + "\n"


def series_colour(index: int) -> str:
    """Return the colour of the series with this index."""
    return hex_colour(HUES[index % len(HUES)])


def _grid_and_legend(axes: Any, series: int, axis: str = "both") -> None:
    axes.grid(axis=axis, color=GRID, linewidth=0.8)
    if series > 1:
        # Put the legend above the plot, where it covers no data.
        longest = max(len(name) for name in axes.get_legend_handles_labels()[1])
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=max(1, min(series, 4, 66 // (longest + 6))),
            frameon=False,
            borderaxespad=0.2,
            handlelength=1.9,
        )


def curves(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    log_y: bool = False,
) -> str:
    """Draw one line of (x, y) points per series. Markers and dashes keep them apart without colour."""

    def draw(axes: Any) -> None:
        for index, (name, points) in enumerate(series.items()):
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                label=name,
                color=series_colour(index),
                linestyle=_DASHES[index // len(HUES) % len(_DASHES)],
                marker=_MARKERS[index % len(_MARKERS)] if len(points) <= 40 else None,
                markersize=4.5,
                linewidth=1.9,
            )
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if log_y:
            axes.set_yscale("log")
            _label_plainly(axes.yaxis)
        axes.margins(x=0.03, y=0.08)
        _grid_and_legend(axes, len(series))

    ends = "; ".join(f"{name} ends at {points[-1][1]:.4g}" for name, points in series.items() if points)
    return draw_svg(draw, (_WIDTH, 3.6), title, f"{ylabel} over {xlabel}. {ends}.")


def _label_plainly(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers instead of matplotlib's math markup."""
    ticker = require("matplotlib.ticker", "report")

    class Plain(ticker.LogFormatter):  # type: ignore[misc, name-defined]
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain(labelOnlyBase=False, minor_thresholds=(1, 0.4)))


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of a learning curve, with an optional interval."""

    x: float
    value: float
    low: float | None = None
    high: float | None = None


def learning_curves(series: Mapping[str, Sequence[CurvePoint]], *, xlabel: str, ylabel: str, title: str = "") -> str:
    """Draw one line per series with vertical intervals over a logarithmic x, slightly shifted so that none is hidden."""
    known = sorted({point.x for points in series.values() for point in points})

    def draw(axes: Any) -> None:
        for index, (name, points) in enumerate(series.items()):
            shift = 1 + 0.018 * (index - (len(series) - 1) / 2)
            colour, marker = series_colour(index), _MARKERS[index % len(_MARKERS)]
            xs, ys = [point.x * shift for point in points], [point.value for point in points]
            axes.plot(xs, ys, label=name, color=colour, marker=marker, markersize=5, linewidth=1.8)
            for x, point in zip(xs, points, strict=True):
                if point.low is not None and point.high is not None:
                    axes.plot([x, x], [point.low, point.high], color=colour, linewidth=2.2, alpha=0.55)
        axes.set(xlabel=xlabel, ylabel=ylabel, xscale="log")
        axes.set_xticks(known, [f"{x:g}" for x in known])
        axes.set_xticks([], minor=True)
        axes.margins(x=0.06, y=0.08)
        _grid_and_legend(axes, len(series))

    values = "; ".join(
        f"{name}: {', '.join(f'{point.value:.4g} at {point.x:g}' for point in points)}"
        for name, points in series.items()
    )
    return draw_svg(draw, (_WIDTH, 3.6), title, f"{ylabel} over {xlabel}. {values}.")


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its row, value, interval, single runs and series."""

    row: str
    value: float
    low: float | None = None
    high: float | None = None
    points: Sequence[float] = ()
    series: str = ""


def bars_with_intervals(bars: Sequence[Bar], *, xlabel: str, title: str = "", from_zero: bool = True) -> str:
    """Draw horizontal bars with intervals, and every run as a dot.

    Bars start at zero, so that their length is the value. To show small differences, set `from_zero=False`, which draws markers.
    """
    rows, names = list(dict.fromkeys(bar.row for bar in bars)), list(dict.fromkeys(bar.series for bar in bars))
    thick = 0.78 / len(names)

    def draw(axes: Any) -> None:
        labelled: set[str] = {""}
        for bar in bars:
            index = names.index(bar.series)
            place = rows.index(bar.row) + (index - (len(names) - 1) / 2) * thick
            colour = series_colour(index)
            label = None if bar.series in labelled else bar.series
            labelled.add(bar.series)
            if from_zero:
                axes.barh(place, bar.value, height=thick * 0.86, color=colour, alpha=0.34, label=label, linewidth=0)
            else:
                marker = {"marker": _MARKERS[index % 7], "markersize": 6.5, "linestyle": "none"}
                axes.plot(bar.value, place, color=colour, label=label, zorder=4, **marker)
            if bar.low is not None and bar.high is not None:
                interval = [bar.low, bar.high]
                axes.plot(interval, [place] * 2, color=colour, linewidth=2.4, solid_capstyle="round", zorder=3)
            if from_zero:
                edge = [place - thick * 0.43, place + thick * 0.43]
                axes.plot([bar.value] * 2, edge, color=colour, linewidth=2.2, zorder=4)
            if bar.points:
                axes.plot(
                    bar.points,
                    [place + thick * 0.24] * len(bar.points),  # below the interval, not on it
                    linestyle="none",
                    marker="o",
                    markersize=3.6,
                    markerfacecolor="none",
                    markeredgecolor=INK,
                    markeredgewidth=0.9,
                    zorder=5,
                )
        axes.set_yticks(range(len(rows)), rows)
        axes.invert_yaxis()
        axes.set_xlabel(xlabel)
        axes.tick_params(axis="y", length=0)
        if from_zero:
            axes.set_xlim(left=min(0, *(bar.value for bar in bars), *(b.low for b in bars if b.low is not None)))
        _grid_and_legend(axes, len(names), axis="x")

    def described(bar: Bar) -> str:
        interval = f" ({bar.low:.3g} to {bar.high:.3g})" if bar.low is not None and bar.high is not None else ""
        return f"{' '.join(filter(None, (bar.row, bar.series)))} {bar.value:.3g}{interval}"

    height = 1.1 + 0.3 * max(len(rows) * 1.15, len(bars) * 0.95)
    return draw_svg(draw, (_WIDTH, height), title, f"{xlabel}: {'; '.join(map(described, bars))}.")
