"""The composed server and keys that do not hold: at all four doors, while something is open, and for another user or tenant."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("mcp")
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.attacking import JSON, Answer, Wire, attacked, operations
from tests_long.serving import TURNS
from tests_long.worlds import CLOCK, fast_config

from memforest.errors import StoreWriteError
from memforest.server.access import KeyedAccess
from memforest.server.auth import AccessSettings
from memforest.server.keys import KeyStore
from memforest.server.ui.site import COOKIE

ALL = ("read", "write", "delete", "admin")
RPC = {**JSON, "accept": "application/json, text/event-stream"}
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
LISTS = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
HOLDS_S = 5.0
"""Within so many seconds a key that was revoked elsewhere does not hold."""


class World:
    """A directory with keys, and clocks that a test moves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passed = 0.0
        self.store = KeyStore(folder, self.now)
        self.keys: dict[str, str] = {}

    def now(self) -> Any:
        """Return what time it is."""
        return CLOCK + timedelta(seconds=self.passed)

    def key(self, name: str, **how: Any) -> str:
        """Make a key, and return it."""
        self.keys[name] = self.store.create(name, scopes=how.pop("scopes", ALL), **how).key
        return self.keys[name]

    def access(self) -> KeyedAccess:
        """Return what decides."""
        limits = AccessSettings(key_rate=None, tenant_rate=None)
        config = fast_config(clock=self.now)
        return KeyedAccess(self.folder, config, limits, loopback=True, monotonic=lambda: self.passed)


@pytest.fixture
def world(folder: Path) -> World:
    """A directory without keys."""
    return World(folder)


def over(world: World, asks: Any) -> None:
    """Ask a server."""

    async def run() -> None:
        async with attacked(world.folder, world.access()) as wire:
            await asks(wire)

    asyncio.run(run())


async def told(wire: Wire, key: str, user: str) -> None:
    """Let a user tell something."""
    sent = json.dumps({"turns": TURNS}).encode()
    put = await wire("PUT", f"/v1/users/{user}/sessions/s", sent, {**JSON, "x-api-key": key})
    assert put.status == 201, put.body


async def at_the_doors(wire: Wire, key: str | None, cookie: str = "") -> dict[str, int]:
    """Return with which status each door answers to a key, in each of the headers that it reads."""
    with_key: list[dict[str, str]] = [{}]
    if key is not None:
        with_key = [{"x-api-key": key}, {"authorization": f"Bearer {key}"}, {"authorization": f"Token {key}"}]
    found: dict[str, int] = {}
    for at, headers in enumerate(with_key):
        found[f"rest {at}"] = (await wire("GET", "/v1/users", None, headers)).status
        found[f"metrics {at}"] = (await wire("GET", "/metrics", None, headers)).status
        found[f"mem0 {at}"] = (await wire("GET", "/compat/mem0/v1/entities/", None, headers)).status
        search = b'{"query": "Where?"}'
        target = "/compat/openai/v1/vector_stores/ana/search"
        found[f"openai {at}"] = (await wire("POST", target, search, {**JSON, **headers})).status
        sent = json.dumps(INITIALIZE).encode()
        found[f"mcp {at}"] = (await wire("POST", "/mcp", sent, {**RPC, **headers}, patience_s=5)).status
    page = await wire("GET", "/ui/", None, {"cookie": cookie})
    found["ui"] = 401 if page.headers.get("location") == "/ui/login" else page.status
    return found


async def logged_in(wire: Wire, key: str) -> str:
    """Return the cookie of a session of the inspector that was begun with a key."""
    page = await wire("GET", "/ui/login")
    cookie = page.headers["set-cookie"].partition(";")[0]
    token = page.body.decode().partition('name="token" value="')[2].partition('"')[0]
    form = {"cookie": cookie, "content-type": "application/x-www-form-urlencoded"}
    entered = await wire("POST", "/ui/login", f"token={token}&key={key}".encode(), form)
    return entered.headers.get("set-cookie", "").partition(";")[0]


@pytest.mark.parametrize(
    "kind", ["none", "garbage", "forged", "of another server", "expired", "revoked", "token"]
)
def test_a_key_that_does_not_hold_opens_no_door(world: World, kind: str) -> None:
    """Also on loopback, once there is a key; and all of them are refused in the same words."""
    good = world.key("good")
    short = world.key("short", lifetime=timedelta(hours=1))
    world.key("gone")
    world.store.revoke("gone")
    keys = {
        "none": None,
        "garbage": "\xff\xfe'; DROP TABLE key; --",
        "forged": good[:-1] + ("0" if good[-1] != "0" else "1"),
        "of another server": "mf_" + "0" * 12 + "_" + "0" * 64,
        "expired": short,
        "revoked": world.keys["gone"],
        "token": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbmEifQ.",
    }

    async def asks(wire: Wire) -> None:
        assert set((await at_the_doors(wire, short)).values()) - {200, 404} == {
            401
        }  # the inspector's, without a session
        world.passed += 3601
        assert set((await at_the_doors(wire, keys[kind])).values()) == {401}
        if keys[kind] is not None:
            assert COOKIE not in await logged_in(wire, "x") or not await _inside(wire, keys[kind] or "")
            one = await wire("GET", "/v1/users", None, {"x-api-key": keys[kind] or ""})
            other = await wire("GET", "/v1/users", None, {"x-api-key": "unknown"})
            assert (one.status, one.body) == (other.status, other.body)
        held = {"rest 0": 200, "rest 1": 200, "rest 2": 200, "mcp 0": 200, "metrics 0": 200}
        assert held.items() <= (await at_the_doors(wire, good)).items()

    over(world, asks)


