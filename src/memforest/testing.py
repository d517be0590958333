"""Doubles for tests of code that uses memforest: chat models, an embedder and a clock."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone

from memforest.errors import ConfigError
from memforest.models.base import HashEmbedder
from memforest.ports import ChatReply, ChatRequest
from memforest.text import count_tokens

Scripted = str | ChatReply | Exception
"""A reply of a script; an exception is raised in its place."""

__all__ = ["FrozenClock", "FunctionChat", "HashEmbedder", "ScriptedChat"]


class ScriptedChat:
    """A `ChatModel` that gives the replies it was given, in order, and keeps what it was asked.

    Parallel calls take replies in the order in which they begin. For the chunks of one ingest you cannot rely on that
    order: give a script per step, equal replies, or a `FunctionChat`.

    Args:
        replies: the script: one for all calls, or one per step by its name ("extract", "judge", ...).
        model_id: recorded with what is made from the replies.

    Example:
        >>> import asyncio
        >>> from memforest.ports import ChatRequest, Message
        >>> chat = ScriptedChat({"answer": ["Lisbon."]})
        >>> asyncio.run(chat.complete(ChatRequest("answer", (Message("user", "Where?"),)))).text
        'Lisbon.'
        >>> chat.requests[0].messages[0].content, chat.left
        ('Where?', 0)
    """

    def __init__(
        self, replies: Sequence[Scripted] | Mapping[str, Sequence[Scripted]], *, model_id: str = "scripted"
    ) -> None:
        self.model_id = model_id
        self.requests: list[ChatRequest] = []
        """What was asked so far, in order."""
        if isinstance(replies, str):
            raise ConfigError("replies: give a list of replies, not one text")
        given: Mapping[str, Sequence[Scripted]] = (
            replies if isinstance(replies, Mapping) else {_ALL_STEPS: replies}
        )
        self._scripts = {step: deque(script) for step, script in given.items()}

    @property
    def left(self) -> int:
        """How many replies nobody has asked for yet."""
        return sum(len(script) for script in self._scripts.values())

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the script's next reply, or raise it.

        Raises:
            ConfigError: if the script has no reply left; it is no `ModelError`, so that no step takes it for a
                failure of the model, and the test fails.
        """
        self.requests.append(request)
        script = self._scripts.get(request.step, self._scripts.get(_ALL_STEPS))
        if not script:
            raise ConfigError(
                f"the script has no reply left for call {len(self.requests)}, of step {request.step!r}; "
                "add one, or look at `requests` for why it was asked"
            )
        reply = script.popleft()
        if isinstance(reply, Exception):
            raise reply
        return _counted(request, reply)


class FunctionChat:
    """A `ChatModel` that is a function of the request, and keeps what it was asked.

    Args:
        function: gets the request and returns the reply, or its text; may be async. What it raises, the call raises.
        model_id: recorded with what is made from the replies.

    Example:
        >>> import asyncio
        >>> from memforest.ports import ChatRequest, Message
        >>> chat = FunctionChat(lambda request: request.messages[-1].content.upper())
        >>> asyncio.run(chat.complete(ChatRequest("summarise", (Message("user", "so it is"),)))).text
        'SO IT IS'
    """

    def __init__(
        self,
        function: Callable[[ChatRequest], str | ChatReply | Awaitable[str | ChatReply]],
        *,
        model_id: str = "function",
    ) -> None:
        self.model_id = model_id
        self.requests: list[ChatRequest] = []
        """What was asked so far, in order."""
        self._function = function

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return what the function makes of a request."""
        self.requests.append(request)
        made = self._function(request)
        return _counted(request, await made if inspect.isawaitable(made) else made)


_ALL_STEPS = ""


def _counted(request: ChatRequest, reply: str | ChatReply) -> ChatReply:
    """Return a text as a reply whose tokens are estimated."""
    if isinstance(reply, ChatReply):
        return reply
    prompt_tokens = sum(count_tokens(message.content) for message in request.messages)
    return ChatReply(reply, prompt_tokens=prompt_tokens, completion_tokens=count_tokens(reply))


class FrozenClock:
    """A `Clock` for `Config(clock=...)` that says the same time until it is moved.

    Args:
        at: the time it says, aware, or ISO 8601 text with an offset.

    Raises:
        ConfigError: if the time is naive, or no time.

    Example:
        >>> clock = FrozenClock("2024-06-01T12:00:00+00:00")
        >>> clock.advance(days=1, seconds=30).isoformat()
        '2024-06-02T12:00:30+00:00'
        >>> clock() == clock()
        True
    """

    def __init__(self, at: datetime | str) -> None:
        self._now = _aware(at)

    def __call__(self) -> datetime:
        """Return the time, in UTC."""
        return self._now

    def advance(
        self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> datetime:
        """Move on by so much, or back if it is negative, and return the new time."""
        self._now += timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
        return self._now

    def set(self, at: datetime | str) -> None:
        """Say another time from now on.

        Raises:
            ConfigError: if the time is naive, or no time.
        """
        self._now = _aware(at)


def _aware(at: datetime | str) -> datetime:
    try:
        # Python 3.10 does not read a Z.
        value = datetime.fromisoformat(at.replace("Z", "+00:00")) if isinstance(at, str) else at
    except ValueError as exc:
        raise ConfigError(f"{at!r} is not a time; give one such as '2024-06-01T12:00:00+00:00'") from exc
    if value.tzinfo is None:
        raise ConfigError(f"{at!r} has no time zone; give an aware time, e.g. with tzinfo=timezone.utc")
    return value.astimezone(timezone.utc)
