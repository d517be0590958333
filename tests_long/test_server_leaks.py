"""Two tenants at one server: no request of one brings a byte of the other's, in no answer, log line, metric or span."""

from __future__ import annotations

import io
import json
import logging
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("mcp.server.mcpserver")
pytest.importorskip("opentelemetry.sdk")
sys.path.insert(0, str(Path(__file__).parent.parent))

from fastapi.testclient import TestClient
from opentelemetry import trace as spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests_long.leaking import AGAIN, COOKIE, MCP, USERS, Drawn, Request, Tenant, unwrapped

from memforest import Config
from memforest.integrations.records import seal
from memforest.models import HashEmbedder
from memforest.server.access import KeyedAccess
from memforest.server.auth import AccessSettings
from memforest.server.commands import with_log
from memforest.server.keys import KeyStore
from memforest.server.serving import ServerSettings, create_server

REQUESTS = 500
EVERY = 20
"""Of so many requests one is followed by a look at what ids there are now."""
LISTS = ("facts?limit=2", "sessions?limit=1", "entities?limit=1", "changes?since=2020-01-01&limit=1")
LOGGERS = ("memforest", "uvicorn", "mcp", "sse_starlette")


@dataclass
class World:
    """A server with two tenants, and what it writes beside its answers."""

    client: TestClient
    document: dict[str, Any]
    tenants: list[Tenant]
    root: str
    """A key of the server itself."""
    spans: InMemorySpanExporter
    log: io.StringIO


@contextmanager
def traced() -> Iterator[InMemorySpanExporter]:
    """Keep the spans that are made meanwhile; OpenTelemetry takes one provider for the whole process."""
    provider = spans.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        spans.set_tracer_provider(provider)
    kept = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    yield kept
    kept.shutdown()


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """Log as `memforest serve --log requests` does to standard error, and keep it."""
    before = {
        name: (list((log := logging.getLogger(name)).handlers), log.level, log.propagate) for name in LOGGERS
    }
    with_log("requests")
    kept = io.StringIO()
    for handler in logging.getLogger(LOGGERS[0]).handlers:
        if isinstance(handler, logging.StreamHandler) and handler not in before[LOGGERS[0]][0]:
            handler.setStream(kept)
    yield kept
    for name, (handlers, level, propagate) in before.items():
        log = logging.getLogger(name)
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A server with two tenants whose users have the same names."""
    store = KeyStore(tmp_path)
    every = ("read", "write", "delete", "admin")
    tenants = [
        Tenant(mark, store.create(f"k{n}", tenant=f"{mark}-corp", scopes=every).key)
        for n, mark in enumerate(("quorvax", "zembril"))
    ]
    root = store.create("root", scopes=every).key
    store.close()
    limits = AccessSettings(key_rate=None, tenant_rate=None)
    access = KeyedAccess(tmp_path, Config(embedder=HashEmbedder()), limits)
    app = create_server(tmp_path, settings=ServerSettings(tools="full"), access=access)
    client = TestClient(
        app, base_url="http://127.0.0.1:8420", raise_server_exceptions=False, follow_redirects=False
    )
    with traced() as kept, logged() as log, client:
        for one in tenants:
            _settle(client, one)
        yield World(client, app.openapi(), tenants, root, kept, log)


def _settle(client: TestClient, one: Tenant) -> None:
    """Let a tenant's users tell something, and come in by every door."""
    mine = {"x-api-key": one.key}
    _tell(client, one)
    for user in USERS:
        told = [{**turn, "id": f"{turn['id']}j"} for turn in one.turns(user)]
        sessions = [{"user_id": user, "session_id": f"{one.mark}-job", "turns": told}]
        job = client.post("/v1/ingest", json={"sessions": sessions}, headers=mine)
        assert job.status_code == 202, job.text
        one.learn(job.json())
        one.seen("session_id", f"{one.mark}-{user}")
        one.seen("turn_id", f"{one.mark}-turn-1")
        one.seen("memory_id", seal("t", user, f"{one.mark}-{user}", f"{one.mark}-turn-2"))
    one.seen("entity", one.name)
    _learn(client, one)
    for fact in sorted(one.ids["fact_id"]):
        one.seen("memory_id", seal("f", USERS[0], fact))
    one.cookie, one.form_token = _logged_in(client, one.key)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    opened = client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        headers={**MCP, "authorization": f"Bearer {one.key}"},
    )
    one.mcp_session = opened.headers["mcp-session-id"]


def _tell(client: TestClient, one: Tenant) -> None:
    """Let a tenant's users tell what they told, if it is not there."""
    for user in USERS:
        path = f"/v1/users/{user}/sessions/{one.mark}-{user}"
        answer = client.put(path, json={"turns": one.turns(user)}, headers={"x-api-key": one.key})
        assert answer.status_code in (200, 201, 409), answer.text  # 409: something was added to it meanwhile


def _logged_in(client: TestClient, key: str) -> tuple[str, str]:
    """Return the cookie of a session of the inspector, and the token of its forms."""
    page = client.get("/ui/login")
    entered = client.post(
        "/ui/login", data={"token": _token(page.text), "key": key}, headers={"cookie": _cookie(page)}
    )
    assert entered.status_code == 303, entered.text
    cookie = _cookie(entered)
    client.cookies.clear()
    shown = client.get(f"/ui/facts?user={USERS[0]}", headers={"cookie": cookie})
    client.cookies.clear()
    return cookie.partition("=")[2], _token(shown.text)


