"""Choosing the way down a tree by a chat model (port `Browser`, paper §4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from memforest.limits import QUESTION_CHARS
from memforest.models.calls import Calls
from memforest.steps.llm.prompt import Prompt, load_prompt
from memforest.steps.llm.replies import BrowseChoice
from memforest.steps.llm.shown import shown_cards, shown_day
from memforest.steps.llm.structured import ask
from memforest.text import cut
from memforest.types import TreeCard

MAX_TOKENS = 512
TEXT_CHARS = 2_500
"""Most characters shown of a node: 400 words, which is what nodes keep of their children's texts."""
ALL_CHARS = 30_000
"""Most characters shown of all nodes of a call, some 7,500 tokens."""


class ChatBrowser:
    """Asks a chat model which children of a node are worth going down to.

    Args:
        calls: the way to the model.
        timezone: whose days the model is shown: a name or a tzinfo.
    """

    def __init__(self, calls: Calls, *, timezone: str | tzinfo = "UTC") -> None:
        self._calls = calls
        self._zone = ZoneInfo(timezone) if isinstance(timezone, str) else timezone
        self._prompt: Prompt[BrowseChoice] = load_prompt("browse")
        self.name = self._prompt.maker(calls.model_id)

    async def choose(
        self, query: str, *, reference: datetime, children: Sequence[TreeCard], most: int
    ) -> list[int]:
        """Return the positions of the promising children, best first; none when the model finds none.

        Raises:
            ReplyError: if the model's replies are unusable.
            BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
        """
        if not children:
            return []
        sought = {
            "looking_for": query[:QUESTION_CHARS],
            "today": shown_day(reference, self._zone),
            "tree": f"{children[0].kind} {cut(children[0].label, 80)}",
            "most": most,
        }
        chars = max(1, min(TEXT_CHARS, ALL_CHARS // len(children)))
        values = {
            "search": [sought],
            "nodes": shown_cards(children, self._zone, number="node", chars=chars, scope=False),
        }

        def known(reply: BrowseChoice) -> list[int]:
            return [one - 1 for one in dict.fromkeys(reply.ranked) if 1 <= one <= len(children)]

        def problem(reply: BrowseChoice) -> str | None:
            if reply.ranked and not known(reply):
                return f"ranked: there are nodes 1 to {len(children)} only"
            return None

        reply = await ask(self._calls, self._prompt, values, max_tokens=MAX_TOKENS, check=problem)
        return known(reply)[:most]
