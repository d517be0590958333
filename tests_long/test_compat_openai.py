"""The facade of OpenAI's vector stores: the unmodified SDK, the shape of what it reads, filters, and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

import openai
from fastapi.testclient import TestClient
from tests_long.facades import keyed_app, served
from tests_long.worlds import CLOCK as NOW

from memforest import Config, MemForest
from memforest.memory.forest import AsyncMemForest
from memforest.models import HashEmbedder
from memforest.testing import FrozenClock

CONFIG = Config(embedder=HashEmbedder(), clock=FrozenClock(NOW))
TURNS = [
    {"role": "user", "content": "I live in Berlin.", "timestamp": "2024-01-01", "n": 1, "mood": "x" * 600},
    {"role": "user", "content": "I love pizza.", "timestamp": "2024-02-01", "n": 2, "listed": [1]},
    {"role": "user", "content": "I have a red bicycle.", "timestamp": "2024-03-01", "n": 3},
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two memories."""
    found = tmp_path_factory.mktemp("openai")
    with MemForest(found, CONFIG) as forest:
        for user in ("alice", "a/b"):
            forest.ingest_session(user, "s1", TURNS)
    return found


@pytest.fixture
def http(directory: Path) -> Iterator[TestClient]:
    """An app over them, called in the process."""
    with TestClient(keyed_app(AsyncMemForest(directory, CONFIG))) as client:
        yield client


@pytest.fixture(scope="module")
def base(directory: Path) -> Iterator[str]:
    """The address of a served facade."""
    with served(keyed_app(AsyncMemForest(directory, CONFIG))) as address:
        yield f"{address}/compat/openai/v1"


def post(http: TestClient, body: Any, *, user: str = "alice", key: str = "root") -> Any:
    """Return the answer to a search."""
    headers = {"Authorization": f"Bearer {key}"}
    return http.post(f"/compat/openai/v1/vector_stores/{user}/search", json=body, headers=headers)


def texts(answer: Any) -> list[str]:
    """Return the texts that were found."""
    assert answer.status_code == 200, answer.text
    return [part["text"] for one in answer.json()["data"] for part in one["content"]]


def test_the_sdk_searches(base: str) -> None:
    """By a text and by several, with all of its options, and for users whose id is no word."""
    with openai.OpenAI(api_key="root", base_url=base, max_retries=0) as client:
        for user in ("alice", "a/b"):
            page = client.vector_stores.search(user, query="Where do I live?")
            best = page.data[0]
            assert best.content[0].text.endswith('"I live in Berlin."')
            assert best.filename == "s1"
            assert best.attributes is not None
            assert best.attributes["n"] == 1
            assert list(page) == page.data
        found = client.vector_stores.search(
            "alice",
            query=["Where do I live?", "What do I love?"],
            filters={
                "type": "and",
                "filters": [
                    {"type": "lte", "key": "n", "value": 2},
                    {"type": "eq", "key": "kind", "value": "fact"},
                ],
            },
            max_num_results=2,
            ranking_options={"ranker": "auto", "score_threshold": 0.01},
            rewrite_query=True,
        )
        assert {one.content[0].text for one in found} == {
            'alice: "I live in Berlin."',
            'alice: "I love pizza."',
        }


def test_the_asynchronous_sdk_searches(base: str) -> None:
    """As the other does."""

    async def search() -> list[str]:
        async with openai.AsyncOpenAI(api_key="root", base_url=base, max_retries=0) as client:
            found = client.vector_stores.search("alice", query="Where do I live?")
            return [one.content[0].text async for one in found]

    assert asyncio.run(search())[0] == 'alice: "I live in Berlin."'


