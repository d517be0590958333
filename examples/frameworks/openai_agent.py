"""An agent of the OpenAI Agents SDK with a session that remembers: pip install memforest "openai-agents>=0.23,<0.25"."""

import asyncio
import tempfile

from agents import Agent, Runner
from agents.testing import ScriptedModel
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from memforest import AsyncMemForest, Config
from memforest.integrations.openai_agents import MemForestSession, memory_tools
from memforest.testing import FrozenClock


def noted() -> ResponseOutputMessage:
    """Return a reply as a model would give it."""
    text = ResponseOutputText(text="Noted.", type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])


async def main() -> None:
    """Say where one lives, move, and ask."""
    clock, model = FrozenClock("2023-01-09T09:00:00+00:00"), ScriptedModel()
    with tempfile.TemporaryDirectory() as folder:
        forest = AsyncMemForest(folder, Config(clock=clock))
        for number, text in enumerate(["I live in Porto.", "I moved to Lisbon."]):
            session = MemForestSession(forest, user="bob", session_id=f"t{number}")
            tools, told = memory_tools(forest, "bob"), session.instructions("You help.")
            agent = Agent("helper", instructions=told, model=model, tools=tools)
            model.enqueue([noted()])
            await Runner.run(agent, text, session=session)
            clock.advance(days=150)
        print("Now:", (await forest.query("bob", "Where do I live?")).context())
        print("Before:", (await forest.query("bob", "Where do I live?", as_of="2023-02-01")).context())
        await forest.close()


asyncio.run(main())
