"""The routes of the service. `create_app` creates the ASGI application from a loaded engine."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool

from osler.artifacts.bundle_spec import ALL_LANGUAGES, BundleSpec
from osler.core.version import VERSION
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.deid.config import DeidOptions
from osler.stages.serve.deid.engine import DeidEngine, DeidNote, Failure
from osler.stages.serve.deid.kinds import phi_map
from osler.stages.serve.deid.rules import LANGUAGES
from osler.stages.serve.deid.surrogates import Keyed, check_faker, read_key
from osler.stages.serve.engine import AnnotationEngine
from osler.stages.serve.page.routes import PAGE_FIELDS, add_page
from osler.stages.serve.server import schemas
from osler.stages.serve.server.batcher import StoppingError
from osler.stages.serve.server.errors import add_errors, problems
from osler.stages.serve.server.guard import Guard, RefusedError
from osler.stages.serve.server.service import AnnotationService, Prepared
from osler.stages.serve.server.settings import ServeRecipe
from osler.tasks.card import Kind
from osler.text.document import Document, Record

PUBLIC = frozenset({"/", "/openapi.json"})
"""Paths that need no token: the page and the description of the service, which contain no data."""
PUBLIC_BELOW = ("/static/",)
"""Folders with the files of the page."""
_LINES = "application/x-ndjson"
_JSON = "application/json"
_DESCRIPTION = """Entities, relations and labels in biomedical and clinical text.

Every offset counts **Unicode code points** of the text as it was sent, from 0, the end not included: in Python
`text[start:end]`, in JavaScript `[...text].slice(start, end).join("")`. An answer has the bytes that `osler annotate` prints for
the same text, whatever other requests were computed with it. Nothing that is sent is logged, and nothing is stored but what
`/v1/corrections` is sent, where the service offers it."""


def create_app(engine: AnnotationEngine, settings: ServeRecipe, tokens: Iterable[str] = ()) -> FastAPI:
    """Create the application for one bundle. With `tokens`, every route except the page and the probes requires one of them.

    `app.state.service` is the `AnnotationService`; it ends with the application's lifespan.
    """
    service = AnnotationService(engine, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(service.close)

    app = FastAPI(
        title="osler",
        version=VERSION,
        summary="Annotate biomedical and clinical text",
        description=_DESCRIPTION,
        docs_url=None,  # both would load scripts from other servers
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    app.add_middleware(
        Guard,
        settings=settings,
        metrics=service.metrics,
        tokens=tuple(tokens),
        public=PUBLIC,
        public_below=PUBLIC_BELOW,
    )
    if settings.allow_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.allow_origin),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    add_errors(app, _FIELDS)
    _add_annotation(app, service)
    _add_information(app, service)
    _add_deid(app, service)
    add_page(app, service, problems)
    _describe(app, engine.bundle.spec)
    return app


_ASKED = (400, 401, 403, 408, 413, 415, 421, 422, 429, 503)
_FIELDS = PAGE_FIELDS | {
    name
    for kind in (
        schemas.RequestOptions,
        schemas.OneNote,
        schemas.ManyNotes,
        schemas.OnePair,
        schemas.ManyPairs,
        schemas.RequestDeidOptions,
        schemas.OnePatientNote,
        schemas.ManyPatientNotes,
    )
    for name in kind.model_fields
}


def _add_annotation(app: FastAPI, service: AnnotationService) -> None:
    settings, spec = service.settings, service.engine.bundle.spec

    async def answer(request: Request, body: Any, key: str, heads: Callable[[AnnotateOptions], Any]) -> Response:
        """Check the request, annotate it, and return the lines of the command line unchanged."""
        options = AnnotateOptions(**{name: getattr(body.options, name) for name in body.options.model_fields_set})
        schemas.check_heads(spec, options.heads)
        schemas.check_language(spec, options.language)
        options = heads(options)
        many = hasattr(body, key)
        schemas.check_size(body.items, settings, key)
        records: list[Record] = [item.record(number) for number, item in enumerate(body.items, start=1)]
        lines = await service.annotate(records, options, request.receive)
        if _LINES in request.headers.get("accept", ""):
            return Response("".join(f"{line}\n" for line in lines), media_type=_LINES)
        content = f'{{"{key}": [{", ".join(lines)}]}}\n' if many else f"{lines[0]}\n"
        return Response(content, media_type=_JSON)

    def pair_heads(kinds: Sequence[Kind]) -> Callable[[AnnotateOptions], AnnotateOptions]:
        def choose(options: AnnotateOptions) -> AnnotateOptions:
            able = spec.pair_heads(options.heads, options.language)
            fitting = tuple(name for name in able if spec.heads[name].card.kind in kinds)
            if not fitting:
                raise RefusedError(422, "no_head", "No head of this bundle answers this. See /v1/labels.")
            return options.changed(heads=fitting)

        return choose

    def document_heads(options: AnnotateOptions) -> AnnotateOptions:
        spec.document_heads(options.heads, options.language)  # raises an error that lists the heads, if none fits
        return options

    @app.post(
        "/v1/annotate",
        summary="Annotate one document or many",
        tags=["annotation"],
        response_class=Response,
        responses={200: _answers(schemas.AnnotatedDocument, schemas.AnnotatedDocuments), **problems(*_ASKED)},
    )
    async def annotate(request: Request, body: Annotated[schemas.Notes, Body(openapi_examples=_NOTES)]) -> Response:
        """Find entities, relations and labels in one document, or in many in one request.

        If the bundle has heads for several languages and the request names neither heads nor a language, each document is read
        by the heads for its own language; `"language": "all"` selects all heads.

        One document returns one JSON object. Many return `{"documents": [...]}`, or one object per line if the request accepts
        `application/x-ndjson`.
        """
        return await answer(request, body, "documents", document_heads)

    @app.post(
        "/v1/similarity",
        summary="How similar two texts are",
        tags=["pairs"],
        response_class=Response,
        responses={200: _answers(schemas.ComparedPair, schemas.ComparedPairs), **problems(*_ASKED)},
    )
    async def similarity(request: Request, body: Annotated[schemas.Pairs, Body(openapi_examples=_PAIRS)]) -> Response:
        """Values of the heads that score two texts, such as their similarity."""
        return await answer(request, body, "pairs", pair_heads([Kind.REGRESSION]))

    @app.post(
        "/v1/infer",
        summary="What one text says about another",
        tags=["pairs"],
        response_class=Response,
        responses={200: _answers(schemas.ComparedPair, schemas.ComparedPairs), **problems(*_ASKED)},
    )
    async def infer(request: Request, body: Annotated[schemas.Pairs, Body(openapi_examples=_PAIRS)]) -> Response:
        """Labels of the heads that classify two texts, such as entailment."""
        return await answer(request, body, "pairs", pair_heads([Kind.CLASSIFICATION, Kind.MULTILABEL]))


def _describe(app: FastAPI, spec: BundleSpec) -> None:
    """Add the heads and languages of the bundle to the description of the service."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        made = plain()
        for name in ("RequestOptions", "RequestDeidOptions"):
            made["components"]["schemas"][name]["properties"]["heads"]["items"]["enum"] = list(spec.heads)
        language = made["components"]["schemas"]["RequestOptions"]["properties"]["language"]
        language["anyOf"][0]["enum"] = [*schemas.languages_of(spec), ALL_LANGUAGES]
        return made

    app.openapi = openapi  # type: ignore[method-assign]