async def _inside(wire: Wire, key: str) -> bool:
    cookie = await logged_in(wire, key.replace("\xff\xfe", ""))
    return (await wire("GET", "/ui/", None, {"cookie": cookie})).status == 200


def test_what_is_open_ends_when_its_key_is_revoked(world: World) -> None:
    """A session of the inspector, one of MCP, and a stream of events: within five seconds, by another process's revocation."""
    world.key("stays")
    key = world.key("goes")

    async def asks(wire: Wire) -> None:
        cookie = await logged_in(wire, key)
        begun = await wire(
            "POST", "/mcp", json.dumps(INITIALIZE).encode(), {**RPC, "x-api-key": key}, patience_s=5
        )
        session = {**RPC, "x-api-key": key, "mcp-session-id": begun.headers["mcp-session-id"]}

        async def still() -> list[int]:
            page = await wire("GET", "/ui/", None, {"cookie": cookie})
            lists = await wire("POST", "/mcp", json.dumps(LISTS).encode(), session, patience_s=5)
            users = await wire("GET", "/v1/users", None, {"x-api-key": key})
            return [page.status, lists.status, users.status]

        assert await still() == [200, 200, 200]
        KeyStore(world.folder, world.now).revoke("goes")
        world.passed += HOLDS_S
        assert await still() == [303, 401, 401]
        again = KeyStore(world.folder, world.now)
        again.create("goes", scopes=ALL)
        world.passed += HOLDS_S
        assert await still() == [303, 401, 401]  # another key of the name is another key

    over(world, asks)


def test_an_mcp_session_is_of_the_key_that_began_it(world: World) -> None:
    """Whoever learns its id, with a key of another tenant or user, is told that there is none."""
    mine, theirs = world.key("mine", tenant="a"), world.key("theirs", tenant="b")
    own = world.key("own", tenant="a", user="ana")

    async def asks(wire: Wire) -> None:
        begun = await wire(
            "POST", "/mcp", json.dumps(INITIALIZE).encode(), {**RPC, "x-api-key": mine}, patience_s=5
        )
        session = {**RPC, "mcp-session-id": begun.headers["mcp-session-id"]}
        found = [
            (
                await wire(
                    "POST", "/mcp", json.dumps(LISTS).encode(), {**session, "x-api-key": key}, patience_s=5
                )
            ).status
            for key in (mine, theirs, own)
        ]
        assert found == [200, 404, 404]

    over(world, asks)


def test_a_key_of_one_user_reaches_no_other_by_any_operation(world: World) -> None:
    """Whoever a path, a query or a body names: as if there were no such user; generic over the document."""
    whole, own = world.key("whole"), world.key("own", user="ana")

    async def asks(wire: Wire) -> None:
        for user in ("ana", "bob"):
            await told(wire, whole, user)
        document = wire.app.openapi()
        asked = 0
        for method, path, about in operations(document):
            where = [name for name in ("user_id",) if "{" + name + "}" in path]
            in_body = _names_users(document, about)
            if not where and not in_body:
                continue
            asked += 1
            answers = [
                await _ask_for(wire, own, method, path, about, user, document) for user in ("bob", "eve")
            ]
            said = [_without(one, user) for one, user in zip(answers, ("bob", "eve"), strict=True)]
            assert said[0] == said[1], (method, path)
            if path == "/v1/ingest":  # takes what is the caller's, and refuses the rest by its place
                assert answers[0].json()["received"] == 0
            else:
                assert answers[0].status in (404, 422), (method, path, answers[0].body[:200])
        assert asked > 40
        listed = await wire("GET", "/v1/users", None, {"x-api-key": own})
        assert listed.json()["users"] == ["ana"]
        everybody = await wire("GET", "/v1/users", None, {"x-api-key": whole})
        assert sorted(everybody.json()["users"]) == ["ana", "bob"]
        stats = await wire("GET", "/v1/users/bob/stats", None, {"x-api-key": whole})
        assert (stats.json()["turns"], stats.json()["sessions"]) == (len(TURNS), 1)

    over(world, asks)


