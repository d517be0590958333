"""Answering questions about change by time order instead of similarity.

"Where did Bob live before Miami?" wants the value in front of Miami, which is neither the most similar nor
the most recent statement. The states of an entity form a timeline per attribute, whether the entity has a
tree or not; the question's kind says which segment answers it. When no state is known, the entity's
time-ordered mentions are read instead: the anchor is the leaf nearest to the event that the question
names, and the answer is looked for on the right side of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from memforest.facts.timeline import Segment, same_value
from memforest.language.telling import holds_many
from memforest.ranking import Scores, standardise
from memforest.search.lexical import bm25
from memforest.search.snapshot import Snapshot
from memforest.search.texts import question_tokens
from memforest.store.tx import Tx
from memforest.systems.base import Search
from memforest.systems.memforest.threads import Choice, Thread, choose_kinds, find_thread
from memforest.systems.memforest.topic import Topic
from memforest.systems.memforest.vocabulary import vocabulary
from memforest.systems.states import Timelines, timelines
from memforest.text import entity_key, lexical_tokens
from memforest.types import QuestionPlan, TimeOperator


@dataclass(frozen=True, slots=True)
class Answer:
    """The facts (rows) that answer a question about change, and why; empty when it is none.

    `in_order` says that the first of them answers best; else the one nearest the question does. `within` is how many places
    down the ranking by relevance the best placed of their turns may stand; None: any. With a `day`, a stretch of time in
    ms, none of them leads when the most relevant turn was said within it. `sure`: values of the kind that is asked for are
    told to take each other's place, this one among them.
    """

    facts: tuple[int, ...] = ()
    why: str = ""
    in_order: bool = False
    start_ms: int | None = None
    end_ms: int | None = None
    within: int | None = None
    day: tuple[int, int] | None = None
    sure: bool = False

    def turns_within(self, snapshot: Snapshot, turns: NDArray[np.int64]) -> list[int]:
        """Return the turns that support a fact within the time that is asked about; all if none does.

        The same words may have been said again in another time: "I live in Davis", and after years away once more.
        """
        said = snapshot.turns.said_ms[turns]
        start = self.start_ms if self.start_ms is not None else int(said.min())
        inside = (said >= start) & (said < self.end_ms if self.end_ms is not None else True)
        found: list[int] = turns[inside].tolist()
        return found or turns.tolist()


def answering_facts(tx: Tx, snapshot: Snapshot, request: Search, dense: Scores) -> Answer:
    """Return the facts that answer a question about change.

    Empty when the question is not about change, or nothing is known of what it asks about.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        request: the question.
        dense: cosine of every fact to the question, shape (m,); zeros without an embedder.
    """
    plan = request.plan
    operator = _operator(plan)
    if operator is None:
        return Answer()
    asked = replace(plan, kind=operator.kind, anchor=operator.anchor or None)
    at = request.as_of_ms if request.as_of_ms is not None else _asked_at(request, asked)
    lexical = _lexical(tx, snapshot, request)
    topic = Topic("", dense, lexical, operator.anchor, plan.attribute, plan.gap)
    perhaps = Answer()
    for name in _whose(tx, snapshot, plan):
        answer = _of_threads(tx, snapshot, plan, operator, replace(topic, who=name), at)
        if answer.sure:
            return answer
        perhaps = perhaps if perhaps.facts else answer
    told = _of_states(snapshot, plan, at)
    return told if told.facts else perhaps


def _of_threads(
    tx: Tx, snapshot: Snapshot, plan: QuestionPlan, operator: TimeOperator, topic: Topic, at: int
) -> Answer:
    """Return the facts of the likeliest kind of one person that has an answer."""
    asked = replace(plan, kind=operator.kind, anchor=operator.anchor or None)
    for choice in choose_kinds(tx, snapshot, topic):
        thread = find_thread(tx, snapshot, choice) if _fits(plan, operator, choice) else None
        if thread is not None and _turns(plan, operator, choice, thread):
            answer = _of_thread(snapshot, choice, thread, asked, at)
            if answer.facts:
                return answer
    return Answer()


def _whose(tx: Tx, snapshot: Snapshot, plan: QuestionPlan) -> Sequence[str]:
    """Return the people that a question is about: the plan's, else those it mentions, else any entity."""
    people = vocabulary(tx, snapshot).people
    for names in (plan.owners, plan.entities, sorted(plan.mentions)):
        if known := [name for name in names if name in people]:
            return known
    return plan.entities