_TEXT = "He was given aspirin 81 mg for chest pain."
_NOTES: Any = {
    "one": {"summary": "One document", "value": {"id": "note-1", "text": _TEXT}},
    "many": {
        "summary": "Many documents, and only what is rather certain",
        "value": {"documents": [{"text": _TEXT}, {"text": "No fever."}], "options": {"min_score": 0.5}},
    },
}
_PAIRS: Any = {
    "one": {"summary": "One pair", "value": {"first": "He has a fever.", "second": "He is febrile."}},
    "many": {"summary": "Many pairs", "value": {"pairs": [{"first": "He has a fever.", "second": "He is febrile."}]}},
}


def _answers(one: type, many: type) -> dict[str, Any]:
    """Responses for one item, for many, and for many as JSON Lines."""
    return {
        "model": one | many,
        "description": "The annotations, with the bytes that `osler annotate` prints.",
        "content": {_LINES: {"schema": {"type": "string", "description": "One JSON object per line."}}},
    }


def _add_information(app: FastAPI, service: AnnotationService) -> None:
    bundle = service.engine.bundle
    denied = problems(401, 403, 421)

    @app.get("/v1/labels", summary="Heads, labels and languages", tags=["bundle"], responses=denied)
    async def labels() -> schemas.HeadDescriptions:
        """What the heads of the bundle can find, and in which languages."""
        heads = schemas.HeadDescription.all_of(bundle.spec)
        return schemas.HeadDescriptions(heads=heads, languages=schemas.languages_of(bundle.spec))

    @app.get("/v1/card", summary="The model card", tags=["bundle"], responses=denied)
    async def card() -> schemas.BundleCard:
        """The served bundle: its name and version, its digest, its heads and its model card."""
        return schemas.BundleCard(
            **service.about, version=VERSION, heads=list(bundle.spec.heads), max_length=bundle.spec.max_length
        )

    @app.get("/healthz", summary="Whether the service lives", tags=["operation"])
    async def healthz() -> schemas.Health:
        """Responds as long as the process is alive."""
        return schemas.Health(status="ok")

    @app.get("/readyz", summary="Whether the service takes requests", tags=["operation"], responses=problems(503))
    async def readyz() -> schemas.Health:
        """Returns 503 while the service is shutting down."""
        if service.stopping:
            raise StoppingError
        return schemas.Health(status="ready")

    @app.get(
        "/metrics", summary="Prometheus metrics", tags=["operation"], response_class=PlainTextResponse, responses=denied
    )
    async def metrics() -> PlainTextResponse:
        """Counts, times, tokens and memory in Prometheus' text format."""
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")


