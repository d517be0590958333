"""MCP over streamable HTTP: keys, users and scopes, hosts, sessions, and the metadata of an issuer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.server.mcpserver")
sys.path.insert(0, str(Path(__file__).parent.parent))

import httpx2
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from tests_long.mcp_worlds import ERAS, Keys, call, text_of
from tests_long.worlds import fast_config

from memforest import AsyncMemForest
from memforest.errors import IssuerUnavailableError, MemForestError, StoreWriteError
from memforest.server.auth import Access, OpenAccess, Principal
from memforest.server.mcp.http import HttpApp, http_app

READ: frozenset[Any] = frozenset({"read"})
KEYS = {
    "tenant": Principal(key="1"),
    "ana": Principal(user="ana", key="2"),
    "reader": Principal(user="ana", scopes=READ, key="3"),
    "bob": Principal(user="bob", key="4"),
}
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
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """Serve an app on a free port of this machine, and give its address."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="on", ws="none")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    try:
        while not server.started:
            assert not task.done()
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


def over_http(
    directory: Path,
    work: Callable[[str], Awaitable[Any]],
    *,
    access: Callable[[AsyncMemForest], Access] = lambda forest: Keys(forest, KEYS),
    **how: Any,
) -> Any:
    """Return what comes of work with the address of a server."""

    async def run() -> Any:
        async with AsyncMemForest(directory, fast_config()) as forest:
            app = http_app(access(forest), **how)
            async with listening(app.alone()) as address:
                return await work(address)

    return asyncio.run(run())


@asynccontextmanager
async def client_of(
    address: str, key: str | None, era: str = "auto", *, header: str = "authorization"
) -> AsyncIterator[Client]:
    """Give a client with a key."""
    value = {} if key is None else {header: key if header == "x-api-key" else f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=value, timeout=20) as http,
        Client(streamable_http_client(f"{address}/mcp", http_client=http), mode=era) as client,
    ):
        yield client


@pytest.mark.parametrize("era", ERAS)
def test_the_key_decides_whose_memory(tmp_path: Path, era: str) -> None:
    """One that is bound to a user has no argument for it, and finds what the key of the tenant has added for that user."""

    async def work(address: str) -> list[Any]:
        async with client_of(address, "tenant", era) as client:
            await call(client, "add_memory", content="I live in Davis.", user="ana")
            free = (await client.list_tools()).tools[0].input_schema["properties"]
        async with client_of(address, "ana", era, header="x-api-key") as client:
            version = client.protocol_version
            bound = (await client.list_tools()).tools[0].input_schema["properties"]
            mine = await call(client, "list_facts")
            listed = [str(one.uri) for one in (await client.list_resources()).resources]
        async with client_of(address, "bob", era) as client:
            other = await call(client, "list_facts")
            named = await client.call_tool("list_facts", {"user": "ana"})
        return [
            version,
            "user" in free,
            "user" in bound,
            mine["total"],
            listed,
            other["total"],
            text_of(named),
        ]

    version, free, bound, total, listed, other, named = over_http(tmp_path, work)
    assert version == ERAS[era]
    assert (free, bound, total, other) == (True, False, 1, 0)
    assert listed == ["memory://ana/profile"]
    assert "no argument 'user'" in named


@pytest.mark.parametrize("era", ERAS)
def test_scopes_are_checked_at_every_tool(tmp_path: Path, era: str) -> None:
    """And what a key does not allow is not listed to it."""

    async def work(address: str) -> list[Any]:
        async with client_of(address, "ana", era) as client:
            await call(client, "add_memory", content="I live in Davis.", session_id="s")
        async with client_of(address, "reader", era) as client:
            names = {one.name for one in (await client.list_tools()).tools}
            said = [
                text_of(await client.call_tool("add_memory", {"content": "x"})),
                text_of(await client.call_tool("forget_memory", {"session_id": "s"})),
            ]
            return [names, said, (await call(client, "list_facts"))["total"]]

    names, said, total = over_http(tmp_path, work)
    assert names == {"search_memory", "ask_memory", "get_timeline", "list_facts"}
    assert said == ["This needs a key with the scope 'write'.", "This needs a key with the scope 'delete'."]
    assert total == 1


@pytest.mark.parametrize("key", [None, "garbage", "Ä" * 10, "a" * 5000])
def test_without_a_key_that_holds_nothing_is_told(tmp_path: Path, key: str | None) -> None:
    """Not even what the tools are; the answer says that a key is needed, and where tokens come from if there is an issuer."""

    async def work(address: str) -> httpx2.Response:
        async with httpx2.AsyncClient() as http:
            value: dict[str, Any] = {} if key is None else {"authorization": f"Bearer {key}".encode()}
            return await http.post(f"{address}/mcp", json=INITIALIZE, headers={**HEADERS, **value})

    answer = over_http(tmp_path, work, resource_url="https://m.example/mcp", issuer="https://i.example")
    assert answer.status_code == 401
    assert answer.json()["error"] == "invalid_token"
    metadata = "https://m.example/.well-known/oauth-protected-resource/mcp"
    assert (
        answer.headers["www-authenticate"] == f'Bearer error="invalid_token", resource_metadata="{metadata}"'
    )


def test_metadata_names_the_issuer(tmp_path: Path) -> None:
    """By RFC 9728, without a key; without an issuer there is none."""

    async def work(address: str) -> httpx2.Response:
        async with httpx2.AsyncClient() as http:
            return await http.get(f"{address}/.well-known/oauth-protected-resource/mcp")

    answer = over_http(tmp_path, work, resource_url="https://m.example/mcp", issuer="https://i.example")
    assert answer.status_code == 200
    told = answer.json()
    assert told["resource"] == "https://m.example/mcp"
    assert told["authorization_servers"] == ["https://i.example"]
    assert told["scopes_supported"] == ["admin", "delete", "read", "write"]
    assert over_http(tmp_path, work).status_code == 404


