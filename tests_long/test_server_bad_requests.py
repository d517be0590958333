"""The composed server and what is no request: on every operation of its document, and at its other doors."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("mcp")
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.attacking import DEEP, JSON, PROBLEM, Answer, Wire, attacked, left_in, operations
from tests_long.serving import TURNS

from memforest.server.rest.app import COMPAT_ROUTERS
from memforest.settings import MAX_BODY_BYTES

PARTS = (
    "..",
    "%2e%2e",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "..%5c..%5cx",
    "a%2Fb",
    "%00",
    "x%00y",
    "%c0%ae%c0%ae%c0%af",
    "%ff",
    "%ed%a0%80",
    "%F4%90%80%80",
    "%",
    "%zz",
    "%0d%0aX-Evil:1",
    "%2525",
    "a" * 10_000,
)
"""Parts of paths: steps upwards, slashes, NUL, UTF-8 that is too long, none, or a surrogate, and a long one."""
VALUES = (
    "",
    "%00",
    "%ed%a0%80",
    "%ff",
    "a" * 10_000,
    "-1",
    "9" * 40,
    "NaN",
    "1e400",
    "../..",
    "[[[[",
    "%c0%ae",
)
"""Values of parameters of a query."""
BODIES = (
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"[" * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b'{"metadata":' + b'{"a":' * 700 + b"1" + b"}" * 701,
    b"9" * 5000,
    b"\x1f\x8b\x08\x00\x00",
    b'{"question":"\xed\xa0\x80"}',
    b'{"question":"\\ud800","content":"\\udfff","user_id":"\\u0000"}',
    b'{"question":NaN,"content":Infinity}',
    b'{"\\u0000":1,"\\ud800":2,"a":1,"a":2}',
)
HEADERS: tuple[tuple[str, bytes], ...] = (
    ("idempotency-key", b"\x01"),
    ("idempotency-key", b"\xff\xfe"),
    ("idempotency-key", b"x" * 10_000),
    ("authorization", b"Bearer \xff\xfe"),
    ("authorization", b"Bearer " + b"a.b.c" * 5000),
    ("x-api-key", b"\xff"),
    ("last-event-id", b"\xb2"),
    ("last-event-id", b"9" * 5000),
    ("content-length", b"-1"),
    ("content-length", b"\xb2"),
    ("content-length", b"9" * 40),
    ("host", b"\xff"),
    ("origin", b"http://[::1"),
    ("cookie", b"memforest_ui=\xff" * 3),
    ("mcp-session-id", b"\xff" * 10),
)
LEAVES: tuple[Any, ...] = (
    *(None, True, -1, 10**30, 10**399, 1e308, "", "\0", "\ud800", "x" * 10_000, "../../etc/passwd"),
    *([], {}, [[]], {"a": None}, [None] * 3, "2024-13-45", -1e18, 253402300800000, "\u202e"),
)
"""In the place of any field."""
FIELDS = ("user", "question", "as_of", "top_k")

A_FEW = 5
"""Of these for each parameter and operation: another few each time, so that all come at all kinds of places."""

Asks = Callable[[Wire], Awaitable[None]]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The server's document."""

    async def read(wire: Wire) -> None:
        found.update(wire.app.openapi())

    found: dict[str, Any] = {}
    over(tmp_path_factory.mktemp("served"), read)
    return found


def over(folder: Path, asks: Asks) -> None:
    """Ask a server over a directory in which Ana has told something; nothing is left outside the directory."""

    async def run() -> None:
        async with attacked(folder / "here") as wire:
            await told(wire)
            await asks(wire)
            assert (await wire("GET", "/readyz")).status == 200

    asyncio.run(run())
    assert {one.partition("/")[0] for one in left_in(folder)} == {"here"}
    kinds = {one.rpartition(".")[2] for one in left_in(folder) if "." in one}
    assert kinds <= {"db", "sqlite"}


async def told(wire: Wire) -> None:
    """Let Ana tell where she lives."""
    put = await wire("PUT", "/v1/users/ana/sessions/s", json.dumps({"turns": TURNS}).encode(), JSON)
    assert put.status in (200, 201), put.body


def held(answer: Answer, asked: object) -> None:
    """Hold an answer to what every answer is: no error of the server's, and a refusal is a problem."""
    assert 0 < answer.status < 500 or answer.status == 501, (asked, answer.body[:300])
    if answer.status >= 400:
        assert answer.kind == PROBLEM, (asked, answer)
        assert answer.json()["status"] == answer.status
        assert b"Traceback" not in answer.body
        assert b".py" not in answer.body


