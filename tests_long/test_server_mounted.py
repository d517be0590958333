"""Tests of apps that are mounted in the app of a host, below a prefix: addresses, errors, jobs and the end."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("mcp.server.mcpserver")
pytest.importorskip("jinja2")
pytest.importorskip("httpx")

from fastapi import FastAPI
from fastapi.testclient import TestClient

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config

from memforest import MemForest
from memforest.server.rest.app import create_app
from memforest.server.serving import create_server

TURNS = [{"role": "user", "content": "I live in Davis.", "timestamp": "2024-05-01T10:00:00Z"}]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


def mounted(inner: FastAPI, prefix: str = "/my memory") -> FastAPI:
    """Return a host's app with another one below a prefix, as docs/serving.md shows it."""

    @asynccontextmanager
    async def lifespan(_host: FastAPI) -> AsyncIterator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    host = FastAPI(lifespan=lifespan)
    host.mount(prefix, inner)
    return host


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    """A client of a whole server in a host's app."""
    with TestClient(
        mounted(create_server(folder, fast_config())), base_url="http://localhost", follow_redirects=False
    ) as made:
        yield made


def test_what_was_made_is_where_its_location_says(client: TestClient) -> None:
    """`Location` of a user, a session and a job leads there, below the prefix, with ids that need encoding."""
    user = client.put("/my memory/v1/users/a%2Fb", json={})
    session = client.put("/my memory/v1/users/a%2Fb/sessions/x%20y", json={"turns": TURNS})
    sent = {"sessions": [{"user_id": "ana", "session_id": "s", "turns": TURNS}]}
    job = client.post("/my memory/v1/ingest", json=sent)
    assert [one.status_code for one in (user, session, job)] == [201, 201, 202]
    assert user.headers["Location"] == "/my%20memory/v1/users/a%2Fb"
    for one in (user, session, job):
        assert client.get(one.headers["Location"]).status_code == 200
    assert client.get(job.headers["Location"]).json()["id"] == job.json()["id"]


def test_the_document_and_problems_are_those_of_the_app(client: TestClient) -> None:
    """The document says where the app is, and an error is a problem there too."""
    document = client.get("/my memory/openapi.json").json()
    assert document["servers"] == [{"url": "/my memory"}]
    for path, status in (("/v1/users/nobody", 404), ("/nothing", 404), ("/v1/users?nothing=1", 422)):
        answer = client.get(f"/my memory{path}")
        assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")


def test_the_inspector_is_found_without_its_last_slash(client: TestClient) -> None:
    """`/ui`, as the server prints it, leads to its pages, and these to one another."""
    answer = client.get("/my memory/ui")
    assert (answer.status_code, answer.headers["Location"]) == (307, "/my%20memory/ui/")
    page = client.get("/my memory/ui/")
    assert page.status_code == 200
    assert 'href="/my memory/ui/' in page.text or 'href="/my%20memory/ui/' in page.text


def test_mcp_answers_within_the_lifespan_of_the_host(client: TestClient) -> None:
    """Its sessions live in the lifespan that the host's app enters."""
    accepts = {"Accept": "application/json, text/event-stream"}
    assert "memforest" in client.post("/my memory/mcp", json=INITIALIZE, headers=accepts).text


def test_memories_are_closed_with_the_host_and_used_beside_it(folder: Path) -> None:
    """The library may be used in the same process meanwhile; at the end no write-ahead log is left."""
    config = fast_config()
    with TestClient(mounted(create_app(folder, config), "/m")) as client:
        assert client.put("/m/v1/users/ana/sessions/s", json={"turns": TURNS}).status_code == 201
        with MemForest(folder, config) as forest:
            forest.user("ana").add("I moved to Miami.")
        found = client.post("/m/v1/users/ana/search", json={"question": "Where does she live?"}).json()
        assert "I moved to Miami." in {one["text"] for one in found["evidence"]}
    assert list(folder.glob("*.db"))
    assert not list(folder.glob("*-wal"))
