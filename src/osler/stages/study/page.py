"""Write a study's results.json, its tables as Markdown, CSV and LaTeX, and its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from osler.core.artifact import LOGS
from osler.core.files import write_atomic, write_json
from osler.report.diagrams import critical_difference
from osler.report.page import Page
from osler.report.plots import Bar, CurvePoint, bars_with_intervals, curves, learning_curves
from osler.report.tables import Table, csv_table, latex_table, markdown_table, markdown_text
from osler.stages.study.cells import StudyCell
from osler.stages.study.layouts import carrino2022, lewis2020, mulyar2020, peng2020, plain, wada2020
from osler.stages.study.layouts.common import lines, missing_text
from osler.stages.study.pairwise import effect_tables, pairwise_dict, pairwise_page
from osler.stages.study.published import compact_table, published_tables
from osler.stages.study.results import Results, read_results
from osler.stages.study.tables import curved_columns, extra_tables, fractions, timing_table
from osler.stages.study.verdict import verdict

RESULTS = "results.json"
LAYOUTS: dict[str, Callable[[Results], dict[str, Table]]] = {
    "plain": plain.tables,
    "carrino2022": carrino2022.tables,
    "lewis2020": lewis2020.tables,
    "mulyar2020": mulyar2020.tables,
    "peng2020": peng2020.tables,
    "wada2020": wada2020.tables,
}


def write_report(results: Results, folder: Path) -> None:
    """Write results.json, the tables and the pages."""
    write_json(folder / RESULTS, results.to_dict())
    main, extra = LAYOUTS[results.layout](results), extra_tables(results)
    published = published_tables(results)
    for name, table in [*main.items(), *extra.items(), *published.items()]:
        parent = folder if name == "table" else folder / "tables"
        text = markdown_table(table)
        if name == "table":
            before = "".join(f"{markdown_text(said)}\n\n" for said in verdict(results))
            text = before + text + "".join(f"\n{markdown_table(first)}" for first in list(published.values())[:1])
        write_atomic(parent / f"{name}.md", text)
        write_atomic(parent / f"{name}.csv", csv_table(table))
        write_atomic(parent / f"{name}.tex", latex_table(table))
    if results.has("pair"):
        write_json(folder / "pairwise.json", pairwise_dict(results))
        pairwise_page(results).write(folder / "pairwise.html")
    _study_page(results, main, extra, published).write(folder / "report.html")
    if results.timings:
        # Times differ between runs, so they go to logs/, which is not part of an artifact's hash.
        table = timing_table(results.timings)
        write_json(folder / LOGS / "cost.json", [asdict(time) for time in results.timings])
        write_atomic(folder / LOGS / "cost.md", markdown_table(table))
        page = Page(f"{results.title}: time", "Seconds and devices of the runs")
        page.table(table).write(folder / LOGS / "cost.html")


@dataclass(frozen=True)
class StudySummary:
    """Verdict and main tables of a finished study."""

    verdict: list[str]
    tables: list[Table]
    compact: Table
    """The main table for a terminal, tall rather than wide."""
    published: Table | None = None
    """Published numbers, in a table of their own."""


def study_summary(folder: Path) -> StudySummary:
    """Read the verdict and the main tables of a finished study."""
    results = read_results(folder / RESULTS)
    tables = list(LAYOUTS[results.layout](results).values())
    down = results.layout == "plain" and len(results.columns) > len(lines(results))
    compact = plain.by_task(results) if down else tables[0]
    return StudySummary(verdict(results), tables, compact, compact_table(results))


def study_markdown(results: Results, about: str = "") -> str:
    """Render a study as one Markdown page: `about`, the verdict and every table."""
    parts = [f"# {markdown_text(results.title)}", about.strip(), *map(markdown_text, verdict(results))]
    sections = {
        "Scores": LAYOUTS[results.layout](results),
        "Pairs of tasks": effect_tables(results),
        "Published numbers": published_tables(results),
        "More tables": extra_tables(results),
    }
    for title, tables in sections.items():
        if tables:
            parts += [f"## {title}", *(markdown_table(table).strip() for table in tables.values())]
    return "\n\n".join(part for part in parts if part) + "\n"


def _study_page(
    results: Results, main: Mapping[str, Table], extra: Mapping[str, Table], published: Mapping[str, Table]
) -> Page:
    page = Page(results.title, "Models compared under named protocols")
    headline, *more = verdict(results)
    page.text(f"**{headline}**\n\n" + "\n\n".join(more))
    page.numbers(
        [
            ("models", str(len(results.rows))),
            ("tasks", str(len(results.columns))),
            ("scores", str(sum(len(cell.scores) for cell in results.cells.values())), "one per seed and cell"),
        ]
    )
    if results.missing:
        page.text(f"**Not complete**: {missing_text(results)}")
    page.heading("Scores")
    for table in main.values():
        page.table(table)
    if results.published is not None:
        _add_published(page, results.published.paper.title, published)
    page.heading("Intervals")
    for column in results.columns:
        _add_intervals(page, results, column)
    page.table(extra["intervals"])
    if "seen" in extra:
        page.heading("Seen and unseen mentions")
        page.table(extra["seen"])
    if "across" in extra:
        page.heading("Across corpora")
        page.table(extra["across"])
    if "differences" in extra:
        page.heading(f"Against {results.baseline}")
        page.table(extra["differences"])
    if results.ranks is not None and "ranks" in extra:
        page.heading("Ranks over tasks")
        ranks = dict(zip(results.ranks.names, results.ranks.ranks, strict=True))
        plot = critical_difference(ranks, results.ranks.cliques, difference=results.ranks.difference)
        page.figure(plot, "Average ranks, the best on the left. A bar joins models that do not differ significantly.")
        page.table(extra["ranks"])
    if "accounting" in extra:
        page.heading("Joint training")
        page.table(extra["accounting"])
    if results.has("pair"):
        page.heading("Pairs of tasks")
        page.text("Matrix, graph and suggestions: `pairwise.html` in the same folder.")
    if curved_columns(results):
        page.heading("Less data")
        for column in curved_columns(results):
            caption = f"{column} by share of the training data, with 95 % intervals."
            page.figure(_learning_plot(results, column), caption)
            page.table(extra[f"learning-{column}"])
    page.heading("Choices and training")
    if "choices" in extra:
        page.table(extra["choices"])
    for column in results.columns:
        _add_dev_curves(page, results, column)
    page.heading("Cost")
    page.table(extra["cost"])
    return page


def _add_published(page: Page, title: str, published: Mapping[str, Table]) -> None:
    page.heading("Published numbers")
    if published:
        page.text(f"From {title}, not measured here. They are in no mean, no test and no verdict of this study.")
    else:
        page.text(f"{title} has no number on any task of this study.")
    for table in published.values():
        page.table(table)


def _bounds(cell: StudyCell) -> tuple[float | None, float | None]:
    return (100 * cell.interval.low, 100 * cell.interval.high) if cell.interval else (None, None)


def _add_intervals(page: Page, results: Results, column: str) -> None:
    bars = []
    for line in lines(results):
        cell = line.cell(results, column)
        if cell is not None:
            scores = tuple(100 * score for score in cell.scores)
            bars.append(Bar(line.label, 100 * cell.summary.mean, *_bounds(cell), scores))
    if bars:  # in an incomplete study, a column may have only pairs or learning curves
        plot = bars_with_intervals(bars, xlabel=f"{results.metric(column)} x 100", title=column, from_zero=False)
        caption = "mean, 95 % interval over documents and seeds, and every seed as a ring."
        page.figure(plot, f"{results.protocol(column)}: {caption}")


def _learning_plot(results: Results, column: str) -> str:
    series = {}
    for row in results.rows:
        cells = [results.cell(row, column, fraction=share) for share in fractions(results, column)]
        points = [CurvePoint(c.key.fraction, 100 * c.summary.mean, *_bounds(c)) for c in cells if c is not None]
        if points:
            series[row] = points
    metric = results.metric(column)
    return learning_curves(series, xlabel="share of the training data", ylabel=f"{metric} x 100", title=column)


def _add_dev_curves(page: Page, results: Results, column: str) -> None:
    series = {}
    for line in lines(results):
        cell = line.cell(results, column)
        if cell is not None and cell.curve:
            series[line.label] = [(step, 100 * value) for step, value in cell.curve]
    if series:
        plot = curves(series, xlabel="step", ylabel=f"dev {results.metric(column)} x 100", title=column)
        page.figure(plot, f"Dev score of {column} by step, mean over the chosen runs.")
