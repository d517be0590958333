"""mem0's `Memory` in process: calls of 2.2 and of older versions, their results, times, settings, and bad input; mem0 is not needed."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memforest import Config, MemForest
from memforest.config import load_default_config
from memforest.endpoint import ChatEndpoint, EmbeddingEndpoint
from memforest.errors import ConfigError, InputError, NotFoundError
from memforest.integrations.mem0 import AsyncMemory, Memory
from memforest.testing import FrozenClock, HashEmbedder

ALICE = {"user_id": "alice"}


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that a test moves."""
    return FrozenClock("2024-05-01T12:00:00+00:00")


@pytest.fixture
def forest(tmp_path: Path, clock: FrozenClock) -> Iterator[MemForest]:
    """An empty forest."""
    with MemForest(tmp_path / "forest", Config(embedder=HashEmbedder(), clock=clock)) as made:
        yield made


@pytest.fixture
def memory(forest: MemForest) -> Memory:
    """mem0's memory over it."""
    return Memory(forest=forest)


def texts(answer: dict[str, Any]) -> list[str]:
    """Return the texts of results."""
    return [one["memory"] for one in answer["results"]]


def test_what_is_added_is_found_with_the_fields_of_mem0(memory: Memory) -> None:
    """Instructions are nobody's words; the ids, metadata and times that were given come back."""
    said = [
        {"role": "system", "content": "You live in Rome."},
        {"role": "user", "content": "I live in Porto."},
        {"role": "assistant", "content": "Noted."},
    ]
    [new] = memory.add(said, user_id=" alice ", agent_id="bot", run_id="r1", metadata={"n": 1})["results"]
    assert (new["memory"], new["event"]) == ('alice: "I live in Porto."', "ADD")
    found = memory.search("Where does alice live?", filters=ALICE)["results"]
    digest, score = found[0].pop("hash"), found[0].pop("score")
    assert found[0] == {
        **{"id": new["id"], "memory": new["memory"], "user_id": "alice", "agent_id": "bot", "run_id": "r1"},
        **{"actor_id": "alice", "role": "user", "metadata": {"n": 1}, "valid_to": None},
        **dict.fromkeys(("created_at", "updated_at", "valid_from"), "2024-05-01T12:00:00+00:00"),
    }
    assert len(digest) == 32
    assert 0.1 <= score <= 1
    assert "Rome" not in str(memory.get_all(filters=ALICE)) + str(found)
    assert "score" not in memory.get_all(filters=ALICE)["results"][0]
    got = memory.get(new["id"])
    assert got is not None
    assert (got["memory"], got["score"]) == (new["memory"], None)


def test_times_work(memory: Memory, clock: FrozenClock) -> None:
    """`timestamp` is when it was said, in any order; `reference_date` is what "yesterday" counts from; `as_of` what was so then."""
    memory.add("I moved to Lisbon.", user_id="alice", run_id="r1")
    memory.add("I live in Porto.", user_id="alice", run_id="r1", timestamp="2023-01-09T09:00:00Z")
    memory.add("I had lunch with Zoe.", user_id="alice", timestamp=1709459999)  # 3 March 2024
    memory.add("I had lunch with Ben.", user_id="alice", timestamp="2024-04-30")
    now = memory.search("Where does alice live?", filters=ALICE, top_k=1)["results"][0]
    then = memory.search("Where does alice live?", filters=ALICE, top_k=1, as_of="2023-02-01")["results"][0]
    assert "Lisbon" in now["memory"]
    assert "Porto" in then["memory"]
    assert (now["valid_from"], now["valid_to"]) == ("2024-05-01T12:00:00+00:00", None)
    assert (then["valid_from"], then["valid_to"]) == ("2023-01-09T09:00:00+00:00", now["valid_from"])
    lunch = "With whom did alice have lunch yesterday?"
    assert "Ben" in texts(memory.search(lunch, filters=ALICE))[0]
    assert "Zoe" in texts(memory.search(lunch, filters=ALICE, reference_date="2024-03-04"))[0]


def test_calls_of_older_versions(memory: Memory) -> None:
    """Ids beside the query, `limit`, `data`, and numbers as ids."""
    new = memory.add("I live in Porto.", user_id=7)["results"][0]  # type: ignore[arg-type]  # as programs do
    memory.add("I have a cat called Miso.", user_id="7", agent_id="bot")
    assert len(memory.get_all(user_id=7)["results"]) == 2
    assert len(memory.get_all(filters={"user_id": 7}, limit=1)["results"]) == 1
    [found] = texts(memory.search("cat", user_id="7", agent_id="bot", limit=5))
    assert "Miso" in found
    assert memory.update(new["id"], data="7 lives in Faro.") == {"message": "Memory updated successfully!"}
    assert "7 lives in Faro." in texts(memory.get_all(user_id="7"))


