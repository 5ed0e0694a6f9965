from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from osler.report import terminal
from osler.report.colours import label_colours
from osler.report.tables import Column, Table, Value
from osler.report.terminal import printable, table_rich
from osler.text.document import Document, Relation, Span


def note_rich(document: Document) -> Text:
    return terminal.note_rich(document, label_colours(span.label for span in document.spans))


def printed(thing: object) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(thing)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_mentions_are_coloured_and_named() -> None:
    spans = (Span.at(0, 8, "DRUG", id="T1"), Span(((14, 17), (18, 21)), "PROBLEM", id="T2"))
    document = Document("d", "warfarin with asp rin", spans, (Relation("TrAP", "T1", "T2"),))
    text = note_rich(document)
    assert text.plain.startswith("warfarin[DRUG] with asp[PROBLEM:1/2] rin[PROBLEM:2/2]")
    assert "warfarin ─ TrAP → asp rin" in text.plain
    styled = {text.plain[span.start : span.end] for span in text.spans}
    assert {"warfarin", "[DRUG]"} <= styled


def test_escape_sequences_of_a_document_do_not_reach_the_terminal() -> None:
    document = Document("d", "a\x1b[31mred\x07\x9b2J\r\n\tb", (Span.at(0, 5, "\x1b[0m", id="T1"),))
    out = printed(note_rich(document))
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in out)
    assert "[bold]" in printed(note_rich(Document("d", "[bold]not markup[/bold]")))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40), st.lists(st.tuples(st.integers(0, 39), st.integers(1, 10)), max_size=5))
def test_the_text_stays_whole(text: str, places: list[tuple[int, int]]) -> None:
    spans = tuple(Span.at(a, min(a + n, len(text)), "\u2603") for a, n in places if a < len(text))
    plain = note_rich(Document("d", text, spans)).plain
    assert plain.replace("[\u2603]", "") == Text(printable(text)).plain.replace("[\u2603]", "")
    assert len(printable(text)) == len(text)


def test_names_fold_and_are_never_cut() -> None:
    name = "clinic-entities-en/strict@v1-with-a-very-long-name-that-does-not-fit"
    columns = [Column(f"a-column-with-a-long-name-{i}") for i in range(6)]
    out = printed(table_rich(Table(["task", *columns], [[name, *[0.5] * 6]])))
    assert "…" not in out
    first = "".join(line[: line.index("0.5")] if "0.5" in line else line for line in out.splitlines()[4:])
    assert name in first.replace(" ", "")


def test_tables() -> None:
    table = Table(
        ["Task", Column("F1", 1, 100, best="max")],
        [["[red]ner", Value(0.8, std=0.01)], ["b", 0.7]],
        "Caption",
        headings={1: "More"},
    )
    out = printed(table_rich(table))
    for part in ("[red]ner", "80.0 ± 1.0", "70.0", "Caption", "More"):
        assert part in out
