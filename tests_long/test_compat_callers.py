"""The facade of mem0 as callers use it: times in any order, ids by themselves, lists of ids, updates sent again, odd ids."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests_long.test_compat_changing import ALICE, mem0, new, text_of
from tests_long.test_compat_mem0 import Client

from memforest.settings import MAX_BODY_BYTES

__all__ = ["mem0"]

MAY = "2024-05-01T12:00:00Z"
BEFORE = "2024-05-01T09:00:00Z"


@pytest.mark.parametrize(
    "options", [{}, {"run_id": "chat"}, {"infer": False}, {"run_id": "c", "infer": False}]
)
def test_times_come_in_any_order(mem0: Client, options: dict[str, Any]) -> None:
    """What was said earlier can be added later, in a run and without one, as it is when memories are brought along."""
    times = {
        "pizza": "2024-05-07T10:00:00Z",
        "sushi": MAY,
        "bread": BEFORE,
        "pasta": MAY,
        "soup": BEFORE,
        "rice": 1704067200,
    }
    for food, when in times.items():
        done = mem0.add(messages=f"I love {food}.", timestamp=when, **options)
        assert done["status"] == "SUCCEEDED"
        assert [food in one["memory"] for one in done["results"]] == [True]
    found = mem0.found("/v3/memories/", {"filters": ALICE})
    order = [next(food for food in times if food in one["memory"]) for one in found]
    assert (order[0], order[-1]) == ("rice", "pizza")
    assert set(order) == set(times)
    assert {one["created_at"][:10] for one in found} == {"2024-01-01", "2024-05-01", "2024-05-07"}
    assert {one["run_id"] for one in found} == {options.get("run_id")}


def test_an_add_without_a_time_goes_on_behind_one_with_it(mem0: Client) -> None:
    """And the other way round: the session of a day is that of the day on which it was said."""
    mem0.add(messages="I love pizza.")
    mem0.add(messages="I love sushi.", timestamp=MAY)
    mem0.add(messages="I love bread.")
    assert len(mem0.all(ALICE)) == 3


def test_a_write_beside_a_session_that_comes_again_writes_once(mem0: Client) -> None:
    """Its key is looked for where it was written, and another request with the key is refused still."""
    body: dict[str, Any] = {"user_id": "alice", "run_id": "r"}
    late = {**body, "messages": "I love sushi.", "timestamp": BEFORE}
    mem0.add(messages="I love pizza.", run_id="r", timestamp=MAY)
    key = {"Idempotency-Key": "k"}
    for _ in "twice":
        assert mem0("POST", "/v3/memories/add/", late, headers=key).status_code == 200
    assert len(mem0.all(ALICE)) == 2
    other = mem0("POST", "/v3/memories/add/", {**late, "messages": "I love bread."}, headers=key)
    assert (other.status_code, len(mem0.all(ALICE))) == (409, 2)


def test_an_end_that_is_a_day_holds_the_day(mem0: Client) -> None:
    """As its client promises: on or before that date. A time is a time."""
    mem0.add(messages="I love pizza.", timestamp=MAY)
    for end, count in (
        ("2024-05-01", 1),
        ("2024-04-30", 0),
        ("2024-05-01T11:59:59Z", 0),
        ("2024-05-01T12:00:00Z", 1),
        ("9999-12-31", 1),
    ):
        assert len(mem0.all(ALICE, end_date=end)) == count
        assert len(mem0.search("pizza", ALICE, end_date=end)) == count
    wrong = mem0("POST", "/v3/memories/", {"filters": ALICE, "end_date": "soon"})
    assert wrong.status_code == 422


def test_ids_stand_beside_the_filter_too(mem0: Client) -> None:
    """As older callers give them: further conditions, which name the user as well."""
    for run in ("r1", "r2"):
        mem0.add(messages=f"I love dish {run}.", run_id=run)
    mem0.add("bob", messages="I love soup.")
    for given, count in (
        ({"user_id": "alice"}, 2),
        ({"user_id": "alice", "run_id": "r1"}, 1),
        ({"run_id": "r2", "filters": ALICE}, 1),
        ({"user_id": "bob", "filters": ALICE}, 0),
    ):
        assert len(mem0.found("/v3/memories/", given)) == count
        assert len(mem0.found("/v3/memories/search/", {"query": "What do I love?", **given})) == count
    assert mem0("POST", "/v3/memories/", {"run_id": "r1"}).status_code == 422


def test_a_list_of_ids_is_one_of_them(mem0: Client) -> None:
    """With and without an operator: no id is a list, so that nothing would pass."""
    ids = {run: new(mem0, f"I love dish {run}.", run_id=run) for run in ("r1", "r2", "r3")}
    for filters, count in (
        ({**ALICE, "run_id": ["r1", "r2"]}, 2),
        ({**ALICE, "run_id": {"eq": ["r1", "r2"]}}, 2),
        ({**ALICE, "run_id": {"ne": ["r1", "r2"]}}, 1),
        ({"user_id": ["alice", "bob"]}, 3),
        ({**ALICE, "memory_ids": [ids["r1"], ids["r3"]]}, 2),
        ({**ALICE, "agent_id": None}, 3),
        ({**ALICE, "agent_id": ["bot", None]}, 3),
    ):
        assert len(mem0.all(filters)) == count, filters
    deleted = mem0(
        "DELETE", "/v1/memories/", params={"filters": '{"user_id": ["alice"], "run_id": ["r1", "r2"]}'}
    )
    assert (deleted.status_code, len(mem0.all(ALICE))) == (200, 1)


@pytest.mark.parametrize("value", [None, 5, True, {"eq": None}, {"in": [7]}, [None], {"contains": 1}])
def test_what_no_id_can_be_is_refused(mem0: Client, value: object) -> None:
    """It would find nothing and delete nothing, as if there were no memories; a variable that is not set is the usual cause."""
    mem0.add()
    assert mem0("POST", "/v3/memories/", {"filters": {"user_id": value}}).status_code == 422
    if value not in (None, {"eq": None}, [None]):
        wrong = mem0("POST", "/v3/memories/", {"filters": {**ALICE, "run_id": value}})
        assert (wrong.status_code, "run_id takes a text" in wrong.json()["detail"]) == (422, True)
    refused = mem0("DELETE", "/v1/memories/", params={"filters": repr({"user_id": value})})
    assert (refused.status_code, len(mem0.all(ALICE))) == (422, 1)


def test_a_user_of_any_name_can_be_deleted(mem0: Client) -> None:
    """Also one with a line break or slashes in it, of whom the client's path tells the end by a slash."""
    from urllib.parse import quote

    for user in ("a\nb", "a\n", "a/b/", "/", "?#", "ü 日"):
        mem0.add(user)
        answer = mem0("DELETE", f"/v2/entities/user/{quote(user, safe='')}/")
        assert (user, answer.status_code) == (user, 200)
    assert mem0("GET", "/v1/entities/").json()["count"] == 0


