"""Gold and predicted documents go in pairs; a pair must be the same document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from osler.core.errors import InputError
from osler.text.document import Document


def paired(gold: Sequence[Document], predicted: Sequence[Document]) -> Iterator[tuple[Document, Document]]:
    """Go through both sides in step, refusing to compare different documents."""
    if len(gold) != len(predicted):
        raise InputError(
            f"{len(gold)} gold documents and {len(predicted)} predicted ones cannot be compared",
            fix="Predict every gold document once, in the same order",
        )
    for index, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        if want.id != have.id or want.text != have.text:
            what = "have different ids" if want.id != have.id else "have different texts"
            raise InputError(
                f"the gold and the predicted document {what}",
                where=f"document {index + 1} of {len(gold)}",
                fix="Keep the order of the gold file and never alter its text",
            )
        yield want, have
