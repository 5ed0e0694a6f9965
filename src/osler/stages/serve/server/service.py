"""The work behind the routes: admission, threads, cancellation and an orderly end. Knows nothing about HTTP."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from osler.artifacts.bundle import Bundle
from osler.core.artifact import Artifact
from osler.core.errors import ArtifactError
from osler.core.models import installed_as
from osler.formats.jsonl import json_line
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.engine import AnnotationEngine
from osler.stages.serve.server.batcher import (
    BusyError,
    CancelledRequestError,
    MicroBatcher,
    OverdueError,
    Pass,
    StoppingError,
    Ticket,
)
from osler.stages.serve.server.metrics import COMPANY, SECONDS, TOKENS, Metrics, give_back_memory, resident_bytes
from osler.stages.serve.server.settings import ServeRecipe
from osler.text.document import Document, Record

T = TypeVar("T")
Gone = Callable[[], Awaitable[object]]
_LONG = 20_000
"""Characters from which a request counts as long. Long requests get a quarter of the threads, so that short ones find one free."""
_KEPT = 32
_TRIM_SECONDS = 15.0
_AT_ONCE = 64
"""Records of a request that are annotated together, as on the command line."""


class AnnotationService:
    """An engine whose encoder passes are shared by all requests."""

    def __init__(self, engine: AnnotationEngine, settings: ServeRecipe) -> None:
        self.settings = settings
        self.metrics = _metrics(self)
        self.stopping = False
        self._batcher = MicroBatcher(
            engine.bundle.runner,
            tokens=settings.batch_tokens or _budget(engine),
            wait=settings.wait_ms / 1000,
            observe=self._observe,
        )
        # Frozen classes: the copies share everything but the runner.
        self.engine = replace(engine, bundle=replace(engine.bundle, runner=self._batcher))
        self.about = _about(settings.bundle)
        """Name, digest and model card of the bundle."""
        _ = self.engine.bundle.builders  # made once, before threads could race for them
        few = max(1, settings.threads // 4)
        self._long = ThreadPoolExecutor(few, thread_name_prefix="osler-long")
        self._short = ThreadPoolExecutor(settings.threads - few, thread_name_prefix="osler-short")
        self._lock = threading.Lock()
        self._engines: dict[str, AnnotationEngine] = {}
        self._admitted = 0
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
        """Annotate documents or pairs of texts; the lines that `osler annotate` prints for them.

        When what `gone` returns is done, nobody waits for the answer any more and the work is given up.
        """
        engine = self._asked(options)

        def work(ticket: Ticket) -> list[str]:
            lines: list[str] = []
            for start in range(0, len(records), _AT_ONCE):
                if ticket.cancelled:
                    raise CancelledRequestError
                lines += map(json_line, engine.annotate(records[start : start + _AT_ONCE]))
            return lines

        size = sum(len(r.text) if isinstance(r, Document) else len(r.first) + len(r.second) for r in records)
        lines = await self.perform(work, size, gone)
        self.metrics.add("osler_records_total", len(records))
        return lines

    async def perform(self, work: Callable[[Ticket], T], size: int, gone: Gone | None = None) -> T:
        """Do the work of one request in a thread. `size` is the number of characters it is about."""
        if self.stopping:
            raise StoppingError
        with self._lock:
            if self._admitted >= self.settings.queue:
                raise BusyError(self._retry_after())
            self._admitted += 1
            alone = self._admitted == 1
        ticket = Ticket()
        pool: MicroBatcher | ThreadPoolExecutor
        pool = self._long if size > _LONG else self._batcher if alone else self._short
        submitted: Future[T] = pool.submit(self._work, work, ticket)
        submitted.add_done_callback(self._released)  # of the thread: the work may go on after nobody waits for it
        running = asyncio.wrap_future(submitted)
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
                ticket.cancel()
                running.cancel()  # has an effect only if no thread has begun with it

    def _asked(self, options: AnnotateOptions) -> AnnotationEngine:
        """The engine for these options. The last few are kept, since an engine may prepare something for its options."""
        key = options.model_dump_json()
        with self._lock:
            engine = self._engines.pop(key, None) or replace(self.engine, options=options)
            self._engines[key] = engine
            while len(self._engines) > _KEPT:
                del self._engines[next(iter(self._engines))]
        return engine

    def close(self) -> None:
        """Finish what was admitted, and end all threads."""
        self.stopping = True
        self._short.shutdown()
        self._long.shutdown()
        self._batcher.close()

    def _work(self, work: Callable[[Ticket], T], ticket: Ticket) -> T:
        with self._batcher.request(ticket):
            return work(ticket)

    def _released(self, _: object) -> None:
        with self._lock:
            self._admitted -= 1

    def _retry_after(self) -> int:
        """Seconds until there should be room again: the time that the work waiting now takes."""
        return max(1, min(60, math.ceil(self._batcher.waiting_tokens / self._rate))) if self._rate else 1

    def _observe(self, done: Pass) -> None:
        speed = done.tokens / max(done.seconds, 1e-6)
        self._rate = speed if not self._rate else 0.9 * self._rate + 0.1 * speed
        self.metrics.add("osler_tokens_total", done.tokens)
        self.metrics.observe("osler_pass_tokens", done.tokens)
        self.metrics.observe("osler_pass_requests", done.requests)
        if time.monotonic() - self._trimmed > _TRIM_SECONDS:
            give_back_memory()
            self._trimmed = time.monotonic()


def _budget(engine: AnnotationEngine) -> int:
    """A pass on a CPU should not hold up the next request for long; a GPU is idle with less."""
    model = getattr(engine.bundle.runner, "model", None)  # an ONNX runner has none
    return 32_768 if model is not None and next(model.parameters()).is_cuda else 2_048


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
