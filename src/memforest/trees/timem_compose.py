"""What is known of a window, as lines with their sources: for segments and profiles that no model writes.

Nothing is concluded here. A state is one that a fact tells outright, read as timelines are read, from their ends, so that it
costs about as much in an old memory as in a young one; an event is what somebody said of their own past, in their own words
where a rule read it, dated by the date that those words have; the rest are counts. A line is of one participant, and no fact
of somebody else's about their own life comes into it. Where nothing of that is known, as in a memory without facts, a
participant's lines are what they said. All of it is of one state of knowledge: what had been said before an instant, and is
not hidden now.

Labels ("known since", "statements") are English, days are ISO days of the zone; values, topics, names and quotations are in
the language in which they were told.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property
from typing import NamedTuple

from memforest.ports import FoundLine, LineKind, ends_of, join_sections, since_text, stated_time
from memforest.reading.states import UNSPECIFIED, holds_many
from memforest.reading.summarise_local import most_telling
from memforest.reading.tokens import count_words
from memforest.records import Precision
from memforest.search.timeline import Segment, StateFact, observations, same_value, segments_since
from memforest.store import facts as facts_rows
from memforest.store.connections import AMONG, Tx
from memforest.store.evidence import QUOTED_MAKERS
from memforest.store.facts import QUOTE, ROLES
from memforest.store.snapshot import StateSeen, muted_turns
from memforest.text import entity_key, fold, lexical_tokens
from memforest.times import one_line


class FactAtTurn(NamedTuple):
    """A fact as told by one occurrence, with a turn that supports it there."""

    occurrence: int
    fact: int
    turn: int
    speaker: str
    said_ms: int
    session: int


class StatedFact(NamedTuple):
    """The content of a fact. `quote` is what was said, `maker` what extracted it; `corrected` by a person."""

    text: str
    start_ms: int | None
    end_ms: int | None
    precision: Precision
    negated: int
    topics: str
    quote: str
    maker: str
    corrected: int


class EntityAtOccurrence(NamedTuple):
    """An entity that an occurrence of a fact names; `roles` are the bits of `memforest.store.facts.ROLES`."""

    occurrence: int
    entity: int
    roles: int
    key: str
    label: str
    kind: str


TurnAt = tuple[int, str, int]
"""A turn: its row, its speaker, and when it was said, ms."""


def supported(tx: Tx, turns: Collection[int]) -> list[tuple[int, str]]:
    """Return (turn, text) of the facts that turns support, without hidden ones, by turn and in the order said there."""
    return tx.execute(
        f"""SELECT x.turn, f.text FROM occurrence_turn x JOIN occurrence o ON o.id = x.occurrence
            JOIN fact f ON f.id = o.fact AND f.verdict < 2 WHERE x.turn {AMONG}
            ORDER BY x.turn, coalesce(o.tie, f.tie), o.id""",
        (tx.ids(turns),),
    ).fetchall()


def told_by(tx: Tx, turns: Collection[int]) -> list[FactAtTurn]:
    """Return the occurrences that turns support, in the order of their turns."""
    return tx.rows(
        FactAtTurn,
        f"""SELECT o.id, o.fact, t.id, o.speaker, t.said_ms, t.session FROM turn t
            JOIN occurrence_turn x ON x.turn = t.id JOIN occurrence o ON o.id = x.occurrence
            JOIN fact f ON f.id = o.fact AND f.verdict < 2
            JOIN session s ON s.id = t.session
            WHERE t.id {AMONG} ORDER BY t.said_ms, s.session_id, t.ordinal, o.id""",
        (tx.ids(turns),),
    )


def stated(tx: Tx, occurrences: Collection[int]) -> dict[int, StatedFact]:
    """Return what occurrences say, by row id; the topics are a JSON list."""
    rows = tx.execute(
        f"""SELECT o.id, f.text, f.start_ms, f.end_ms, f.precision, f.negated, o.topics, {QUOTE},
            coalesce(c.maker, ''), o.correction IS NOT NULL
            FROM occurrence o JOIN fact f ON f.id = o.fact JOIN chunk c ON c.id = o.chunk WHERE o.id {AMONG}""",
        (tx.ids(occurrences),),
    )
    return {row[0]: StatedFact(*row[1:]) for row in rows}


def named_by(tx: Tx, facts: Collection[int]) -> list[EntityAtOccurrence]:
    """Return the entities that facts name, by fact, entity and occurrence."""
    return tx.rows(
        EntityAtOccurrence,
        f"""SELECT m.occurrence, e.id, m.roles, e.key, e.label, e.kind FROM mention m JOIN entity e ON e.id = m.entity
            WHERE m.fact {AMONG} ORDER BY m.fact, e.id, m.occurrence""",
        (tx.ids(facts),),
    )


def said_in(tx: Tx, start_ms: int, end_ms: int, turns: Collection[int] | None) -> list[TurnAt]:
    """Return the turns said in [start, end), or the given ones, in order."""
    where, args = "t.said_ms >= ? AND t.said_ms < ?", (start_ms, end_ms)
    return tx.execute(
        f"""SELECT t.id, t.speaker, t.said_ms FROM turn t JOIN session s ON s.id = t.session
            WHERE {where if turns is None else f"t.id {AMONG}"} ORDER BY t.said_ms, s.session_id, t.ordinal""",
        args if turns is None else (tx.ids(turns),),
    ).fetchall()


def texts_of(tx: Tx, turns: Collection[int]) -> dict[int, str]:
    """Return the texts of turns, by row id."""
    return tx.pairs(f"SELECT id, text FROM turn WHERE id {AMONG}", (tx.ids(turns),))


def turns_of(tx: Tx, facts: Collection[int], before_ms: int) -> list[tuple[int, int]]:
    """Return (fact, turn) of the turns said before an instant that support facts, by fact and in their order."""
    return tx.execute(
        f"""SELECT DISTINCT o.fact, t.id FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id
            JOIN turn t ON t.id = x.turn AND t.said_ms < ? JOIN session s ON s.id = t.session
            WHERE o.fact {AMONG} ORDER BY o.fact, t.said_ms, s.session_id, t.ordinal""",
        (before_ms, tx.ids(facts)),
    ).fetchall()


def attributes(tx: Tx, entity: int) -> list[str]:
    """Return the attributes that were ever observed of an entity, by one look into the index each."""
    return tx.column(
        """WITH RECURSIVE one (name) AS (SELECT min(attribute) FROM state WHERE entity = ?1 UNION ALL
           SELECT (SELECT min(attribute) FROM state WHERE entity = ?1 AND attribute > one.name)
           FROM one WHERE one.name IS NOT NULL) SELECT name FROM one WHERE name IS NOT NULL""",
        (entity,),
    )


_SEEN = """FROM state s JOIN occurrence o ON o.id = s.occurrence AND o.said_ms < ?4
    JOIN fact f ON f.id = s.fact AND f.verdict < 2 WHERE s.entity = ?1 AND s.attribute = ?2 AND s.at_ms < ?3"""


def observed_before(
    tx: Tx, entity: int, attribute: str, at_ms: int, said_ms: int, most: int
) -> list[StateSeen]:
    """Return the latest observations of an attribute that held before one instant and were said before another, in order.

    At most `most`; all if it is negative.
    """
    return tx.rows(
        StateSeen,
        f"""SELECT s.entity, s.attribute, s.value, s.previous, s.change, s.fact, s.at_ms,
            coalesce(o.tie, f.tie) AS tie, s.id {_SEEN}
            ORDER BY s.at_ms DESC, tie DESC, s.fact DESC, s.id DESC LIMIT ?5""",
        (entity, attribute, at_ms, said_ms, most),
    )[::-1]


def values_named_before(
    tx: Tx, entity: int, attribute: str, at_ms: int, said_ms: int
) -> list[tuple[str, str | None]]:
    """Return every (value, value before it) that was observed so."""
    return tx.execute(
        f"SELECT DISTINCT s.value, s.previous {_SEEN}", (entity, attribute, at_ms, said_ms)
    ).fetchall()


MOST_OBSERVED = 256
"""Latest observations that are read of an attribute of which several values hold at once."""


@dataclass(frozen=True, slots=True)
class Held:
    """A value in force: since when it is known, whether it was told as a beginning, and the facts that tell it, oldest first.

    `last_ms` is of when the last of them tells.
    """

    attribute: str
    value: str
    start_ms: int
    last_ms: int
    began: bool
    facts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """A value that came, went, or took another's place; None where there was none. `facts` tell of the change."""

    attribute: str
    before: str | None
    after: str | None
    at_ms: int
    facts: tuple[int, ...]


