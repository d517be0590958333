"""REST, what is no request: bodies that are no JSON or too large, ids of all kinds, other origins."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jsonschema")
sys.path.insert(0, str(Path(__file__).parent.parent))

import httpx
from tests_long.serving import TURNS, Client, app_of, key_of, served, told

from memforest.server.rest.bodies import encoded
from memforest.settings import MAX_BODY_BYTES, MAX_ID_CHARS
from memforest.store.directory import file_name

JSON = {"Content-Type": "application/json"}
SEARCH = "/v1/users/ana/search"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of an app in which Ana has told something."""
    with served(app_of(tmp_path_factory.mktemp("forest"))) as made:
        told(made)
        yield made


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nothing",
        b"\xff\xfe",
        b'{"question": "\x00"}',
        b'{"question": NaN}',
        b'{"question": "x", "top_k": Infinity}',
        b'{"question": "x", "top_k": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"question": "\\ud800"}',
        b'{"question": "x", "top_k": 1e400}',
        b"[]",
        b'"question"',
        b"null",
        b'{"question": "x", "question\\u0000": 1}',
        b'{"question": "x", "question": "y"}',
        b'{"question": "x", "ranking": {"alpha": 0.1, "alpha": 0.2}}',
    ],
)
def test_a_body_that_is_no_request(client: Client, body: bytes) -> None:
    """It is a 422 that shows nothing of it."""
    problem = client("POST", SEARCH, 422, content=body, headers=JSON)
    assert problem["type"] == "urn:memforest:error:InputError"
    assert "99999" not in problem["detail"]


@pytest.mark.parametrize("question", ["", "   ", "x\0y", 3, None, ["x"]])
def test_a_question_that_is_none(client: Client, question: object) -> None:
    """Whether the schema or the core refuses it."""
    client("POST", SEARCH, 422, json={"question": question})


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 0},
        {"top_k": 1001},
        {"top_k": "5"},
        {"top_k": True},
        {"top_k": 1.5},
        {"as_of": "the day of the fair"},
        {"as_of": 12},
        {"during": ["2024-01-01"]},
        {"during": ["2024-02-01", "2024-01-01"]},
        {"mode": "magic"},
        {"index": "magic"},
        {"index": []},
        {"ranking": {"lexical": "much"}},
        {"ranking": {"lexcal": 1}},
        {"ranking": {"recall": {"levels": [9]}}},
        {"budget": {"max_calls": 1.5}},
        {"budget": {"max_calls": 2**63}},
        {"max_tokens": 2**63},
        {"explain": 1},
        {"verbose": True},
    ],
    ids=str,
)
def test_an_option_that_cannot_be(client: Client, options: dict[str, object]) -> None:
    """Of a wrong type, out of range, unknown, or against another one."""
    client("POST", SEARCH, 422, json={"question": "Where do I live?", **options})


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "image/png", "json"]
)
def test_a_body_of_another_type(client: Client, kind: str | None) -> None:
    """Only JSON is read: it is what a page of another origin cannot send without asking."""
    headers = {} if kind is None else {"Content-Type": kind}
    client("POST", SEARCH, 415, content=b'{"question": "Where?"}', headers=headers)


def test_json_by_other_names(client: Client) -> None:
    """With a charset, and of a type that is written in JSON."""
    for kind in ("application/json; charset=utf-8", "application/problem+json", "APPLICATION/JSON"):
        client("POST", SEARCH, 200, content=b'{"question": "Where?"}', headers={"Content-Type": kind})


def test_a_parameter_of_two_values_comes_twice(client: Client) -> None:
    """It is the only one that does."""
    client("GET", "/v1/users/ana/facts?during=2024-01-01&during=2024-12-31", 200)
    client("GET", "/v1/users/ana/facts?during=2024-01-01&during=2024-12-31&limit=1&limit=1", 422)


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "x"])
def test_a_body_that_is_packed(client: Client, coding: str) -> None:
    """Is refused by its header, also where the body is not packed at all; and what would be read is said."""
    sent = {**JSON, "Content-Encoding": coding}
    response = client.raw("POST", SEARCH, content=b'{"question": "Where?"}', headers=sent)
    assert (response.status_code, response.headers["accept-encoding"]) == (415, "identity")
    client("POST", SEARCH, 200, json={"question": "Where?"}, headers={"Content-Encoding": "Identity"})


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ({"question": "x", "as_of": {"str": 1}}, ["/body/as_of"]),
        ({"question": "x", "index": 5}, ["/body/index"]),
        ({"question": "x", "during": ["2024-01-01", []]}, ["/body/during/1"]),
        (
            {"question": "x", "budget": {"max_calls": "x", "no": 1}},
            ["/body/budget/max_calls", "/body/budget/no"],
        ),
        ({"question": "x", "ranking": {"explore": {"no": 1}}}, ["/body/ranking/explore/no"]),
        ({"question": "x", "a/b~": 1}, ["/body/a~1b~0"]),
        ({}, ["/body/question"]),
    ],
)
def test_what_is_wrong_is_pointed_at(client: Client, body: object, places: list[str]) -> None:
    """By names that stand in the request, or are missing there; not by those of our types."""
    problem = client("POST", SEARCH, 422, json=body)
    assert sorted({one["pointer"] for one in problem["errors"]}) == places


