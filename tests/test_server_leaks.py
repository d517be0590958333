"""Two tenants at one server: no request of one brings a byte of the other's, in no answer, log line, metric or span."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from memforest import Config
from memforest.access.keyed import KeyedAccess
from memforest.access.keys import KeyStore
from memforest.access.settings import AccessSettings
from memforest.models import HashEmbedder
from memforest.server.app import create_server

REQUESTS = 500
USERS = ("ana", "ben")
PLAIN = ("limit", "offset", "depth", "hops", "dry_run", "index", "kind", "verdict")
LISTED = {"next_cursor": "cursor", "next": "after"}
"""What a listing calls it -> what the next request calls it."""
WHEN = "2024-06-01T12:00:00Z"


@dataclass
class Tenant:
    """A tenant whose every word is marked, so that none of it can be anybody else's."""

    mark: str
    key: str
    ids: dict[str, set[str]] = field(default_factory=dict)
    sent: str = ""
    """All that it has sent so far: that may come back."""

    @property
    def words(self) -> tuple[str, ...]:
        """What only its users said."""
        return f"{self.mark}burg", f"{self.mark}stad", f"{self.mark} bakery"

    def turns(self, user: str) -> list[dict[str, Any]]:
        """What one of its users said."""
        texts = (
            f"I live in {self.mark}burg.",
            f"My sister {self.mark.capitalize()}ina works at the {self.mark} bakery.",
            f"{self.mark.capitalize()}ina moved to {self.mark}stad last week, {user}.",
        )
        return [
            {
                "id": f"{self.mark}-turn-{n}",
                "role": "user",
                "content": text,
                "timestamp": f"2024-05-0{n + 1}T10:00:00Z",
            }
            for n, text in enumerate(texts)
        ]

    def seen(self, name: str, value: object) -> None:
        """Keep an id that the server gave."""
        if isinstance(value, str) and value:
            self.ids.setdefault(name, set()).add(value)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[TestClient, dict[str, Any], list[Tenant]]]:
    """An app with two tenants whose users have the same names."""
    store = KeyStore(tmp_path)
    tenants = []
    for mark in ("quorvax", "zembril"):
        made = store.create(mark, tenant=f"tenant-{mark}", scopes=("read", "write", "delete", "admin"))
        tenants.append(Tenant(mark, made.key))
    store.close()
    access = KeyedAccess(
        tmp_path, Config(embedder=HashEmbedder()), AccessSettings(key_rate=None, tenant_rate=None)
    )
    app = create_server(tmp_path, access=access)
    with TestClient(app, raise_server_exceptions=False) as client:
        for one in tenants:
            for user in USERS:
                path = f"/v1/users/{user}/sessions/{one.mark}-{user}"
                answer = client.put(path, json={"turns": one.turns(user)}, headers={"X-API-Key": one.key})
                assert answer.status_code == 201, answer.text
                one.seen("session_id", f"{one.mark}-{user}")
                one.seen("turn_id", f"{one.mark}-turn-1")
            one.seen("entity", f"{one.mark.capitalize()}ina")
            _learn(client, one)
        yield client, app.openapi(), tenants


def _learn(client: TestClient, tenant: Tenant) -> None:
    """Keep the ids and cursors that a tenant's own listings give."""
    for user in USERS:
        for path in (
            "facts?limit=2",
            "sessions?limit=1",
            "entities?limit=1",
            "changes?since=2020-01-01&limit=1",
        ):
            answer = client.get(f"/v1/users/{user}/{path}", headers={"X-API-Key": tenant.key})
            if answer.status_code == 200:
                _keep(tenant, answer.json())


def _keep(tenant: Tenant, value: Any) -> None:
    if isinstance(value, list):
        for one in value:
            _keep(tenant, one)
    if isinstance(value, dict):
        for name, one in value.items():
            if name in ("fact_id", "next_cursor", "next", "key", "job_id"):
                tenant.seen(str(LISTED.get(name, name)), one)
            _keep(tenant, one)


