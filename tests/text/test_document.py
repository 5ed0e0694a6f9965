"""Records check themselves, and what they say about the text is what the text has."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.core.errors import InputError
from osler.text.document import Document, Relation, Span, TextPair, check_text, number_spans, split_meta


@pytest.mark.parametrize("fragments", [(), ((3, 3),), ((5, 2),), ((-1, 2),), ((4, 6), (0, 2)), ((0, 4), (3, 6))])
def test_impossible_fragments_are_refused(fragments: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(InputError):
        Span(fragments, "X")


def test_a_span_knows_its_place() -> None:
    span = Span(((2, 4), (6, 9)), "X", score=0.5)
    assert (span.start, span.end, span.discontinuous) == (2, 9, True)
    assert span.text_in("abcdefghij") == "cd ghi"
    assert span.key == (((2, 4), (6, 9)), "X")
    assert not Span.at(0, 1, "X").discontinuous


def test_a_document_refuses_what_it_does_not_hold_and_quotes_nothing() -> None:
    with pytest.raises(InputError) as caught:
        Document("d", "SECRET", (Span.at(0, 7, "X"),))
    assert "SECRET" not in str(caught.value)
    span = Span.at(0, 2, "X", id="T1")
    with pytest.raises(InputError, match="T2"):
        Document("d", "text", (span,), (Relation("r", "T1", "T2"),))
    with pytest.raises(InputError, match="T3"):
        Document("d", "text", (span,), (Relation("r", "T3", "T1"),))


def test_records_do_not_change() -> None:
    document = Document("d", "text")
    with pytest.raises(dataclasses.FrozenInstanceError):
        document.text = "other"  # type: ignore[misc]
    assert document.with_(labels=("a",)).labels == ("a",)
    assert document.labels == ()
    assert TextPair("p", "a", "b").with_(value=1.0).value == 1.0


def test_only_keeps_labels_and_the_relations_between_them() -> None:
    spans = (Span.at(0, 1, "X", id="T1"), Span.at(1, 2, "Y", id="T2"), Span.at(2, 3, "X", id="T3"))
    relations = (Relation("r", "T1", "T2"), Relation("r", "T1", "T3"))
    kept = Document("d", "abc", spans, relations).only(["X"])
    assert [span.id for span in kept.spans] == ["T1", "T3"]
    assert kept.relations == (relations[1],)
    assert kept.span("T3").start == 2
    with pytest.raises(KeyError):
        kept.span("T2")


ids = st.sampled_from(["", "", "T1", "T2", "E7"])
spans = st.builds(
    lambda start, length, label, name: Span.at(start, start + length, label, id=name),
    st.integers(0, 20),
    st.integers(1, 5),
    st.sampled_from("XY"),
    ids,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(spans, max_size=8, unique_by=lambda s: s.id or object()))
def test_numbering_gives_new_names_keeps_old_ones_and_sorts(given_spans: list[Span]) -> None:
    named = number_spans(given_spans)
    assert sorted(s.key for s in named) == sorted(s.key for s in given_spans)
    assert len({s.id for s in named}) == len(named)
    assert all(s.id for s in named)
    assert {(s.id, s.key) for s in given_spans if s.id} <= {(s.id, s.key) for s in named}
    assert [s.start for s in named] == sorted(s.start for s in named)


@pytest.mark.parametrize(("text", "place"), [("ab\x00", "offset 2"), ("é\ud800", "offset 1"), ("\udfff", "offset 0")])
def test_text_that_nothing_can_carry_is_refused(text: str, place: str) -> None:
    with pytest.raises(InputError, match=place):
        check_text(text, where="notes.txt")


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40))
def test_all_other_text_passes_unchanged(text: str) -> None:
    assert check_text(text, where="notes.txt") is text


def test_scores_of_older_files_are_taken_out_of_the_metadata() -> None:
    meta = {"file": "a.txt", "score:A": "0.9000", "score:B": "0.1000", "score:mine": "high"}
    assert split_meta(meta) == ({"file": "a.txt", "score:mine": "high"}, {"A": 0.9, "B": 0.1})