@dataclass(frozen=True)
class _Deidentifier:
    """De-identifies notes of requests with the same options."""

    service: AnnotationService
    key: bytes
    options: DeidOptions

    @cached_property
    def engine(self) -> DeidEngine:
        """Rules and, if the bundle has de-identification heads or the request names some, those heads."""
        loaded = self.service.engine
        able = self.options.heads or any(phi_map(head.card) for head in loaded.bundle.spec.heads.values())
        folder: Path | None = self.service.settings.bundle if able else None
        return DeidEngine(self.options, folder).load(loaded)

    def run(self, notes: Sequence[tuple[str, schemas.PatientNote]]) -> list[dict[str, Any]]:
        documents = [Document(name, note.text) for name, note in notes]
        made: list[dict[str, Any]] = []
        for (name, note), document, found in zip(notes, documents, self.engine.find(documents), strict=True):
            keyed = Keyed(self.key, note.patient or note.id or secrets.token_hex(16))
            try:
                done = found if isinstance(found, Failure) else self.engine.deidentify(document, found, keyed)
            except Exception:  # the error may quote the note
                done = Failure("what was found could not be replaced", "")
            made.append(_answer(name, done))
        return made


def _answer(name: str, done: DeidNote | Failure) -> dict[str, Any]:
    if isinstance(done, Failure):
        fix = done.fix.replace("--language all", '"language": "all"').replace("--language", '"language"')
        return {"id": name, "problem": ". ".join(part for part in (done.problem, fix) if part)}
    replaced = [{"start": f.start, "end": f.end, "kind": f.kind, "by": f.by} for f in done.findings]
    lists = {"language": done.language, "replaced": replaced, "offsets": done.offsets.as_lists()}
    return {"id": name, "text": done.text, **lists}


def _add_deid(app: FastAPI, service: AnnotationService) -> None:
    settings = service.settings
    # Without a key file, surrogates and shifts are only valid for this process.
    key = read_key(settings.deid_key_file) or secrets.token_bytes(32)
    workers = Prepared[DeidOptions, _Deidentifier](lambda options: _Deidentifier(service, key, options))

    @app.post(
        "/v1/deid",
        summary="De-identify one note or many",
        tags=["annotation"],
        response_class=Response,
        responses={
            200: {
                "model": schemas.DeidentifiedNote | schemas.DeidentifiedNotes,
                "description": "The new text, and what was replaced.",
            },
            **problems(*_ASKED),
        },
    )
    async def deid(request: Request, body: Annotated[schemas.PatientNotes, Body(openapi_examples=_PHI)]) -> Response:
        """Replace protected health information, as `osler deid` does, with the findings of both the rules and the bundle's heads.

        A note that cannot be processed is rejected, and its text is not returned: status 422 for one note, `problem` in place
        of `text` among many.
        """
        schemas.check_size(body.items, settings, "documents")
        options = DeidOptions(**{name: getattr(body.options, name) for name in body.options.model_fields_set})
        spec = service.engine.bundle.spec
        schemas.check_heads(spec, options.heads)
        if options.language not in (None, *LANGUAGES):
            schemas.check_language(spec, options.language)
        if options.style == "surrogate":
            check_faker()
        notes = [(note.id or str(number), note) for number, note in enumerate(body.items, start=1)]
        sizes = [len(note.text) for note in body.items]
        made = await service.perform(workers(options).run, notes, sizes, request.receive)
        service.metrics.add("osler_records_total", len(made))
        if isinstance(body, schemas.ManyPatientNotes):
            return Response(json.dumps({"documents": made}, ensure_ascii=False) + "\n", media_type=_JSON)
        if "problem" in made[0]:
            message = f"The note could not be de-identified: {made[0]['problem']}."
            raise RefusedError(422, "not_deidentified", message)
        return Response(json.dumps(made[0], ensure_ascii=False) + "\n", media_type=_JSON)


_PHI_NOTE = "Mrs. Jane Roe was seen on 03/04/2019, phone 617-555-0199."
_PHI: Any = {
    "one": {"summary": "One note", "value": {"text": _PHI_NOTE, "options": {"style": "tag"}}},
    "many": {
        "summary": "Notes of one patient, with surrogates and shifted dates",
        "value": {
            "documents": [{"text": _PHI_NOTE, "patient": "p1"}, {"text": "Seen again on 03/11/2019.", "patient": "p1"}],
            "options": {"style": "surrogate", "dates": "shift"},
        },
    },
}
