"""Writing facts, and deriving them anew from their occurrences whenever an occurrence comes or goes.

A fact has the wording and speaker of the first occurrence with its identity, the date of the first of all, and stands in
the trees of the entities that the occurrences name. So the order in which sessions arrive changes nothing, and an
occurrence that is taken back leaves nothing of its wording or its speaker behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from memforest.reading.canonical import (
    EntityBook,
    Signature,
    fact_identity,
    spelling,
    stated_days,
    wording,
    wording_rules,
)
from memforest.records import UNIT_DAYS, EntityKind, ExtractedFact, Precision, ResolvedDate
from memforest.search.as_of import restated
from memforest.search.vectors import index_tokens
from memforest.store import corrections, derived, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.erase import drop_occurrences, move_occurrence
from memforest.store.facts import FactRow, OccurrenceRef, OccurrenceRow, add_facts, resolve_aliases
from memforest.text import entity_key
from memforest.times import DAY_MS, from_ms


class Lessened(NamedTuple):
    """What became of facts that lost occurrences."""

    left: frozenset[int]
    """Those that stay, and those that others were joined to."""
    changed: int
    """How many of them are otherwise now."""
    reworded: bool
    """Whether one is worded otherwise, so that it needs a new vector."""
    named: set[int]
    """Entities that the occurrences named."""


def without_occurrences(tx: Tx, occurrences: Mapping[int, int]) -> Lessened:
    """Delete occurrences, each with the row of its fact, and whatever nothing else supports: facts, entities, aliases.

    Facts are derived from the occurrences that they have left. One whose remaining occurrences all say what another fact
    says is joined to that one.
    """
    called, named = drop_occurrences(tx, occurrences)
    left = facts_rows.occurrences(tx, set(occurrences.values()))
    stored = facts_rows.facts_with_ids(tx, [row for row, said in left.items() if said])
    kept, changed, reworded = set(), 0, False
    for row, before in sorted(stored.items()):
        fact = _fact_of(tx, before, left[row])
        if fact.row != row:
            for one in left[row]:
                move_occurrence(tx, one, fact.row)
        now = restate_fact(tx, fact)
        kept.add(fact.row)
        changed += now != fact
        reworded |= now.text != fact.text
    gone = sorted(left.keys() - kept)
    derived.drop_vectors(tx, "fact", gone)
    derived.clear_words(tx, "fact", gone)
    for row in gone:
        facts_rows.delete_fact(tx, row)
    drop_unnamed(tx, named)
    resolve_aliases(tx, called)
    return Lessened(frozenset(kept), changed, reworded, named)


def _fact_of(tx: Tx, fact: FactRow, left: Sequence[OccurrenceRow]) -> FactRow:
    """Return the fact that what is left of one is of: another one if all of that says what this says, else itself."""
    identities = [identity_of(fact, one.text, one.dates) for one in left]
    return fact if fact.fact_id in identities else facts_rows.fact_by_id(tx, identities[0]) or fact


def identity_of(fact: FactRow, text: str, dates: tuple[ResolvedDate, ...]) -> str:
    """Return the identity that an occurrence of a fact has by its own text and dates."""
    start, end = (None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms))
    return fact_identity(text, start, end, dates)


def is_one_unit(start_ms: int | None, end_ms: int | None, precision: str) -> bool:
    """Return whether an interval is one day, week, month or year, and so says when something began, and not until when it was so."""
    if start_ms is None or end_ms is None:
        return False
    return end_ms - start_ms <= UNIT_DAYS.get(precision, 0) * DAY_MS


def with_end(start_ms: int, end_ms: int, precision: Precision) -> Precision:
    """Return the precision of an interval whose end is meant: not one by which it would be one unit."""
    return "instant" if is_one_unit(start_ms, end_ms, precision) else precision


def _is_range(fact: FactRow, said_ms: int) -> bool:
    """Return whether a fact states since when and until when it was, or will be, so, and that is not now."""
    start, end = fact.start_ms, fact.end_ms
    if start is None or end is None or is_one_unit(start, end, fact.precision):
        return False
    return not start <= said_ms < end + UNIT_DAYS.get(fact.precision, 1) * DAY_MS


def drop_unnamed(tx: Tx, entities: Collection[int]) -> None:
    """Delete the entities that no fact names any more, but for participants.

    An entity that people have decided about stays too, as a chunk that is read again may name it: see `drop_chosen`.
    """
    gone = facts_rows.unnamed(tx, entities)
    facts_rows.drop_entities(tx, set(gone) - corrections.entities(tx) if gone else ())


def drop_chosen(tx: Tx, *, at_once: bool = False) -> None:
    """Delete the entities that people have decided about and no fact names any more, with the decisions.

    To be called at the end of a write. While a session is still to be read nothing is deleted, as it may name them,
    unless `at_once` is set.
    """
    gone = facts_rows.unnamed(tx, chosen) if (chosen := corrections.entities(tx)) else []
    if gone and (at_once or not sessions.waiting(tx)):
        facts_rows.drop_entities(tx, gone)


def restate_fact(tx: Tx, fact: FactRow) -> FactRow:
    """Derive a fact from its occurrences, and write it with its word rows.

    A vector of another wording is dropped; the caller, or `fill_vectors`, makes the new one.

    Args:
        tx: the open write transaction.
        fact: as stored; it has at least one occurrence.

    Returns:
        The fact as it is stored now.
    """
    found = facts_rows.occurrences(tx, (fact.row,))[fact.row]
    now = restated(tx, fact, found)
    if now != fact:
        if now.text != fact.text:
            derived.drop_vectors(tx, "fact", (fact.row,))
        facts_rows.restate(tx, now)
        facts_rows.put_wordings(tx, [(fact.row, fact_signature(now).digest)])
        derived.put_words(tx, "fact", [(fact.row, _words(now))])
    return now


def fact_signature(fact: FactRow, parts: frozenset[tuple[str, str]] = frozenset()) -> Signature:
    """Return the merge signature of a stored fact; `parts` are its mentions, which its digest does without."""
    times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
    return Signature(
        wording(fact.text),
        fact.negated,
        fact.start_ms,
        fact.end_ms,
        stated_days(times[0], times[1], fact.dates),
        parts,
    )


def ensure_wordings(tx: Tx) -> None:
    """Rebuild the wording digests of all facts if they are missing or were made by another version's rules."""
    if facts_rows.wording_rules(tx) == wording_rules():
        return
    facts_rows.drop_wordings(tx, wording_rules())
    facts_rows.put_wordings(tx, [(one.row, fact_signature(one).digest) for one in facts_rows.iter_facts(tx)])


