"""Windows: nothing lost, nothing twice, words whole, and each token decided where it has most context."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.core.errors import RecipeError
from osler.text.windows import Window, windows

shapes = st.integers(1, 12).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


def context(window: Window, token: int, n_tokens: int) -> float:
    """How far a token is from the nearer edge of a window; the edges of the sequence are infinitely far."""
    if not window.start <= token < window.end:
        return -1
    left = math.inf if window.start == 0 else token - window.start
    right = math.inf if window.end == n_tokens else window.end - 1 - token
    return min(left, right)


def check_partition(found: list[Window], n_tokens: int, size: int) -> None:
    """What holds for windows of any kind."""
    decided = [token for window in found for token in range(window.core_start, window.core_end)]
    assert decided == list(range(n_tokens))
    for window in found:
        assert window.start <= window.core_start < window.core_end <= window.end <= window.start + size
    for before, after in itertools.pairwise(found):
        assert before.start < after.start <= before.end < after.end


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 60), shapes)
def test_tokens_are_decided_once_where_they_have_most_context(n_tokens: int, shape: tuple[int, int]) -> None:
    size, overlap = shape
    found = windows(n_tokens, size, overlap)
    check_partition(found, n_tokens, size)
    for before, after in itertools.pairwise(found):
        assert before.end - after.start == overlap
    for window in found:
        for token in range(window.core_start, window.core_end):
            assert context(window, token, n_tokens) == max(context(other, token, n_tokens) for other in found)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.integers(1, 5), st.integers(1, 30)), max_size=25), shapes)
def test_words_are_whole_unless_longer_than_a_window(lengths: list[int], shape: tuple[int, int]) -> None:
    size, overlap = shape
    starts = [sum(lengths[:index]) for index in range(len(lengths))]
    n_tokens = sum(lengths)
    found = windows(n_tokens, size, overlap, starts)
    check_partition(found, n_tokens, size)
    for start, length in zip(starts, lengths, strict=True):
        inside = range(start + 1, start + length)
        if length <= size:
            edges = {edge for w in found for edge in (w.start, w.end, w.core_start, w.core_end)}
            assert not edges.intersection(inside)
            owner = next(w for w in found if w.core_start <= start < w.core_end)
            assert context(owner, start, n_tokens) == max(context(other, start, n_tokens) for other in found)


def test_one_window_where_all_fits() -> None:
    assert windows(5, 5, 2) == [Window(0, 5, 0, 5)]
    assert windows(0, 5, 2) == []


def test_overlap_is_shared_half_and_half() -> None:
    assert windows(10, 6, 2) == [Window(0, 6, 0, 5), Window(4, 10, 5, 10)]


def test_words_move_the_cuts() -> None:
    # words of 4, 4 and 4 tokens: a window of 6 holds one of them
    assert [(w.start, w.end) for w in windows(12, 6, 0, [0, 4, 8])] == [(0, 4), (4, 8), (8, 12)]
    # with an overlap of 2 no word fits behind another one
    assert [(w.start, w.end) for w in windows(12, 6, 2, [0, 4, 8])] == [(0, 4), (4, 8), (8, 12)]
    assert [(w.start, w.end) for w in windows(12, 8, 2, [0, 4, 8])] == [(0, 8), (4, 12)]


def test_a_word_longer_than_a_window_is_cut() -> None:
    found = windows(30, 8, 2, [0, 3])
    assert found[0].start == 0
    assert found[-1].end == 30
    check_partition(found, 30, 8)


def test_a_window_with_nothing_to_decide_is_left_out() -> None:
    # Behind words of 1, 1 and 1 tokens one of 10, whose first token has most context in the first window.
    found = windows(16, 13, 11, [0, 1, 2, 3, 13, 14, 15])
    assert [(w.start, w.core_start, w.core_end) for w in found] == [(0, 0, 13), (3, 13, 16)]


def test_boundaries_need_no_edges_and_no_order() -> None:
    assert windows(20, 8, 2, [9, 3, 15, 20, 99, 0, -4, 3]) == windows(20, 8, 2, [0, 3, 9, 15])


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (4, 4), (4, -1), (-1, -2)])
def test_impossible_shapes_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(RecipeError, match="overlap from 0 to size - 1"):
        windows(10, size, overlap)
