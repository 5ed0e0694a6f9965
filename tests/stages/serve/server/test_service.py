"""Admission, cancellation, an answer that comes too late, and an orderly end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.server.batcher import BusyError, CancelledRequestError, OverdueError, StoppingError
from osler.stages.serve.server.service import AnnotationService
from osler.stages.serve.server.settings import ServeRecipe


@pytest.fixture
def start(engine, bundle):
    made: list[AnnotationService] = []

    def start(**settings) -> AnnotationService:
        made.append(AnnotationService(engine, ServeRecipe(bundle=bundle, **settings)))
        return made[-1]

    yield start
    for service in made:
        service.close()


class Held:
    """Work that goes on until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go, self.batches = threading.Semaphore(0), threading.Event(), []

    def __call__(self, items):
        self.batches.append(list(items))
        self.begun.release()
        assert self.go.wait(20)
        return [f"{item} done" for item in items]


def ask(service, work, *items, size=1, gone=None):
    return service.perform(work, items, [size] * len(items), gone)


def again(items):
    return [f"{item} again" for item in items]


async def begun(held: Held) -> None:
    assert await asyncio.to_thread(held.begun.acquire, timeout=20)


def test_too_many_requests_are_refused_with_a_time_to_come_back(start):
    service, held = start(queue=2), Held()

    async def play():
        tasks = [asyncio.create_task(ask(service, held, n)) for n in range(2)]
        await begun(held)
        assert service.admitted == 2
        with pytest.raises(BusyError) as refused:
            await ask(service, held, 2)
        assert refused.value.retry_after >= 1
        held.go.set()
        assert await asyncio.gather(*tasks) == [["0 done"], ["1 done"]]
        await asyncio.sleep(0)
        assert service.admitted == 0
        assert await ask(service, again, 3) == ["3 again"]

    asyncio.run(play())


def test_a_client_that_hangs_up_cancels_its_work(start):
    service, held = start(), Held()

    async def play():
        gone = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(ask(service, held, 1, gone=lambda: gone))
        await begun(held)
        gone.set_result({"type": "http.disconnect"})
        with pytest.raises(CancelledRequestError):
            await task
        assert service.admitted == 1  # it is still worked on
        held.go.set()

    asyncio.run(play())


def test_a_long_request_that_no_thread_has_come_to_makes_room_when_its_client_hangs_up(start):
    service, held = start(threads=1), Held()

    async def play():
        gone = asyncio.get_running_loop().create_future()
        first = asyncio.create_task(ask(service, held, 1, size=10**6))
        await begun(held)
        second = asyncio.create_task(ask(service, held, 2, size=10**6, gone=lambda: gone))
        await asyncio.sleep(0)
        assert service.admitted == 2
        gone.set_result(None)
        with pytest.raises(CancelledRequestError):
            await second
        assert service.admitted == 1
        held.go.set()
        assert await first == ["1 done"]

    asyncio.run(play())
    assert held.batches == [[1]]


@pytest.mark.parametrize(("size", "most"), [(100, 90), (30_000, 64)])
def test_cancelled_work_ends_at_the_next_batch(start, size, most):
    """Nothing more is done for a request whose client has gone, be its texts short or long."""
    service, held = start(), Held()

    async def play():
        gone = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(ask(service, held, *range(500), size=size, gone=lambda: gone))
        await begun(held)
        gone.set_result(None)
        with pytest.raises(CancelledRequestError):
            await task
        held.go.set()

    asyncio.run(play())
    service.close()
    assert [len(batch) <= most for batch in held.batches] == [True]


def test_an_answer_that_comes_too_late_is_given_up(start):
    service, held = start(answer_seconds=0.02), Held()

    async def play():
        with pytest.raises(OverdueError):
            await ask(service, held, 1)
        held.go.set()

    asyncio.run(play())


def test_long_requests_do_not_hold_up_short_ones(start):
    service, held = start(threads=2, queue=50), Held()

    async def play():
        long = [asyncio.create_task(ask(service, held, n, size=10**6)) for n in range(10)]
        await begun(held)
        assert await ask(service, again, "short") == ["short again"]
        held.go.set()
        await asyncio.gather(*long)

    asyncio.run(play())


def test_stopping_finishes_what_was_admitted_and_takes_nothing_new(start):
    service, held = start(), Held()

    async def play():
        tasks = [asyncio.create_task(ask(service, held, size, size=size)) for size in (1, 10**6)]
        await begun(held)
        await begun(held)
        service.stopping = True
        with pytest.raises(StoppingError):
            await ask(service, held, 1)
        ends = asyncio.create_task(asyncio.to_thread(service.close))
        held.go.set()
        assert await asyncio.gather(*tasks) == [["1 done"], ["1000000 done"]]
        await ends

    asyncio.run(play())


def test_an_error_reaches_the_one_who_asked(start):
    service = start()

    def fail(_):
        raise ArithmeticError

    async def play():
        with pytest.raises(ArithmeticError):
            await ask(service, fail, 1)
        assert await ask(service, again, 1) == ["1 again"]

    asyncio.run(play())


def test_engines_for_options_are_kept_and_bounded(start):
    service = start()
    same = AnnotateOptions(min_score=0.5)
    assert service._engines(same) is service._engines(AnnotateOptions(min_score=0.5))
    for number in range(100):
        assert service._engines(AnnotateOptions(min_score=number / 100)).options.min_score == number / 100
    assert len(service._engines._known) <= 32