def _names_users(document: Mapping[str, Any], about: Mapping[str, Any]) -> bool:
    return "user" in json.dumps(_schema(document, about).get("properties", {}))


def _schema(document: Mapping[str, Any], about: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = (
        about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    )
    if "anyOf" in schema:
        schema = schema["anyOf"][0]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


BODIES: dict[str, Any] = {
    "turns": TURNS,
    "content": "I was never here.",
    "question": "Where do I live?",
    "text": "Bob lives nowhere.",
    "a": "Bob",
    "b": "Ana",
    "entity": "Bob",
    "name": "Ana",
}


async def _ask_for(
    wire: Wire,
    key: str,
    method: str,
    path: str,
    about: Mapping[str, Any],
    user: str,
    document: Mapping[str, Any],
) -> Answer:
    """Return the answer to a request that fits an operation and names a user wherever one can be named."""
    target = path if "from_user" in json.dumps(_schema(document, about)) else path.replace("{user_id}", user)
    target = target.replace("{user_id}", "ana")
    for piece in path.split("/"):
        target = target.replace(piece, "s") if piece.startswith("{") else target
    query = {
        one["name"] for one in about.get("parameters", ()) if one["in"] == "query" and one.get("required")
    }
    times = {"a": "2024-01-01", "b": "2024-06-01", "since": "2024-01-01", "at": "2024-05-01"}
    if query:
        target += "?" + "&".join(f"{name}={times.get(name, 's')}" for name in sorted(query))
    fields = _schema(document, about).get("properties", {})
    body: dict[str, Any] = {name: value for name, value in BODIES.items() if name in fields}
    body |= {
        name: value for name, value in (("from_user", user), ("target_user_id", "ana")) if name in fields
    }
    if "source_user_ids" in fields:
        body["source_user_ids"] = [user]
    if "sessions" in fields:
        body["sessions"] = [{"user_id": user, "session_id": "new", "turns": TURNS}]
    sent = json.dumps(body).encode() if "requestBody" in about else None
    kind = (
        JSON
        if "application/json" in about.get("requestBody", {}).get("content", {})
        else {"content-type": "application/octet-stream"}
    )
    return await wire(method, target, sent, {**(kind if sent else {}), "x-api-key": key})


def _without(answer: Answer, user: str) -> tuple[int, str]:
    text = answer.body.decode().replace(user, "USER")
    body = json.loads(text) if text.startswith("{") else text
    for name in ("id", "made_at", "ended_at", "changed_at"):
        if isinstance(body, dict):
            body.pop(name, None)
    return answer.status, json.dumps(body, sort_keys=True)


def test_an_idempotency_key_again_with_another_body(world: World) -> None:
    """Is a conflict, and changes nothing; the key of another user or tenant is another one."""
    a, b = world.key("a", tenant="a"), world.key("b", tenant="b")

    async def asks(wire: Wire) -> None:
        async def sent(key: str, path: str, body: object) -> Answer:
            headers = {**JSON, "x-api-key": key, "idempotency-key": "once"}
            return await wire("POST", path, json.dumps(body).encode(), headers)

        hello, other = ({"content": text} for text in ("I live in Oslo.", "I live in Rome."))
        path = "/v1/users/ana/messages"
        first = await sent(a, path, hello)
        again = await sent(a, path, hello)
        assert (first.status, again.status) == (200, 200)
        assert again.json()["replayed"] is True
        assert (await sent(a, path, other)).status == 409
        assert (await sent(a, "/v1/users/ben/messages", other)).status == 200
        assert (await sent(b, path, other)).status == 200
        found = await wire("GET", "/v1/users/ana/stats", None, {"x-api-key": a})
        assert found.json()["turns"] == 1
        job, changed = ({"sessions": [{"user_id": "ana", "session_id": one, "turns": TURNS}]} for one in "xy")
        made = await sent(a, "/v1/ingest", job)
        assert made.status == 202
        assert (await sent(a, "/v1/ingest", job)).json()["id"] == made.json()["id"]
        assert (await sent(a, "/v1/ingest", changed)).status == 409
        assert (await sent(b, "/v1/ingest", changed)).status == 202

    over(world, asks)


def test_keys_that_cannot_be_read_let_nobody_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every door says that the server cannot, for now; none shows where the file is."""
    key = world.key("good")

    def fails(*_: object) -> Any:
        raise StoreWriteError(f"cannot read {world.folder}/server/keys.sqlite")

    async def asks(wire: Wire) -> None:
        monkeypatch.setattr("memforest.server.keys.KeyStore.changed", fails)
        found = await at_the_doors(wire, key)
        assert set(found.values()) == {503}, found
        for target in ("/v1/users", "/mcp", "/ui/"):
            answer = await wire("GET", target, None, {"x-api-key": key})
            assert str(world.folder).encode() not in answer.body

    over(world, asks)
