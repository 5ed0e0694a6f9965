"""Replaced passages, and places translated between both texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osler.core.errors import InputError
from osler.text.document import Document, Relation, Span
from osler.text.replacing import OffsetMap, replace_passages

TEXT = "Ana Ruiz saw Dr. Bo on Monday."


def test_passages_are_replaced_and_ranges_translated() -> None:
    new, offsets = replace_passages(TEXT, [(0, 8, "[NAME]"), (17, 19, "[NAME]"), (23, 29, "")])
    assert new == "[NAME] saw Dr. [NAME] on ."
    assert offsets.to_old(7, 10) == (9, 12)  # saw
    assert offsets.to_new(9, 12) == (7, 10)
    assert offsets.to_old(0, 6) == (0, 8)
    assert offsets.to_old(2, 4) == (0, 8)  # a part of a replaced passage is all of it
    assert offsets.to_new(4, 8) == (0, 6)
    assert offsets.to_new(4, 12) == (0, 10)
    assert offsets.to_new(23, 29) == (25, 25)
    assert offsets.to_old(25, 26) == (29, 30)
    assert OffsetMap.from_lists(**offsets.as_lists()) == offsets  # type: ignore[arg-type]


def test_documents_are_projected_both_ways() -> None:
    new, offsets = replace_passages(TEXT, [(0, 8, "[NAME]"), (17, 19, "Li"), (23, 29, "")])
    old = Document(
        "a",
        TEXT,
        (
            Span.at(0, 3, "P", id="1"),
            Span.at(9, 12, "V", id="2"),
            Span.at(23, 29, "D", id="3"),
            Span(((0, 3), (4, 8)), "P", id="4"),
        ),
        (Relation("r", "1", "2"), Relation("r", "2", "3")),
    )
    moved = offsets.spans_to_new(old, new)
    assert [span.text_in(new) for span in moved.spans] == ["[NAME]", "saw", "[NAME]"]
    assert [(relation.head, relation.tail) for relation in moved.relations] == [("1", "2")]
    back = offsets.spans_to_old(moved, TEXT)
    assert [span.text_in(TEXT) for span in back.spans] == ["Ana Ruiz", "saw", "Ana Ruiz"]
    with pytest.raises(InputError, match="length"):
        offsets.spans_to_old(moved, TEXT + "!")


@pytest.mark.parametrize("passages", [[(0, 5, "x"), (4, 8, "y")], [(5, 3, "x")], [(0, 99, "x")]])
def test_passages_must_be_disjoint_ranges_of_the_text(passages) -> None:
    with pytest.raises(InputError):
        replace_passages(TEXT, passages)


@pytest.mark.parametrize("place", [(-1, 2), (3, 2), (0, 99)])
def test_a_range_outside_of_the_text_is_refused(place) -> None:
    _, offsets = replace_passages(TEXT, [])
    with pytest.raises(InputError):
        offsets.to_old(*place)


@st.composite
def replaced(draw):
    text = draw(st.text(max_size=40))
    borders = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pairs = list(zip(borders[::2], borders[1::2], strict=False))
    return text, [(start, end, draw(st.text(max_size=5))) for start, end in pairs]


@given(replaced(), st.data())
def test_what_was_not_replaced_is_equal_at_its_new_place(case, data) -> None:
    text, passages = case
    new, offsets = replace_passages(text, passages)
    inside = {place for start, end, _ in passages for place in range(start, end)}
    for place in set(range(len(text))) - inside:
        start, end = offsets.to_new(place, place + 1)
        assert new[start:end] == text[place]
        assert offsets.to_old(start, end) == (place, place + 1)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    there = offsets.to_new(start, end)
    assert 0 <= there[0] <= there[1] <= len(new)
    if there[0] < there[1]:  # going back covers at least the same characters, but for those replaced by nothing
        back = offsets.to_old(*there)
        kept = [
            place
            for place in range(start, end)
            if offsets.to_new(place, place + 1)[0] < offsets.to_new(place, place + 1)[1]
        ]
        assert all(back[0] <= place < back[1] for place in kept)
