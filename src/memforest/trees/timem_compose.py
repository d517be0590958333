"""What is known of a window, as lines with their sources: for profiles that no model writes.

Nothing is concluded here. A state is one that a fact tells outright, read as timelines are read; an event is what somebody
said of their own past, in their own words where a rule read it, dated by the date that those words have; the rest are counts.
A line is of one participant, and no fact of somebody else's about their own life comes into it. Where nothing of that is
known, as in a memory without facts, a participant's lines are what they said. All of it is of one state of knowledge: what
had been said before an instant, and is not hidden now.

Labels ("known since", "statements") are English, days are ISO days of the zone; values, names and quotations are in the
language in which they were told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from memforest.graph.profile import Teller, stated_spans
from memforest.graph.relations import StateLine, state_lines
from memforest.ports import FoundLine, LineKind, ends_of, join_sections, stated_time
from memforest.reading.states import labelled
from memforest.reading.summarise_local import most_telling
from memforest.reading.tokens import count_words
from memforest.search.snapshot import Ints, Snapshot, once_per_snapshot
from memforest.search.timeline import same_value, states_of_entity
from memforest.store.connections import Tx
from memforest.store.facts import FactRow, facts_with_ids, mentions_of
from memforest.store.reads import QUOTED_MAKERS, fact_sayings
from memforest.store.sessions import turns_with_ids
from memforest.text import entity_key
from memforest.times import one_line

MOST: Mapping[LineKind, int] = {"change": 12, "event": 12, "entity": 6, "said": 6}
"""Lines of a kind that a participant has at most; of states see `memforest.graph.profile.MOST`."""
LEAST_WORDS, MOST_WORDS = 5, 60
"""Words of what is quoted in a line: fewer are a bare answer, and more are no line."""
RECURS = 2
"""Statements that name somebody or something before it recurs."""
MOST_SAID = 256
"""Turns that are read of a participant of whom nothing is stated; of more, evenly spaced ones."""

_KINDS = ("person", "place", "organisation")
_EXACT = {"instant": 0, "day": 0, "week": 1, "month": 2, "season": 3, "year": 4, "decade": 5}


def profile_statements(lines: Iterable[FoundLine]) -> tuple[str, ...]:
    """Return lines as the statements of a request for a profile: the lines of its text, headings among them."""
    return tuple(join_sections([(line.participant, [line.text]) for line in lines]).splitlines())


def person(snapshot: Snapshot, name: str) -> int | str:
    """Return what somebody is known by: the entity of the name or alias, else its key, else the name."""
    key = entity_key(name)
    return name if key is None else snapshot.names.get(key, key)


def profile_lines(
    tx: Tx,
    snapshot: Snapshot,
    start_ms: int,
    end_ms: int,
    participants: Sequence[str],
    zone: tzinfo,
    turns: Ints,
) -> list[FoundLine]:
    """Return the lines of a profile of [start_ms, end_ms), by participant in the order given, then by kind, then by time.

    States and changes rest on all that had been told by the end, the other lines on the window's turns alone.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        start_ms: where the window begins, UTC ms.
        end_ms: where it ends.
        participants: who took part in it; several names of one person are one section, under the first.
        zone: whose days are written.
        turns: rows of the window's turns; those of a session that began in it are said behind its end, too.
    """
    names: dict[int | str, str] = {}
    for name in participants:
        if one_line(name):
            names.setdefault(person(snapshot, name), name)
    found: list[FoundLine] = []
    for who, name in names.items():
        section = _Section(Teller(tx, snapshot, name, zone, end_ms), who, turns)
        lines = [*section.lasting(start_ms), *section.events()]
        found += [*(lines or section.said()), *section.named()]
    return found


class Changed(NamedTuple):
    """A value that came, went, or took another's place; None where there was none. `fact` tells of it."""

    at_ms: int
    attribute: str
    before: str | None
    after: str | None
    fact: int

    @property
    def text(self) -> str:
        """The change in words."""
        return f"no longer {self.before}" if self.after is None else " -> ".join(filter(None, self[2:4]))


def lines_by(snapshot: Snapshot, entity: int, end_ms: int) -> list[StateLine]:
    """Return the timelines of an entity as they were known at an instant: of what was so and had been told before."""
    states = [state for state in states_of_entity(snapshot, entity) if state.at_ms < end_ms]
    rows = np.array(snapshot.rows_of_facts([state.fact for state in states]), dtype=np.int64)
    told = (snapshot.facts.said_ms[rows] < end_ms).tolist()
    here = (state for state, known in zip(states, told, strict=True) if known)
    return [*state_lines(here, {entity: 0}).values()]


