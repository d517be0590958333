"""Recognises a question about a time as a whole: "What did we talk about last week?", "What happened on 4 May?".

Such a question shares no word with its answer. It is told by what is left of it without names and dates: nothing but
words of talking or happening, and words without content. Which words those are is a table per language.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from memforest.steps.local.mentions import MASK
from memforest.text import fold, strip_accents
from memforest.types import QuestionKind, QuestionPlan, TimeOperator

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_APOSTROPHES = re.compile("['’ʼ]")


def without_dates(text: str, dates: Iterable[str]) -> str:
    """Return a text with the first of each of the given stretches taken out, whatever their case.

    >>> without_dates("Did Ana bake on 4 March?", ["4 March"])
    'Did Ana bake on  ?'
    """
    for date in dates:
        text = re.sub(re.escape(date), " ", text, count=1, flags=re.IGNORECASE)
    return text


def as_talk(plan: QuestionPlan, masked: str) -> QuestionPlan:
    """Return a plan as one of the kind ``sessions`` or ``events`` if its question is one, else as it is.

    Args:
        plan: with its window and the stretches that name it.
        masked: the question with `MASK` for each name.
    """
    dated = plan.start is not None or plan.end is not None
    text = strip_accents(fold(_APOSTROPHES.sub(" ", without_dates(masked, plan.dates).replace(MASK, " "))))
    for table in _tables():
        if any(ch.isalnum() for ch in table.all.sub(" ", text)):
            continue
        if table.talk.search(text):
            end = "first" if table.first.search(text) else "last" if table.last.search(text) else None
            if dated or end:
                operator = TimeOperator("first" if end == "first" else "last") if end else None
                return _about(plan, "sessions", operator)
        elif dated and table.happen.search(text):
            return _about(plan, "events", None)
    return plan


def _about(plan: QuestionPlan, kind: QuestionKind, operator: TimeOperator | None) -> QuestionPlan:
    """Return a plan of a kind that asks for no topic and no attribute."""
    return replace(
        plan,
        kind=kind,
        operator=operator,
        attribute=None,
        anchor=None,
        topic=(),
        keywords=(),
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """The words of one language, each set as a pattern."""

    talk: re.Pattern[str]
    happen: re.Pattern[str]
    first: re.Pattern[str]
    last: re.Pattern[str]
    all: re.Pattern[str]


@cache
def _tables() -> Sequence[_Table]:
    raw = tomllib.loads(files("memforest.data").joinpath("talk.toml").read_text(encoding="utf-8"))
    return tuple(map(_table, raw.values()))


def _table(raw: dict[str, Any]) -> _Table:
    frame = r"(?<!\w)(?:%s)(?!\w)" if raw.pop("spaces", True) else "(?:%s)"
    words = {name: text.split() for name, text in raw.items()}
    words["all"] = [word for part in words.values() for word in part]
    return _Table(
        **{name: re.compile(frame % _any_of(part)) for name, part in words.items() if name != "rest"}
    )


def _any_of(words: Iterable[str]) -> str:
    """Return a pattern of words, the longest first."""
    return "|".join(re.escape(word).replace(r"\-", r"\W+") for word in sorted(words, key=len, reverse=True))
