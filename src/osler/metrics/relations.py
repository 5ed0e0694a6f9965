"""Set-based relation scores: a relation is its label and its two arguments, whatever sentence they stand in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from osler.core.errors import InputError
from osler.metrics.pairing import paired
from osler.metrics.scores import Item, Scores, score_sets
from osler.metrics.spans import touching_joined
from osler.text.document import Document, Span

Match = Literal["ids", "spans"]


def score_relations(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    *,
    labels: Sequence[str] | None = None,
    match: Match = "spans",
) -> Scores:
    """Score predicted relations; several labels on one pair are several relations.

    `ids`: both sides share their spans (relations between gold entities), arguments compare by id.
    `spans`: end to end, both arguments must have the right characters and the right label.
    """
    if match not in ("ids", "spans"):
        raise InputError(f"unknown match {match!r}", fix="Use ids or spans")
    wanted, found = [], []
    for index, (want, have) in enumerate(paired(gold, predicted)):
        golds = {span.id: span for span in want.spans}
        guesses = {span.id: span for span in have.spans}
        if match == "ids":
            _check_shared(golds, guesses, have, f"document {index + 1} of {len(gold)}")
        wanted.append(_items(want, golds, match))
        found.append(_items(have, guesses, match))
    return score_sets(wanted, found, labels)


def _items(document: Document, spans: Mapping[str, Span], match: Match) -> set[Item]:
    if match == "ids":
        return {(relation.label, (relation.head, relation.tail)) for relation in document.relations}
    extent = {name: (touching_joined(span.fragments), span.label) for name, span in spans.items()}
    return {(relation.label, (extent[relation.head], extent[relation.tail])) for relation in document.relations}


def _check_shared(golds: Mapping[str, Span], guesses: Mapping[str, Span], predicted: Document, where: str) -> None:
    """Ids mean nothing unless they name the same mention on both sides."""
    for relation in predicted.relations:
        for argument in (relation.head, relation.tail):
            if argument in golds and golds[argument].key != guesses[argument].key:
                raise InputError(
                    "a span id names different mentions in gold and prediction",
                    where=where,
                    fix="Predict relations on the gold spans, or score with match='spans'",
                )