def _token(page: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found
    return found[1]


def _cookie(answer: Any) -> str:
    return f"{COOKIE}={answer.cookies[COOKIE]}"


def _learn(client: TestClient, tenant: Tenant) -> None:
    """Keep the ids and cursors that a tenant's own listings give."""
    for path in ("jobs?limit=1", *(f"users/{user}/{one}" for user in USERS for one in LISTS)):
        answer = client.get(f"/v1/{path}", headers={"x-api-key": tenant.key})
        if answer.status_code == 200:
            tenant.learn(answer.json())


def _foreign(told: str, other: Tenant, sent: str) -> list[str]:
    """Return what in a text is another tenant's: its words, its ways in, and ids that the caller has not named itself."""
    text = (told + unwrapped(told)).lower()
    ids = [one for one in other.own_ids if one.lower() not in sent]
    return [one for one in (*other.words, *ids) if one.lower() in text]


@pytest.mark.timeout(240)
def test_no_request_brings_a_byte_of_another_tenant(world: World) -> None:
    """500 drawn requests at every door with swapped ids, keys, cursors, cookies and sessions: nothing of the other's comes."""
    rng = random.Random(16)
    drawn = Drawn(world.document, world.tenants, rng)
    done: dict[str, Counter[int]] = {}
    client = world.client
    for at in range(REQUESTS):
        me, other = rng.sample(world.tenants, 2)
        request = drawn.draw(me, other)
        me.sent += request.sent
        answer = _asked(client, request)
        done.setdefault(request.what, Counter())[answer.status_code] += 1
        assert answer.status_code < 500 or answer.status_code == 501, (request, answer.text)
        told = answer.text + json.dumps(dict(answer.headers))
        assert not _foreign(told, other, me.sent), (request, told)
        if answer.status_code < 400 and (request.method == "DELETE" or "delete" in request.what):
            _tell(client, me)  # what was deleted is there again for the next one
        if at % EVERY == 0:
            _learn(client, me)
    _was_worth_it(done)
    _nothing_beside(world)


def _asked(client: TestClient, request: Request) -> Any:
    """Send a request; cookies are its own, not those of the request before."""
    client.cookies.clear()
    return client.request(
        request.method, request.url, json=request.json, data=request.form, headers=request.headers
    )


def _was_worth_it(done: dict[str, Counter[int]]) -> None:
    """Every door was asked, answered what was its own, and refused what was not."""
    for door, least in (("mem0 ", 8), ("mcp ", 8), ("ui ", 8), ("", 60)):
        kinds = [statuses for what, statuses in done.items() if what.startswith(door)]
        assert len(kinds) >= least, (door, len(kinds))
        assert sum(any(status < 400 for status in one) for one in kinds) >= least // 2, door
        assert any(status in one for one in kinds for status in (403, 404)), door
    for what in ("ingest", "merge", "merge_user_forests", "get_job", "watch_job", "add", "export"):
        assert any(status < 300 for status in done[what]), (what, done[what])


def _nothing_beside(world: World) -> None:
    """Neither log nor metrics nor spans name a tenant, a user, a key, or anything that was said."""
    metrics = world.client.get("/metrics", headers={"x-api-key": world.root})
    assert metrics.status_code == 200
    made = world.spans.get_finished_spans()
    traces = "\n".join(f"{one.name} {one.to_json()}" for one in made)
    for what, text, sign in (
        ("metrics", metrics.text, 'route="/v1/users/{user_id}/search"'),
        ("traces", traces, "gen_ai.memory.store.id"),
        ("log", world.log.getvalue(), "GET /v1/users/{user_id}/facts 200"),
    ):
        assert sign in text, (what, text[-2000:])
        secrets = [one for tenant in world.tenants for one in (tenant.mark, tenant.key, tenant.cookie)]
        for secret in (*secrets, *USERS, world.root, AGAIN):
            assert secret.lower() not in (text + unwrapped(text)).lower(), (what, secret)


def test_anothers_user_is_answered_as_nobody(world: World) -> None:
    """A user whom only the other tenant has gets the same answer as one whom nobody has, but for the name that was sent."""
    one, other = world.tenants
    world.client.put("/v1/users/zed", headers={"x-api-key": other.key})
    answers = []
    for user in ("zed", "yod"):
        for method, path, body in (
            ("GET", "facts", None),
            ("GET", "stats", None),
            ("POST", "search", {"question": "where?"}),
            ("DELETE", "sessions/x", None),
            ("GET", "", None),
        ):
            url = f"/v1/users/{user}/{path}".rstrip("/")
            answer = world.client.request(method, url, json=body, headers={"x-api-key": one.key})
            told = answer.json()
            for of_the_moment in ("usage", "reference_date"):
                told.pop(of_the_moment, None)
            answers.append((user, answer.status_code, json.dumps(told).replace(user, "?")))
    half = len(answers) // 2
    assert [answer[1:] for answer in answers[:half]] == [answer[1:] for answer in answers[half:]]
    assert [status for _, status, _ in answers[:half]] == [200, 200, 200, 404, 404]
