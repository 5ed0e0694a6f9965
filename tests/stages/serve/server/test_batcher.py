"""Items of several requests in one batch: the right results to the right request, shares, cancellation, errors, the end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from osler.stages.serve.server.batcher import CancelledRequestError, Job, MicroBatcher, Pass
from osler.tasks.instances.base import Instance


class Gate:
    """Work, and a runner, that waits to be let through, and remembers what it was given."""

    def __init__(self, open: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.passes: list[list[int]] = []
        self.entered = threading.Semaphore(0)
        self.let = threading.Semaphore(1000 if open else 0)
        self.broken: set[int] = set()

    def __call__(self, items: Sequence[int]) -> list[int]:
        self._wait(self.batches, list(items))
        return [10 * item for item in items]

    def outputs(self, instances, heads, advance=None):
        self._wait(self.passes, [int(instance.ids[0]) for instance in instances])
        if advance:
            advance(len(instances))
        return {head: [np.array([i.ids.sum(), len(head)]) for i in instances] for head in heads}

    def transitions(self, head):
        return None

    device = "gate"

    def _wait(self, seen: list[list[int]], names: list[int]) -> None:
        seen.append(names)
        self.entered.release()
        assert self.let.acquire(timeout=20)
        if self.broken & set(names):
            raise ArithmeticError


def windows(name: int, count: int = 1, length: int = 4) -> list[Instance]:
    return [Instance(np.array([name] + [1] * (length - 1)), 0) for _ in range(count)]


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(40) as threads:
        yield threads


@pytest.fixture
def start(gate):
    made: list[MicroBatcher] = []

    def start(tokens: int = 100, **more) -> MicroBatcher:
        made.append(MicroBatcher(gate, tokens=tokens, **more))
        return made[-1]

    yield start
    gate.let.release(1000)
    for batcher in made:
        batcher.close()


def ask(made: MicroBatcher, work, *items: int, size: int = 24) -> Job:
    """A job with items of so many characters; with the 16 that each item costs besides, 24 make 40."""
    job = Job(work, items, [size] * len(items))
    made.add(job)
    return job


def held(made: MicroBatcher, gate: Gate) -> Job:
    """A job that is being worked on, so that others wait."""
    job = ask(made, gate, 0)
    assert gate.entered.acquire(timeout=20)
    return job


def result(job: Job) -> list[int]:
    return job.future.result(timeout=20)


def turns(made: MicroBatcher, count: int) -> None:
    """Wait until so many passes of long jobs wait for their turn."""
    with made._changed:
        assert made._changed.wait_for(lambda: len(made._turns) >= count, timeout=20)


def test_requests_that_wait_together_are_answered_together(start, gate):
    made = start()
    jobs = [held(made, gate), *(ask(made, gate, name, name + 1) for name in (1, 3, 5))]
    gate.let.release(2)
    assert [result(job) for job in jobs] == [[0], [10, 20], [30, 40], [50, 60]]
    assert gate.batches == [[0], [1, 2, 3, 4, 5, 6]]


def test_many_items_do_not_hold_up_one(start, gate):
    made = start(tokens=40)  # 160 characters: four items
    first = held(made, gate)
    many, one = ask(made, gate, *range(100)), ask(made, gate, 7)
    gate.let.release(2)
    assert result(one) == [70]  # in the second batch, beside some of the many
    assert gate.batches[1] == [0, 1, 2, 7]
    assert not many.future.done()
    gate.let.release(1000)
    assert result(many) == [10 * number for number in range(100)]
    assert result(first) == [0]
    assert max(map(len, gate.batches)) == 4


def test_many_items_are_not_starved(start, gate):
    """More single items than fit into a batch come before them; they still get their turn."""
    made = start(tokens=20)  # two items
    jobs = [held(made, gate), ask(made, gate, 1, 1, 1, 1), *(ask(made, gate, 2) for _ in range(10))]
    gate.let.release(1000)
    for job in jobs:
        result(job)
    assert [number for number, batch in enumerate(gate.batches) if 1 in batch][:2] == [1, 6]


def test_other_work_is_not_mixed_in(start, gate):
    made = start()
    seen: list[list[int]] = []

    def other(items: Sequence[int]) -> list[int]:
        seen.append(list(items))
        return [-item for item in items]

    first = held(made, gate)
    jobs = [ask(made, work, name) for name, work in ((1, gate), (2, other), (3, gate), (4, other))]
    gate.let.release(1000)
    assert [result(job) for job in [first, *jobs]] == [[0], [10], [-2], [30], [-4]]
    assert gate.batches == [[0], [1, 3]]
    assert seen == [[2, 4]]


def test_an_item_larger_than_a_batch_is_done_alone(start, gate):
    gate.let.release(1000)
    made = start(tokens=8)
    assert result(ask(made, gate, 1, 2, 3, size=500)) == [10, 20, 30]
    assert gate.batches == [[1], [2], [3]]


def test_nothing_in_gives_nothing_out(start, gate):
    made = start()
    assert result(ask(made, gate)) == []
    assert made.outputs([], ["a"]) == {"a": []}
    assert made.device == "gate"
    assert gate.batches == gate.passes == []


def test_a_cancelled_request_is_dropped(start, gate):
    made = start(tokens=20)
    first = held(made, gate)
    gone, stays = ask(made, gate, *[1] * 50), ask(made, gate, *[2] * 5)
    gate.let.release()
    assert gate.entered.acquire(timeout=20)  # a batch with some of both has begun
    gone.cancelled = True
    assert not gone.future.done()  # it still counts as in progress
    gate.let.release(1000)
    with pytest.raises(CancelledRequestError):
        result(gone)
    assert result(stays) == [20] * 5
    assert result(first) == [0]
    assert sum(batch.count(1) for batch in gate.batches) == 1


def test_a_failing_request_fails_alone(start, gate):
    made = start()
    gate.broken.add(3)
    first = held(made, gate)
    jobs = {name: ask(made, gate, name) for name in range(1, 8)}
    gate.let.release(1000)
    with pytest.raises(ArithmeticError):
        result(jobs.pop(3))
    assert {name: result(job) for name, job in jobs.items()} == {name: [10 * name] for name in jobs}
    assert result(first) == [0]
    assert len(gate.batches) <= 8  # found in halves
    gate.broken.clear()
    assert result(ask(made, gate, 3)) == [30]  # and the batcher lives on


def test_a_request_of_several_batches_that_fails_leaves_nothing_behind(start, gate):
    gate.let.release(1000)
    gate.broken.add(2)
    made = start(tokens=10)
    with pytest.raises(ArithmeticError):
        result(ask(made, gate, 1, 2, 3, 4))
    assert result(ask(made, gate, 5)) == [50]
    assert gate.batches == [[1], [2], [5]]


def test_work_that_gives_too_little_is_an_error(start):
    made = start()
    job = ask(made, lambda items: items[1:], 1, 2)
    with pytest.raises(RuntimeError):
        result(job)


def test_batches_and_passes_of_a_long_request_take_turns(start, gate, pool):
    seen: list[Pass] = []
    made = start(tokens=40, observe=seen.append)
    first = held(made, gate)

    def read(items: Sequence[int]) -> list[float]:
        return [float(sum(row[0] for row in made.outputs(windows(item, 100), ["a"])["a"])) for item in items]

    long = Job(read, [5], [10**6])
    pool.submit(made.run, long)
    turns(made, 1)
    short = ask(made, gate, 1)
    gate.let.release(3)  # what was held, one pass, one batch
    assert result(short) == [10]
    assert not long.future.done()
    assert gate.passes[0] == [5] * 10  # the budget of a pass
    gate.let.release(1000)
    assert result(long) == [800.0]
    assert result(first) == [0]
    assert max(map(len, gate.passes)) == 10
    assert sum(map(len, gate.passes)) == 100
    assert [(done.tokens, done.requests) for done in seen] == [(40, 1)] * 10


def test_long_requests_take_turns(start, gate, pool):
    made = start(tokens=4)
    first = held(made, gate)
    works = [lambda _, name=name: [made.outputs(windows(name, 3), ["a"])] for name in (1, 2)]
    jobs = [Job(work, [0], [10**6]) for work in works]
    for count, job in enumerate(jobs, start=1):
        pool.submit(made.run, job)
        turns(made, count)
    gate.let.release()  # what was held
    for _ in range(5):
        assert gate.entered.acquire(timeout=20)  # one of them has begun its next pass
        turns(made, 1)  # the other waits
        gate.let.release()
    gate.let.release(1000)
    assert [len(result(job)) for job in [first, *jobs]] == [1, 1, 1]
    assert gate.passes == [[1], [2], [1], [2], [1], [2]]


def test_a_cancelled_long_request_ends_at_the_next_pass(start, gate, pool):
    made = start(tokens=4)
    job = Job(lambda _: made.outputs(windows(1, 50), ["a"])["a"], [0], [10**6])
    pool.submit(made.run, job)
    assert gate.entered.acquire(timeout=20)
    job.cancelled = True
    gate.let.release(1000)
    with pytest.raises(CancelledRequestError):
        result(job)
    assert len(gate.passes) == 1


def test_the_windows_of_a_batch_share_a_pass(start, gate):
    seen: list[Pass] = []
    made = start(tokens=100, observe=seen.append)
    first = held(made, gate)

    def read(items: Sequence[int]) -> list[int]:
        done: list[int] = []
        rows = made.outputs([window for item in items for window in windows(item)], ["a"], done.append)["a"]
        assert done == [len(items)]
        return [int(row[0]) for row in rows]

    jobs = [ask(made, read, 1, 2), ask(made, read, 3)]
    gate.let.release(1000)
    assert [result(job) for job in jobs] == [[4, 5], [6]]
    assert gate.passes == [[1, 2, 3]]
    assert [(done.tokens, done.requests) for done in seen] == [(12, 2)]
    result(first)


def test_others_are_answered_in_the_midst_of_a_large_batch(start, gate):
    """Relations may make many windows of a short text."""
    made = start(tokens=20)
    large = ask(made, lambda items: [len(made.outputs(windows(item, 100), ["a"])["a"]) for item in items], 1)
    assert gate.entered.acquire(timeout=20)
    short = ask(made, gate, 2)
    gate.let.release(2)
    assert result(short) == [20]
    assert not large.future.done()
    gate.let.release(1000)
    assert result(large) == [100]
    assert sum(map(len, gate.passes)) == 100
    assert max(map(len, gate.passes)) == 10  # twice the budget


def test_items_keep_their_places_when_later_ones_are_done_in_the_midst_of_earlier_ones(start, gate):
    """The rest of a request that takes several batches waits like any other, and may have its turn between two passes of the first."""
    gate.let.release(1000)
    made = start(tokens=20)

    def read(items: Sequence[int]) -> list[int]:
        for item in items:
            made.outputs(windows(item, 30), ["a"])
        return [10 * item for item in items]

    items = list(range(1, 9))
    assert result(ask(made, read, *items)) == [10 * item for item in items]


def test_a_request_that_fails_in_several_batches_at_once_ends_once(start, gate):
    gate.let.release(1000)
    made = start(tokens=20)

    def read(items: Sequence[int]) -> list[int]:
        made.outputs(windows(items[0], 30), ["a"])
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        result(ask(made, read, *range(1, 9)))
    assert result(ask(made, gate, 5)) == [50]  # the thread is alive


def test_windows_that_are_begun_are_computed_when_it_is_their_turn(start, gate, pool):
    made = start(tokens=40)
    first = held(made, gate)
    waited = made.begin(windows(5, 15), ["a"])
    assert not made._turns
    found = pool.submit(waited)
    turns(made, 1)
    assert not gate.passes
    gate.let.release(1000)
    assert [row[0] for row in found.result(timeout=20)["a"]] == [8] * 15
    assert result(first) == [0]


def test_closing_finishes_what_waits(start, gate, pool):
    made = start(tokens=20)
    jobs = [held(made, gate), *(ask(made, gate, name) for name in range(1, 5))]
    ends = pool.submit(made.close)
    gate.let.release(1000)
    ends.result(timeout=20)
    assert [result(job) for job in jobs] == [[10 * name] for name in range(5)]
    with pytest.raises(RuntimeError, match="closed"):
        ask(made, gate, 1)
    with pytest.raises(RuntimeError, match="closed"):
        made.outputs(windows(1), ["a"])


def test_many_requests_at_once_get_their_own_results(gate, pool):
    gate.let.release(10_000)
    made = MicroBatcher(gate, tokens=64)
    asked = {name: [name + number for number in range(1 + name % 7)] for name in range(200)}
    found = pool.map(lambda items: result(ask(made, gate, *items)), asked.values())
    assert list(found) == [[10 * item for item in items] for items in asked.values()]
    made.close()
    assert len(gate.batches) < sum(map(len, asked.values()))  # some were shared
