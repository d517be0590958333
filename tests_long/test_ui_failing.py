"""Errors that nobody expected, behind the inspector and MCP: answered, never raised, and logged without their text."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jinja2")
pytest.importorskip("mcp")

from fastapi.testclient import TestClient

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.inspected import Browser, opened
from tests_long.worlds import fast_config

from memforest.errors import (
    CorruptStoreError,
    SchemaVersionError,
    StoreError,
    StoreKeyError,
    StoreLockedError,
)
from memforest.memory.forest import AsyncMemForest
from memforest.memory.user import AsyncUserMemory
from memforest.server.access import KeyedAccess
from memforest.server.auth import OpenAccess, as_sentence, detail_of, place_of
from memforest.server.mcp.http import http_app
from memforest.server.serving import ServerSettings, create_server
from memforest.server.ui.app import HEADERS, guarded, ui_app
from memforest.server.ui.site import Sessions

SECRET = "/srv/secret/ann.db: I live in Berlin"
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


async def fails(*_args: object, **_options: object) -> Any:
    """Fail as nobody expects, with what nobody may read in the message."""
    raise RuntimeError(SECRET)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log, with all that anything writes."""
    caplog.set_level(logging.DEBUG)
    return caplog


def told(log: pytest.LogCaptureFixture) -> list[str]:
    """Return the errors in the log, all of which are without text and trace."""
    for record in log.records:
        assert record.exc_info is None or record.levelno < logging.WARNING, record
        if record.levelno >= logging.WARNING:
            assert "secret" not in record.getMessage()
    assert "Traceback" not in log.text
    return [record.getMessage() for record in log.records if record.levelno >= logging.ERROR]


def call(method: str, **params: Any) -> dict[str, Any]:
    """Return a request of MCP."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


HELLO = call(
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "t", "version": "1"},
)


def served(folder: Path) -> TestClient:
    """Return a client of the whole server; whatever the app raises comes through to the test."""
    app = create_server(folder, fast_config(), ServerSettings())
    return TestClient(app, base_url="http://127.0.0.1:8420", raise_server_exceptions=True)


def test_a_page_that_fails_is_a_page_of_the_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    """With the headers of all pages; the log has one line, of its kind and place."""
    monkeypatch.setattr(AsyncUserMemory, "stats", fails)
    with served(folder) as client:
        answer = client.get("/ui/forest", params={"user": "ann"})
    assert answer.status_code == 500
    assert "Something went wrong on the server." in answer.text
    assert "secret" not in answer.text
    assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]
    [line] = told(log)
    assert re.fullmatch(r"unexpected RuntimeError at memforest\.server\.ui\.\w+:\d+", line)


def test_a_tool_that_fails_is_a_result_of_the_tool(
    folder: Path, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    """An error in one sentence, as of every tool."""
    monkeypatch.setattr(AsyncUserMemory, "search", fails)
    asked = call("tools/call", name="search_memory", arguments={"user": "ann", "query": "where"})
    with served(folder) as client:
        client.put("/v1/users/ann/sessions/s", json={"turns": [{"speaker": "ann", "content": "Hello."}]})
        hello = client.post("/mcp", json=HELLO, headers=MCP)
        session = hello.headers.get("mcp-session-id")
        headers = MCP if session is None else {**MCP, "mcp-session-id": session}
        answer = client.post("/mcp", json=asked, headers=headers)
    assert answer.status_code == 200, answer.text
    assert "search_memory failed inside the server" in answer.text
    assert "secret" not in answer.text
    assert [line for line in told(log) if "RuntimeError" in line]


@pytest.mark.parametrize("path", ["/ui/", "/mcp", "/v1/users"])
def test_a_door_that_fails_is_answered(
    folder: Path, path: str, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    """Whoever asks, at each of the front ends, is told the same: that it is the server's fault."""
    with served(folder) as client:
        monkeypatch.setattr(KeyedAccess, "identify", fails)
        answer = (
            client.post(path, json=HELLO, headers=MCP)
            if path == "/mcp"
            else client.get(path, follow_redirects=False)
        )
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert len(told(log)) == 1


