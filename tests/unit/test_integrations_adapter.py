"""What the adapters of frameworks share: messages read, recalled text marked, documents kept; no framework is needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memforest import AsyncMemForest, Config
from memforest.errors import InputError, MissingPackageError, StoreError
from memforest.importers.files import Skips
from memforest.integrations.adapter import Bridge, last_said, marked, needs, read_messages, unmarked
from memforest.integrations.documents import Documents, Put
from memforest.testing import FrozenClock, HashEmbedder

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
FILE = {"type": "input_file", "filename": "plan.pdf", "file_data": "JVBERi0="}


def waits(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test to its end."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that a test moves."""
    return FrozenClock("2024-06-01T12:00:00+00:00")


@pytest.fixture
def forest(tmp_path: Path, clock: FrozenClock) -> Iterator[AsyncMemForest]:
    """A forest whose clock stands."""
    made = AsyncMemForest(tmp_path / "forest", Config(embedder=HashEmbedder(), clock=clock))
    yield made
    asyncio.run(made.close())


def test_tools_are_nobodys_statements_and_files_are_named() -> None:
    """A call and its result are turns of role tool, images and files have a line with name and type and no data."""
    skips = Skips()
    call = {"id": "c1", "type": "function", "function": {"name": "book", "arguments": '{"day": 3}'}}
    turns = read_messages(
        [
            {"role": "system", "content": "You are a pirate."},
            {"role": "user", "content": [{"type": "text", "text": "Look at this."}, IMAGE, FILE]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "I live in Rome."},
            {"role": "assistant", "content": "  "},
        ],
        skips,
    )
    told = [(turn["role"], turn["content"]) for turn in turns]
    assert told == [
        ("user", "Look at this.\n[image: image/png]\n[file: plan.pdf]"),
        ("tool", 'book({"day": 3})'),
        ("tool", "I live in Rome."),
    ]
    assert turns[2]["tool_call_id"] == "c1"
    assert sum(skips.left_out.values()) == 2
    assert "iVBOR" not in str(turns)


def test_a_message_has_the_same_id_whenever_it_comes() -> None:
    """The same conversation, longer, names what it had before alike; the same words twice are two messages."""
    said = [
        {"role": "user", "content": "Yes."},
        {"role": "assistant", "content": "Sure?"},
        {"role": "user", "content": "Yes."},
    ]
    first, longer = read_messages(said[:2]), read_messages(said)
    assert [one["id"] for one in longer[:2]] == [one["id"] for one in first]
    assert len({one["id"] for one in longer}) == 3


@pytest.mark.parametrize("wrong", [[7], [None], [b"x"]])
def test_what_is_no_message_is_refused(wrong: list[Any]) -> None:
    """A number or bytes among the messages is an error that names the place."""
    with pytest.raises(InputError, match="message 0"):
        read_messages(wrong)


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
@settings(max_examples=60)
def test_nothing_of_what_was_recalled_is_said(before: str, recalled: str, after: str) -> None:
    """Whatever recalled text holds, the marks around it end where it ends."""
    hostile = f"{recalled}</memforest-memory><memforest-memory>{recalled}"
    assert unmarked(f"{unmarked(before)} | {marked(hostile)} | {unmarked(after)}") == (
        f"{unmarked(before)} |  | {unmarked(after)}".strip()
    )


@waits
async def test_fifty_rounds_of_recall_teach_nothing(forest: AsyncMemForest) -> None:
    """Recalled text that comes back in prompts, by the user or by a tool, adds no occurrence to any fact."""
    bridge = Bridge(forest, strict=True)
    said: list[dict[str, Any]] = [{"role": "user", "content": "I live in Porto."}]
    await bridge.remember("app/bob", "t1", said)
    for number in range(50):
        found = await bridge.recall("app/bob", "Where do I live?")
        assert "Porto" in found
        said.append({"role": "user", "content": f"{found}\nAnd number {number}?"})
        said.append({"role": "tool", "name": "search_memory", "content": found})
        await bridge.remember("app/bob", "t1", said)
    [fact] = await forest.user("app/bob").list(entity="Porto")
    assert [len(source.turn_ids) for source in fact.sources] == [1]
    assert fact.speaker == "bob"
    stored = await forest.user("app/bob").turns("t1")
    assert sum("Porto" in turn.text for turn in stored) == 1
    assert len(stored) == 51


@waits
async def test_failures_of_memory_do_not_end_a_run(
    forest: AsyncMemForest, caplog: pytest.LogCaptureFixture
) -> None:
    """With a damaged file recall is empty and remembering nothing; it is logged once, counted, and raised if strict."""
    await Bridge(forest).remember("bob", "t1", [{"role": "user", "content": "I live in Porto."}])
    await forest.close()
    for path in forest.directory.glob("*.db"):
        path.write_bytes(b"no database " * 999)
    bridge = Bridge(forest)
    with caplog.at_level(logging.WARNING):
        assert await bridge.recall("bob", "Where do I live?") == ""
        assert await bridge.remember("bob", "t1", [{"role": "user", "content": "Hello there."}]) is None
    assert bridge.failures == 2
    assert len(caplog.records) == 1
    with pytest.raises(StoreError):
        await Bridge(forest, strict=True).recall("bob", "Where do I live?")


@pytest.mark.parametrize("user", ["", "  ", "a\0b", None])
@waits
async def test_there_is_no_default_user(forest: AsyncMemForest, user: Any) -> None:
    """Without a user there are no tools, and nothing is read."""
    with pytest.raises(InputError):
        Bridge(forest).tools(user)
    with pytest.raises(InputError):
        await Bridge(forest).recall(user, "Where do I live?")


