"""What the words of a question say beyond its plan: everything that an index may want to look up in its memory."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from memforest.language.operator import gap_of, operator_words
from memforest.steps.local.complexity import complexity_of
from memforest.steps.local.mentions import MaskedQuestion
from memforest.steps.local.timeless import core_of
from memforest.text import lexical_tokens, lexical_words
from memforest.types import QuestionPlan

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
    return replace(
        plan,
        core=None if plan.operator is None else core_of(plan.operator.kind, undated.text),
        owners=tuple(name for name in plan.entities if f"{name}'s " in question or f"{name}’s " in question),
        mentions=mentions,
        topic=_topic(plan, spoken.text),
        gap=tuple(sorted(gap_of(question))),
        complexity=complexity_of(question, plan),
        keywords=tuple(dict.fromkeys(word for word, tokens in lexical_words(spoken.masked) if tokens)),
    )


def _is_name(found: re.Match[str]) -> bool:
    """Return whether a word may be a name by its capital: at the start of a sentence only in front of 's."""
    before, behind = found.string[: found.start()].rstrip(" \"'“”‘’«»([¿¡"), found.string[found.end() :]
    starts = not before or before[-1] in _ENDS
    capital = found.group()[0].isupper() and (not starts or behind.startswith(("'s", "’s")))
    return capital and bool(lexical_tokens(found.group()))


_ENDS = frozenset(".?!;。？！")


def _topic(plan: QuestionPlan, question: str) -> tuple[str, ...]:
    """Return the words for what a question asks about: without names, dates, numbers and words of change."""
    names = {token for name in plan.entities for token in lexical_tokens(name)}
    drop = names | operator_words(question)
    found: list[str] = []
    for word, tokens in lexical_words(question):
        kept = [token for token in tokens if token not in drop and not token.isdecimal()]
        found += [word] if kept and len(kept) == len(tokens) else kept  # of an unspaced script: its pieces
    return tuple(dict.fromkeys(found))
