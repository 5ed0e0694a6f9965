"""Error responses of the service, all in one format that never repeats the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from osler.core.errors import OslerError
from osler.stages.serve.server import schemas
from osler.stages.serve.server.batcher import BusyError, CancelledRequestError, OverdueError, StoppingError


def add_errors(app: FastAPI, fields: AbstractSet[str]) -> None:
    """Give all errors the same format, which never repeats the input. `fields` are the field names that it may mention."""

    def answer(
        status: int, code: str, message: str, headers: Mapping[str, str] | None = None, wrong: Sequence[Any] = ()
    ) -> Response:
        problem = schemas.Problem(code=code, message=message, mistakes=[_mistake(item, fields) for item in wrong])
        return Response(problem.model_dump_json(), status, headers, "application/json")

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        found = error.errors()
        if isinstance(error.body, bytes) and error.body:
            # Without the header, the framework does not parse the body, and would report that bytes are no object.
            return answer(415, "not_json", "Send the body as JSON, with the header Content-Type: application/json.")
        if any(item["type"] == "json_invalid" for item in found):
            return answer(400, "invalid_json", "The body is not valid JSON.")
        return answer(422, "invalid", "The request is not valid.", wrong=found[:20])

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        code, message = _HTTP.get(error.status_code, ("refused", "The request was refused."))
        return answer(error.status_code, code, message, error.headers)

    @app.exception_handler(OslerError)
    async def mistaken(_: Request, error: OslerError) -> Response:
        # Leave out `where`, which may be a path on the server.
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
        return Response(status_code=499)  # the client is gone, nobody reads it


_HTTP = {
    400: ("invalid_json", "The body cannot be read."),
    404: ("not_found", "There is no such path. See /openapi.json."),
    405: ("wrong_method", "This path does not take that method. See /openapi.json."),
}


def _mistake(error: dict[str, Any], fields: AbstractSet[str]) -> schemas.RequestMistake:
    """Convert an error of pydantic, without its input. Names of unknown fields are input, too."""
    places = [part for part in error["loc"] if part not in ("one", "many")]
    shown = [str(part) if isinstance(part, int) or part in fields or part == "body" else "?" for part in places]
    problem = error["msg"] if error["type"] in _SPEAKING else error["type"].replace("_", " ")
    return schemas.RequestMistake(where=".".join(shown), problem=problem)


# Types of pydantic errors whose message states what is expected and not what was given.
_SPEAKING = frozenset(
    {
        "missing", "extra_forbidden", "string_type", "string_too_long", "list_type", "dict_type", "float_type",
        "float_parsing", "greater_than_equal", "less_than_equal", "literal_error", "tuple_type", "bool_type",
        "int_type", "model_attributes_type", "value_error", "too_long", "too_short", "string_unicode",
    }
)  # fmt: skip


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Error responses for the description of a route."""
    return {status: {"model": schemas.Problem, "description": _MEANING[status]} for status in statuses}


_MEANING = {
    400: "The body is not valid JSON.",
    401: "The token is missing or wrong.",
    403: "The request comes from a web page of another server.",
    408: "The request took too long to arrive.",
    409: "The bundle is not the one that the request is about.",
    413: "The request, a text or the number of documents is too large.",
    415: "The Content-Type header does not say that the body is JSON.",
    421: "The Host header names another service.",
    422: "A field is missing or wrong, a text holds a NUL character, or no head of the bundle fits.",
    429: "Too many requests are waiting; Retry-After says for how many seconds.",
    503: "The service is being stopped, or the work took too long.",
}
