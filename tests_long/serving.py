"""The REST app in this process, and a client that holds every response to the document of the app."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator, FormatChecker

from memforest import AsyncMemForest, Config
from memforest.errors import UnauthenticatedError
from memforest.models import HashEmbedder
from memforest.server.auth import ALL_SCOPES, OpenAccess, Principal, Scope
from memforest.server.rest.app import create_app
from memforest.testing import FrozenClock

__all__ = [
    "LATER",
    "PROBLEM",
    "TURNS",
    "Client",
    "KeyedForest",
    "app_of",
    "as_text",
    "key_of",
    "served",
    "told",
]

PROBLEM = "application/problem+json"
NOON = "2024-06-01T12:00:00Z"
TURNS = [
    {"role": "user", "content": "I live in Davis.", "timestamp": "2024-05-01T10:00:00Z"},
    {"role": "assistant", "content": "Nice.", "timestamp": "2024-05-01T10:00:05Z"},
    {"role": "user", "content": "My cat is called Miso.", "timestamp": "2024-05-01T10:01:00Z"},
]
LATER = [{"role": "user", "content": "I moved to Miami.", "timestamp": "2024-05-20T09:00:00Z"}]


class KeyedForest(OpenAccess):
    """One forest, with keys: name of a key -> who has it."""

    def __init__(self, forest: AsyncMemForest, keys: Mapping[str, Principal]) -> None:
        super().__init__(forest, owned=True)
        self._keys = keys

    async def identify(self, credential: str | None) -> Principal:
        """Return who has a key."""
        if credential is None or credential not in self._keys:
            raise UnauthenticatedError("no valid key came with the request")
        return self._keys[credential]


class Client:
    """Sends requests, and fails where a response is not as the document says.

    Args:
        client: of the app.
        document: the app's.
    """

    def __init__(self, client: TestClient, document: Mapping[str, Any]) -> None:
        self._client = client
        self.document = document
        self._routes = [
            (re.compile(re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(path))), methods)
            for path, methods in document["paths"].items()
        ]

    def __call__(self, method: str, url: str, status: int, **more: Any) -> Any:
        """Return the body of the response to a request, which must have this status."""
        response = self.raw(method, url, **more)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    def raw(self, method: str, url: str, **more: Any) -> Any:
        """Return the response to a request."""
        response = self._client.request(method, url, **more)
        self._check(method, url, response)
        return response

    def _check(self, method: str, url: str, response: Any) -> None:
        if method == "HEAD":
            return
        kind = response.headers.get("content-type", "").partition(";")[0]
        if response.status_code >= 400:
            assert kind == PROBLEM, response.text
            assert response.json()["status"] == response.status_code
        operation = self._operation(method, urlsplit(url).path)
        if operation is None:
            return
        assert str(response.status_code) in operation["responses"], (operation["operationId"], response.text)
        content = operation["responses"][str(response.status_code)].get("content", {})
        if response.content or content:
            assert kind in content, (kind, operation["operationId"])
            schema = content[kind].get("schema")
            if kind.endswith("json") and schema is not None:
                whole = {**schema, "components": self.document["components"]}
                Draft202012Validator(whole, format_checker=FormatChecker()).validate(response.json())

    def _operation(self, method: str, path: str) -> Any:
        best = [methods for route, methods in self._routes if route.fullmatch(path)]
        fixed = [one for one in best if method.lower() in one]
        return fixed[-1][method.lower()] if fixed else None


def app_of(folder: Path, keys: Mapping[str, Principal] | None = None, **settings: Any) -> FastAPI:
    """Return an app whose memories are in a folder, by the word-overlap embedder and a clock that stands still."""
    config = Config(embedder=HashEmbedder(), clock=FrozenClock(NOON), **settings)
    if keys is None:
        return create_app(folder, config)
    return create_app(access=KeyedForest(AsyncMemForest(folder, config), keys))


@contextmanager
def served(app: FastAPI) -> Iterator[Client]:
    """Give a client of an app that runs."""
    with TestClient(app, raise_server_exceptions=False) as client:
        yield Client(client, _document())


@cache
def _document() -> dict[str, Any]:
    """Return the document of the app, which is the same for all."""
    made = app_of(Path()).openapi()
    assert made["openapi"].startswith("3.1")
    return made


def key_of(*scopes: Scope, user: str | None = None) -> Principal:
    """Return who has a key with these scopes, all of them when none is given."""
    return Principal(user=user, scopes=frozenset(scopes) or ALL_SCOPES)


def told(client: Client, user: str = "ana") -> None:
    """Let a user tell where they live, that their cat is called Miso, and later that they have moved."""
    client("PUT", f"/v1/users/{user}/sessions/first", 201, json={"turns": TURNS})
    client("PUT", f"/v1/users/{user}/sessions/second", 201, json={"turns": LATER})


def as_text(value: object) -> str:
    """Return a value as JSON, to look for something in it."""
    return json.dumps(value)