Then = tuple[list[Held], list[Changed]]
"""The states of an entity: those in force, by attribute, and what changed, in time order."""


def then(tx: Tx, entity: int, start_ms: int, end_ms: int) -> Then:
    """Return the states of an entity as known at the end of [start_ms, end_ms), and the changes within it.

    A first value is no change unless it was told as a beginning. What is not told to be of something is left out here.
    """
    held: list[Held] = []
    changed: list[Changed] = []
    for attribute in attributes(tx, entity):
        if attribute != UNSPECIFIED:
            past = _Past(tx, entity, attribute, end_ms)
            read = _beside if holds_many(attribute) else _one_at_a_time
            read(attribute, past, start_ms, (held, changed))
    changed.sort(key=lambda one: (one.at_ms, one.attribute, one.before or "", one.after or ""))
    return held, changed


@dataclass
class _Past:
    """The observations of an attribute that had been told by an instant, as `memforest.search.timeline.Past`."""

    tx: Tx
    entity: int
    attribute: str
    end_ms: int
    read: Sequence[StateSeen] = ()

    @property
    def end(self) -> StateFact:
        """Where reading ends."""
        return StateFact(self.end_ms, "", 0, "")

    @cached_property
    def _named(self) -> list[tuple[str, str | None]]:
        return values_named_before(self.tx, self.entity, self.attribute, self.end_ms, self.end_ms)

    @property
    def values(self) -> Collection[str]:
        return {value for row in self._named for value in row if value is not None}

    def before(self, seen: StateFact, most: int) -> Sequence[StateFact]:
        self.read = observed_before(self.tx, self.entity, self.attribute, seen.at_ms, self.end_ms, most)
        return observations(self.read)

    def naming(self, seen: StateFact, values: Collection[str]) -> Sequence[tuple[str, str | None]]:
        known = values_named_before(self.tx, self.entity, self.attribute, seen.at_ms, self.end_ms)
        return [row for row in known if row[0] in values or row[1] in values]


