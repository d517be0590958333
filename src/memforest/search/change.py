"""Answering questions about change by time order instead of similarity.

"Where did Bob live before Miami?" wants the value in front of Miami, which is neither the most similar nor the most recent
statement. The states of an entity form a timeline per attribute, whether the entity has a tree or not; the question's kind
says which segment answers it.

"What does Bob open with these days?" asks about something that no list of attributes knows. The topic is a kind of values
(`memforest.search.vocabulary`); its thread is what was said of the one person and those values, read by its stance (so,
begun, over, only wished for), in time order. From there on it is a timeline like any other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memforest.reading.phrases import Stance, read_statement
from memforest.reading.stance import stances_of
from memforest.reading.states import holds_many
from memforest.records import QuestionPlan, TimeOperator
from memforest.search.filters import Search, fact_places
from memforest.search.lexical import bm25
from memforest.search.scores import Scores
from memforest.search.snapshot import OPEN, Delta, Snapshot, count_bytes, once_per_snapshot
from memforest.search.timeline import (
    Ending,
    Segment,
    Timelines,
    endings,
    same_value,
    settled,
    time_order,
    timeline,
    timelines,
)
from memforest.search.vectors import question_tokens
from memforest.search.vocabulary import Topic, Vocabulary, choose_values, vocabulary
from memforest.store.connections import Tx
from memforest.store.reads import StateSeen
from memforest.text import entity_key, lexical_tokens
from memforest.times import DAY_MS

Ints = NDArray[np.int64]

MAX_SPAN_MS = 40 * DAY_MS
"""A stated time longer than this ("in 2023") is taken from its start."""
MONTH_MS = 31 * DAY_MS


@dataclass(frozen=True, slots=True)
class ValueChoice:
    """The kind of values that a question is about, for one person.

    `replaced` are those of which some statement says that one took another's place. `attributes`: those of which two of
    them are told, which are `listed`; either shows that they hold by turns.
    """

    who: str
    values: Mapping[str, float]
    replaced: frozenset[str]
    attributes: frozenset[str]
    listed: frozenset[str]

    @property
    def by_turns(self) -> bool:
        """Whether values of the kind are known to take each other's place.

        A memory is full of things that somebody talks about at different times; they make no timeline by themselves.
        """
        return bool(self.replaced or self.attributes)


_StatementValues = tuple[Sequence[StateSeen], bool, bool]
"""The observations that one statement makes of a person and some values; whether it tells a beginning, and a return."""


@dataclass(frozen=True, slots=True, eq=False)
class _ValueLine:
    """The observations of a person and some values, and the statements they were read from. Immutable.

    `facts` are those that name the person and a value, ascending; `places` theirs in the order of what was said.
    """

    who: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    """People whose being named matters."""
    names: frozenset[str] = frozenset()
    facts: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    places: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ranked: Mapping[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """The order of the values in statements that have several."""
    of: Mapping[int, _StatementValues] = field(default_factory=dict)
    """Of those statements that tell something."""
    segments: tuple[Segment, ...] = ()
    """The timeline; `facts` of the segments are row ids of the store."""
    told: frozenset[int] = frozenset()
    """Facts that tell a beginning."""
    returned: frozenset[int] = frozenset()
    """Facts that tell a return."""

    def unread(self, now: _ValueLine, changed: Ints, moved: Ints) -> Ints:
        """Return the facts of another line whose observations this one does not have.

        Args:
            now: the line to be made.
            changed: facts that were written since.
            moved: facts with a value that only one of the lines has.
        """
        if (now.who, now.others, now.names) != (self.who, self.others, self.names) or not len(self.facts):
            return now.facts
        at = np.minimum(np.searchsorted(self.facts, now.facts), len(self.facts) - 1)
        known = (self.facts[at] == now.facts) & (self.places[at] == now.places)
        unread: Ints = now.facts[~known | np.isin(now.facts, changed) | np.isin(now.facts, moved)]
        return unread


MAX_LINES = 16
"""Lines that are kept with a snapshot, the latest ones."""
TOLD_BYTES = 1_000
"""What a statement that tells something takes in memory with its observations, about."""


@dataclass(slots=True)
class _Lines:
    """The lines that questions have needed, the latest last, and the facts written since those of an older snapshot."""

    made: tuple[_ValueLine, ...] = ()
    before: tuple[_ValueLine, ...] = ()
    changed: frozenset[int] = frozenset()


def _carried(snapshot: Snapshot, delta: Delta, lines: _Lines) -> _Lines:
    """Keep the lines for the next snapshot: those that it was asked for, or else those of the one before."""
    changed = frozenset(snapshot.facts.ids[delta.facts].tolist())
    count_bytes(snapshot, TOLD_BYTES * sum(len(line.of) for line in lines.made or lines.before))
    if lines.made:
        return _Lines(before=lines.made, changed=changed)
    return _Lines(before=lines.before, changed=lines.changed | changed)


_lines = once_per_snapshot(lambda _: _Lines(), _carried)


def _line(known: Vocabulary, snapshot: Snapshot, who: str, values: Mapping[str, float]) -> _ValueLine:
    """Return the observations of a person and some values, starting from the most similar line made before."""
    lines = _lines(snapshot)
    for line in lines.made:
        if line.who == who and line.values == values:
            return line
    similar = [
        (len(line.values.keys() & values.keys()), here, line)
        for here, kept in enumerate((lines.before, lines.made))
        for line in kept
        if line.who == who
    ]
    _, here, base = max(similar, key=lambda one: one[:2], default=(0, 1, _ValueLine()))
    made = _made(known, snapshot, who, values, base, frozenset() if here else lines.changed)
    lines.made = (*lines.made, made)[-MAX_LINES:]
    count_bytes(snapshot, TOLD_BYTES * len(made.of))
    return made


def _made(
    known: Vocabulary,
    snapshot: Snapshot,
    who: str,
    values: Mapping[str, float],
    base: _ValueLine,
    changed: Set[int],
) -> _ValueLine:
    """Return the observations of a person and some values; unchanged statements that `base` has are not read again."""
    rows = known.rows(values)
    rows = rows[known.about(who)[rows]]  # a statement that does not name the person says nothing of them
    facts, places = snapshot.facts.ids[rows], fact_places(snapshot)[rows]
    # Who is a value is nobody here.
    others = frozenset(name for name in known.people - {who} if name.lower() not in values)
    line = _ValueLine(who, values, others, known.readings.names, facts, places)
    moved = snapshot.facts.ids[known.rows((values.keys() ^ base.values.keys()) & known.terms.keys())]
    unread = base.unread(line, np.array(sorted(changed), dtype=np.int64), moved)
    ranked: dict[int, tuple[tuple[str, int], ...]] = {}
    of: dict[int, _StatementValues] = {}
    if len(unread) < len(facts):
        ranked, of = dict(base.ranked), dict(base.of)
        for fact in (*np.setdiff1d(base.facts, facts, assume_unique=True).tolist(), *unread.tolist()):
            ranked.pop(fact, None)
            of.pop(fact, None)
    terms = known.readings.of
    again = set(unread.tolist())
    if values != base.values:
        again |= {fact for fact, found in ranked.items() if found != _ranked(values, terms[fact].terms)}
    for fact in again:
        row = int(np.searchsorted(snapshot.facts.ids, fact))
        order = _ranked(values, terms[fact].terms)
        told = _tell(known, snapshot, row, who, others, order, int(places[np.searchsorted(facts, fact)]))
        of.pop(fact, None)
        if any(told):
            of[fact] = told
        if len(order) > 1:
            ranked[fact] = order
    return replace(
        line,
        ranked=ranked,
        of=of,
        segments=tuple(timeline(order_observations([one for fact in sorted(of) for one in of[fact][0]]))),
        told=frozenset(fact for fact, (_, begins, _) in of.items() if begins),
        returned=frozenset(fact for fact, (_, _, returns) in of.items() if returns),
    )


def _tell(
    known: Vocabulary,
    snapshot: Snapshot,
    row: int,
    who: str,
    others: frozenset[str],
    ranked: tuple[tuple[str, int], ...],
    where: int,
) -> _StatementValues:
    """Return the observations that the statement of a fact makes of a person and of the values in `ranked`."""
    facts = snapshot.facts
    fact, stated, latest = int(facts.ids[row]), bool(facts.stated[row]), _latest(snapshot, row)
    start, end, said = int(facts.start_ms[row]), int(facts.end_ms[row]), int(facts.said_ms[row])
    # A fact is taken to have been so in the middle of its stated time, but not after it was said.
    exact = not stated or end == OPEN or end - start > MAX_SPAN_MS
    at = start if exact else max(start, min((start + end) // 2, said))
    reading, speaker = known.readings.of[fact], snapshot.entities.get(int(facts.speaker[row]))
    sentences = (one.text for one in reading.statement.sentences)
    whole = "\n".join((reading.statement.speaker, reading.statement.asked, *sentences))
    named = tuple(sorted(name for name in others if name in whole))
    times = (at,) if stated else known.said.get(fact, (at,))
    heard: list[StateSeen] = []
    begins = returns = False
    stances = _stances(reading.text, who, named, ranked, "" if speaker is None else speaker.label)
    for place, (value, stance) in enumerate(stances):
        if stance in ("unreal", "over", "event"):
            continue
        change: Literal["is", "start", "end"] = (
            "end" if stance == "end" else "is" if stance == "is" else "start"
        )
        tie = f"{0 if change == 'end' else 1}{place} {where:09}"
        heard.extend(
            StateSeen(0, "", value, None, change, fact, time, tie, latest_ms=latest) for time in times
        )
        returns = returns or stance == "back"
        begins = begins or stance == "start" or (stated and stance != "end")
    return heard, begins, returns


@lru_cache(maxsize=16_384)  # more than a vocabulary reads: a statement that has not changed is not read again
def _stances(
    text: str, who: str, others: tuple[str, ...], terms: tuple[tuple[str, int], ...], speaker: str
) -> tuple[tuple[str, Stance], ...]:
    return tuple(stances_of(read_statement(text), who, others, dict(terms), speaker))


def _ranked(values: Mapping[str, float], terms: Set[str]) -> tuple[tuple[str, int], ...]:
    """Return those terms that are values, each with the rank of its weight among them: only that is looked at."""
    found = sorted(terms & values.keys())
    if len(found) == 1:
        return ((found[0], 0),)
    ranks = {weight: rank for rank, weight in enumerate(sorted({values[term] for term in found}))}
    return tuple((term, ranks[values[term]]) for term in found)


def _latest(snapshot: Snapshot, row: int) -> int:
    """Return the latest time, in ms, at which a fact's state may have begun; 0 if it states none."""
    facts = snapshot.facts
    start, end, said = int(facts.start_ms[row]), int(facts.end_ms[row]), int(facts.said_ms[row])
    if not facts.stated[row]:
        return 0
    if end == OPEN:  # "since April" has the first of April for its start
        first = datetime.fromtimestamp(start / 1000, timezone.utc).day == 1
        return min(said, start + MONTH_MS) if first else start
    return min(end, said) if end - start <= MAX_SPAN_MS else start


