from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.stages.corpus.remaining import originals_of

HALF = st.integers(0, 2) | st.just(2**64 - 1)


ROWS = st.lists(st.tuples(HALF, HALF, st.booleans(), st.integers(0, 2)), max_size=40)


@settings(max_examples=100, deadline=None)
@given(ROWS)
def test_copies_have_the_first_as_their_original_and_rows_that_are_kept_remain(
    rows: list[tuple[int, int, bool, int]],
) -> None:
    originals: dict[tuple[int, int], int] = {}
    for number in sorted(range(len(rows)), key=lambda number: (not rows[number][2], rows[number][3], number)):
        originals.setdefault(rows[number][:2], number)
    expected = [number if row[2] else originals[row[:2]] for number, row in enumerate(rows)]
    digests = np.array([row[:2] for row in rows], dtype=np.uint64).reshape(-1, 2)
    kept = np.array([row[2] for row in rows], dtype=bool)
    rank = np.array([row[3] for row in rows], dtype=np.int32)
    assert originals_of(digests, kept, rank).tolist() == expected
