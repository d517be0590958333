"""REST, sessions and messages: what is sent is stored once, told again, and deleted whole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jsonschema")
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.serving import LATER, TURNS, Client, app_of, served, told

from memforest.settings import MAX_ID_CHARS

BASE = "/v1/users/ana/sessions"


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    """A client of an app without memories."""
    with served(app_of(folder)) as made:
        yield made


def test_a_session_is_new_once(client: Client) -> None:
    """201 when it is new, 200 when it comes again, and 200 when it has grown; what is told of it is `ingest_session`'s."""
    first = client("PUT", f"{BASE}/s", 201, json={"turns": TURNS})
    assert (first["session_id"], first["turns_added"]) == ("s", 3)
    assert 'ana: "I live in Davis."' in first["added"]
    again = client("PUT", f"{BASE}/s", 200, json={"turns": TURNS})
    assert (again["turns_added"], again["added"]) == (0, [])
    grown = client("PUT", f"{BASE}/s", 200, json={"turns": TURNS + LATER})
    assert grown["turns_added"] == 1
    assert [one["text"] for one in client("GET", f"{BASE}/s", 200)["turns"]] == [
        one["content"] for one in TURNS + LATER
    ]


def test_a_session_that_differs_is_a_conflict(client: Client) -> None:
    """Until the caller says that it replaces the other; the problem has the type of the error, and no word of a turn."""
    client("PUT", f"{BASE}/s", 201, json={"turns": TURNS})
    other = [{**TURNS[0], "content": "I live in Oslo."}, *TURNS[1:]]
    problem = client("PUT", f"{BASE}/s", 409, json={"turns": other})
    assert problem["type"] == "urn:memforest:error:SessionConflictError"
    done = client("PUT", f"{BASE}/s", 200, json={"turns": other, "replace": True})
    assert done["replaced"] is True
    assert client("GET", f"{BASE}/s", 200)["turns"][0]["text"] == "I live in Oslo."


def test_where_a_new_session_is(client: Client) -> None:
    """`Location` leads to it, whatever its id."""
    response = client.raw("PUT", f"{BASE}/a%2Fb%20%C3%A9", json={"turns": TURNS})
    assert response.headers["location"] == f"{BASE}/a%2Fb%20%C3%A9"
    assert len(client("GET", response.headers["location"], 200)["turns"]) == 3


def test_sessions_are_listed_in_time_order(client: Client) -> None:
    """With their turns counted, and times with an offset."""
    told(client)
    first, second = client("GET", BASE, 200)["sessions"]
    assert [first["session_id"], second["session_id"]] == ["first", "second"]
    assert (first["turns"], first["start"]) == (3, "2024-05-01T10:00:00+00:00")


def test_metadata_comes_back(client: Client) -> None:
    """That of the session, and that of turns: every field of a turn that is none of ours."""
    client("PUT", f"{BASE}/s", 201, json={"turns": [{**TURNS[0], "mood": "glad"}], "metadata": {"app": "x"}})
    assert client("GET", BASE, 200)["sessions"][0]["metadata"] == {"app": "x"}
    assert client("GET", f"{BASE}/s", 200)["turns"][0]["metadata"] == {"mood": "glad"}


def test_turns_that_are_stored_as_they_are(client: Client) -> None:
    """With ``infer`` false nothing is extracted."""
    done = client("PUT", f"{BASE}/s", 201, json={"turns": TURNS, "infer": False})
    assert {one["status"] for one in done["chunks"]} == {"verbatim"}


def test_a_session_whose_memory_is_made_later(client: Client) -> None:
    """With `defer` its turns are stored and no more, until `resume`, or the same session comes without it."""
    body = {"turns": TURNS, "defer": True}
    done = client("PUT", "/v1/users/bob/sessions/late", 201, json=body)
    assert (done["deferred"], done["turns_added"], done["added"]) == (True, 3, [])
    assert client("GET", "/v1/users/bob/facts", 200)["total"] == 0
    client("PUT", "/v1/users/bob/sessions/late", 422, json={**body, "refresh": True})
    [resumed] = client("POST", "/v1/users/bob/resume", 200)
    assert resumed["added"]
    assert client("GET", "/v1/users/bob/facts", 200)["total"] > 0


def test_a_key_of_a_write_is_as_long_as_an_id(client: Client) -> None:
    """As long as the core takes it, and not longer."""
    for length, status in ((MAX_ID_CHARS, 200), (MAX_ID_CHARS + 1, 422)):
        sent = {"Idempotency-Key": "k" * length}
        client("POST", "/v1/users/ana/messages", status, json={"content": "I like tea."}, headers=sent)


