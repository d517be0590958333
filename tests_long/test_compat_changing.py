"""The facade of mem0 by the wire: one memory and its history, corrections, deletions, batches, and users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient
from tests_long.facades import keyed_app
from tests_long.test_compat_mem0 import Client
from tests_long.worlds import CLOCK as NOW

from memforest import Config
from memforest.memory.forest import AsyncMemForest
from memforest.models import HashEmbedder
from memforest.testing import FrozenClock

ALICE = {"user_id": "alice"}


@pytest.fixture
def mem0(tmp_path: Path) -> Iterator[Client]:
    """A facade over an empty forest."""
    forest = AsyncMemForest(tmp_path, Config(embedder=HashEmbedder(), clock=FrozenClock(NOW)))
    with TestClient(keyed_app(forest)) as http:
        yield Client(http)


def new(mem0: Client, text: str, user: str = "alice", **options: Any) -> str:
    """Add a sentence, and return the id of what became of it."""
    [one] = mem0.add(user, messages=text, **options)["results"]
    found: str = one["id"]
    return found


def text_of(mem0: Client, memory_id: str) -> str:
    """Return the text of a memory."""
    found: str = mem0("GET", f"/v1/memories/{memory_id}/").json()["memory"]
    return found


def test_a_correction_keeps_the_id(mem0: Client) -> None:
    """However often it is corrected, by its first id and by those that it is found under."""
    first = new(mem0, "I live in Berlin.")
    for place in ("Rome", "Oslo"):
        done = mem0("PUT", f"/v1/memories/{first}/", {"text": f"Alice lives in {place}."}).json()
        assert (done["id"], done["memory"]) == (first, f"Alice lives in {place}.")
        assert text_of(mem0, first) == f"Alice lives in {place}."
        [found] = mem0.found("/v3/memories/", {"filters": ALICE})
        assert found["memory"] == f"Alice lives in {place}."
        assert text_of(mem0, found["id"]) == found["memory"]
    assert mem0("DELETE", f"/v1/memories/{first}/").status_code == 200
    assert mem0.all(ALICE) == []
    assert mem0("GET", f"/v1/memories/{first}/").status_code == 404


def test_the_history_tells_it(mem0: Client) -> None:
    """What was said first, with its words, then each correction, under one id."""
    first = new(mem0, "I live in Berlin.", metadata={"n": 1})
    mem0("PUT", f"/v1/memories/{first}/", {"text": "Alice lives in Rome."})
    told = mem0("GET", f"/v1/memories/{first}/history/").json()
    assert [(one["event"], one["old_memory"], one["new_memory"]) for one in told] == [
        ("ADD", None, 'alice: "I live in Berlin."'),
        ("UPDATE", 'alice: "I live in Berlin."', "Alice lives in Rome."),
    ]
    assert told[0]["input"][0]["content"] == "I live in Berlin."
    assert {(one["memory_id"], one["user_id"], one["metadata"]["n"]) for one in told} == {(first, "alice", 1)}


def test_what_was_said_has_a_history_and_no_correction(mem0: Client) -> None:
    """A turn that no statement was made of."""
    mem0.add()
    found = mem0.search("enjoy the city", ALICE)
    turn = next(one["id"] for one in found if one["actor_id"] == "assistant")
    [told] = mem0("GET", f"/v1/memories/{turn}/history/").json()
    assert told["event"] == "ADD"
    assert mem0("PUT", f"/v1/memories/{turn}/", {"text": "x"}).status_code == 501
    assert mem0("DELETE", f"/v1/memories/{turn}/").status_code == 200
    assert mem0("GET", f"/v1/memories/{turn}/").status_code == 404
    assert mem0.all(ALICE) == ['alice: "I live in Berlin."']


def test_another_time(mem0: Client) -> None:
    """`timestamp` is from when on it holds: an earlier one does not displace a later value."""
    late = new(mem0, "I live in Berlin.", timestamp="2024-02-01")
    new(mem0, "I live in Paris.", timestamp="2024-03-01")
    mem0("PUT", f"/v1/memories/{late}/", {"timestamp": "2024-04-01T00:00:00Z"})
    assert mem0.all(ALICE, latest_only=True) == ['alice: "I live in Berlin."']


CORRECTIONS: tuple[tuple[Any, int], ...] = (
    ({"metadata": {"n": 2}}, 501),
    ({"expiration_date": "2030-01-01"}, 501),
    ({"expiration_date": None}, 200),
    ({"text": " "}, 422),
    ({"text": "x" * 5000}, 422),
    ({"text": 7}, 422),
    ({"timestamp": "someday"}, 422),
    ({"colour": "red"}, 422),
    ([], 422),
)


def test_corrections_that_cannot_be(mem0: Client) -> None:
    """They change nothing."""
    first = new(mem0, "I live in Berlin.")
    for body, status in CORRECTIONS:
        assert mem0("PUT", f"/v1/memories/{first}/", body).status_code == status, body
    assert text_of(mem0, first) == 'alice: "I live in Berlin."'


def test_a_deletion_takes_the_words(mem0: Client, tmp_path: Path) -> None:
    """No byte of them is left, and what else was said stays."""
    gone = new(mem0, "I live in Berlin.")
    stays = new(mem0, "I love pizza.")
    assert mem0("DELETE", f"/v1/memories/{gone}/?delete_linked=true").status_code == 501
    assert mem0("DELETE", f"/v1/memories/{gone}/").status_code == 200
    assert mem0("DELETE", f"/v1/memories/{gone}/").status_code == 404
    assert mem0.all(ALICE) == ['alice: "I love pizza."']
    assert text_of(mem0, stays) == 'alice: "I love pizza."'
    assert all(b"Berlin" not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


REFUSED = (
    *(
        "",
        "?",
        "?user_id=",
        "?user_id=%20&run_id=",
        "?filters=",
        "?filters={}",
        "?filters=%20{%20}",
        "?org_id=x",
    ),
    *('?filters={"AND": []}', '?filters={"OR": [{}]}', "?user_id=*", "?filters=[]", "?filters=None"),
    *('?filters={"NOT": [{"user_id": "zoe"}]}', '?filters={"user_id": {"ne": "zoe"}}', "?colour=red"),
    *("?filters=" + "[" * 3000, "?filters=" + "x" * 5000, "?filters=__import__('os')", "?page=1"),
)


def test_delete_all_without_a_filter_is_refused(mem0: Client) -> None:
    """Also with empty ones, with those that name nobody, and for a key that sees one user alone."""
    for user in ("alice", "bob"):
        new(mem0, "I love pizza.", user, run_id="r1")
    for query in REFUSED:
        for key in ("root", "alice"):
            assert mem0("DELETE", f"/v1/memories/{query}", key=key).status_code == 422, query
    assert mem0("DELETE", "/v1/memories/?run_id=r1").status_code == 422
    by_topic = '/v1/memories/?user_id=alice&filters={"categories": "pizza"}'
    assert mem0("DELETE", by_topic).status_code == 501
    assert mem0.all(ALICE) == ['alice: "I love pizza."']
    assert mem0("DELETE", "/v1/memories/?run_id=r1", key="alice").status_code == 200
    assert mem0.all(ALICE) == []
    assert mem0.all({"user_id": "bob"}) == ['bob: "I love pizza."']


@pytest.mark.parametrize("name", ["run_id", "agent_id", "app_id"])
def test_delete_all_with_an_id_that_is_empty_deletes_nothing(mem0: Client, name: str) -> None:
    """It is a mistake of who asks: without that id all of the user would go."""
    new(mem0, "I love pizza.", run_id="r1")
    for blank in ("", "%20"):
        assert mem0("DELETE", f"/v1/memories/?user_id=alice&{name}={blank}").status_code == 422
    assert mem0.all(ALICE) == ['alice: "I love pizza."']


def test_delete_all_with_an_id_twice_deletes_nothing(mem0: Client) -> None:
    """Whichever of the two is meant."""
    for user in ("alice", "bob"):
        new(mem0, "I love pizza.", user)
    assert mem0("DELETE", "/v1/memories/?user_id=alice&user_id=bob").status_code == 422
    assert mem0.all(ALICE)
    assert mem0.all({"user_id": "bob"})


def test_delete_all_of_a_user(mem0: Client) -> None:
    """By an id in the address, and by filters as the client writes them into it."""
    for query in ("?user_id=alice", "?filters={'user_id': 'alice'}", '?filters={"user_id": "alice"}'):
        new(mem0, "I love pizza.", "alice")
        mem0.add("bob", messages="I love pizza.")
        assert mem0("DELETE", f"/v1/memories/{query}").status_code == 200
        assert mem0.all(ALICE) == []
        assert mem0.all({"user_id": "bob"}) == ['bob: "I love pizza."']
    assert mem0("DELETE", "/v1/memories/?user_id=nobody").status_code == 200
    assert mem0("DELETE", "/v1/memories/?user_id=bob", key="alice").status_code == 200
    assert mem0.all({"user_id": "bob"})


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?user_id=alice&run_id=r1", ['alice: "I love chess."', 'alice: "I love salad."']),
        ("?user_id=alice&agent_id=bot", ['alice: "I love chess."', 'alice: "I love pizza."']),
        (
            "?filters={'user_id': 'alice', 'metadata': {'n': 2}}",
            ['alice: "I love pizza."', 'alice: "I love salad."'],
        ),
        (
            '?user_id=alice&filters={"created_at": {"lt": "2024-02-01"}}',
            ['alice: "I love chess."', 'alice: "I love salad."'],
        ),
        (
            '?user_id=alice&filters={"NOT": [{"run_id": "r2"}]}',
            ['alice: "I love chess."', 'alice: "I love salad."'],
        ),
        (
            "?user_id=alice&run_id=r9",
            ['alice: "I love chess."', 'alice: "I love pizza."', 'alice: "I love salad."'],
        ),
    ],
)
def test_delete_all_by_more(mem0: Client, query: str, left: list[str]) -> None:
    """What was said and passes goes, a part of a session or all of it."""
    new(mem0, "I love pizza.", run_id="r1", timestamp="2024-01-01")
    new(mem0, "I love salad.", run_id="r2", agent_id="bot", timestamp="2024-02-01")
    new(mem0, "I love chess.", run_id="r2", metadata={"n": 2}, timestamp="2024-03-01")
    assert mem0("DELETE", f"/v1/memories/{query}").status_code == 200
    assert sorted(mem0.all(ALICE)) == left


def test_batches(mem0: Client) -> None:
    """They are done when all of them exist, and else not begun."""
    ids = [new(mem0, f"I love {dish}.") for dish in ("pizza", "salad", "soup")]
    for method in ("PUT", "DELETE"):
        wrong = [{"memory_id": ids[0], "text": "Alice loves tea."}, {"memory_id": "x", "text": "x"}]
        assert mem0(method, "/v1/batch/", {"memories": wrong}).status_code == 404
        assert mem0(method, "/v1/batch/", {"memories": []}).status_code == 422
        assert mem0(method, "/v1/batch/", {"memories": [{"memory_id": ids[0]}] * 1001}).status_code == 422
    assert text_of(mem0, ids[0]) == 'alice: "I love pizza."'
    for body, status in (({"metadata": {"n": 1}}, 501), ({}, 422)):
        given = [{"memory_id": ids[0], "text": "Alice loves tea."}, {"memory_id": ids[1], **body}]
        assert mem0("PUT", "/v1/batch/", {"memories": given}).status_code == status
    assert text_of(mem0, ids[0]) == 'alice: "I love pizza."'
    given = [{"memory_id": one, "text": f"Alice loves tea {place}."} for place, one in enumerate(ids[:2])]
    assert mem0("PUT", "/v1/batch/", {"memories": given}).json()["message"].endswith("2 memories")
    assert [text_of(mem0, one) for one in ids] == [
        "Alice loves tea 0.",
        "Alice loves tea 1.",
        'alice: "I love soup."',
    ]
    twice = [{"memory_id": one} for one in (ids[0], ids[0], ids[2])]
    assert mem0("DELETE", "/v1/batch/", {"memories": twice}).status_code == 200
    assert mem0.all(ALICE) == ["Alice loves tea 1."]


def test_memories_of_one_message_in_a_batch(mem0: Client) -> None:
    """What went with another one is no error."""
    both = mem0.add(messages="I love pizza and I live in Berlin. I moved there last month.")["results"]
    assert len(both) > 1
    ids = [{"memory_id": one["id"]} for one in both]
    assert mem0("DELETE", "/v1/batch/", {"memories": ids}).status_code == 200
    assert mem0.all(ALICE) == []


def test_entities_are_users(mem0: Client) -> None:
    """All of them for a key with the scope admin, one's own for a bound one."""
    names = ["alice", "a/b", "../c", "d e"]
    assert mem0("GET", "/v1/entities/", key="alice").json()["results"] == []
    for name in names:
        new(mem0, "I love pizza.", name)
    listed = mem0("GET", "/v1/entities/").json()
    assert sorted(one["name"] for one in listed["results"]) == sorted(names)
    assert {one["type"] for one in listed["results"]} == {"user"}
    paged = [mem0("GET", f"/v1/entities/?page={page}&page_size=3").json() for page in (1, 2)]
    assert sorted(one["name"] for page in paged for one in page["results"]) == sorted(names)
    assert [page["next"] for page in paged] == [2, None]
    own = mem0("GET", "/v1/entities/", key="alice").json()["results"]
    assert [one["name"] for one in own] == ["alice"]


