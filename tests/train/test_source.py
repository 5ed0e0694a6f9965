from __future__ import annotations

import threading
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.core.errors import RecipeError
from osler.train.mixing import mix
from osler.train.parallel import World
from osler.train.source import Batch, EpochSource, move, packed_batches, padded_batches, prefetch


def source(sizes, accumulate):
    return EpochSource(
        lambda epoch: [(epoch, index) for index in range(sizes[epoch % len(sizes)])],
        lambda ref: Batch(ref, 1.0, 1),
        epochs=3,
        accumulate=accumulate,
    )


def test_epochs_of_different_lengths_are_cut_into_steps():
    plan = source([5, 2, 4], 2)
    assert len(plan) == 3 + 1 + 2
    flat = [ref for step in range(len(plan)) for ref in plan.step(step)]
    assert flat == [(0, i) for i in range(5)] + [(1, i) for i in range(2)] + [(2, i) for i in range(4)]
    assert plan.step(2) == [(0, 4)]
    assert plan.step(6) == [(3, 0), (3, 1)]  # more steps than planned run on into the next epoch


def test_a_step_does_not_depend_on_those_asked_before():
    forward, backward = source([5, 2, 4], 2), source([5, 2, 4], 2)
    ahead = [forward.step(index) for index in range(6)]
    assert [backward.step(index) for index in reversed(range(6))] == ahead[::-1]


def test_an_empty_epoch_is_refused():
    with pytest.raises(ValueError, match="without batches"):
        len(source([0], 1))


def test_two_tasks_from_lengths_to_steps():
    """The parts fit: budgets make each task's batches, mixing orders them, epochs cut them into steps."""
    lengths = {"a": [7] * 30, "b": [3] * 8}

    def order(epoch):
        cut = {task: packed_batches(sizes, 21, 1, epoch) for task, sizes in lengths.items()}
        turns = mix("proportional", {task: len(batches) for task, batches in cut.items()}, 1, epoch).order
        return [(task, cut[task][index]) for task, index in turns]

    plan = EpochSource(order, lambda ref: Batch(ref, 1.0, 1), epochs=2, accumulate=4)
    for first, last in ((0, len(plan) // 2), (len(plan) // 2, len(plan))):
        seen = [(task, index) for step in range(first, last) for task, batch in plan.step(step) for index in batch]
        assert sorted(seen) == [("a", i) for i in range(30)] + [("b", i) for i in range(8)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_ranks_share_every_micro_batch_once_in_equally_many_passes(size, count):
    refs = [f"ref{index}" for index in range(count)]
    shares = [World(rank, size).share(refs) for rank in range(size)]
    assert len({len(share) for share in shares}) == 1
    counted = sorted((index, ref) for each in shares for index, ref, counts in each if counts)
    assert counted == list(enumerate(refs))
    assert all(ref in refs for each in shares for _, ref, _ in each)


def test_payloads_move_whatever_their_shape():
    class Packed:
        def to(self, device):
            return ("packed", device)

    device = torch.device("meta")
    moved = move({"a": torch.zeros(2), "b": (torch.ones(1), [Packed()]), "head": "ner"}, device)
    assert moved["a"].device == moved["b"][0].device == device
    assert moved["b"][1] == [("packed", device)]
    assert moved["head"] == "ner"


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


def test_order_is_that_of_the_indices_and_loading_runs_ahead():
    asked, ahead = [], threading.Event()

    def load(index):
        asked.append(index)
        if index == 2:
            ahead.set()
        return index * 10

    stream = prefetch(load, range(6), depth=2)
    assert next(stream) == 0
    assert ahead.wait(10)  # step 2 is loaded while the consumer is still at 0
    assert list(stream) == [10, 20, 30, 40, 50]
    assert asked == list(range(6))


def test_an_error_comes_at_its_place_and_the_thread_ends():
    def load(index):
        if index == 2:
            raise KeyError("shard")
        return index

    before = threading.active_count()
    stream = prefetch(load, range(5))
    assert [next(stream), next(stream)] == [0, 1]
    with pytest.raises(KeyError):
        next(stream)
    assert threading.active_count() == before


def test_closing_stops_loading():
    asked = []
    stream = prefetch(asked.append, range(1000))
    next(stream)
    stream.close()
    assert len(asked) <= 3
