"""`osler tasks show`: show examples of a task in the terminal or on an HTML page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osler.cli.common import writing_to
from osler.core.errors import InputError, OutputError, UnknownNameError, alternatives
from osler.text.document import Document, Record, TextPair, documents_in

if TYPE_CHECKING:
    from osler.tasks.card import TaskCard


def show(
    task: Annotated[str, typer.Argument(help="A prepared task folder, a task name, or the path of a card.")],
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Number of examples.")] = 5,
    split: Annotated[str, typer.Option("--split", help="The split to show.")] = "train",
    label: Annotated[str | None, typer.Option("--label", help="Only examples with this label.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="The official files, if the task is not prepared.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a self-contained HTML page instead.")] = None,
) -> None:
    """Show examples of a task: coloured mentions, relations, and pairs side by side."""
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise OutputError("a page must be an .html file", where=html, fix="Give --html a name that ends in .html")
    card, records = _open(task, split, source)
    found = list(islice(_with_label(card, records, label), n))
    if not found:
        problem = f"no example of split {split!r} has the label {label!r}"
        raise InputError(problem, where=task, fix="Try another --split or --label")
    if html is None:
        _print(card, split, found)
        return
    _write_page(card, split, label, found, html)
    typer.echo(os.path.relpath(html) if html.resolve().is_relative_to(Path.cwd()) else str(html))


def _open(task: str, split: str, source: Path | None) -> tuple[TaskCard, Iterator[Record]]:
    """Return the card and the records of a split, from a prepared folder or directly from the task's source."""
    if Path(task).is_dir():
        from osler.artifacts.task_folder import TaskFolder

        folder = TaskFolder.open(Path(task))
        _check_split(task, split, folder.splits)
        return folder.card, folder.stream(split)
    from osler.tasks.catalogue import load_card

    card = load_card(task)
    if card.folds:
        card = card.at_fold(1)  # the other folds divide the same records differently
    _check_split(task, split, list(card.source.splits) or ["train", "dev", "test"])
    return card, _unprepared(card, split, source)


def _check_split(task: str, split: str, known: list[str]) -> None:
    if split not in known:
        raise UnknownNameError(f"no split {split!r}", where=task, fix=f"Use one of: {', '.join(known)}")


def _unprepared(card: TaskCard, split: str, source: Path | None) -> Iterator[Record]:
    """Yield the records of a split as `osler tasks prepare` would write them."""
    from osler.tasks.records import RecordReducer
    from osler.tasks.sources import open_source

    reducer = RecordReducer(card)
    with open_source(card, source) as opened:
        for name, record in opened.records():
            if name == split:
                yield reducer(record)


def _with_label(card: TaskCard, records: Iterator[Record], label: str | None) -> Iterator[Record]:
    if label is None:
        return records
    known = dict.fromkeys((*card.labels, *card.entity_labels))
    if label not in known and not card.discover_labels:
        raise UnknownNameError(f"task {card.name} has no label {label!r}", fix=alternatives(label, known, "Labels"))
    return (record for record in records if label in _labels(record))


def _labels(record: Record) -> set[str]:
    found = set(record.labels)
    if isinstance(record, Document):
        found |= {span.label for span in record.spans} | {relation.label for relation in record.relations}
    return found


def _print(card: TaskCard, split: str, records: list[Record]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from osler.report.colours import label_colours
    from osler.report.terminal import note_rich, printable

    console = Console(highlight=False)
    console.print(Text(card.name, "bold"), Text(f"{card.kind} · {card.language} · {card.title}", "dim"))
    documents = documents_in(records)
    colours = label_colours(span.label for document in documents for span in document.spans)
    for number, record in enumerate(records, 1):
        console.print()
        title = Text(f"{split} {number}", "bold").append(f"  {printable(record.id)}", "not bold dim")
        answer = [*record.labels, *([] if record.value is None else [f"value {record.value:g}"])]
        if answer:
            title.append("  ").append(f" {printable(', '.join(answer))} ", "reverse")
        console.rule(title, align="left", style="dim")
        if isinstance(record, Document):
            console.print(note_rich(record, colours))
            continue
        table = Table(
            "first", "second", box=None, header_style="dim", expand=True, pad_edge=False, padding=(0, 3, 0, 0)
        )
        for column in table.columns:
            column.ratio = 1
        table.add_row(Text(printable(record.first)), Text(printable(record.second)))
        console.print(table)


def _write_page(card: TaskCard, split: str, label: str | None, records: list[Record], path: Path) -> None:
    from osler.report.page import Page
    from osler.report.tables import Column, Table

    page = Page(card.name, card.title, language=card.language)
    shown = f"{len(records)} of split {split}" + (f" with the label {label}" if label else "")
    facts = [("Kind", card.kind.value), ("Language", card.language), ("Shown", shown)]
    if card.labels:
        facts.append(("Labels", ", ".join(card.labels)))
    page.definitions([*facts, ("Licence", card.licence)])
    pairs = [record for record in records if isinstance(record, TextPair)]
    if pairs:
        valued = all(pair.value is not None for pair in pairs)
        rows = [
            (number, pair.first, pair.second, pair.value if valued else ", ".join(pair.labels) or None)
            for number, pair in enumerate(pairs, 1)
        ]
        last = Column("value", digits=2) if valued else Column("label")
        page.table(Table(["", "first", "second", last], rows, "Pairs"))
    for number, record in enumerate(records, 1):
        if isinstance(record, Document):
            page.note(record, f"{split} {number} · {record.id}")
    with writing_to(path, "--html"):
        page.write(path)
