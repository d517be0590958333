"""Takes a question apart by rule: one part for each person that it puts beside another, and one for the event that it is relative to.

A table per language (`memforest/data/parts.toml`: English and Spanish) has the words that show it; a question in another language
is one part. What somebody did with another is one question, too. Source of scopes and coverage: H-Mem (arXiv 2605.15701) §3.3.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

from memforest.interval import EARLIEST
from memforest.language.entities import find_mentions
from memforest.language.language import detect_language
from memforest.language.operator import language_of
from memforest.plans import QuestionPlan, SubQuery, SubQueryScope
from memforest.text import lexical_tokens

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST = 5
"""Parts of a question at most; one that would have more is left whole."""
_OF_A_TIME = (
    "when",
    "current",
    "as_of",
    "predecessor",
    "successor",
    "first",
    "last",
    "since",
    "changed_back",
)
_OF_MANY = ("list", "sessions", "events")
_NO_PEOPLE = ("place", "organisation", "event", "product", "work", "date", "time", "thing")
_DOES = re.compile(r"\s+(?:does|do|did|is|was|has|had|can|will)\b", re.IGNORECASE)
_HELPS = re.compile(
    r"(?<!\w)(?:d(?:id|oes|o)|can|could|will|would|should|might|may|must)(?:n't)?(?!\w)", re.IGNORECASE
)
"""Behind such a verb the next one is the same for one as for several: "did they *do*", "did she *do*"."""
_POSSESSIVE = re.compile(r"['’]s(?!\w)")


@dataclass(frozen=True, slots=True)
class _Words:
    """What shows in one language how a question is made."""

    long: re.Pattern[str]
    short: re.Pattern[str]
    joiners: re.Pattern[str]
    both: re.Pattern[str]
    joint: re.Pattern[str]
    than: re.Pattern[str]
    when: str
    agree: Mapping[str, str]


class _Name(NamedTuple):
    """A name in a question, and where it stands."""

    text: str
    start: int
    end: int


@cache
def _tables() -> Mapping[str, _Words]:
    text = files("memforest.data").joinpath("parts.toml").read_text(encoding="utf-8")

    def any_of(some: Sequence[str]) -> str:
        return "|".join(some)

    return {
        code: _Words(
            long=_whole(any_of(table["long"])),
            short=re.compile(rf"(?<!\w)(?:{any_of(table['short'])})(?!\w)", re.IGNORECASE),
            joiners=re.compile(rf"\s*(?:{any_of(table['joiners'])})\s*", re.IGNORECASE),
            both=_whole(any_of(table["both"])),
            joint=re.compile(rf"(?<!\w)(?:{any_of(table['joint'])})", re.IGNORECASE),
            than=re.compile(rf"(?:,|(?<!\s))\s{{1,8}}(?:{any_of(table['than'])})\s{{1,8}}$", re.IGNORECASE),
            when=table["when"],
            agree=table["agree"],
        )
        for code, table in tomllib.loads(text).items()
    }


def _words_of(question: str) -> _Words | None:
    """Return the words of a question's language, told by the words for asking, else by all; None if there is no table."""
    return _tables().get(language_of(question) or detect_language(question))


def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)


def alone(plan: QuestionPlan, question: str) -> SubQuery:
    """Return a question as its only part."""
    return _part("1", " ".join(question.split()), plan)


def parts_of(
    plan: QuestionPlan, question: str, *, people: Collection[str] | None = None, most: int = MOST
) -> list[SubQuery]:
    """Return the parts of a question, each behind those it depends on; those of its plan if it has any.

    People who are named side by side, or compared, get a part each. What was before or after an event is asked for behind a part
    that asks for the event. Where there would be more than `most`, the question is its only part.

    Args:
        plan: that of the question.
        question: as it was typed, not blank.
        people: names in it that are people's, as they stand in the plan; None where nobody knows, and the words around tell.
        most: most parts.

    Raises:
        InputError: if the question is blank.

    Example:
        >>> plan = QuestionPlan(mentions=("Ana", "Bo"))
        >>> [one.text for one in parts_of(plan, "What do Ana and Bo both collect?")]
        ['What does Ana collect?', 'What does Bo collect?']
    """
    if plan.sub_queries and len(plan.sub_queries) <= most:
        return list(plan.sub_queries)
    text = " ".join(question.replace("’", "'").split())
    words = _words_of(text)
    if words is None:
        return [alone(plan, question)]
    anchor = _anchor(plan, words)
    texts = _of_each(text, _names(plan, text, people, words), words)
    parts = [] if anchor is None else [SubQuery("1", anchor, scope="short", coverage="one")]
    needs = tuple(one.id for one in parts)
    parts += [_part(str(at), one, plan, needs) for at, one in enumerate(texts, 1 + len(parts))]
    return parts if len(parts) <= most else [alone(plan, question)]


def scope_of(plan: QuestionPlan, question: str) -> SubQueryScope:
    """Return which memories answer a question: what was said, the texts about longer times, or both.

    ``"long"`` for what is usual or liked and how people get on, ``"short"`` for a time, a state and who or where; else ``"mixed"``.

    Example:
        >>> scope_of(QuestionPlan(), "Where does Ana work?"), scope_of(QuestionPlan(), "Where does Ana usually eat?")
        ('short', 'long')
    """
    words = _words_of(question)
    if plan.complexity == "complex" or (words is not None and words.long.search(question)):
        return "long"
    asks = words is not None and words.short.search(question) is not None
    return "short" if plan.kind in _OF_A_TIME or (asks and plan.kind == "simple") else "mixed"