def insert_facts(tx: Tx, new: Sequence[FactRow]) -> list[FactRow]:
    """Insert facts with their wording digests and word rows, and return them with their row ids; the `row` of each is ignored."""
    placed = [replace(one, row=row) for row, one in zip(add_facts(tx, new), new, strict=True)]
    facts_rows.put_wordings(tx, [(one.row, fact_signature(one).digest) for one in placed])
    derived.add_words(tx, "fact", [(one.row, _words(one)) for one in placed])
    return placed


def _words(fact: FactRow) -> str:
    return " ".join(index_tokens(fact.speaker, fact.text, from_ms(fact.said_ms)))


@dataclass(slots=True)
class Naming:
    """Collects what occurrences of facts say of entities, and writes it with a statement for each table."""

    tx: Tx
    book: EntityBook
    _mentions: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """(fact, entity, occurrence) -> bits of the roles."""
    _states: list[facts_rows.NewState] = field(default_factory=list)
    _relations: list[tuple[int, int, int, str, int]] = field(default_factory=list)
    _names: list[tuple[int, int, str]] = field(default_factory=list)

    def add(
        self, candidate: ExtractedFact, fact: FactRow, occurrence: int, said_ms: int, *, ends: bool = False
    ) -> None:
        """Add the speaker and the entities of an occurrence, with their states, relations and names.

        A state is dated by the fact if that states a time, else by when it was said. With `ends` each state ends where the
        stated time of the fact does, as a correction says until when it was so; without it those of a range ("from 2015 to 2018").
        """
        spelled: dict[int, set[str]] = {}
        place = fact.row, occurrence
        speaker = self.book.participant(candidate.speaker)
        if speaker is not None:
            spelled[speaker] = set()
            self._mentions[fact.row, speaker, occurrence] |= facts_rows.ROLES["speaker"]
        kinds: dict[str, EntityKind] = {entity_key(one.name) or "": one.kind for one in candidate.mentions}
        for mention in candidate.mentions:
            self._meet(place, spelled, mention.name, mention.kind, mention.role)
        begins_ms = said_ms if fact.start_ms is None else fact.start_ms
        over = _is_range(fact, said_ms)
        for state in candidate.states:
            kind = kinds.get(entity_key(state.entity) or "", "unknown")
            if (entity := self._meet(place, spelled, state.entity, kind)) is None:
                continue
            told = facts_rows.NewState(
                *place, entity, state.attribute, state.value, state.previous, state.change, begins_ms
            )
            self._states.append(told)
            if (ends or over) if state.change == "is" else ends and state.change == "start":
                ends_ms = begins_ms if fact.end_ms is None else fact.end_ms
                self._states.append(told._replace(previous=None, change="end", at_ms=ends_ms))
        for one in candidate.relations:
            label, keys = " ".join(one.label.split()), (entity_key(one.source), entity_key(one.target))
            if label and None not in keys:
                source, target = (
                    self._meet(place, spelled, name, kinds.get(key or "", "unknown"))
                    for name, key in zip((one.source, one.target), keys, strict=True)
                )
                if source is not None and target is not None:
                    self._relations.append((*place, source, label, target))
        for entity, names in spelled.items():
            if names - {self.book.labels[entity]}:  # of the label alone nothing is recorded
                self._names += [(occurrence, entity, name) for name in sorted(names)]

    def _meet(
        self,
        place: OccurrenceRef,
        spelled: dict[int, set[str]],
        name: str,
        kind: EntityKind,
        role: str | None = None,
    ) -> int | None:
        """Return the entity of a name, mention it in an occurrence, and note how it is spelled there.

        Without a `role` it is mentioned only if it is not yet.
        """
        entity = self.book.entity(name, kind, place[1])
        if entity is None:
            return None
        if role is not None or entity not in spelled:
            self._mentions[place[0], entity, place[1]] |= facts_rows.ROLES[role or "other"]
        label, own = self.book.labels[entity], spelling(name)
        spelled.setdefault(entity, set()).add(label if own == spelling(label) else own)
        return entity

    def write(self) -> list[int]:
        """Store everything that was added, with the entities; return the row ids of the states, in order."""
        self.book.write()
        mentions = [(*at, roles) for at, roles in self._mentions.items()]
        return facts_rows.add_named(self.tx, mentions, self._states, self._relations, self._names)
