"""A pydantic-ai agent with memory as a capability: pip install memforest "pydantic-ai-slim>=2.66,<3"."""

import asyncio
import tempfile
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from memforest import AsyncMemForest, Config
from memforest.integrations.pydantic_ai import MemForestMemory
from memforest.testing import FrozenClock


def model(messages: Any, info: Any) -> ModelResponse:
    """Answer with what was recalled; asked for earlier, call the tool. Put your model in its place."""
    last = messages[-1].parts[-1]
    if last.part_kind == "user-prompt" and "before" in last.content:
        asked = {"query": "Where does bob live?", "as_of": "2023-02-01"}
        return ModelResponse(parts=[ToolCallPart("search_memory", asked)])
    recalled = last.content if last.part_kind == "tool-return" else info.instructions
    return ModelResponse(parts=[TextPart(recalled or "Noted.")])


async def main() -> None:
    """Say where one lives, move, and ask."""
    clock = FrozenClock("2023-01-09T09:00:00+00:00")
    with tempfile.TemporaryDirectory() as folder:
        forest = AsyncMemForest(folder, Config(clock=clock))
        agent = Agent(FunctionModel(model), capabilities=[MemForestMemory(forest, user="bob")])
        await agent.run("I live in Porto.", conversation_id="monday")
        clock.advance(days=150)
        await agent.run("I moved to Lisbon.", conversation_id="tuesday")
        print("Now:", (await agent.run("Where do I live?", conversation_id="wednesday")).output)
        print("Before:", (await agent.run("And before?", conversation_id="wednesday")).output)
        await forest.close()


asyncio.run(main())