def named(path: str, name: str | None = None, part: str = "") -> str:
    """Return a path with values in the place of its names, one of which is `part`."""
    for one in ("user_id", *(piece[1:-1] for piece in path.split("/") if piece.startswith("{"))):
        path = path.replace("{" + one + "}", part if one == name else "ana" if one == "user_id" else "s")
    return path


def ordered(document: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return all operations, those that delete behind the others."""
    return sorted(operations(document), key=lambda one: one[0] == "DELETE")


def few(values: Sequence[Any], at: Iterator[int]) -> list[Any]:
    """Return the next few values, going round."""
    return [values[next(at) % len(values)] for _ in range(A_FEW)]


def facade_routes() -> Iterator[tuple[str, str]]:
    """Give method and path of each route of the facades, which the document leaves out."""
    for router in COMPAT_ROUTERS:
        for route in router.routes:
            for method in getattr(route, "methods", ()):
                yield method, getattr(route, "path", "")


def test_every_part_of_every_path(folder: Path, document: dict[str, Any]) -> None:
    """An id of any text is one, and never a path; what is no UTF-8 is refused."""
    at = count()

    async def asks(wire: Wire) -> None:
        for method, path, about in ordered(document):
            takes = "requestBody" in about
            for one in about.get("parameters", ()):
                for part in few(PARTS, at) if one["in"] == "path" else ():
                    target = named(path, one["name"], part)
                    answer = await wire(
                        method, target, b"{}" if takes else None, JSON if takes else (), patience_s=5
                    )
                    held(answer, (method, target[:80]))
        for method, path in facade_routes():
            for part in few(PARTS, at) if "{" in path else ():
                target = "/".join(part if piece.startswith("{") else piece for piece in path.split("/"))
                held(await wire(method, target, b"{}", JSON), (method, target[:80]))

    over(folder, asks)


def test_every_parameter_of_every_query_and_headers(folder: Path, document: dict[str, Any]) -> None:
    """Of wrong types, too long, no text at all; unknown ones, and thousands of them."""
    at = count()

    async def asks(wire: Wire) -> None:
        for method, path, about in ordered(document):
            takes = "requestBody" in about
            body, kind = (b"{}", [*JSON.items()]) if takes else (None, [])
            for one in about.get("parameters", ()):
                for value in few(VALUES, at) if one["in"] == "query" else ():
                    target = f"{named(path)}?{one['name']}={value}"
                    held(await wire(method, target, body, kind), (method, target[:80]))
            for query in ("%00=1&%ff=%ed%a0%80", "a=1&" * 2000):
                held(await wire(method, f"{named(path)}?{query}", body, kind), (method, path, query[:20]))
            for header in few(HEADERS, at):
                answer = await wire(method, named(path), body, [*kind, header])
                held(answer, (method, path, header[0], header[1][:20]))

    over(folder, asks)


def test_every_body(folder: Path, document: dict[str, Any]) -> None:
    """No JSON, too deep, of other types: refused, and nothing is stored of it."""
    at = count()

    async def asks(wire: Wire) -> None:
        for method, path, about in ordered(document):
            for body in few(BODIES, at) if "requestBody" in about else ():
                held(await wire(method, named(path), body, JSON), (method, path, body[:30]))
        for method, path in facade_routes():
            for body in few(BODIES, at) if method != "GET" else ():
                target = "/".join("ana" if piece.startswith("{") else piece for piece in path.split("/"))
                held(await wire(method, target, body, JSON), (method, path, body[:30]))

    over(folder, asks)


def test_any_value_in_any_field(folder: Path, document: dict[str, Any], soak_seed: int) -> None:
    """Fields of any operation with any value, odd ones among them: an answer, or a problem; never an error of the server's."""
    random = Random(soak_seed)
    with_body = [one for one in ordered(document) if "application/json" in _content(one[2])]
    good = {"question": "Where?", "content": "Hello.", "turns": TURNS, "session_id": "s", "a": "x", "b": "y"}

    def drawn(depth: int = 0) -> Any:
        if depth < 3 and random.random() < 0.3:
            return [drawn(depth + 1) for _ in range(random.randrange(3))]
        if random.random() < 0.3:
            return random.choice(
                [random.uniform(-1e9, 1e9), random.randrange(2**64), chr(random.randrange(0xD800))]
            )
        return random.choice(LEAVES)

    async def asks(wire: Wire) -> None:
        for _ in range(150):
            method, path, about = random.choice(with_body)
            fields = _fields(document, _content(about)["application/json"]["schema"])
            whole: dict[str, Any] = {name: value for name, value in good.items() if name in fields}
            for name in random.sample([*sorted(fields), "none"], min(len(fields), 2)):
                inner = sorted(fields[name]) if name in fields else []
                whole[name] = {random.choice(inner): drawn()} if inner and random.random() < 0.5 else drawn()
            answer = await wire(method, named(path), json.dumps(whole).encode(), JSON)
            held(answer, (method, path, json.dumps(whole)[:300]))

    over(folder, asks)


def _content(about: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = about.get("requestBody", {}).get("content", {})
    return found


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the fields of a body with the fields that each of them has."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    found: dict[str, Mapping[str, Any]] = {
        name: _fields(document, one) for name, one in schema.get("properties", {}).items()
    }
    for one in schema.get("anyOf", ()):
        found.update(_fields(document, one))
    return found


def test_bodies_over_the_limit(folder: Path) -> None:
    """Whatever the length says, and also without one: 413 at every door, and no more is read than may be."""
    part = b" " * 1_000_000
    read = 0

    def parts() -> Iterator[bytes]:
        nonlocal read
        for _ in range(60):
            read += len(part)
            yield part

    async def asks(wire: Wire) -> None:
        for target in ("/v1/users/ana/search", "/v1/ingest", "/compat/mem0/v3/memories/add/", "/mcp"):
            kind = [*JSON.items(), ("accept", "application/json, text/event-stream")]
            stated = await wire("POST", target, b"{}", [*kind, ("content-length", str(MAX_BODY_BYTES + 1))])
            assert (stated.status, target) == (413, target)
            lied = await wire("POST", target, list(parts()), [*kind, ("content-length", "5")])
            assert (lied.status, target) == (413, target)
            chunked = await wire("POST", target, list(parts()), kind)
            assert (chunked.status, target) == (413, target)
        packed = await wire(
            "POST", "/v1/users/ana/search", b"\x1f\x8b" * 9, [*JSON.items(), ("content-encoding", "gzip")]
        )
        assert packed.status in (415, 422)

    over(folder, asks)


async def fine(wire: Wire, method: str, target: str, body: bytes | None = None, headers: Any = ()) -> Answer:
    """Return the answer to a request, which is no error of the server's."""
    answer = await wire(method, target, body, headers, patience_s=10)
    assert 0 < answer.status < 500, (method, target[:80], (body or b"")[:60], answer.body[:300])
    return answer


def test_the_inspector(folder: Path) -> None:
    """Parts of paths, parameters and headers of any kind: a page, or a refusal."""
    at = count()
    pages = ("", "facts", "fact", "timeline", "session", "ask", "diff", "tree", "job", "static", "delete")

    async def asks(wire: Wire) -> None:
        for page in pages:
            for part in few(PARTS, at):
                await fine(wire, "GET", f"/ui/{page}/{part}")
                for name in ("user", "id", "session", "a", "from", "depth"):
                    found = await fine(wire, "GET", f"/ui/{page}?user=ana&{name}={part}")
                    assert b"root:" not in found.body
            for header in few(HEADERS, at):
                await fine(wire, "POST", f"/ui/{page}", b"token=x", [header])

    over(folder, asks)


def test_mcp(folder: Path) -> None:
    """Messages and arguments of any kind: a message that says what is wrong."""
    rpc = {**JSON, "accept": "application/json, text/event-stream"}

    def message(method: str, **params: object) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()

    def called(name: str, **arguments: object) -> bytes:
        return message("tools/call", name=name, arguments={"user": "ana", **arguments})

    async def asks(wire: Wire) -> None:
        sent = [
            *BODIES,
            *(
                called("search_memory", **{"question": "Where?", field: leaf})
                for leaf in LEAVES
                for field in FIELDS
            ),
            *(called("add_memory", content=leaf) for leaf in LEAVES),
            *(message("resources/read", uri=leaf) for leaf in LEAVES),
        ]
        for body in sent:
            await fine(wire, "POST", "/mcp", body, rpc)
        for header in HEADERS:
            await fine(wire, "POST", "/mcp", b"{}", [*rpc.items(), header])

    over(folder, asks)


def test_ids_like_paths_are_users_like_any_other(folder: Path) -> None:
    """They are stored, found and deleted under their own names, in the directory."""

    async def asks(wire: Wire) -> None:
        for user in ("../../x", "..", "/etc/passwd", "a\\b", "NUL", "%2e%2e", "é\u202e", "x" * 500):
            at = f"/v1/users/{quote(user, safe='').replace('.', '%2E')}"
            put = await wire("PUT", f"{at}/sessions/..%2F..%2Fs", json.dumps({"turns": TURNS}).encode(), JSON)
            assert put.status == 201, put.body
            assert (await wire("GET", at)).json() == {"user_id": user}
            assert (await wire("DELETE", at)).status == 200
            assert (await wire("GET", at)).status == 404

    over(folder, asks)
