from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.core.errors import RecipeError
from osler.train.batching import token_budget_batches


@given(
    lengths=st.lists(st.integers(1, 60), max_size=300),
    budget=st.integers(60, 400),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 3),
    most=st.none() | st.integers(1, 20),
)
@settings(max_examples=100, deadline=None)
def test_every_example_once_and_never_over_budget(lengths, budget, seed, epoch, most):
    batches = token_budget_batches(lengths, budget, seed, epoch, most)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch
        assert max(lengths[index] for index in batch) * len(batch) <= budget
        assert most is None or len(batch) <= most
    assert token_budget_batches(lengths, budget, seed, epoch, most) == batches


def test_lengths_are_alike_within_a_batch():
    lengths = np.random.default_rng(0).integers(5, 512, size=5000)
    batches = token_budget_batches(lengths.tolist(), 8192, 1, 0)
    padded = sum(max(lengths[batch]) * len(batch) for batch in batches)
    assert lengths.sum() / padded > 0.93  # in arrival order it would be about one half
    filled = [max(lengths[batch]) * len(batch) / 8192 for batch in batches]
    assert np.mean(filled) > 0.9


def test_epochs_differ_in_order_and_in_company():
    lengths = np.random.default_rng(0).integers(5, 100, size=2000).tolist()
    first, second = (token_budget_batches(lengths, 1000, 1, epoch) for epoch in (0, 1))
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}


def test_a_wide_budget_gives_batches_of_a_fixed_number():
    sizes = [len(batch) for batch in token_budget_batches([10] * 3210, 10**6, 1, 0, max_sequences=32)]
    assert sorted(sizes, reverse=True) == [32] * 100 + [10]


def test_an_example_larger_than_the_budget_is_refused():
    with pytest.raises(RecipeError, match="one example has 700"):
        token_budget_batches([3, 700, 5], 512, 1, 0)
