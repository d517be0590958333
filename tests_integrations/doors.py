"""The ways in which something is said to a memory: one for each adapter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from memforest import AsyncMemForest
from memforest.integrations.claude import AsyncMemForestMemoryTool
from memforest.integrations.langgraph import MemForestNodes
from memforest.integrations.langgraph_store import MemForestStore
from memforest.integrations.mem0 import AsyncMemory
from memforest.integrations.openai_agents import MemForestSession
from memforest.integrations.pydantic_ai import MemForestMemory

Say = Callable[[AsyncMemForest, str, str, str], Awaitable[Any]]
"""Takes forest, user, session and what the user says."""


async def directly(forest: AsyncMemForest, user: str, session: str, text: str) -> None:
    """Say it without an adapter."""
    said = [{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}]
    await forest.user(user).add(said, session_id=session)


async def by_nodes(forest: AsyncMemForest, user: str, session: str, text: str) -> None:
    """Say it to a graph."""
    messages = [HumanMessage(text, id=text), AIMessage("Noted.", id=f"{text}!")]
    config: Any = {"configurable": {"thread_id": session, "user_id": user}}
    await MemForestNodes(forest, strict=True).remember.ainvoke({"messages": messages}, config)


async def by_store(forest: AsyncMemForest, user: str, session: str, text: str) -> None:
    """Put it into a store."""
    await MemForestStore(forest).aput((user, session), text, {"text": text})


async def by_session(forest: AsyncMemForest, user: str, session: str, text: str) -> None:
    """Add it to a session of the OpenAI Agents SDK."""
    items: Any = [{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}]
    await MemForestSession(forest, user, session).add_items(items)


async def by_agent(forest: AsyncMemForest, user: str, session: str, text: str) -> None:
    """Say it to an agent of pydantic-ai."""
    memory = MemForestMemory(forest, user=user, options={"strict": True})
    agent = Agent(TestModel(call_tools=[], custom_output_text="Noted."), capabilities=[memory])
    await agent.run(text, conversation_id=session)


async def by_file(forest: AsyncMemForest, user: str, session: str, text: str) -> None:
    """Write it into a file, as Claude would."""
    path = f"/memories/{session}/{text.replace(' ', '-')}md"
    tool = AsyncMemForestMemoryTool(forest, user, strict=True)
    await tool.call({"command": "create", "path": path, "file_text": text})


async def by_mem0(forest: AsyncMemForest, user: str, session: str, text: str) -> None:
    """Add it as programs of mem0 do."""
    said = [{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}]
    await AsyncMemory(forest=forest).add(said, user_id=user, run_id=session)


DOORS: list[Say] = [by_nodes, by_store, by_session, by_agent, by_file, by_mem0]