def test_a_user_is_deleted(mem0: Client) -> None:
    """Whatever the name is; a second time there is none."""
    new(mem0, "I love pizza.", "other")
    for name in ("alice", "a%2Fb", "..%2Fc", "a%2Fprofile", "%C3%A9%20"):
        new(mem0, "I love pizza.", unquote(name))
        assert mem0("DELETE", f"/v2/entities/user/{name}/").status_code == 200
        assert mem0("DELETE", f"/v2/entities/user/{name}/").status_code == 404
        assert [one["name"] for one in mem0("GET", "/v1/entities/").json()["results"]] == ["other"]


def test_other_entities_are_not_deleted(mem0: Client) -> None:
    """An agent or run of all users is not mapped; another's user is not there."""
    new(mem0, "I love pizza.", "bob", run_id="r1", agent_id="bot")
    for kind in ("agent", "app", "run"):
        answer = mem0("DELETE", f"/v2/entities/{kind}/r1/")
        assert answer.status_code == 501
        assert "delete_all" in answer.json()["detail"]
    assert mem0("DELETE", "/v2/entities/planet/r1/").status_code == 422
    theirs = mem0("DELETE", "/v2/entities/user/bob/", key="alice")
    nobody = mem0("DELETE", "/v2/entities/user/zoe/", key="alice")
    assert theirs.status_code == 404
    assert theirs.content == nobody.content
    assert mem0.all({"user_id": "bob"})