def order_observations(heard: Sequence[StateSeen]) -> list[StateSeen]:
    """Return observations in time order, coarse times moved to fit the exact ones, and unconfirmed beginnings dropped."""
    placed = settled(sorted(heard, key=time_order))
    often = Counter(one.value for one in placed)
    passing = set()
    for i, ((before, one), (_, after)) in enumerate(pairwise(pairwise(placed)), start=1):
        # An undated beginning is outlived by what was so before: a loaf bought once is no new habit.
        began = one.change == "start" and not one.latest_ms and often[one.value] == 1
        outlived = after.change == "is" and before.change != "end"
        if began and outlived and same_value(before.value, after.value):
            passing.add(i)
    return [one for i, one in enumerate(placed) if i not in passing]


@dataclass(frozen=True, slots=True)
class Answer:
    """The facts (rows) that answer a question about change, and why; empty when it is none.

    `in_order` says that the first of them answers best; else the one nearest the question does. `within` is how many places
    down the ranking by relevance the best placed of their turns may stand; None: any. With a `day`, a stretch of time in
    ms, none of them leads when the most relevant turn was said within it. `sure`: values of the kind that is asked for are
    told to take each other's place, this one among them; then `ended` has how the facts ended that tell a value of the thread.
    Of an attribute: several of its values are told.
    `of_values`: the answer is of a thread of values, not of an attribute.
    """

    facts: tuple[int, ...] = ()
    why: str = ""
    in_order: bool = False
    start_ms: int | None = None
    end_ms: int | None = None
    within: int | None = None
    day: tuple[int, int] | None = None
    sure: bool = False
    ended: Mapping[int, Ending] = field(default_factory=dict)
    of_values: bool = False

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
    operator = (plan.operator or plan.kind_operator) if plan.entities else None
    if operator is None:
        return Answer()
    asked = replace(plan, kind=operator.kind, anchor=operator.anchor or None)
    if request.as_of_ms is not None:
        at = request.as_of_ms
    elif asked.kind == "as_of" and asked.start is not None and asked.end is not None:
        at = round((asked.start.timestamp() + asked.end.timestamp()) * 500) - 1  # most of "in May"
    else:
        at = request.reference_ms if asked.as_of is None else round(asked.as_of.timestamp() * 1000)
    topic = Topic("", dense, _lexical(tx, snapshot, request), operator.anchor, plan.attribute)
    known = vocabulary(tx, snapshot)
    people: Sequence[str] = (
        plan.entities
    )  # those that the plan names, else those it mentions, else any entity
    for names in (plan.owners, plan.entities, sorted(plan.mentions)):
        if here := [name for name in names if name in known.people]:
            people = here
            break
    perhaps = Answer()
    for who in people:
        answer = _of_threads(snapshot, known, plan, operator, replace(topic, who=who), asked, at)
        if answer.sure:
            return answer
        perhaps = perhaps if perhaps.facts else answer
    told = _of_states(snapshot, plan, at)
    return told if told.sure or not perhaps.facts else perhaps