def test_the_sdk_reads_errors(base: str) -> None:
    """Each as its own class with our sentence; what is not mapped is not there."""
    client = openai.OpenAI(api_key="root", base_url=base, max_retries=5)
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.list()
    with pytest.raises(openai.UnprocessableEntityError, match="max_num_results") as wrong:
        client.vector_stores.search("alice", query="x", max_num_results=51)
    assert wrong.value.type == "invalid_request_error"
    assert wrong.value.code == "InputError"
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(api_key="x", base_url=base).vector_stores.search("alice", query="x")
    client.close()


def test_the_shape(http: TestClient) -> None:
    """Every field that the SDK's types have; attributes within OpenAI's bounds."""
    found = post(http, {"query": "Where do I live?"}).json()
    assert found.keys() == {"object", "search_query", "data", "has_more", "next_page"}
    assert found["object"] == "vector_store.search_results.page"
    assert found["search_query"] == ["Where do I live?"]
    scores = [one["score"] for one in found["data"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)
    best = found["data"][0]
    assert best["attributes"]["said"] == 1704067200.0
    for one in found["data"]:
        assert one.keys() == {"file_id", "filename", "score", "attributes", "content"}
        assert len(one["attributes"]) <= 16
        assert all(
            isinstance(value, (str, float, int)) and len(str(value)) <= 512
            for value in one["attributes"].values()
        )


def test_ids_are_those_of_memories(http: TestClient) -> None:
    """What is found here can be looked at and deleted there."""
    file_id = post(http, {"query": "Where do I live?"}).json()["data"][0]["file_id"]
    headers = {"Authorization": "Token root"}
    found = http.get(f"/compat/mem0/v1/memories/{file_id}/", headers=headers).json()
    assert found["memory"] == 'alice: "I live in Berlin."'


def test_options_change_what_is_found(http: TestClient) -> None:
    """How many, how good, and which."""
    assert len(texts(post(http, {"query": "What about me?"}))) == 3
    assert len(texts(post(http, {"query": "What about me?", "max_num_results": 1}))) == 1
    assert texts(post(http, {"query": "x", "ranking_options": {"score_threshold": 1}})) == []
    only = {"type": "in", "key": "n", "value": [3]}
    assert texts(post(http, {"query": "Where do I live?", "filters": only})) == [
        'alice: "I have a red bicycle."'
    ]
    said = {"type": "gte", "key": "said", "value": 1706745600}
    assert len(texts(post(http, {"query": "What about me?", "filters": said}))) == 2


def test_each_result_once(http: TestClient) -> None:
    """However many of the queries find it."""
    found = texts(post(http, {"query": ["Where do I live?", "Where do I live now?", "home"]}))
    assert len(found) == len(set(found)) == 3


def test_wrong_requests(http: TestClient) -> None:
    """Each is a problem that also has OpenAI's error, and quotes nothing."""
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"query": ""},
        {"query": []},
        {"query": [""]},
        {"query": ["a"] * 17},
        {"query": {"a": 1}},
        {"query": "x", "max_num_results": 0},
        {"query": "x", "ranking_options": {"ranker": "best"}},
        {"query": "x", "ranking_options": {"score_threshold": 2}},
        {"query": "x", "filters": {"type": "like", "key": "a", "value": "secret"}},
        {"query": "x", "filters": "secret"},
        {"query": "x", "colour": "secret"},
    )
    for body in wrong:
        answer = post(http, body)
        assert answer.status_code == 422, body
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["error"]["message"] == problem["detail"] != ""
        assert "secret" not in problem["detail"].replace("colour", "")


def test_whose_store(http: TestClient) -> None:
    """Another user's looks like none, and a key is needed."""
    theirs = post(http, {"query": "x"}, user="a%2Fb", key="alice")
    nobody = post(http, {"query": "x"}, user="z%2Fb", key="alice")
    assert theirs.status_code == nobody.status_code == 404
    assert theirs.text.replace("a/b", "z/b") == nobody.text
    assert texts(post(http, {"query": "x"}, key="alice"))
    assert texts(post(http, {"query": "x"}, key="reader"))
    assert post(http, {"query": "x"}, key="guessed").status_code == 401
