"""Google ADK: sessions are kept once, and found with their times."""

from __future__ import annotations

import pytest
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService
from google.genai import types

from memforest import AsyncMemForest
from memforest.errors import InputError
from memforest.integrations.google_adk import MemForestMemoryService


async def test_a_session_is_kept_once_and_found(forest: AsyncMemForest) -> None:
    """A session that is added again, longer, adds what is new; calls of tools are nobody's words."""
    sessions, memory = InMemorySessionService(), MemForestMemoryService(forest, strict=True)
    session = await sessions.create_session(app_name="app", user_id="bob", session_id="t1")
    call = types.Part(function_call=types.FunctionCall(name="lookup", args={"q": "I live in Rome."}))
    for author, part in (("user", types.Part(text="I live in Porto.")), ("helper", call), ("helper", types.Part(text="Noted."))):
        content = types.Content(role="user" if author == "user" else "model", parts=[part])
        await sessions.append_event(session, Event(author=author, content=content))
        await memory.add_session_to_memory(session)
    turns = await forest.user("app/bob").turns("t1")
    assert [turn.role for turn in turns] == ["user", "tool", "assistant"]
    found = await memory.search_memory(app_name="app", user_id="bob", query="Where does bob live?")
    assert found.memories[0].content.parts[0].text == "I live in Porto."
    assert found.memories[0].author == "bob"
    for app, user in (("app", "eve"), ("other", "bob")):
        assert not (await memory.search_memory(app_name=app, user_id=user, query="Where?")).memories
    with pytest.raises(InputError):
        await memory.search_memory(app_name="app", user_id="", query="Where?")
