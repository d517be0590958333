"""What no program should send, and what happens around it, through every adapter: nothing is lost, and nobody is shown another's memory."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from doors import DOORS, Say
from langchain_core.messages import HumanMessage

from memforest import AsyncMemForest, Config
from memforest.errors import InputError, MissingPackageError
from memforest.integrations import adapter
from memforest.integrations.claude import AsyncMemForestMemoryTool
from memforest.integrations.langchain import MemForestRetriever
from memforest.integrations.langgraph import MemForestNodes
from memforest.integrations.langgraph_store import MemForestStore
from memforest.integrations.mem0 import AsyncMemory
from memforest.integrations.openai_agents import MemForestSession
from memforest.testing import HashEmbedder

every_door = pytest.mark.parametrize("say", DOORS, ids=lambda say: say.__name__)
ODD = ["o'hara\"; DROP TABLE turn; --", "日本/ключ", "a.b/../c", "%", "x" * 400]
MODULES = {
    "langgraph": "1.1", "langgraph_store": "1.1", "langchain": "1.7", "openai_agents": "0.23", "pydantic_ai": "2.66", "claude": "2.12",
}  # fmt: skip
"""Adapter -> the lowest version of its framework."""


def said(turns: Any) -> list[str]:
    """Return what a user said."""
    return [one.text for one in turns if one.role == "user"]


async def all_said(forest: AsyncMemForest, user: str) -> list[str]:
    """Return what was said in all sessions of a user."""
    memory = forest.user(user)
    return [text for one in await memory.sessions() for text in said(await memory.turns(one.session_id))]


@every_door
async def test_odd_names_and_long_texts(forest: AsyncMemForest, say: Say) -> None:
    """Users and sessions of any name are each for themselves, and more than 100,000 characters are kept as far as they may."""
    for at, name in enumerate(ODD):
        user = name.replace(".", "_") if say.__name__ == "by_store" else name  # LangGraph refuses dots
        await say(forest, user, "s1", f"I like tree {at}.")
        assert await all_said(forest, user) == [f"I like tree {at}."]
    long = "I like trees, and I say so again. " * 3000
    await say(forest, "long", "s1", long)
    [kept] = await all_said(forest, "long")
    assert long.startswith(kept)
    assert len(kept) > 99_990


@every_door
async def test_nobody_is_no_user(forest: AsyncMemForest, say: Say) -> None:
    """A blank user is an error of the framework's kind or ours, and nothing is written."""
    for user in ("", " "):
        with pytest.raises(ValueError, match=r"user|amespace"):
            await say(forest, user, "s1", "I like trees.")
    assert await forest.list_users() == []


async def test_an_unknown_user_and_an_empty_query_find_nothing(forest: AsyncMemForest) -> None:
    """Reading makes no memory."""
    config: Any = {"configurable": {"thread_id": "t", "user_id": "nobody"}}
    found = [
        *[await MemForestRetriever(forest=forest, user="nobody").ainvoke(query) for query in ("", "Where?")],
        *[await MemForestStore(forest).asearch(("nobody",), query=query) for query in ("", "Where?")],
        await MemForestStore(forest).aget(("nobody",), "k") or [],
        await MemForestSession(forest, "nobody", "t").get_items(),
        (await AsyncMemory(forest=forest).search("Where?", filters={"user_id": "nobody"}))["results"],
        (await MemForestNodes(forest).recall.ainvoke({"messages": [HumanMessage("Where?")]}, config))[
            "memory"
        ],
        (await MemForestNodes(forest).recall.ainvoke({"messages": [HumanMessage("")]}, config))["memory"],
    ]
    assert not any(found)
    with pytest.raises(InputError):
        await AsyncMemory(forest=forest).search("", filters={"user_id": "nobody"})
    told = await AsyncMemForestMemoryTool(forest, "nobody").call({"command": "view", "path": "/memories"})
    assert "/memories" in str(told)
    assert await forest.list_users() == []


