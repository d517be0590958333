"""One conversation through every adapter: the same facts, the same answers, and nothing of another user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from doors import DOORS, Say, directly
from langchain_core.messages import HumanMessage
from talk import QUESTIONS, SAID

from memforest import AsyncMemForest, Config
from memforest.integrations.claude import AsyncMemForestMemoryTool
from memforest.integrations.langchain import MemForestRetriever
from memforest.integrations.langgraph import MemForestNodes
from memforest.integrations.langgraph_store import MemForestStore
from memforest.integrations.mem0 import AsyncMemory
from memforest.integrations.openai_agents import MemForestSession
from memforest.testing import FrozenClock, HashEmbedder


async def told(folder: Path, say: Say) -> tuple[list[Any], list[str]]:
    """Return the facts and the answers of a memory to which the conversation was told in one way."""
    clock = FrozenClock("2023-01-09T09:00:00+00:00")
    forest = AsyncMemForest(folder, Config(embedder=HashEmbedder(), clock=clock))
    for at, said in enumerate(SAID):
        for text in said:
            await say(forest, "bob", f"s{at}", text)
            clock.advance(minutes=1)
        clock.advance(days=75)
    facts = sorted(
        (one.statement, one.start, one.end, one.speaker) for one in await forest.user("bob").list(limit=200)
    )
    asked = [await forest.ask("bob", question, as_of=as_of) for question, as_of in QUESTIONS]
    found = await MemForestRetriever(forest=forest, user="bob", strict=True).ainvoke(
        "Where does bob live?", as_of="2023-02-01"
    )
    assert found[0].page_content == "I live in Porto."
    await forest.close()
    return facts, [str(one.answer) for one in asked]


@pytest.mark.parametrize("say", DOORS)
async def test_every_door_makes_the_same_memory(tmp_path: Path, say: Say) -> None:
    """Facts and answers are those of the same conversation without an adapter."""
    facts, answers = await told(tmp_path / "a", directly)
    own_facts, own_answers = await told(tmp_path / "b", say)
    assert own_facts == facts
    assert own_answers == answers
    assert "Berlin" in answers[0]
    assert "Porto" in answers[1]


async def test_nothing_crosses_from_user_to_user(forest: AsyncMemForest) -> None:
    """Two users through every door, one after the other: nobody's recall has a word of the other."""
    secrets = {"bob": "Zanzibar", "eve": "Quito"}
    for number, say in enumerate(DOORS):
        for user, place in secrets.items():
            await say(forest, user, f"s{number}", f"I live in {place} number {number}.")
    crossings = 0
    for user, other in (("bob", "Quito"), ("eve", "Zanzibar")):
        nodes, store, memory = MemForestNodes(forest), MemForestStore(forest), AsyncMemory(forest=forest)
        config: Any = {"configurable": {"thread_id": "t", "user_id": user}}
        question = {"messages": [HumanMessage("Where do I live? Quito? Zanzibar?")]}
        seen = [
            await nodes.recall.ainvoke(question, config),
            *[
                await tool.ainvoke(
                    {"query": other} if tool.name == "search_memory" else {"entity": user}, config
                )
                for tool in nodes.tools()
            ],
            [one.dict() for one in await store.asearch((user,), query=other, limit=99)],
            [one.model_dump() for one in await MemForestRetriever(forest=forest, user=user).ainvoke(other)],
            *[await MemForestSession(forest, user, f"s{number}").get_items() for number in range(5)],
            await AsyncMemForestMemoryTool(forest, user).call({"command": "view", "path": "/memories"}),
            await memory.search(other, filters={"user_id": user}, top_k=99),
            mine := await memory.get_all(user_id=user, top_k=99),
            [await memory.history(one["id"]) for one in mine["results"]],
        ]
        crossings += sum(json.dumps(one, default=str).count(other) for one in seen)
        assert secrets[user] in json.dumps(seen, default=str)
    assert crossings == 0
