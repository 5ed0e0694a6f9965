"""Scores by the share of the training data, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osler.core.errors import InputError
from osler.report.svg import GRID, draw_svg, legend, series_colour

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


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
                marker=_MARKERS[index % len(_MARKERS)],
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
