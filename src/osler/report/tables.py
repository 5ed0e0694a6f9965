"""One table, written as HTML, Markdown, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from numbers import Integral, Real
from typing import Literal

from osler.core.errors import InputError

Align = Literal["left", "right", "center"]
MISSING = "–"


@dataclass(frozen=True, slots=True)
class Value:
    """A number with what is known of its uncertainty: a standard deviation or an interval, and a mark such as *."""

    value: float
    std: float | None = None
    low: float | None = None
    high: float | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Links:
    """Places of the same page, as (text, anchor), with what is said after them; only HTML makes them links."""

    items: tuple[tuple[str, str], ...]
    more: str = ""

    @property
    def plain(self) -> str:
        """The texts in one line."""
        return " ".join([*(text for text, _ in self.items), self.more]).strip()


Cell = str | int | float | Value | Links | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: digits after the point, a factor (100 for percent), which value is best, a heading over columns."""

    name: str
    digits: int = 3
    scale: float = 1.0
    best: Literal["max", "min"] | None = None
    group: str = ""
    align: Align | None = None


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns; `headings` puts a title above the row with that index."""

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    note: str = ""
    headings: Mapping[int, str] = field(default_factory=dict)
    best_along: Literal["column", "row", "section"] = "column"
    """Among which cells one is best: its column, its row, or its column below the same heading."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(c if isinstance(c, Column) else Column(c) for c in self.columns))
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows))
        for index, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise InputError(f"row {index + 1} has {len(row)} cells for {len(self.columns)} columns")

    @property
    def fields(self) -> tuple[Column, ...]:
        """The columns, names given as text made into columns."""
        return tuple(column for column in self.columns if isinstance(column, Column))


@dataclass(frozen=True, slots=True)
class Shown:
    """A cell as it is shown: number or text, its spread, its mark, whether it is the best."""

    text: str
    spread: str = ""
    mark: str = ""
    best: bool = False
    links: tuple[tuple[str, str], ...] = ()

    @property
    def plain(self) -> str:
        """All of it in one line of text."""
        return f"{self.text} {self.spread}".rstrip() + self.mark


def shown_rows(table: Table) -> list[list[Shown]]:
    """Every cell as text, the best ones marked."""
    best = _best(table)
    return [
        [_shown(cell, column, (i, j) in best) for j, (cell, column) in enumerate(zip(row, table.fields, strict=True))]
        for i, row in enumerate(table.rows)
    ]


def alignments(table: Table) -> list[Align]:
    """Columns of numbers stand right, others left, unless the column says."""
    result: list[Align] = []
    for index, column in enumerate(table.fields):
        cells = [row[index] for row in table.rows if row[index] is not None]
        numeric = bool(cells) and not any(isinstance(cell, str | Links) for cell in cells)
        result.append(column.align or ("right" if numeric else "left"))
    return result


def column_groups(table: Table) -> list[tuple[str, int]]:
    """Headings over neighbouring columns with their widths; empty where there is none."""
    if not any(column.group for column in table.fields):
        return []
    return [(title, len(list(members))) for title, members in groupby(table.fields, key=lambda column: column.group)]


def html_table(table: Table) -> str:
    """The table as an HTML figure for `Page`."""
    from osler.report.html import render

    rows = [{"heading": table.headings.get(index, ""), "cells": cells} for index, cells in enumerate(shown_rows(table))]
    return render("table.html", table=table, rows=rows, aligns=alignments(table), groups=column_groups(table))


def markdown_table(table: Table) -> str:
    """The table as GitHub Markdown; column groups go into the column names, which Markdown cannot span."""
    names = [f"{column.group} {column.name}".strip() for column in table.fields]
    rules = {"left": ":--", "right": "--:", "center": ":-:"}
    lines = [f"**{_markdown(table.caption)}**", ""] if table.caption else []
    lines += [_bars(_markdown(name) for name in names), _bars(rules[align] for align in alignments(table))]
    for index, cells in enumerate(shown_rows(table)):
        if index in table.headings:
            lines.append(_bars([f"**{_markdown(table.headings[index])}**", *[""] * (len(names) - 1)]))
        lines.append(_bars(_markdown_cell(cell) for cell in cells))
    if table.note:
        lines += ["", _markdown(table.note)]
    return "\n".join(lines) + "\n"


def csv_table(table: Table) -> str:
    """The table as CSV with full precision and unscaled; a spread has columns of its own."""
    header: list[str] = ["group"] if table.headings else []
    extras: list[tuple[str, ...]] = []
    for index, column in enumerate(table.fields):
        values = [row[index] for row in table.rows]
        kinds = [k for k in ("std", "low", "high", "mark") if any(_known(v, k) for v in values)]
        extras.append(tuple(kinds))
        name = f"{column.group} {column.name}".strip()
        header += [name, *(f"{name} {kind}" for kind in kinds)]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    heading = ""
    for index, row in enumerate(table.rows):
        heading = table.headings.get(index, heading)
        line: list[object] = [heading] if table.headings else []
        for cell, known in zip(row, extras, strict=True):
            line.append(cell.value if isinstance(cell, Value) else cell.plain if isinstance(cell, Links) else cell)
            line += [getattr(cell, kind) if isinstance(cell, Value) else None for kind in known]
        writer.writerow(line)
    return buffer.getvalue()


