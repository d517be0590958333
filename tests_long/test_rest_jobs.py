"""Tests of the routes of ingest jobs, by the wire: 202 and where to look, pages, events as a stream, cancelling, scopes."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

pytest.importorskip("fastapi")
pytest.importorskip("sse_starlette")

from tests_long.serving import TURNS, Client, app_of, key_of, served

from memforest.errors import UnauthenticatedError
from memforest.server import jobs
from memforest.server.auth import Principal
from memforest.server.jobs import JobView
from memforest.server.rest.user_routes import _stream

SENT = {"sessions": [{"user_id": "ana", "session_id": "first", "turns": TURNS}]}


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "FLUSH_S", 0.002)
    monkeypatch.setattr(jobs, "LOOK_S", 0.002)


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    """A client of a server without keys."""
    with served(app_of(folder)) as made:
        yield made


@pytest.fixture(scope="module")
def shared() -> Iterator[Client]:
    """A client of a server that nothing is stored in."""
    with TemporaryDirectory() as made, served(app_of(Path(made))) as client:
        yield client


def ended(client: Client, job_id: str, **more: Any) -> dict[str, Any]:
    """Return a job when it has ended."""
    while True:
        found: dict[str, Any] = client("GET", f"/v1/jobs/{job_id}", 200, **more)
        if found["ended_at"]:
            return found
        time.sleep(0.01)


def events(text: str) -> list[dict[str, Any]]:
    """Read a stream of events."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append({"event": lines["event"], **json.loads(lines["data"]), "id": int(lines["id"])})
    return found


def test_sessions_are_accepted_and_become_memory(client: Client) -> None:
    """POST /v1/ingest answers 202 with where to look; the job ends, and the memory answers."""
    response = client.raw("POST", "/v1/ingest", json=SENT)
    assert response.status_code == 202
    job = response.json()
    assert response.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert (job["received"], job["turns"]) == (1, 3)
    found = ended(client, job["id"])
    assert (found["state"], found["done"], found["refused"]) == ("finished", 1, [])
    facts = client("GET", "/v1/users/ana/facts", 200)["facts"]
    assert any("Davis" in one["text"] for one in facts)
    assert [one["id"] for one in client("GET", "/v1/jobs", 200)["jobs"]] == [job["id"]]


def test_the_same_sessions_again_change_nothing(client: Client) -> None:
    """A request that is sent again makes a job that has nothing to do; with the same key it is the same job."""
    first = ended(client, client("POST", "/v1/ingest", 202, json=SENT)["id"])
    again = ended(client, client("POST", "/v1/ingest", 202, json=SENT)["id"])
    assert (first["turns"], again["turns"], again["state"]) == (3, 0, "finished")
    headers = {"Idempotency-Key": "k"}
    one = client("POST", "/v1/ingest", 202, json=SENT, headers=headers)
    assert client("POST", "/v1/ingest", 202, json=SENT, headers=headers)["id"] == one["id"]
    other = {"sessions": [{**SENT["sessions"][0], "session_id": "other"}]}
    assert (
        client("POST", "/v1/ingest", 409, json=other, headers=headers)["type"]
        == "urn:memforest:error:IdempotencyError"
    )


def test_a_refused_session_is_named_by_its_place(client: Client) -> None:
    """A session that differs from the stored one is refused alone, without its words."""
    ended(client, client("POST", "/v1/ingest", 202, json=SENT)["id"])
    differs = {"user_id": "ana", "session_id": "first", "turns": [{**TURNS[0], "content": "Never mind."}]}
    job = client("POST", "/v1/ingest", 202, json={"sessions": [differs, {**differs, "user_id": "bob"}]})
    assert [(one["place"], one["error"]) for one in job["refused"]] == [(0, "SessionConflictError")]
    assert "Never mind" not in json.dumps(job)
    assert ended(client, job["id"])["done"] == 1


def test_events_are_a_stream_that_goes_on_behind_the_last_one(client: Client) -> None:
    """Events have increasing ids, and Last-Event-ID leaves out those up to it."""
    job = client("POST", "/v1/ingest", 202, json=SENT)
    response = client.raw("GET", f"/v1/jobs/{job['id']}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    live = events(response.text)
    seen = events(client.raw("GET", f"/v1/jobs/{job['id']}/events").text)
    assert live[-1] == seen[-1]
    for heard in (live, seen):
        ids = [one["id"] for one in heard]
        assert ids == sorted(set(ids))
        assert [one["event"] for one in heard] == ["progress"] * (len(heard) - 1) + ["ended"]
    last = seen[-1]
    assert (last["state"], last["chunks_done"], last["chunks_failed"]) == ("finished", last["chunks"], 0)
    assert last["chunks"] > 0
    for number in range(last["id"] + 1):
        rest = client.raw("GET", f"/v1/jobs/{job['id']}/events", headers={"Last-Event-ID": str(number)})
        assert events(rest.text) == [one for one in seen if one["id"] > number]


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 400])
def test_a_last_event_id_that_is_none_is_refused(shared: Client, last: str) -> None:
    """Last-Event-ID is a whole number, or nothing."""
    shared("GET", "/v1/jobs/none/events", 422, headers={"Last-Event-ID": last})


