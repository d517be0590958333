"""REST, errors: each is a problem with the status and type of its class, and tells nothing of the server."""

from __future__ import annotations

import errno
import logging
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jsonschema")
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.serving import PROBLEM, app_of, as_text, key_of, served, told

from memforest import AsyncMemForest, errors
from memforest.server.auth import FULL, OpenAccess, Principal, detail_of, status_of
from memforest.server.rest import problems
from memforest.server.rest.app import create_app
from memforest.server.rest.problems import title_of, type_of
from memforest.server.rest.routing import answer
from memforest.store.connections import mapped_errors

SECRET = "/srv/memories/ana-1f.db at http://10.0.0.7:8000/v1: I live in Davis."

ALL = [
    one
    for one in (getattr(errors, name) for name in errors.__all__)
    if issubclass(one, errors.MemForestError)
]

STATUS = {
    "MemForestError": 500,
    "AccessError": 500,
    "SomeUsersFailedError": 500,
    "UnauthenticatedError": 401,
    "ForbiddenError": 403,
    "NotFoundError": 404,
    "SessionConflictError": 409,
    "CorrectionError": 409,
    "IdempotencyError": 409,
    "InputError": 422,
    "TimestampError": 422,
    "ConfigError": 422,
    "MissingPackageError": 422,
    "StoreLockedError": 423,
    "RateLimitError": 429,
}
TELLS = (errors.InputError, errors.NotFoundError, errors.SessionConflictError, errors.CorrectionError)
"""What is about the request is told in the core's words; these have no path of the server in them."""


def made(kind: type[errors.MemForestError], text: str) -> errors.MemForestError:
    """Return an error of a class."""
    if issubclass(kind, errors.SomeUsersFailedError):
        return kind(text, {"ana": errors.StoreError(text)}, {}, [])
    if issubclass(kind, errors.RateLimitError):
        return kind(text, retry_after_s=0.2)
    return kind(text)


class Failing(OpenAccess):
    """Raises the same for everybody."""

    def __init__(self, forest: AsyncMemForest, error: Exception) -> None:
        super().__init__(forest, owned=True)
        self.error = error

    @asynccontextmanager
    async def forest(self, principal: Principal) -> AsyncIterator[AsyncMemForest]:
        """Raise."""
        raise self.error
        yield self._forest


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_each_class_has_its_problem(kind: type[errors.MemForestError], folder: Path) -> None:
    """Status and type are those of the class; a client learns when to try again, and how to say who it is."""
    with served(create_app(access=Failing(AsyncMemForest(folder), made(kind, SECRET)))) as client:
        response = client.raw("POST", "/v1/users/ana/messages", json={"content": "Hello."})
        told = response.json()
    status = STATUS.get(kind.__name__, 503)
    assert (response.status_code, told["status"]) == (status, status)
    assert response.headers["content-type"] == PROBLEM
    assert told["type"] == f"urn:memforest:error:{kind.__name__}"
    assert told["title"]
    assert set(told) == {"type", "title", "status", "detail"}
    assert ("retry-after" in response.headers) == (status in (423, 429, 503))
    assert ("www-authenticate" in response.headers) == (status == 401)
    if not issubclass(kind, (*TELLS, errors.AccessError)):
        assert "srv" not in response.text
        assert "10.0.0.7" not in response.text
        assert "Davis" not in response.text


@each("kind", ALL)
def test_each_class_has_a_type_and_a_title(kind: type[errors.MemForestError]) -> None:
    """The title is the promise of the class."""
    assert type_of(kind).endswith(kind.__name__)
    assert title_of(kind)
    assert not title_of(kind).endswith(".")


def full(cause: Exception) -> errors.StoreError:
    """Return what the store raises for an error of SQLite's or of the file system."""
    with pytest.raises(errors.StoreError) as found, mapped_errors(Path("ana.db")):
        raise cause
    return found.value


@pytest.mark.parametrize(
    "cause",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Quota exceeded"),
        sqlite3.OperationalError("database or disk is full"),
    ],
)
def test_a_full_disk_is_507(cause: Exception) -> None:
    """However the disk says so."""
    error = full(cause)
    assert status_of(error) == 507
    assert detail_of(error) == FULL


@pytest.mark.parametrize(
    "cause",
    [
        OSError(errno.EACCES, "Permission denied"),
        sqlite3.OperationalError("attempt to write a readonly database"),
    ],
)
def test_a_disk_that_is_not_full(cause: Exception) -> None:
    """It is unavailable, and nothing says where it is."""
    error = full(cause)
    assert status_of(error) == 503
    assert "ana.db" not in detail_of(error)


@each(
    ("message", "shown"),
    [
        ("unknown index 'x'; known: facts, flat", True),
        ("weights are not in /opt/models/minilm", False),
        ("there is nothing at http://127.0.0.1:11434/v1", False),
        (r"look into 'C:\memories\server'", False),
        ("~/memories is not there", False),
    ],
)
def test_settings_are_told_without_places(message: str, shown: bool) -> None:
    """A setting that the request has wrong is told; one that names a place of the server is not."""
    assert (detail_of(errors.ConfigError(message)) == message) is shown


