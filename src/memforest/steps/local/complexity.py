"""How much of a memory a question needs, by its words: one recorded fact, several put together, or a judgement over many.

A table per language (`memforest/data/complexity.toml`) has the words that ask for more than one fact. Source of the three
classes: TiMem (arXiv 2601.02845) §3.3.1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from memforest.language.operator import language_of
from memforest.types import Complexity, QuestionPlan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_AS_TABLED = ("complex", "hybrid")


@cache
def _tables() -> Mapping[str, Mapping[str, re.Pattern[str]]]:
    """Return the patterns by language and complexity."""
    text = files("memforest.data").joinpath("complexity.toml").read_text(encoding="utf-8")
    return {
        code: {
            name: re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)
            for name, patterns in table.items()
        }
        for code, table in tomllib.loads(text).items()
    }


def complexity_of(question: str, plan: QuestionPlan) -> Complexity | None:
    """Return how much of a memory a question needs, as far as its words and its kind say.

    A list, a count, a comparison and a course of change are put together of several facts; what somebody is like, prefers or
    would do, and what is good for them, is a judgement. A time and a state are one fact. Of another question the rules cannot
    tell.

    Args:
        question: as it was typed.
        plan: with its kind.

    Example:
        >>> complexity_of("What kind of person is Ana?", QuestionPlan())
        'complex'
        >>> complexity_of("How many lamps did Ana buy?", QuestionPlan())
        'hybrid'
        >>> complexity_of("Who is Ana?", QuestionPlan()) is None
        True
    """
    text = " ".join(question.replace("’", "'").split())
    table = _tables().get(language_of(question) or "en", {})
    for name in _AS_TABLED:
        if name in table and table[name].search(text):
            return "complex" if name == "complex" else "hybrid"
    if plan.kind == "list":
        return "hybrid"
    return None if plan.kind == "simple" else "simple"
