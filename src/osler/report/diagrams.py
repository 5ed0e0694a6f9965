"""Diagrams as SVG text: a directed graph, and the critical-difference diagram."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osler.core.errors import InputError
from osler.core.extras import require
from osler.report.colours import HUES
from osler.report.plots import INK, draw_svg, series_colour

_RADIUS = 1.0
_NODE = 0.2


@dataclass(frozen=True, slots=True)
class EdgeKind:
    """How the edges of one kind are drawn: the name of a hue, width and dashes, so that kinds differ without colour."""

    hue: str
    width: float = 2.0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow from one node to another, of a kind, with a label such as its weight."""

    source: str
    target: str
    kind: str
    label: str = ""


def directed_graph(
    nodes: Sequence[str], edges: Sequence[Edge], *, kinds: Mapping[str, EdgeKind], title: str = ""
) -> str:
    """Draw nodes and arrows; kinds named first lie below the others. The legend names the kinds that occur."""
    if len(nodes) < 2 or len(set(nodes)) < len(nodes):
        raise InputError("a graph needs at least two nodes with different names")
    for edge in edges:
        if edge.source not in nodes or edge.target not in nodes or edge.kind not in kinds:
            raise InputError(f"an edge from {edge.source} to {edge.target} has no node or kind of that name")
    step = 2 * math.pi / len(nodes)
    places = {
        name: (_RADIUS * math.sin(index * step), _RADIUS * math.cos(index * step)) for index, name in enumerate(nodes)
    }

    def draw(axes: Any) -> None:
        for kind in kinds:
            for edge in edges:
                if edge.kind == kind:
                    _arrow(axes, places[edge.source], places[edge.target], edge.label, kinds[kind])
        for name, (x, y) in places.items():
            axes.plot([x], [y], marker="o", markersize=9, color=INK, zorder=5)
            away = "left" if x > 0.05 else "right" if x < -0.05 else "center"
            shift = 0.09 if away != "center" else 0.0
            up = 0.0 if away != "center" else (0.14 if y > 0 else -0.14)
            axes.text(
                x + math.copysign(shift, x),
                y + up,
                name,
                ha=away,
                va="center",
                fontsize=10,
                fontweight="bold",
                zorder=6,
            )
        lines = require("matplotlib.lines", "report")
        used = [kind for kind in kinds if any(edge.kind == kind for edge in edges)]
        handles = [
            lines.Line2D(
                [],
                [],
                color=_colour(kinds[k]),
                linewidth=kinds[k].width,
                linestyle="--" if kinds[k].dashed else "-",
                label=k,
            )
            for k in reversed(used)
        ]
        if handles:
            axes.legend(
                handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(handles), frameon=False
            )
        wide = max(len(name) for name in nodes) * 0.075 + 0.25
        axes.set(xlim=(-_RADIUS - wide, _RADIUS + wide), ylim=(-_RADIUS - 0.3, _RADIUS + 0.3), aspect="equal")
        axes.set_axis_off()

    said = "; ".join(f"{e.source} to {e.target}: {e.kind}{f' {e.label}' if e.label else ''}" for e in edges)
    return draw_svg(draw, (8.2, 5.4), title, f"{title or 'Graph'}. {said or 'No edges'}.")


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], label: str, kind: EdgeKind) -> None:
    """An arrow bent to one side, so that the two directions between two nodes do not cover each other."""
    bend = 0.16
    axes.annotate(
        "",
        xy=end,
        xytext=start,
        arrowprops={
            "arrowstyle": "-|>,head_length=0.55,head_width=0.28",
            "connectionstyle": f"arc3,rad={bend}",
            "color": _colour(kind),
            "linewidth": kind.width,
            "linestyle": "--" if kind.dashed else "-",
            "shrinkA": 10,
            "shrinkB": 10,
        },
        zorder=3,
    )
    if label:
        # Near the head of the arrow, where it is clear whose label it is.
        (x0, y0), (x1, y1) = start, end
        control = ((x0 + x1) / 2 + bend * (y1 - y0), (y0 + y1) / 2 - bend * (x1 - x0))
        t = 0.68
        x, y = (
            (1 - t) ** 2 * a + 2 * t * (1 - t) * c + t**2 * b
            for a, c, b in zip((x0, y0), control, (x1, y1), strict=True)
        )
        box = {"boxstyle": "round,pad=0.14", "facecolor": "#ffffff", "edgecolor": _colour(kind), "linewidth": 0.8}
        axes.text(x, y, label, fontsize=8, ha="center", va="center", color="#101418", bbox=box, zorder=4)


def _colour(kind: EdgeKind) -> str:
    return "#{:02x}{:02x}{:02x}".format(*HUES[kind.hue])


def critical_difference(
    ranks: Mapping[str, float], cliques: Sequence[Sequence[str]], *, difference: float, title: str = ""
) -> str:
    """Average ranks, the best at the left; a bar joins systems that no difference was found between."""
    if len(ranks) < 2:
        raise InputError("a view of ranks needs at least two systems")
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    left = (len(ordered) + 1) // 2
    highest = max(len(ordered), 2)
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
            axes.text(
                edge - 0.02 * highest if on_left else edge + 0.02 * highest,
                depth,
                f"{name}  {rank:.2f}",
                ha="right" if on_left else "left",
                va="center",
            )
        for index, clique in enumerate(cliques):
            inside = [ranks[name] for name in clique]
            y = -(0.3 + 0.22 * index)
            axes.plot(
                [min(inside) - 0.02 * highest, max(inside) + 0.02 * highest],
                [y, y],
                color=series_colour(0),
                linewidth=4.2,
                solid_capstyle="round",
            )
        longest = max(len(name) for name in ranks) + 6
        room = highest * (0.06 + 0.018 * longest)
        axes.set(xlim=(1 - room, highest + room), ylim=(-deep - 0.42 * left, 1.5))
        axes.set_axis_off()

    listed = "; ".join(f"{name} {rank:.2f}" for name, rank in ordered)
    joined = "; ".join(" and ".join(clique) for clique in cliques) or "none"
    height = 1.3 + 0.36 * (deep + 0.42 * left + 1.5)
    return draw_svg(
        draw,
        (8.2, height),
        title,
        f"Average ranks: {listed}. Critical difference {difference:.2f}. Not told apart: {joined}.",
    )
