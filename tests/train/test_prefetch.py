from __future__ import annotations

import threading

import pytest

from osler.train.source import prefetch


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
