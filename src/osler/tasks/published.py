"""Published results, cell by cell, from published/*.toml. A study shows them beside its own and never mixes the two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from osler.core.config import Recipe, read_toml, shipped_folder, validate
from osler.core.errors import UnknownNameError, alternatives, nearest

Numbers = dict[str, tuple[float | None, ...]]
"""Numbers of all rows, by task or group."""


class PublishedTask(Recipe):
    """A task as the paper defines it, and how that differs from osler's."""

    name: str
    """What the paper calls it."""
    metric: str
    """The metric as the paper names it."""
    scored: str
    """How the paper trained and scored it, according to its text and code."""
    protocols: tuple[str, ...] = Field(min_length=1)
    """osler's protocols that train and score this way; where the paper's text and code differ, they follow the code."""
    data: str = ""
    """How its data differs from osler's task, in a few words; empty if it does not."""
    nearly: str = ""
    """A difference that leaves documents, splits and gold the same or nearly so."""


class PublishedTable(Recipe):
    """A table of the paper, or the part of it that shows one quantity."""

    table: str
    """Number of the table, or a name if it has none."""
    page: int | None = None
    """Page, counted from the first page of the paper."""
    source: str = ""
    """The file, if the source has no pages."""
    quantity: str
    """What the numbers measure. A row's numbers may be spread over several tables of the same quantity."""
    statistic: str
    """What the numbers summarise: seeds, configurations, or a single run."""
    ours: Literal["mean", "median", "all"] | None = None
    """Statistic of a study's cell to compare it with: `mean` or `median` of its seeds, or `all` for the mean of all
    configurations. None if the table is not compared."""
    rows: tuple[str, ...]
    """Models, in the paper's order."""
    values: Numbers
    """Numbers of all rows as printed, by osler's task or by group; nan where the paper has none."""
    spread: Numbers = Field(default_factory=dict)
    """Standard deviations of the numbers, as printed."""
    remarks: dict[str, str] = Field(default_factory=dict)
    """Remarks on single numbers, by ROW/TASK."""

    @field_validator("values", "spread")
    @classmethod
    def _empty_cells(cls, numbers: Numbers) -> Numbers:
        """TOML has no null, so an empty cell is written as nan."""
        return {
            name: tuple(None if number is None or math.isnan(number) else number for number in row)
            for name, row in numbers.items()
        }

    @property
    def place(self) -> str:
        """Where to find it: `2, p. 5`."""
        return f"{self.table}, p. {self.page}" if self.page else self.table


class PublishedNumber(NamedTuple):
    """One cell of a paper's table, scaled to 0 to 1."""

    value: float
    spread: float | None
    table: PublishedTable
    remark: str


class PublishedPaper(Recipe):
    """All result tables of a paper."""

    title: str
    """Authors and year."""
    scale: Literal[1, 100]
    """Scale of the printed scores: 0 to 1, or 0 to 100."""
    digits: int
    """Decimals of a printed score."""
    notes: tuple[str, ...] = ()
    """What a reader should know, one sentence each: where text and code differ, and misprints."""
    tasks: dict[str, PublishedTask]
    """Tasks by osler's name."""
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Groups of tasks whose mean the paper prints, by name."""
    joint: tuple[str, ...] = ()
    """Rows of a single model trained on several tasks."""
    quoted: dict[str, str] = Field(default_factory=dict)
    """Rows that the paper quotes from elsewhere, with their source."""
    tables: tuple[PublishedTable, ...]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for table in self.tables:
            for name, numbers in [*table.values.items(), *table.spread.items()]:
                if name not in self.tasks and name not in self.groups:
                    raise ValueError(f"table {table.table}: {name!r} is neither a task nor a group")
                if len(numbers) != len(table.rows):
                    raise ValueError(
                        f"table {table.table}: {name!r} has {len(numbers)} numbers for {len(table.rows)} rows"
                    )
            known = {f"{row}/{name}" for row in table.rows for name in table.values}
            for place in table.remarks.keys() - known:
                raise ValueError(f"table {table.table}: a remark on {place!r}, which it does not have")
        for name in (member for members in self.groups.values() for member in members):
            if name not in self.tasks:
                raise ValueError(f"groups: {name!r} is not a task")
        for row in {*self.joint, *self.quoted} - set(self.rows):
            raise ValueError(f"joint or quoted: {row!r} is not a row")
        return self

    @property
    def rows(self) -> list[str]:
        """Every row that can be compared with a model of a study."""
        return list(dict.fromkeys(row for table in self.compared for row in table.rows))

    @property
    def compared(self) -> list[PublishedTable]:
        """The tables that a study's numbers are compared with."""
        return [table for table in self.tables if table.ours]

    @property
    def quantities(self) -> list[str]:
        return list(dict.fromkeys(table.quantity for table in self.compared))

    def fraction(self, printed: float | None) -> float | None:
        """Scale a printed score to 0 to 1."""
        return None if printed is None else round(printed / self.scale, self.digits + 2)

    def number(self, row: str, name: str, quantity: str) -> PublishedNumber | None:
        """A row's number on a task or over a group, from the first table that prints it."""
        for table in self.compared:
            if table.quantity == quantity and row in table.rows and name in table.values:
                place = table.rows.index(row)
                value = self.fraction(table.values[name][place])
                spread = self.fraction(table.spread[name][place] if name in table.spread else None)
                if value is not None:
                    return PublishedNumber(value, spread, table, table.remarks.get(f"{row}/{name}", ""))
        return None

    def covered(self, columns: Sequence[str]) -> Iterator[str]:
        """Yield the tasks among these columns, in the paper's order, then the groups whose tasks are all among them."""
        yield from (name for name in self.tasks if name in columns)
        yield from (name for name, members in self.groups.items() if set(members) <= set(columns))


def published_papers() -> list[str]:
    """Names of the papers whose numbers are shipped."""
    return sorted(path.stem for path in shipped_folder("published").glob("*.toml"))


def load_published(name: str) -> PublishedPaper:
    """The numbers of a paper by its short name, such as lewis2020."""
    known = published_papers()
    if name not in known:
        raise UnknownNameError(f"published: no numbers of {name!r}", fix=alternatives(name, known))
    path = shipped_folder("published") / f"{name}.toml"
    return validate(PublishedPaper, read_toml(path), where=str(path))


def rows_of_models(paper: PublishedPaper, models: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The published rows of each model: those it names, or the row with its name."""
    named = {row.casefold(): row for row in paper.rows}
    found: dict[str, tuple[str, ...]] = {}
    for model, rows in models.items():
        for row in rows:
            if row not in paper.rows:
                close = nearest(row, paper.rows)
                raise UnknownNameError(
                    f"models.{model}.published: {paper.title} has no row {row!r}",
                    fix=f"Did you mean {close!r}?" if close else f"Rows: {'; '.join(paper.rows)}",
                )
        chosen = tuple(rows) or ((named[model.casefold()],) if model.casefold() in named else ())
        if chosen:
            found[model] = chosen
    return found
