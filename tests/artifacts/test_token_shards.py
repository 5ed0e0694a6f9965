from __future__ import annotations

import numpy as np
import pytest

from osler.artifacts.token_shards import TokenisedDocuments


@pytest.fixture
def documents() -> TokenisedDocuments:
    """Four documents in two shards: 0 1 2 | 3 4, then 5 | 6 7 8 9."""
    return TokenisedDocuments(
        shards=(np.arange(5, dtype=np.uint16), np.arange(5, 10, dtype=np.uint16)),
        starts=np.array([0, 3, 5, 6]),
        lengths=np.array([3, 2, 1, 4]),
        sources=np.array([0, 0, 1, 1]),
        names=("notes", "papers"),
    )


def test_stretches_come_from_the_right_shard_in_the_order_asked_for(documents):
    assert documents.gather(documents.starts, documents.lengths).tolist() == list(range(10))
    assert documents.gather(np.array([7, 0, 5, 3]), np.array([2, 1, 1, 2])).tolist() == [7, 8, 0, 5, 3, 4]
    assert documents.gather(np.array([], dtype=int), np.array([], dtype=int)).tolist() == []
