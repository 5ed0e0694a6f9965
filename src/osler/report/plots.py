"""Plots as SVG text: the same data give the same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape
from typing import Any

from osler.core.errors import InputError
from osler.core.extras import require
from osler.report.colours import HUES, dark_text_on

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


_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: which row it stands in, which series it belongs to, its value, interval and single runs."""

    row: str
    value: float
    low: float | None = None
    high: float | None = None
    points: Sequence[float] = ()
    series: str = ""


def curves(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """Lines of (x, y) points, one a series, with markers and dashes so that they differ without colour."""
    if not any(series.values()):
        raise InputError("a plot of curves needs at least one point")

    def draw(axes: Any) -> None:
        for index, (name, points) in enumerate(series.items()):
            xs, ys = [x for x, _ in points], [y for _, y in points]
            axes.plot(
                xs,
                ys,
                label=name,
                color=series_colour(index),
                linestyle=_DASHES[index // len(SERIES) % len(_DASHES)],
                marker=_MARKERS[index % len(_MARKERS)] if len(points) <= 40 else None,
                markersize=4.5,
                linewidth=1.9,
            )
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if log_x:
            axes.set_xscale("log")
            _plain_numbers(axes.xaxis)
        if log_y:
            axes.set_yscale("log")
            _plain_numbers(axes.yaxis)
        axes.grid(color=GRID, linewidth=0.8)
        axes.margins(x=0.03, y=0.08)
        if len(series) > 1:
            legend(axes, len(series))

    ends = "; ".join(f"{name} ends at {points[-1][1]:.4g}" for name, points in series.items() if points)
    return draw_svg(draw, (7.6, 3.9), title, f"{ylabel} over {xlabel}. {ends}.")


def bars_with_intervals(bars: Sequence[Bar], *, xlabel: str, title: str = "", from_zero: bool = True) -> str:
    """Horizontal bars with intervals and every run as a dot; without `from_zero`, points and intervals only.

    A bar's length is its value, so bars begin at zero; to show small differences, leave the bars away.
    """
    if not bars:
        raise InputError("a plot of bars needs at least one bar")
    rows, names = list(dict.fromkeys(bar.row for bar in bars)), list(dict.fromkeys(bar.series for bar in bars))
    thick = 0.78 / len(names)

    def draw(axes: Any) -> None:
        for bar in bars:
            index = names.index(bar.series)
            place = rows.index(bar.row) + (index - (len(names) - 1) / 2) * thick
            colour = series_colour(index)
            label = (
                bar.series if bar.series and bar.row == next(b.row for b in bars if b.series == bar.series) else None
            )
            if from_zero:
                axes.barh(place, bar.value, height=thick * 0.86, color=colour, alpha=0.34, label=label, linewidth=0)
            else:
                axes.plot(
                    bar.value,
                    place,
                    marker=_MARKERS[index % 7],
                    markersize=6.5,
                    color=colour,
                    label=label,
                    linestyle="none",
                    zorder=4,
                )
            if bar.low is not None and bar.high is not None:
                axes.plot(
                    [bar.low, bar.high], [place, place], color=colour, linewidth=2.4, solid_capstyle="round", zorder=3
                )
            if from_zero:
                axes.plot(
                    [bar.value] * 2, [place - thick * 0.43, place + thick * 0.43], color=colour, linewidth=2.2, zorder=4
                )
            if bar.points:
                spots = [place + thick * 0.24] * len(bar.points)  # beside the interval, not on it
                axes.plot(
                    bar.points,
                    spots,
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
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        axes.tick_params(axis="y", length=0)
        if from_zero:
            axes.set_xlim(left=min(0, *(bar.value for bar in bars), *(b.low for b in bars if b.low is not None)))
        if len(names) > 1:
            legend(axes, len(names))

    said = "; ".join(f"{' '.join(filter(None, (bar.row, bar.series)))} {_said(bar)}" for bar in bars)
    height = 1.1 + 0.3 * max(len(rows) * 1.15, len(bars) * 0.95)
    return draw_svg(draw, (7.6, height), title, f"{xlabel}: {said}.")


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
    if len(values) != len(rows) or any(len(line) != len(columns) for line in values) or not rows or not columns:
        raise InputError(f"a heatmap of {len(rows)} rows and {len(columns)} columns needs as many values")
    known = [value for line in values for value in line if value is not None]
    if not known:
        raise InputError("a heatmap needs at least one value")
    bound = max(map(abs, known)) or 1.0
    low, high = (
        (-bound, bound) if diverging else (min(known), max(known) if max(known) > min(known) else min(known) + 1)
    )

    def draw(axes: Any) -> None:
        palette = require("matplotlib", "report").colormaps["PuOr_r" if diverging else "cividis"]
        for i, line in enumerate(values):
            for j, value in enumerate(line):
                if value is None:
                    continue
                red, green, blue, _ = palette((value - low) / (high - low))
                shade = (round(red * 255), round(green * 255), round(blue * 255))
                axes.bar(j, 0.96, bottom=i - 0.48, width=0.96, color=(red, green, blue), linewidth=0)
                text = f"{round(value, digits) + 0.0:{'+' if diverging else ''}.{digits}f}"
                ink = "#101418" if dark_text_on(shade) else "#ffffff"
                axes.text(j, i, text.replace("-", "−"), ha="center", va="center", color=ink, fontsize=9)
        axes.set_xticks(
            range(len(columns)),
            columns,
            rotation=30 if max(map(len, columns)) > 9 else 0,
            ha="right" if max(map(len, columns)) > 9 else "center",
        )
        axes.set_yticks(range(len(rows)), rows)
        axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5), xlabel=xlabel, ylabel=ylabel)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)

    said = "; ".join(
        f"{row}, {column}: {value:.{digits}f}"
        for row, line in zip(rows, values, strict=True)
        for column, value in zip(columns, line, strict=True)
        if value is not None
    )
    return draw_svg(draw, (1.6 + 0.85 * len(columns), 1.2 + 0.46 * len(rows)), title, f"{title or 'Matrix'}. {said}.")


