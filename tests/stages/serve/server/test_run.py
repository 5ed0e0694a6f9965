"""`osler serve` as a process: it says where it listens, answers, and ends in good order."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from osler.core.errors import InputError, RecipeError
from osler.stages.serve.server.run import _WithoutText, in_background, listen, plan
from osler.stages.serve.server.settings import ServeRecipe

NOTE = "He was given aspirin 81 mg."


@contextmanager
def running(bundle: Path, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen, str]]:
    command = [
        sys.executable,
        "-m",
        "osler",
        "serve",
        "--bundle",
        str(bundle),
        "--port",
        "0",
        "--device",
        "cpu",
        *options,
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    try:
        line = process.stdout.readline().strip()
        assert line, process.stderr.read()
        yield process, line
    finally:
        process.kill()
        process.communicate()


@pytest.mark.e2e
def test_serve_annotate_and_stop(bundle):
    secret = "correct-horse-battery"
    with running(bundle, OSLER_TOKEN=secret, OSLER_LOG="info") as (process, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address)
        with httpx.Client(base_url=address, timeout=60) as client:
            assert client.get("/readyz").json() == {"status": "ready"}
            assert client.post("/v1/annotate", json={"text": NOTE}).status_code == 401
            client.headers["authorization"] = f"Bearer {secret}"
            answer = client.post("/v1/annotate?q=Zyxwvut", json={"id": "note", "text": NOTE})
            assert answer.status_code == 200
            assert answer.json()["text"] == NOTE
            assert "server" not in answer.headers
        # A request in progress is finished: its head is sent before the signal, its body after it.
        host, port = address.removeprefix("http://").split(":")
        body = json.dumps({"text": NOTE}).encode()
        head = f"POST /v1/annotate HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {secret}\r\n"
        head += f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head.encode() + body[:5])
            process.send_signal(signal.SIGTERM)
            connection.sendall(body[5:])
            received = b"".join(iter(lambda: connection.recv(65536), b""))
        assert received.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert '"route": "/v1/annotate", "status": 200' in errors
    assert "aspirin" not in errors
    assert "Zyxwvut" not in errors
    assert secret not in errors


def recipe(bundle: Path, **settings) -> ServeRecipe:
    return ServeRecipe(bundle=bundle, port=0, device="cpu", **settings)


def serving(bundle: Path, **settings):
    return in_background(recipe(bundle, **settings))


def test_connections_that_send_no_head_are_closed(bundle):
    with serving(bundle, read_seconds=0.2) as (_, address):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as silent:
            assert silent.recv(1) == b""
        with socket.create_connection((host, int(port)), timeout=30) as slow:
            slow.sendall(b"GET /healthz HTT")
            assert slow.recv(1) == b""
        with socket.create_connection((host, int(port)), timeout=30) as slow_body:
            slow_body.sendall(b"POST /v1/annotate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
            assert slow_body.recv(64).startswith(b"HTTP/1.1 408")
        assert httpx.get(f"{address}/healthz").status_code == 200


def test_a_client_that_hangs_up_leaves_nothing_behind(bundle):
    with serving(bundle) as (server, address):
        host, port = address.removeprefix("http://").split(":")
        body = json.dumps({"documents": [{"text": NOTE * 20}] * 200}).encode()
        head = "POST /v1/annotate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.create_connection((host, int(port)), timeout=30) as gone:
            gone.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert httpx.post(f"{address}/v1/annotate", json={"text": NOTE}, timeout=60).status_code == 200
    assert server._service.admitted == 0  # ended: every thread is through


def test_a_body_that_is_too_large_is_answered_and_not_only_cut_off(bundle):
    with serving(bundle, max_body=10_000) as (_, address):
        assert httpx.post(f"{address}/v1/annotate", content=b"x" * 35_000, timeout=60).status_code == 413
        chunks = (b"x" * 1000 for _ in range(35))
        assert httpx.post(f"{address}/v1/annotate", content=chunks, timeout=60).status_code == 413


def test_a_service_that_is_stopped_takes_no_new_requests(bundle):
    with serving(bundle) as (server, address):
        server._service.stopping = True
        answer = httpx.post(f"{address}/v1/annotate", json={"text": NOTE})
        assert (answer.status_code, answer.json()["code"]) == (503, "stopping")
        assert httpx.get(f"{address}/readyz").status_code == 503
        assert httpx.get(f"{address}/healthz").status_code == 200


def test_a_port_in_use_is_told(bundle):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RecipeError, match="cannot listen on") as error:
            listen(ServeRecipe(bundle=bundle, port=taken.getsockname()[1]))
    assert "--port" in str(error.value)


def test_the_plan(bundle, monkeypatch, tmp_path):
    monkeypatch.delenv("OSLER_TOKEN", raising=False)
    lines = plan(recipe(bundle))
    assert "this machine only" in lines[0]
    assert "drugs" in lines[1]
    with pytest.raises(RecipeError, match="there is no token"):
        plan(recipe(bundle, host="192.0.2.1"))
    with pytest.raises(InputError):
        plan(recipe(bundle, host="192.0.2.1", token_file=tmp_path / "none"))


def test_libraries_log_no_text():
    try:
        raise ValueError("Zyxwvut")
    except ValueError:
        record = logging.LogRecord("uvicorn.error", logging.ERROR, "x.py", 1, "failed %s", ("Zyxwvut",), sys.exc_info())
    assert _WithoutText().filter(record)
    assert logging.Formatter().format(record).startswith("ValueError at ")
