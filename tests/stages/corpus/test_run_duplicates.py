from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.stages.corpus.run import documents_that_remain

HALF = st.integers(0, 2) | st.just(2**64 - 1)


ROWS = st.lists(st.tuples(HALF, HALF, st.booleans()), max_size=40)


@settings(max_examples=100, deadline=None)
@given(ROWS)
def test_the_first_of_each_value_remains_and_every_row_that_is_kept(rows: list[tuple[int, int, bool]]) -> None:
    seen = {(low, high) for low, high, kept in rows if kept}
    expected = []
    for low, high, kept in rows:
        expected.append(kept or (low, high) not in seen)
        seen.add((low, high))
    digests = np.array([row[:2] for row in rows], dtype=np.uint64).reshape(-1, 2)
    kept_rows = np.array([row[2] for row in rows], dtype=bool)
    assert documents_that_remain(digests, kept_rows).tolist() == expected