def test_cancelling_an_ended_job_leaves_it_as_it_is(client: Client) -> None:
    """POST /v1/jobs/{id}/cancel answers with the job."""
    job = ended(client, client("POST", "/v1/ingest", 202, json=SENT)["id"])
    assert client("POST", f"/v1/jobs/{job['id']}/cancel", 200) == job


WRONG: Mapping[str, Any] = {
    "nothing": {},
    "no sessions": {"sessions": []},
    "too many": {"sessions": [SENT["sessions"][0]] * 1001},
    "an unknown field": {"sessions": [{**SENT["sessions"][0], "tenant": "t"}]},
    "no user": {"sessions": [{"session_id": "s", "turns": TURNS}]},
    "a role that there is not": {
        "sessions": [{"user_id": "a", "session_id": "s", "turns": [{"role": "king", "content": "x"}]}]
    },
    "a NUL in an id": {"sessions": [{"user_id": "a\0", "session_id": "s", "turns": TURNS}]},
    "a long id": {"sessions": [{"user_id": "a" * 10_000, "session_id": "s", "turns": TURNS}]},
    "a budget of text": {**SENT, "budget": {"max_calls": "3"}},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_malformed_request_stores_nothing(shared: Client, name: str) -> None:
    """What the schema refuses is a problem 422, and no job."""
    shared("POST", "/v1/ingest", 422, json=WRONG[name])
    assert shared("GET", "/v1/jobs", 200)["jobs"] == []
    assert shared("GET", "/v1/users", 200) in ([], {"users": [], "next_cursor": None})


@pytest.mark.parametrize("job_id", ["none", "..%2F..%2Fetc", "%2e%2e", "'; DROP TABLE job; --", "x" * 64])
def test_a_job_that_there_is_not(shared: Client, job_id: str) -> None:
    """Any text is an id, and none of these is one of a job."""
    for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel")):
        assert (
            shared(method, f"/v1/jobs/{job_id}{path}", 404)["title"]
            == "There is no such user, session, fact or entity"
        )


def test_scopes_and_users_of_keys(folder: Path) -> None:
    """Writing takes write, looking read or write; a key of another user finds no job, and sends nothing for ana."""
    keys: dict[str, Principal] = {
        "reads": key_of("read"),
        "writes": key_of("write"),
        "deletes": key_of("delete"),
        "bob": key_of(user="bob"),
    }
    with served(app_of(folder, keys)) as client:

        def to(key: str) -> dict[str, str]:
            return {"X-API-Key": key}

        client("POST", "/v1/ingest", 401, json=SENT)
        for key in ("reads", "deletes"):
            client("POST", "/v1/ingest", 403, json=SENT, headers=to(key))
        job = client("POST", "/v1/ingest", 202, json=SENT, headers=to("writes"))
        ended(client, job["id"], headers=to("reads"))
        ended(client, job["id"], headers=to("writes"))
        client("GET", f"/v1/jobs/{job['id']}", 403, headers=to("deletes"))
        client("POST", f"/v1/jobs/{job['id']}/cancel", 403, headers=to("reads"))
        absent = client("GET", "/v1/jobs/none", 404, headers=to("bob"))
        assert client("GET", f"/v1/jobs/{job['id']}", 404, headers=to("bob")) == absent
        assert client("GET", "/v1/jobs", 200, headers=to("bob"))["jobs"] == []
        refused = client("POST", "/v1/ingest", 202, json=SENT, headers=to("bob"))
        assert [one["error"] for one in refused["refused"]] == ["NotFoundError"]


def test_a_cut_connection_does_the_job_no_harm(folder: Path) -> None:
    """Who goes away in the middle of a stream leaves no watcher behind."""
    app = app_of(folder)
    with served(app) as client:
        job = client("POST", "/v1/ingest", 202, json=SENT)
        with client._client.stream("GET", f"/v1/jobs/{job['id']}/events") as stream:
            next(stream.iter_lines())
        assert ended(client, job["id"])["state"] == "finished"
        assert app.state.intake.watchers == 0


def test_a_stream_ends_with_the_key_it_was_asked_for_with() -> None:
    """Whoever may look no longer, because the key was revoked or may do less, gets no further event."""

    def told(*asked: Principal | None) -> list[str | None]:
        left = list(asked)

        async def again() -> Principal:
            if (found := left.pop(0)) is None:
                raise UnauthenticatedError("revoked")
            return found

        async def three() -> AsyncIterator[JobView]:
            now = datetime(2024, 1, 1, tzinfo=timezone.utc)
            for number in (1, 2, 3):
                yield JobView("j", "running", now, now, last_event=number)

        async def work() -> list[str | None]:
            return [one.id async for one in _stream(three(), again)]

        return asyncio.run(work())

    holds = Principal(key="k")
    assert told(holds, holds, holds) == ["1", "2", "3"]
    assert told(holds, None) == ["1"]
    assert told(holds, holds, Principal(scopes=frozenset({"delete"}))) == ["1", "2"]