def _one_at_a_time(attribute: str, past: _Past, start_ms: int, found: Then) -> None:
    """Read an attribute that has one value at a time."""
    segments = segments_since(past.end, past, start_ms)
    told = {(seen.fact, seen.at_ms): seen.change for seen in past.read}
    if segments and segments[-1].end_ms is None:
        last = segments[-1]
        start = last.start_ms
        assert start is not None, "a value that has not ended began when it was observed"
        began = told.get((last.facts[0], start)) == "start"
        found[0].append(Held(attribute, last.value, start, past.read[-1].at_ms, began, last.facts))
    for before, after in zip([None, *segments], [*segments, None], strict=True):
        change = _change(attribute, before, after, told)
        if change is not None and change.at_ms >= start_ms:
            found[1].append(change)


def _change(
    attribute: str, before: Segment | None, after: Segment | None, told: Mapping[tuple[int, int], str]
) -> Changed | None:
    """Return the change between two segments beside each other, the last one's end, or the first one's beginning."""
    if after is None:
        if before is None or before.end_ms is None:
            return None
        return Changed(attribute, before.value, None, before.end_ms, (before.facts[-1],))
    if after.start_ms is None:
        return None  # when it began is not known
    left = before if before is not None and before.end_ms == after.start_ms else None
    if left is None and told.get((after.facts[0], after.start_ms)) != "start":
        return None
    if left is not None and same_value(left.value, after.value):
        return None
    return Changed(
        attribute, None if left is None else left.value, after.value, after.start_ms, (after.facts[0],)
    )


def _beside(attribute: str, past: _Past, start_ms: int, found: Then) -> None:
    """Read an attribute of which several values hold at once: each has a beginning, and an end if one is told."""
    past.before(past.end, MOST_OBSERVED)
    for seen in _by_value(past.read):
        first, last = seen[0], seen[-1]
        if last.change == "end":
            if last.at_ms >= start_ms:
                found[1].append(Changed(attribute, last.value, None, last.at_ms, (last.fact,)))
            continue
        facts = tuple(dict.fromkeys(one.fact for one in seen))
        began = first.change == "start"
        found[0].append(Held(attribute, last.value, first.at_ms, last.at_ms, began, facts))
        if began and first.at_ms >= start_ms:
            found[1].append(Changed(attribute, None, first.value, first.at_ms, (first.fact,)))


