"""What the words of a question say beyond its plan: everything that an index may want to look up in its memory.

The planner names a time operator only when it also knows the attribute. The operator here is the one that the words
show (`memforest.language.operator`), for an index that looks whether its memory has a timeline that fits. Operators
are of the languages with a table, nouns English; names, topic and keywords are of every language.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from memforest.language.lexicon import load_lexicon
from memforest.language.operator import asks_how, asks_since, gap_of, operator_words, read_operator
from memforest.steps.local.mentions import MaskedQuestion
from memforest.steps.local.timeless import core_of
from memforest.text import lexical_tokens, lexical_words
from memforest.types import Complexity, QuestionPlan, TimeOperator

__all__ = ["with_wording"]

_NAME_WORD = re.compile(r"(?<!\w)[^\W\d_a-z][\w-]*")


def with_wording(
    plan: QuestionPlan,
    question: str,
    named: Sequence[str],
    undated: MaskedQuestion,
    acts: Collection[str],
) -> QuestionPlan:
    """Return a plan with what the words of its question say beyond it.

    Args:
        plan: with everything else.
        question: as it was typed.
        named: display names of all entities that it mentions, in order.
        undated: the question with its dates blanked.
        acts: its words for acts of speech (lower case), which only say who told it.
    """
    spoken = undated.without((), acts)
    known = spoken.named
    capitals = (
        found.group()
        for found in _NAME_WORD.finditer(spoken.text)
        if found.start() not in known and _is_name(found)
    )
    mentions = tuple(dict.fromkeys((*named, *capitals)))
    operator = _operator(plan, question)
    return replace(
        plan,
        operator=operator,
        core=None if operator is None else core_of(operator.kind, undated.text),
        owners=tuple(name for name in plan.entities if f"{name}'s " in question or f"{name}’s " in question),
        mentions=mentions,
        topic=_topic(plan, spoken.text),
        topic_attribute=_named_attribute(plan, question),
        gap=tuple(sorted(gap_of(question))),
        complexity=_complexity(plan),
        keywords=tuple(dict.fromkeys(word for word, tokens in lexical_words(spoken.masked) if tokens)),
    )


def _is_name(found: re.Match[str]) -> bool:
    """Return whether a word may be a name by its capital: at the start of a sentence only in front of 's."""
    before, behind = found.string[: found.start()].rstrip(" \"'“”‘’«»([¿¡"), found.string[found.end() :]
    starts = not before or before[-1] in _ENDS
    capital = found.group()[0].isupper() and (not starts or behind.startswith(("'s", "’s")))
    return capital and bool(lexical_tokens(found.group()))


_ENDS = frozenset(".?!;。？！")


def _operator(plan: QuestionPlan, question: str) -> TimeOperator | None:
    """Return the time operator of a question about somebody: the plan's, unless the words show another one."""
    if not plan.entities:
        return None
    dated = plan.start is not None or plan.end is not None or plan.as_of is not None
    read = read_operator(question, dated=dated and plan.kind not in ("current", "since"))
    sure = plan.kind_operator
    if sure is not None and (read is None or (read.kind == sure.kind and not read.anchor)):
        read = sure
    if read is None:
        return None
    return replace(
        read,
        begins=read.kind == "since" and not asks_since(question),
        manner=asks_how(question),
    )


def _topic(plan: QuestionPlan, question: str) -> tuple[str, ...]:
    """Return the words for what a question asks about: without names, dates, numbers and words of change."""
    names = {token for name in plan.entities for token in lexical_tokens(name)}
    drop = names | load_lexicon("en").cue_words["date_words"] | operator_words(question)
    found: list[str] = []
    for word, tokens in lexical_words(question):
        kept = [token for token in tokens if token not in drop and not token.isdecimal()]
        found += [word] if kept and len(kept) == len(tokens) else kept  # of an unspaced script: its pieces
    return tuple(dict.fromkeys(found))


def _named_attribute(plan: QuestionPlan, question: str) -> str | None:
    """Return the listed attribute that the first of a question's nouns names, unless the plan has one."""
    lexicon = load_lexicon("en")
    if plan.attribute in lexicon.attributes:
        return None
    words = re.findall(r"[\w'-]+", question.lower())
    pairs = [" ".join(pair) for pair in pairwise(words)]
    return next((lexicon.nouns[term] for term in (*pairs, *words) if term in lexicon.nouns), None)


def _complexity(plan: QuestionPlan) -> Complexity | None:
    """Return how much of a memory a question needs, as far as its kind says.

    A list is put together of several facts, a time and a state are one. Of another question the rules cannot tell whether
    a fact answers it or a judgement.
    """
    if plan.kind == "list":
        return "hybrid"
    return None if plan.kind == "simple" else "simple"
