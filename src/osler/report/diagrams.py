"""Diagrams as SVG: directed graphs and critical-difference diagrams."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osler.core.extras import require
from osler.report.colours import hex_colour
from osler.report.plots import INK, draw_svg, series_colour


@dataclass(frozen=True, slots=True)
class EdgeKind:
    """How to draw one kind of edge: hue, width and dashes, so that kinds are distinguishable without colour."""

    hue: str
    width: float = 2.0
    dashed: bool = False

    @property
    def line(self) -> dict[str, Any]:
        """The matplotlib properties of the line."""
        return {"color": hex_colour(self.hue), "linewidth": self.width, "linestyle": "--" if self.dashed else "-"}


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow from one node to another, with a label such as its weight."""

    source: str
    target: str
    kind: str
    label: str = ""


def directed_graph(
    nodes: Sequence[str], edges: Sequence[Edge], *, kinds: Mapping[str, EdgeKind], title: str = ""
) -> str:
    """Draw nodes on a circle and arrows between them. Later kinds are drawn on top; the legend lists the kinds in use."""
    step = 2 * math.pi / len(nodes)
    places = {name: (math.sin(index * step), math.cos(index * step)) for index, name in enumerate(nodes)}

    def draw(axes: Any) -> None:
        for kind in kinds:
            for edge in edges:
                if edge.kind == kind:
                    _arrow(axes, places[edge.source], places[edge.target], edge.label, kinds[kind])
        for name, (x, y) in places.items():
            axes.plot([x], [y], marker="o", markersize=9, color=INK, zorder=5)
            # Put the name outside the circle: right, left, above or below.
            if abs(x) > 0.05:
                side, right, up = "left" if x > 0 else "right", 0.09, 0.0
            else:
                side, right, up = "center", 0.0, 0.14 if y > 0 else -0.14
            font = {"fontsize": 10, "fontweight": "bold"}
            axes.text(x + math.copysign(right, x), y + up, name, ha=side, va="center", zorder=6, **font)
        lines = require("matplotlib.lines", "report")
        used = [kind for kind in kinds if any(edge.kind == kind for edge in edges)]
        handles = [lines.Line2D([], [], label=kind, **kinds[kind].line) for kind in reversed(used)]
        if handles:
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0)}
            axes.legend(handles=handles, ncols=len(handles), frameon=False, **below)
        width = 1 + max(len(name) for name in nodes) * 0.075 + 0.25
        axes.set(xlim=(-width, width), ylim=(-1.3, 1.3), aspect="equal")
        axes.set_axis_off()

    arrows = "; ".join(f"{e.source} to {e.target}: {e.kind}{f' {e.label}' if e.label else ''}" for e in edges)
    return draw_svg(draw, (8.2, 5.4), title, f"{title or 'Graph'}. {arrows or 'No edges'}.")


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], label: str, kind: EdgeKind) -> None:
    """Draw a curved arrow, so that the two directions between two nodes do not overlap."""
    bend = 0.16
    shape = {
        "arrowstyle": "-|>,head_length=0.55,head_width=0.28",
        "connectionstyle": f"arc3,rad={bend}",
        "shrinkA": 10,
        "shrinkB": 10,
    }
    axes.annotate("", xy=end, xytext=start, arrowprops=kind.line | shape, zorder=3)
    if label:
        # Place the label on the curve near its head, where it is clear which arrow it belongs to.
        (x0, y0), (x1, y1) = start, end
        control = ((x0 + x1) / 2 + bend * (y1 - y0), (y0 + y1) / 2 - bend * (x1 - x0))
        t = 0.68
        x, y = (
            (1 - t) ** 2 * a + 2 * t * (1 - t) * c + t**2 * b
            for a, c, b in zip((x0, y0), control, (x1, y1), strict=True)
        )
        box = {"boxstyle": "round,pad=0.14", "facecolor": "#ffffff", "edgecolor": kind.line["color"], "linewidth": 0.8}
        axes.text(x, y, label, fontsize=8, ha="center", va="center", color="#101418", bbox=box, zorder=4)


def critical_difference(ranks: Mapping[str, float], cliques: Sequence[Sequence[str]], *, difference: float) -> str:
    """Draw average ranks, best on the left. A bar joins systems that are not significantly different."""
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    left = (len(ordered) + 1) // 2
    highest = len(ordered)
    deep = 0.55 + 0.22 * len(cliques)

    def draw(axes: Any) -> None:
        axes.plot([1, highest], [0, 0], color=INK, linewidth=1.4)
        for tick in range(1, highest + 1):
            axes.plot([tick, tick], [0, 0.12], color=INK, linewidth=1.2)
            axes.text(tick, 0.2, str(tick), ha="center", va="bottom")
        axes.plot([1, min(1 + difference, highest)], [0.85, 0.85], color=INK, linewidth=2.4, solid_capstyle="butt")
        cut = " (longer than the line)" if 1 + difference > highest else ""
        axes.text(1, 0.95, f"critical difference {difference:.2f}{cut}", ha="left", va="bottom")
        for index, (name, rank) in enumerate(ordered):
            on_left = index < left
            depth = -(deep + 0.42 * (index if on_left else len(ordered) - 1 - index))
            edge = 1 - 0.04 * highest if on_left else highest + 0.04 * highest
            axes.plot([rank, rank, edge], [0, depth, depth], color=INK, linewidth=1.0)
            beyond = edge - 0.02 * highest if on_left else edge + 0.02 * highest
            axes.text(beyond, depth, f"{name}  {rank:.2f}", ha="right" if on_left else "left", va="center")
        for index, clique in enumerate(cliques):
            inside = [ranks[name] for name in clique]
            ends = [min(inside) - 0.02 * highest, max(inside) + 0.02 * highest]
            y = -(0.3 + 0.22 * index)
            axes.plot(ends, [y, y], color=series_colour(0), linewidth=4.2, solid_capstyle="round")
        longest = max(len(name) for name in ranks) + 6
        room = highest * (0.06 + 0.018 * longest)
        axes.set(xlim=(1 - room, highest + room), ylim=(-deep - 0.42 * left, 1.5))
        axes.set_axis_off()

    listed = "; ".join(f"{name} {rank:.2f}" for name, rank in ordered)
    joined = "; ".join(" and ".join(clique) for clique in cliques) or "none"
    height = 1.3 + 0.36 * (deep + 0.42 * left + 1.5)
    description = (
        f"Average ranks: {listed}. Critical difference {difference:.2f}. Not significantly different: {joined}."
    )
    return draw_svg(draw, (8.2, height), "", description)
