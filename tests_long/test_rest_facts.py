"""REST, facts: pages of them, one with its history, and their correction and deletion."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jsonschema")
sys.path.insert(0, str(Path(__file__).parent.parent))

from urllib.parse import quote

from tests_long.serving import Client, app_of, served, told

BASE = "/v1/users/ana"


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    """A client of an app in which Ana has told something."""
    with served(app_of(folder)) as made:
        told(made)
        yield made


def fact_of(client: Client, word: str) -> str:
    """Return the id of the fact that has a word, as it stands in a path."""
    facts = client("GET", f"{BASE}/facts", 200)["facts"]
    [found] = [one["fact_id"] for one in facts if word in one["text"]]
    return quote(found, safe="")


def test_a_page_of_facts(client: Client) -> None:
    """In time order, by offset; the last page says that there is none behind it."""
    page = client("GET", f"{BASE}/facts?limit=2", 200)
    rest = client("GET", f"{BASE}/facts?limit=2&offset={page['next_offset']}", 200)
    assert (len(page["facts"]), page["total"], rest["next_offset"]) == (2, 3, None)
    texts = [one["text"] for one in page["facts"] + rest["facts"]]
    assert texts == ["I live in Davis.", "My cat is called Miso.", "I moved to Miami."]


def test_pages_by_cursor(client: Client) -> None:
    """No fact twice or missing when one is added in between; cursor and offset exclude each other."""
    first = client("GET", f"{BASE}/facts?limit=1", 200)
    early = {"role": "user", "content": "I play chess.", "timestamp": "2024-01-01"}
    client("PUT", f"{BASE}/sessions/early", 201, json={"turns": [early]})
    rest = client("GET", f"{BASE}/facts?limit=9&cursor={first['next_cursor']}", 200)
    texts = [one["text"] for one in first["facts"] + rest["facts"]]
    assert texts == ["I live in Davis.", "My cat is called Miso.", "I moved to Miami."]
    client("GET", f"{BASE}/facts?offset=1&cursor={first['next_cursor']}", 422)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("entity=Miso", ["Miso"]),
        ("session_id=second", ["Miami"]),
        ("said_by=2024-05-02", ["Davis", "Miso"]),
        ("known_at=2020-01-01", []),
        ("during=2024-05-21&during=2024-05-25", ["Miso", "Miami"]),
        ("verdict=pinned", []),
        ("as_of=2024-05-02T00:00:00Z", ["Davis", "Miso"]),
        ("filters=%7B%22mood%22%3A%22glad%22%7D", []),
    ],
)
def test_facts_are_filtered(client: Client, query: str, words: list[str]) -> None:
    """By every option of `list`, under its name."""
    found = [one["text"] for one in client("GET", f"{BASE}/facts?{query}", 200)["facts"]]
    assert [word for word in ("Davis", "Miso", "Miami") if any(word in one for one in found)] == words


def test_facts_by_metadata(client: Client) -> None:
    """Of a turn that supports them, given as JSON."""
    turn = {"role": "user", "content": "I play chess.", "timestamp": "2024-05-21", "mood": {"is": "glad"}}
    client("PUT", f"{BASE}/sessions/third", 201, json={"turns": [turn]})
    query = quote('{"mood": {"is": "glad"}}')
    assert [one["text"] for one in client("GET", f"{BASE}/facts?filters={query}", 200)["facts"]] == [
        "I play chess."
    ]


@pytest.mark.parametrize("query", ["entity=Zoe", "session_id=third"])
def test_filters_by_what_there_is_not(client: Client, query: str) -> None:
    """An entity or session that is not there is a 404, not an empty page."""
    client("GET", f"{BASE}/facts?{query}", 404)


def test_one_fact(client: Client) -> None:
    """With the turns that say so."""
    fact = client("GET", f"{BASE}/facts/{fact_of(client, 'Miso')}", 200)
    assert fact["sources"] == [{"session_id": "first", "turn_ids": ["2"]}]
    client("GET", f"{BASE}/facts/none", 404)


def test_a_fact_is_corrected_and_the_correction_undone(client: Client) -> None:
    """The new one holds, the history tells of both, and undoing brings the old one back."""
    old = fact_of(client, "Miso")
    done = client("PATCH", f"{BASE}/facts/{old}", 200, json={"text": "Ana's cat is called Mochi."})
    assert (done["kind"], done["text"]) == ("update", "Ana's cat is called Mochi.")
    texts = [one["text"] for one in client("GET", f"{BASE}/facts", 200)["facts"]]
    assert "Ana's cat is called Mochi." in texts
    assert "My cat is called Miso." not in texts
    kinds = [one["kind"] for one in client("GET", f"{BASE}/facts/{old}/history", 200)]
    assert kinds == ["said", "corrected"]
    problem = client("PATCH", f"{BASE}/facts/{old}", 409, json={"text": "Ana's cat is called Mia."})
    assert problem["type"] == "urn:memforest:error:CorrectionError"
    undone = client("POST", f"{BASE}/corrections/{quote(done['key'], safe='')}/undo", 200)
    assert undone["undone"] == "2024-06-01T12:00:00+00:00"
    assert fact_of(client, "Miso") == old
    client("POST", f"{BASE}/corrections/{quote(done['key'], safe='')}/undo", 409)
    client("POST", f"{BASE}/corrections/none/undo", 404)


@pytest.mark.parametrize(
    "body", [{}, {"text": ""}, {"text": " "}, {"text": "x" * 4001}, {"valid_to": "soon"}]
)
def test_an_update_that_is_none(client: Client, body: object) -> None:
    """Nothing is changed by it."""
    client("PATCH", f"{BASE}/facts/{fact_of(client, 'Miso')}", 422, json=body)


def test_a_fact_is_pinned(client: Client) -> None:
    """It is listed so, once."""
    fact = fact_of(client, "Miso")
    assert client("POST", f"{BASE}/facts/{fact}/pin", 200)["kind"] == "pin"
    assert client("GET", f"{BASE}/facts?verdict=pinned", 200)["total"] == 1
    client("POST", f"{BASE}/facts/{fact}/pin", 409)


def test_a_fact_is_forgotten(client: Client) -> None:
    """It is not shown any more; what was said stays."""
    fact = fact_of(client, "Miso")
    assert client("POST", f"{BASE}/facts/{fact}/forget", 200)["kind"] == "forget"
    assert client("GET", f"{BASE}/facts", 200)["total"] == 2
    assert len(client("GET", f"{BASE}/sessions/first", 200)["turns"]) == 3
    client("POST", f"{BASE}/facts/{fact}/forget", 409)


def test_a_fact_is_deleted(client: Client) -> None:
    """With the sentence that it was made from; the receipt counts what a dry run has counted."""
    fact = fact_of(client, "Miso")
    dry = client("DELETE", f"{BASE}/facts/{fact}?dry_run=true", 200)
    done = client("DELETE", f"{BASE}/facts/{fact}", 200)
    assert dry["gone"] == done["gone"]
    assert "Miso" not in str(client("GET", f"{BASE}/sessions/first", 200)["turns"])
    client("DELETE", f"{BASE}/facts/{fact}", 404)


@pytest.mark.parametrize(
    ("target", "left"),
    [
        ({"entity": "Miso"}, 3),
        ({"session_id": "first"}, 1),
        ({"turn": ["first", "0"]}, 3),
        ({"during": [None, "2024-05-02"]}, 1),
        ({"during": ["2024-05-19", "2024-05-21"], "dry_run": True}, 4),
    ],
    ids=str,
)
def test_one_thing_is_deleted(client: Client, target: dict[str, object], left: int) -> None:
    """Whichever the verb can; of an entity the sentences that name it."""
    client("POST", f"{BASE}/delete", 200, json=target)
    assert client("GET", f"{BASE}/stats", 200)["turns"] == left


@pytest.mark.parametrize(
    "target",
    [{}, {"entity": "Miso", "session_id": "first"}, {"turn": ["first"]}, {"during": ["2024-05-01", None]}],
    ids=str,
)
def test_nothing_or_two_things_are_not_deleted(client: Client, target: object) -> None:
    """Exactly one is to be named."""
    client("POST", f"{BASE}/delete", 422, json=target)
    assert client("GET", f"{BASE}/stats", 200)["turns"] == 4