def _by_value(states: Sequence[StateSeen]) -> Iterator[list[StateSeen]]:
    """Yield the observations of each value, in order; what follows the end of a value is another stretch of it."""
    open_: list[list[StateSeen]] = []
    for state in states:
        same = next((one for one in open_ if same_value(one[-1].value, state.value)), None)
        if same is None:
            open_.append([state])
        elif same[-1].change == "end" and state.change != "end":
            yield list(same)
            same[:] = [state]
        else:
            same.append(state)
    yield from open_


MOST: Mapping[LineKind, int] = {
    "state": 16,
    "change": 12,
    "event": 12,
    "entity": 6,
    "topic": 4,
    "said": 6,
}
"""Lines of a kind that a participant has at most."""
LEAST_WORDS, MOST_WORDS = 5, 60
"""Words of what is quoted in a line: fewer are a bare answer, and more are no line."""
RECURS = 2
"""Statements that name somebody or something, and sessions that have a topic, before it recurs."""
TOPIC_RECURS = 3
"""Statements with a topic before it recurs."""
MOST_SAID = 256
"""Turns that are read of a participant of whom nothing is stated; of more, evenly spaced ones."""

# What a picture shows was not said: importers put it into brackets.
_PICTURE = re.compile(r"\s*\[[^\[\]]*\]\s*$")
_KINDS = ("person", "place", "organisation")
_EXACT = {"instant": 0, "day": 0, "week": 1, "month": 2, "season": 3, "year": 4, "decade": 5}


def statements_of(tx: Tx, turns: Collection[int]) -> dict[int, list[str]]:
    """Return the texts of the facts that each turn supports, in the order said; each turn has an entry.

    What is forgotten or corrected is not among them; what a person put in its place is, for the same turns.
    """
    found: dict[int, dict[str, None]] = {turn: {} for turn in turns}
    for turn, text in supported(tx, turns):
        found[turn][text] = None
    return {turn: list(texts) for turn, texts in found.items()}


def profile_statements(lines: Iterable[FoundLine]) -> tuple[str, ...]:
    """Return lines as the statements of a request for a profile: the lines of its text, headings among them."""
    return tuple(join_sections([(line.participant, [line.text]) for line in lines]).splitlines())


def profile_lines(
    tx: Tx,
    start_ms: int,
    end_ms: int,
    participants: Sequence[str],
    zone: tzinfo,
    *,
    turns: Collection[int] | None = None,
) -> list[FoundLine]:
    """Return the lines of a profile of [start_ms, end_ms), by participant in the order given, then by kind, then by time.

    Only what had been said by the end is in it. States and changes rest on all that was told until then, the other lines on the
    window's turns alone.

    Args:
        tx: a read transaction.
        start_ms: where the window begins, UTC ms.
        end_ms: where it ends.
        participants: who took part in it; several names of one person are one section, under the first.
        zone: whose days are written.
        turns: row ids of the window's turns, where a session that began in it goes on behind its end; else those said in it.
    """
    month = _Month(tx, start_ms, end_ms, said_in(tx, start_ms, end_ms, turns), participants, zone)
    return [line for who, name in month.names.items() for line in month.lines_of(who, name)]


