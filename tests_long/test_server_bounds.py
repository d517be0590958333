"""What a request may cost before it is served: the key comes first, bodies are bounded, and nobody has another tenant's share."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.doubles import local_reply

from memforest import Config
from memforest.server.auth import AccessSettings
from memforest.server.keys import KeyStore
from memforest.server.rest import app as asgi
from memforest.server.rest import user_routes
from memforest.server.rest.app import DOWNLOADS
from memforest.server.serving import ServerSettings, create_server
from memforest.settings import MAX_BODY_ITEMS
from memforest.testing import FunctionChat

T = TypeVar("T")

UNLIMITED = ServerSettings(access=AccessSettings(key_rate=None, tenant_rate=None, ingests_per_tenant=100))
THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Worker threads of asyncio, which the server shares with everything else in its process."""
BUSY_S = 5.0
KEYLESS = Config(embedder="none")
JSON = {"content-type": "application/json"}
WRITES = (
    "/v1/users/ann/sessions/s",
    "/compat/mem0/v3/memories/add/",
    "/compat/openai/v1/vector_stores/ann/search",
)


class Server:
    """A server with keys of two tenants, asked as ASGI.

    Attributes:
        one: a key of a tenant.
        other: a key of another one.
    """

    def __init__(self, folder: Path, settings: ServerSettings = UNLIMITED, config: Config = KEYLESS) -> None:
        keys = KeyStore(folder)
        self.one, self.other = (keys.create(name, tenant=name).key for name in ("one", "other"))
        self.app = create_server(folder, config, settings)

    def scope(
        self, method: str, path: str, key: str | None, headers: Mapping[str, str] = {}
    ) -> dict[str, Any]:
        """Return the scope of a request."""
        path, _, query = path.partition("?")
        given = {"host": "localhost", **headers, **({} if key is None else {"x-api-key": key})}
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 8420),
        }

    async def ask(
        self, method: str, path: str, key: str | None, body: bytes = b"", headers: Mapping[str, str] = JSON
    ) -> tuple[int, Any]:
        """Return status and content of an answer; the body comes as one piece, and nothing after it."""
        parts, sent = [{"type": "http.request", "body": body, "more_body": False}], []

        async def receive() -> Any:
            return parts.pop() if parts else await asyncio.sleep(3600)

        async def send(message: Any) -> None:
            sent.append(message)

        given = {**headers, "content-length": str(len(body))}
        await self.app(self.scope(method, path, key, given), receive, send)
        content = b"".join(one.get("body", b"") for one in sent[1:])
        kind = dict(sent[0]["headers"])[b"content-type"]
        is_json = kind in (b"application/json", b"application/problem+json")
        return sent[0]["status"], json.loads(content) if is_json else content


def run(server: Server, work: Coroutine[Any, Any, T]) -> T:
    """Return what comes of work with a server, which is closed then."""

    async def whole() -> T:
        try:
            return await work
        finally:
            await server.app.state.access.close()

    return asyncio.run(whole())


async def each(*jobs: Coroutine[Any, Any, tuple[int, Any]]) -> list[int]:
    """Return the statuses of requests that are made one after the other."""
    return [(await one)[0] for one in jobs]


def session(*texts: str) -> bytes:
    """Return the body of a session."""
    turns = [{"speaker": "Ann", "text": text, "timestamp": "2024-05-01"} for text in texts]
    return json.dumps({"turns": turns, "infer": False}).encode()


@pytest.mark.parametrize(
    "path", [*WRITES, "/v1/users/ann/search", "/v1/users/ann/import", "/v1/ingest", "/mcp"]
)
@pytest.mark.parametrize("key", [None, "mfk_unknown"])
def test_no_body_is_read_without_a_key(folder: Path, path: str, key: str | None) -> None:
    """Who has no key, or one that does not hold, is answered before a byte of the body was asked for."""
    server = Server(folder)
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    async def work() -> None:
        given = {**JSON, "content-length": "9000000", "accept": "application/json, text/event-stream"}
        method = "PUT" if "/sessions/" in path else "POST"
        await server.app(server.scope(method, path, key, given), receive, send)

    run(server, work())
    assert sent[0]["status"] == 401


def test_a_key_that_may_only_read_sends_no_body(folder: Path) -> None:
    """What a key does not allow is refused before the body is looked at: 403, although the body is no JSON."""
    server = Server(folder)
    reads = KeyStore(folder).create("reads", tenant="one", scopes=["read"]).key
    asked = (server.ask("PUT", WRITES[0], key, b"[") for key in (reads, server.one))
    assert run(server, each(*asked)) == [403, 422]