def _of_threads(
    snapshot: Snapshot,
    known: Vocabulary,
    plan: QuestionPlan,
    operator: TimeOperator,
    topic: Topic,
    asked: QuestionPlan,
    at: int,
) -> Answer:
    """Return the facts of the likeliest kind of one person that has an answer."""
    for values, near in choose_values(known, topic):
        pairs = [pair for pair in known.replaced if values.keys() >= {*pair}]
        told = {name: given & values.keys() for name, given in known.attributes.items()}
        attributes = frozenset(name for name, given in told.items() if len(given) > 1)
        replaced = frozenset(value for pair in pairs for value in pair)
        listed = frozenset[str]().union(*(told[name] for name in attributes))
        choice = ValueChoice(topic.who, values, replaced, attributes, listed)
        if not _fits(plan, operator, choice, near):
            continue
        line = _line(known, snapshot, topic.who, choice.values)
        if _turns(operator, line):
            answer = _of_thread(snapshot, choice, line, asked, at)
            if answer.facts:
                return answer
    return Answer()


def _fits(plan: QuestionPlan, operator: TimeOperator, choice: ValueChoice, near: float) -> bool:
    """Return whether the timeline of a kind of values may answer a question; decided before the timeline is read.

    "before", "first" and a date stand in many questions about events, which similarity answers better.
    """
    if operator.manner or (plan.kind == "when" and operator.kind == "as_of"):  # "When did Ana ... in August?"
        return False
    if operator.kind == "as_of":
        return near >= NEAR_ENOUGH
    relative = bool(operator.anchor) and operator.kind in _RELATIVE
    return not relative or any(value in operator.anchor.lower() for value in choice.values)


