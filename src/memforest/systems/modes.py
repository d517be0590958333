"""The modes of a query, and the parts of a browse plan that are used (paper §4.3, §6.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast, get_args

from memforest.config import MODES
from memforest.errors import (
    BudgetError,
    ConfigError,
    ModelRequestError,
    ModelUnavailableError,
    StepError,
)
from memforest.steps.choose import Steps
from memforest.text import cut, lexical_tokens
from memforest.types import BrowsePlan, QuestionKind, QuestionPlan, TimeOperator

FALLS_BACK = (StepError, ModelUnavailableError, ModelRequestError, BudgetError)
"""What a call of a step may end in without anything being wrong with the others."""
KINDS = frozenset(get_args(QuestionKind))
MOST_QUERIES = 3
"""Most sub-queries of one tree: a comparison has two sides, a transition two and the event between."""
QUERY_CHARS = 500
"""A longer sub-query is cut: it is a text to compare with summaries, not a program."""


def choose_mode(asked: str | None, steps: Steps) -> str:
    """Return the mode of a query: the one asked for, else the most guided one that the steps allow.

    Raises:
        ConfigError: if the mode needs a model and there is none.
    """
    able = {"+planner": steps.guide is not None, "llm": steps.browser is not None}
    if asked is None:
        return ("llm" if able["llm"] else "emb") + ("+planner" if able["+planner"] else "")
    if asked not in MODES:
        raise ConfigError(f"mode={asked!r}: give one of {', '.join(MODES)}")
    lacks = [
        step for part, step in (("+planner", "plan"), ("llm", "browse")) if part in asked and not able[part]
    ]
    if lacks:
        raise ConfigError(
            f"mode={asked!r} needs a chat model for {' and '.join(map(repr, lacks))}: give "
            "Config(chat=ChatEndpoint('MODEL', base_url='http://HOST/v1')) or set MEMFOREST_CHAT_MODEL, with these "
            "steps in chat_steps; mode='emb' needs none"
        )
    return asked


def sub_queries(made: BrowsePlan, question: str, trees: int) -> list[tuple[str, ...]]:
    """Return the sub-queries of each tree as they are used: bounded, each once; the question where there is none.

    Raises:
        StepError: if the plan is not one of that many trees.
    """
    if len(made.queries) != trees:
        raise StepError(f"the plan has sub-queries for {len(made.queries)} of {trees} trees")
    found = []
    for own in made.queries:
        kept = dict.fromkeys(text for query in own if (text := cut(" ".join(query.split()), QUERY_CHARS)))
        found.append(tuple(kept)[:MOST_QUERIES] or (question,))
    return found


def adopted(plan: QuestionPlan, made: BrowsePlan, question: str) -> QuestionPlan:
    """Return the plan with the fields that a browse planner adds; fields that the plan has are kept.

    A kind is taken where the plan has none, an anchor where it has none and all its words are the question's. A kind
    that is taken decides on the time operator, too.
    """
    if plan.anchor is None and made.anchor is not None:
        words = set(lexical_tokens(made.anchor))
        if words and words <= set(lexical_tokens(question)):
            plan = replace(plan, anchor=made.anchor)
    if plan.kind == "simple" and made.kind in KINDS:
        plan = replace(plan, kind=cast("Any", made.kind))
        plan = replace(plan, operator=_decided(plan))
    return plan


def _decided(plan: QuestionPlan) -> TimeOperator | None:
    """Return the time operator of a plan whose kind was adopted; what the plan's operator of the same kind knows is kept."""
    sure, read = plan.kind_operator, plan.operator
    if sure is None or read is None or read.kind != sure.kind:
        return sure or read
    return replace(read, anchor=read.anchor or sure.anchor)