def test_filters_are_those_of_the_open_source(memory: Memory) -> None:
    """Any other key is one of metadata; operators and groups hold for both; `role` and `actor_id` are fields."""
    for number, place in enumerate(["Porto", "Faro", "Braga"]):
        memory.add(f"I visited {place}.", user_id="alice", metadata={"n": number, "kind": place[0]})
    asked: list[tuple[dict[str, Any], str]] = [
        ({"n": 1}, "Faro"),
        ({"n": {"gte": 1}, "kind": "F"}, "Faro"),
        ({"AND": [{"n": {"gt": 0}}, {"NOT": [{"kind": "B"}]}]}, "Faro"),
        ({"NOT": {"kind": {"in": ["F", "B"]}}}, "Porto"),
        ({"metadata": {"n": 2}, "role": "user", "actor_id": "alice"}, "Braga"),
    ]
    for more, place in asked:
        assert [place in text for text in texts(memory.get_all(filters={**ALICE, **more}))] == [True]
        assert [place in text for text in texts(memory.search("visited", filters={**ALICE, **more}))] == [
            True
        ]
    assert len(texts(memory.get_all(filters={**ALICE, "OR": [{"n": 0}, {"n": 2}]}))) == 2
    assert memory.get_all(filters={**ALICE, "missing": "*"}) == {"results": []}
    assert (
        memory.get_all(filters=ALICE, top_k=0)
        == memory.search("x", filters=ALICE, top_k=0)
        == {"results": []}
    )
    assert len(memory.get_all(filters=ALICE, top_k=5000)["results"]) == 3


def test_a_memory_is_corrected_and_its_history_told(memory: Memory, clock: FrozenClock) -> None:
    """Under its first id; what was deleted has neither a text nor a history."""
    new = memory.add("I live in Porto.", user_id="alice")["results"][0]
    clock.advance(days=1)
    memory.update(new["id"], "alice lives in Faro.")
    added, changed = memory.history(new["id"])
    assert (added["event"], added["new_memory"], added["old_memory"]) == ("ADD", new["memory"], None)
    assert (changed["event"], changed["new_memory"]) == ("UPDATE", "alice lives in Faro.")
    assert changed["old_memory"] == new["memory"]
    assert changed["updated_at"] == "2024-05-02T12:00:00+00:00"
    names = {"id", "memory_id", "old_memory", "new_memory", "event", "created_at", "updated_at", "is_deleted"}
    assert names | {"actor_id", "role"} <= added.keys()
    assert added["memory_id"] == new["id"] != added["id"] != changed["id"]
    assert memory.delete(new["id"]) == {"message": "Memory deleted successfully!"}
    assert memory.get(new["id"]) is None
    assert memory.history(new["id"]) == []


def test_deleting_many(memory: Memory, forest: MemForest) -> None:
    """Of a run, of a user, of all."""
    for user in ("alice", "bob"):
        for run in ("r1", "r2"):
            memory.add(f"I visited {run} town.", user_id=user, run_id=run)
    assert memory.delete_all(user_id="alice", run_id="r1") == {"message": "Memories deleted successfully!"}
    assert texts(memory.get_all(filters=ALICE)) == ['alice: "I visited r2 town."']
    memory.delete_all("alice")
    assert memory.get_all(filters=ALICE) == {"results": []}
    assert len(memory.get_all(filters={"user_id": "bob"})["results"]) == 2
    memory.reset()
    assert forest.list_users() == []


def test_messages_are_kept_as_they_are(memory: Memory) -> None:
    """With infer=False each is a memory, with who said it."""
    said = [{"role": "user", "content": "I like jazz."}, {"role": "assistant", "content": "So do I."}]
    made = memory.add(said, user_id="alice", infer=False)["results"]
    assert [(one["memory"], one["role"]) for one in made] == [
        ("I like jazz.", "user"),
        ("So do I.", "assistant"),
    ]
    assert texts(memory.get_all(filters=ALICE)) == ["I like jazz.", "So do I."]


