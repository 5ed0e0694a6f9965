"""Checks before every route: access, size and speed of requests, logging, and that errors reveal nothing.

A pure ASGI middleware, because it must see the bytes of a request as they arrive. It catches every exception, so that no server
prints a traceback with a document in it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from osler.core.errors import place_of
from osler.core.logs import get_logger
from osler.stages.serve.server.metrics import Metrics
from osler.stages.serve.server.settings import ServeRecipe

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

log = get_logger(__name__)

PROBES = frozenset({"/healthz", "/readyz"})
"""Paths requested by load balancers, under any host name."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_DRAIN_SECONDS = 2.0
_BUFFERS = 8
"""Number of bodies of maximum size that may be in memory while they arrive."""
_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cache-control": b"no-store",
}


class RefusedError(Exception):
    """A request that is answered with an error instead of being processed."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__()
        self.status, self.code, self.message = status, code, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def body(self) -> bytes:
        return json.dumps({"code": self.code, "message": self.message, "mistakes": []}).encode()


class _GoneError(Exception):
    """The client disconnected while sending."""


class Guard:
    """Wraps an ASGI application."""

    def __init__(
        self,
        app: App,
        *,
        settings: ServeRecipe,
        metrics: Metrics,
        tokens: Iterable[str] = (),
        public: Collection[str] = (),
        public_below: tuple[str, ...] = (),
    ) -> None:
        """Paths in `public`, and those below `public_below`, need no token."""
        self._app, self._settings, self._metrics = app, settings, metrics
        self._tokens = [hashlib.sha256(token.encode()).digest() for token in tokens]
        self._public, self._public_below = PROBES | frozenset(public), public_below
        self._hosts = frozenset(name.lower() for name in settings.allow_host)
        if settings.local:
            self._hosts |= _LOCAL_NAMES | {settings.host}
        self._buffered = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # not accepting a WebSocket closes it
        began = time.monotonic()
        method = scope["method"]
        if method == "HEAD":  # what GET answers, without the body
            scope = {**scope, "method": "GET"}
        answer = _Answer(send, bodiless=method == "HEAD")
        held = 0
        try:
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            self._admit(scope, headers)
            body = await self._read(headers, receive)
            held = len(body)
            self._buffered += held
            await self._app(scope, _replay(body, receive), answer)
        except RefusedError as error:
            await answer.refuse(error)
        except _GoneError:
            pass
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a bug: log its location, never its message
            log.event("error", kind=type(error).__name__, place=place_of(error).replace(" ", ""))
            await answer.refuse(RefusedError(500, "internal", "The service failed. Its log says where."))
        finally:
            self._buffered -= held
            self._record(scope, method, answer, time.monotonic() - began)

    def _admit(self, scope: MutableMapping[str, Any], headers: dict[bytes, str]) -> None:
        path: str = scope["path"]
        if path in PROBES:
            return
        host = _host_name(headers.get(b"host", ""))
        if self._hosts and host not in self._hosts:
            raise RefusedError(421, "wrong_host", "This service is not called by that name (Host header).")
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._settings.allow_origin:
            same = urlsplit(origin).netloc.lower() == headers.get(b"host", "").lower()
            if not same or headers.get(b"sec-fetch-site") == "cross-site":
                raise RefusedError(403, "wrong_origin", "Web pages of other servers may not use this service.")
        if self._tokens and path not in self._public and not path.startswith(self._public_below or ("\0",)):
            kind, _, given = headers.get(b"authorization", "").partition(" ")
            digest = hashlib.sha256(given.strip().encode()).digest()
            known = [hmac.compare_digest(digest, token) for token in self._tokens]
            if kind.lower() != "bearer" or not any(known):
                message = "Send the token of this service: Authorization: Bearer TOKEN."
                raise RefusedError(401, "unauthorized", message, www_authenticate="Bearer")

    async def _read(self, headers: dict[bytes, str], receive: Receive) -> bytes:
        """Read the body, within the limits on size and time."""
        limit, length = self._settings.max_body, headers.get(b"content-length")
        if length is None and b"transfer-encoding" not in headers:
            return b""
        too_large = RefusedError(413, "too_large", f"A request may have {limit:,} bytes.", connection="close")
        if length is not None and length.isdecimal() and int(length) > limit:
            if headers.get(b"expect", "").lower() != "100-continue":
                await _drain(receive, 4 * limit)
            raise too_large
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._settings.read_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _GoneError
                    chunk, more = message.get("body", b""), message.get("more_body", False)
                    size += len(chunk)
                    self._buffered += len(chunk)
                    chunks.append(chunk)
                    if size > limit:
                        chunks.clear()
                        await _drain(receive, 4 * limit)
                        raise too_large
                    if self._buffered > _BUFFERS * limit:
                        chunks.clear()
                        told = "Too many large requests arrive at once."
                        raise RefusedError(429, "busy", told, retry_after="1", connection="close")
        except TimeoutError:
            told = f"The request took longer than {self._settings.read_seconds:g} seconds to arrive."
            raise RefusedError(408, "too_slow", told, connection="close") from None
        finally:
            self._buffered -= size
        return b"".join(chunks)

    def _record(self, scope: MutableMapping[str, Any], method: str, answer: _Answer, seconds: float) -> None:
        """Count and log a request by its route. Path and query are text that a client chose."""
        route = getattr(scope.get("route"), "path", "other")
        method = method if method in _METHODS else "other"
        status = str(answer.status or 499)  # 499: the client disconnected
        self._metrics.add("osler_requests_total", route=route, method=method, status=status)
        self._metrics.observe("osler_request_seconds", seconds, route=route)
        log.event("request", method=method, route=route, status=int(status), ms=round(1000 * seconds, 1))


class _Answer:
    """Forwards a response, with the headers that every response has."""

    def __init__(self, send: Send, *, bodiless: bool = False) -> None:
        self._send, self._bodiless = send, bodiless
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name.lower() for name, _ in message.get("headers", [])}
            more = [(name, value) for name, value in _HEADERS.items() if name not in given]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        elif self._bodiless:
            message = {**message, "body": b""}
        await self._send(message)

    async def refuse(self, error: RefusedError) -> None:
        """Respond with an error, unless a response has started."""
        if self.status is not None:
            return
        body = error.body()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **error.headers}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self({"type": "http.response.start", "status": error.status, "headers": raw})
        await self({"type": "http.response.body", "body": body})


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give the application the body that was read, then later messages, such as a disconnect."""
    given = False

    async def again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass  # an empty body that was not read
        return message

    return again


async def _drain(receive: Receive, limit: int) -> None:
    """Read and discard what a client is still sending. Otherwise, the connection is reset and the client never sees the
    error."""
    size = 0
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while size <= limit:
                message = await receive()
                size += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
    except TimeoutError:
        return


def _host_name(header: str) -> str:
    """The name in a Host header, without the port."""
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
