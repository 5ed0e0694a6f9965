"""Plots as SVG text. The same data always give the same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from osler.core.extras import require
from osler.report.colours import dark_text_on, hex_colour

INK, _MUTED, _GRID = "#1b2431", "#586475", "#e3e7eb"
_DARK = {INK: "#e4e8ed", _MUTED: "#9ba7b5", _GRID: "#2f3944"}
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif"
_HUES = ("blue", "vermilion", "green", "orange", "purple", "sky", "grey")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES = ("", "////", "....", "xxxx")
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_STYLE = {
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


_WIDTH = 6.0
"""Inches of most plots. A phone shows them at a little more than half their size, where the text can still be read."""


def draw_svg(draw: Callable[[Any], None], size: tuple[float, float], title: str, description: str) -> str:
    """Call `draw` on new axes of this size in inches and return the SVG, with a description for screen readers."""
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
    body = svg[svg.index("<svg") :].replace("'DejaVu Sans'", _FONT)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark} !important}}'
        for light, dark in _DARK.items()
        for what in ("fill", "stroke")
    )
    style = f"<style>@media screen and (prefers-color-scheme:dark){{{rules}}}</style>"
    head, rest = body.split(">", 1)
    return f'{head} role="img"><desc>{escape(description, quote=False)}</desc>{style}{rest}'.strip() + "\n"


def series_colour(index: int) -> str:
    """Colour of the series with this number."""
    return hex_colour(_HUES[index % len(_HUES)])


def _grid_and_legend(axes: Any, series: int, axis: str = "both") -> None:
    axes.grid(axis=axis, color=_GRID, linewidth=0.8)
    if series > 1:
        # Above the plot, where it covers no data.
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
    """One line of (x, y) points per series, with markers and dashes, so they differ without colour."""

    def draw(axes: Any) -> None:
        for index, (name, points) in enumerate(series.items()):
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                label=name,
                color=series_colour(index),
                linestyle=_DASHES[index // len(_HUES) % len(_DASHES)],
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
    """Label a logarithmic axis with plain numbers: matplotlib's default is mathematical markup."""
    ticker = require("matplotlib.ticker", "report")

    class Plain(ticker.LogFormatter):  # type: ignore[misc, name-defined]
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain(labelOnlyBase=False, minor_thresholds=(1, 0.4)))


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of a learning curve, with its interval if it has one."""

    x: float
    value: float
    low: float | None = None
    high: float | None = None


def learning_curves(series: Mapping[str, Sequence[CurvePoint]], *, xlabel: str, ylabel: str, title: str = "") -> str:
    """One line per series with vertical intervals, over a logarithmic x; series are shifted a little so none is hidden."""
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
    """Horizontal bars with intervals, and every run as a dot.

    A bar's length is its value, so bars start at zero. To show small differences, turn `from_zero` off: values become markers.
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