def test_the_same_words_again_are_said_again_unless_they_have_an_id(
    memory: Memory, forest: MemForest
) -> None:
    """A message with an id is kept once."""
    for extra in ({}, {}, {"id": "m1"}, {"id": "m1"}):
        memory.add([{"role": "user", "content": "I am in Porto.", **extra}], user_id="alice", run_id="r")
    assert len(list(forest.user("alice").turns("r"))) == 3


def test_a_user_may_be_set_once(forest: MemForest) -> None:
    """Then agents and runs need no user; there is none by default."""
    mine = Memory(forest=forest, user="team")
    mine.add("I live in Porto.", agent_id="bot")
    mine.add("I live in Faro.", user_id="bob", agent_id="bot")
    assert texts(mine.get_all(filters={"agent_id": "bot"})) == ['team: "I live in Porto."']
    assert texts(mine.search("live", agent_id="bot")) == ['team: "I live in Porto."']
    assert texts(mine.search("live", filters={"user_id": "bob"})) == ['bob: "I live in Faro."']
    mine.delete_all(agent_id="bot")
    assert mine.get_all()["results"] == []
    assert texts(mine.get_all(user_id="bob")) == ['bob: "I live in Faro."']


BAD = [
    (lambda one: one.add("hi"), "the user is missing"),
    (lambda one: one.add("hi", user_id=" "), "user_id is"),
    (lambda one: one.add("hi", user_id=["a"]), "user_id is"),
    (lambda one: one.add(3, user_id="a"), "message 0"),
    (lambda one: one.add([], user_id="a"), "nothing to add"),
    (lambda one: one.add("hi", user_id="a", metadata="x"), "metadata is of the type str"),
    (lambda one: one.add("hi", user_id="a", timestamp="soon"), "timestamp"),
    (lambda one: one.add("hi", user_id="a", expiration_date="2030-01-01"), "expiration_date has no counterpart"),
    (lambda one: one.add("hi", user_id="a", memory_type="procedural_memory"), "memory_type has no counterpart"),
    (lambda one: one.add("hi", user_id="a", prompt="Only food."), "prompt has no counterpart"),
    (lambda one: one.search("hi"), "the user is missing"),
    (lambda one: one.search("hi", filters={"agent_id": "x"}), "the user is missing"),
    (lambda one: one.search("hi", filters="alice"), "filter"),
    (lambda one: one.search("hi", filters=3), "filter"),
    (lambda one: one.search("hi", filters={"OR": "x", **ALICE}), "OR takes a list"),
    (lambda one: one.search(" ", filters=ALICE), "question"),
    (lambda one: one.search("hi", filters=ALICE, threshold=2), "threshold is 2"),
    (lambda one: one.search("hi", filters=ALICE, threshold="high"), "threshold is"),
    (lambda one: one.search("hi", filters=ALICE, top_k=-1), "top_k is -1"),
    (lambda one: one.search("hi", filters=ALICE, top_k="many"), "top_k is"),
    (lambda one: one.search("hi", filters=ALICE, org="x"), "search has no option org"),
    (lambda one: one.search("hi", filters=ALICE, as_of="soon"), "as_of"),
    (lambda one: one.get_all(filters=ALICE, as_of="2023-01-01"), "get_all has no option as_of"),
    (lambda one: one.get_all(), "the user is missing"),
    (lambda one: one.update("x", "hi"), "no memory with this id"),
    (lambda one: one.update("x"), "nothing to change"),
    (lambda one: one.update("x", "hi", metadata={"a": 1}), "metadata has no counterpart"),
    (lambda one: one.delete(5), "no memory with this id"),
    (lambda one: one.delete_all(), "reset"),
    (lambda one: one.delete_all(run_id="r"), "the user is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "why"), BAD)
def test_bad_input_is_a_value_error_as_in_mem0(
    memory: Memory, forest: MemForest, call: Any, why: str
) -> None:
    """It says what was wrong, and nothing is stored."""
    with pytest.raises(InputError, match=why):
        call(memory)
    assert forest.list_users() == []


def test_ids_that_lead_nowhere(memory: Memory) -> None:
    """To read they find nothing, to change they are errors of both kinds."""
    assert memory.get("x") is None
    assert memory.history("x") == []
    with pytest.raises(NotFoundError):
        memory.delete("x")


def test_the_async_class_does_the_same(forest: MemForest) -> None:
    """In a loop of its own."""

    async def talk() -> list[str]:
        async with AsyncMemory(forest=forest) as memory:
            await memory.add("I live in Porto.", user_id="alice")
            return texts(await memory.search("Where does alice live?", filters=ALICE))

    assert asyncio.run(talk()) == ['alice: "I live in Porto."']
    assert forest.list_users() == ["alice"]  # it stays open


def test_a_forest_of_its_own_is_closed_inside_a_loop(tmp_path: Path) -> None:
    """By `close` without await, as in mem0, and at the end of the block; it opens again at its next use."""

    async def talk() -> list[str]:
        async with AsyncMemory({"history_db_path": str(tmp_path / "history.db")}) as memory:
            await memory.add("I live in Porto.", user_id="alice", infer=False)
            memory.close()
            closed = not any((tmp_path / "memforest").glob("*-wal"))
            found = texts(await memory.get_all(filters=ALICE))
        return [*found, *["closed"] * closed]

    assert asyncio.run(asyncio.wait_for(talk(), 50)) == ["I live in Porto.", "closed"]


def test_the_blocking_class_works_inside_a_loop(memory: Memory) -> None:
    """It waits, as mem0's does."""

    async def talk() -> None:
        memory.add("I live in Porto.", user_id="alice")

    asyncio.run(talk())
    assert texts(memory.get_all(filters=ALICE)) == ['alice: "I live in Porto."']


def test_settings_are_read_and_the_others_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Place, collection, and models of providers with OpenAI's API; no key stands in a name or a log."""
    given = {
        "version": "v1.1",
        "vector_store": {
            "provider": "qdrant",
            "config": {"path": str(tmp_path), "collection_name": "a/../b"},
        },
        "llm": {"provider": "openai", "config": {"model": "m", "api_key": "k-secret", "top_p": 0.1}},
        "embedder": {
            "provider": "ollama",
            "config": {"model": "e", "ollama_base_url": "http://localhost:9/"},
        },
        "reranker": {"provider": "cohere", "config": {"api_key": "r-secret"}},
        "custom_instructions": None,
    }
    with caplog.at_level(logging.WARNING):
        memory = Memory.from_config(given)
    assert memory.ignored == (
        *("llm.config.top_p", "reranker.config.api_key", "reranker.provider"),
        "vector_store.provider",
    )
    assert all(name in caplog.text for name in memory.ignored)
    assert "secret" not in caplog.text
    assert memory.forest.directory == tmp_path / "memforest-a%2F..%2Fb"
    config = memory.forest.config
    assert isinstance(config.chat, ChatEndpoint)
    assert isinstance(config.embedder, EmbeddingEndpoint)
    assert (config.chat.model, config.chat.api_key, config.chat_steps) == ("m", "k-secret", ("extract",))
    assert (config.embedder.model, config.embedder.base_url) == ("e", "http://localhost:9/v1")


def test_without_models_everything_is_local(tmp_path: Path) -> None:
    """A provider that is none of ours, or no model: named, not used."""
    given = {
        "history_db_path": str(tmp_path / "history.db"),
        "llm": {"provider": "anthropic", "config": {"model": "m"}},
        "embedder": {"provider": "openai"},
    }
    with Memory(given) as memory:
        assert memory.forest.directory == tmp_path / "memforest"
        assert memory.forest.config == load_default_config()
        assert memory.ignored == ("embedder.provider", "llm.config.model", "llm.provider")
        memory.add("I live in Porto.", user_id="alice", infer=False)
    assert list((tmp_path / "memforest").iterdir())


@pytest.mark.parametrize(
    ("given", "why"),
    [(["x"], "type list"), (3, "type int"), ({"llm": {"config": {"model": " "}}}, "no name")],
)
def test_a_config_that_is_none(given: Any, why: str) -> None:
    """It is refused with what was wrong."""
    with pytest.raises(ConfigError, match=why):
        Memory.from_config(given)


def test_a_forest_has_its_own_config(forest: MemForest) -> None:
    """Both cannot be; and a forest is one."""
    with pytest.raises(ConfigError, match="either a config or a forest"):
        Memory({}, forest=forest)
    with pytest.raises(InputError, match="forest is of the type str"):
        Memory(forest="here")  # type: ignore[arg-type]


def test_neither_mem0_nor_the_server_is_needed() -> None:
    """Importing it imports nothing of the extra, and no mem0."""
    code = (
        "import sys, memforest.integrations.mem0; "
        "print(sorted({'mem0', 'fastapi', 'starlette', 'mcp', 'uvicorn'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.strip() == "[]"
