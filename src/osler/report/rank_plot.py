"""The critical-difference view: systems on a line of average ranks, bars under those that do not differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osler.core.errors import InputError
from osler.report.svg import INK, draw_svg, series_colour


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