def _shown(cell: Cell, column: Column, best: bool) -> Shown:
    if cell is None:
        return Shown(MISSING)
    if isinstance(cell, str):
        return Shown(cell)
    if isinstance(cell, Links):
        return Shown(" ".join(text for text, _ in cell.items), cell.more, links=cell.items)
    if isinstance(cell, bool):
        return Shown("yes" if cell else "no")
    if isinstance(cell, Value):
        return Shown(_number(cell.value, column), _spread(cell, column), cell.mark, best)
    if isinstance(cell, Integral):
        return Shown(f"{int(cell):,}", best=best)
    return Shown(_number(float(cell), column), best=best)


def _spread(cell: Value, column: Column) -> str:
    if cell.std is not None:
        return f"± {_number(cell.std, column)}"
    if cell.low is not None and cell.high is not None:
        return f"[{_bound(cell.low, column)}, {_bound(cell.high, column)}]"
    return ""


def _bound(value: float, column: Column) -> str:
    """With more digits where it is not zero but would be shown so: an interval that excludes zero must not seem to hold it."""
    for more in range(4):
        text = _number(value, replace(column, digits=column.digits + more))
        if not value or text.strip("−0."):
            break
    return text


def _number(value: float, column: Column) -> str:
    if value != value:  # not a number
        return MISSING
    text = f"{value * column.scale:.{column.digits}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "")


def _best(table: Table) -> set[tuple[int, int]]:
    """The cells that are best in their column, row or section, ties as shown included; one lone value is not called best."""
    lines: dict[tuple[int, int], list[tuple[float, int, int]]] = {}
    for j, column in enumerate(table.fields):
        if column.best is None:
            continue
        for i, row in enumerate(table.rows):
            cell = row[j]
            number = cell.value if isinstance(cell, Value) else cell
            if isinstance(number, Real) and not isinstance(number, bool) and number == number:
                shown = round(float(number) * column.scale, column.digits) * (1 if column.best == "max" else -1)
                lines.setdefault(_line(table, i, j), []).append((shown, i, j))
    return {
        (i, j)
        for line in lines.values()
        if len(line) > 1
        for shown, i, j in line
        if shown == max(value for value, _, _ in line)
    }


def _line(table: Table, i: int, j: int) -> tuple[int, int]:
    """The cells that a cell competes with, as a key."""
    if table.best_along == "row":
        return i, -1
    section = max((start for start in table.headings if start <= i), default=-1)
    return (section if table.best_along == "section" else -1), j


def _known(cell: Cell, field_name: str) -> bool:
    return isinstance(cell, Value) and getattr(cell, field_name) not in (None, "")


def _bars(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(text: str) -> str:
    text = re.sub(r"([\\`*|\[\]<>])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)


def _markdown_cell(cell: Shown) -> str:
    text = _markdown(cell.text)
    return f"{f'**{text}**' if cell.best else text} {_markdown(cell.spread)}".rstrip() + _markdown(cell.mark)


def latex_table(table: Table) -> str:
    """The table as LaTeX for the booktabs package."""
    width = len(table.fields)
    lines = [r"\begin{table}", r"\centering"]
    if table.caption:
        lines.append(rf"\caption{{{_latex(table.caption)}}}")
    lines += [rf"\begin{{tabular}}{{{''.join(align[0] for align in alignments(table))}}}", r"\toprule"]
    if groups := column_groups(table):
        lines.append(" & ".join(rf"\multicolumn{{{n}}}{{c}}{{{_latex(title)}}}" for title, n in groups) + r" \\")
        start = 1
        for title, number in groups:
            if title:
                lines.append(rf"\cmidrule(lr){{{start}-{start + number - 1}}}")
            start += number
    lines += [" & ".join(_latex(column.name) for column in table.fields) + r" \\", r"\midrule"]
    for index, cells in enumerate(shown_rows(table)):
        if index in table.headings:
            lines += [r"\addlinespace"] if index else []
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\textit{{{_latex(table.headings[index])}}}}} \\")
        lines.append(" & ".join(_latex_cell(cell) for cell in cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.note:
        lines += ["", r"\smallskip", rf"{{\footnotesize {_latex(table.note)}}}"]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def _latex_cell(cell: Shown) -> str:
    text = rf"\textbf{{{_latex(cell.text)}}}" if cell.best else _latex(cell.text)
    mark = rf"\textsuperscript{{{_latex(cell.mark)}}}" if cell.mark else ""
    return f"{text} {_latex(cell.spread)}".rstrip() + mark