class Requests:
    """Draws requests: any operation, with ids and cursors of either tenant.

    Args:
        document: of the app.
        tenants: whose ids are drawn.
        rng: draws.
    """

    def __init__(self, document: dict[str, Any], tenants: list[Tenant], rng: random.Random) -> None:
        self._tenants = tenants
        self._rng = rng
        self._operations = [
            (method, path, one)
            for path, methods in document["paths"].items()
            for method, one in methods.items()
            if one["operationId"] != "watch_job"  # a stream, which ends when its job does
        ]

    def draw(self) -> tuple[str, str, str, Any, str]:
        """Return operation, method, address with its query, body, and all that was sent in one text."""
        method, path, about = self._rng.choice(self._operations)
        query: dict[str, str] = {}
        for one in about.get("parameters", ()):
            name = one["name"]
            if one["in"] == "path":
                path = path.replace("{" + name + "}", quote(self._value(name), safe=""))
            elif (
                one["in"] == "query"
                and name not in PLAIN
                and (one.get("required") or self._rng.random() < 0.4)
            ):
                query[name] = self._value(name)
        text = "&".join(f"{name}={quote(value)}" for name, value in query.items())
        body = self._body(about["operationId"]) if "requestBody" in about else None
        url = f"{path}?{text}" if text else path
        return about["operationId"], method.upper(), url, body, url + json.dumps(body)

    def _value(self, name: str) -> str:
        """Return an id or a cursor of either tenant, or a value that suits the name."""
        if name == "user_id":
            return self._rng.choice(USERS)
        if name in ("as_of", "said_by", "known_at", "since", "until", "a", "b") and self._rng.random() < 0.8:
            return WHEN if name != "a" else "2024-01-01T00:00:00Z"
        known = [one for tenant in self._tenants for one in sorted(tenant.ids.get(name, ()))]
        others = [one for tenant in self._tenants for kept in tenant.ids.values() for one in sorted(kept)]
        return self._rng.choice(known or others)

    def _body(self, operation: str) -> Any:
        value = self._value
        fact, entity = value("fact_id"), value("entity")
        return {
            "ingest_session": {"turns": [{"role": "user", "content": "I like tea.", "timestamp": WHEN}]},
            "add": {"content": "I like coffee.", "timestamp": WHEN, "session_id": value("session_id")},
            "search": {"question": f"Where does {entity} live?", "explain": True},
            "ask": {"question": f"What did {entity} do?"},
            "context": {"question": "Where do I live?"},
            "update": {"text": "I live in Cork."},
            "delete": {"fact_id": fact},
            "merge": {"source": self._rng.choice(USERS)},
            "merge_user_forests": {"source": "ana", "target": "ben"},
            "merge_entities": {"a": entity, "b": value("entity")},
            "split_entity": {"entity": entity, "name": value("entity")},
            "profile": {"participant": entity},
            "ingest": {"requests": [{"user_id": "ana", "session_id": value("session_id"), "turns": []}]},
        }.get(operation, {})


def test_no_request_brings_a_byte_of_another_tenant(
    two: tuple[TestClient, dict[str, Any], list[Tenant]], caplog: pytest.LogCaptureFixture
) -> None:
    """500 drawn requests with swapped ids, keys and cursors; what a tenant has never sent and is not its own is a leak."""
    caplog.set_level(logging.DEBUG)
    client, document, tenants = two
    rng = random.Random(16)
    drawn = Requests(document, tenants, rng)
    done: dict[str, set[int]] = {}
    for _ in range(REQUESTS):
        me = rng.choice(tenants)
        [other] = [one for one in tenants if one is not me]
        operation, method, url, body, sent = drawn.draw()
        answer = client.request(method, url, json=body, headers={"X-API-Key": me.key})
        done.setdefault(operation, set()).add(answer.status_code)
        me.sent += sent.lower()
        assert answer.status_code < 500, (operation, answer.status_code, answer.text)
        told = answer.text + json.dumps(dict(answer.headers))
        for secret in (*other.words, *_ids(other)):
            if secret.lower() not in me.sent:
                assert secret.lower() not in told.lower(), (operation, method, url, body)
        if answer.status_code < 300:
            _learn(client, me)
    assert len(done) > 40
    assert (
        sum(200 in seen or 201 in seen for seen in done.values()) > 25
    )  # they were answered, not all refused
    logged = "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith("memforest")
    )
    metrics = client.get("/metrics", headers={"X-API-Key": tenants[0].key}).text
    for tenant in tenants:
        for secret in (tenant.mark, tenant.key):
            assert secret.lower() not in logged.lower()
            assert secret.lower() not in metrics.lower()


def _ids(tenant: Tenant) -> list[str]:
    """Return the ids that no other tenant can have: two users may say the same, and a fact's id is a hash of its words."""
    return [one for name in ("session_id", "turn_id", "key", "job_id") for one in tenant.ids.get(name, ())]


def test_anothers_user_is_answered_as_nobody(two: tuple[TestClient, dict[str, Any], list[Tenant]]) -> None:
    """A user whom only the other tenant has gets the same answer as one whom nobody has, but for the name that was sent."""
    client, _, (one, other) = two
    client.put("/v1/users/zed", headers={"X-API-Key": other.key})
    answers = []
    for user in ("zed", "yod"):
        for method, path, body in (
            ("GET", "facts", None),
            ("GET", "stats", None),
            ("POST", "search", {"question": "where?"}),
            ("DELETE", "sessions/x", None),
            ("GET", "", None),
        ):
            url = f"/v1/users/{user}/{path}".rstrip("/")
            answer = client.request(method, url, json=body, headers={"X-API-Key": one.key})
            answers.append((user, answer.status_code, answer.text.replace(user, "?")))
    half = len(answers) // 2
    assert [answer[1:] for answer in answers[:half]] == [answer[1:] for answer in answers[half:]]
    assert {status for _, status, _ in answers} == {404}