def test_the_inspector_by_itself_raises_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    """As `memforest inspect` runs it: the transport of this browser hands on what an app raises."""
    forest = opened(folder)
    monkeypatch.setattr(AsyncMemForest, "users", fails)
    answer = Browser(ui_app(OpenAccess(forest))).get("/")
    asyncio.run(forest.close())
    assert (answer.status_code, "secret" in answer.text) == (500, False)
    assert len(told(log)) == 1


@pytest.mark.parametrize("page", ["/login", "/logout"])
def test_coming_and_going_raise_nothing(
    folder: Path, page: str, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    """They are no pages of a memory, and answered alike."""

    def broken(*_args: object) -> str:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(Sessions, "token", broken)
    forest = AsyncMemForest(str(folder), fast_config())
    browser = Browser(ui_app(OpenAccess(forest)))
    answer = browser.get(page) if page == "/login" else browser.post(page, token="x")
    asyncio.run(forest.close())
    assert (answer.status_code, "secret" in answer.text) == (500, False)
    assert len(told(log)) == 1


def test_mcp_by_itself_raises_nothing(folder: Path, log: pytest.LogCaptureFixture) -> None:
    """As `memforest mcp --http` runs it."""

    class Broken(OpenAccess):
        async def count(self, principal: object) -> None:
            await fails()

    forest = AsyncMemForest(str(folder), fast_config())
    app = http_app(Broken(forest)).alone("/mcp")
    with TestClient(app, base_url="http://127.0.0.1:8420", raise_server_exceptions=True) as client:
        answer = client.post("/mcp", json=HELLO, headers=MCP)
    asyncio.run(forest.close())
    assert (answer.status_code, answer.json()["error"]) == (500, "server_error")
    assert answer.json()["error_description"].startswith("the request failed inside the server")
    assert len(told(log)) == 1


def run(app: Any, kind: str = "http") -> list[dict[str, Any]]:
    """Return what an app sends for one request."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app({"type": kind, "method": "GET", "path": "/", "headers": []}, fails, send))
    return sent


def test_a_page_that_was_begun_stays_unfinished(log: pytest.LogCaptureFixture) -> None:
    """No second head is sent into it, and no end: the browser sees that it broke off."""

    async def breaks_off(_scope: object, _receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        await fails()

    sent = run(guarded(breaks_off))
    assert [one["type"] for one in sent] == ["http.response.start", "http.response.body"]
    assert sent[-1]["more_body"] is True
    assert len(told(log)) == 1


def test_what_ends_a_request_from_outside_is_no_error(log: pytest.LogCaptureFixture) -> None:
    """A request that is cancelled, as when the server stops, is cancelled."""

    async def cancelled(*_args: object) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run(guarded(cancelled))
    assert told(log) == []


def test_the_place_is_the_innermost_of_ours() -> None:
    """Not a library's below it, and not who called."""
    with pytest.raises(TypeError) as caught:
        asyncio.run(guarded(None)({"type": "lifespan"}, fails, fails))  # type: ignore[arg-type]
    assert re.fullmatch(r"memforest\.server\.ui\.app:\d+", place_of(caught.value))
    assert place_of(RuntimeError(SECRET)) == "?"


@each(
    ("error", "said"),
    [
        (SchemaVersionError(SECRET), "Another version of memforest wrote the memory"),
        (StoreKeyError(SECRET), "encryption does not fit"),
        (CorruptStoreError(SECRET), "`memforest maintain repair` mends"),
        (StoreLockedError(SECRET), "try again"),
        (StoreError(SECRET), "`memforest doctor` says why"),
    ],
)
def test_a_store_that_cannot_be_read_says_what_to_do(error: StoreError, said: str) -> None:
    """By its kind, and without its own words, which name a path."""
    assert said in as_sentence(detail_of(error))
    assert "secret" not in detail_of(error)
