from __future__ import annotations

import pytest

from osler.core.errors import InputError
from osler.metrics.spans import score_relations
from osler.text.document import Document, Relation, Span

TEXT = "warfarin with aspirin caused bleeding"
SPANS = (Span.at(0, 8, "DRUG", id="T1"), Span.at(14, 21, "DRUG", id="T2"), Span.at(29, 37, "PROBLEM", id="T3"))


def doc(*relations: Relation, spans: tuple[Span, ...] = SPANS) -> Document:
    return Document("d", TEXT, spans, relations)


GOLD = [doc(Relation("DDI-effect", "T1", "T2"), Relation("TrCP", "T1", "T3"), Relation("TrCP", "T2", "T3"))]


def test_relations_are_a_set_of_label_and_arguments() -> None:
    predicted = [
        doc(
            Relation("DDI-effect", "T1", "T2"),
            Relation("DDI-effect", "T1", "T2", score=0.5),
            Relation("TrAP", "T1", "T3"),
        )
    ]
    scores = score_relations(GOLD, predicted)
    assert (scores.micro.tp, scores.micro.fp, scores.micro.fn) == (1, 1, 2)
    assert scores.per_label["DDI-effect"].f1 == 1
    assert score_relations(GOLD, GOLD).micro.f1 == 1


def test_several_labels_on_one_pair_are_several_relations() -> None:
    both = [doc(Relation("DDI-effect", "T1", "T2"), Relation("DDI-advise", "T1", "T2"))]
    micro = score_relations(both, [doc(Relation("DDI-advise", "T1", "T2"))]).micro
    assert (micro.tp, micro.fp, micro.fn) == (1, 0, 1)


def test_direction_counts() -> None:
    assert score_relations([doc(Relation("TrCP", "T1", "T3"))], [doc(Relation("TrCP", "T3", "T1"))]).micro.tp == 0


def test_ids_that_name_other_mentions_are_refused() -> None:
    other = (Span.at(0, 8, "DRUG", id="T1"), Span.at(29, 37, "PROBLEM", id="T2"))
    with pytest.raises(InputError, match="different mentions"):
        score_relations(GOLD, [doc(Relation("DDI-effect", "T1", "T2"), spans=other)])


def test_labels_limit_what_counts() -> None:
    scores = score_relations(GOLD, [doc(Relation("DDI-effect", "T1", "T2"))], labels=["DDI-effect", "DDI-int"])
    assert scores.micro.f1 == 1
    assert scores.macro_f1 == 0.5
