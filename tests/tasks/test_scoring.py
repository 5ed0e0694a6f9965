"""The decomposition behind an interval is that of the protocol's own metric, or there is none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from osler.tasks.catalogue import load_card
from osler.tasks.scoring import score
from osler.text.document import Document, Record, Relation, Span, TextPair

TEXT = "aspirin and warfarin"
DRUGS = (Span.at(0, 7, "DRUG", id="T1"), Span.at(12, 20, "DRUG", id="T2"))


def note(number: int, *spans: Span, **more: object) -> Document:
    return Document(str(number), TEXT, spans, **more)  # type: ignore[arg-type]


CASES: dict[str, tuple[Sequence[Record], Sequence[Record]]] = {
    # One of three mentions is found, and two that are none: precision, recall and F1 differ.
    "clinic-phi-en": (
        [note(1, Span.at(0, 7, "NAME", id="T1"), Span.at(12, 20, "NAME", id="T2")), note(2, Span.at(0, 7, "NAME"))],
        [note(1, Span.at(0, 7, "NAME", id="T1")), note(2, Span.at(0, 4, "NAME"), Span.at(5, 7, "NAME"))],
    ),
    "clinic-treatments-en": (
        [note(1, *DRUGS, relations=(Relation("dose", "T1", "T2"),)), note(2, *DRUGS)],
        [note(1, *DRUGS), note(2, *DRUGS)],
    ),
    "clinic-entailment-en": (
        [TextPair(str(n), "a", "b", (label,)) for n, label in enumerate(("entailment", "neutral", "neutral"))],
        [TextPair(str(n), "a", "b", (label,)) for n, label in enumerate(("entailment", "neutral", "contradiction"))],
    ),
    "clinic-conditions-en": (
        [note(1, labels=("asthma", "fever")), note(2, labels=("fever",))],
        [note(1, labels=("asthma",)), note(2, labels=("fever", "asthma"))],
    ),
    # A mention that is not gold does not count, whatever is said about it.
    "e3c-attributes-en": (
        [note(1, *(Span.at(a, b, "EVENT", attributes={"negated": "yes"}) for a, b in ((0, 7), (12, 20)))), note(2)],
        [
            note(
                1,
                Span.at(0, 7, "EVENT", attributes={"negated": "yes", "possible": "yes"}),
                Span.at(12, 20, "EVENT"),
                Span.at(8, 11, "EVENT", attributes={"negated": "yes"}),
            ),
            note(2),
        ],
    ),
    "clinic-similarity-en": (
        [TextPair(str(n), "a", "b", (), value) for n, value in enumerate((0.0, 1.0, 2.0, 5.0))],
        [TextPair(str(n), "a", "b", (), value) for n, value in enumerate((0.0, 2.0, 1.0, 3.0))],
    ),
}


UNDECOMPOSED = {"safe_harbor_recall", "clean_share", "spearman"}


@pytest.mark.parametrize("task", CASES)
def test_a_decomposition_is_of_the_protocols_own_metric_or_missing(task: str) -> None:
    card, (gold, predicted) = load_card(task), CASES[task]
    protocol = card.protocol_named()
    for metric, value in score(card, protocol, gold, predicted).metrics.items():
        scored = score(card, protocol.changed(metric=metric), gold, predicted)
        assert scored.main == value
        assert scored.documents == len(gold)
        assert (scored.decomposed is None) == (metric in UNDECOMPOSED), metric
        if scored.decomposed is not None:
            assert scored.decomposed.value == pytest.approx(value), metric


def test_equal_by_chance_is_not_the_same_metric() -> None:
    # All right: F1 and the share of clean notes are both 1, but draws of F1 say nothing about that share.
    card = load_card("clinic-phi-en")
    gold, _ = CASES["clinic-phi-en"]
    scored = score(card, card.protocol_named().changed(metric="clean_share"), gold, gold)
    assert scored.main == 1.0
    assert scored.decomposed is None
