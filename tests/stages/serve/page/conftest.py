"""Services for the page: an engine that knows a few words, so that tests know what is found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from osler.artifacts.bundle import Bundle
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.engine import AnnotationEngine, HeadChoice
from osler.stages.serve.server.app import create_app
from osler.stages.serve.server.run import AnnotationServer, listen
from osler.stages.serve.server.settings import ServeRecipe
from osler.text.document import Document, Record, Relation, Span, number_spans

WORDS = {
    "aspirin": ("DRUG", "drugs", 0.93, {}),
    "81 mg": ("DOSE", "drugs", 0.52, {}),
    "aspirin 81 mg": ("DRUG", "farmacos", 0.31, {}),
    "fever": ("DRUG", "drugs", 0.71, {"negated": "yes"}),
}


@dataclass(frozen=True)
class WordEngine(AnnotationEngine):
    """Finds the words of a list, and a relation from each dose to the drug before it."""

    def _annotate(self, reading: HeadChoice, records: Sequence[Record]) -> list[Record]:
        return [self._found(record) for record in records if isinstance(record, Document)]

    def _asked_for(self, record: Record) -> Record:
        return record

    def _found(self, document: Document) -> Document:
        spans, text = [], document.text
        for words, (label, head, score, attributes) in WORDS.items():
            start = text.find(words)
            while start >= 0:
                place = {"score": score, "attributes": {"head": head, **attributes}}
                spans.append(Span.at(start, start + len(words), label, **place))
                start = text.find(words, start + 1)
        named = number_spans(spans)
        drugs = [span for span in named if span.label == "DRUG" and span.attributes["head"] == "drugs"]
        doses = [span for span in named if span.label == "DOSE"]
        links = [
            Relation(
                "dose of", dose.id, max((d for d in drugs if d.start < dose.start), key=lambda d: d.start).id, score=0.8
            )
            for dose in doses
        ]
        return document.with_(
            spans=named, relations=tuple(links), labels=("topic:cardiology",), scores={"topic:cardiology": 0.9}
        )


@pytest.fixture(scope="session")
def engine(bundle: Path) -> AnnotationEngine:
    return WordEngine(Bundle.load(bundle, "cpu"), AnnotateOptions())


@pytest.fixture(scope="session")
def app_for(bundle: Path, engine: AnnotationEngine) -> Callable[..., Any]:
    """The application, with these settings and tokens."""

    def make(tokens: tuple[str, ...] = (), **settings: Any) -> Any:
        return create_app(engine, ServeRecipe(bundle=bundle, port=0, **settings), tokens)

    return make


@pytest.fixture(scope="session")
def served(bundle: Path, app_for: Callable[..., Any]) -> Callable[..., Any]:
    """Serve in a thread; gives the address. `more` may add routes."""

    @contextmanager
    def serve(
        tokens: tuple[str, ...] = (), more: Callable[[Any], None] = lambda _: None, **settings: Any
    ) -> Iterator[str]:
        recipe = ServeRecipe(bundle=bundle, port=0, **settings)
        addresses: list[str] = []
        ready = threading.Event()

        def tell(address: str) -> None:
            addresses.append(address)
            ready.set()

        app = app_for(tokens, **settings)
        more(app)
        server = AnnotationServer(app, recipe, listen(recipe), tell)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [server.listener]})
        thread.start()
        try:
            assert ready.wait(60)
            yield addresses[0]
        finally:
            server.should_exit = True
            thread.join()

    return serve
