"""The model-shaped steps as ports; each has a local implementation, chosen once from the config.

Every port takes a batch, so that a local implementation can loop in one worker thread and a remote one
can have the whole batch in flight. A step never raises for one bad input of a batch: it returns a
failure in that input's place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memforest.errors import ModelError
from memforest.types import (
    BrowsePlan,
    Chunk,
    ChunkOutcome,
    Equivalence,
    QuestionPlan,
    SummaryRequest,
    TreeCard,
)

__all__ = [
    "QUESTION_CHARS",
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


QUESTION_CHARS = 2_000
"""Characters of a question that are read; a longer one is cut where it comes in, so that all steps see the same."""


class Extractor(Protocol):
    """Turns chunks into candidate statements (paper §4.1)."""

    name: str
    """Name and version, recorded with what it made, e.g. ``"local-1"``."""

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Return one outcome per chunk, in order."""
        ...


class Judge(Protocol):
    """Says whether statements that are near each other are one fact (paper §4.1)."""

    name: str

    async def judge(self, questions: Sequence[Equivalence]) -> list[int | None]:
        """Return per question which of the known statements says the same as the new one, or None for none.

        What cannot be judged is None: a missed merge costs a line of context, a false one destroys a memory.
        """
        ...


class Kept(str):
    """A summary that is the children's texts, as they are: they were short enough to keep."""

    __slots__ = ()


class Summariser(Protocol):
    """Summarises inner nodes from their children (paper Alg. 1)."""

    name: str

    async def summarise(self, requests: Sequence[SummaryRequest]) -> Sequence[str | ModelError]:
        """Return one summary per request, in order, with an error in the place of one that could not be made.

        A node whose summary failed stays dirty, and so does all above it. One that is `Kept` needs no embedding inside
        a tree: its vector is the mean of its children's.
        """
        ...


class Planner(Protocol):
    """Reads a question: which entities, which attribute, which time operator."""

    name: str

    async def plan(self, question: str, *, reference: datetime, names: Mapping[str, str]) -> QuestionPlan:
        """Return the plan of a question.

        Args:
            question: as the user typed it.
            reference: aware UTC; what "now" and "last month" are relative to.
            names: every surface form the memory knows (case-folded) -> the entity's display name.
        """
        ...


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


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """One ranked piece of evidence as an answerer sees it. Times are aware UTC; `speaker` said the quote.

    A summary has neither speaker nor quote: `turns` is how many turns it sums up, from `start` to `end`.
    """

    text: str
    quote: str
    said: datetime
    start: datetime | None = None
    end: datetime | None = None
    score: float = 0.0
    speaker: str = ""
    turns: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with the indices of the evidence it rests on; `text` is None when it abstains."""

    text: str | None
    cited: tuple[int, ...] = ()
    reason: str = ""


class Answerer(Protocol):
    """Answers a question from ranked evidence, or abstains."""

    name: str

    async def answer(
        self, question: str, *, plan: QuestionPlan, reference: datetime, evidence: Sequence[AnswerEvidence]
    ) -> Answer:
        """Return an answer that cites its evidence, or one whose text is None.

        Raises:
            StepError: if there is no usable answer; the local answerer then answers.
        """
        ...