def test_a_field_that_is_missing_within_a_choice_is_pointed_at(client: Client) -> None:
    """Below the part of the list that lacks it."""
    problem = client("POST", "/v1/ingest", 422, json={"sessions": [{"user_id": "ana", "turns": []}]})
    assert [one["pointer"] for one in problem["errors"]] == ["/body/sessions/0/session_id"]


def test_a_body_that_says_that_it_is_too_large(client: Client) -> None:
    """It is refused before it is read; the connection stays, as closing it would lose the answer of who still sends."""
    response = client.raw("POST", SEARCH, content=b"x" * (MAX_BODY_BYTES + 1), headers=JSON)
    assert response.status_code == 413
    assert "connection" not in response.headers


def test_a_body_that_comes_in_chunks(folder: Path) -> None:
    """It is refused as soon as more has come than may, without a length in front."""
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"question": "'
        for _ in range(100):
            sent += 1_000_000
            yield b"x" * 1_000_000

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app_of(folder))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as asked:
            return await asked.post(SEARCH, content=chunks(), headers=JSON)

    response = asyncio.run(run())
    assert response.status_code == 413
    assert response.json()["title"] == "Content Too Large"
    assert MAX_BODY_BYTES <= sent <= MAX_BODY_BYTES + 1_000_000


@pytest.mark.parametrize("length", ["-1", "ten", "1e3", "9" * 30])
def test_a_length_that_is_no_number(client: Client, length: str) -> None:
    """Or a number that nothing has."""
    client.raw("POST", SEARCH, content=b"{}", headers={**JSON, "Content-Length": length})
    response = client.raw("POST", SEARCH, content=b"{}", headers={**JSON, "Content-Length": length})
    assert response.status_code in (400, 413)


def test_a_large_body_that_fits(client: Client) -> None:
    """Just below the limit a question is read, and cut with a warning."""
    body = b'{"question": "' + b"x" * (MAX_BODY_BYTES - 100) + b'"}'
    found = client("POST", SEARCH, 200, content=body, headers=JSON)
    assert any("characters" in one for one in found["warnings"])


IDS = (
    "..",
    ".",
    "../..",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a%2Fb",
    "%2e%2e",
    "a b",
    "é",
    "日本",
    "🦊",
    "\u202eevil",
    "a?b#c",
    "+",
    "sessions",
    "x" * MAX_ID_CHARS,
    "'; DROP TABLE turn; --",
    "\n",
)


@pytest.mark.parametrize("one", [one for one in IDS if one.strip()], ids=ascii)
def test_any_text_is_an_id(tmp_path: Path, one: str) -> None:
    """Of a user, session and turn: it comes back as it was, and the only file is the user's own."""
    with served(app_of(tmp_path / "forest")) as client:
        part = encoded(one)
        client("PUT", f"/v1/users/{part}/sessions/{part}", 201, json={"turns": [{**TURNS[0], "id": one}]})
        assert client("GET", "/v1/users", 200)["users"] == [one]
        assert client("GET", f"/v1/users/{part}/sessions", 200)["sessions"][0]["session_id"] == one
        assert client("GET", f"/v1/users/{part}/sessions/{part}", 200)["turns"][0]["id"] == one
        client("DELETE", f"/v1/users/{part}/sessions/{part}/turns/{part}", 200)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.parent for path in files} == {tmp_path / "forest"}
    assert all(path.name.startswith(file_name(one)) for path in files)


