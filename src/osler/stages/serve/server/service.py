"""The work behind the routes: admission, threads, cancellation and shutdown. Knows nothing about HTTP."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from osler.artifacts.bundle import Bundle
from osler.core.artifact import Artifact
from osler.core.config import Recipe
from osler.core.errors import ArtifactError
from osler.core.models import installed_as
from osler.core.processes import cores
from osler.formats.jsonl import json_line
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.engine import AnnotationEngine, annotate_together
from osler.stages.serve.server.batcher import (
    CHARACTERS,
    BusyError,
    CancelledRequestError,
    Job,
    MicroBatcher,
    OverdueError,
    Pass,
    StoppingError,
    Work,
)
from osler.stages.serve.server.metrics import COMPANY, SECONDS, TOKENS, Metrics, give_back_memory, resident_bytes
from osler.stages.serve.server.settings import ServeRecipe
from osler.text.document import Document, Record

T = TypeVar("T")
R = TypeVar("R")
Asked = TypeVar("Asked", bound=Recipe)
Gone = Callable[[], Awaitable[object]]
_LONG = 20_000
"""Requests with a text longer than this many characters run in a thread of their own."""
_KEPT = 32
_TRIM_SECONDS = 15.0


class Prepared(Generic[Asked, R]):
    """Cache of objects prepared for the most recent options. Thread-safe."""

    def __init__(self, prepare: Callable[[Asked], R]) -> None:
        self._prepare = prepare
        self._lock = threading.Lock()
        self._known: dict[str, R] = {}

    def __call__(self, options: Asked) -> R:
        key = options.model_dump_json()
        with self._lock:
            found = self._known.pop(key) if key in self._known else self._prepare(options)
            self._known[key] = found
            while len(self._known) > _KEPT:
                del self._known[next(iter(self._known))]
        return found


class AnnotationService:
    """An engine shared by all requests."""

    def __init__(self, engine: AnnotationEngine, settings: ServeRecipe) -> None:
        self.settings = settings
        self.metrics = _metrics(self)
        self.stopping = False
        self._batcher = MicroBatcher(
            engine.bundle.runner,
            tokens=settings.batch_tokens or _budget(engine),
            observe=self._observe,
        )
        # The classes are frozen: copies share everything but the runner.
        self.engine = replace(engine, bundle=replace(engine.bundle, runner=self._batcher))
        self.about = _about(settings.bundle)
        """Name, digest and model card of the bundle."""
        _ = self.engine.bundle.builders  # built once, before threads could race for them
        self._long = ThreadPoolExecutor(settings.threads, thread_name_prefix="osler-long")
        self._lock = threading.Lock()
        self._engines = Prepared[AnnotateOptions, AnnotationEngine](
            lambda options: replace(self.engine, options=options)
        )
        self._admitted = self._characters = 0
        self._trimmed = time.monotonic()
        self._rate = 0.0
        """Tokens computed per second, smoothed."""

    @property
    def admitted(self) -> int:
        """Requests in progress or waiting."""
        return self._admitted

    async def annotate(
        self, records: Sequence[Record], options: AnnotateOptions, gone: Gone | None = None
    ) -> list[str]:
        """Annotate documents or pairs of texts, and return the lines that `osler annotate` prints for them.

        When the awaitable returned by `gone` is done, nobody waits for the answer any more and the work is cancelled.
        """
        engine = self._engines(options)
        for kind in {type(record) for record in records}:
            engine.reading(kind, None)  # reject impossible options before the request shares a batch
        sizes = [len(r.text) if isinstance(r, Document) else len(r.first) + len(r.second) for r in records]
        lines = await self.perform(_lines, [(engine, record) for record in records], sizes, gone)
        self.metrics.add("osler_records_total", len(records))
        return lines

    async def perform(
        self, work: Work[T, R], items: Sequence[T], sizes: Sequence[int], gone: Gone | None = None
    ) -> list[R]:
        """Do the work of one request. `sizes` are the characters of each item. Requests with equal work share batches."""
        if self.stopping:
            raise StoppingError
        job = Job(work, items, sizes)
        with self._lock:
            if self._admitted >= self.settings.queue:
                raise BusyError(self._retry_after())
            self._admitted += 1
            self._characters += sum(sizes)
        job.future.add_done_callback(lambda _: self._released(sum(sizes)))  # not before its work has ended
        begun: Future[None] | None = None
        if max(sizes, default=0) > _LONG:
            begun = self._long.submit(self._batcher.run, job)
        else:
            self._batcher.add(job)
        running = asyncio.wrap_future(job.future)
        watched: set[asyncio.Future[Any]] = {asyncio.ensure_future(gone())} if gone else set()
        waited: set[asyncio.Future[Any]] = {running, *watched}
        try:
            await asyncio.wait(waited, timeout=self.settings.answer_seconds, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            left = any(watcher.done() for watcher in watched)
            raise CancelledRequestError if left else OverdueError
        finally:
            for watcher in watched:
                watcher.cancel()
            if not running.done():
                job.cancelled = True
                running.cancel()  # only so that asyncio does not report an unread result
                if begun and begun.cancel():  # no thread has started it
                    job.future.set_exception(CancelledRequestError())

    def close(self) -> None:
        """Finish admitted work, and stop all threads."""
        self.stopping = True
        self._long.shutdown()
        self._batcher.close()

    def _released(self, characters: int) -> None:
        with self._lock:
            self._admitted -= 1
            self._characters -= characters

    def _retry_after(self) -> int:
        """Estimate the seconds until there is room again: the time for the work in progress."""
        return max(1, min(60, math.ceil(self._characters / CHARACTERS / self._rate))) if self._rate else 1

    def _observe(self, done: Pass) -> None:
        speed = done.tokens / max(done.seconds, 1e-6)
        self._rate = speed if not self._rate else 0.9 * self._rate + 0.1 * speed
        self.metrics.add("osler_tokens_total", done.tokens)
        self.metrics.observe("osler_pass_tokens", done.tokens)
        self.metrics.observe("osler_pass_requests", done.requests)
        if time.monotonic() - self._trimmed > _TRIM_SECONDS:
            give_back_memory()
            self._trimmed = time.monotonic()


def _lines(asked: Sequence[tuple[AnnotationEngine, Record]]) -> list[str]:
    """Annotate each record with its engine, and return the lines."""
    chosen = [(engine, record, engine.languages([record])[0]) for engine, record in asked]
    return [json_line(record) for record in annotate_together(chosen)]


def _budget(engine: AnnotationEngine) -> int:
    """Tokens per pass. On a CPU, enough for all cores, but a pass should not hold up the next request for long; a GPU is idle with
    less."""
    model = getattr(engine.bundle.runner, "model", None)  # an ONNX runner has none
    return 32_768 if model is not None and next(model.parameters()).is_cuda else max(2_048, 1_024 * cores())


def _about(folder: Path) -> dict[str, str]:
    try:
        digest = Artifact.open(folder, kind="bundle").manifest.digest
    except ArtifactError:  # not made by osler on this machine
        digest = ""
    known = installed_as(folder)
    return {
        "name": known.name if known else folder.resolve().name,
        "model_version": known.version if known else "",
        "digest": digest,
        "markdown": Bundle.read_card(folder),
    }


def _metrics(service: AnnotationService) -> Metrics:
    metrics = Metrics()
    metrics.counter("osler_requests_total", "Requests by route and status.")
    metrics.histogram("osler_request_seconds", "Time from the first byte to the last, by route.", SECONDS)
    metrics.counter("osler_records_total", "Documents and pairs of texts annotated.")
    metrics.counter("osler_tokens_total", "Tokens computed.")
    metrics.histogram("osler_pass_tokens", "Tokens in one encoder pass.", TOKENS)
    metrics.histogram("osler_pass_requests", "Requests that shared one encoder pass.", COMPANY)
    metrics.gauge("osler_requests_in_progress", "Requests in progress or waiting.", lambda: service.admitted)
    metrics.gauge("osler_queue_limit", "Requests that may wait before 429 is answered.", lambda: service.settings.queue)
    metrics.gauge("process_resident_memory_bytes", "Memory of the process.", resident_bytes)
    return metrics