def test_a_session_is_deleted_with_what_was_made_of_it(client: Client) -> None:
    """A dry run counts the same and deletes nothing; the receipt holds numbers alone."""
    told(client)
    dry = client("DELETE", f"{BASE}/first?dry_run=true", 200)
    assert client("GET", f"{BASE}/first", 200)["turns"]
    done = client("DELETE", f"{BASE}/first", 200)
    assert (dry["dry_run"], done["dry_run"]) == (True, False)
    assert dry["gone"] == done["gone"]
    assert done["gone"]["turns"] == 3
    client("GET", f"{BASE}/first", 404)
    client("DELETE", f"{BASE}/first", 404)


def test_one_turn_is_deleted(client: Client) -> None:
    """And the others stay."""
    told(client)
    done = client("DELETE", f"{BASE}/first/turns/2", 200)
    assert done["gone"]["turns"] == 1
    assert [one["id"] for one in client("GET", f"{BASE}/first", 200)["turns"]] == ["0", "1"]
    client("DELETE", f"{BASE}/first/turns/2", 404)


@pytest.mark.parametrize(
    "content",
    [
        "I adopted a dog.",
        {"role": "user", "content": "I adopted a dog."},
        [{"role": "user", "content": [{"type": "text", "text": "I adopted a dog."}]}],
    ],
)
def test_what_is_said_just_now(client: Client, content: object) -> None:
    """A text, a message or a list is added to the session of the day, and stamped with the clock's time."""
    done = client("POST", "/v1/users/ana/messages", 200, json={"content": content})
    [turn] = client("GET", f"{BASE}/{done['session_id']}", 200)["turns"]
    assert (turn["text"], turn["said"], turn["time_source"]) == (
        "I adopted a dog.",
        "2024-06-01T12:00:00+00:00",
        "clock",
    )


def test_a_message_that_is_sent_again(client: Client) -> None:
    """With its key it is stored once and answered alike; with another message the key is a conflict."""
    key = {"Idempotency-Key": "k1"}
    url = "/v1/users/ana/messages"
    first = client("POST", url, 200, json={"content": "I adopted a dog."}, headers=key)
    again = client("POST", url, 200, json={"content": "I adopted a dog."}, headers=key)
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert again["added"] == first["added"]
    assert len(client("GET", f"{BASE}/{first['session_id']}", 200)["turns"]) == 1
    problem = client("POST", url, 409, json={"content": "I adopted a bird."}, headers=key)
    assert problem["type"] == "urn:memforest:error:IdempotencyError"
    assert "bird" not in str(problem)


def test_a_session_that_is_sent_again_with_its_key(client: Client) -> None:
    """It is not new the second time, though the result of the first is told."""
    key = {"Idempotency-Key": "k1"}
    client("PUT", f"{BASE}/s", 201, json={"turns": TURNS}, headers=key)
    assert client("PUT", f"{BASE}/s", 200, json={"turns": TURNS}, headers=key)["replayed"] is True


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"turns": []}, "/body/turns"),
        ({"turns": [{"role": "robot", "content": "Hi."}]}, "/body/turns/0/role"),
        ({"turns": [{"role": "user", "content": 3}]}, "/body/turns/0/content"),
        ({"turns": TURNS, "infer": "no"}, "/body/infer"),
        ({"turns": TURNS, "reffresh": True}, "/body/reffresh"),
        ({"turns": TURNS, "budget": {"max_calls": -1}}, "/body/budget/max_calls"),
        ({"turns": TURNS, "timestamp": True}, "/body/timestamp"),
        ({}, "/body/turns"),
    ],
)
def test_a_session_that_does_not_fit(client: Client, body: object, where: str) -> None:
    """The problem says where, and nothing is stored: the user stays unknown."""
    problem = client("PUT", f"{BASE}/s", 422, json=body)
    assert any(one["pointer"].startswith(where) for one in problem["errors"]), problem
    client("GET", "/v1/users/ana", 404)


def test_a_turn_that_says_neither_when_nor_who(client: Client) -> None:
    """What the schema cannot say is the core's to refuse, in its words."""
    problem = client("PUT", f"{BASE}/s", 422, json={"turns": [{"role": "user", "content": "Hi there."}]})
    assert problem["type"] == "urn:memforest:error:TimestampError"
    assert "timestamp" in problem["detail"]


def test_sessions_and_turns_come_in_pages(client: Client) -> None:
    """By a cursor, each once, with how many there are."""
    told(client)
    first = client("GET", f"{BASE}?limit=1", 200)
    second = client("GET", f"{BASE}?limit=1&cursor={first['next_cursor']}", 200)
    assert (first["total"], second["next_cursor"]) == (2, None)
    assert [one["sessions"][0]["session_id"] for one in (first, second)] == ["first", "second"]
    page = client("GET", f"{BASE}/first?limit=2", 200)
    rest = client("GET", f"{BASE}/first?limit=2&cursor={page['next_cursor']}", 200)
    assert [one["id"] for one in page["turns"] + rest["turns"]] == ["0", "1", "2"]
    client("GET", f"{BASE}/first?cursor={first['next_cursor']}", 422)
