"""What the server does, in numbers for Prometheus, and a line of log for each request. Neither names a user or a tenant."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

from fastapi import Depends, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memforest.errors import ForbiddenError, StoreError
from memforest.models.ledger import spent_so_far
from memforest.server.auth import Access
from memforest.server.jobs import Intake
from memforest.server.rest.routing import SCOPES, Who, can_fail, needs, strict_router

_log = logging.getLogger("memforest.requests")

BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
UNMATCHED = "unmatched"
"""The route of a request that no route is for: a path is a client's text, and never a label."""

metric_routes = strict_router()


class Metrics(Collector):
    """The metrics of one app, in a registry of its own.

    Args:
        access: knows the open files.
        intake: counts its jobs.
    """

    def __init__(self, access: Access, intake: Intake) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "memforest_http_requests",
            "Requests that were answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "memforest_http_request_seconds",
            "Time until the response began.",
            ["route"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "memforest_http_requests_in_flight", "Requests under way.", registry=self.registry
        )
        self._holder: Any = getattr(access, "tenants", access)
        self._intake = intake
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that are counted elsewhere, for the registry."""
        for name, text, value in (
            ("open_files", "Files that open memories hold.", getattr(self._holder, "open_files", 0)),
            ("cached_bytes", "Bytes of cached snapshots, about.", getattr(self._holder, "cached_bytes", 0)),
            ("job_watchers", "Connections that follow jobs.", self._intake.watchers),
        ):
            yield GaugeMetricFamily(f"memforest_{name}", text, value=value)
        jobs = GaugeMetricFamily("memforest_jobs", "Ingest jobs that are known.", labels=["state"])
        with suppress(StoreError):  # other numbers are no worse for it; that of jobs is absent then
            for state, count in self._intake.counts().items():
                jobs.add_metric([state], count)
        yield jobs
        spent = spent_so_far()
        for name, text in (
            ("calls", "Calls of models that were begun."),
            ("failures", "Calls of models without a usable reply."),
            ("seconds", "Time spent in calls."),
        ):
            family = CounterMetricFamily(f"memforest_model_{name}", text, labels=["step"])
            for step, used in spent.items():
                family.add_metric([step], getattr(used, name))
            yield family
        tokens = CounterMetricFamily(
            "memforest_model_tokens", "Tokens of requests and replies.", labels=["step", "kind"]
        )
        for step, used in spent.items():
            for kind in ("prompt", "completion", "cached"):
                tokens.add_metric([step, kind], getattr(used, f"{kind}_tokens"))
        yield tokens


class Measured:
    """Outermost middleware: count, time and log each request, without its path and parameters.

    Args:
        app: what it stands around.
        metrics: where it counts.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        status, answered = 500, begun
        seen = {**scope, "route": None}  # all that is within goes on with this one

        async def sends(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], time.perf_counter()
            await send(message)

        with self.metrics.in_flight.track_inprogress():
            try:
                await self.app(seen, receive, sends)
            finally:
                route = _template(seen)
                method = scope["method"] if scope["method"] in METHODS else "other"
                took = (answered if answered > begun else time.perf_counter()) - begun
                self.metrics.requests.labels(method, route, status).inc()
                self.metrics.seconds.labels(route).observe(took)
                _log.info("%s %s %d %.1f ms", method, route, status, took * 1000)


def _template(scope: Scope) -> str:
    """Return the template of the path that a request was for, by what the router has left in its scope."""
    mounted: str = scope.get("root_path", "")[len(scope.get("app_root_path", "")) :]
    template = getattr(scope["route"], "path", None)
    if template is not None:
        return mounted + str(template)
    asked, fixed = str(scope["path"]), {getattr(one, "path", None) for one in scope["app"].routes}
    return mounted or (asked if asked in fixed and "{" not in asked else UNMATCHED)


async def may_measure(who: Who) -> None:
    """Raise unless the key is the server's own: the metrics cover all tenants."""
    if who.tenant is not None or who.user is not None:
        raise ForbiddenError("this needs a key that was made without --tenant and --user")


@metric_routes.get(
    "/metrics",
    tags=["health"],
    operation_id="metrics",
    response_class=Response,
    dependencies=[needs("admin"), Depends(may_measure)],
    openapi_extra={SCOPES: "admin, of a key of the server itself"},
    responses={
        **can_fail(),
        200: {
            "description": "Prometheus's text format",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
    },
)
async def metrics(request: Request) -> Response:
    """Return the server's metrics. If keys exist, it needs one with the scope admin and without a tenant."""
    registry = cast(Metrics, request.app.state.metrics).registry
    body = await asyncio.to_thread(generate_latest, registry)
    return Response(body, media_type=CONTENT_TYPE_LATEST)