@pytest.mark.parametrize(
    "path", ["/v1/users/ann/trees", "/v1/users/ann/profile", "/mcp", "/ui/ask?user=ann&q=Who%3F&answer=1"]
)
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_sites_page_asks_no_model(folder: Path, path: str, site: str) -> None:
    """Where no key is needed, a browser tells of such requests, a picture's among them; nothing is looked at then."""
    chat = FunctionChat(local_reply)
    app = create_server(folder, Config(embedder="none", chat=chat), ServerSettings())
    server = Server.__new__(Server)
    server.app = app

    async def work() -> tuple[list[int], int]:
        assert (await server.ask("PUT", WRITES[0], None, session("I moved to Oslo.")))[0] == 201
        made = len(chat.requests)
        found = await each(server.ask("GET", path, None, headers={"sec-fetch-site": site}))
        return found, len(chat.requests) - made

    assert run(server, work()) == ([403], 0)


@pytest.mark.parametrize("path", WRITES)
@pytest.mark.parametrize(
    "body",
    [
        b'{"turns":[' + b",".join([b'{"q":1}'] * MAX_BODY_ITEMS) + b",{}]}",
        b"{" + b",".join(b'"k%d":1' % number for number in range(MAX_BODY_ITEMS + 1)) + b"}",
    ],
    ids=("items", "names"),
)
def test_a_body_of_too_many_values_is_refused(folder: Path, path: str, body: bytes) -> None:
    """It is refused as a whole, with one sentence: nothing is said of each of its values."""
    server = Server(folder)
    status, problem = run(
        server, server.ask("PUT" if "/v1/users" in path else "POST", path, server.one, body)
    )
    assert status == 422
    assert "errors" not in problem


def test_commas_and_quotation_marks_in_texts_are_no_values(folder: Path) -> None:
    """A long text of punctuation is one value."""
    server, text = Server(folder), '", \\" ,, ' * 10_000
    status, shown = run(server, server.ask("PUT", WRITES[0], server.one, session(text)))
    assert (status, shown["turns_added"]) == (201, 1)


def test_checking_ends_at_the_first_item_that_is_wrong(folder: Path) -> None:
    """A list of wrong turns is wrong in its first one; the others are not looked at."""
    server, count = Server(folder), MAX_BODY_ITEMS // 2
    body = json.dumps({"turns": [{"role": 1}] * count}).encode()
    status, problem = run(server, server.ask("PUT", WRITES[0], server.one, body))
    assert status == 422
    assert [one["pointer"] for one in problem["errors"]] == ["/body/turns/0/role"]


