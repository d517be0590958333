"""REST, the state of a memory: trees, counts, checks, indexes, and what is made anew."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jsonschema")
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.serving import Client, app_of, served, told

BASE = "/v1/users/ana"


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    """A client of an app in which Ana has told something."""
    with served(app_of(folder)) as made:
        told(made)
        yield made


def test_trees(client: Client) -> None:
    """All of them, or those of one scope, as deep as asked."""
    trees = client("GET", f"{BASE}/trees", 200)
    assert len(trees) >= 3
    [one] = client("GET", f"{BASE}/trees?scope=first&depth=2", 200)
    assert "first" in one["title"]
    assert one["children"]
    [root] = client("GET", f"{BASE}/trees?scope=first&depth=0", 200)
    assert root["children"] == []
    assert client("GET", f"{BASE}/trees?limit=1&index=memforest", 200)
    client("GET", f"{BASE}/trees?scope=Zoe", 404)
    client("GET", f"{BASE}/trees?depth=-1", 422)
    assert client("GET", f"{BASE}/trees?depth=1000000", 200)  # as deep as there is something
    [child] = client("GET", f"{BASE}/trees?node={one['children'][0]['node_id']}&depth=0", 200)
    assert child["node_id"] == one["children"][0]["node_id"]
    client("GET", f"{BASE}/trees?node=0", 422)
    client("GET", f"{BASE}/trees?node=1&scope=first", 422)
    client("GET", f"{BASE}/trees?node=999999", 404)
    client("GET", f"{BASE}/trees?index=segtree", 404)


def test_stats(client: Client) -> None:
    """Counts, and no path of the server."""
    found = client("GET", f"{BASE}/stats", 200)
    assert (found["user_id"], found["sessions"], found["turns"]) == ("ana", 2, 4)
    assert found["bytes"] > 0
    assert ".db" not in str(found)


def test_a_sound_memory(client: Client) -> None:
    """`verify` finds nothing, and texts that must be gone where they still are."""
    found = client("POST", f"{BASE}/verify", 200)
    assert (found["ok"], found["problems"]) == (True, [])
    left = client("POST", f"{BASE}/verify", 200, json={"deleted": ["Miso"]})
    assert left["ok"] is False
    assert {one["part"] for one in left["problems"]} == {"residue"}
    client("POST", f"{BASE}/verify", 422, json={"deleted": [""]})
    done = client("POST", f"{BASE}/repair", 200)
    assert (done["ok"], done["left"]) == (True, [])


def test_what_is_left_is_finished(client: Client) -> None:
    """`flush` and `resume` take a budget, and say what they did."""
    assert client("POST", f"{BASE}/flush", 200, json={"budget": {"max_calls": 5}})["nodes_dirty"] == 0
    assert client("POST", f"{BASE}/resume", 200) == []


def test_what_is_derived_is_made_anew(client: Client) -> None:
    """It costs something, and nothing is stale then."""
    assert client("GET", f"{BASE}/stale", 200)["sessions"] == 0
    assert "ms" in client("POST", f"{BASE}/rebuild", 200, json={})
    assert "ms" in client("POST", f"{BASE}/rebuild", 200)
    client("POST", f"{BASE}/rebuild", 422, json={"index": "memforest", "stale": True})
    client("POST", f"{BASE}/rebuild", 404, json={"index": "flat"})
    client("POST", f"{BASE}/rebuild", 422, json={"progress": True})


def test_indexes(client: Client) -> None:
    """One is added once, and dropped; the last stays."""
    assert [one["name"] for one in client("GET", f"{BASE}/indexes", 200)] == ["memforest"]
    assert client("PUT", f"{BASE}/indexes/flat", 200)["name"] == "flat"
    client("PUT", f"{BASE}/indexes/flat", 409, json={})
    client("PUT", f"{BASE}/indexes/none", 404)
    client("PUT", f"{BASE}/indexes/segtree", 422, json={"settings": {"nonsense": 1}})
    assert client("DELETE", f"{BASE}/indexes/flat", 204) is None
    client("DELETE", f"{BASE}/indexes/flat", 404)
    client("DELETE", f"{BASE}/indexes/memforest", 422)


def test_indexes_go_on(client: Client) -> None:
    """By the clock, or to a time."""
    for body in (None, {}, {"as_of": "2024-07-01T00:00:00Z", "force": True, "budget": {"max_calls": 0}}):
        more = {} if body is None else {"json": body}
        assert [one["name"] for one in client("POST", f"{BASE}/advance", 200, **more)] == ["memforest"]
    client("POST", f"{BASE}/advance", 422, json={"as_of": "sometime"})


def test_old_turns_expire(folder: Path) -> None:
    """Those that are older than the configured retention; a dry run counts them."""
    with served(app_of(folder)) as client:
        told(client)
    with served(app_of(folder, retention="30 days")) as client:
        dry = client("POST", f"{BASE}/expire", 200, json={"dry_run": True})
        assert (dry["dry_run"], dry["gone"]["turns"]) == (True, 3)
        assert client("POST", f"{BASE}/expire", 200)["gone"]["turns"] == 3
        assert client("GET", f"{BASE}/stats", 200)["turns"] == 1


def test_what_is_too_old_does_not_stay(folder: Path) -> None:
    """A session that expires as it is stored is none that is there."""
    with served(app_of(folder, retention="1 day")) as client:
        turns = [{"role": "user", "content": "I live in Davis.", "timestamp": "2024-05-01"}]
        done = client("PUT", f"{BASE}/sessions/s", 200, json={"turns": turns})
        assert done["warnings"]


def test_nothing_expires_that_is_not_set(folder: Path) -> None:
    """Without a retention it is a setting that is wrong."""
    with served(app_of(folder)) as client:
        told(client)
        problem = client("POST", f"{BASE}/expire", 422)
    assert problem["type"] == "urn:memforest:error:ConfigError"
