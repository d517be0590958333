"""Placing by a chat model (port `Placer`): which stretch of a conversation does an exchange go on?

Source: SegTreeMem (arXiv 2606.04555), §4.2: the frontier of the tree is asked about bottom-up, a call each, or as a whole in
one call. The prompts are our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from memforest.models.calls import Calls
from memforest.steps.llm.prompt import Prompt, load_prompt
from memforest.steps.llm.replies import choice_among
from memforest.steps.llm.shown import head_and_tail
from memforest.steps.llm.structured import ask
from memforest.text import shorten_runs
from memforest.types import PlaceRequest

Way = Literal["pointwise", "batch"]
"""``"pointwise"`` asks about one candidate after the other, the narrowest first, and takes the first that fits; ``"batch"``
asks about all of them in one call."""
WAYS: tuple[Way, ...] = get_args(Way)

MAX_TOKENS = 512
TEXT_CHARS = 4_000
"""Most characters shown of the exchange, and of a candidate: of a longer text, head and tail."""
ALL_CHARS = 32_000
"""Most characters shown of all candidates of a call, some 8,000 tokens; with more than eight each has its part of them."""
_SPLIT = "SPLIT"


class ChatPlacer:
    """Asks a chat model which stretch of a conversation an exchange belongs to.

    A candidate is shown by its text alone, as data; so is the exchange.

    Args:
        calls: the way to the model.
        way: how it is asked.
    """

    remote = True

    def __init__(self, calls: Calls, way: Way = "pointwise") -> None:
        self._calls = calls
        self._way = way
        self._prompt: Prompt[Any] = load_prompt(f"place_{way}")
        self.name = self._prompt.maker(calls.model_id)

    async def place(self, request: PlaceRequest) -> int | None:
        """Return the position of the candidate that the exchange belongs to, from 0; None if the model finds none.

        Without candidates nothing is asked.

        Raises:
            ReplyError: if the model's replies are unusable, also the one that was asked for again.
            BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
        """
        if not request.candidates:
            return None
        exchange = [{"text": _shown(request.text, TEXT_CHARS)}]
        if self._way == "batch":
            return await self._one_of(exchange, request.candidates)
        for at, candidate in enumerate(request.candidates):
            if await self._goes_on(exchange, candidate):
                return at
        return None

    async def _goes_on(self, exchange: Sequence[dict[str, str]], candidate: str) -> bool:
        values = {"stretch": [{"text": _shown(candidate, TEXT_CHARS)}], "exchange": exchange}
        reply = await ask(self._calls, self._prompt, values, max_tokens=MAX_TOKENS)
        return bool(reply.decision == "MERGE")

    async def _one_of(self, exchange: Sequence[dict[str, str]], candidates: Sequence[str]) -> int | None:
        chars = min(TEXT_CHARS, ALL_CHARS // len(candidates))
        labels = [f"MERGE_{number}" for number in range(1, len(candidates) + 1)]
        rows = [
            {"label": label, "text": _shown(text, chars)}
            for label, text in zip(labels, candidates, strict=True)
        ]
        values = {"stretches": rows, "exchange": exchange}
        form = choice_among(len(candidates))
        reply = await ask(self._calls, self._prompt, values, max_tokens=MAX_TOKENS, form=form)
        return None if reply.decision == _SPLIT else labels.index(reply.decision)


def _shown(text: str, chars: int) -> str:
    return head_and_tail(shorten_runs(text), chars)
