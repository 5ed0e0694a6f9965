from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.tasks.card import Kind
from osler.tasks.catalogue import load_card
from osler.tasks.records import RecordCounts, RecordReducer, overlapping
from osler.text.document import Document, Relation, Span, TextPair

TEXT = "Aspirin blocks COX1 and COX2 ."
SPANS = (
    Span.at(0, 7, "CHEMICAL", id="T1"),
    Span.at(15, 19, "GENE-Y", id="T2"),
    Span.at(24, 28, "GENE-N", id="T3"),
    Span.at(8, 14, "VERB", id="T4"),
)


def test_official_labels_become_the_tasks_and_what_is_left_out_is_counted():
    relations = (
        Relation("CPR:4", "T1", "T2", "R1", attributes={"type": "INHIBITOR"}),
        Relation("CPR:4", "T1", "T2", "R2", attributes={"type": "ANTAGONIST"}),
        Relation("CPR:9", "T1", "T2", "R3"),
        Relation("CPR:2", "T1", "T3", "R4"),
        Relation("CPR:3", "T1", "T4", "R5"),
    )
    reducer = RecordReducer(load_card("chemprot"))
    found = reducer(Document("1", TEXT, SPANS, relations, labels=("x",)))
    assert [(span.label, span.id) for span in found.spans] == [("CHEMICAL", "T1"), ("GENE", "T2"), ("GENE", "T3")]
    # Several labels of one pair all stay; the same label twice is one relation.
    assert [(r.label, r.id) for r in found.relations] == [("CPR:4", "R1"), ("CPR:9", "R3")]
    assert found.labels == ()
    assert reducer.left_out == {
        "VERB": 1,
        "CPR:2": 1,
        "relations given twice": 1,
        "relations of other mentions": 1,
    }


def test_hallmarks_are_cut_to_their_top_level_for_sentences_and_abstracts():
    text = "One sentence .\nAnother ."
    death = "Resisting cell death"
    spans = (
        Span.at(0, 14, f"{death}--Apoptosis", id="T1"),
        Span.at(0, 14, f"{death}--Necrosis", id="T2"),
        Span.at(15, 24, "NULL", id="T3"),
    )
    reducer = RecordReducer(load_card("hoc"))
    found = reducer(Document("1", text, spans, labels=tuple(span.label for span in spans)))
    assert found.labels == (death,)
    assert [span.key for span in found.spans] == [(((0, 14),), death)]
    assert reducer.left_out == {"NULL": 2}


def test_attributes_get_the_tasks_names_and_mentions_without_any_stay():
    spans = (
        Span.at(0, 7, "EVENT", id="T1", attributes={"polarity": "NEG", "contextualModality": "HYPOTHETICAL-IF"}),
        Span.at(8, 14, "EVENT", id="T2", attributes={"polarity": "POS", "contextualModality": "GENERIC"}),
        Span.at(15, 19, "EVENT", id="T3", attributes={"negated": "yes"}),
        Span.at(15, 19, "BODYPART", id="T4", attributes={"polarity": "NEG"}),
    )
    reducer = RecordReducer(load_card("e3c-attributes-en"))
    found = reducer(Document("1", TEXT, spans))
    assert [(span.id, dict(span.attributes)) for span in found.spans] == [
        ("T1", {"negated": "yes", "hypothetical": "yes"}),
        ("T2", {}),
        ("T3", {"negated": "yes"}),
    ]
    assert reducer.left_out == {"BODYPART": 1}
    counts = RecordCounts(Kind.ATTRIBUTES)
    counts.add(found)
    assert counts.as_dict() == {
        "documents": 1, "mentions": 3, "overlapping": 0, "discontinuous": 0,
        "labels": {"hypothetical": 1, "negated": 2}, "entities": {"EVENT": 3},
    }  # fmt: skip


def test_pairs_keep_their_order_label_and_value_as_the_kind_needs():
    pair = TextPair("1", "premise", "hypothesis", ("entailment",), 3.5)
    assert RecordReducer(load_card("mednli"))(pair) == pair.with_(value=None)
    assert RecordReducer(load_card("n2c2-2019-sts"))(pair) == pair.with_(labels=())


def test_codes_of_the_other_track_are_left_out_and_all_others_are_labels():
    document = Document("1", "x", labels=("D:a01", "P:b02", "D:c03"))
    assert RecordReducer(load_card("codiesp"))(document).labels == ("D:a01", "D:c03")
    assert RecordReducer(load_card("codiesp-p"))(document).labels == ("P:b02",)


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        ([((0, 4),), ((4, 8),)], 0),
        ([((0, 4),), ((3, 8),), ((20, 21),)], 2),
        ([((0, 10),), ((2, 3),), ((5, 6),)], 3),
        ([((0, 2), (8, 10)), ((4, 6),)], 0),
        ([((0, 2), (8, 10)), ((9, 12),)], 2),
        ([((0, 2),), ((0, 2),)], 2),
        ([], 0),
    ],
)
def test_overlapping_mentions(fragments, expected):
    assert overlapping([Span(pieces, "A") for pieces in fragments]) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=8))
def test_overlapping_mentions_are_those_that_share_a_character(places):
    spans = [Span.at(start, start + length, "A") for start, length in places]
    covered = [set(range(span.start, span.end)) for span in spans]
    wanted = sum(any(mine & other for k, other in enumerate(covered) if k != n) for n, mine in enumerate(covered))
    assert overlapping(spans) == wanted


def test_counts_name_only_what_a_kind_can_have():
    document = Document("1", TEXT, (*SPANS, Span(((0, 2), (4, 6)), "VERB", "T5")), (Relation("r", "T1", "T2", "R1"),))
    numbers = {}
    for kind in (Kind.TAGGING, Kind.RELATION, Kind.MULTILABEL, Kind.CLASSIFICATION):
        tally = RecordCounts(kind)
        tally.add(document.with_(labels=("x", "y")))
        numbers[kind] = tally.as_dict()
    assert numbers[Kind.TAGGING] == {
        "documents": 1, "mentions": 5, "overlapping": 2, "discontinuous": 1,
        "labels": {"CHEMICAL": 1, "GENE-N": 1, "GENE-Y": 1, "VERB": 2},
    }  # fmt: skip
    assert numbers[Kind.RELATION]["relations"] == 1
    assert numbers[Kind.RELATION]["labels"] == {"r": 1}
    assert numbers[Kind.MULTILABEL] == {"documents": 1, "assigned": 2, "labels": {"x": 1, "y": 1}}
    assert numbers[Kind.CLASSIFICATION] == {"documents": 1, "labels": {"x": 1, "y": 1}}
