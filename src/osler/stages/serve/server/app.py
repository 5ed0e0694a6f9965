"""The routes of the service. `create_app` makes the ASGI application from a loaded engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from osler.artifacts.bundle_spec import BundleSpec
from osler.core.errors import OslerError
from osler.core.version import VERSION
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.engine import AnnotationEngine
from osler.stages.serve.page.routes import PAGE_FIELDS, add_page
from osler.stages.serve.server import schemas
from osler.stages.serve.server.batcher import CancelledRequestError
from osler.stages.serve.server.deid import DEID_FIELDS, add_deid
from osler.stages.serve.server.guard import Guard, RefusedError
from osler.stages.serve.server.service import AnnotationService, BusyError, OverdueError, StoppingError
from osler.stages.serve.server.settings import ServeRecipe
from osler.tasks.card import Kind
from osler.text.document import Record

PUBLIC = frozenset({"/", "/openapi.json"})
"""What may be read without the token: the page and the description of the service, which hold no data."""
PUBLIC_BELOW = ("/static/",)
"""Folders of the page's files."""
_LINES = "application/x-ndjson"
_JSON = "application/json"
_DESCRIPTION = """Entities, relations and labels in biomedical and clinical text.

Every offset counts **Unicode code points** of the text as it was sent, from 0, the end not included: in Python
`text[start:end]`, in JavaScript `[...text].slice(start, end).join("")`. An answer has the bytes that `osler annotate` prints for
the same text, whatever other requests were computed with it. Nothing that is sent is logged, and nothing is stored but what
`/v1/corrections` is sent, where the service offers it."""


def create_app(engine: AnnotationEngine, settings: ServeRecipe, tokens: Iterable[str] = ()) -> FastAPI:
    """The application for one bundle. With `tokens`, every route but the page and the probes asks for one of them.

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
        docs_url=None,  # both load their scripts from other servers
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
    _add_errors(app)
    _add_annotation(app, service)
    _add_information(app, service)
    add_deid(app, service, _problems)
    add_page(app, service, _problems)
    _describe(app, engine.bundle.spec)
    return app


def _add_errors(app: FastAPI) -> None:
    """Every refusal has one form, and none repeats what was sent."""

    def answer(
        status: int, code: str, message: str, headers: Mapping[str, str] | None = None, wrong: Sequence[Any] = ()
    ) -> Response:
        problem = schemas.Problem(code=code, message=message, mistakes=[_mistake(item) for item in wrong])
        return Response(problem.model_dump_json(), status, headers, _JSON)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        found = error.errors()
        if any(item["type"] == "json_invalid" for item in found):
            return answer(400, "invalid_json", "The body is not valid JSON.")
        return answer(422, "invalid", "The request is not valid.", wrong=found[:20])

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        code, message = _HTTP.get(error.status_code, ("refused", "The request was refused."))
        return answer(error.status_code, code, message, error.headers)

    @app.exception_handler(OslerError)
    async def mistaken(_: Request, error: OslerError) -> Response:
        # Without `where`, which may be a path of the server.
        return answer(422, "invalid", " ".join(f"{part}." for part in (error.problem, error.fix) if part))

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> Response:
        message = "Too many requests are waiting. Try again later."
        return answer(429, "busy", message, {"retry-after": str(error.retry_after)})

    @app.exception_handler(StoppingError)
    async def stopping(_: Request, __: StoppingError) -> Response:
        return answer(503, "stopping", "The service is being stopped.", {"retry-after": "10", "connection": "close"})

    @app.exception_handler(OverdueError)
    async def overdue(_: Request, __: OverdueError) -> Response:
        return answer(503, "overdue", "The request took too long. Send less text.", {"retry-after": "10"})

    @app.exception_handler(CancelledRequestError)
    async def gone(_: Request, __: CancelledRequestError) -> Response:
        return Response(status_code=499)  # nobody reads it


_HTTP = {
    400: ("invalid_json", "The body cannot be read."),
    404: ("not_found", "There is no such path. See /openapi.json."),
    405: ("wrong_method", "This path does not take that method. See /openapi.json."),
}
_FIELDS = (
    {
        name
        for kind in (schemas.RequestOptions, schemas.OneNote, schemas.ManyNotes, schemas.OnePair, schemas.ManyPairs)
        for name in kind.model_fields
    }
    | PAGE_FIELDS
    | DEID_FIELDS
)


def _mistake(error: dict[str, Any]) -> schemas.RequestMistake:
    """One error of pydantic without its input: names of fields that do not exist are input, too."""
    places = [part for part in error["loc"] if part not in ("one", "many")]
    shown = [str(part) if isinstance(part, int) or part in _FIELDS or part == "body" else "?" for part in places]
    problem = error["msg"] if error["type"] in _SPEAKING else error["type"].replace("_", " ")
    return schemas.RequestMistake(where=".".join(shown), problem=problem)


# Types of pydantic's errors whose message says what is wanted and not what was given.
_SPEAKING = frozenset(
    {
        "missing", "extra_forbidden", "string_type", "string_too_long", "list_type", "dict_type", "float_type",
        "float_parsing", "greater_than_equal", "less_than_equal", "literal_error", "tuple_type", "bool_type",
        "int_type", "model_attributes_type", "value_error", "too_long", "too_short", "string_unicode",
    }
)  # fmt: skip


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Answers to a refused request, for the description of a route."""
    return {status: {"model": schemas.Problem, "description": _MEANING[status]} for status in statuses}