def _fits(plan: QuestionPlan, operator: TimeOperator, choice: Choice) -> bool:
    """Return whether the timeline of a kind may answer a question; told before the timeline is read.

    "before", "first" and a date stand in many questions about events, which similarity answers better.
    """
    if operator.manner or (plan.kind == "when" and operator.kind == "as_of"):  # "When did Ana ... in August?"
        return False
    if _is_relative(operator) and not any(value in operator.anchor.lower() for value in choice.values):
        return False
    return choice.nearness >= NEAR_ENOUGH or _is_sure(plan, choice)


def _is_relative(operator: TimeOperator) -> bool:
    return bool(operator.anchor) and operator.kind in ("since", "predecessor", "successor")


def _is_asked(plan: QuestionPlan, choice: Choice) -> bool:
    return plan.attribute is None or plan.attribute in choice.attributes


def _is_sure(plan: QuestionPlan, choice: Choice) -> bool:
    """Return whether a question is plainly one for a state, and the kind one whose values hold by turns."""
    return plan.kind in _CHOICES and (bool(choice.replaced) or (choice.by_turns and _is_asked(plan, choice)))


def _turns(plan: QuestionPlan, operator: TimeOperator, choice: Choice, thread: Thread) -> bool:
    """Return whether a timeline has the value that a question is relative to, and values that held by turns."""
    anchor, had = operator.anchor.lower(), {segment.value for segment in thread.segments}
    if _is_relative(operator) and not any(value in anchor for value in had):
        return False
    sure = choice.by_turns and len(had) > 1
    if sure and _is_sure(plan, choice):
        return True
    if choice.nearness < NEAR_ENOUGH or len(had) < 2:
        return False
    shown = plan.core is not None and operator.kind != "as_of"
    return sure or (len(had) <= MOST_VALUES and (shown or thread.changes >= CHANGES * len(had)))


WITHIN_STATE, WITHIN_CHANGE = (20, 40), (60, 12)
"""Places of the ranking within which a thread leads of which nothing tells that its values take each other's place: at most so
many, and no more than one in so many turns. A question for a state may as well be one for an event ("What did Ana paint in
May?"), one for a change is hardly one. Chosen on LoCoMo, where hardly a lead is right, and development worlds
(docs/ranking.md)."""
MOST_VALUES = 6
"""Values of a kind that one person may have had: somebody with more has them beside each other, and not by turns."""
CHANGES = 1 / 3
"""Of the values of a thread that only a question's tense or a date asks for, so many have to be told as begun or ended where
nothing tells that they take each other's place: such a question may as well be one for an event."""
NEAR_ENOUGH = 0.5
"""Least nearness of a thread to a question that is not plainly one about change."""


def _operator(plan: QuestionPlan) -> TimeOperator | None:
    """Return the time operator of a question about somebody: the plan's, else the one that its kind is."""
    return (plan.operator or plan.kind_operator) if plan.entities else None


def _inflected(token: str) -> list[str]:
    stem = re.sub(r"(?:ing|ed|s)$", "", token) if len(token) > 4 else token
    return [
        token,
        *(w for w in (stem, stem + "s", stem + "ing", stem + "ed", stem + "e", stem + "es") if w != token),
    ]


def _lexical(tx: Tx, snapshot: Snapshot, request: Search) -> Scores:
    """Return BM25 of every fact for the topic of a question; for all of it but names where the plan has none."""
    topic = request.plan.topic
    if topic is not None:
        tokens = question_tokens(" ".join(topic))
    else:
        names = {token for name in request.plan.entities for token in question_tokens(name)}
        tokens = [token for token in request.tokens if token not in names]
    return bm25(tx, snapshot, "fact", [w for t in tokens for w in _inflected(t)])


