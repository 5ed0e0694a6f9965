"""Windows of several requests in one pass: the right rows to the right request, shares, cancellation, errors, the end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from osler.stages.serve.server.batcher import CancelledRequestError, MicroBatcher, Pass, Ticket
from osler.tasks.instances.base import Instance


class Gate:
    """A runner that waits to be let through, and remembers its passes. Its output is the sum of an instance's ids."""

    def __init__(self, open: bool = False) -> None:
        self.passes: list[list[int]] = []
        self.entered = threading.Semaphore(0)
        self.let = threading.Semaphore(1000 if open else 0)
        self.broken: set[int] = set()

    def outputs(self, instances, heads, advance=None):
        self.entered.release()
        assert self.let.acquire(timeout=20)
        names = [int(instance.ids[0]) for instance in instances]
        self.passes.append(names)
        if self.broken & set(names):
            raise ArithmeticError
        return {head: [np.array([i.ids.sum(), len(head)]) for i in instances] for head in heads}

    def transitions(self, head):
        return None

    device = "gate"


def windows(name: int, count: int = 1, length: int = 4, marks=None) -> list[Instance]:
    return [Instance(np.array([name] + [1] * (length - 1)), 0, marks=marks) for _ in range(count)]


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(40) as threads:
        yield threads


def batcher(gate: Gate, tokens: int = 100, **more) -> MicroBatcher:
    return MicroBatcher(gate, tokens=tokens, wait=0.0, **more)


def waiting(made: MicroBatcher, tokens: int) -> None:
    """Wait until so many tokens wait for a pass."""
    with made._changed:
        assert made._changed.wait_for(lambda: sum(job.waiting for job in made._jobs) >= tokens, timeout=20)


def test_requests_that_wait_together_are_computed_together(gate, pool):
    seen: list[Pass] = []
    made = batcher(gate, observe=seen.append)
    first = pool.submit(made.outputs, windows(1), ["a"])
    assert gate.entered.acquire(timeout=20)
    others = {name: pool.submit(made.outputs, windows(name, 2), ["a"]) for name in (2, 3, 4)}
    waiting(made, 3 * 2 * 4)
    gate.let.release(2)
    assert first.result(timeout=20)["a"][0].tolist() == [1 + 3, 1]
    for name, future in others.items():
        assert [row.tolist() for row in future.result(timeout=20)["a"]] == [[name + 3, 1]] * 2
    made.close()
    assert gate.passes[0] == [1]
    assert sorted(gate.passes[1]) == [2, 2, 3, 3, 4, 4]
    assert [(done.tokens, done.windows, done.requests) for done in seen] == [(4, 1, 1), (24, 6, 3)]


def test_a_short_request_does_not_wait_for_a_long_one(gate, pool):
    made = batcher(gate, tokens=40)
    long = pool.submit(made.outputs, windows(1, 100), ["a"])
    assert gate.entered.acquire(timeout=20)
    short = pool.submit(made.outputs, windows(2, 2), ["a"])
    waiting(made, 100 * 4 - 40 + 2 * 4)
    gate.let.release(2)
    assert len(short.result(timeout=20)["a"]) == 2  # in the second pass, beside windows of the long one
    assert sorted(gate.passes[1]) == [1] * 8 + [2] * 2
    gate.let.release(100)
    assert len(long.result(timeout=20)["a"]) == 100
    made.close()
    assert sum(map(len, gate.passes)) == 102
    assert max(map(len, gate.passes)) == 10  # the budget


def test_a_long_request_is_not_starved(gate, pool):
    """More short requests than fit into a pass come before it; it still gets its turn."""
    made = batcher(gate, tokens=8)
    held = pool.submit(made.outputs, windows(9), ["a"])
    assert gate.entered.acquire(timeout=20)
    long = pool.submit(made.outputs, windows(1, 4), ["a"])
    waiting(made, 16)
    short = [pool.submit(made.outputs, windows(2), ["a"]) for _ in range(10)]
    waiting(made, 16 + 40)
    gate.let.release(100)
    for future in [held, long, *short]:
        future.result(timeout=20)
    made.close()
    turns = [number for number, names in enumerate(gate.passes) if 1 in names]
    assert turns[:2] == [1, 6]  # after every short request had one, it has its second


