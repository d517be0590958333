"""A server without keys does not answer other sites' pages; one with keys leaves that to the key."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("limits")
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_access_keys import NO_LIMITS
from tests_long.worlds import fast_config

from memforest.server.access import KeyedAccess
from memforest.server.keys import KEY_FILE, KeyStore
from memforest.server.serving import open_guard

OWN = [
    {"host": "memory.example:443"}, {"host": "127.0.0.1:8420"}, {"host": "localhost"}, {"host": "LOCALHOST:1"}, {"host": "[::1]:8420"},
    {"host": "127.0.0.1:8420", "origin": "http://127.0.0.1:8420"}, {"host": "Localhost:1", "origin": "http://localhost:1"},
    {"host": "localhost:8420", "origin": "https://app.example"},
]  # fmt: skip
OTHERS = [
    {}, {"host": ""}, {"host": "evil.example", "x-api-key": "any"}, {"host": "evil.example", "authorization": "Bearer any"},
    {"host": "evil.example"}, {"host": "evil.example:8420"}, {"host": "localhost.evil.example"}, {"host": "127.0.0.1.evil.example"},
    {"host": "evil@"}, {"host": "[::1"}, {"host": "0.0.0.0:8420"}, {"host": ":8420"}, {"host": "evil#localhost"},
    {"host": "127.0.0.1:8420", "origin": "https://evil.example"}, {"host": "127.0.0.1:8420", "origin": "null"},
    {"host": "127.0.0.1:8420", "origin": "http://localhost:8420"}, {"host": "127.0.0.1:8420", "origin": "http://127.0.0.1:3000"},
    {"origin": "https://evil.example"}, {"host": "127.0.0.1", "origin": "http://[127.0.0.1"},
    {"host": "localhost:8420", "origin": "https://app.example.evil.example"},
]  # fmt: skip


async def app(_scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
    """Answer every request."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


def ask(
    folder: Path, *headers: tuple[str, str], loopback: bool = True, path: str = "/v1/users"
) -> tuple[int, Any]:
    """Return status and body of the answer to a request with some headers."""
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    async def work() -> None:
        access = KeyedAccess(folder, fast_config(), NO_LIMITS, loopback=loopback)
        raw = [(name.encode(), value.encode()) for name, value in headers]
        guard = open_guard(app, access=access, origins=["https://app.example"], hosts=["memory.example"])
        await guard({"type": "http", "path": path, "headers": raw}, receive, send)
        await access.close()

    asyncio.run(work())
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.mark.parametrize("headers", OWN, ids=str)
def test_this_machine_and_what_is_configured_may_ask(folder: Path, headers: dict[str, str]) -> None:
    """Clients that are no browsers send no origin; the server's own pages send its own."""
    assert ask(folder, *headers.items())[0] == 200


@pytest.mark.parametrize("headers", OTHERS, ids=str)
def test_pages_of_other_sites_are_refused_while_no_key_is_needed(
    folder: Path, headers: dict[str, str]
) -> None:
    """By the name that they ask for, or the origin that the browser adds; as a problem that says what to do."""
    status, body = ask(folder, *headers.items())
    assert status == body["status"]
    assert status in (403, 421)
    assert "memforest keys create NAME" in body["detail"]


def test_health_is_told_to_anybody(folder: Path) -> None:
    """Whoever asks learns only that."""
    for path in ("/livez", "/readyz"):
        assert ask(folder, ("host", "10.0.0.7:8420"), path=path)[0] == 200
    assert ask(folder, ("host", "10.0.0.7:8420"), path="/livez/../v1/users")[0] == 421


def test_a_header_that_comes_twice_is_refused(folder: Path) -> None:
    """Nobody chooses which of the two counts."""
    assert ask(folder, ("host", "localhost"), ("host", "evil.example"))[0] == 421
    assert ask(folder, ("host", "localhost"), ("origin", ""), ("origin", "https://evil.example"))[0] == 403


@pytest.mark.parametrize("headers", OTHERS, ids=str)
def test_with_a_key_any_name_may_be_asked_for(folder: Path, headers: dict[str, str]) -> None:
    """A proxy passes its own name on; what decides is the key. So it is where others reach the server."""
    assert ask(folder, *headers.items(), loopback=False)[0] == 200
    store = KeyStore(folder)
    store.create("a")
    store.close()
    assert ask(folder, *headers.items())[0] == 200


def test_keys_that_cannot_be_read_are_the_apps_to_report(folder: Path) -> None:
    """Nobody is let in then, so nothing has to be guarded."""
    path = folder / KEY_FILE
    path.parent.mkdir()
    path.write_bytes(b"\xff" * 4096)
    assert ask(folder, ("host", "evil.example"))[0] == 200
