"""Tables, written as HTML, Markdown, CSV or LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from numbers import Integral, Real
from typing import Literal

from osler.core.errors import InputError
from osler.core.files import csv_row
from osler.report.html import render

Align = Literal["left", "right", "center"]
_MISSING = "–"


@dataclass(frozen=True, slots=True)
class Value:
    """A number with a standard deviation or an interval, and a mark such as *."""

    value: float
    std: float | None = None
    low: float | None = None
    high: float | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Links:
    """Links to anchors of the same page, as (text, anchor), followed by text. Plain text outside HTML."""

    items: tuple[tuple[str, str], ...]
    more: str = ""


Cell = str | int | float | Value | Links | None
Row = list[Cell]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: name, decimal digits, scale factor (100 for percent), which value is best, and the heading above it."""

    name: str
    digits: int = 3
    scale: float = 1.0
    best: Literal["max", "min"] | None = None
    group: str = ""
    align: Align | None = None
    quoted: bool = False
    """Whether the numbers come from elsewhere. They are shown in italics."""

    @property
    def full_name(self) -> str:
        """Name including the heading above it, for formats whose cells cannot span columns."""
        return f"{self.group} {self.name}".strip()


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. `headings` maps row indices to a title above that row."""

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    note: str = ""
    headings: Mapping[int, str] = field(default_factory=dict)
    best_along: Literal["column", "row", "section"] = "column"
    """Where to look for the best value: in a column, in a row, or in a column under the same heading."""
    style: Literal["", "published"] = ""
    """`published` sets off numbers from elsewhere from measured ones."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(c if isinstance(c, Column) else Column(c) for c in self.columns))
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows))
        for index, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise InputError(f"row {index + 1} has {len(row)} cells for {len(self.columns)} columns")

    @property
    def fields(self) -> tuple[Column, ...]:
        """The columns, all as `Column`."""
        return tuple(column for column in self.columns if isinstance(column, Column))


@dataclass(frozen=True, slots=True)
class Shown:
    """A cell as text: its value, spread and mark, and whether it is the best."""

    text: str
    spread: str = ""
    mark: str = ""
    best: bool = False
    links: tuple[tuple[str, str], ...] = ()

    @property
    def plain(self) -> str:
        return f"{self.text} {self.spread}".rstrip() + self.mark


def html_table(table: Table) -> str:
    """Return the table as an HTML figure for `Page`."""
    rows = [{"heading": table.headings.get(index, ""), "cells": cells} for index, cells in enumerate(shown_rows(table))]
    return render("table.html", table=table, rows=rows, aligns=alignments(table), groups=_column_groups(table))


def markdown_table(table: Table) -> str:
    """Return the table as GitHub Markdown."""

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def cell_text(cell: Shown) -> str:
        text = f"**{escaped(cell.text)}**" if cell.best else escaped(cell.text)
        return f"{text} {escaped(cell.spread)}".rstrip() + escaped(cell.mark)

    escaped = markdown_text
    rules = {"left": ":--", "right": "--:", "center": ":-:"}
    lines = [f"**{escaped(table.caption)}**", ""] if table.caption else []
    lines.append(line(escaped(column.full_name) for column in table.fields))
    lines.append(line(rules[align] for align in alignments(table)))
    for index, cells in enumerate(shown_rows(table)):
        if index in table.headings:
            lines.append(line([f"**{escaped(table.headings[index])}**", *[""] * (len(cells) - 1)]))
        lines.append(line(map(cell_text, cells)))
    if table.note:
        lines += ["", escaped(table.note)]
    return "\n".join(lines) + "\n"


