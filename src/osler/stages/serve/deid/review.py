"""A page to check de-identified notes: the original with its findings, beside the new text."""

from __future__ import annotations

from collections.abc import Sequence

from osler.report.page import Page
from osler.stages.serve.deid.engine import DeidNote
from osler.text.document import Document, Span, number_spans


def review_page(notes: Sequence[tuple[Document, DeidNote]], total: int) -> str:
    """Render the page as HTML. It contains the original notes."""
    page = Page("De-identified notes to check", "This page holds protected health information. Do not pass it on.")
    shown = f"The first {len(notes):,} of {total:,} notes" if len(notes) < total else f"All {total:,} notes"
    page.text(
        f"{shown}. Left: the original, with everything that was replaced. Right: the new text. Look for names, places, dates and "
        "numbers on the right that tell who the patient is, and for clinical words on the left that are marked and should not be."
    )
    for number, (original, note) in enumerate(notes, 1):
        page.heading(f"Note {number:,}")
        before = [Span.at(finding.start, finding.end, finding.kind) for finding in note.findings]
        after = [
            Span.at(start, end, finding.kind)
            for finding, (_, _, start, end) in zip(note.findings, note.offsets.pairs, strict=True)
            if start < end
        ]
        page.beside(
            Document("old", original.text, number_spans(before)),
            Document("new", note.text, number_spans(after)),
            ("Original", "De-identified"),
        )
    return page.render() + "\n"
