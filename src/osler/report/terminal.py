"""Notes and tables for a terminal, drawn by rich."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from osler.report.colours import Colour, dark_text_on
from osler.report.tables import Table, alignments, shown_rows
from osler.text.document import Document

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

# Control characters of a document must not reach the terminal: escape sequences can do more than print.
_CONTROLS = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)}
_CONTROLS |= {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}


def printable(text: str) -> str:
    """Replace control characters by symbols, one for one, so that offsets stay valid."""
    return text.translate(_CONTROLS)


def note_rich(document: Document, colours: Mapping[str, Colour]) -> Text:
    """Return the text with coloured mentions, each followed by its label in brackets, and the relations below."""
    from rich.style import Style
    from rich.text import Text

    text = printable(document.text)
    bodies = {label: Style(color=shade.hex, bold=True, underline=True) for label, shade in colours.items()}
    chips = {
        label: Style(color="#000000" if dark_text_on(shade.rgb) else "#ffffff", bgcolor=shade.hex)
        for label, shade in colours.items()
    }
    ends: dict[int, list[tuple[str, str]]] = {}
    for span in document.spans:
        for part, (_, end) in enumerate(span.fragments, 1):
            chip = span.label if len(span.fragments) == 1 else f"{span.label}:{part}/{len(span.fragments)}"
            ends.setdefault(end, []).append((span.label, chip))
    # Longest first: the last mention that covers a character sets its colour, so that nested mentions stay visible.
    fragments = sorted(
        ((start, end, span.label) for span in document.spans for start, end in span.fragments),
        key=lambda fragment: fragment[0] - fragment[1],
    )
    cuts = sorted({0, len(text), *ends, *(start for start, _, _ in fragments)})
    result = Text()
    for here, after in zip(cuts, [*cuts[1:], len(text)], strict=True):
        for label, chip in ends.get(here, ()):
            result.append(f"[{printable(chip)}]", chips[label])
        covering = [label for start, end, label in fragments if start <= here < end]
        result.append(text[here:after], bodies[covering[-1]] if covering else None)
    if document.relations:
        result.append("\n")
        spans = {span.id: span for span in document.spans}
        for relation in document.relations:
            arrow = f" ─ {printable(relation.label)} → "
            for before, span in (("\n  ", spans[relation.head]), (arrow, spans[relation.tail])):
                result.append(before)
                result.append(printable(" ".join(span.text_in(document.text).split())), bodies[span.label])
    return result


def table_rich(table: Table) -> RichTable:
    """Return the table for a terminal."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(
        title=Text(printable(table.caption)) if table.caption else None,
        caption=Text(printable(table.note)) if table.note else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        style="dim" if table.style == "published" else "none",
    )
    for column, align in zip(table.fields, alignments(table), strict=True):
        style = "italic" if column.quoted else "none"
        made.add_column(Text(printable(column.full_name)), justify=align, overflow="fold", style=style)
    for index, cells in enumerate(shown_rows(table)):
        if index in table.headings:
            made.add_row(Text(printable(table.headings[index]), "italic"), *[""] * (len(cells) - 1))
        made.add_row(*(Text(printable(cell.plain), "bold" if cell.best else "") for cell in cells))
    return made
