"""What is known of a window, as lines with their sources: for segments and profiles that no model writes.

Nothing is concluded here. A state is one that a statement tells outright, read as timelines are read; an event is what
somebody said of their own past, in their own words where a rule read it, dated by the date that those words have; the rest are
counts. A line is of one participant, and no statement of somebody else's about their own life comes into it. Where nothing of
that is known, as in a memory without statements, a participant's lines are what they said.

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
from typing import Literal

from memforest.display import one_line
from memforest.language.counting import count_words
from memforest.profiles import ends_of, join_sections, since_text, stated_time
from memforest.steps.local.records import most_telling
from memforest.store import facts as fact_rows
from memforest.store.facts import ROLES
from memforest.store.leaves import QUOTED_MAKERS
from memforest.store.snapshot import muted_turns
from memforest.store.tx import Tx
from memforest.systems.timem import profile_rows as rows
from memforest.systems.timem.profile_rows import Named, Said, StatedFact, Told, tell_states
from memforest.systems.timem.states_then import Changed, Held, then
from memforest.text import entity_key, fold, lexical_tokens
from memforest.types import Precision

__all__ = ["MOST", "Line", "LineKind", "profile_lines", "profile_statements", "statements_of", "tell_states"]

LineKind = Literal["state", "change", "event", "said", "entity", "topic"]

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


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a participant's profile, on one line, with the statements and turns it rests on, in the order they were said."""

    participant: str
    text: str
    kind: LineKind
    facts: tuple[int, ...]
    turns: tuple[int, ...]


def statements_of(tx: Tx, turns: Collection[int]) -> dict[int, list[str]]:
    """Return the statements that each of some turns supports, in the order they were said; each turn has an entry.

    What is forgotten or corrected is not among them; what a person put in its place is, for the same turns.
    """
    found: dict[int, dict[str, None]] = {turn: {} for turn in turns}
    for turn, text in rows.supported(tx, turns):
        found[turn][text] = None
    return {turn: list(texts) for turn, texts in found.items()}


def profile_statements(lines: Iterable[Line]) -> tuple[str, ...]:
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
) -> list[Line]:
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
    said = rows.said_between(tx, start_ms, end_ms) if turns is None else rows.said_of(tx, turns)
    month = _Month(tx, start_ms, end_ms, said, participants, zone)
    return [line for who, name in month.names.items() for line in month.lines_of(who, name)]