@pytest.mark.parametrize("path", ["/v1/users/ann/search", "/v1/users/ann/import", WRITES[1], "/mcp"])
def test_a_body_that_never_ends_is_ended(folder: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body has its time, however it comes: then the request is answered."""
    monkeypatch.setattr(asgi, "BODY_S", 0.3)
    server = Server(folder)
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    async def work() -> None:
        kind = "application/jsonl" if path.endswith("import") else "application/json"
        given = {"content-type": kind, "accept": "application/json, text/event-stream"}
        await asyncio.wait_for(server.app(server.scope("POST", path, server.one, given), receive, send), 20)

    run(server, work())
    assert sent[0]["status"] == 408


def test_bodies_of_one_tenant_take_nothing_of_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes slowly counts while it comes; beyond its share a tenant is refused, and others are not."""
    monkeypatch.setattr(asgi, "MOST_HELD", 1_000)
    server = Server(folder)

    async def slow() -> None:
        parts = [{"type": "http.request", "body": b" " * 1_000, "more_body": True}]

        async def receive() -> Any:
            return parts.pop() if parts else await asyncio.sleep(3600)

        async def send(message: Any) -> None:
            raise AssertionError("it was answered")

        await server.app(server.scope("POST", "/v1/users/ann/search", server.one, JSON), receive, send)

    async def work() -> list[int]:
        task = asyncio.create_task(slow())
        await asyncio.sleep(0.5)
        keys = (server.one, server.other)
        found = await each(*(server.ask("PUT", WRITES[0], key, session("Hello.")) for key in keys))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [*found, *await each(server.ask("PUT", WRITES[0], server.one, session("Hello.")))]

    assert run(server, work()) == [429, 201, 201]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Write to a memory of the first tenant, as another process does."""
    [path] = folder.glob("tenants/one*/ann*.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as lock:
        lock.execute("BEGIN IMMEDIATE")
        yield


async def unread(server: Server, user: str, count: int) -> list[asyncio.Task[None]]:
    """Begin exports whose answers nobody takes."""

    async def receive() -> Any:
        return await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body" and message.get("more_body"):
            await asyncio.sleep(3600)

    scopes = [server.scope("GET", f"/v1/users/{user}/export", server.one) for _ in range(count)]
    return [asyncio.create_task(server.app(scope, receive, send)) for scope in scopes]


async def ended(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel what is under way, and wait for its end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_downloads_that_nobody_reads_hold_nobody_up(folder: Path) -> None:
    """As many as there are worker threads: their own tenant writes on, another one too; only further downloads of it wait."""
    server = Server(folder)
    much = session(*(f"{number} " + "x" * 4_000 for number in range(400)))

    async def work() -> list[int]:
        assert (await server.ask("PUT", WRITES[0], server.one, much))[0] == 201
        tasks = await unread(server, "ann", THREADS + DOWNLOADS)
        await asyncio.sleep(1)
        path = "/v1/users/ann/sessions/{}"
        asked = [
            server.ask("PUT", path.format("new"), server.one, session("Hello.")),
            server.ask("GET", "/v1/users/ann/export", server.one),
            server.ask("PUT", path.format("new"), server.other, session("Hello.")),
            server.ask("GET", "/v1/users/ann/export", server.other),
        ]
        found = await asyncio.wait_for(each(*asked), 30)
        await ended(tasks)
        return [*found, *await each(server.ask("GET", "/v1/users/ann/export", server.one))]

    assert run(server, work()) == [201, 429, 201, 200, 200]


def test_a_download_that_is_read_too_slowly_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece now and then is not enough: it has so long for so many bytes."""
    monkeypatch.setattr(user_routes, "PATIENCE_S", 0.5)
    monkeypatch.setattr(user_routes, "LEAST_BYTES_S", 1_000_000)
    server = Server(folder)
    much = session(*(f"{number} " + "x" * 4_000 for number in range(1_000)))
    sizes: list[int] = []

    async def receive() -> Any:
        return await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        sizes.append(len(message.get("body", b"")))
        await asyncio.sleep(0.3)

    async def work() -> int:
        assert (await server.ask("PUT", WRITES[0], server.one, much))[0] == 201
        whole = await server.ask("GET", "/v1/users/ann/export", server.one)
        scope = server.scope("GET", "/v1/users/ann/export", server.one)
        with suppress(Exception):
            await asyncio.wait_for(server.app(scope, receive, send), 30)
        return len(whole[1])

    size = run(server, work())
    assert size > 0
    assert 0 < sum(sizes) < size


def test_writes_to_a_memory_that_another_process_locks_hold_nobody_up(folder: Path) -> None:
    """They wait without threads, and end alike soon after their time; others read and write, also in that memory's tenant."""
    server = Server(folder, config=Config(embedder="none", busy_timeout_s=BUSY_S))
    count = 3 * THREADS

    async def work() -> tuple[list[int], bool, list[int], float]:
        for key in (server.one, server.other):
            assert (await server.ask("PUT", WRITES[0], key, session("Hello.")))[0] == 201
        with locked(folder):
            begun = time.monotonic()
            writes = (server.ask("PUT", f"{WRITES[0]}{n}", server.one, session("Hi.")) for n in range(count))
            tasks = [asyncio.create_task(one) for one in writes]
            await asyncio.sleep(0.5)
            others = await each(
                server.ask("GET", "/v1/users/ann/stats", server.other),
                server.ask("PUT", f"{WRITES[0]}2", server.other, session("Hello.")),
                server.ask("GET", "/v1/users/ann/stats", server.one),
                server.ask("PUT", "/v1/users/ben/sessions/s", server.one, session("Hello.")),
            )
            none_done = not any(one.done() for one in tasks)
            found = [status for status, _ in await asyncio.gather(*tasks)]
        return others, none_done, found, time.monotonic() - begun

    others, none_done, found, late = run(server, work())
    assert others == [200, 201, 200, 201]
    assert none_done
    assert found == [423] * count
    assert late < 5 * BUSY_S  # and not their time for each pair of them


def test_a_write_whose_caller_is_gone_keeps_its_turn(folder: Path) -> None:
    """Its thread waits on for the lock: cancelling again and again takes no more threads."""
    server = Server(folder, config=Config(embedder="none", busy_timeout_s=BUSY_S))

    def waiting() -> int:
        return sum(one.name.startswith("memforest") for one in threading.enumerate())

    async def work() -> int:
        assert (await server.ask("PUT", WRITES[0], server.one, session("Hello.")))[0] == 201
        with locked(folder):
            before = waiting()
            for number in range(THREADS):
                task = asyncio.create_task(
                    server.ask("PUT", f"{WRITES[0]}{number}", server.one, session("Hi."))
                )
                await asyncio.sleep(0.1)
                await ended([task])
            return waiting() - before

    assert run(server, work()) <= 2