_MEANING = {
    400: "The body is not valid JSON.",
    401: "The token is missing or wrong.",
    403: "The request comes from a web page of another server.",
    408: "The request took too long to arrive.",
    409: "The bundle is not the one that the request is about.",
    413: "The request, a text or the number of documents is too large.",
    421: "The Host header names another service.",
    422: "A field is missing or wrong, a text holds a NUL character, or no head of the bundle fits.",
    429: "Too many requests are waiting; Retry-After says for how many seconds.",
    503: "The service is being stopped, or the work took too long.",
}
_ASKED = (400, 401, 403, 408, 413, 421, 422, 429, 503)


def _add_annotation(app: FastAPI, service: AnnotationService) -> None:
    settings, spec = service.settings, service.engine.bundle.spec

    async def answer(request: Request, body: Any, key: str, heads: Callable[[AnnotateOptions], Any]) -> Response:
        """Check what was asked, annotate it, and give back the lines of the command line as they are."""
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
        spec.document_heads(options.heads, options.language)  # says which heads there are, if none fits
        return options

    @app.post(
        "/v1/annotate",
        summary="Annotate one document or many",
        tags=["annotation"],
        response_class=Response,
        responses={200: _answers(schemas.AnnotatedDocument, schemas.AnnotatedDocuments), **_problems(*_ASKED)},
    )
    async def annotate(request: Request, body: Annotated[schemas.Notes, Body(openapi_examples=_NOTES)]) -> Response:
        """Entities, relations and labels of one document, or of many in one request.

        One document is answered with one JSON object, many with `{"documents": [...]}`, or with one object per line if the
        request accepts `application/x-ndjson`.
        """
        return await answer(request, body, "documents", document_heads)

    @app.post(
        "/v1/similarity",
        summary="How similar two texts are",
        tags=["pairs"],
        response_class=Response,
        responses={200: _answers(schemas.ComparedPair, schemas.ComparedPairs), **_problems(*_ASKED)},
    )
    async def similarity(request: Request, body: Annotated[schemas.Pairs, Body(openapi_examples=_PAIRS)]) -> Response:
        """The value of the heads that give two texts a number."""
        return await answer(request, body, "pairs", pair_heads([Kind.REGRESSION]))

    @app.post(
        "/v1/infer",
        summary="What one text says about another",
        tags=["pairs"],
        response_class=Response,
        responses={200: _answers(schemas.ComparedPair, schemas.ComparedPairs), **_problems(*_ASKED)},
    )
    async def infer(request: Request, body: Annotated[schemas.Pairs, Body(openapi_examples=_PAIRS)]) -> Response:
        """The labels of the heads that classify two texts, such as entailment."""
        return await answer(request, body, "pairs", pair_heads([Kind.CLASSIFICATION, Kind.MULTILABEL]))


def _describe(app: FastAPI, spec: BundleSpec) -> None:
    """Let the description of the service name the heads and languages of its bundle."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        made = plain()
        for name in ("RequestOptions", "RequestDeidOptions"):
            made["components"]["schemas"][name]["properties"]["heads"]["items"]["enum"] = list(spec.heads)
        language = made["components"]["schemas"]["RequestOptions"]["properties"]["language"]
        language["anyOf"][0]["enum"] = schemas.languages_of(spec)
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
    """The answer to one item, to many, and to many as JSON Lines."""
    return {
        "model": one | many,
        "description": "The annotations, with the bytes that `osler annotate` prints.",
        "content": {_LINES: {"schema": {"type": "string", "description": "One JSON object per line."}}},
    }


def _add_information(app: FastAPI, service: AnnotationService) -> None:
    bundle = service.engine.bundle
    denied = _problems(401, 403, 421)

    @app.get("/v1/labels", summary="Heads, labels and languages", tags=["bundle"], responses=denied)
    async def labels() -> schemas.HeadDescriptions:
        """What the heads of the bundle can find, and in which languages."""
        heads = [
            schemas.HeadDescription(
                name=name,
                title=head.card.title,
                kind=head.card.kind,
                record=head.card.record,
                language=head.card.language,
                labels=list(head.card.labels),
                protocol=head.protocol,
            )
            for name, head in bundle.spec.heads.items()
        ]
        return schemas.HeadDescriptions(heads=heads, languages=schemas.languages_of(bundle.spec))

    @app.get("/v1/card", summary="The model card", tags=["bundle"], responses=denied)
    async def card() -> schemas.BundleCard:
        """The bundle that answers: its name, its digest, its heads and its model card."""
        return schemas.BundleCard(
            **service.about, version=VERSION, heads=list(bundle.spec.heads), max_length=bundle.spec.max_length
        )

    @app.get("/healthz", summary="Whether the service lives", tags=["operation"])
    async def healthz() -> schemas.Health:
        """Answers as long as the process works."""
        return schemas.Health(status="ok")

    @app.get("/readyz", summary="Whether the service takes requests", tags=["operation"], responses=_problems(503))
    async def readyz() -> schemas.Health:
        """503 while the service is being stopped."""
        if service.stopping:
            raise StoppingError
        return schemas.Health(status="ready")

    @app.get(
        "/metrics", summary="Prometheus metrics", tags=["operation"], response_class=PlainTextResponse, responses=denied
    )
    async def metrics() -> PlainTextResponse:
        """Counts, times, tokens and memory in Prometheus' text format."""
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")
