"""Score mentions separately by whether training had their form: what a model memorised, and what it generalises to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from osler.metrics.scores import PRF
from osler.metrics.spans import score_spans
from osler.tasks.card import Protocol, TaskCard
from osler.text.document import Document, Record, Span


def mention_forms(records: Iterable[Record]) -> set[str]:
    """The normalised forms of all mentions."""
    return {form(record, span) for record in records if isinstance(record, Document) for span in record.spans}


def form(document: Document, span: Span) -> str:
    """The text of a mention, with case and whitespace normalised."""
    return " ".join(" ".join(document.text[start:end] for start, end in span.fragments).casefold().split())


def score_by_form(
    card: TaskCard, protocol: Protocol, gold: Sequence[Record], predicted: Sequence[Record], known: set[str]
) -> dict[str, PRF]:
    """Scores of mentions with a known form ("seen"), and of the others ("unseen").

    A predicted mention is on the side of its own form, so an exact match is on the same side in both.
    """
    labels = card.under(protocol).labels
    found = {}
    for name, wanted in (("seen", True), ("unseen", False)):
        sides = [
            [
                record.with_(spans=tuple(s for s in record.spans if (form(record, s) in known) is wanted), relations=())
                for record in map(protocol.relabelled, side)
                if isinstance(record, Document)
            ]
            for side in (gold, predicted)
        ]
        found[name] = score_spans(*sides, labels=labels).micro
    return found


def form_metrics(found: Mapping[str, PRF]) -> dict[str, float]:
    """The metrics that a score by form adds: seen_recall, seen_f1, unseen_recall, unseen_f1."""
    return {f"{name}_{part}": getattr(side, part) for name, side in found.items() for part in ("recall", "f1")}