@every_door
async def test_a_closed_forest_opens_again(forest: AsyncMemForest, say: Say) -> None:
    """What is said after somebody has closed the forest is kept."""
    for at in range(3):
        await say(forest, "bob", "s1", f"I like tree {at}.")
        await forest.close()
    assert sorted(await all_said(forest, "bob")) == [f"I like tree {at}." for at in range(3)]


@every_door
async def test_cancelled_anywhere(forest: AsyncMemForest, say: Say) -> None:
    """A call that is cancelled has written all of it or nothing, and the next one works."""
    for at in range(12):
        task = asyncio.create_task(say(forest, "bob", f"s{at}", f"I like tree {at}."))
        await asyncio.sleep(at * 0.002)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await say(forest, "bob", "last", "I like tree 99.")
    kept = await all_said(forest, "bob")
    assert "I like tree 99." in kept
    assert len(kept) == len(set(kept))
    await forest.resume("bob")
    assert (await forest.user("bob").verify()).ok


@every_door
async def test_two_loops(forest: AsyncMemForest, say: Say) -> None:
    """Two event loops in two threads say things to the same user at once; all of it is kept."""

    async def several(name: str) -> None:
        for at in range(4):
            await say(forest, "bob", name, f"I like {name} {at}.")

    other = asyncio.to_thread(lambda: asyncio.run(several("oaks")))
    await asyncio.gather(other, several("limes"))
    wanted = {f"I like {name} {at}." for name in ("oaks", "limes") for at in range(4)}
    assert sorted(await all_said(forest, "bob")) == sorted(wanted)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@every_door
def test_a_forked_child_says_something(tmp_path: Path, say: Say) -> None:
    """A child that was forked while the forest was open writes to it, and so does its parent."""
    config = Config(embedder=HashEmbedder())
    forest = AsyncMemForest(tmp_path, config)
    asyncio.run(say(forest, "bob", "s1", "I like oaks."))
    if (child := os.fork()) == 0:
        try:
            asyncio.run(say(forest, "bob", "s2", "I like limes."))
        finally:  # the child ends here, whatever it says
            os._exit(sys.exc_info()[1] is not None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asyncio.run(say(forest, "bob", "s3", "I like elms."))

    async def kept() -> list[str]:
        found = await all_said(forest, "bob")
        await forest.close()
        return found

    assert sorted(asyncio.run(kept())) == ["I like elms.", "I like limes.", "I like oaks."]


@pytest.mark.parametrize(("name", "low"), MODULES.items())
def test_a_framework_that_is_too_old(monkeypatch: pytest.MonkeyPatch, name: str, low: str) -> None:
    """The error names what is installed, the range, and the line that installs it."""
    monkeypatch.setattr(adapter, "version", lambda package: "0.0.9")
    monkeypatch.delitem(sys.modules, f"memforest.integrations.{name}")
    with pytest.raises(
        MissingPackageError, match=rf"0\.0\.9 is installed.* works with {low} up to before .*pip install"
    ):
        importlib.import_module(f"memforest.integrations.{name}")


async def test_a_long_item_comes_back(forest: AsyncMemForest) -> None:
    """An item that is longer than a turn may be is not lost."""
    session = MemForestSession(forest, "bob", "t")
    items: list[Any] = [{"role": "user", "content": "tree " * 30_000}, {"role": "user", "content": "Hello."}]
    await session.add_items(items)
    assert await session.get_items() == items


async def test_values_that_are_no_json(forest: AsyncMemForest) -> None:
    """Metadata and items are refused whole, with what is wrong."""
    for wrong in ({"a": object()}, {"a": float("inf")}):
        with pytest.raises(ValueError, match=r"JSON|serial"):
            await AsyncMemory(forest=forest).add("Hello there.", user_id="bob", metadata=wrong)
        with pytest.raises(ValueError, match="JSON"):
            await MemForestSession(forest, "bob", "t").add_items(
                [{"role": "user", "content": "Hi.", "x": wrong}]
            )  # type: ignore[typeddict-unknown-key]
    assert json.dumps(await MemForestSession(forest, "bob", "t").get_items()) == "[]"
