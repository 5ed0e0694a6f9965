"""The application over a bundle with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.engine import AnnotationEngine
from osler.stages.serve.server.app import create_app
from osler.stages.serve.server.settings import ServeRecipe


@pytest.fixture(scope="session")
def engine(bundle: Path) -> AnnotationEngine:
    return AnnotationEngine.load(bundle, AnnotateOptions(), "cpu")


@pytest.fixture
def serve(engine: AnnotationEngine, bundle: Path) -> Iterator[Callable[..., TestClient]]:
    """Start an application with settings of its own."""
    with ExitStack() as stack:

        def start(tokens: tuple[str, ...] = (), **settings: Any) -> TestClient:
            app = create_app(engine, ServeRecipe(bundle=bundle, **settings), tokens)
            client = TestClient(app, base_url="http://localhost", raise_server_exceptions=True)
            return stack.enter_context(client)

        yield start


@pytest.fixture
def client(serve: Callable[..., TestClient]) -> TestClient:
    return serve()
