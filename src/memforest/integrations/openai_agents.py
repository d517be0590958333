"""Memory for the OpenAI Agents SDK: a session that remembers, tools, and instructions that recall.

::

    session = MemForestSession(forest, user="bob", session_id="t1")
    agent = Agent("helper", instructions=session.instructions("You help."), tools=memory_tools(forest, "bob"))
    await Runner.run(agent, "Where do I live?", session=session)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from memforest.concurrency import Turns
from memforest.errors import InputError, NotFoundError
from memforest.integrations.adapter import Bridge, clean, last_said, needs, read_messages, session_of
from memforest.memory.blocking import MemForest
from memforest.memory.forest import AsyncMemForest
from memforest.read.stored import TurnView
from memforest.write.turns import check_id, json_object

with needs(("openai-agents", "0.23", "0.25")):
    from agents import FunctionTool, SessionABC, SessionSettings, TResponseInputItem, function_tool
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

__all__ = ["MemForestSession", "memory_tools"]

_ITEM = "openai_item"
"""Metadata of a turn: the item as it came."""


class MemForestSession(SessionABC):
    """A session of the SDK kept in a user's memory: its items come back as they were added, and what they say is remembered.

    An item is a turn. Calls of tools, their results and reasoning are kept and are nobody's statements; an item without words
    has a line that names it in the place of its text. An error is raised always, as the items are the agent's own state.

    Args:
        forest: the memories.
        user: whose memory.
        session_id: the session; it is one of the user's own.
        session_settings: `limit` is the number of items that `get_items` returns where it is given none.
        options: of `Bridge`.
    """

    def __init__(
        self,
        forest: AsyncMemForest | MemForest,
        user: str,
        session_id: str,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.bridge = Bridge(forest, **options)
        self.user, self.session_id = check_id(user, "user"), session_of(session_id)
        given = SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        self.session_settings: SessionSettings | None = given
        self._popping = Turns()

    async def _turns(self) -> list[TurnView]:
        try:
            return list(await self.bridge.forest.user(self.user).turns(self.session_id))
        except NotFoundError:
            return []

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest items in the order they were added in; all without a limit, none with 0 or less."""
        most = resolve_session_limit(limit, self.session_settings)
        items = [_item(turn) for turn in await self._turns()]
        return items if most is None else items[-most:] if most > 0 else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items to the end, all of them or none.

        Raises:
            InputError: if one is no mapping of JSON values.
            StoreError: if the memory cannot be written.
        """
        turns = [_turn(one, at, self.bridge.forest.config.max_turn_chars) for at, one in enumerate(items)]
        memory = await self.bridge.user(self.user)
        if turns:
            await memory.add(turns, session_id=self.session_id)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the latest item away with everything that was learnt from it, and return it; None if there is none."""
        async with self._popping.turn():  # or two would take the same
            while turns := await self._turns():
                with suppress(NotFoundError):  # another process took it
                    await self.bridge.forest.user(self.user).delete(turn=(self.session_id, turns[-1].id))
                    return _item(turns[-1])
        return None

    async def clear_session(self) -> None:
        """Delete the session with everything that was learnt from it."""
        try:
            await self.bridge.forest.user(self.user).delete(session_id=self.session_id)
        except NotFoundError:
            return

    def instructions(self, text: str, **options: Any) -> Callable[[Any, Any], Awaitable[str]]:
        """Return instructions for an agent that recall what answers the latest message of the user.

        Args:
            text: the instructions themselves.
            options: of `search`, and `max_tokens` of what is recalled.
        """

        async def recalled(context: Any, agent: Any) -> str:
            given: Any = getattr(context, "turn_input", None) or await self.bridge.safe(self.get_items(), [])
            found = await self.bridge.recall(self.user, last_said(given), **options)
            return f"{text}\n\n{found}" if found else text

        return recalled


def memory_tools(
    forest: AsyncMemForest | MemForest, user: str, *, writes: bool = True, **options: Any
) -> list[FunctionTool]:
    """Return tools for one user's memory: search, timeline and remember; without the last where nothing is to be written."""
    return [function_tool(each) for each in Bridge(forest, **options).tools(user, writes=writes)]


def _turn(item: Any, number: int, most: int) -> dict[str, Any]:
    """Return an item as a turn."""
    if not isinstance(item, Mapping):
        raise InputError(
            f"item {number} is of the type {type(item).__name__}; give a mapping, as the SDK has them"
        )
    kept = json_object({_ITEM: dict(item)}, f"item {number}")
    content = item.get("content")
    plain = not isinstance(content, list) and item.get("type") in (None, "message")
    read = read_messages([{"role": item.get("role"), "content": content} if plain else item])
    text = "\n".join(str(one["content"]) for one in read)[:most]
    if not text:
        name = item.get("type") or item.get("role") or "item"
        return {"role": "system", "content": clean(f"({name} without words of its own)", 200), **kept}
    about = {key: one for key, one in read[0].items() if key in ("role", "speaker", "name")}
    return {**about, "content": text, **kept}


def _item(turn: TurnView) -> Any:
    return turn.metadata.get(_ITEM) or {"role": turn.role or "user", "content": turn.text}