def _plain_numbers(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers: what matplotlib writes there by default is mathematical markup."""
    ticker = require("matplotlib.ticker", "report")

    class Plain(ticker.LogFormatter):  # type: ignore[misc, name-defined]
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain(labelOnlyBase=False, minor_thresholds=(1, 0.4)))


def _said(bar: Bar) -> str:
    interval = f" ({bar.low:.3g} to {bar.high:.3g})" if bar.low is not None and bar.high is not None else ""
    return f"{bar.value:.3g}{interval}"


_learning_plot_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A value at a place, with its interval where there is one."""

    x: float
    value: float
    low: float | None = None
    high: float | None = None


def learning_curves(series: Mapping[str, Sequence[CurvePoint]], *, xlabel: str, ylabel: str, title: str = "") -> str:
    """Lines through points with upright intervals, a little apart so that they do not cover each other; x is logarithmic."""
    known = sorted({point.x for points in series.values() for point in points})
    if not known:
        raise InputError("a learning curve needs at least one point")

    def draw(axes: Any) -> None:
        for index, (name, points) in enumerate(series.items()):
            shift = 1 + 0.018 * (index - (len(series) - 1) / 2)
            colour = series_colour(index)
            xs = [point.x * shift for point in points]
            axes.plot(
                xs,
                [point.value for point in points],
                label=name,
                color=colour,
                marker=_learning_plot_MARKERS[index % len(_learning_plot_MARKERS)],
                markersize=5,
                linewidth=1.8,
            )
            for x, point in zip(xs, points, strict=True):
                if point.low is not None and point.high is not None:
                    axes.plot([x, x], [point.low, point.high], color=colour, linewidth=2.2, alpha=0.55)
        axes.set(xlabel=xlabel, ylabel=ylabel, xscale="log")
        axes.set_xticks(known, [f"{x:g}" for x in known])
        axes.set_xticks([], minor=True)
        axes.grid(color=GRID, linewidth=0.8)
        axes.margins(x=0.06, y=0.08)
        if len(series) > 1:
            legend(axes, len(series))

    said = "; ".join(
        f"{name}: {', '.join(f'{point.value:.4g} at {point.x:g}' for point in points)}"
        for name, points in series.items()
    )
    return draw_svg(draw, (7.6, 3.9), title, f"{ylabel} over {xlabel}. {said}.")