def test_an_id_with_a_slash_is_one_that_leads_nowhere(mem0: Client) -> None:
    """By every method of one memory, and of its history."""
    for path in ("/v1/memories/a%2Fb/", "/v1/memories/a%2F..%2Fc/history/"):
        assert mem0("GET", path).status_code == 404
    assert mem0("PUT", "/v1/memories/a%2Fb/", {"text": "x"}).status_code == 404
    assert mem0("DELETE", "/v1/memories/a%2Fb/").status_code == 404


def test_an_update_sent_again_changes_nothing(mem0: Client) -> None:
    """As a client does that has not heard the answer; what is left of it is done."""
    memory = new(mem0, "I live in Berlin.", timestamp=MAY)
    for _ in "twice":
        body = {"text": "Alice lives in Paris.", "timestamp": "2024-06-01"}
        assert mem0("PUT", f"/v1/memories/{memory}/", body).status_code == 200
    assert [one["event"] for one in mem0("GET", f"/v1/memories/{memory}/history/").json()] == [
        "ADD",
        "UPDATE",
    ]
    assert mem0("PUT", f"/v1/memories/{memory}/", {"text": " Alice lives in Paris. "}).status_code == 200
    later = {"text": "Alice lives in Paris.", "timestamp": 1719792000}
    assert mem0("PUT", f"/v1/memories/{memory}/", later).status_code == 200
    assert len(mem0("GET", f"/v1/memories/{memory}/history/").json()) == 3
    assert mem0("PUT", "/v1/batch/", {"memories": [{"memory_id": memory, **later}]}).status_code == 200
    assert text_of(mem0, memory) == "Alice lives in Paris."
    assert mem0("PUT", f"/v1/memories/{memory}/", {"text": ""}).status_code == 422


def test_every_error_reads_as_the_client_reads_it(mem0: Client) -> None:
    """Also one that no route answers: a body that is too large, a page of another origin."""
    own = {"Authorization": "Token root", "Mem0-User-ID": "0"}
    for headers, content, status in (
        (own, b" " * (MAX_BODY_BYTES + 1), 413),
        ({**own, "Origin": "https://evil.example"}, b"{}", 403),
    ):
        answer = mem0.http.post("/compat/mem0/v3/memories/add/", content=content, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
        assert answer.json()["detail"]
