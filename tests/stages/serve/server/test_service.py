"""Admission, cancellation, an answer that comes too late, and an orderly end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.server.batcher import BusyError, CancelledRequestError, OverdueError, StoppingError
from osler.stages.serve.server.service import AnnotationService
from osler.stages.serve.server.settings import ServeRecipe
from osler.text.document import Document


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
        self.begun, self.go, self.tickets = threading.Semaphore(0), threading.Event(), []

    def __call__(self, ticket):
        self.tickets.append(ticket)
        self.begun.release()
        assert self.go.wait(20)
        return "done"


async def begun(held: Held) -> None:
    assert await asyncio.to_thread(held.begun.acquire, timeout=20)


def test_too_many_requests_are_refused_with_a_time_to_come_back(start):
    service, held = start(queue=2), Held()

    async def play():
        tasks = [asyncio.create_task(service.perform(held, 1)) for _ in range(2)]
        await begun(held)
        await begun(held)
        assert service.admitted == 2
        with pytest.raises(BusyError) as refused:
            await service.perform(held, 1)
        assert refused.value.retry_after >= 1
        held.go.set()
        assert await asyncio.gather(*tasks) == ["done", "done"]
        await asyncio.sleep(0)
        assert service.admitted == 0
        assert await service.perform(lambda _: "again", 1) == "again"

    asyncio.run(play())


def test_a_client_that_hangs_up_cancels_its_work(start):
    service, held = start(), Held()

    async def play():
        gone = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(service.perform(held, 1, lambda: gone))
        await begun(held)
        gone.set_result({"type": "http.disconnect"})
        with pytest.raises(CancelledRequestError):
            await task
        assert held.tickets[0].cancelled
        assert service.admitted == 1  # its thread still works
        held.go.set()

    asyncio.run(play())


def test_cancelled_work_ends_at_the_next_batch_of_documents(start, monkeypatch):
    """No document of a request is annotated after its client has gone."""
    service, held = start(), Held()
    passes: list[int] = []

    def slow(self, records):
        passes.append(len(records))
        held.begun.release()
        assert held.go.wait(20)
        return records

    monkeypatch.setattr("osler.stages.serve.engine.AnnotationEngine.annotate", slow)

    async def play():
        gone = asyncio.get_running_loop().create_future()
        notes = [Document(str(n), "a") for n in range(500)]
        task = asyncio.create_task(service.annotate(notes, AnnotateOptions(), lambda: gone))
        await begun(held)
        gone.set_result(None)
        with pytest.raises(CancelledRequestError):
            await task
        held.go.set()

    asyncio.run(play())
    service.close()
    assert passes == [64]


def test_an_answer_that_comes_too_late_is_given_up(start):
    service, held = start(answer_seconds=0.02), Held()

    async def play():
        with pytest.raises(OverdueError):
            await service.perform(held, 1)
        held.go.set()

    asyncio.run(play())


def test_long_requests_leave_threads_for_short_ones(start):
    service, held = start(threads=4, queue=50), Held()

    async def play():
        long = [asyncio.create_task(service.perform(held, 10**6)) for _ in range(10)]
        await begun(held)
        assert await service.perform(lambda _: "short", 10) == "short"
        held.go.set()
        await asyncio.gather(*long)

    asyncio.run(play())


def test_stopping_finishes_what_was_admitted_and_takes_nothing_new(start):
    service, held = start(), Held()

    async def play():
        task = asyncio.create_task(service.perform(held, 1))
        await begun(held)
        service.stopping = True
        with pytest.raises(StoppingError):
            await service.perform(held, 1)
        ends = asyncio.create_task(asyncio.to_thread(service.close))
        held.go.set()
        assert await task == "done"
        await ends

    asyncio.run(play())


def test_an_error_reaches_the_one_who_asked(start):
    service = start()

    def fail(_):
        raise ArithmeticError

    async def play():
        with pytest.raises(ArithmeticError):
            await service.perform(fail, 1)
        assert await service.perform(lambda _: 1, 1) == 1

    asyncio.run(play())


def test_engines_for_options_are_kept_and_bounded(start):
    service = start()
    same = AnnotateOptions(min_score=0.5)
    assert service._asked(same) is service._asked(AnnotateOptions(min_score=0.5))
    for number in range(100):
        assert service._asked(AnnotateOptions(min_score=number / 100)).options.min_score == number / 100
    assert len(service._engines) <= 32