NEAR_ENOUGH = 0.5
"""Least nearness of the statements about a kind of values to a question with a date, as a share of the nearest of all."""
_RELATIVE = ("since", "predecessor", "successor")
"""Operators that may be relative to a value."""


def _turns(operator: TimeOperator, line: _ValueLine) -> bool:
    """Return whether a timeline has the value that a question is relative to, and values that held by turns."""
    anchor, had = operator.anchor.lower(), {segment.value for segment in line.segments}
    relative = bool(anchor) and operator.kind in _RELATIVE
    return len(had) > 1 and (not relative or any(value in anchor for value in had))


WITHIN = {"current": (20, 40), "as_of": (20, 40), "since": (60, 12)}
"""Places of the ranking within which a thread leads of which nothing tells that its values take each other's place: at most so
many, and no more than one in so many turns. A question for a state may as well be one for an event ("What did Ana paint in
May?"). Chosen on LoCoMo, where hardly a lead is right, and development worlds (docs/research/ranking.md)."""
CHANGES_ASKED = ("predecessor", "successor", "first", "last", "changed_back")
"""Operators of questions for a change, which are hardly for an event."""


def _lexical(tx: Tx, snapshot: Snapshot, request: Search) -> Scores:
    """Return BM25 of every fact for the topic of a question; for all of it but names where the plan has none."""
    topic = request.plan.topic
    if topic is not None:
        tokens = question_tokens(" ".join(topic))
    else:
        names = {token for name in request.plan.entities for token in question_tokens(name)}
        tokens = [token for token in request.tokens if token not in names]
    inflected: list[str] = []
    for token in tokens:
        stem = re.sub(r"(?:ing|ed|s)$", "", token) if len(token) > 4 else token
        forms = (stem, stem + "s", stem + "ing", stem + "ed", stem + "e", stem + "es")
        inflected += [token, *(form for form in forms if form != token)]
    return bm25(tx, snapshot, "fact", inflected)


