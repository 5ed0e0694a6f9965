"""Start the service, and shut it down cleanly."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from osler.artifacts.bundle_spec import BundleSpec
from osler.core.errors import RecipeError, place_of
from osler.core.logs import get_logger
from osler.core.models import bundle_title
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.engine import AnnotationEngine, kept_objects
from osler.stages.serve.server.app import create_app
from osler.stages.serve.server.settings import ServeRecipe

log = get_logger(__name__)
_CONNECTIONS = 2_000
_START_SECONDS = 60


def plan(recipe: ServeRecipe) -> list[str]:
    """Describe what will be served, and who can reach it."""
    spec = BundleSpec.load(recipe.bundle)
    tokens = recipe.tokens()
    who = "this machine only" if recipe.local else "other machines too"
    return [
        f"serve {bundle_title(recipe.bundle)} on {recipe.host}, port {recipe.port or 'chosen by the system'} ({who})",
        f"heads: {', '.join(spec.heads)}",
        "every request needs the token" if tokens else "no token is needed",
        *([f"notes corrected on the page go to {recipe.corrections}"] if recipe.corrections else []),
    ]


def run(recipe: ServeRecipe, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is called with the address once the service accepts requests."""
    server = make_server(recipe, listen(recipe), ready)
    server.run(sockets=[server.listener])


def listen(recipe: ServeRecipe) -> socket.socket:
    """Bind a socket, so that a port in use is reported before a model is loaded."""
    family = socket.AF_INET6 if ":" in recipe.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((recipe.host, recipe.port))
    except OSError as error:
        listener.close()
        raise RecipeError(
            f"cannot listen on {recipe.host}, port {recipe.port}: {(error.strerror or 'no such address').lower()}",
            fix="Choose another --port (0 for any that is free) or --host",
        ) from None
    return listener


@contextmanager
def in_background(recipe: ServeRecipe) -> Iterator[tuple[AnnotationServer, str]]:
    """Run a service in a thread of this process, and yield it with its address. It stops with the block."""
    addresses: queue.SimpleQueue[str] = queue.SimpleQueue()
    with listen(recipe) as listener:
        server = make_server(recipe, listener, addresses.put)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield server, addresses.get(timeout=_START_SECONDS)
        finally:
            server.stop()
            thread.join(recipe.stop_seconds)


def make_server(recipe: ServeRecipe, listener: socket.socket, ready: Callable[[str], None]) -> AnnotationServer:
    """Load the bundle and create a server for it; `server.run(sockets=[listener])` starts it."""
    tokens = recipe.tokens()
    engine = AnnotationEngine.load(recipe.bundle, AnnotateOptions(), recipe.device, recipe.precision)
    # Checked now and not in the first request; this also warms up.
    log.event("loaded", batches=getattr(engine.bundle.runner, "together", True))
    app = create_app(engine, recipe, tokens)
    return AnnotationServer(app, recipe, listener, ready)


class AnnotationServer(uvicorn.Server):
    """A server that reports when it is ready, and refuses new work as soon as it is told to stop."""

    def __init__(self, app: Any, recipe: ServeRecipe, listener: socket.socket, ready: Callable[[str], None]) -> None:
        self.listener, self._ready, self._service = listener, ready, app.state.service
        protocol = type("_Impatient", (_HeadTimeout,), {"head_seconds": recipe.read_seconds})
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol,
                ws="none",
                access_log=False,
                log_config=None,
                server_header=False,
                limit_concurrency=_CONNECTIONS,
                timeout_graceful_shutdown=recipe.stop_seconds,
            )
        )
        _silence()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        with kept_objects():
            super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            host, port = self.listener.getsockname()[:2]
            log.event("started", port=port)
            self._ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn's handler would raise the signal again at the end; a clean shutdown has exit code 0.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.stop()

    def stop(self) -> None:
        """Refuse new requests, finish those in progress, and stop."""
        self._service.stopping = True
        self.should_exit = True


class _HeadTimeout(H11Protocol):
    """Closes connections that take too long to send the head of a request. uvicorn would wait forever."""

    head_seconds: float
    _watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._watch is None:
            self._watch = self.loop.call_later(self.head_seconds, self._give_up)

    def _give_up(self) -> None:
        self._watch = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()

    def _forget(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


class _WithoutText(logging.Filter):
    """Removes what could quote a request from a library's log record: the arguments of its message and its traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            record.msg = f"{type(record.exc_info[1]).__name__} at {place_of(record.exc_info[1])}"
            record.args = ()
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def _silence() -> None:
    """Make uvicorn and asyncio report problems without text."""
    for name in ("uvicorn.error", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        if not any(isinstance(known, _WithoutText) for known in logger.filters):
            logger.addFilter(_WithoutText())


def calm_threads() -> None:
    """Make idle compute threads sleep instead of spin. Call it before torch is imported.

    Spinning threads take cores from the threads that read requests: on a busy machine, a pass becomes up to a hundred times
    slower.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("KMP_BLOCKTIME", "0")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
