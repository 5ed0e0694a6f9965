"""What stands before the routes: tokens, hosts, origins, sizes, slow and vanishing clients, headers and the log."""

from __future__ import annotations

import asyncio
import json

import pytest

from osler.stages.serve.server.guard import Guard
from osler.stages.serve.server.metrics import SECONDS, Metrics
from osler.stages.serve.server.settings import ServeRecipe

TOKEN = "correct-horse-battery"
SECRET = "Zyxwvut"


class Echo:
    """An application that answers with the body, and remembers that it was called."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.after: list[str] = []

    async def __call__(self, scope, receive, send):
        message = await receive()
        self.bodies.append(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})
        self.after.append((await receive())["type"])


def ask(
    chunks=(),
    *,
    headers=None,
    echo=None,
    path="/v1/annotate",
    tokens=(),
    forever=False,
    length=True,
    settings_of=None,
    **settings,
):
    """Send a request in chunks; a client that sends `forever` never says that it is done. Returns status, body, chunks read."""
    metrics = Metrics()
    metrics.counter("osler_requests_total", "")
    metrics.histogram("osler_request_seconds", "", SECONDS)
    recipe = ServeRecipe(bundle="b", **{"max_body": 1024, **settings, **(settings_of or {})})
    guard = Guard(
        echo or Echo(), settings=recipe, metrics=metrics, tokens=tokens, public={"/"}, public_below=("/static/",)
    )
    sent: list[dict] = []
    left = list(chunks)
    read: list[bytes] = []
    given = {"host": "localhost:8000", **(headers or {})}
    if chunks and length and "content-length" not in given:
        given["content-length"] = str(sum(map(len, chunks)))
    elif chunks and not length:
        given["transfer-encoding"] = "chunked"

    async def receive():
        if left:
            chunk = left.pop(0)
            if chunk is None:
                return {"type": "http.disconnect"}
            read.append(chunk)
            return {"type": "http.request", "body": chunk, "more_body": forever or bool(left)}
        if forever:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip
    asyncio.run(guard(scope, receive, send))
    if not sent:
        return None, None, read
    body = b"".join(message.get("body", b"") for message in sent[1:])
    ask.headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    ask.metrics = metrics.text()
    return sent[0]["status"], json.loads(body) if body.startswith(b"{") else body, read


def test_a_body_reaches_the_application_in_one_piece():
    echo = Echo()
    status, body, _ = ask([b"a", b"b" * 100, b"c"], echo=echo)
    assert (status, body) == (200, b"ok")
    assert echo.bodies == [b"a" + b"b" * 100 + b"c"]
    assert echo.after == ["http.disconnect"]


def test_a_request_without_a_body():
    echo = Echo()
    assert ask([], echo=echo)[0] == 200
    assert echo.bodies == [b""]


def test_a_body_that_is_announced_as_too_large_is_refused_before_it_is_kept():
    echo = Echo()
    status, body, _ = ask([b"x" * 100], headers={"content-length": "1025"}, echo=echo)
    assert (status, body["code"]) == (413, "too_large")
    assert ask.headers["connection"] == "close"
    assert echo.bodies == []


def test_a_client_that_asks_before_it_sends_is_told_at_once():
    status, _, read = ask([b"x"] * 9, headers={"content-length": "9999", "expect": "100-continue"})
    assert status == 413
    assert read == []


def test_a_body_that_grows_too_large_is_refused_while_it_is_read():
    """Without a length, or with a lie for one."""
    for given in ({"length": False}, {"headers": {"content-length": "10"}}):
        status, _, read = ask([b"x" * 1000] * 50, **given)
        assert status == 413
        # A little more is read and dropped, so that the client sees the answer; not everything.
        assert len(read) <= 2 + 5


def test_a_slow_client_is_not_waited_for():
    status, body, _ = ask([b"x"], length=False, forever=True, read_seconds=0.02)
    assert (status, body["code"]) == (408, "too_slow")


def test_a_client_that_hangs_up_while_it_sends():
    echo = Echo()
    status, _, _ = ask([b"x", None], length=False, echo=echo)
    assert status is None
    assert echo.bodies == []


def test_large_bodies_that_arrive_together_are_bounded():
    """Eight bodies of the largest size may be in memory at once."""
    metrics = Metrics()
    metrics.counter("osler_requests_total", "")
    metrics.histogram("osler_request_seconds", "", SECONDS)
    guard = Guard(Echo(), settings=ServeRecipe(bundle="b", max_body=1024), metrics=metrics)
    statuses: list[int] = []

    async def client(gate: asyncio.Event) -> None:
        messages = [{"body": b"x" * 1000, "more_body": True}, {"body": b""}]

        async def receive():
            if len(messages) < 2:
                await (gate if messages else asyncio.Event()).wait()
            return {"type": "http.request", **messages.pop(0)}

        async def send(message):
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        headers = [(b"host", b"localhost"), (b"transfer-encoding", b"chunked")]
        await guard({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive, send)

    async def all_at_once() -> None:
        gate = asyncio.Event()
        tasks = [asyncio.create_task(client(gate)) for _ in range(12)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert statuses == [429] * 4
        gate.set()
        # The application waits for the end of a connection, which here never comes.
        for _ in range(20):
            await asyncio.sleep(0)
        assert sorted(statuses) == [200] * 8 + [429] * 4
        for task in tasks:
            task.cancel()

    asyncio.run(all_at_once())


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer", 401),
        ("Bearer \xff", 401),
        (None, 401),
    ],
)
def test_tokens(header, status):
    headers = {} if header is None else {"authorization": header}
    found, body, _ = ask(
        [b"x" * 5000] if status == 401 else [b"x"], headers=headers, tokens=("other-token-1234", TOKEN)
    )
    assert found == status  # refused before the body is looked at
    if status == 401:
        assert body["code"] == "unauthorized"
        assert ask.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/healthz", "/readyz"])
def test_the_page_and_the_probes_need_no_token(path):
    assert ask(path=path, tokens=(TOKEN,))[0] == 200


@pytest.mark.parametrize("path", ["/metrics", "/v1/labels", "/static", "/x", "/healthz/", "//"])
def test_everything_else_does(path):
    assert ask(path=path, tokens=(TOKEN,))[0] == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:9", 200),
        ("[::1]:8000", 200),
        ("ward.example.org", 421),
        ("localhost.example.org", 421),
        ("127.0.0.1.example.org", 421),
        ("", 421),
    ],
)
def test_another_name_for_this_machine_is_refused(host, status):
    """A web page whose name was made to point to 127.0.0.1 (DNS rebinding) sends its own name."""
    assert ask(headers={"host": host})[0] == status
    assert ask(headers={"host": host}, path="/healthz")[0] == 200


def test_names_of_a_service_for_other_machines():
    beyond = {"host": "192.0.2.7"}
    assert ask(headers={"host": "any.example.org"}, settings_of=beyond)[0] == 200
    assert ask(headers={"host": "ward.example.org"}, settings_of=beyond, allow_host=("ward.example.org",))[0] == 200
    assert ask(headers={"host": "localhost"}, settings_of=beyond, allow_host=("ward.example.org",))[0] == 421


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://localhost:8000", 200), ("https://evil.example", 403), ("null", 403), ("http://localhost:9999", 403)],
)
def test_web_pages_of_other_servers_are_refused(origin, status):
    assert ask([b"x"], headers={"origin": origin})[0] == status


def test_web_pages_that_are_allowed():
    assert ask([b"x"], headers={"origin": "https://ward.example"}, allow_origin=("https://ward.example",))[0] == 200


def test_every_answer_has_safe_headers():
    for status in (ask([b"x"])[0], ask([b"x"], headers={"host": "evil"})[0]):
        assert status in (200, 421)
        assert ask.headers["x-content-type-options"] == "nosniff"
        assert ask.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in ask.headers["content-security-policy"]


def test_nothing_of_a_request_is_logged_or_counted_by_name(caplog):
    with caplog.at_level("INFO"):
        ask([SECRET.encode()], path=f"/{SECRET}", headers={SECRET.lower(): SECRET})
    assert '"status": 200' in caplog.text
    assert '"route": "other"' in caplog.text
    assert SECRET.lower() not in caplog.text.lower()
    assert SECRET not in ask.metrics
    assert 'osler_requests_total{route="other",method="POST",status="200"} 1' in ask.metrics


def test_an_error_is_logged_by_type_and_place_alone(caplog):
    async def broken(scope, receive, send):
        raise RuntimeError(SECRET)

    with caplog.at_level("INFO"):
        status, body, _ = ask([b"x"], echo=broken)
    assert (status, body["code"]) == (500, "internal")
    assert "RuntimeError" in caplog.text
    assert SECRET not in caplog.text + json.dumps(body)


def test_an_answer_that_has_begun_is_not_begun_again():
    async def half(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError

    assert ask([b"x"], echo=half)[0] == 200


def test_web_sockets_are_not_accepted():
    calls: list[str] = []

    async def app(scope, receive, send):
        calls.append(scope["type"])

    guard = Guard(app, settings=ServeRecipe(bundle="b"), metrics=Metrics())
    asyncio.run(guard({"type": "websocket"}, None, None))
    asyncio.run(guard({"type": "lifespan"}, None, None))
    assert calls == ["lifespan"]