class _Month:
    """The statements that were told in a window, and what is made of them."""

    def __init__(
        self,
        tx: Tx,
        start_ms: int,
        end_ms: int,
        said: Sequence[Said],
        participants: Sequence[str],
        zone: tzinfo,
    ) -> None:
        self.tx, self.start_ms, self.end_ms, self.zone = tx, start_ms, end_ms, zone
        self.said = said
        self.told = rows.told_by(tx, [one.turn for one in said])
        self.stated = rows.stated(tx, {one.occurrence for one in self.told})
        self.named: dict[int, list[Named]] = {}
        for named in rows.named_by(tx, {one.fact for one in self.told}):
            self.named.setdefault(named.occurrence, []).append(named)
        self.topics = {occurrence: _topics_of(fact) for occurrence, fact in self.stated.items()}
        self.topic_counts = Counter(topic for one in self.told for topic in self.topics[one.occurrence])
        self._row_of: dict[str, int | None] = {}
        self.names: dict[int | str, str] = {}
        """Whom to write of: by entity, or by name who has none."""
        for name in participants:
            if one_line(name):
                self.names.setdefault(self.entity_of(name), name)
        self.people = frozenset(key for name in participants if (key := entity_key(name))) | {
            one.key for group in self.named.values() for one in group if one.kind == "participant"
        }
        self._people_words = {word for key in self.people for word in key.split()}

    def entity_of(self, name: str) -> int | str:
        """Return the entity of somebody who speaks, or the name of who has none."""
        if name not in self._row_of:
            key = entity_key(name)
            found = None if key is None else fact_rows.entity_by_key(self.tx, key)
            self._row_of[name] = None if found is None else found.row
        row = self._row_of[name]
        return name if row is None else row

    def lines_of(self, who: int | str, name: str) -> list[Line]:
        """Return the lines of one participant."""
        own = [one for one in self.told if self.entity_of(one.speaker) == who]
        found: list[Line] = []
        if isinstance(who, int):
            states = then(self.tx, who, self.start_ms, self.end_ms)
            found += self._states(name, states.held)
            found += self._changes(name, states.changed)
            found += self._events(name, who, own)
        found = found or self._said(who, name)
        return [*found, *self._entities(name, own), *self._topics(name, own)]

    # -- states -----------------------------------------------------------------------------------

    def _states(self, name: str, held: Sequence[Held]) -> Iterator[Line]:
        """Yield the values in force: of more than are shown those that were told last."""
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
        """Return whether turns tell of it, and no value is a date that a rule took for one ("my last day is Monday 9")."""
        dated = {
            word for words_ in rows.dated_words(self.tx, one.facts).values() for word in map(fold, words_)
        }
        told = any(supports.get(fact) for fact in one.facts)
        return told and not any(value and fold(value) in word for value in values for word in dated)

    def _is_past(self, one: Held) -> bool:
        """Return whether all that tells of a value is of a time that was over: it need not be so any more."""
        if one.began:
            return False
        spans = rows.spans_of(self.tx, one.facts)
        return all(start is not None and end is not None for start, end, _ in spans.values())

    def _changes(self, name: str, changed: Sequence[Changed]) -> Iterator[Line]:
        """Yield what changed in the window: of more than are shown the latest."""
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
        found = rows.spans_of(self.tx, facts)
        return {fact: (start, end, how) for fact, (start, end, how) in found.items() if start is not None}

    def _when(self, at_ms: int, span: tuple[int, int | None, Precision] | None) -> str:
        """Return a time as exact as it is stated; the day, where it is when something was said."""
        if span is None or span[0] != at_ms:
            return self._stated_time(at_ms, None, "day")
        return self._stated_time(*span)

    def _stated_time(self, start_ms: int, end_ms: int | None, precision: Precision) -> str:
        return stated_time((start_ms, end_ms, precision), self.zone)

    # -- events -----------------------------------------------------------------------------------

    def _events(self, name: str, who: int, own: Sequence[Told]) -> list[Line]:
        """Return what somebody told of their own past: dated, over when it was told, and of nobody else."""
        found: dict[str, tuple[int, int, str, list[Told]]] = {}
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
        """Return as many texts as are shown, the most exact first; of those of one exactness, what tells most."""
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
        """Return what was said where a rule read it, else the statement; None if that is very short or long."""
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

    # -- what recurs ------------------------------------------------------------------------------

    def _entities(self, name: str, own: Sequence[Told]) -> list[Line]:
        """Return whom and what somebody named in several statements, with how many."""
        labels: dict[int, Named] = {}
        found: dict[int, list[Told]] = {}
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

    def _topics(self, name: str, own: Sequence[Told]) -> list[Line]:
        """Return the topics that somebody came back to in another session, and others less, with how many statements have them."""
        found: dict[str, list[Told]] = {}
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

    # -- where nothing is stated ------------------------------------------------------------------

    def _said(self, who: int | str, name: str) -> list[Line]:
        """Return what somebody said, whole turns: those that tell most. Of what is hidden no word."""
        muted = set(muted_turns(self.tx))
        said = [one for one in self.said if one.turn not in muted and self.entity_of(one.speaker) == who]
        if len(said) > MOST_SAID:
            step = (len(said) - 1) / (MOST_SAID - 1)
            said = [said[round(at * step)] for at in range(MOST_SAID)]
        texts = rows.texts_of(self.tx, [one.turn for one in said])
        short = [
            (one, text)
            for one in said
            if (text := one_line(texts[one.turn])) and count_words(text) <= MOST_WORDS
        ]
        best = most_telling([text for _, text in short], MOST["said"] * MOST_WORDS)
        return [
            Line(name, f'{self._when(one.said_ms, None)}: "{text}"', "said", (), (one.turn,))
            for one, text in (short[at] for at in best[: MOST["said"]])
        ]

    # -- lines and sources ------------------------------------------------------------------------

    def _turns(self, facts: Collection[int]) -> dict[int, list[int]]:
        """Return the turns of facts that had been said by the window's end."""
        found: dict[int, list[int]] = {}
        for fact, turn in rows.turns_of(self.tx, set(facts), self.end_ms):
            found.setdefault(fact, []).append(turn)
        return found

    @staticmethod
    def _line(
        name: str, text: str, kind: LineKind, facts: Sequence[int], supports: Mapping[int, Sequence[int]]
    ) -> Line:
        own = [fact for fact in facts if supports.get(fact)]
        turns = [turn for fact in own for turn in supports[fact]]
        return Line(name, one_line(text), kind, ends_of(own), ends_of(turns))

    @staticmethod
    def _of(name: str, text: str, kind: LineKind, told: Sequence[Told]) -> Line:
        facts, turns = [one.fact for one in told], [one.turn for one in told]
        return Line(name, one_line(text), kind, ends_of(facts), ends_of(turns))


def _topics_of(fact: StatedFact) -> tuple[str, ...]:
    """Return the topics of a statement that were said; a rule may have put others, and what a picture shows was not said."""
    said = frozenset() if _PICTURE.match(fact.quote) else frozenset(lexical_tokens(fact.quote))
    topics = dict.fromkeys(json.loads(fact.topics))
    return tuple(topic for topic in topics if (tokens := set(lexical_tokens(topic))) and tokens <= said)
