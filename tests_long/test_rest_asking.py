"""REST, questions: evidence, answers and context, with every option by its name."""

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
WHERE = "Where does Ana live?"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of an app in which Ana has told something."""
    with served(app_of(tmp_path_factory.mktemp("forest"))) as made:
        told(made)
        yield made


def said(found: dict[str, list[dict[str, str]]]) -> list[str]:
    """Return what is quoted."""
    return [one.get("quote", one["text"]) for one in found["evidence"]]


def test_a_question_finds_what_was_said(client: Client) -> None:
    """With sources, and times with an offset."""
    found = client("POST", f"{BASE}/search", 200, json={"question": WHERE})
    assert {"I live in Davis.", "I moved to Miami."} <= set(said(found))
    best = found["evidence"][0]
    assert best["sources"][0]["session_id"] in ("first", "second")
    assert best["said"].endswith("+00:00")
    assert found["reference_date"] == "2024-06-01T12:00:00+00:00"


def test_the_same_question_is_answered_alike(client: Client) -> None:
    """But for what it has cost."""
    one, two = (client("POST", f"{BASE}/search", 200, json={"question": WHERE}) for _ in range(2))
    assert one["evidence"] == two["evidence"]


def test_time_options(client: Client) -> None:
    """What was said later is not there; the same time as text and as number."""
    early = {"question": WHERE, "said_by": "2024-05-10T00:00:00Z"}
    assert "I moved to Miami." not in said(client("POST", f"{BASE}/search", 200, json=early))
    same = {"question": WHERE, "said_by": 1715299200}
    assert said(client("POST", f"{BASE}/search", 200, json=same)) == said(
        client("POST", f"{BASE}/search", 200, json=early)
    )
    before = {"question": WHERE, "known_at": "2020-01-01"}
    assert said(client("POST", f"{BASE}/search", 200, json=before)) == []
    during = {"question": WHERE, "during": ["2024-05-19", "2024-05-21T00:00:00+02:00"]}
    assert "I moved to Miami." in said(client("POST", f"{BASE}/search", 200, json=during))


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 1},
        {"top_k": 1.0},
        {"top_k": 1, "index": "memforest"},
        {"top_k": 1, "ranking": {"rerank": 1, "recall": {"gate": "off"}}},
        {"top_k": 1, "mode": "emb"},
        {"top_k": 1, "budget": {"max_calls": 0, "max_tokens": None}},
        {"top_k": 1, "reference_date": "2024-06-01"},
        {"top_k": 1, "as_of": "1 June 2024"},
        {"top_k": 1, "max_tokens": 500},
    ],
    ids=str,
)
def test_options_have_the_names_of_the_verb(client: Client, options: dict[str, object]) -> None:
    """Each is taken, and one piece of evidence comes."""
    found = client("POST", f"{BASE}/search", 200, json={"question": WHERE, **options})
    assert len(found["evidence"]) == 1


def test_why_something_was_found(client: Client) -> None:
    """With `explain` the answer is whole: the plan, the trace, and the parts of each score."""
    plain = client("POST", f"{BASE}/search", 200, json={"question": WHERE})
    told = client("POST", f"{BASE}/search", 200, json={"question": WHERE, "explain": True})
    assert not {"trace", "plan"} & plain.keys()
    assert told["trace"]["explain"]
    assert told["plan"]["kind"]
    assert not any("scores" in one or None in one.values() for one in plain["evidence"])
    assert all(one["scores"] and one["quote"] for one in told["evidence"])
    asked = client("POST", f"{BASE}/ask", 200, json={"question": WHERE, "explain": True})
    assert asked["result"]["trace"]


def test_an_answer_has_each_piece_once(client: Client) -> None:
    """Ten pieces of some two hundred characters take at most 8 kB; a text is there once."""
    turns = [
        {
            "role": "user",
            "content": f"On day {n} I repaired the kitchen table, {n} screws. " + 12 * "It wobbled. ",
        }
        for n in range(12)
    ]
    client("PUT", "/v1/users/carla/sessions/table", 201, json={"turns": turns, "timestamp": "2024-05-01"})
    response = client.raw(
        "POST", "/v1/users/carla/search", json={"question": "When was the table repaired?", "top_k": 10}
    )
    found = response.json()["evidence"]
    assert (len(found), len(response.content) <= 8_000) == (10, True), len(response.content)
    for one in found:
        assert response.text.count(one["text"][:30]) <= 2, (
            "the piece, and the whole turn where that is longer"
        )


def test_an_answer_has_its_citations(client: Client) -> None:
    """And says of itself when there is none."""
    done = client("POST", f"{BASE}/ask", 200, json={"question": "What is my cat called?"})
    if done["answer"] is not None:
        assert done["citations"]
    none = client("POST", f"{BASE}/ask", 200, json={"question": "Who painted the ceiling of the chapel?"})
    assert (none["answer"], none["citations"]) == (None, [])
    assert none["reason"]


def test_context_fits(client: Client) -> None:
    """Numbered lines of quotations, as many as fit; more of them with more tokens."""
    body = {"question": WHERE}
    whole = client("POST", f"{BASE}/context", 200, json=body)["context"]
    assert '"I live in Davis."' in whole
    assert whole.startswith("[1] ")
    little = client("POST", f"{BASE}/context", 200, json={**body, "max_tokens": 20})["context"]
    assert 0 < len(little) < len(whole)
    assert client("POST", f"{BASE}/context", 200, json={**body, "statements": True})["context"] != whole


def test_a_mode_that_needs_a_model(client: Client) -> None:
    """Without one it is a setting that cannot be, and the answer says which."""
    problem = client("POST", f"{BASE}/search", 422, json={"question": WHERE, "mode": "llm"})
    assert problem["type"] == "urn:memforest:error:ConfigError"


def test_nobody_is_asked(client: Client) -> None:
    """A user without a memory has an empty answer, and no memory afterwards."""
    assert client("POST", "/v1/users/bob/search", 200, json={"question": WHERE})["evidence"] == []
    assert client("POST", "/v1/users/bob/ask", 200, json={"question": WHERE})["answer"] is None
    assert client("POST", "/v1/users/bob/context", 200, json={"question": WHERE})["context"] == ""
    client("GET", "/v1/users/bob", 404)
