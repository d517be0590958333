"""The facade of mem0 by the wire: adding, finding, listing, whose memories are meant, and what is not mapped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient
from tests.table import each
from tests_long.facades import KEYS, keyed_app
from tests_long.worlds import CLOCK as NOW

from memforest import Config
from memforest.errors import NotFoundError
from memforest.integrations import records
from memforest.integrations.mem0_routes import INSTEAD
from memforest.integrations.records import seal, unseal
from memforest.memory.forest import AsyncMemForest
from memforest.models import HashEmbedder
from memforest.testing import FrozenClock

MESSAGES = [
    {"role": "user", "content": "I live in Berlin."},
    {"role": "assistant", "content": "Noted, enjoy the city!"},
]


class Client:
    """Calls the facade as mem0's client does, and checks that every error is a problem."""

    def __init__(self, http: TestClient) -> None:
        self.http = http

    def __call__(self, method: str, path: str, json: Any = None, *, key: str = "root", **more: Any) -> Any:
        """Return the answer to a call."""
        headers = {"Authorization": f"Token {key}", **more.pop("headers", {})}
        answer = self.http.request(method, f"/compat/mem0{path}", json=json, headers=headers, **more)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert {"type", "title", "status", "detail"} <= answer.json().keys()
        return answer

    def add(self, user: str | None = "alice", messages: Any = None, **options: Any) -> dict[str, Any]:
        """Add messages, and return what was answered."""
        key = options.pop("key", "root")
        answer = self(
            "POST",
            "/v3/memories/add/",
            {"messages": messages or MESSAGES, "user_id": user, **options},
            key=key,
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def found(self, path: str, body: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
        """Return results."""
        answer = self("POST", path, body, **more)
        assert answer.status_code == 200, answer.text
        results: list[dict[str, Any]] = answer.json()["results"]
        return results

    def all(self, filters: Any, **body: Any) -> list[str]:
        """Return the texts of all memories that pass a filter."""
        return [one["memory"] for one in self.found("/v3/memories/", {"filters": filters, **body})]

    def search(self, query: str, filters: Any, **body: Any) -> list[dict[str, Any]]:
        """Return what a search finds."""
        key = body.pop("key", "root")
        return self.found("/v3/memories/search/", {"query": query, "filters": filters, **body}, key=key)


@pytest.fixture
def mem0(tmp_path: Path) -> Iterator[Client]:
    """A facade over an empty forest."""
    forest = AsyncMemForest(tmp_path, Config(embedder=HashEmbedder(), clock=FrozenClock(NOW)))
    with TestClient(keyed_app(forest)) as http:
        yield Client(http)


def test_ping_wants_a_key(mem0: Client) -> None:
    """It is how the client learns whether its key holds."""
    assert mem0("GET", "/v1/ping/").json()["status"] == "ok"
    refused = mem0("GET", "/v1/ping/", key="guessed")
    assert refused.status_code == 401
    assert mem0.http.get("/compat/mem0/v1/ping/").status_code == 401


def test_what_is_added_is_found(mem0: Client) -> None:
    """With its id, whom it belongs to, when it was said, and its metadata."""
    done = mem0.add(metadata={"n": 1}, agent_id="bot", run_id="r1", timestamp=1714521600)
    assert done["status"] == "SUCCEEDED"
    [new] = done["results"]
    assert new["event"] == "ADD"
    best = mem0.search("Where does alice live?", {"user_id": "alice"})[0]
    assert best["id"] == new["id"]
    assert best["memory"] == new["memory"] == 'alice: "I live in Berlin."'
    assert {name: best[name] for name in ("user_id", "agent_id", "app_id", "run_id", "metadata")} == {
        "user_id": "alice",
        "agent_id": "bot",
        "app_id": None,
        "run_id": "r1",
        "metadata": {"n": 1},
    }
    assert best["created_at"] == "2024-05-01T00:00:00+00:00"
    assert 0 < best["score"] <= 1


def test_the_event_is_that_of_the_session(mem0: Client) -> None:
    """Of one that is there, and of nothing else."""
    event = mem0.add(run_id="r1")["event_id"]
    assert mem0("GET", f"/v1/event/{event}/").json()["status"] == "SUCCEEDED"
    assert mem0("GET", f"/v1/event/{event}/", key="alice").status_code == 200
    for wrong in (seal("e", "alice", "r2"), seal("e", "bob", "r1"), seal("f", "alice", "r1"), "x"):
        assert mem0("GET", f"/v1/event/{wrong}/").status_code == 404


@pytest.mark.parametrize("messages", ["I live in Berlin.", MESSAGES[0], MESSAGES[:1]])
def test_messages_come_in_three_forms(mem0: Client, messages: Any) -> None:
    """A text, one message, and a list."""
    assert [one["memory"] for one in mem0.add(messages=messages)["results"]] == ['alice: "I live in Berlin."']


def test_ids_in_filters_say_whose_it_is(mem0: Client) -> None:
    """As the typed options of the client send them."""
    answer = mem0(
        "POST", "/v3/memories/add/", {"messages": MESSAGES, "filters": {"user_id": "alice", "run_id": "r"}}
    )
    assert answer.status_code == 200
    assert mem0.all({"user_id": "alice", "run_id": "r"})


def test_without_extraction_the_words_are_the_memory(mem0: Client) -> None:
    """Beside what was extracted in the same run, which is another session."""
    mem0.add(run_id="r1")
    [new] = mem0.add(run_id="r1", messages="The dog is called Rex", infer=False)["results"]
    assert new["memory"] == "The dog is called Rex"
    assert set(mem0.all({"user_id": "alice", "run_id": "r1"})) == {
        'alice: "I live in Berlin."',
        "The dog is called Rex",
    }


def test_a_key_of_a_write_adds_once(mem0: Client) -> None:
    """And another write with it is refused."""
    for _ in range(2):
        mem0(
            "POST",
            "/v3/memories/add/",
            {"messages": MESSAGES, "user_id": "alice"},
            headers={"Idempotency-Key": "k1"},
        )
    other = mem0(
        "POST",
        "/v3/memories/add/",
        {"messages": "Else.", "user_id": "alice"},
        headers={"Idempotency-Key": "k1"},
    )
    assert other.status_code == 409
    assert len(mem0.all({"user_id": "alice"})) == 1


def test_reference_date_is_the_day_of_the_question(mem0: Client) -> None:
    """What was done "yesterday" is found by its day."""
    mem0.add(messages="I went to the zoo.", timestamp="2024-03-04T10:00:00Z")
    mem0.add(messages="I went to the sea.", timestamp="2024-05-06T10:00:00Z")
    for day, place in (("2024-03-05", "zoo"), ("2024-05-07", "sea"), (1709632800, "zoo")):
        found = mem0.search("Where did I go yesterday?", {"user_id": "alice"}, reference_date=day)
        assert place in found[0]["memory"]


def test_search_takes_its_options(mem0: Client) -> None:
    """Each of them changes what is found as it says."""
    for place in ("Berlin", "Paris", "Rome"):
        mem0.add(
            messages=f"I saw the river in {place}.",
            run_id=place,
            metadata={"place": place, "big": place == "Paris"},
        )
    wanted = {"user_id": "alice"}
    every = mem0.search("Which river?", wanted, rerank=True, keyword_search=True)
    scores = [one["score"] for one in every]
    assert len(every) == 3
    assert scores == sorted(scores, reverse=True)
    assert len(mem0.search("Which river?", wanted, top_k=2)) == 2
    assert mem0.search("Which river?", wanted, threshold=1.0) == []
    assert mem0.search("Which river?", wanted, fields=["memory"])[0].keys() == {"id", "memory"}
    for given in (
        {"AND": [wanted, {"run_id": "Paris"}]},
        {**wanted, "metadata": {"big": True}},
        {"AND": [wanted, {"NOT": [{"run_id": {"in": ["Rome", "Berlin"]}}]}]},
    ):
        [one] = mem0.search("Which river?", given, top_k=1)
        assert one["run_id"] == "Paris"
    [one] = mem0.search("Which river?", wanted, metadata={"place": "Rome"})
    assert one["run_id"] == "Rome"


def test_a_filter_is_looked_up_beyond_the_best(mem0: Client) -> None:
    """What passes may be far down in the ranking."""
    for number in range(30):
        mem0.add(messages=f"I saw river number {number}.", run_id="many")
    mem0.add(messages="Somebody played chess.", run_id="one")
    [found] = mem0.search("Which river did I see?", {"user_id": "alice", "run_id": "one"}, top_k=1)
    assert "chess" in found["memory"]


def test_words_of_an_assistant_are_found_too(mem0: Client) -> None:
    """They are memories with ids of their own."""
    mem0.add()
    found = mem0.search("enjoy the city", {"user_id": "alice"})
    turn = next(one for one in found if one["actor_id"] == "assistant")
    assert turn["memory"] == "Noted, enjoy the city!"
    assert mem0("GET", f"/v1/memories/{turn['id']}/").json()["memory"] == turn["memory"]


def test_pages_are_whole(mem0: Client) -> None:
    """No memory twice or missing, with and without a filter, of one user and of several."""
    for number in range(7):
        mem0.add(messages=f"I bought lamp {number}.", run_id=f"r{number % 2}")
        mem0.add("bob", messages=f"I sold chair {number}.", run_id="r1")
    for filters, count in (
        ({"user_id": "alice"}, 7),
        ({"user_id": "alice", "run_id": "r0"}, 4),
        ({"user_id": {"in": ["alice", "bob", "nobody"]}}, 14),
        ({"OR": [{"AND": [{"user_id": "alice"}, {"run_id": "r1"}]}, {"user_id": "bob"}]}, 10),
    ):
        seen: list[str] = []
        for page in range(1, 20):
            got = mem0("POST", f"/v3/memories/?page={page}&page_size=3", {"filters": filters}).json()
            assert got["count"] == count
            assert (got["previous"] is None) is (page == 1)
            seen += [one["id"] for one in got["results"]]
            if got["next"] is None:
                break
        assert len(seen) == len(set(seen)) == count


def test_a_filter_looks_through_so_many(mem0: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page by page, and not without end."""
    monkeypatch.setattr(records, "MAX_PAGE", 2)
    for number in range(5):
        mem0.add(messages=f"I bought lamp {number}.", run_id="r")
    wanted = {"user_id": "alice", "run_id": "r"}
    assert len(mem0.all(wanted)) == 5
    monkeypatch.setattr(records, "MOST_SCANNED", 4)
    answer = mem0("POST", "/v3/memories/", {"filters": wanted})
    assert answer.status_code == 422
    assert "more than 4 memories" in answer.json()["detail"]


def test_lists_by_time_and_topic(mem0: Client) -> None:
    """By when it was said, by topic, and by words."""
    mem0.add(messages="I love pizza.", timestamp="2024-01-01")
    mem0.add(messages="I love sushi.", timestamp="2024-02-01")
    user = {"user_id": "alice"}
    assert mem0.all(user, start_date="2024-01-15") == ['alice: "I love sushi."']
    assert mem0.all(user, end_date="2024-01-15") == ['alice: "I love pizza."']
    assert mem0.all({**user, "created_at": {"gte": "2024-01-01", "lt": "2024-02-01"}}) == [
        'alice: "I love pizza."'
    ]
    assert mem0.all(user, categories=["sushi"]) == ['alice: "I love sushi."']
    assert mem0.all({**user, "keywords": {"icontains": "PIZZA"}}) == ['alice: "I love pizza."']


def test_only_the_latest(mem0: Client) -> None:
    """What another value took the place of is left out."""
    mem0.add(messages="I live in Berlin.", timestamp="2024-01-01")
    mem0.add(messages="I live in Paris.", timestamp="2024-02-01")
    assert len(mem0.all({"user_id": "alice"})) == 2
    assert mem0.all({"user_id": "alice"}, latest_only=True) == ['alice: "I live in Paris."']
    found = mem0.search("Where does alice live?", {"user_id": "alice"}, latest_only=True)
    assert [one["memory"] for one in found] == ['alice: "I live in Paris."']


def test_a_fact_said_twice_passes_by_either(mem0: Client) -> None:
    """Its record is that of the turn that passes."""
    mem0.add(messages="I love pizza.", run_id="r1")
    mem0.add(messages="I love pizza.", run_id="r2")
    for run in ("r1", "r2"):
        assert mem0.all({"user_id": "alice", "run_id": run}) == ['alice: "I love pizza."']
        [one] = mem0.search("pizza", {"user_id": "alice", "run_id": run})
        assert one["run_id"] == run


def test_memories_of_other_routes_have_their_session_as_run(mem0: Client, tmp_path: Path) -> None:
    """And their own keys as metadata."""
    from memforest import MemForest

    with MemForest(tmp_path, Config(embedder=HashEmbedder(), clock=FrozenClock(NOW))) as forest:
        turn = {"role": "user", "content": "I love pizza.", "timestamp": "2024-01-01", "mood": "glad"}
        forest.ingest_session("alice", "s9", [turn])
    [one] = mem0.found("/v3/memories/", {"filters": {"user_id": "alice", "metadata": {"mood": "glad"}}})
    assert one["run_id"] == "s9"


def test_a_filter_has_to_name_the_user(mem0: Client) -> None:
    """No request looks through the memories of everybody."""
    mem0.add()
    for filters in (None, {}, {"run_id": "r"}, {"user_id": "*"}, {"OR": [{"user_id": "a"}, {"run_id": "r"}]}):
        for path, body in (("/v3/memories/", {}), ("/v3/memories/search/", {"query": "x"})):
            assert mem0("POST", path, {"filters": filters, **body}).status_code == 422
    many = {"user_id": {"in": [f"u{number}" for number in range(51)]}}
    assert mem0("POST", "/v3/memories/", {"filters": many}).status_code == 422
    assert mem0("POST", "/v3/memories/add/", {"messages": "x", "run_id": "r"}).status_code == 422


def test_nobodys_memory_is_empty(mem0: Client) -> None:
    """It is no error."""
    assert mem0.all({"user_id": "nobody"}) == []
    assert mem0.search("x", {"user_id": "nobody"}) == []


def test_a_bound_key_sees_its_user_alone(mem0: Client) -> None:
    """Another user's memory looks like none at all, byte by byte."""
    bob = mem0.add("bob", messages="I live in Rome.", run_id="r")["results"][0]["id"]
    mine = mem0.add(None, messages="I live in Oslo.", key="alice")["results"][0]["id"]
    assert unseal(mine, KEYS["root"]).user == "alice"
    assert mem0.search("live", None, key="alice")[0]["id"] == mine
    for filters in (
        {"user_id": "bob"},
        {"user_id": {"in": ["bob", "zoe"]}},
        {"AND": [{"user_id": "bob"}, {"run_id": "r"}]},
    ):
        assert mem0.search("live", filters, key="alice") == []
        assert mem0.found("/v3/memories/", {"filters": filters}, key="alice") == []
    both = mem0.search("live", {"user_id": {"in": ["alice", "bob"]}}, key="alice")
    assert {one["user_id"] for one in both} == {"alice"}
    assert (
        mem0("POST", "/v3/memories/add/", {"messages": "x", "user_id": "bob"}, key="alice").status_code == 404
    )
    absent = seal("f", "zoe", "f1:00")
    for method, path, body in (
        ("GET", "/v1/memories/{}/", None),
        ("GET", "/v1/memories/{}/history/", None),
        ("PUT", "/v1/memories/{}/", {"text": "x"}),
        ("DELETE", "/v1/memories/{}/", None),
    ):
        theirs = mem0(method, path.format(bob), body, key="alice")
        nowhere = mem0(method, path.format(absent), body, key="alice")
        nothing = mem0(method, path.format("nonsense"), body, key="alice")
        assert theirs.status_code == 404
        assert theirs.content == nowhere.content == nothing.content
    assert mem0.all({"user_id": "bob"})


@each(
    "token",
    [
        *("", "x", "=", "a" * 20_000, "W10", "é", "bnVsbA", "W1tbW1tb"),
        *("WyJmIiwgImEiLCAiYiJd", "WyJmIiwiXHVkODAwIiwiYiJd"),
        *(seal("f", "a", "b") + "=", seal("f", "a", "b", "c"), seal("t", "a", "b"), seal("f", "", "b")),
    ],
)
def test_what_is_no_id_is_nowhere(token: str) -> None:
    """Also another spelling of one that is: each memory has one id."""
    with pytest.raises(NotFoundError):
        unseal(token, KEYS["root"])


@each("user", ["alice", "a/b", "../x", "é\u202e", "x" * 1024])
def test_ids_carry_any_user(user: str) -> None:
    """In letters that fit into a path as they are."""
    token = seal("t", user, "session/1", "turn")
    assert set(token) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
    assert unseal(token, KEYS["root"]).user == user
    assert unseal(token, KEYS["root"]).parts == ("session/1", "turn")


def test_scopes_hold(mem0: Client) -> None:
    """A key does what it allows."""
    new = mem0.add()["results"][0]["id"]
    add = ("POST", "/v3/memories/add/", {"messages": "x", "user_id": "alice"})
    correct = ("PUT", f"/v1/memories/{new}/", {"text": "Alice lives in Rome."})
    deletes: list[Any] = [
        ("DELETE", f"/v1/memories/{new}/", None),
        ("DELETE", "/v1/memories/?user_id=alice", None),
    ]
    deletes += [("DELETE", "/v2/entities/user/alice/", None)]
    deletes += [("DELETE", "/v1/batch/", {"memories": [{"memory_id": new}]})]
    for method, path, body in (add, correct, *deletes):
        assert mem0(method, path, body, key="reader").status_code == 403
    for method, path, body in deletes:
        assert mem0(method, path, body, key="writer").status_code == 403
    assert mem0("GET", "/v1/entities/", key="writer").status_code == 403
    assert mem0("GET", f"/v1/memories/{new}/", key="reader").status_code == 200


WRONG: tuple[tuple[str, Any], ...] = (
    ("/v3/memories/add/", {"user_id": "alice"}),
    ("/v3/memories/add/", {"messages": [], "user_id": "alice"}),
    ("/v3/memories/add/", {"messages": 7, "user_id": "alice"}),
    ("/v3/memories/add/", {"messages": ["x"], "user_id": "alice"}),
    ("/v3/memories/add/", {"messages": "x", "user_id": "alice", "colour": 1}),
    ("/v3/memories/add/", {"messages": "x", "user_id": ["alice"]}),
    ("/v3/memories/add/", {"messages": "x", "filters": {"user_id": {"in": ["a"]}}}),
    ("/v3/memories/add/", {"messages": "x", "filters": {"OR": []}, "user_id": "alice"}),
    ("/v3/memories/add/", {"messages": "x", "user_id": "alice", "timestamp": "someday"}),
    ("/v3/memories/add/", {"messages": "x", "user_id": "a\u0000b"}),
    ("/v3/memories/add/", {"messages": [{"role": "king", "content": "x"}], "user_id": "alice"}),
    ("/v3/memories/search/", {"filters": {"user_id": "alice"}}),
    ("/v3/memories/search/", {"query": " ", "filters": {"user_id": "alice"}}),
    ("/v3/memories/search/", {"query": "x", "filters": {"user_id": "alice"}, "top_k": 1001}),
    ("/v3/memories/search/", {"query": "x", "filters": {"user_id": "alice"}, "threshold": 2}),
    ("/v3/memories/search/", {"query": "x", "filters": {"user_id": "alice", "colour": "red"}}),
    ("/v3/memories/search/", {"query": "x", "filters": [1]}),
    ("/v3/memories/?page=0", {"filters": {"user_id": "alice"}}),
    ("/v3/memories/?page_size=1001", {"filters": {"user_id": "alice"}}),
    ("/v3/memories/", {"filters": {"user_id": "alice"}, "start_date": "someday"}),
)


def test_wrong_bodies_are_named(mem0: Client) -> None:
    """Each is refused before anything is done."""
    mem0.add()
    for path, body in WRONG:
        answer = mem0("POST", path, body)
        assert answer.status_code == 422, (path, body, answer.text)
        assert answer.json()["type"].rpartition(":")[2] in ("InputError", "TimestampError")
    assert len(mem0.all({"user_id": "alice"})) == 1


def test_no_json_is_named(mem0: Client) -> None:
    """Also what is nested without end."""
    for content in (b"{", b"\xff\xfe", b"[" * 100_000, b'"\\ud800"'):
        answer = mem0(
            "POST", "/v3/memories/search/", content=content, headers={"Content-Type": "application/json"}
        )
        assert 400 <= answer.status_code < 500


def test_mistakes_do_not_quote_what_was_said(mem0: Client) -> None:
    """They name the place."""
    answer = mem0(
        "POST", "/v3/memories/add/", {"messages": {"a": [1]}, "user_id": 7, "timestamp": {"secret": "word"}}
    )
    assert answer.status_code == 422
    assert "secret" not in answer.text


def test_options_that_cannot_be_are_refused(mem0: Client) -> None:
    """And let pass where they ask for nothing."""
    body = {"messages": "I love pizza.", "user_id": "alice"}
    options = ("enable_graph", "custom_categories", "includes", "expiration_date", "immutable")
    for option in options:
        answer = mem0("POST", "/v3/memories/add/", {**body, option: "x"})
        assert answer.status_code == 501
        assert option in answer.json()["detail"]
    assert mem0.all({"user_id": "alice"}) == []
    nothing = {**dict.fromkeys(options), "async_mode": True}
    assert mem0("POST", "/v3/memories/add/", {**body, **nothing}).status_code == 200


def test_what_is_not_mapped_names_what_to_use(mem0: Client) -> None:
    """By every method."""
    for beginning, (what, instead) in INSTEAD.items():
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            answer = mem0(method, f"{beginning}/some/thing/")
            assert answer.status_code == 501
            assert answer.json()["detail"] == f"{what} has no counterpart in memforest. {instead}"


def test_what_nobody_knows_is_not_mapped_either(mem0: Client) -> None:
    """It looks like no missing memory; and who has no key learns nothing."""
    assert mem0("GET", "/v9/else/").status_code == 501
    assert mem0("GET", "/v2/entities/user/alice/profile/").status_code == 501
    assert mem0("GET", "/v9/else/", key="guessed").status_code == 401


def test_the_official_client_reads_the_text_of_errors(mem0: Client) -> None:
    """It looks for it in application/json alone, and names itself by a header."""
    answer = mem0.http.get(
        "/compat/mem0/v1/exports/", headers={"Authorization": "Token root", "Mem0-User-ID": "0"}
    )
    assert answer.status_code == 501
    assert answer.headers["content-type"] == "application/json"
    assert "export" in answer.json()["detail"]


def test_facades_are_no_part_of_the_description(mem0: Client) -> None:
    """They are described by those whose they are."""
    paths = mem0.http.get("/openapi.json").json()["paths"]
    assert not [path for path in paths if path.startswith("/compat")]