def test_what_nobody_expected(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is answered without detail, and logged by its type and place, without its text."""
    app = create_app(access=Failing(AsyncMemForest(folder), RuntimeError(SECRET)))
    with served(app) as client, caplog.at_level(logging.DEBUG):
        told = client("GET", "/v1/users/ana/stats", 500)
    assert told == {
        "type": "about:blank",
        "title": "Internal Server Error",
        "status": 500,
        "detail": problems.UNEXPECTED,
    }
    lines = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert [one.getMessage().split(" at ")[0] for one in lines] == ["unexpected RuntimeError"]
    assert "Davis" not in caplog.text
    assert "Traceback" not in caplog.text


def test_an_error_of_the_server_is_logged_without_its_text(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the class and the place, as what it says may hold a path."""
    app = create_app(access=Failing(AsyncMemForest(folder), errors.CorruptStoreError(SECRET)))
    with served(app) as client, caplog.at_level(logging.DEBUG):
        client("GET", "/v1/users/ana/stats", 503)
    assert "CorruptStoreError" in caplog.text
    assert "srv" not in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/users/", 404),
        ("GET", "/v1/users//stats", 404),
        ("POST", "/v1/users", 405),
        ("TRACE", "/v1/users", 405),
        ("PATCH", "/v1/users/ana/sessions/s", 405),
    ],
)
def test_routes_that_there_are_not(folder: Path, method: str, path: str, status: int) -> None:
    """They are problems like all others."""
    with served(app_of(folder)) as client:
        assert client(method, path, status)["type"] == "about:blank"


def test_methods_of_a_path(folder: Path) -> None:
    """`Allow` names all of them, also when they are asked for; HEAD is GET without its body."""
    with served(app_of(folder)) as client:
        told(client)
        allowed = "DELETE, GET, HEAD, OPTIONS, PUT"
        assert client.raw("POST", "/v1/users/ana").headers["allow"] == allowed
        asked = client.raw("OPTIONS", "/v1/users/ana")
        assert (asked.status_code, asked.headers["allow"], asked.content) == (204, allowed, b"")
        head = client.raw("HEAD", "/v1/users/ana")
        get = client.raw("GET", "/v1/users/ana")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == get.headers["content-length"]
        assert client.raw("HEAD", "/v1/users/bob").status_code == 404
        client("OPTIONS", "/v1/nothing", 404)


def test_every_response_has_the_headers(folder: Path) -> None:
    """Answers and problems alike say that they are what they say they are, and are kept by nobody."""
    with served(app_of(folder)) as client:
        for url in ("/v1/users", "/v1/nothing", "/openapi.json"):
            headers = client.raw("GET", url).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert headers["content-security-policy"].startswith("default-src 'none'")


def test_keys(folder: Path) -> None:
    """A key is taken from each of its headers; without one, or with another, the answer says how to give it."""
    keys = {"all": key_of(), "look": key_of("read"), "own": key_of("read", "write", user="ana")}
    with served(app_of(folder, keys)) as client:
        for headers in (
            {"X-API-Key": "all"},
            {"Authorization": "Bearer all"},
            {"Authorization": "Token all"},
        ):
            client("GET", "/v1/users", 200, headers=headers)
        for headers in (
            {},
            {"X-API-Key": "other"},
            {"Authorization": "Basic all"},
            {"Authorization": "Bearer"},
        ):
            response = client.raw("GET", "/v1/users/ana/stats", headers=headers)
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Bearer")
        problem = client(
            "PUT", "/v1/users/ana/sessions/s", 403, json={"turns": []}, headers={"X-API-Key": "look"}
        )
        assert problem["type"] == type_of(errors.ForbiddenError)


def test_the_order_of_refusals(folder: Path) -> None:
    """Who one is comes first, then what one may, then whether there is such a user: nobody learns it who may not."""
    keys = {"own": key_of("read", user="ana")}
    with served(app_of(folder, keys)) as client:
        client("GET", "/v1/users/bob/facts?limit=x", 401)
        client("DELETE", "/v1/users/bob", 403, headers={"X-API-Key": "own"})


def test_a_limit_says_when(folder: Path) -> None:
    """In whole seconds, at least one."""
    late: Any = errors.RateLimitError("too many", retry_after_s=12.2)
    assert problems.headers_of(late) == {"Retry-After": "13"}
    assert problems.headers_of(errors.RateLimitError("too many", retry_after_s=0)) == {"Retry-After": "1"}


def test_what_failed_is_told_without_addresses() -> None:
    """Those of a model's endpoint, wherever a result tells of it; what was said keeps its own."""
    told = "ModelUnavailableError: the chat model 'm' at http://10.0.0.7:8001/v1 says 500 (5 retries); try again later"
    said = {"text": "look at https://example.org/a", "entities": ["https://example.org/a"]}
    one = {"chunks": [{"failure": told, **said}], "warnings": [told], "added": ["https://example.org/a"]}
    for result in (one, [one], {"result": one, **said}, {"indexes": [{"reason": told}], "notes": [told]}):
        body = bytes(answer(result).body).decode()
        assert "10.0.0.7" not in body
        assert "at its address says 500" in body
        assert body.count("example.org") == as_text(result).count("example.org")