def changes_of(lines: Iterable[StateLine], since_ms: int) -> list[Changed]:
    """Return what changed at or after an instant, in time order. A first value is no change unless it was told as a beginning."""
    found: list[Changed] = []
    for line in lines:
        began = {(state.fact, state.at_ms) for state in line.states if state.change == "start"}
        for left, came in pairwise([None, *line.segments, None]):
            end_ms = None if left is None else left.end_ms
            start_ms = None if came is None else came.start_ms
            went = came is None or start_ms not in (None, end_ms)
            if left is not None and end_ms is not None and went:
                found.append(Changed(end_ms, line.attribute, left.value, None, left.facts[-1]))
            if came is None or start_ms is None:
                continue
            if left is not None and end_ms == start_ms:
                if not same_value(left.value, came.value):
                    found.append(Changed(start_ms, line.attribute, left.value, came.value, came.facts[0]))
            elif (came.facts[0], start_ms) in began:
                found.append(Changed(start_ms, line.attribute, None, came.value, came.facts[0]))
    late = (one for one in found if one.at_ms >= since_ms)
    return sorted(late, key=lambda one: (one.at_ms, one.attribute, one.before or "", one.after or ""))


@once_per_snapshot
def _people(snapshot: Snapshot) -> frozenset[str]:
    """Return the keys of all who take part."""
    kinds = (one.key for one in snapshot.entities.values() if one.kind == "participant")
    return frozenset(kinds) | {key for name in snapshot.speakers if (key := entity_key(name))}


