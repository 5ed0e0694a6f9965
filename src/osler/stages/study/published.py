"""Published numbers next to a study's, in tables of their own; they never enter its means, tests or verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from osler.report.tables import Column, Row, Table, Value
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts.common import TableLine, deviation, lines, seeds_text
from osler.stages.study.results import ComparedPaper, Results
from osler.tasks.published import PublishedNumber, PublishedPaper, PublishedTable

SAME = "same protocol and data"
_STATISTICS = {"mean": "mean over seeds", "median": "median over seeds", "all": "mean over all configurations"}


def published_tables(results: Results) -> dict[str, Table]:
    """Return tables by file name: models next to their published rows, the paper's tables on the study's tasks, and its protocols."""
    published = results.published
    if published is None:
        return {}
    compared = _compared(results, published)
    own = [table for table in published.paper.compared if _shown_names(results, table, published.paper)]
    made = {"published": _comparison_table(results, published, compared)} if compared else {}
    hint = _hint(results, published)
    for number, table in enumerate(own, 1):
        made[f"published-{number}"] = _paper_table(results, published, table, hint if number == 1 else "")
    return made | ({"published-protocols": _protocol_table(results, published)} if own else {})


@dataclass(frozen=True)
class _Compared:
    """A line of the study next to a row of the paper, on one task or one group of tasks."""

    line: TableLine
    row: str
    quantity: str
    name: str
    number: PublishedNumber
    cells: tuple[StudyCell, ...]

    def ours(self) -> Value | None:
        """Return the study's own number, by the paper's statistic; over a group of tasks, the mean without a spread."""
        found = [_ours(cell, self.number.table) for cell in self.cells]
        values = [value for value in found if value is not None]
        if not values or len(values) < len(found):
            return None
        return values[0] if len(values) == 1 else Value(sum(value.value for value in values) / len(values))


def _ours(cell: StudyCell, table: PublishedTable) -> Value | None:
    summary = cell.summary
    if table.ours == "all":
        over_all = cell.over_all()
        return None if over_all is None else Value(over_all.mean, std=over_all.std if over_all.n > 1 else None)
    if table.ours == "median":
        low, high = (summary.low, summary.high) if summary.n > 1 else (None, None)
        return Value(summary.median, low=low, high=high)
    return Value(summary.mean, std=deviation(cell))


def _compared(results: Results, published: ComparedPaper) -> list[_Compared]:
    """Pair every model with the rows of the paper it names. Joint runs and refinements pair with rows trained on several tasks."""
    return [
        found
        for line in lines(results, ("single", "together", "refine"))
        for row in published.rows.get(line.row, ())
        if (row in published.paper.joint) == (line.mode != "single")
        for quantity in published.paper.quantities
        for found in _of_row(results, published.paper, line, row, quantity)
    ]


def _of_row(results: Results, paper: PublishedPaper, line: TableLine, row: str, quantity: str) -> Iterator[_Compared]:
    for name in paper.covered(results.columns):
        number = paper.number(row, name, quantity)
        cells = line.cells(results, paper.groups.get(name, (name,)))
        known = tuple(cell for cell in cells if cell is not None)
        if number is not None and len(known) == len(cells):
            yield _Compared(line, row, quantity, name, number, known)


def same_text(results: Results, published: ComparedPaper, cell: StudyCell, row: str = "") -> str:
    """Describe whether a cell has the protocol and data of a row of the paper: yes, nearly or no, and why."""
    task = published.paper.tasks[cell.key.column]
    protocol = cell.protocol.rpartition("/")[2].partition("@")[0]
    differences = [f"quoted from {published.paper.quoted[row]} there"] if row in published.paper.quoted else []
    if results.split != "test":
        differences.append(f"{results.split} split here")
    elif cell.key.column in published.data:
        differences.append(published.data[cell.key.column])
    if protocol not in task.protocols:
        differences.append(f"{' or '.join(task.protocols)} there, {protocol} here")
    differences += [task.data] if task.data else []
    if differences:
        return f"no: {'; '.join(differences)}"
    return f"nearly: {task.nearly}" if task.nearly else "yes"


def _same(results: Results, published: ComparedPaper, found: _Compared) -> str:
    texts = [same_text(results, published, cell, found.row) for cell in found.cells]
    if found.name in published.paper.tasks:
        return texts[0] + (f" ({found.number.remark})" if found.number.remark else "")
    for answer in ("no", "nearly"):
        number = sum(text.startswith(answer) for text in texts)
        if number:
            return f"{answer}: {number} of {len(texts)} tasks differ"
    return "yes"


def compact_table(results: Results) -> Table | None:
    """Return the table for a terminal: models next to their published rows, else the paper's first table on the study's tasks."""
    tables = published_tables(results)
    if results.published is None or "published" not in tables:
        return next(iter(tables.values()), None)
    return _comparison_table(results, results.published, _compared(results, results.published), compact=True)


def _comparison_table(
    results: Results, published: ComparedPaper, compared: Sequence[_Compared], *, compact: bool = False
) -> Table:
    """Build a table with one section per model. `compact` drops spreads and names the published row in the heading, not in columns."""
    score = _score_column(results, published.paper)
    heads: list[Column | str] = ["task", Column("published row", align="left"), Column("table", align="right")]
    heads += [score("published", quoted=True), score("ours"), score("difference"), Column(SAME, align="left")]
    rows: list[Row] = []
    headings: dict[int, str] = {}
    several = len(published.paper.quantities) > 1
    for found in compared:
        heading = found.line.label
        if compact and found.row.casefold() != heading.casefold():
            heading += f" | {found.row}"
        heading += f": {found.quantity}" if several else ""
        if heading not in headings.values():
            headings[len(rows)] = heading
        number, ours = found.number, found.ours()
        theirs = Value(number.value, std=number.spread)
        gap = None if ours is None else ours.value - number.value
        if compact and ours is not None:
            ours = Value(ours.value)
        same = _same(results, published, found)
        rows.append([found.name, found.row, number.table.place, theirs, ours, gap, same])
    statistics = "; ".join(dict.fromkeys(found.number.table.statistic for found in compared))
    own = " and ".join(dict.fromkeys(_STATISTICS[found.number.table.ours or "mean"] for found in compared))
    seeds = seeds_text(cell for found in compared for cell in found.cells)
    text = (
        f"Published: {statistics}. Ours: {own} ({seeds}){_factor(results)}. "
        "Difference: ours minus published. The pretrained model and the settings of fine-tuning may differ as well. "
        "Published numbers are in no mean and no test of the study."
    )
    kept = [index for index in range(len(heads)) if not compact or index not in (1, 2)]
    return Table(
        [heads[index] for index in kept],
        [[row[index] for index in kept] for row in rows],
        f"Published by {published.paper.title}, and ours",
        text,
        headings,
        style="published",
    )


def _shown_names(results: Results, table: PublishedTable, paper: PublishedPaper) -> list[str]:
    return [
        name
        for name in paper.covered(results.columns)
        if any(value is not None for value in table.values.get(name, ()))
    ]


def _hint(results: Results, published: ComparedPaper) -> str:
    """Explain how to compare a model that names no row."""
    unnamed = [model for model in results.rows if model not in published.rows]
    row = published.paper.rows[0]
    return f' To compare a model with a row: --set "models.{unnamed[0]}.published={row}".' if unnamed else ""


def _paper_table(results: Results, published: ComparedPaper, table: PublishedTable, hint: str) -> Table:
    paper = published.paper
    heads: list[Column | str] = ["task", Column("metric", align="left")]
    heads += [_score_column(results, paper)(row, quoted=True) for row in table.rows]
    rows: list[Row] = []
    for task in _shown_names(results, table, paper):
        metric = paper.tasks[task].metric if task in paper.tasks else f"{len(paper.groups[task])} tasks"
        spread = table.spread.get(task, (None,) * len(table.rows))
        numbers: Row = [
            None if (number := paper.fraction(value)) is None else Value(number, std=paper.fraction(std))
            for value, std in zip(table.values[task], spread, strict=True)
        ]
        rows.append([task, metric, *numbers])
    name, where = (f"table {table.table}", f"page {table.page}") if table.page else (table.table, table.source)
    caption = f"{paper.title}, {name}: {table.quantity}"
    text = (
        f"As published ({where}): {table.statistic}{_factor(results)}. None of these numbers was measured here.{hint}"
    )
    return Table(heads, rows, caption, text, style="published")


def _protocol_table(results: Results, published: ComparedPaper) -> Table:
    heads: list[Column | str] = ["task", "in the paper", "trained and scored", "same protocol here", SAME]
    rows: list[Row] = [
        [
            column,
            f"{task.name} ({task.metric})",
            task.scored,
            ", ".join(task.protocols),
            same_text(results, published, results.of_column(column)),
        ]
        for column, task in published.paper.tasks.items()
        if column in results.columns
    ]
    text = "By the paper's text, and by its published code where that differs. " + " ".join(published.paper.notes)
    return Table(heads, rows, f"How {published.paper.title} trained and scored", text, style="published")


def _score_column(results: Results, paper: PublishedPaper) -> partial[Column]:
    """Return a column of scores with the paper's decimals, times 100 except in peng2020's layout, whose tables go from 0 to 1."""
    digits = paper.digits if paper.scale == 1 else paper.digits + 2
    if results.layout == "peng2020":
        return partial(Column, digits=digits)
    return partial(Column, digits=digits - 2, scale=100)


def _factor(results: Results) -> str:
    return "" if results.layout == "peng2020" else ", times 100"