@pytest.mark.parametrize(
    "part", ["%00", "a%00b", "%20", "%ED%A0%80", "%ff", "%C3", "x" * (MAX_ID_CHARS + 1), "x" * 10_000]
)
def test_a_text_that_is_no_id(client: Client, part: str) -> None:
    """NUL, blanks, lone surrogates, bytes that are no UTF-8, and what is too long, in every part of a path."""
    problem = client("GET", f"/v1/users/{part}", 422)
    assert problem["errors"][0]["pointer"] == "/path/user_id"
    client("GET", f"/v1/users/ana/sessions/{part}", 422)
    client("DELETE", f"/v1/users/ana/sessions/first/turns/{part}", 422)
    client("GET", f"/v1/users/ana/facts/{part}", 422)
    client("GET", f"/v1/users/ana/timeline/{part}", 422)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"/v1/users/..", 404),
        (b"/v1/users/../stats", 200),
        (b"/v1/users/%2e%2e/stats", 200),
        (b"/v1/users/../../etc/passwd", 404),
        (b"/v1/../v1/users", 404),
        (b"/../v1/users", 404),
        (b"/v1/users/ana%2Fstats", 404),
        (b"/v1/users/ana/stats", 200),
    ],
)
def test_dots_and_slashes_lead_nowhere(folder: Path, raw: bytes, status: int) -> None:
    """A part of two dots is an id like any other, and a slash that came encoded divides nothing."""

    async def run() -> int:
        app = app_of(folder)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as asked:
            await asked.put("/v1/users/ana", json={})
        path = unquote_to_bytes(raw).decode()
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": raw,
            "query_string": b"",
            "headers": [],
        }
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        await app(scope, receive, send)
        return int(sent[0]["status"])

    assert asyncio.run(run()) == status


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=",
        "offset=-1",
        "verdict=good",
        "as_of=",
        "as_of=never",
        "during=2024-01-01",
        "filters=%5B%5D",
        "filters=x",
        "entity=%00",
        "entity=",
        "lmit=5",
        "cursor=%00",
        "limit=1&limit=2",
        "entity=%ff",
        "entity=%ed%a0%80",
        "%ff=1",
    ],
)
def test_a_query_that_does_not_fit(client: Client, query: str) -> None:
    """Unknown parameters too: a slip of the pen is not passed over."""
    problem = client("GET", f"/v1/users/ana/facts?{query}", 422)
    assert "\\u0000" not in str(problem)


def test_another_user_is_as_absent(folder: Path) -> None:
    """For a key of one user, others are answered just as users whom there are not."""
    keys = {"all": key_of(), "own": key_of(user="ana")}
    with served(app_of(folder, keys)) as client:
        for user in ("ana", "bob"):
            url = f"/v1/users/{user}/sessions/s"
            client("PUT", url, 201, json={"turns": TURNS}, headers={"X-API-Key": "all"})
        own: dict[str, Any] = {"headers": {"X-API-Key": "own"}}
        assert client("GET", "/v1/users", 200, **own)["users"] == ["ana"]
        for method, path, body in (
            ("GET", "", None),
            ("PUT", "", {}),
            ("DELETE", "", None),
            ("GET", "/stats", None),
            ("GET", "/export", None),
            ("POST", "/search", {"question": "Where?"}),
            ("PUT", "/sessions/new", {"turns": TURNS}),
            ("POST", "/messages", {"content": "Hello there."}),
        ):
            more = own if body is None else {**own, "json": body}
            there = client(method, f"/v1/users/bob{path}", 404, **more)
            absent = client(method, f"/v1/users/eve{path}", 404, **more)
            assert str(there).replace("bob", "eve") == str(absent)
        client("POST", "/v1/users/ana/merge", 404, json={"from_user": "bob"}, **own)
        both = {"source_user_ids": ["bob"], "target_user_id": "ana"}
        client("POST", "/v1/merge_user_forests", 404, json=both, **own)


def test_pages_of_other_origins_do_not_write(folder: Path) -> None:
    """A browser that is made to send a request to a server on loopback says where the page is from."""
    with served(app_of(folder)) as client:
        evil = {"Origin": "http://evil.example"}
        client("POST", "/v1/users/ana/messages", 403, json={"content": "Hello."}, headers=evil)
        client("POST", "/v1/users/ana/repair", 403, headers={"Origin": "null"})
        client("POST", "/v1/users/ana/messages", 200, json={"content": "Hello."})
        own = {"Origin": "http://testserver"}
        client("POST", "/v1/users/ana/messages", 200, json={"content": "Hello."}, headers=own)
        assert "access-control-allow-origin" not in client.raw("GET", "/v1/users", headers=evil).headers


def test_origins_that_are_allowed(folder: Path) -> None:
    """They are told so before they ask, and what they may read; others are not."""
    from memforest import AsyncMemForest
    from memforest.server.rest.app import create_app

    origin = "https://app.example"
    with served(create_app(AsyncMemForest(folder), origins=[origin])) as client:
        ask = {"Origin": origin, "Access-Control-Request-Method": "PUT"}
        asked = client.raw("OPTIONS", "/v1/users/ana", headers=ask)
        assert asked.headers["access-control-allow-origin"] == origin
        done = client.raw("PUT", "/v1/users/ana", headers={"Origin": origin})
        assert (done.status_code, done.headers["access-control-allow-origin"]) == (201, origin)
        client("PUT", "/v1/users/bob", 403, headers={"Origin": "https://other.example"})
