"""Planning a browse with a chat model (port `BrowsePlanner`): one call gives sub-queries for every recalled tree."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from memforest.models.calls import Calls
from memforest.steps.llm.prompt import Prompt, load_prompt
from memforest.steps.llm.replies import BrowseGuide
from memforest.steps.llm.shown import shown_cards, shown_day
from memforest.steps.llm.structured import ask
from memforest.types import BrowsePlan, QuestionPlan, TreeCard

MAX_TOKENS = 2_048
SUMMARY_CHARS = 700
"""Characters shown of a root's summary: enough to say what the tree holds (reference configuration: 220)."""
MOST_QUERIES = 2
"""Sub-queries of a tree that the prompt asks for at most."""


class ChatGuide:
    """Asks a chat model what to look for in each recalled tree.

    Args:
        calls: the way to the model.
        timezone: whose days the model is shown: a name or a tzinfo.
    """

    def __init__(self, calls: Calls, *, timezone: str | tzinfo = "UTC") -> None:
        self._calls = calls
        self._zone = ZoneInfo(timezone) if isinstance(timezone, str) else timezone
        self._prompt: Prompt[BrowseGuide] = load_prompt("plan")
        self.name = self._prompt.maker(calls.model_id)

    async def plan_browse(
        self, question: str, *, plan: QuestionPlan, reference: datetime, trees: Sequence[TreeCard]
    ) -> BrowsePlan:
        """Return the sub-queries of each tree; a tree that the model passed over gets the question itself.

        Raises:
            ReplyError: if the model's replies are unusable.
            BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
        """
        asked = {"question": question, "today": shown_day(reference, self._zone)}
        values = {
            "question": [asked | ({"about": list(plan.entities)} if plan.entities else {})],
            "trees": shown_cards(trees, self._zone, number="tree", chars=SUMMARY_CHARS, scope=True),
        }
        reply = await ask(self._calls, self._prompt, values, max_tokens=MAX_TOKENS)
        queries: dict[int, tuple[str, ...]] = {}
        for one in reply.trees:
            wanted = tuple(text for query in one.queries if (text := query.strip()))[:MOST_QUERIES]
            if wanted:
                queries.setdefault(one.tree, wanted)
        return BrowsePlan(
            tuple(queries.get(number, (question,)) for number in range(1, len(trees) + 1)),
            kind=None if reply.kind is None else reply.kind.lower(),
            anchor=reply.anchor,
        )