class _Month:
    """The facts told in a window, and the profile lines made of them."""

    def __init__(
        self,
        tx: Tx,
        start_ms: int,
        end_ms: int,
        said: Sequence[TurnAt],
        participants: Sequence[str],
        zone: tzinfo,
    ) -> None:
        self.tx, self.start_ms, self.end_ms, self.zone = tx, start_ms, end_ms, zone
        self.said = said
        self.told = told_by(tx, [turn for turn, _, _ in said])
        self.stated = stated(tx, {one.occurrence for one in self.told})
        self.named: dict[int, list[EntityAtOccurrence]] = {}
        for named in named_by(tx, {one.fact for one in self.told}):
            self.named.setdefault(named.occurrence, []).append(named)
        told_of: dict[str, set[int]] = {}
        given = {occurrence: json.loads(fact.topics) for occurrence, fact in self.stated.items()}
        for one in self.told:
            for topic in given[one.occurrence]:
                told_of.setdefault(topic, set()).add(one.fact)
        # Few topics recur at all; whether the others were said is not looked at.
        self.topics = {
            occurrence: _said_topics(
                [one for one in topics if len(told_of[one]) >= TOPIC_RECURS], self.stated[occurrence]
            )
            for occurrence, topics in given.items()
        }
        self.topic_counts = Counter(topic for one in self.told for topic in self.topics[one.occurrence])
        self._row_of: dict[str, int | None] = {}
        self.names: dict[int | str, str] = {}
        """Whom to write of: by entity, or by name who has none."""
        for name in participants:
            if one_line(name):
                self.names.setdefault(self.entity_of(name), name)
        self.by_speaker: dict[int | str, list[FactAtTurn]] = {}
        for one in self.told:
            self.by_speaker.setdefault(self.entity_of(one.speaker), []).append(one)
        self.people = frozenset(key for name in participants if (key := entity_key(name))) | {
            one.key for group in self.named.values() for one in group if one.kind == "participant"
        }
        self._people_words = {word for key in self.people for word in key.split()}

    def entity_of(self, name: str) -> int | str:
        """Return the entity of a speaker, or the name of one without an entity."""
        if name not in self._row_of:
            key = entity_key(name)
            found = None if key is None else facts_rows.entity_by_key(self.tx, key)
            self._row_of[name] = None if found is None else found.row
        row = self._row_of[name]
        return name if row is None else row

    def lines_of(self, who: int | str, name: str) -> list[FoundLine]:
        """Return the lines of one participant."""
        own = self.by_speaker.get(who, [])
        found: list[FoundLine] = []
        if isinstance(who, int):
            held, changed = then(self.tx, who, self.start_ms, self.end_ms)
            found += self._states(name, held)
            found += self._changes(name, changed)
            found += self._events(name, who, own)
        found = found or self._said(who, name)
        return [*found, *self._entities(name, own), *self._topics(name, own)]

    def _states(self, name: str, held: Sequence[Held]) -> Iterator[FoundLine]:
        """Yield lines of the values in force; if there are too many, of those told last."""
        supports = self._turns([fact for one in held for fact in one.facts])
        times = self._times([one.facts[0] for one in held])
        sure = [one for one in held if self._is_sure(one, (one.value,), supports) and not self._is_past(one)]
        latest = sorted(sure, key=lambda one: (-one.last_ms, one.attribute, one.start_ms))[: MOST["state"]]
        for one in sorted(latest, key=lambda one: (one.attribute, one.start_ms, one.value)):
            since = since_text(one.start_ms, times.get(one.facts[0]), self.zone, began=one.began)
            text = f"{one.attribute}: {one.value} ({since})"
            yield self._line(name, text, "state", one.facts, supports)

    def _is_sure(
        self, one: Held | Changed, values: Sequence[str | None], supports: Mapping[int, Sequence[int]]
    ) -> bool:
        """Return whether turns support it, and no value is a date that a rule mistook for one ("my last day is Monday 9")."""
        dated = {
            word
            for words_ in facts_rows.dated_words(self.tx, one.facts).values()
            for word in map(fold, words_)
        }
        told = any(supports.get(fact) for fact in one.facts)
        return told and not any(value and fold(value) in word for value in values for word in dated)

    def _is_past(self, one: Held) -> bool:
        """Return whether all facts behind a value tell of a time that is over: it need not hold any more."""
        if one.began:
            return False
        spans = facts_rows.spans_of(self.tx, one.facts)
        return all(start is not None and end is not None for start, end, _ in spans.values())

    def _changes(self, name: str, changed: Sequence[Changed]) -> Iterator[FoundLine]:
        """Yield lines of the changes in the window; if there are too many, of the latest."""
        supports = self._turns([fact for one in changed for fact in one.facts])
        times = self._times([one.facts[0] for one in changed])
        sure = [one for one in changed if self._is_sure(one, (one.before, one.after), supports)]
        for one in sure[-MOST["change"] :]:
            span = times.get(one.facts[0])
            day = self._when(one.at_ms, span)
            if one.after is None:
                what = f"no longer {one.before}"
            elif one.before is None:
                what = one.after
            else:
                what = f"{one.before} -> {one.after}"
            text = f"{one.attribute}: {what} ({'' if span else 'told '}{day})"
            yield self._line(name, text, "change", one.facts, supports)

    def _times(self, facts: Collection[int]) -> dict[int, tuple[int, int | None, Precision]]:
        """Return the time that facts state, of those that state one."""
        found = facts_rows.spans_of(self.tx, facts)
        return {fact: (start, end, how) for fact, (start, end, how) in found.items() if start is not None}

    def _when(self, at_ms: int, span: tuple[int, int | None, Precision] | None) -> str:
        """Return a time as exact as it is stated; the day, where it is when something was said."""
        if span is None or span[0] != at_ms:
            return self._stated_time(at_ms, None, "day")
        return self._stated_time(*span)

    def _stated_time(self, start_ms: int, end_ms: int | None, precision: Precision) -> str:
        return stated_time((start_ms, end_ms, precision), self.zone)

    def _events(self, name: str, who: int, own: Sequence[FactAtTurn]) -> list[FoundLine]:
        """Return lines of dated events of somebody's own past that were over when they were told."""
        found: dict[str, tuple[int, int, str, list[FactAtTurn]]] = {}
        for one in own:
            fact = self.stated[one.occurrence]
            if fact.start_ms is None or fact.end_ms is None or fact.end_ms > one.said_ms or fact.negated:
                continue
            said = self._wording(fact)
            if (
                said is None
                or fact.text.startswith(f"{one.speaker}:")
                or not self._is_own(one.occurrence, who)
            ):
                continue  # what stands as "Ana: ..." may tell of anybody
            day = self._stated_time(fact.start_ms, fact.end_ms, fact.precision)
            exact = _EXACT.get(fact.precision, len(_EXACT))
            found.setdefault(f"{day}: {said}", (exact, fact.start_ms, said, []))[-1].append(one)
        texts = sorted(found, key=lambda text: (*found[text][:2], text))
        if len(texts) > MOST["event"]:  # the most exact ones; of equal ones those that tell most
            texts = self._best(texts, [found[text][2] for text in texts], [found[text][0] for text in texts])
        texts.sort(key=lambda text: (found[text][1], found[text][0], text))
        return [self._of(name, text, "event", found[text][-1]) for text in texts]

    @staticmethod
    def _best(texts: Sequence[str], said: Sequence[str], exact: Sequence[int]) -> list[str]:
        """Return as many texts as fit, the most exact first; of equally exact ones those that tell most."""
        left, kept = MOST["event"], list[str]()
        for how in sorted(set(exact)):
            group = [at for at, one in enumerate(exact) if one == how]
            if len(group) > left:
                telling = most_telling([said[at] for at in group], sum(count_words(said[at]) for at in group))
                group = [group[at] for at in telling[:left]]
            kept += [texts[at] for at in group]
            left -= len(group)
        return kept

    def _wording(self, fact: StatedFact) -> str | None:
        """Return the quote if a rule extracted the fact, else its text; None if that is very short or long."""
        quoted = fact.maker.startswith(QUOTED_MAKERS) and not fact.corrected
        text = one_line(fact.quote if quoted else fact.text)
        if not LEAST_WORDS <= count_words(text) <= MOST_WORDS:
            return None
        return f'"{text}"' if quoted else text

    def _is_own(self, occurrence: int, who: int) -> bool:
        """Return whether an occurrence tells of its speaker, and has no other participant for a subject."""
        named = self.named.get(occurrence, ())
        tells = any(one.entity == who and one.roles & ~ROLES["speaker"] for one in named)
        others = (one for one in named if one.entity != who and one.key in self.people)
        return tells and not any(one.roles & ROLES["subject"] for one in others)

    def _entities(self, name: str, own: Sequence[FactAtTurn]) -> list[FoundLine]:
        """Return lines of the entities that somebody named in several facts, with the number of facts."""
        labels: dict[int, EntityAtOccurrence] = {}
        found: dict[int, list[FactAtTurn]] = {}
        for one in own:
            for named in self.named.get(one.occurrence, ()):
                if not named.roles & ~ROLES["speaker"] or self._has_participant(named.key):
                    continue
                labels[named.entity] = named
                found.setdefault(named.entity, []).append(one)
        counts = {row: len({one.fact for one in told}) for row, told in found.items()}
        often = [row for row, count in counts.items() if count >= RECURS]
        often.sort(key=lambda row: (-counts[row], labels[row].key))
        return [
            self._of(
                name,
                f"{labels[row].kind if labels[row].kind in _KINDS else 'named'}: {labels[row].label} "
                f"({counts[row]} statements)",
                "entity",
                found[row],
            )
            for row in often[: MOST["entity"]]
        ]

    def _has_participant(self, key: str) -> bool:
        """Return whether a name is a participant's, or has one in it: "Thanks Ana" is nobody."""
        return key in self.people or bool(self._people_words & set(key.split()))

    def _topics(self, name: str, own: Sequence[FactAtTurn]) -> list[FoundLine]:
        """Return lines of the topics that somebody came back to in another session and others did less, with the number of facts."""
        found: dict[str, list[FactAtTurn]] = {}
        for one in own:
            for topic in self.topics[one.occurrence]:
                found.setdefault(topic, []).append(one)
        facts = {topic: len({one.fact for one in told}) for topic, told in found.items()}
        often = [
            topic
            for topic, told in found.items()
            if facts[topic] >= TOPIC_RECURS
            and len({one.session for one in told}) >= RECURS
            and 2 * len(told) > self.topic_counts[topic]
        ]
        often.sort(key=lambda topic: (-facts[topic], topic))
        return [
            self._of(name, f"topic: {topic} ({facts[topic]} statements)", "topic", found[topic])
            for topic in often[: MOST["topic"]]
        ]

    def _said(self, who: int | str, name: str) -> list[FoundLine]:
        """Return lines of the turns of somebody that tell most; turns with hidden parts are left out."""
        muted = set(muted_turns(self.tx))
        said = [one for one in self.said if one[0] not in muted and self.entity_of(one[1]) == who]
        if len(said) > MOST_SAID:
            step = (len(said) - 1) / (MOST_SAID - 1)
            said = [said[round(at * step)] for at in range(MOST_SAID)]
        texts = texts_of(self.tx, [turn for turn, _, _ in said])
        short = [
            (turn, said_ms, text)
            for turn, _, said_ms in said
            if (text := one_line(texts[turn])) and count_words(text) <= MOST_WORDS
        ]
        best = most_telling([text for _, _, text in short], MOST["said"] * MOST_WORDS)
        return [
            FoundLine(name, f'{self._when(said_ms, None)}: "{text}"', "said", (), (turn,))
            for turn, said_ms, text in (short[at] for at in best[: MOST["said"]])
        ]

    def _turns(self, facts: Collection[int]) -> dict[int, list[int]]:
        """Return the turns of facts that had been said by the window's end."""
        found: dict[int, list[int]] = {}
        for fact, turn in turns_of(self.tx, set(facts), self.end_ms):
            found.setdefault(fact, []).append(turn)
        return found

    @staticmethod
    def _line(
        name: str, text: str, kind: LineKind, facts: Sequence[int], supports: Mapping[int, Sequence[int]]
    ) -> FoundLine:
        own = [fact for fact in facts if supports.get(fact)]
        turns = [turn for fact in own for turn in supports[fact]]
        return FoundLine(name, one_line(text), kind, ends_of(own), ends_of(turns))

    @staticmethod
    def _of(name: str, text: str, kind: LineKind, told: Sequence[FactAtTurn]) -> FoundLine:
        facts, turns = [one.fact for one in told], [one.turn for one in told]
        return FoundLine(name, one_line(text), kind, ends_of(facts), ends_of(turns))


def _said_topics(topics: Sequence[str], fact: StatedFact) -> tuple[str, ...]:
    """Return the topics of a fact that were said; a rule may have added others, and what a picture shows was not said."""
    if not topics or _PICTURE.match(fact.quote):
        return ()
    said = frozenset(lexical_tokens(fact.quote))
    return tuple(
        one for one in dict.fromkeys(topics) if (tokens := set(lexical_tokens(one))) and tokens <= said
    )
