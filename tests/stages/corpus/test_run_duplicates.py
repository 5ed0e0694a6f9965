from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.stages.corpus.run import first_copies

HALF = st.integers(0, 2) | st.just(2**64 - 1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(HALF, HALF), max_size=40))
def test_marks_exactly_the_first_of_each_value(rows: list[tuple[int, int]]) -> None:
    seen: set[tuple[int, int]] = set()
    expected = []
    for row in rows:
        expected.append(row not in seen)
        seen.add(row)
    assert first_copies(np.array(rows, dtype=np.uint64).reshape(-1, 2)).tolist() == expected
