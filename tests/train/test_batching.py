from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.core.errors import RecipeError
from osler.train.source import packed_batches, padded_batches

BOTH = pytest.mark.parametrize("cut", [packed_batches, padded_batches])


@BOTH
@given(
    lengths=st.lists(st.integers(1, 60), max_size=300),
    budget=st.integers(60, 400),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 3),
    most=st.none() | st.integers(1, 20),
)
@settings(max_examples=100, deadline=None)
def test_every_example_once_and_never_over_budget(cut, lengths, budget, seed, epoch, most):
    batches = cut(lengths, budget, seed, epoch, most)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch
        sizes = [lengths[index] for index in batch]
        assert (sum(sizes) if cut is packed_batches else max(sizes) * len(sizes)) <= budget
        assert most is None or len(batch) <= most
    assert cut(lengths, budget, seed, epoch, most) == batches


def test_batches_of_packed_examples_are_fair_samples():
    """The mean length in a batch is that of the task; among examples of like length it would run from 5 to 512."""
    lengths = np.random.default_rng(0).integers(5, 512, size=3200)
    batches = packed_batches(lengths.tolist(), 10**6, 1, 0, 32)
    means = np.array([lengths[batch].mean() for batch in batches])
    assert means.std() < 1.3 * lengths.std() / np.sqrt(32)
    assert {len(batch) for batch in batches} == {32}


def test_packed_batches_are_full():
    lengths = np.random.default_rng(0).integers(5, 512, size=5000)
    batches = packed_batches(lengths.tolist(), 8192, 1, 0)
    assert np.mean([lengths[batch].sum() for batch in batches[:-1]]) > 0.95 * 8192


def test_lengths_are_alike_within_a_batch():
    lengths = np.random.default_rng(0).integers(5, 512, size=5000)
    batches = padded_batches(lengths.tolist(), 8192, 1, 0)
    padded = sum(max(lengths[batch]) * len(batch) for batch in batches)
    assert lengths.sum() / padded > 0.9  # in arrival order it would be about one half
    filled = [max(lengths[batch]) * len(batch) / 8192 for batch in batches]
    assert np.mean(filled) > 0.85


@BOTH
def test_epochs_differ_in_company(cut):
    """Also in a task of a few hundred examples: few pairs of examples meet again in the next epoch."""
    lengths = np.random.default_rng(0).integers(5, 100, size=520).tolist()
    pairs = [
        {frozenset(pair) for batch in cut(lengths, 10**6, 1, epoch, 16) for pair in combinations(batch, 2)}
        for epoch in (0, 1)
    ]
    assert len(pairs[0] & pairs[1]) < 0.2 * len(pairs[0])


@BOTH
def test_a_wide_budget_gives_batches_of_a_fixed_number(cut):
    sizes = [len(batch) for batch in cut([10] * 3210, 10**6, 1, 0, max_sequences=32)]
    assert sorted(sizes, reverse=True) == [32] * 100 + [10]


@BOTH
def test_an_example_larger_than_the_budget_is_refused(cut):
    with pytest.raises(RecipeError, match="one example has 700"):
        cut([3, 700, 5], 512, 1, 0)