def test_a_rate_limit_says_when_to_come_again(tmp_path: Path) -> None:
    """As HTTP says it."""

    async def work(address: str) -> list[httpx2.Response]:
        async with httpx2.AsyncClient(headers={**HEADERS, "x-api-key": "ana"}) as http:
            return [await http.post(f"{address}/mcp", json=INITIALIZE) for _ in range(3)]

    first, _, third = over_http(tmp_path, work, access=lambda forest: Keys(forest, KEYS, most=2))
    assert (first.status_code, third.status_code) == (200, 429)
    assert third.headers["retry-after"] == "7"


def test_a_session_is_of_the_key_that_opened_it(tmp_path: Path) -> None:
    """With another key it is as one that is not there; with no key likewise nothing."""
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}

    async def work(address: str) -> list[int]:
        async with httpx2.AsyncClient(headers=HEADERS) as http:
            opened = await http.post(f"{address}/mcp", json=INITIALIZE, headers={"x-api-key": "ana"})
            session = {"mcp-session-id": opened.headers["mcp-session-id"]}
            return [
                (await http.post(f"{address}/mcp", json=ping, headers={**session, **key})).status_code
                for key in ({"x-api-key": "ana"}, {"x-api-key": "reader"}, {"x-api-key": "bob"}, {})
            ]

    assert over_http(tmp_path, work) == [200, 404, 404, 401]


@pytest.mark.parametrize(
    ("hosts", "host", "origin", "status"),
    [
        (None, "127.0.0.1:1", None, 200),
        (None, "evil.example", None, 421),
        (None, "localhost:1", "http://evil.example", 403),
        (None, "localhost:1", "http://localhost:3000", 200),
        (("m.example",), "m.example", "https://m.example", 200),
        (("m.example",), "127.0.0.1:1", None, 421),
        (None, "localhost", "http://localhost", 200),
        (("m.example:*",), "m.example", "https://m.example", 200),
        (("m.example:*",), "m.example:8443", "https://m.example:8443", 200),
        (("m.example:*",), "m.example.evil", None, 421),
        (("*",), "any.example", "https://any.example", 200),
    ],
)
def test_hosts_and_origins(
    tmp_path: Path, hosts: tuple[str, ...] | None, host: str, origin: str | None, status: int
) -> None:
    """Those of loopback unless others are named."""

    async def work(address: str) -> int:
        async with httpx2.AsyncClient(headers=HEADERS) as http:
            extra = {"host": host, **({} if origin is None else {"origin": origin})}
            answer = await http.post(f"{address}/mcp", json=INITIALIZE, headers=extra)
            return answer.status_code

    assert over_http(tmp_path, work, access=OpenAccess, allowed_hosts=hosts) == status


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b'{"jsonrpc": "2.0"}', b"\xff\xfe", b'"' + b"a" * 100]
)
def test_bodies_that_are_none(tmp_path: Path, body: bytes) -> None:
    """Are answered as such, and the server goes on."""

    async def work(address: str) -> list[int]:
        async with httpx2.AsyncClient(headers=HEADERS) as http:
            bad = await http.post(f"{address}/mcp", content=body)
            good = await http.post(f"{address}/mcp", json=INITIALIZE)
            return [bad.status_code, good.status_code]

    bad, good = over_http(tmp_path, work, access=OpenAccess)
    assert 400 <= bad < 500
    assert good == 200


def test_a_body_over_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is not read."""
    monkeypatch.setattr("memforest.server.mcp.http.MAX_BODY_BYTES", 2000)

    async def work(address: str) -> int:
        async with httpx2.AsyncClient(headers=HEADERS) as http:
            return (await http.post(f"{address}/mcp", content=b"x" * 2001)).status_code

    assert over_http(tmp_path, work, access=OpenAccess) == 413


def test_mounted_in_the_app_of_a_host(tmp_path: Path) -> None:
    """Whose lifespan enters this one's."""

    async def work() -> int:
        async with AsyncMemForest(tmp_path, fast_config()) as forest:
            app: HttpApp = http_app(OpenAccess(forest), user="ana")
            host = Starlette(routes=app.routes("/memory/mcp"), lifespan=app.lifespan)
            async with listening(host) as address, httpx2.AsyncClient(headers=HEADERS) as http:
                return (await http.post(f"{address}/memory/mcp", json=INITIALIZE)).status_code

    assert asyncio.run(work()) == 200


@pytest.mark.parametrize(
    "error",
    [
        IssuerUnavailableError("the issuer of tokens does not answer"),
        StoreWriteError("cannot read '/srv/memories/server/keys.sqlite'"),
    ],
)
def test_where_nobody_can_be_told_from_anybody_it_says_to_come_again(
    tmp_path: Path, error: MemForestError
) -> None:
    """That is no lack of a scope; and no path of the server is told."""

    class Down(Keys):
        async def identify(self, credential: str | None) -> Principal:
            raise error

    async def work(address: str) -> httpx2.Response:
        async with httpx2.AsyncClient() as http:
            return await http.post(
                f"{address}/mcp", json=INITIALIZE, headers={**HEADERS, "authorization": "Bearer k"}
            )

    answer = over_http(tmp_path, work, access=lambda forest: Down(forest, KEYS))
    assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert "/srv" not in answer.text
