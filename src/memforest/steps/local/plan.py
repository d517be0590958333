"""Plans a question by rule: whom it is about, which state it asks for, and which time operator it applies.

The operator is the one that the question's words show (`memforest.language.operator`), whatever they ask about. "before",
"first" or "last" stand in many questions about events as well, so the plan has the operator for its *kind* only where it
asks for a state of somebody's, too; else the kind is ``when``, ``list`` or ``simple``, and the operator is for an index that
looks whether its memory has a timeline that fits. Words are known of English, Spanish, French and German; a question in
another language gets a ``simple`` plan with its entities and window.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone, tzinfo

from memforest.calendar.question import QuestionTime, question_time
from memforest.language.language import load_word_lists
from memforest.language.operator import (
    asks_for_list,
    asks_how,
    asks_since,
    asks_when,
    language_of,
    read_operator,
)
from memforest.language.requests import asked_in
from memforest.language.telling import asked_state
from memforest.steps.local.mentions import MASK, MaskedQuestion, read_mentions
from memforest.steps.local.talk import as_talk
from memforest.steps.local.whose_words import asked_entities, read_asked
from memforest.steps.local.wording import with_wording
from memforest.text import words
from memforest.types import QuestionKind, QuestionPlan, TimeOperator

TimeReader = Callable[[str, datetime, tzinfo], QuestionTime]
"""Reads what a question, asked at a reference in a zone, says about time."""

_QUOTED = re.compile(r'"[^"]*"|“[^“”]*”|«[^«»]*»|「[^「」]*」')
_POSSESSOR = re.compile(rf"{MASK}'s \w+ (?={MASK})")
_OF_CHANGE = ("changed_back", "since", "predecessor", "successor", "last", "first")


class RulePlanner:
    """Plans questions without a model, deterministically."""

    name = "rule-planner-1"

    def __init__(self, *, zone: tzinfo = timezone.utc, window: TimeReader = question_time) -> None:
        """Make a planner.

        Args:
            zone: in which "last May" begins and ends.
            window: reads the dates of a question.
        """
        self._zone = zone
        self._window = window

    async def plan(self, question: str, *, reference: datetime, names: Mapping[str, str]) -> QuestionPlan:
        """Return the plan of a question; see `Planner.plan`."""
        return plan_question(question, reference=reference, names=names, zone=self._zone, window=self._window)


def plan_question(
    question: str,
    *,
    reference: datetime,
    names: Mapping[str, str],
    zone: tzinfo = timezone.utc,
    window: TimeReader = question_time,
) -> QuestionPlan:
    """Return the plan of a question.

    Args:
        question: as it was typed.
        reference: aware UTC; what "now" and "last month" are relative to.
        names: case-folded surface form -> display name.
        zone: in which days begin.
        window: reads the dates of a question.
    """
    question = asked_in(question)
    asked = read_mentions(question, names, _common_names())
    who = read_asked(asked, names, _language(question))
    time = window(asked.text, reference, zone)
    entities = asked_entities(asked, who, names)
    reading = _Reading(asked, entities, time)
    plan = replace(
        reading.plan(),
        start=time.window.start if time.window else None,
        end=time.window.end if time.window else None,
        as_of=time.as_of,
        dates=time.words,
        open_year=time.open_year,
        speakers=who.speakers,
        asker=who.asker,
    )
    plan = with_wording(plan, question, [name for name, _ in entities], asked.without(time.places), who.acts)
    return as_talk(plan, asked.masked)


def _language(question: str) -> str:
    """Return the language in which a question is read for whose words it asks: Spanish by any word that asks, else English."""
    asks = load_word_lists("es").lists["question_words"]
    spanish = "¿" in question or not asks.isdisjoint(words(question)) or language_of(question) == "es"
    return "es" if spanish else "en"


def _common_names() -> frozenset[str]:
    """Return words that are a name only with a capital inside the question."""
    return frozenset[str]().union(*(load_word_lists(code).lists["names_too"] for code in ("en", "es")))


@dataclass(frozen=True, slots=True)
class _Reading:
    """One question, its entities with their places, and what it says about time."""

    asked: MaskedQuestion
    entities: tuple[tuple[str, int], ...]
    time: QuestionTime

    def plan(self) -> QuestionPlan:
        """Return the plan, its time and its wording still to be filled in."""
        asked = _QUOTED.sub(lambda found: "\0" * len(found.group()), self.asked.text)
        operator = self._operator(asked) if self.entities else None
        start, end = self._anchor(operator)
        attribute = asked_state(self._main_clause(start, end), MASK) if self.entities else None
        kind = self._kind(asked, attribute, operator)
        return QuestionPlan(
            kind=kind,
            entities=self._kept(start, end),
            attribute=attribute if operator is not None else None,
            anchor=operator.anchor or None if operator is not None and kind == operator.kind else None,
            operator=operator,
        )

    def _operator(self, asked: str) -> TimeOperator | None:
        """Return the time operator that the question's words show."""
        found = read_operator(asked, dated=self.time.window is not None or self.time.as_of is not None)
        if found is None:
            return None
        return replace(found, begins=found.kind == "since" and not asks_since(asked), manner=asks_how(asked))

    def _kind(self, asked: str, attribute: str | None, operator: TimeOperator | None) -> QuestionKind:
        """Return the operator's kind where the question asks for a state, else whether it asks for a time or a list."""
        state = operator is not None and attribute is not None and not operator.manner
        if state and operator is not None and operator.kind in _OF_CHANGE:
            return operator.kind
        if asks_when(asked):
            return "last" if operator is not None and operator.kind == "last" else "when"
        if asks_for_list(asked):
            return "list"
        if state and operator is not None:
            return operator.kind
        return "as_of" if self.time.as_of and self.entities else "simple"

    def _anchor(self, operator: TimeOperator | None) -> tuple[int, int]:
        """Return where the text that a question is relative to stands; an empty stretch if it is relative to none."""
        anchor = (
            operator.anchor if operator is not None and operator.kind in ("predecessor", "successor") else ""
        )
        at = self.asked.text.find(anchor) if anchor else -1
        return (at, at + len(anchor)) if at >= 0 else (0, 0)

    def _main_clause(self, start: int, end: int) -> str:
        """Return the masked question with its anchor and its quotations blanked: "where did § live before      ?"."""
        masked = [
            " " if start <= origin < end else ch
            for ch, origin in zip(self.asked.masked, self.asked.origin, strict=False)
        ]
        return _QUOTED.sub(" ", "".join(masked))

    def _kept(self, start: int, end: int) -> tuple[str, ...]:
        """Return the entities that the question is about.

        One inside the anchor is none if there is another, nor is one who only says whose brother another is: "Bob's
        brother Tom".
        """
        whose = {self.asked.origin[found.start()] for found in _POSSESSOR.finditer(self.asked.masked)}
        outside = [(name, at) for name, at in self.entities if not start <= at < end]
        kept = [name for name, at in outside if at not in whose]
        return tuple(dict.fromkeys(kept or [name for name, _ in outside or self.entities]))
