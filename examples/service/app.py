"""The service as an ASGI application."""

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import keras_mmil
from service.answer import Answer, Answers
from service.bodies import whole_body
from service.limits import Limits
from service.metrics import Metrics
from service.problem import Problem, ProblemBody
from service.served import Served
from service.worker import Worker

__all__ = ["create_app"]

_JSON, _PROMETHEUS = "application/json", "text/plain; version=0.0.4; charset=utf-8"
_REFUSED = {
    400: "no JSON, or a body that is cut",
    408: "a body that is too slow",
    413: "a body that is too large",
    415: "a body that is said to be something else than JSON, or is compressed",
    422: "JSON that is no such record, or more than is allowed",
    503: "too many requests wait, or there was no time",
}


@dataclass(frozen=True)
class About:
    """What the service takes, and what it says.

    Attributes:
        kind: "records", which are objects, or "texts", which are strings.
        classes: the names that `label` may be.
        parts: paths and kinds of the parts of records that are read. All others are ignored, and
            all may be missing.
        limits: what is allowed.
    """

    kind: str
    classes: list[str]
    parts: list[dict[str, str]]
    limits: dict[str, float]


@dataclass(frozen=True)
class Health:
    """Whether the service is there.

    Attributes:
        live: true.
        ready: whether a request would be answered. If not, the status is 503.
    """

    live: bool
    ready: bool


def create_app(served: Served, limits: Limits | None = None) -> FastAPI:
    """The service of a network with its rules.

    Args:
        served: the network.
        limits: what a client may do; None for the defaults.
    """
    limits, metrics = limits or Limits(), Metrics()
    worker: Worker | None = None

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        nonlocal worker
        served.warm_up()
        worker = Worker(served, limits, metrics)
        yield
        worker.close()
        worker = None

    app = FastAPI(
        title="Labels of nested records, and why",
        version=keras_mmil.__version__,
        lifespan=lifespan,
        exception_handlers={Problem: _refused, HTTPException: _no_such_endpoint},
    )
    app.add_middleware(_Counted, metrics=metrics)
    described = {"about": About(**served.about, limits=vars(limits)), "blank": served.blank}
    record = {"type": "object" if served.about["kind"] == "records" else "string"}

    async def answered(request: Request, is_batch: bool) -> Response:
        body = await whole_body(request, limits)
        if worker is None:
            raise Problem(503, "stopping", "The service stops")
        return Response(await worker.answer(body, is_batch), media_type=_JSON)

    @app.post("/predict", response_model=Answer, **_documented("record", record))
    async def predict(request: Request) -> Response:
        """What network and rules say of a record."""
        return await answered(request, is_batch=False)

    @app.post(
        "/predict/batch",
        response_model=Answers,
        **_documented("records", {"type": "array", "items": record, "maxItems": limits.records}),
    )
    async def predict_batch(request: Request) -> Response:
        """What network and rules say of several records; if one cannot be read, of none."""
        return await answered(request, is_batch=True)

    @app.get("/schema", response_model=About)
    async def schema() -> About:
        """What records have to be, and the limits."""
        return described["about"]

    @app.get("/health", response_model=Health, responses={503: {"model": Health}})
    async def health(response: Response) -> Health:
        """Whether the service is ready; that it answers says that it is live."""
        ready = worker is not None and worker.is_ready
        response.status_code = 200 if ready else 503
        return Health(live=True, ready=ready)

    @app.get("/metrics", response_class=Response)
    async def figures() -> Response:
        """Counters, for Prometheus."""
        return Response(metrics.as_text(), headers={"content-type": _PROMETHEUS})

    return app


def _documented(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """What OpenAPI is to say of an endpoint that reads its body itself."""
    envelope = {
        "type": "object",
        "properties": {name: schema},
        "required": [name],
        "additionalProperties": False,
    }
    body = {"required": True, "content": {_JSON: {"schema": envelope}}}
    responses = {
        status: {"model": ProblemBody, "description": what} for status, what in _REFUSED.items()
    }
    return {"openapi_extra": {"requestBody": body}, "responses": responses}


async def _refused(_: Request, problem: Problem) -> Response:
    headers = {"connection": "close"} if problem.has_unread_body else {}
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["retry-after"] = "1"
    return Response(problem.content(), problem.status, headers, _JSON)


async def _no_such_endpoint(_: Request, error: HTTPException) -> Response:
    refusal = {"code": f"http_{error.status_code}", "message": error.detail, "where": None}
    return JSONResponse({"error": refusal}, error.status_code, error.headers)


class _Counted:
    """Counts and times requests, and has browsers take answers for nothing but data."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
                route = scope.get("route")
                endpoint = "other" if route is None else route.path
                seconds = time.perf_counter() - started
                self._metrics.count_request(endpoint, message["status"], seconds)
            await send(message)

        await self._app(scope, receive, send_counted)
