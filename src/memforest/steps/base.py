"""The model-shaped steps as ports, beside those of `memforest.ports` that `Config` takes; chosen once from the config.

Every port takes a batch, so that a local implementation can loop in one worker thread and a remote one
can have the whole batch in flight. A step never raises for one bad input of a batch: it returns a
failure in that input's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from memforest.ports import Answer, Answerer, AnswerEvidence, Extractor, Planner, Summariser
from memforest.types import BrowsePlan, Equivalence, QuestionPlan, TreeCard

__all__ = [
    "Answer",
    "AnswerEvidence",
    "Answerer",
    "BrowsePlanner",
    "Browser",
    "Extractor",
    "Judge",
    "Kept",
    "Planner",
    "Summariser",
]


class Judge(Protocol):
    """Says whether statements that are near each other are one fact (paper §4.1)."""

    name: str

    async def judge(self, questions: Sequence[Equivalence]) -> list[int | None]:
        """Return per question which of the known statements says the same as the new one, or None for none.

        What cannot be judged is None: a missed merge costs a line of context, a false one destroys a memory.
        """
        ...


class Kept(str):
    """A summary made of the children's texts, unchanged because they are short.

    A node with such a summary needs no embedding inside a tree: its vector is the mean of its children's.
    """

    __slots__ = ()


class BrowsePlanner(Protocol):
    """Says what to look for in each of the recalled trees (paper §4.3)."""

    name: str

    async def plan_browse(
        self, question: str, *, plan: QuestionPlan, reference: datetime, trees: Sequence[TreeCard]
    ) -> BrowsePlan:
        """Return the sub-queries of each tree.

        Raises:
            StepError: if there is no usable plan; the trees are then browsed by the question itself.
        """
        ...


class Browser(Protocol):
    """Chooses where to go down in a tree (paper §4.3, LLM-guided browse)."""

    name: str

    async def choose(
        self, query: str, *, reference: datetime, children: Sequence[TreeCard], most: int
    ) -> list[int]:
        """Return the positions of the promising children, best first, at most `most`; none when none is.

        Raises:
            StepError: if there is no usable choice; the tree is then browsed by embedding.
        """
        ...
