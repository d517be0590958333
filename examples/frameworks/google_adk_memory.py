"""A memory service for Google ADK: pip install memforest "google-adk>=2.12,<3"."""

import asyncio
import tempfile

from google.adk.events import Event
from google.adk.sessions import InMemorySessionService
from google.genai import types

from memforest import AsyncMemForest, Config
from memforest.integrations.google_adk import MemForestMemoryService
from memforest.testing import FrozenClock


async def main() -> None:
    """Say where one lives, move, and ask."""
    clock, sessions = FrozenClock("2023-01-09T09:00:00+00:00"), InMemorySessionService()
    with tempfile.TemporaryDirectory() as folder:
        forest = AsyncMemForest(folder, Config(clock=clock))
        memory = MemForestMemoryService(forest)  # Runner(memory_service=memory, ...)
        before = MemForestMemoryService(forest, recall={"as_of": "2023-02-01"})
        for name, text in (("monday", "I live in Porto."), ("tuesday", "I moved to Lisbon.")):
            session = await sessions.create_session(app_name="app", user_id="bob", session_id=name)
            said = types.Content(role="user", parts=[types.Part(text=text)])
            event = Event(author="user", content=said, timestamp=clock().timestamp())
            await sessions.append_event(session, event)
            await memory.add_session_to_memory(session)
            clock.advance(days=150)
        asked = {"app_name": "app", "user_id": "bob", "query": "Where does bob live?"}
        for name, service in (("Now:", memory), ("Before:", before)):
            print(name, (await service.search_memory(**asked)).memories[0].content.parts[0].text)
        await forest.close()


asyncio.run(main())