def _of_thread(snapshot: Snapshot, choice: Choice, thread: Thread, plan: QuestionPlan, at: int) -> Answer:
    """Return the facts of the segment of a thread that a question is about."""
    index = _CHOICES[plan.kind](thread.segments, plan, at)
    if index is None and plan.kind == "changed_back":
        back = [i for i, s in enumerate(thread.segments) if not thread.returned.isdisjoint(s.facts)]
        index = back[-1] if back else None
    if index is None:
        return Answer()
    segment = thread.segments[index]
    facts = list(segment.facts)
    if plan.kind in ("since", "last"):
        facts.sort(key=lambda fact: fact not in thread.told)
    rows = snapshot.rows_of_facts(facts)
    turns = choice.by_turns and len({one.value for one in thread.segments}) > 1
    within = None
    if not turns:
        most, share = WITHIN_STATE if plan.kind in ("current", "as_of") else WITHIN_CHANGE
        within = min(most, 1 + len(snapshot.turns.ids) // share)
    # "Ana's cat" is none of the places that she has lived in.
    unlisted = plan.attribute is None and not choice.attributes
    asked = unlisted or plan.attribute in choice.attributes
    sure = asked and segment.value in choice.replaced | choice.listed
    return Answer(
        rows,
        f"{plan.kind}{'' if sure else ', perhaps'}: {segment.value}",
        plan.kind in _ORDERED,
        segment.start_ms,
        segment.end_ms,
        within,
        _asked_day(plan, sure=turns),
        sure,
    )


def _asked_day(plan: QuestionPlan, *, sure: bool) -> tuple[int, int] | None:
    """Return the time that a question for a state names, in ms, if it is so short that what was said in it binds."""
    longest = LONGEST_DAY if sure else LONGEST_MONTH
    if plan.kind != "as_of" or plan.start is None or plan.end is None or plan.end - plan.start > longest:
        return None
    return round(plan.start.timestamp() * 1000), round(plan.end.timestamp() * 1000)


LONGEST_DAY, LONGEST_MONTH = timedelta(days=7), timedelta(days=31)
"""The longest stretches of time of which what was said in them counts more than what was so then: where values are known to
take each other's place, and where they are not."""


def _of_states(snapshot: Snapshot, plan: QuestionPlan, at: int) -> Answer:
    """Return the facts of the segment of a listed attribute's timeline that a question is about."""
    choose = _CHOICES.get(plan.kind)
    found = _find_timeline(snapshot, plan) if choose else None
    if choose is None or found is None:
        return Answer()
    attribute, segments = found
    index = choose(segments, plan, at)
    if index is None:
        return Answer()
    rows = snapshot.rows_of_facts(segments[index].facts)
    why = f"{plan.kind} of {attribute}: {segments[index].value}"
    return Answer(rows, why, plan.kind in _ORDERED)


def _asked_at(request: Search, plan: QuestionPlan) -> int:
    if plan.kind == "as_of" and plan.start is not None and plan.end is not None:
        return round((plan.start.timestamp() + plan.end.timestamp()) * 500) - 1  # most of "in May"
    if plan.as_of is not None:
        return round(plan.as_of.timestamp() * 1000)
    return request.reference_ms


def _find_timeline(snapshot: Snapshot, plan: QuestionPlan) -> tuple[str, Sequence[Segment]] | None:
    """Return the attribute that the question is about with its segments, if the memory knows one."""
    known = timelines(snapshot)
    for name in plan.entities:
        entity = snapshot.names.get(entity_key(name) or "")
        if entity is None:
            continue
        if plan.attribute is not None:
            segments = known.get((entity, plan.attribute, 0))
            if segments and not (holds_many(plan.attribute) and plan.kind in ("current", "as_of")):
                return plan.attribute, segments
        elif plan.anchor is not None:
            found = _by_anchor(known, entity, plan.anchor)
            if found is not None:
                return found
    return None


def _by_anchor(known: Timelines, entity: int, anchor: str) -> tuple[str, Sequence[Segment]] | None:
    """Return the attribute of an entity that has a value which the anchor names ("moving to Miami")."""
    wanted = set(lexical_tokens(anchor))
    for (owner, attribute, _), segments in sorted(known.items()):
        if owner == entity and any(
            (value := set(lexical_tokens(segment.value))) and value <= wanted for segment in segments
        ):
            return attribute, segments
    return None


def _anchored(segments: Sequence[Segment], plan: QuestionPlan, at: int) -> int | None:
    """Return the segment that the question is relative to: the one its anchor names, else the present one."""
    if plan.anchor is None:
        return _at(segments, plan, at)
    wanted = set(lexical_tokens(plan.anchor))
    best: tuple[float, int] | None = None
    for i, segment in enumerate(segments):
        value = set(lexical_tokens(segment.value))
        overlap = len(value & wanted) / len(value) if value else float(same_value(segment.value, plan.anchor))
        if overlap >= 0.5 and (best is None or overlap >= best[0]):
            best = (overlap, i)
    return None if best is None else best[1]


def _at(segments: Sequence[Segment], _plan: QuestionPlan, at: int) -> int | None:
    holding = [
        i
        for i, segment in enumerate(segments)
        if segment.holds_at(at)
        and (i == 0 or segment.start_ms is not None or (segments[i - 1].end_ms or at) <= at)
    ]
    return holding[-1] if holding else None


def _before(segments: Sequence[Segment], plan: QuestionPlan, at: int) -> int | None:
    index = _anchored(segments, plan, at)
    return None if index is None or index == 0 else index - 1


def _after(segments: Sequence[Segment], plan: QuestionPlan, at: int) -> int | None:
    index = _anchored(segments, plan, at)
    return None if index is None or index + 1 >= len(segments) else index + 1


def _first(segments: Sequence[Segment], _plan: QuestionPlan, _at_ms: int) -> int | None:
    return 0 if segments else None


def _last(segments: Sequence[Segment], _plan: QuestionPlan, at: int) -> int | None:
    begun = [i for i, segment in enumerate(segments) if segment.start_ms is None or segment.start_ms <= at]
    return begun[-1] if begun else None


def _again(segments: Sequence[Segment], plan: QuestionPlan, at: int) -> int | None:
    """Return the segment in which an earlier value, the anchor's if there is one, came back."""
    for i in range(len(segments) - 1, 1, -1):
        value = segments[i].value
        if plan.anchor is not None and not set(lexical_tokens(value)) & set(lexical_tokens(plan.anchor)):
            continue
        if any(same_value(value, earlier.value) for earlier in segments[: i - 1]):
            return i
    return _anchored(segments, plan, at) if plan.anchor else None


_ORDERED = ("since", "first", "last")
"""Operators for which the earliest telling of the segment counts."""

_CHOICES: Mapping[str, Callable[[Sequence[Segment], QuestionPlan, int], int | None]] = {
    "current": _at,
    "as_of": _at,
    "predecessor": _before,
    "successor": _after,
    "first": _first,
    "last": _last,
    "since": _anchored,
    "changed_back": _again,
}


def side_of_anchor(snapshot: Snapshot, request: Search, anchor: Scores) -> Scores:
    """Return a bonus for turns on the asked side of the anchor event, falling off with distance; shape (n,).

    Used when no state answers a before/after question. Only turns that mention the entity get it.

    Args:
        snapshot: of the memory.
        request: with a plan of kind predecessor or successor.
        anchor: relevance of every turn to the anchor's text.
    """
    out = np.zeros(len(anchor))
    rows = _mentioning(snapshot, request.plan)
    if not len(rows) or not anchor.any():
        return out
    ranked = rows[np.argsort(-anchor[rows], kind="stable")]
    pivot = int(ranked[0])
    position = {int(row): i for i, row in enumerate(rows[np.lexsort((rows, snapshot.turns.said_ms[rows]))])}
    sign = -1 if request.plan.kind == "predecessor" else 1
    for row, i in position.items():
        steps = sign * (i - position[pivot])
        if steps > 0:
            out[row] = 1.0 / (1.0 + np.log1p(steps))
    return standardise(out)


def _mentioning(snapshot: Snapshot, plan: QuestionPlan) -> NDArray[np.int64]:
    """Return the rows of the turns that support a fact which names an entity of the plan."""
    wanted = [
        row for name in plan.entities if (row := snapshot.names.get(entity_key(name) or "")) is not None
    ]
    named = snapshot.mentions[np.isin(snapshot.mentions[:, 1], wanted), 0]
    pairs = snapshot.facts.pairs
    return np.unique(pairs[np.isin(pairs[:, 0], named), 1])