def markdown_text(text: str) -> str:
    """Return text as one line of Markdown, with special characters escaped."""
    text = re.sub(r"([\\`*|\[\]<>])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)


def csv_table(table: Table) -> str:
    """Return the table as CSV, unscaled and in full precision. Spreads and marks get their own columns."""
    header: list[str] = ["group"] if table.headings else []
    extras: list[list[str]] = []
    for index, column in enumerate(table.fields):
        values = [row[index] for row in table.rows if isinstance(row[index], Value)]
        kinds = [k for k in ("std", "low", "high", "mark") if any(getattr(v, k) not in (None, "") for v in values)]
        extras.append(kinds)
        header += [column.full_name, *(f"{column.full_name} {kind}" for kind in kinds)]
    lines: list[list[object]] = [list(header)]
    heading = ""
    for index, row in enumerate(table.rows):
        heading = table.headings.get(index, heading)
        line: list[object] = [heading] if table.headings else []
        for cell, kinds in zip(row, extras, strict=True):
            if isinstance(cell, Value):
                line += [cell.value, *(getattr(cell, kind) for kind in kinds)]
            else:
                plain = (
                    " ".join([*(text for text, _ in cell.items), cell.more]).strip()
                    if isinstance(cell, Links)
                    else cell
                )
                line += [plain, *[None] * len(kinds)]
        lines.append(line)
    return "".join(map(csv_row, lines))


_LATEX = str.maketrans(
    {
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
)


def latex_table(table: Table) -> str:
    """Return the table as LaTeX for the booktabs package."""

    def escaped(text: str) -> str:
        return " ".join(text.split()).translate(_LATEX)

    def cell_text(cell: Shown) -> str:
        text = rf"\textbf{{{escaped(cell.text)}}}" if cell.best else escaped(cell.text)
        mark = rf"\textsuperscript{{{escaped(cell.mark)}}}" if cell.mark else ""
        return f"{text} {escaped(cell.spread)}".rstrip() + mark

    lines = [r"\begin{table}", r"\centering"]
    if table.caption:
        lines.append(rf"\caption{{{escaped(table.caption)}}}")
    lines += [rf"\begin{{tabular}}{{{''.join(align[0] for align in alignments(table))}}}", r"\toprule"]
    if groups := _column_groups(table):
        lines.append(" & ".join(rf"\multicolumn{{{n}}}{{c}}{{{escaped(title)}}}" for title, n in groups) + r" \\")
        start = 1
        for title, number in groups:
            if title:
                lines.append(rf"\cmidrule(lr){{{start}-{start + number - 1}}}")
            start += number
    lines += [" & ".join(escaped(column.name) for column in table.fields) + r" \\", r"\midrule"]
    for index, cells in enumerate(shown_rows(table)):
        if index in table.headings:
            lines += [r"\addlinespace"] if index else []
            lines.append(rf"\multicolumn{{{len(cells)}}}{{l}}{{\textit{{{escaped(table.headings[index])}}}}} \\")
        lines.append(" & ".join(map(cell_text, cells)) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.note:
        lines += ["", r"\smallskip", rf"{{\footnotesize {escaped(table.note)}}}"]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def alignments(table: Table) -> list[Align]:
    """Return the alignment of each column: right for numbers and left for text, unless the column sets it."""
    result: list[Align] = []
    for index, column in enumerate(table.fields):
        cells = [row[index] for row in table.rows if row[index] is not None]
        numeric = bool(cells) and not any(isinstance(cell, str | Links) for cell in cells)
        result.append(column.align or ("right" if numeric else "left"))
    return result


def _column_groups(table: Table) -> list[tuple[str, int]]:
    """Return the headings above the columns, each with the number of columns it spans."""
    if not any(column.group for column in table.fields):
        return []
    return [(title, len(list(members))) for title, members in groupby(table.fields, key=lambda column: column.group)]


def shown_rows(table: Table) -> list[list[Shown]]:
    """Return every cell as text, with the best ones flagged."""
    best = _best(table)
    return [
        [_shown(cell, column, (i, j) in best) for j, (cell, column) in enumerate(zip(row, table.fields, strict=True))]
        for i, row in enumerate(table.rows)
    ]


def _best(table: Table) -> set[tuple[int, int]]:
    """Return the positions of the best cells. Values that round to the same number tie; a single value is never best."""
    rivals: dict[tuple[int, int], list[tuple[float, int, int]]] = {}
    for j, column in enumerate(table.fields):
        if column.best is None:
            continue
        for i, row in enumerate(table.rows):
            cell = row[j]
            number = cell.value if isinstance(cell, Value) else cell
            if not isinstance(number, Real) or isinstance(number, bool) or number != number:
                continue
            rounded = round(float(number) * column.scale, column.digits) * (1 if column.best == "max" else -1)
            if table.best_along == "row":
                rivalry = (i, -1)
            elif table.best_along == "section":
                rivalry = (max((start for start in table.headings if start <= i), default=-1), j)
            else:
                rivalry = (-1, j)
            rivals.setdefault(rivalry, []).append((rounded, i, j))
    return {(i, j) for cells in rivals.values() if len(cells) > 1 for value, i, j in cells if value == max(cells)[0]}


def _shown(cell: Cell, column: Column, best: bool) -> Shown:
    if cell is None:
        return Shown(_MISSING)
    if isinstance(cell, str):
        return Shown(cell)
    if isinstance(cell, Links):
        return Shown(" ".join(text for text, _ in cell.items), cell.more, links=cell.items)
    if isinstance(cell, bool):
        return Shown("yes" if cell else "no")
    if isinstance(cell, Value):
        spread = ""
        if cell.std is not None:
            spread = f"± {_number(cell.std, column, column.digits)}"
        elif cell.low is not None and cell.high is not None:
            spread = f"[{_bound(cell.low, column)}, {_bound(cell.high, column)}]"
        return Shown(_number(cell.value, column, column.digits), spread, cell.mark, best)
    if isinstance(cell, Integral):
        return Shown(f"{int(cell):,}", best=best)
    return Shown(_number(float(cell), column, column.digits), best=best)


def _number(value: float, column: Column, digits: int) -> str:
    if value != value:  # not a number
        return _MISSING
    text = f"{value * column.scale:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "")


def _bound(value: float, column: Column) -> str:
    """Add digits while a nonzero bound would round to zero, so that the interval does not seem to include zero."""
    for digits in range(column.digits, column.digits + 4):
        text = _number(value, column, digits)
        if not value or text.strip("−0."):
            break
    return text
