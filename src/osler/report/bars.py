"""Bars, histograms and heatmaps as SVG, drawn without matplotlib: importing it takes longer than building a small corpus.

The same data always give the same bytes. Lengths are in points. Text widths are estimates, because the reader's font is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from osler.report.colours import dark_text_on
from osler.report.plots import DARK_STYLE, FONT, GRID, HUES, INK, MUTED, series_colour

_WIDTH = 432.0
_SIZE = 9.5
_LETTER = 5.6
"""Approximate width of a letter at _SIZE."""
_LINE = 15.0
_PAD = 5.0
_LONGEST = 30
"""Maximum length of a name beside a plot; longer names are shortened in the middle."""
_HATCHES = ("", "M0,6 L6,0", "M2.5,3 L3.5,3", "M0,0 L6,6 M0,6 L6,0")
_DASHES = ("none", "6 3", "2 2", "6 2 2 2")
Rgb = tuple[int, int, int]
_CIVIDIS: Sequence[Rgb] = (
    (0, 34, 78),
    (53, 69, 108),
    (102, 105, 112),
    (148, 142, 119),
    (200, 184, 102),
    (254, 232, 56),
)
_PURPLE_TO_ORANGE: Sequence[Rgb] = (
    *((45, 0, 75), (84, 39, 136), (128, 115, 172), (178, 171, 210), (216, 218, 235), (246, 246, 247)),
    *((254, 224, 182), (253, 184, 99), (224, 130, 20), (179, 88, 6), (127, 59, 8)),
)


def stacked_bars(
    rows: Mapping[str, Mapping[str, float]],
    *,
    xlabel: str,
    title: str = "",
    neutral: str = "",
    colours: Sequence[str] = (),
) -> str:
    """Draw one horizontal stacked bar per row, with segments in order of first appearance.

    The segment named `neutral` is light grey. `colours` lists segments in colour order, so that several plots can share colours.
    """
    names = list(dict.fromkeys(name for segments in rows.values() for name in segments))
    coloured = [*colours, *(name for name in names if name not in colours and name != neutral)]
    fills = {name: GRID if name == neutral else _fill(coloured.index(name)) for name in names}
    left, right, step = _beside(rows), _WIDTH - 2 * _PAD, 27.0
    top, legend = _legend(names, left, _heading(title), lambda x, y, name: _box(x, y - 4, 18, 8, fills[name]))
    bottom = top + step * len(rows) + _PAD
    high = max((sum(segments.values()) for segments in rows.values()), default=0) or 1.0
    scale = (right - left) / (1.04 * high)
    shapes = [*map(_hatch, range(len(HUES), len(coloured))), *legend]
    for tick in _ticks(1.04 * high):
        x = left + tick * scale
        shapes += [_line(x, top, x, bottom, GRID), _text(x, bottom + 13, _short_number(tick), anchor="middle")]
    for number, (row, segments) in enumerate(rows.items()):
        y, x = top + _PAD + step * number, left
        shapes.append(_text(left - 6, y + 13, _short(row), INK, anchor="end"))
        for name in names:
            width = segments.get(name, 0.0) * scale
            if width > 0:
                shapes.append(_box(x, y, width, 18, fills[name]))
            x += width
    shapes += [_line(left, top, left, bottom), _line(left, bottom, right, bottom)]
    shapes.append(_text((left + right) / 2, bottom + 28, xlabel, anchor="middle"))
    described = "; ".join(
        f"{row}: {', '.join(f'{name} {value:.4g}' for name, value in segments.items())}"
        for row, segments in rows.items()
    )
    return _svg(_WIDTH, bottom + 36, title, f"{xlabel}: {described}.", shapes)


def histogram(
    series: Mapping[str, Sequence[float]], bins: Sequence[str], *, xlabel: str, ylabel: str, title: str = ""
) -> str:
    """Draw a histogram over named bins, one step line per series. The area of a single series is filled."""
    left, right, height = 62.0, _WIDTH - 2 * _PAD, 150.0
    looks = {name: (series_colour(index), _DASHES[index // len(HUES) % 4]) for index, name in enumerate(series)}
    top = _heading(title) + _PAD
    legend: list[str] = []
    if len(series) > 1:
        top, legend = _legend(
            list(series), left, top, lambda x, y, name: _line(x, y, x + 18, y, *looks[name], width=1.8)
        )
    bottom = top + height
    high = max((value for values in series.values() for value in values), default=0) or 1.0
    scale, wide = height / (1.05 * high), (right - left) / max(1, len(bins))
    shapes = legend
    for tick in _ticks(1.05 * high):
        y = bottom - tick * scale
        shapes += [_line(left, y, right, y, GRID), _text(left - 5, y + 3.4, _short_number(tick), INK, anchor="end")]
    for number in range(0, len(bins), -(-len(bins) // 12)):
        shapes.append(_text(left + wide * (number + 0.5), bottom + 14, bins[number], anchor="middle"))
    for name, values in series.items():
        tops = [(left + wide * number, bottom - value * scale) for number, value in enumerate(values)]
        if len(series) == 1:
            shapes += [_box(x + 0.05 * wide, y, 0.9 * wide, bottom - y, looks[name][0], opacity=0.34) for x, y in tops]
        steps = " ".join(f"V{y:.1f} H{x + wide:.1f}" for x, y in tops)
        shapes.append(_path(f"M{left:.1f},{bottom:.1f} {steps} V{bottom:.1f}", *looks[name], width=1.8))
    shapes += [_line(left, top, left, bottom), _line(left, bottom, right, bottom)]
    shapes += [
        _text((left + right) / 2, bottom + 29, xlabel, anchor="middle"),
        _text(14, (top + bottom) / 2, ylabel, anchor="middle", turned=-90),
    ]
    described = "; ".join(
        f"{name}: {', '.join(f'{value:.4g} in {bin}' for bin, value in zip(bins, values, strict=True))}"
        for name, values in series.items()
    )
    return _svg(_WIDTH, bottom + 36, title, f"{ylabel} by {xlabel}. {described}.", shapes)


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
    """Draw a matrix of coloured cells with numbers. `diverging` centres the colours at zero, for gains and losses."""
    known = [value for line in values for value in line if value is not None]
    low, high = min(known), max(known)
    if diverging:
        high = max(map(abs, known)) or 1.0
        low = -high
    elif low == high:
        high = low + 1
    palette = _PURPLE_TO_ORANGE if diverging else _CIVIDIS
    slanted = max(map(len, columns)) > 9
    below = 0.5 * _LETTER * min(_LONGEST, max(map(len, columns))) + 14 if slanted else _LINE
    # Slanted names of the first columns extend to the left of their cells.
    first = max((_LETTER * min(_LONGEST, len(name)) * 0.87 - 61 * number for number, name in enumerate(columns)))
    left = max(_beside(rows) + (_LINE if ylabel else 0), (first - 22 if slanted else 0))
    top, width, height = _heading(title) + _PAD, 61.0, 33.0
    bottom, right = top + height * len(rows), left + width * len(columns)
    shapes = [
        *(
            _text(left - 6, top + height * (i + 0.5) + 3.4, _short(row), INK, anchor="end")
            for i, row in enumerate(rows)
        ),
        *(
            _text(left + width * (j + 0.5) + 4, bottom + 13, _short(name), anchor="end", turned=-30)
            if slanted
            else _text(left + width * (j + 0.5), bottom + 13, _short(name), anchor="middle")
            for j, name in enumerate(columns)
        ),
    ]
    for i, line in enumerate(values):
        for j, value in enumerate(line):
            if value is None:
                continue
            colour = _between(palette, (value - low) / (high - low))
            x, y = left + width * j, top + height * i
            shapes.append(_box(x + 1, y + 1, width - 2, height - 2, "#{:02x}{:02x}{:02x}".format(*colour)))
            number = f"{round(value, digits) + 0.0:{'+' if diverging else ''}.{digits}f}".replace("-", "−")
            ink = "#101418" if dark_text_on(colour) else "#ffffff"
            shapes.append(_text(x + width / 2, y + height / 2 + 3.4, number, ink, anchor="middle"))
    if xlabel:
        shapes.append(_text((left + right) / 2, bottom + below + 14, xlabel, anchor="middle"))
    if ylabel:
        shapes.append(_text(14, (top + bottom) / 2, ylabel, anchor="middle", turned=-90))
    cells = "; ".join(
        f"{row}, {column}: {value:.{digits}f}"
        for row, line in zip(rows, values, strict=True)
        for column, value in zip(columns, line, strict=True)
        if value is not None
    )
    full = max(right + 4 * _PAD, 2 * _PAD + 1.15 * _LETTER * len(title))
    return _svg(full, bottom + below + (22 if xlabel else 8), title, f"{title or 'Matrix'}. {cells}.", shapes)


def _between(palette: Sequence[Rgb], share: float) -> Rgb:
    """Interpolate a palette at a position from 0 to 1."""
    place = share * (len(palette) - 1)
    index = min(int(place), len(palette) - 2)
    red, green, blue = (
        round(a + (b - a) * (place - index)) for a, b in zip(palette[index], palette[index + 1], strict=True)
    )
    return red, green, blue


def _short_number(value: float) -> str:
    """Format a number for an axis: 1200000 as 1.2 M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def _ticks(high: float) -> list[float]:
    """Return five to ten round numbers from 0 up to `high`."""
    unit = 10.0 ** math.floor(math.log10(high / 5))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if high / (factor * unit) < 9)
    return [round(number * step, 12) for number in range(int(high / step + 1e-9) + 1)]


