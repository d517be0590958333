"""pydantic-ai: a capability that recalls, has tools, and keeps what was said once."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ImageUrl, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from memforest import AsyncMemForest
from memforest.errors import InputError
from memforest.integrations.pydantic_ai import MemForestMemory
from memforest.testing import FrozenClock


async def test_a_run_recalls_and_is_kept_once(forest: AsyncMemForest, clock: FrozenClock) -> None:
    """The model sees what was said in another conversation; a run that comes again keeps nothing twice."""
    seen: list[str] = []

    def model(messages: Any, info: Any) -> ModelResponse:
        seen.append(info.instructions or "")
        return ModelResponse(parts=[TextPart("Noted.")])

    memory = MemForestMemory(forest, user=lambda ctx: ctx.deps, options={"strict": True})
    agent = Agent(FunctionModel(model), deps_type=str, capabilities=[memory])
    picture = ImageUrl("https://example.org/cat.png")
    result = await agent.run(["I live in Porto.", picture], deps="app/bob", conversation_id="t1", run_id="r1")
    clock.advance(days=150)
    await agent.run("I moved to Lisbon.", deps="app/bob", conversation_id="t2")
    await agent.run("Where do I live?", deps="app/bob", conversation_id="t3")
    await agent.run("Where do I live?", deps="app/eve", conversation_id="t3")
    assert seen[0] == seen[3] == ""
    assert "Lisbon" in seen[2]
    turns = await forest.user("app/bob").turns("t1")
    assert [(turn.role, turn.text) for turn in turns] == [
        ("user", "I live in Porto.\n[image: https://example.org/cat.png, image/png]"),
        ("assistant", "Noted."),
    ]
    await agent.run(
        "I live in Porto.",
        deps="app/bob",
        conversation_id="t1",
        run_id="r1",
        message_history=result.all_messages()[:0],
    )
    assert not any("memforest-memory" in turn.text for turn in await forest.user("app/bob").turns("t3"))


async def test_the_tools_are_called(forest: AsyncMemForest) -> None:
    """`TestModel` calls every tool; the calls are kept as nobody's words."""
    agent = Agent(TestModel(), capabilities=[MemForestMemory(forest, user="bob", options={"strict": True})])
    await agent.run("I live in Porto.", conversation_id="t1")
    turns = await forest.user("bob").turns("t1")
    assert {turn.speaker for turn in turns if turn.role == "tool"} == {
        "search_memory",
        "timeline",
        "remember",
    }
    reader = Agent(TestModel(), capabilities=[MemForestMemory(forest, user="bob", writes=False)])
    before = await forest.user("bob").sessions()
    await reader.run("Hello.", conversation_id="t9")
    assert len(await forest.user("bob").sessions()) == len(before)


async def test_a_tool_finds_what_was_so_then(forest: AsyncMemForest, clock: FrozenClock) -> None:
    """A model may ask as of any time."""
    await forest.user("bob").add("I live in Porto.")
    clock.advance(days=150)
    await forest.user("bob").add("I moved to Lisbon.")
    replies: list[str] = []

    def model(messages: Any, info: Any) -> ModelResponse:
        last = messages[-1].parts[0]
        if last.part_kind == "tool-return":
            replies.append(last.content)
            return ModelResponse(parts=[TextPart("In Porto.")])
        return ModelResponse(
            parts=[ToolCallPart("search_memory", {"query": "Where does bob live?", "as_of": "2023-02-01"})]
        )

    await Agent(FunctionModel(model), capabilities=[MemForestMemory(forest, user="bob")]).run(
        "Where did I live?"
    )
    assert "Porto" in replies[0]
    assert "Lisbon" not in replies[0]


async def test_failures_and_bad_users(forest: AsyncMemForest) -> None:
    """A damaged memory does not end the run; a missing user does."""
    with pytest.raises(InputError):
        MemForestMemory(forest, user="")
    await forest.user("bob").add("I live in Porto.")
    await forest.close()
    for path in forest.directory.glob("*.db"):
        path.write_bytes(b"no database " * 999)
    memory = MemForestMemory(forest, user="bob")
    result = await Agent(TestModel(call_tools=[]), capabilities=[memory]).run("Where do I live?")
    assert result.output
    assert memory.bridge.failures >= 2
