"""Schemathesis: requests made from the OpenAPI description, right and wrong ones, never break the service, and answers have the
form that it promises."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from osler.stages.serve.server.app import create_app
from osler.stages.serve.server.settings import ServeRecipe

LOCAL = {"host": "localhost"}
PATHS = [
    "/v1/annotate",
    "/v1/deid",
    "/v1/similarity",
    "/v1/infer",
    "/v1/labels",
    "/v1/card",
    "/healthz",
    "/readyz",
    "/metrics",
]
PATHS += ["/v1/page", "/v1/language", "/v1/convert", "/v1/corrections"]


@pytest.fixture(scope="module")
def schema(engine, bundle, tmp_path_factory):
    app = create_app(engine, ServeRecipe(bundle=bundle, corrections=tmp_path_factory.mktemp("corrections")))

    async def started(scope, receive, send):
        """The application without its end: Schemathesis starts and stops it for every request."""
        if scope["type"] == "lifespan":
            while (message := await receive())["type"] != "lifespan.shutdown":
                await send({"type": f"{message['type']}.complete"})
            return await send({"type": "lifespan.shutdown.complete"})
        return await app(scope, receive, send)

    yield schemathesis.openapi.from_asgi("/openapi.json", started, headers=LOCAL)
    app.state.service.close()


def test_every_route_is_tested(schema):
    assert {result.ok().path for result in schema.get_all_operations()} >= set(PATHS)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("path", PATHS)
def test_the_service_keeps_its_description(schema, path, mode):
    [operation] = [made for result in schema.get_all_operations() if (made := result.ok()).path == path]
    if mode is GenerationMode.NEGATIVE and not operation.body:
        return  # nothing can be wrong

    @settings(
        max_examples=40,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        # A head and a language can each be right and not fit each other.
        answer = case.call_and_validate(headers=LOCAL, excluded_checks=[positive_data_acceptance])
        assert answer.status_code < 500
        if mode is GenerationMode.POSITIVE and not operation.body:
            assert answer.status_code == 200

    check()
