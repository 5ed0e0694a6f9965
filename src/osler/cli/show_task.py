"""`osler tasks show`: a few examples of a task, in the terminal or on a page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osler.core.errors import InputError, OutputError, UnknownNameError, nearest

if TYPE_CHECKING:
    from rich.console import Console

    from osler.report.colours import Colour
    from osler.tasks.card import TaskCard
    from osler.text.document import Record, TextPair

PAGE_SUFFIXES = (".html", ".htm")


def show(
    task: Annotated[str, typer.Argument(help="A prepared task folder, a task name or the path of a card.")],
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many examples.")] = 5,
    split: Annotated[str, typer.Option("--split", help="Of which split.")] = "train",
    label: Annotated[str | None, typer.Option("--label", help="Only examples that have this label.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="The official files, where the task is not prepared yet.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with everything inside instead (an .html file).")
    ] = None,
) -> None:
    """Show examples of a task: coloured mentions, relations, pairs side by side."""
    if html is not None and html.suffix.lower() not in PAGE_SUFFIXES:
        raise OutputError("a page is an .html file", where=html, fix="Give --html a name that ends in .html")
    card, records = _open(task, split, source)
    found = list(islice(_with_label(card, records, label), n))
    if not found:
        raise InputError(
            f"no example of split {split!r} has the label {label!r}", where=task, fix="Try another --split or --label"
        )
    if html is None:
        _print(card, split, found)
        return
    _write_page(card, split, label, found, html)
    typer.echo(os.path.relpath(html) if html.resolve().is_relative_to(Path.cwd()) else str(html))


def _open(task: str, split: str, source: Path | None) -> tuple[TaskCard, Iterator[Record]]:
    """The card and the records of a split: of a prepared folder, or straight from where the card reads them."""
    if Path(task).is_dir():
        from osler.artifacts.task_folder import TaskFolder, read_records

        data = TaskFolder.open(Path(task))
        if split not in data.splits:
            raise _no_split(task, split, data.splits)
        return data.card, read_records(data.artifact.path / f"{split}.parquet")
    from osler.tasks.catalogue import load_card

    card = load_card(task)
    if card.folds:
        card = card.at_fold(1)  # the others hold the same records, cut otherwise
    known = list(card.source.splits) or ["train", "dev", "test"]
    if split not in known:
        raise _no_split(task, split, known)
    return card, _straight(card, split, source)


def _straight(card: TaskCard, split: str, source: Path | None) -> Iterator[Record]:
    """The records of a split as `osler tasks prepare` would write them."""
    from osler.tasks.records import Narrow
    from osler.tasks.sources import open_source

    narrow = Narrow(card)
    with open_source(card, source) as opened:
        for name, record in opened.records():
            if name == split:
                yield narrow(record)


def _no_split(task: str, split: str, known: list[str]) -> UnknownNameError:
    return UnknownNameError(f"no split {split!r}", where=task, fix=f"Use one of: {', '.join(known)}")


def _with_label(card: TaskCard, records: Iterator[Record], label: str | None) -> Iterator[Record]:
    if label is None:
        return records
    known = dict.fromkeys((*card.labels, *card.entity_labels))
    if label not in known and not card.discover_labels:
        close = nearest(label, known)
        hint = f"Did you mean {close!r}? " if close else ""
        raise UnknownNameError(
            f"task {card.name} has no label {label!r}", fix=f"{hint}Known: {', '.join(known) or 'none'}"
        )
    return (record for record in records if label in _labels(record))


def _labels(record: Record) -> set[str]:
    from osler.text.document import Document

    found = set(record.labels)
    if isinstance(record, Document):
        found |= {span.label for span in record.spans} | {relation.label for relation in record.relations}
    return found


def _colours(records: list[Record]) -> Mapping[str, Colour]:
    """One colour a label for all that is shown."""
    from osler.report.colours import label_colours
    from osler.text.document import Document

    return label_colours(span.label for record in records if isinstance(record, Document) for span in record.spans)


def _answer(record: Record) -> str:
    """The label or value of a whole record, for a heading."""
    parts = list(record.labels)
    if record.value is not None:
        parts.append(f"value {record.value:g}")
    return ", ".join(parts)


def _print(card: TaskCard, split: str, records: list[Record]) -> None:
    from rich.console import Console
    from rich.text import Text

    from osler.report.terminal import note_rich, printable
    from osler.text.document import TextPair

    console = Console(highlight=False)
    console.print(Text(card.name, "bold"), Text(f"{card.kind} · {card.language} · {card.title}", "dim"))
    colours = _colours(records)
    for number, record in enumerate(records, 1):
        console.print()
        title = Text(f"{split} {number}", "bold").append(f"  {printable(record.id)}", "not bold dim")
        if answer := _answer(record):
            title.append("  ").append(f" {printable(answer)} ", "reverse")
        console.rule(title, align="left", style="dim")
        if isinstance(record, TextPair):
            _print_pair(console, record)
        else:
            console.print(note_rich(record, colours))


def _print_pair(console: Console, pair: TextPair) -> None:
    from rich.table import Table
    from rich.text import Text

    from osler.report.terminal import printable

    table = Table("first", "second", box=None, header_style="dim", expand=True, pad_edge=False, padding=(0, 3, 0, 0))
    for column in table.columns:
        column.ratio = 1
    table.add_row(Text(printable(pair.first)), Text(printable(pair.second)))
    console.print(table)


def _write_page(card: TaskCard, split: str, label: str | None, records: list[Record], path: Path) -> None:
    from osler.report.page import Page
    from osler.report.tables import Column
    from osler.text.document import Document, TextPair

    page = Page(card.name, card.title, language=card.language)
    shown = f"{len(records)} of split {split}" + (f" with the label {label}" if label else "")
    facts = [("Kind", card.kind.value), ("Language", card.language), ("Shown", shown)]
    if card.labels:
        facts.append(("Labels", ", ".join(card.labels)))
    page.definitions([*facts, ("Licence", card.licence)])
    pairs = [record for record in records if isinstance(record, TextPair)]
    if pairs:
        valued = all(pair.value is not None for pair in pairs)
        answers = [pair.value if valued else ", ".join(pair.labels) or None for pair in pairs]
        rows = [
            (number, pair.first, pair.second, answer)
            for number, (pair, answer) in enumerate(zip(pairs, answers, strict=True), 1)
        ]
        last = Column("value", digits=2) if valued else Column("label")
        page.table([Column(""), Column("first"), Column("second"), last], rows, caption="Pairs, in their order")
    for number, record in enumerate(records, 1):
        if isinstance(record, Document):
            page.note(record, f"{split} {number} · {record.id}")
    page.write(path)