def _of_thread(
    snapshot: Snapshot, choice: ValueChoice, thread: _ValueLine, plan: QuestionPlan, at: int
) -> Answer:
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
    within: int | None = None
    day: tuple[int, int] | None = None
    longest = LONGEST_DAY if turns else LONGEST_MONTH
    # A time so short that what was said in it binds.
    if plan.kind == "as_of" and plan.start and plan.end and plan.end - plan.start <= longest:
        day = round(plan.start.timestamp() * 1000), round(plan.end.timestamp() * 1000)
    if not turns and plan.kind in WITHIN:
        most, share = WITHIN[plan.kind]
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
        day,
        sure,
        endings(snapshot, thread.segments) if sure else {},
        of_values=True,
    )


LONGEST_DAY, LONGEST_MONTH = timedelta(days=7), timedelta(days=31)
"""The longest stretches of time of which what was said in them counts more than what was so then: where values are known to
take each other's place, and where they are not."""


def _of_states(snapshot: Snapshot, plan: QuestionPlan, at: int) -> Answer:
    """Return the facts of the segment of a listed attribute's timeline that a question is about."""
    choose = _CHOICES.get(plan.kind)
    found: tuple[str, Sequence[Segment]] | None = None
    for name in plan.entities if choose else ():
        entity = snapshot.names.get(entity_key(name) or "")
        if entity is None:
            continue
        if plan.attribute is not None:
            listed = timelines(snapshot).get((entity, plan.attribute, 0))
            if listed and not (holds_many(plan.attribute) and plan.kind in ("current", "as_of")):
                found = plan.attribute, listed
        elif plan.anchor is not None:
            found = _by_anchor(timelines(snapshot), entity, plan.anchor)
        if found is not None:
            break
    if choose is None or found is None:
        return Answer()
    attribute, segments = found
    index = choose(segments, plan, at)
    if index is None:
        return Answer()
    rows = snapshot.rows_of_facts(segments[index].facts)
    why = f"{plan.kind} of {attribute}: {segments[index].value}"
    return Answer(rows, why, plan.kind in _ORDERED, sure=len(segments) > 1)


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
