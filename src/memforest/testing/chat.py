"""Chat models without a model or a network: one that follows a script, and one that is a function."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

from memforest.errors import ConfigError
from memforest.models.base import ChatReply, ChatRequest
from memforest.tokens import count_tokens

Scripted = str | ChatReply | Exception
"""A reply of a script; an exception is raised in its place."""


class ScriptedChat:
    """A `ChatModel` that gives the replies it was given, in order, and keeps what it was asked.

    Calls that are under way at once take replies in the order in which they begin, which for the chunks of one
    ingest is no order to rely on: give a script per step, replies that are alike, or a `FunctionChat`.

    Args:
        replies: the script: one for all calls, or one per step by its name ("extract", "judge", ...).
        model_id: recorded with what is made from the replies.

    Example:
        >>> import asyncio
        >>> from memforest.models.base import ChatRequest, Message
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
            `memforest.testing.local_reply` is one that answers by local rules.
        model_id: recorded with what is made from the replies.

    Example:
        >>> import asyncio
        >>> from memforest.models.base import ChatRequest, Message
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