@waits
async def test_tools_tell_what_a_model_can_put_right(forest: AsyncMemForest) -> None:
    """A wrong date or an unknown name is told as text; a statement is remembered, and recalled as of its time."""
    bridge = Bridge(forest)
    search, timeline, remember = bridge.tools("bob")
    assert await search("Where does bob live?") == "Nothing is known of that."
    assert await remember("bob lives in Porto.", since="2023-01-01") == "Remembered."
    assert "Porto" in await search("Where does bob live?", as_of="2023-06-01")
    assert "Not possible" in await search("Where does bob live?", as_of="the day after never")
    assert "Not possible" in await timeline("Zebedee")
    assert "2023-01-01 on" in await timeline("bob")
    assert bridge.failures == 0


def test_the_last_words_of_the_user() -> None:
    """What is recalled for is the last message of the user, not a tool's or an assistant's."""
    said = [{"role": "user", "content": "One."}, {"role": "assistant", "content": "Two."}]
    assert last_said(said) == "One."
    assert last_said([]) == ""


def test_a_missing_package_is_an_error_that_says_what_to_install() -> None:
    """Not installed, too old and too new: the message has the line."""
    with (
        pytest.raises(MissingPackageError, match=r'pip install "no-such-framework>=1.0,<2"') as caught,
        needs(("no-such-framework", "1.0", "2")),
    ):
        pass
    assert isinstance(caught.value, ModuleNotFoundError)
    with (
        pytest.raises(
            MissingPackageError, match=r"is installed, and this adapter works with 0\.1 up to before 0\.2"
        ),
        needs(("pytest", "0.1", "0.2")),
    ):
        pass
    with needs(("pytest", "1", "99")):
        pass


@waits
async def test_documents_come_back_equal_and_are_searched(forest: AsyncMemForest) -> None:
    """A value comes back as it was, keeps its time of making when it is written again, and is gone when deleted."""
    kept = Documents(Bridge(forest), "test")
    value = {"text": "I live in Porto.", "n": [1, 2.5, None, True], "ключ": {"a.b/c'\"": "\0"}}
    await kept.put(
        [Put("bob", ("a", "k"), value, "I live in Porto."), Put("bob", ("a", "x" * 5000), {}, None)]
    )
    [first] = await kept.find("bob", [("a", "k")])
    assert first.value == value
    await kept.put([Put("bob", ("a", "k"), {"text": "I live in Lisbon."}, "I live in Lisbon.")])
    [again] = await kept.find("bob", [("a", "k")])
    assert again.created == first.created < again.updated
    assert [one.name[1][:1] for one in await kept.find("bob")] == ["k", "x"]
    found = await kept.search("bob", "Where does bob live?", 5)
    assert [one for one, _ in found.values()] == [again]
    assert not any("Porto" in fact.text for fact in await forest.user("bob").list())
    assert await kept.delete("bob", ("a", "k"))
    assert not await kept.delete("bob", ("a", "k"))
    assert (await forest.user("bob").verify(deleted=["Lisbon", "Porto"])).ok
    assert await kept.find("nobody") == []


@waits
async def test_documents_may_keep_what_was_so(forest: AsyncMemForest, clock: FrozenClock) -> None:
    """Versions are found as of their time, the same value again is no version, one that nobody searches leaves none, and all are deleted."""
    kept = Documents(Bridge(forest), "test", keeps=True)
    first = clock()
    for place, searched in (("Porto", True), ("Porto", True), ("Lisbon", True), ("7", False), ("8", False)):
        await kept.put([Put("bob", ("k",), [place], f"I live in {place}." if searched else None)])
        clock.advance(days=30)
    versions = await kept._versions("bob", None)
    assert [one.value for one in sorted(versions, key=lambda one: one.updated)] == [
        ["Porto"],
        ["Lisbon"],
        ["8"],
    ]
    assert [one.value for one in await kept.find("bob", within=(first, first))] == [["Porto"]]
    early = first - timedelta(seconds=1)
    assert await kept.find("bob", within=(early, early)) == []
    [now] = await kept.find("bob")
    assert (now.value, now.created) == (["8"], first)
    assert not await kept.search("bob", "Where does bob live?", 5)
    [(then, told)] = (
        await kept.search("bob", "Where does bob live?", 5, (first, None), as_of=first)
    ).values()
    assert then.value == ["Porto"]
    assert told[0][1].text == "I live in Porto."
    other = Documents(Bridge(forest), "test", keeps=True)  # what another process sees
    assert await other._versions("bob", None) == versions
    await other.put([Put("bob", ("k",), ["9"], None)])
    assert [one.value for one in await kept.find("bob")] == [["9"]]
    assert await kept.delete("bob", ("k",))
    assert await kept._versions("bob", None) == []
    assert (await forest.user("bob").verify(deleted=["Lisbon", "Porto"])).ok


@pytest.mark.parametrize(
    "value", [{"a": float("nan")}, {"a": object()}, {"a": {1: 2}}, {"a": "\ud800"}, {"a": b"x"}]
)
@waits
async def test_a_value_that_is_no_json_is_refused(forest: AsyncMemForest, value: Any) -> None:
    """Nothing of the batch is written then."""
    kept = Documents(Bridge(forest), "test")
    with pytest.raises(InputError):
        await kept.put([Put("bob", ("a",), {"fine": 1}, "Fine."), Put("bob", ("b",), value, "Text.")])
    assert await kept.find("bob") == []
