from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.train.mixing import mix

BATCHES = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 40), min_size=1)
SEEDS = st.integers(0, 2**32)


def check(result, batches):
    """What every mix owes: counts that are true, and passes that visit each batch once before any twice."""
    assert Counter(task for task, _ in result.order) == Counter(result.counts)
    assert result.counts.keys() == batches.keys()
    for task, available in batches.items():
        visits = [index for name, index in result.order if name == task]
        assert set(visits) <= set(range(available))
        times = Counter(visits)
        assert max(times.values()) - min(times.get(index, 0) for index in range(available)) <= 1


@given(BATCHES, SEEDS, st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_round_robin_takes_equal_turns_until_the_largest_is_through(batches, seed, epoch):
    result = mix("round-robin", batches, seed, epoch)
    check(result, batches)
    largest = max(batches.values())
    assert set(result.counts.values()) == {largest}
    tasks = [task for task, _ in result.order]
    assert tasks == list(batches) * largest  # strictly one after the other
    for task, available in batches.items():  # each pass is complete before the next begins
        visits = [index for name, index in result.order if name == task]
        assert sorted(visits[:available]) == list(range(available))
        if available == largest:
            assert sorted(visits) == list(range(available))


@given(BATCHES, SEEDS, st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_proportional_takes_every_batch_once(batches, seed, epoch):
    result = mix("proportional", batches, seed, epoch)
    assert result.counts == batches
    assert sorted(result.order) == sorted((task, index) for task, count in batches.items() for index in range(count))


@given(BATCHES, SEEDS, st.floats(1, 1e6))
@settings(max_examples=100, deadline=None)
def test_temperature_keeps_the_length_and_the_shares(batches, seed, heat):
    result = mix("temperature", batches, seed, 0, heat=heat)
    check(result, batches)
    total = sum(batches.values())
    assert len(result.order) == total
    shares = {task: count ** (1 / heat) for task, count in batches.items()}
    lifted = sum(share / sum(shares.values()) * total < 1 for share in shares.values())
    for task, share in shares.items():
        exact = share / sum(shares.values()) * total
        assert abs(result.counts[task] - max(exact, 1)) <= 1 + lifted


def test_temperature_goes_from_proportional_to_equal():
    batches = {"large": 90, "middle": 9, "small": 1}
    assert mix("temperature", batches, 1, 0, heat=1.0).counts == batches
    assert mix("temperature", batches, 1, 0, heat=1e9).counts == {"large": 34, "middle": 33, "small": 33}
    # n ** 1/2 is 9.49, 3, 1: shares of 70.34, 22.24 and 7.41; the largest remainder is rounded up
    assert mix("temperature", batches, 1, 0, heat=2.0).counts == {"large": 70, "middle": 22, "small": 8}


@pytest.mark.parametrize("name", ["round-robin", "proportional", "temperature", "annealed"])
def test_order_is_a_function_of_seed_and_epoch(name):
    batches = {"a": 20, "b": 7}
    first = mix(name, batches, 3, 0, heat=2.0)
    assert mix(name, batches, 3, 0, heat=2.0) == first
    assert mix(name, batches, 3, 1, heat=2.0).order != first.order
    assert mix(name, batches, 4, 0, heat=2.0).order != first.order


def test_a_small_task_starts_again_in_a_new_order():
    visits = [index for task, index in mix("round-robin", {"large": 60, "small": 20}, 1, 0).order if task == "small"]
    passes = [visits[start : start + 20] for start in (0, 20, 40)]
    assert [sorted(each) for each in passes] == [list(range(20))] * 3
    assert passes[0] != passes[1] != passes[2]


@given(BATCHES, SEEDS, st.integers(1, 12), st.integers(0, 15))
@settings(max_examples=100, deadline=None)
def test_annealed_keeps_the_length_and_the_shares_of_its_epoch(batches, seed, epochs, epoch):
    result = mix("annealed", batches, seed, epoch, epochs=epochs)
    check(result, batches)
    total = sum(batches.values())
    assert len(result.order) == total
    power = 1 - 0.8 * (min(epoch, epochs - 1) / (epochs - 1) if epochs > 1 else 0)
    shares = {task: count**power for task, count in batches.items()}
    lifted = sum(share / sum(shares.values()) * total < 1 for share in shares.values())
    for task, share in shares.items():
        exact = share / sum(shares.values()) * total
        assert abs(result.counts[task] - max(exact, 1)) <= 1 + lifted


def test_annealed_starts_proportional_and_goes_towards_equal():
    batches = {"large": 90, "middle": 9, "small": 1}
    counts = [mix("annealed", batches, 1, epoch, epochs=5).counts for epoch in range(5)]
    assert counts[0] == batches
    # n ** 0.2 in the last epoch is 2.460, 1.552, 1: shares of 49.09, 30.96 and 19.96
    assert counts[-1] == {"large": 49, "middle": 31, "small": 20}
    assert [each["large"] for each in counts] == sorted((each["large"] for each in counts), reverse=True)
    assert [each["small"] for each in counts] == sorted(each["small"] for each in counts)
    assert mix("annealed", batches, 1, 9, epochs=5).counts == counts[-1]  # past the plan: as the last one planned
    assert mix("annealed", batches, 1, 0, epochs=1).counts == batches
    assert mix("annealed", batches, 1, 4, epochs=5).counts == counts[-1]