def _part(id: str, text: str, plan: QuestionPlan, needs: tuple[str, ...] = ()) -> SubQuery:
    timed = plan.start is not None or plan.end is not None
    many = plan.kind in _OF_MANY or plan.complexity in ("hybrid", "complex")
    return SubQuery(
        id=id,
        text=text,
        depends_on=needs,
        scope=scope_of(plan, text),
        interval=(plan.start or EARLIEST, plan.end) if timed else None,
        coverage="global" if many else "one",
    )


# -- before and after -----------------------------------------------------------------------------


def _anchor(plan: QuestionPlan, words: _Words) -> str | None:
    """Return the question for the event that a question is relative to; None if it is relative to none, or to a name alone.

    Where the event's words name none of the question's entities, these stand in front of them.
    """
    operator = plan.operator
    if operator is None or operator.kind not in ("predecessor", "successor"):
        return None
    named = {token for name in plan.mentions for token in lexical_tokens(name)}
    told = set(lexical_tokens(operator.anchor))
    if not told - named:
        return None
    asked = words.when.format(operator.anchor)
    about = plan.entities and all(told.isdisjoint(lexical_tokens(name)) for name in plan.entities)
    return f"{', '.join(plan.entities)}: {asked}" if about else asked[0].upper() + asked[1:]


# -- side by side ---------------------------------------------------------------------------------


def _names(plan: QuestionPlan, text: str, people: Collection[str] | None, words: _Words) -> list[_Name]:
    """Return the people that a question names, in the order in which they stand in it."""
    found: list[_Name] = []
    for name in sorted(dict.fromkeys((*plan.mentions, *plan.entities)), key=len, reverse=True):
        if people is not None and name not in people:
            continue
        spelt = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)
        for part in () if spelt else name.split():  # "Ana" for "Ana Costa"
            spelt = spelt or (
                re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) if part[:1].isupper() else None
            )
        if spelt and not any(one.start < spelt.end() and spelt.start() < one.end for one in found):
            found.append(_Name(spelt[0], spelt.start(), spelt.end()))
    if people is None:
        kinds = {one.name: one.kind for one in find_mentions(text, participants={}, language="en")}
        found = [  # "compared to Bo" looks like a place
            one
            for one in found
            if kinds.get(one.text) not in _NO_PEOPLE or words.than.search(text[: one.start])
        ]
    return sorted(found, key=lambda one: one.start)


def _of_each(text: str, names: Sequence[_Name], words: _Words) -> list[str]:
    """Return the question about each of those whom it puts side by side; the question itself where it puts nobody so."""
    if len(names) < 2 or words.joint.search(text):
        return [text]
    group = _group(text, names, words)
    if len(group) > 1:
        start, end = group[0].start, group[-1].end
        return [_plain(_agreeing(text[:start], one.text, text[end:], words), words) for one in group]
    return _compared(text, names, words) or [text]


def _group(text: str, names: Sequence[_Name], words: _Words) -> list[_Name]:
    """Return the first people who stand side by side: "Ana and Bo", "Ana, Bo or Cy", "Ana's and Bo's"."""
    group = [names[0]]
    for one in names[1:]:
        between = _POSSESSIVE.sub("", text[group[-1].end : one.start])
        if words.joiners.fullmatch(between):
            group.append(one)
        elif len(group) > 1:
            break
        else:
            group = [one]
    return group


def _compared(text: str, names: Sequence[_Name], words: _Words) -> list[str]:
    """Return a comparison of two as the question about each: "Does Ana ski more than Bo?"."""
    for one, other in pairwise(names):
        found = words.than.search(text[: other.start])
        if found is None or found.start() < one.end:
            continue
        verb = _DOES.match(text, other.end)
        end = verb.end() if verb else other.end
        first = text[: found.start()] + text[end:]
        return [_plain(made, words) for made in (first, first[: one.start] + other.text + first[one.end :])]
    return []


def _agreeing(front: str, name: str, behind: str, words: _Words) -> str:
    """Return a sentence about one instead of several: the verb next to the name agrees with it."""
    if _POSSESSIVE.match(behind):
        return front + name + behind  # what they have may still be several
    front = re.sub(rf"(?:{words.both.pattern})\s*$", "", front, flags=re.IGNORECASE)
    before, after = re.search(r"([\w']+)\s*$", front), re.match(r"\s*([\w']+)", behind)
    if before is not None and before[1].lower() in words.agree:
        front = front[: before.start()] + _as(before[1], words) + " "
    elif after is not None and after[1].lower() in words.agree and not _HELPS.search(front):
        behind = f" {_as(after[1], words)}{behind[after.end() :]}"
    return front + name + behind


def _as(verb: str, words: _Words) -> str:
    made = words.agree[verb.lower()]
    return made.capitalize() if verb[0].isupper() else made


def _plain(text: str, words: _Words) -> str:
    """Return a sentence without words for both, and without blanks that they leave."""
    return re.sub(r" ([?.!,])", r"\1", " ".join(words.both.sub("", text).split()))