def stacked_bars(
    rows: Mapping[str, Mapping[str, float]],
    *,
    xlabel: str,
    title: str = "",
    neutral: str = "",
    colours: Sequence[str] = (),
) -> str:
    """One horizontal bar per row, made of segments in the order in which they first appear.

    Segments called `neutral` are light grey. `colours` lists segments in the order of their colours, so that several plots use the
    same ones.
    """
    names = list(dict.fromkeys(name for segments in rows.values() for name in segments))
    coloured = [*colours, *(name for name in names if name not in colours and name != neutral)]

    def draw(axes: Any) -> None:
        left = dict.fromkeys(rows, 0.0)
        for name in names:
            index = coloured.index(name) if name in coloured else 0
            widths = [segments.get(name, 0.0) for segments in rows.values()]
            look = (
                {"color": _GRID}
                if name == neutral
                else {"color": series_colour(index), "hatch": _HATCHES[index // len(_HUES)]}
            )
            axes.barh(
                range(len(rows)),
                widths,
                left=list(left.values()),
                height=0.66,
                label=name,
                linewidth=0,
                edgecolor="#ffffff",
                **look,
            )
            left = {row: left[row] + width for row, width in zip(rows, widths, strict=True)}
        axes.set_yticks(range(len(rows)), list(rows))
        axes.invert_yaxis()
        axes.set_xlabel(xlabel)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(lambda value, _: _short_number(value))
        _grid_and_legend(axes, max(2, len(names)), axis="x")

    described = "; ".join(
        f"{row}: {', '.join(f'{name} {value:.4g}' for name, value in segments.items())}"
        for row, segments in rows.items()
    )
    lines = -(-len(names) // 3)
    return draw_svg(draw, (_WIDTH, 1.0 + 0.22 * lines + 0.38 * len(rows)), title, f"{xlabel}: {described}.")


def histogram(
    series: Mapping[str, Sequence[float]], bins: Sequence[str], *, xlabel: str, ylabel: str, title: str = ""
) -> str:
    """Steps over named bins, one line per series; the area of a single series is filled."""
    places = range(len(bins))

    def draw(axes: Any) -> None:
        for index, (name, values) in enumerate(series.items()):
            colour = series_colour(index)
            if len(series) == 1:
                axes.bar(places, values, width=0.9, color=colour, alpha=0.34, linewidth=0)
            dashes = _DASHES[index // len(_HUES) % len(_DASHES)]
            edges = [place - 0.5 for place in (*places, len(bins))]
            axes.stairs(values, edges, color=colour, linewidth=1.8, linestyle=dashes, label=name)
        step = -(-len(bins) // 12)
        axes.set_xticks(places[::step], bins[::step])
        axes.set(xlabel=xlabel, ylabel=ylabel)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: _short_number(value))
        axes.margins(x=0.02)
        _grid_and_legend(axes, len(series), axis="y")

    described = "; ".join(
        f"{name}: {', '.join(f'{value:.4g} in {bin}' for bin, value in zip(bins, values, strict=True))}"
        for name, values in series.items()
    )
    return draw_svg(draw, (_WIDTH, 3.2), title, f"{ylabel} by {xlabel}. {described}.")


def _short_number(value: float) -> str:
    """A number for an axis: 1200000 is 1.2 M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def heatmap(
    values: Sequence[Sequence[float | None]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    digits: int = 2,
    diverging: bool = False,
    xlabel: str = "",
    ylabel: str = "",
) -> str:
    """A matrix of coloured cells with their numbers; `diverging` puts the middle colour at zero (gains and losses)."""
    known = [value for line in values for value in line if value is not None]
    low, high = min(known), max(known)
    if diverging:
        high = max(map(abs, known)) or 1.0
        low = -high
    elif low == high:
        high = low + 1
    slanted = max(map(len, columns)) > 9

    def draw(axes: Any) -> None:
        palette = require("matplotlib", "report").colormaps["PuOr_r" if diverging else "cividis"]
        for i, line in enumerate(values):
            for j, value in enumerate(line):
                if value is None:
                    continue
                red, green, blue, _ = palette((value - low) / (high - low))
                axes.bar(j, 0.96, bottom=i - 0.48, width=0.96, color=(red, green, blue), linewidth=0)
                text = f"{round(value, digits) + 0.0:{'+' if diverging else ''}.{digits}f}"
                ink = (
                    "#101418" if dark_text_on((round(red * 255), round(green * 255), round(blue * 255))) else "#ffffff"
                )
                axes.text(j, i, text.replace("-", "−"), ha="center", va="center", color=ink, fontsize=9)
        turned = {"rotation": 30, "ha": "right"} if slanted else {"rotation": 0, "ha": "center"}
        axes.set_xticks(range(len(columns)), columns, **turned)
        axes.set_yticks(range(len(rows)), rows)
        axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5), xlabel=xlabel, ylabel=ylabel)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)

    cells = "; ".join(
        f"{row}, {column}: {value:.{digits}f}"
        for row, line in zip(rows, values, strict=True)
        for column, value in zip(columns, line, strict=True)
        if value is not None
    )
    return draw_svg(draw, (1.6 + 0.85 * len(columns), 1.2 + 0.46 * len(rows)), title, f"{title or 'Matrix'}. {cells}.")