def _beside(names: Iterable[str]) -> float:
    """Return the width needed for names to the left of a plot."""
    return 3 * _PAD + _LETTER * min(_LONGEST, max(map(len, names), default=0))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[1 - _LONGEST // 2 :]}"


def _heading(title: str) -> float:
    """Return where a plot begins below its title."""
    return 24.0 if title else _PAD


def _legend(
    names: Sequence[str], left: float, top: float, mark: Callable[[float, float, str], str]
) -> tuple[float, list[str]]:
    """Return where the plot begins, and the legend above it."""
    shapes: list[str] = []
    x, y = left, top + 8
    for name in names:
        room = 24 + _LETTER * len(name) + 12
        if x > left and x + room > _WIDTH:
            x, y = left, y + _LINE
        shapes += [mark(x, y, name), _text(x + 24, y + 3.4, name, INK)]
        x += room
    return y + 10, shapes


def _fill(index: int) -> str:
    return series_colour(index) if index < len(HUES) else f"url(#hatch-{index})"


def _hatch(index: int) -> str:
    """Return a hatched pattern, for when colours have to be reused."""
    lines = _path(_HATCHES[index // len(HUES) % 4], "#ffffff", width=1.2)
    box = _box(0, 0, 6, 6, series_colour(index))
    return f'<pattern id="hatch-{index}" width="6" height="6" patternUnits="userSpaceOnUse">{box}{lines}</pattern>'


def _box(x: float, y: float, width: float, height: float, fill: str, *, opacity: float = 1.0) -> str:
    see_through = f"; fill-opacity: {opacity:g}" if opacity < 1 else ""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} style="fill: {fill}{see_through}"/>'


def _line(
    x: float, y: float, to_x: float, to_y: float, colour: str = MUTED, dash: str = "none", *, width: float = 0.8
) -> str:
    return _path(f"M{x:.1f},{y:.1f} L{to_x:.1f},{to_y:.1f}", colour, dash, width=width)


def _path(steps: str, colour: str, dash: str = "none", *, width: float) -> str:
    return f'<path d="{steps}" style="fill: none; stroke: {colour}; stroke-width: {width}; stroke-dasharray: {dash}"/>'


def _text(x: float, y: float, text: str, fill: str = MUTED, *, anchor: str = "start", turned: float = 0) -> str:
    turn = f' transform="rotate({turned:g} {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{turn} style="fill: {fill}; text-anchor: {anchor}">{escape(text, quote=False)}</text>'


def _svg(width: float, height: float, title: str, description: str, shapes: Iterable[str]) -> str:
    size = f'width="{width:.1f}pt" height="{height:.1f}pt" viewBox="0 0 {width:.1f} {height:.1f}"'
    style = f'style="font-family: {FONT}; font-size: {_SIZE}px"'
    name = f'<text x="{_PAD}" y="14" style="fill: {INK}; font-size: 11.5px; font-weight: bold">{escape(title, quote=False)}</text>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style} role="img">',
            f"<desc>{escape(description, quote=False)}</desc>{DARK_STYLE}",
            *([name] if title else []),
            *shapes,
            "</svg>\n",
        ]
    )