def test_only_windows_of_the_same_heads_and_marks_share_a_pass(gate, pool):
    made = batcher(gate)
    held = pool.submit(made.outputs, windows(9), ["a"])
    assert gate.entered.acquire(timeout=20)
    kinds = [(2, ["a"], None), (3, ["b"], None), (4, ["a"], (0, 1)), (5, ["a"], None)]
    futures = [pool.submit(made.outputs, windows(n, marks=marks), heads) for n, heads, marks in kinds]
    waiting(made, 16)
    gate.let.release(10)
    for future in [held, *futures]:
        future.result(timeout=20)
    made.close()
    assert sorted(map(sorted, gate.passes)) == [[2, 5], [3], [4], [9]]


def test_a_window_longer_than_a_pass_is_computed_alone(pool):
    gate = Gate(open=True)
    made = batcher(gate, tokens=8)
    assert len(made.outputs(windows(1, 3, length=50), ["a"])["a"]) == 3
    made.close()
    assert gate.passes == [[1], [1], [1]]


def test_a_cancelled_request_is_dropped(gate, pool):
    made = batcher(gate, tokens=8)
    ticket, other = Ticket(), Ticket()

    def ask(ticket, name):
        with made.request(ticket):
            return made.outputs(windows(name, 50), ["a"])

    gone = pool.submit(ask, ticket, 1)
    assert gate.entered.acquire(timeout=20)
    stays = pool.submit(ask, other, 2)
    waiting(made, 48 * 4 + 50 * 4)
    ticket.cancel()
    gate.let.release(1000)
    with pytest.raises(CancelledRequestError):
        gone.result(timeout=20)
    assert len(stays.result(timeout=20)["a"]) == 50
    made.close()
    assert sum(names.count(1) for names in gate.passes) == 2  # the pass that had begun


def test_a_failing_request_fails_alone(gate, pool):
    made = batcher(gate)
    gate.broken.add(3)
    held = pool.submit(made.outputs, windows(9), ["a"])
    assert gate.entered.acquire(timeout=20)
    good, bad = pool.submit(made.outputs, windows(2), ["a"]), pool.submit(made.outputs, windows(3), ["a"])
    waiting(made, 8)
    gate.let.release(10)
    assert len(good.result(timeout=20)["a"]) == 1
    with pytest.raises(ArithmeticError):
        bad.result(timeout=20)
    held.result(timeout=20)
    gate.broken.clear()
    assert len(made.outputs(windows(3), ["a"])["a"]) == 1  # and the batcher lives on
    made.close()


def test_a_request_with_several_passes_that_fails_leaves_nothing_behind(pool):
    gate = Gate(open=True)
    gate.broken.add(1)
    made = batcher(gate, tokens=4)
    with pytest.raises(ArithmeticError):
        made.outputs(windows(1, 5), ["a"])
    assert made.waiting_tokens == 0
    made.close()
    assert len(gate.passes) == 1


def test_closing_finishes_what_waits(gate, pool):
    made = batcher(gate, tokens=4)
    futures = [pool.submit(made.outputs, windows(name), ["a"]) for name in range(5)]
    waiting(made, 16)
    ends = pool.submit(made.close)
    gate.let.release(10)
    ends.result(timeout=20)
    assert all(len(future.result(timeout=20)["a"]) == 1 for future in futures)
    with pytest.raises(RuntimeError, match="closed"):
        made.outputs(windows(1), ["a"])


def test_many_requests_at_once_get_their_own_rows(pool):
    gate = Gate(open=True)
    made = MicroBatcher(gate, tokens=64, wait=0.002)

    def ask(name):
        with made.request(Ticket()):
            rows = [made.outputs(windows(name, 1 + name % 7, 2 + name % 5), ["a", "bb"]) for _ in range(3)]
        return all(
            row.tolist() == [name + 1 + name % 5, len(head)]
            for found in rows
            for head, values in found.items()
            for row in values
        )

    assert all(pool.map(ask, range(200)))
    made.close()
    assert len(gate.passes) < 600  # some were shared


def test_nothing_in_gives_nothing_out():
    gate = Gate()
    made = batcher(gate)
    assert made.outputs([], ["a"]) == {"a": []}
    assert made.device == "gate"
    done: list[int] = []
    gate.let.release()
    made.outputs(windows(1), ["a"], done.append)
    assert done == [1]
    made.close()