@once_per_snapshot
def _words_of_people(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(word for key in _people(snapshot) for word in key.split())


class _Event(NamedTuple):
    """What somebody told of their own past: how exactly it is dated, what was said, and what it rests on."""

    exact: int
    start_ms: int
    said: str
    facts: list[int]
    turns: list[int]


class _Section:
    """The lines of one participant.

    Args:
        teller: of lines about them.
        who: what they are known by.
        turns: rows of the window's turns.
    """

    def __init__(self, teller: Teller, who: int | str, turns: Ints) -> None:
        self._teller, self._snapshot, self._who = teller, teller.snapshot, who
        speakers = enumerate(self._snapshot.speakers)
        self._codes = [code for code, name in speakers if person(self._snapshot, name) == who]
        spoken = self._snapshot.turns.speaker[turns]
        self._turns = np.sort(turns[np.isin(spoken, self._codes)])
        pairs = self._snapshot.facts.pairs
        self._told = pairs[np.isin(pairs[:, 1], self._turns)]
        """(fact row, turn row) of what their turns support."""

    def lasting(self, since_ms: int) -> Iterator[FoundLine]:
        """Yield lines of the states in force and of the changes in the window; of too many changes, of the latest."""
        if isinstance(self._who, str):
            return
        teller, end_ms = self._teller, self._teller.before_ms
        lines = lines_by(self._snapshot, self._who, end_ms)
        yield from teller.states(lines, end_ms)
        changed = changes_of(lines, since_ms)
        spans = stated_spans(teller.tx, {one.fact for one in changed})
        sure = [
            one
            for one in changed
            if not any(value and teller.is_date(value, [one.fact]) for value in (one.before, one.after))
        ]
        for one in sure[-MOST["change"] :]:
            span = spans.get(one.fact)
            exact = span if span is not None and span[0] == one.at_ms else (one.at_ms, None, "day")
            when = f"{'' if span else 'told '}{stated_time(exact, teller.zone)}"
            yield teller.line(labelled(one.attribute, f"{one.text} ({when})"), "change", [one.fact])

    def events(self) -> list[FoundLine]:
        """Return lines of dated events of their own past that were over when they were told."""
        facts, said_ms = self._snapshot.facts, self._snapshot.turns.said_ms
        row, turn = self._told.T
        over = facts.stated[row] & (facts.end_ms[row] <= said_ms[turn])
        known = facts_with_ids(self._teller.tx, facts.ids[np.unique(row[over])].tolist())
        found: dict[str, _Event] = {}
        for fact, turns, said in self._own_words(known):
            start_ms = fact.start_ms or 0
            day = stated_time((start_ms, fact.end_ms, fact.precision), self._teller.zone)
            exact = _EXACT.get(fact.precision, len(_EXACT))
            event = found.setdefault(f"{day}: {said}", _Event(exact, start_ms, said, [], []))
            event.facts.append(fact.row)
            event.turns.extend(turns)
        texts = sorted(found, key=lambda text: (*found[text][:2], text))
        shown = sorted(_best(found, texts), key=lambda text: (found[text].start_ms, found[text].exact, text))
        return [self._line(text, "event", found[text].facts, found[text].turns) for text in shown]

    def _own_words(self, known: Mapping[int, FactRow]) -> Iterator[tuple[FactRow, list[int], str]]:
        """Yield facts that they told of themselves in the window, with the turns there and a wording for people.

        That is the quote if a rule extracted the fact, else its text; what is very short or long is left out.
        """
        own = {fact: one for fact, one in known.items() if not one.negated and self._is_own(fact, one)}
        ids, row_of = self._snapshot.turns.ids, self._snapshot.turn_row
        here = set(ids[self._turns].tolist())
        sayings = [
            (own[fact], one)
            for fact, found in fact_sayings(self._teller.tx, own).items()
            for one in found
            if one.turns[-1] in here
        ]
        spoken = turns_with_ids(self._teller.tx, {one.turns[-1] for _, one in sayings})
        for fact, one in sayings:
            last = spoken[one.turns[-1]]
            quoted = one.maker.startswith(QUOTED_MAKERS) and one.corrected_ms is None
            text = one_line((last.text if one.quote is None else one.quote) if quoted else fact.text)
            if (fact.end_ms or 0) > last.said_ms:
                continue
            if LEAST_WORDS <= count_words(text) <= MOST_WORDS:
                yield fact, [row_of[turn] for turn in one.turns], f'"{text}"' if quoted else text

    def _is_own(self, row: int, fact: FactRow) -> bool:
        """Return whether a fact tells of them, and has no other participant for a subject."""
        joined = self._snapshot.joined
        named = [(joined.get(entity, entity), role) for entity, role in mentions_of(self._teller.tx, row)]
        # What stands as "Ana: ..." may tell of anybody: of her where she is its subject.
        roles = ("subject",) if fact.text.startswith(f"{fact.speaker}:") else ("subject", "object", "other")
        tells = any(entity == self._who and role in roles for entity, role in named)
        subjects = (entity for entity, role in named if role == "subject" and entity != self._who)
        return tells and not any(self._key(entity) in _people(self._snapshot) for entity in subjects)

    def _key(self, entity: int) -> str:
        return self._snapshot.entities[entity].key

    def named(self) -> list[FoundLine]:
        """Return lines of whom and what they named in several facts, with the number of facts."""
        mentions = self._snapshot.mentions[np.isin(self._snapshot.mentions[:, 0], self._told[:, 0])]
        counts = Counter(mentions[:, 1].tolist())
        # "Thanks Ana" is nobody, and neither is who takes part.
        words = _words_of_people(self._snapshot)
        often = [
            entity
            for entity, count in counts.items()
            if count >= RECURS and words.isdisjoint(self._key(entity).split())
        ]
        often.sort(key=lambda entity: (-counts[entity], self._key(entity)))
        return [self._named(entity, mentions) for entity in often[: MOST["entity"]]]

    def _named(self, entity: int, mentions: Ints) -> FoundLine:
        one = self._snapshot.entities[entity]
        rows = mentions[mentions[:, 1] == entity, 0]
        told = self._told[np.isin(self._told[:, 0], rows)]
        told = told[np.argsort(told[:, 1], kind="stable")]
        kind = one.kind if one.kind in _KINDS else "named"
        text = f"{kind}: {one.label} ({len(rows)} statements)"
        facts: list[int] = self._snapshot.facts.ids[told[:, 0]].tolist()
        return self._line(text, "entity", facts, told[:, 1].tolist())

    def said(self) -> list[FoundLine]:
        """Return lines of the turns that tell most; those with hidden parts are left out."""
        turns = self._snapshot.turns
        rows = self._turns[~turns.muted[self._turns]]
        if len(rows) > MOST_SAID:
            rows = rows[np.linspace(0, len(rows) - 1, MOST_SAID).round().astype(np.int64)]
        texts = turns_with_ids(self._teller.tx, turns.ids[rows].tolist())
        said = [(row, one_line(texts[int(turns.ids[row])].text)) for row in rows.tolist()]
        short = [(row, text) for row, text in said if text and count_words(text) <= MOST_WORDS]
        best = most_telling([text for _, text in short], MOST["said"] * MOST_WORDS)[: MOST["said"]]
        zone = self._teller.zone
        return [
            self._line(
                f'{stated_time((int(turns.said_ms[row]), None, "day"), zone)}: "{text}"', "said", (), [row]
            )
            for row, text in (short[at] for at in best)
        ]

    def _line(self, text: str, kind: LineKind, facts: Sequence[int], turns: Sequence[int]) -> FoundLine:
        ids = self._snapshot.turns.ids[np.array(turns, dtype=np.int64)].tolist()
        return FoundLine(self._teller.name, one_line(text), kind, ends_of(facts), ends_of(ids))


def _best(found: Mapping[str, _Event], texts: Sequence[str]) -> list[str]:
    """Return as many texts of events as are shown, the most exact first; of equally exact ones those that tell most."""
    kept: list[str] = []
    for _, some in groupby(texts, key=lambda text: found[text].exact):
        group, left = list(some), MOST["event"] - len(kept)
        if len(group) > left:
            said = [found[text].said for text in group]
            telling = most_telling(said, sum(map(count_words, said)))
            group = [group[at] for at in telling[:left]]
        kept += group
    return kept
