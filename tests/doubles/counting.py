"""A chat model without a model that counts what it is asked, prompt by prompt."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from tests.doubles.replies import local_reply, prompt_of

from memforest.ports import ChatReply, ChatRequest
from memforest.text import count_tokens

_FIRST_TRY = 2


class CountingChat:
    """A `ChatModel` that answers by local rules, and counts its calls by prompt; it keeps no request.

    Args:
        function: gets the request and returns the text of the reply. What it raises, the call raises; it is counted before.
        delay_s: how long each call takes, in seconds.
        model_id: recorded with what is made from the replies.

    Example:
        >>> import asyncio
        >>> from memforest.reading.prompts import load_prompt
        >>> chat = CountingChat()
        >>> asked = ChatRequest("judge", load_prompt("judge").messages(questions=[]))
        >>> asyncio.run(chat.complete(asked)).text, dict(chat.calls), chat.repairs.total()
        ('{"verdicts":[]}', {'judge': 1}, 0)
    """

    def __init__(
        self,
        function: Callable[[ChatRequest], str] = local_reply,
        *,
        delay_s: float = 0.0,
        model_id: str = "counting",
    ) -> None:
        self.model_id = model_id
        self.calls: Counter[str] = Counter()
        """Id of the prompt (of another request: its step) -> calls that were begun, repairs among them."""
        self.repairs: Counter[str] = Counter()
        """Those of them that asked again because of an unusable reply."""
        self.most_in_flight = 0
        """Most calls that were under way at once."""
        self._in_flight = 0
        self._function = function
        self._delay_s = delay_s

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply, and count the call."""
        prompt = prompt_of(request) or request.step
        self.calls[prompt] += 1
        self.repairs[prompt] += len(request.messages) > _FIRST_TRY
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            text = self._function(request)
            await asyncio.sleep(self._delay_s)
        finally:
            self._in_flight -= 1
        tokens = sum(count_tokens(message.content) for message in request.messages)
        return ChatReply(text, prompt_tokens=tokens, completion_tokens=count_tokens(text))
