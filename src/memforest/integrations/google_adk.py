"""A memory service for Google's Agent Development Kit: ``Runner(memory_service=MemForestMemoryService(forest), …)``.

The user of an app is the user ``"APP/USER"`` of the forest, so that apps do not see one another's memories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memforest.importers.messages import typed
from memforest.integrations.adapter import Bridge, needs, session_of
from memforest.memory.blocking import MemForest
from memforest.memory.forest import AsyncMemForest
from memforest.write.turns import check_id

with needs(("google-adk", "2.12", "3")):
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types

__all__ = ["MemForestMemoryService"]


class MemForestMemoryService(BaseMemoryService):
    """Keeps what was said in sessions, and finds it with its time.

    Args:
        forest: the memories.
        options: of `Bridge`; `recall` are options of every search, as ``{"as_of": …, "top_k": …}``.
    """

    def __init__(self, forest: AsyncMemForest | MemForest, **options: Any) -> None:
        self.bridge = Bridge(forest, **options)

    async def add_session_to_memory(self, session: Any) -> None:
        """Keep the events of a session that are not kept yet."""
        user = user_of(session.app_name, session.user_id)
        await self.bridge.remember(user, session_of(session.id), list(_messages(session.events)))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return what the user said that answers a query, each with its time and who said it."""
        found = await self.bridge.search(user_of(app_name, user_id), query)
        entries = [
            MemoryEntry(
                content=types.Content(role="user", parts=[types.Part(text=one.text)]),
                author=one.speaker,
                timestamp=one.said.isoformat(),
                custom_metadata=one.brief(),
            )
            for one in (found.evidence if found else ())
        ]
        return SearchMemoryResponse(memories=entries)


def user_of(app_name: str, user_id: str) -> str:
    """Return the user of the forest who is a user of an app."""
    return f"{check_id(app_name, 'app_name').replace('/', '%2F')}/{check_id(user_id, 'user_id')}"


def _messages(events: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield events as messages of chat protocols; parts of one that is not finished are left out."""
    for event in events:
        if event.content is None or event.partial:
            continue
        parts = [typed(part.model_dump(mode="json", exclude_none=True)) for part in event.content.parts or ()]
        role = "user" if event.author == "user" else "assistant"
        said = {"id": event.id, "role": role, "timestamp": event.timestamp}
        yield {**said, "content": [one for part in parts for one in part]}
