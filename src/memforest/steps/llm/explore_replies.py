"""The replies of a model that takes a question apart, reasons about its parts, and sums up what is known of an entity."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field

from memforest.plans import SubQueryScope
from memforest.steps.llm.replies import Items, MaybeText, Reply

Coverage = Literal["one", "global"]


def _scope(value: Any) -> Any:
    """Return a scope as it is spelt; what is none is all of them."""
    folded = value.strip().lower() if isinstance(value, str) else ""
    return folded if folded in get_args(SubQueryScope) else "mixed"


def _coverage(value: Any) -> Any:
    return "global" if isinstance(value, str) and value.strip().lower() == "global" else "one"


class PlannedPart(Reply):
    """One of the questions that a question is made of; `when`, `start` and `end` are for its time, in words and as days."""

    id: str
    text: str
    depends_on: Items[str] = Field(default_factory=list)
    scope: Annotated[SubQueryScope, BeforeValidator(_scope)] = "mixed"
    when: MaybeText = None
    start: MaybeText = None
    end: MaybeText = None
    coverage: Annotated[Coverage, BeforeValidator(_coverage)] = "one"


class QuestionParts(Reply):
    """Reply of the step "plan" about a question that is to be taken apart."""

    queries: Items[PlannedPart]


class Reasoning(Reply):
    """Reply of the step "answer" about one part of a question: its answer, or what is missing and how to ask for it."""

    answer: MaybeText = None
    missing: MaybeText = None
    query: MaybeText = None


class SourcedLine(Reply):
    """A line with the numbers of the lines that it was made of."""

    text: str
    sources: Items[int]


class EntityFile(Reply):
    """Reply of the step "summarise" about an entity: what is lasting, and what is recent."""

    lasting: Items[SourcedLine]
    recent: Items[SourcedLine]
