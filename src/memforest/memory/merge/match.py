"""Which statements of another memory are facts of this one: by identity, else near ones, guarded as on ingest.

Nothing is embedded and no model is asked here: vectors are those that the other memory has, verdicts were given before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.errors import CorruptStoreError
from memforest.facts.canonical import Said, Same, fact_identity, plan_facts, tie_end
from memforest.facts.wording import wording_rules
from memforest.interval import from_ms
from memforest.memory.ingest.commit import near_facts
from memforest.memory.ingest.restate import fact_signature
from memforest.memory.merge.names import Names
from memforest.memory.merge.sessions import Becomes
from memforest.store import copying, derived
from memforest.store import facts as fact_rows
from memforest.store import wordings as word_digests
from memforest.store.corrections import corrections_of
from memforest.store.fact_writes import StoredOccurrence
from memforest.store.facts import EntityRow, FactRow
from memforest.store.faults import RESTORE
from memforest.store.packing import unpack_vectors
from memforest.store.turns import StoredTurn, turns_of_session
from memforest.store.tx import Tx
from memforest.types import Candidate, Mention


@dataclass(frozen=True, slots=True)
class Reading:
    """Facts of another memory as they are called here, by their rows there; nothing of this memory is in it."""

    facts: Mapping[int, FactRow]
    mentions: Mapping[int, Sequence[copying.MentionCopy]]
    called: Mapping[int, Sequence[tuple[str, str]]]
    """Fact -> (name there, name here) of those in it who are called otherwise here."""
    entities: Mapping[int, EntityRow]
    wordings: Mapping[int, bytes]
    vectors: Mapping[int, tuple[bytes, bytes]] = field(default_factory=dict)
    """Fact -> digest and vector as stored; nothing where the text is another one here, or the embedder."""

    def said(self, row: int, names: Names) -> Said:
        """Return a fact as a statement that is yet to become one here."""
        fact = self.facts[row]
        mentions = tuple(
            Mention(names.entity(self.entities[one.entity])[1], "unknown", role)  # type: ignore[arg-type]
            for one in self.mentions.get(row, ())
            for role, bit in fact_rows.ROLES.items()
            if role != "speaker" and one.roles & bit
        )
        candidate = Candidate(
            text=fact.text,
            turns=(),
            speaker=fact.speaker,
            quote="",
            start=None if fact.start_ms is None else from_ms(fact.start_ms),
            end=None if fact.end_ms is None else from_ms(fact.end_ms),
            dates=fact.dates,
            negated=fact.negated,
            mentions=mentions,
        )
        return Said(candidate, 0, (), fact.said_ms, fact.tie.removesuffix(tie_end(fact.fact_id)))


@dataclass(frozen=True, slots=True)
class Match:
    """What a fact of another memory joins here: the row of a stored fact, or another new fact there; and how near it is."""

    row: int | None = None
    there: int | None = None
    cosine: float | None = None


def read_facts(source: Tx, rows: Collection[int], names: Names, *, vectors: bool) -> Reading:
    """Read facts of another memory; their texts, speakers and identities are those that they have here.

    Raises:
        CorruptStoreError: if one is not what its identity was made of.
    """
    facts = fact_rows.facts_with_ids(source, rows)
    mentions: dict[int, list[copying.MentionCopy]] = {}
    for one in copying.mentions(source, rows):
        mentions.setdefault(one.fact, []).append(one)
    named = {one.entity for found in mentions.values() for one in found}
    entities = copying.entities(source, named)
    called = _called(source, mentions, entities, names) if names else {}
    stored = derived.stored_vectors(source, "fact", rows) if vectors else {}
    worded = (
        word_digests.wordings(source, rows) if word_digests.wording_rules(source) == wording_rules() else {}
    )
    for row, fact in facts.items():
        if _identity(fact, fact.text) != fact.fact_id:
            raise CorruptStoreError(
                f"the statement {fact.fact_id} is not what its identity was made of; {RESTORE}"
            )
        if row in called or names.speaker(fact.speaker) != fact.speaker:
            facts[row] = renamed(fact, names, called.get(row, ()))
            if facts[row].text != fact.text:
                stored.pop(row, None)
                worded.pop(row, None)
    return Reading(facts, mentions, called, entities, worded, stored)


def _called(
    source: Tx,
    mentions: Mapping[int, Sequence[copying.MentionCopy]],
    entities: Mapping[int, EntityRow],
    names: Names,
) -> dict[int, list[tuple[str, str]]]:
    """Return fact -> (name there, name here), short forms included, of those who are called otherwise here."""
    short: dict[int, set[tuple[int, str]]] = {}
    for use in copying.alias_uses(source, {one.occurrence for found in mentions.values() for one in found}):
        short.setdefault(use.occurrence, set()).add((use.entity, use.key))
    found: dict[int, list[tuple[str, str]]] = {}
    for fact, ones in mentions.items():
        for one in ones:
            there = entities[one.entity]
            label = names.here.get(there.key)
            if label is not None:
                keys = [key for entity, key in short.get(one.occurrence, ()) if entity == one.entity]
                found.setdefault(fact, []).extend((name, label) for name in (there.label, *keys))
    return found


def renamed(fact: FactRow, names: Names, called: Sequence[tuple[str, str]]) -> FactRow:
    """Return a fact with the names that those in it have here, and the identity of that."""
    text = names.text(fact.text, called)
    identity = _identity(fact, text)
    tie = fact.tie.removesuffix(tie_end(fact.fact_id)) + tie_end(identity)
    return replace(fact, fact_id=identity, text=text, speaker=names.speaker(fact.speaker), tie=tie)


def _identity(fact: FactRow, text: str) -> str:
    start, end = (None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms))
    return fact_identity(text, start, end, fact.dates)


def match(
    tx: Tx, reading: Reading, names: Names, threshold: float | None, same: Mapping[str, Same]
) -> dict[int, Match]:
    """Return which facts of another memory join which; what is not in the result is new here.

    Args:
        tx: a transaction of this memory.
        reading: the facts.
        names: who is called otherwise here.
        threshold: least cosine of a near merge; None merges by identity and verdicts alone.
        same: a judge's verdicts, by the identity of the statement that is merged.
    """
    ids = {fact.fact_id for fact in reading.facts.values()}
    wanted = ids | {same[one].fact_id for one in ids if one in same}
    stored = copying.facts_with_identities(tx, wanted)
    found: dict[int, Match] = {}
    first: dict[str, int] = {}
    for row in sorted(reading.facts, key=lambda at: (reading.facts[at].said_ms, reading.facts[at].tie)):
        identity = reading.facts[row].fact_id
        if identity in stored:
            found[row] = Match(row=stored[identity])
        elif identity in first:  # two there, which are called the same here
            found[row] = Match(there=first[identity])
        else:
            first[identity] = row
    # What an update put somewhere stands as it was given, and is never said to be another statement.
    made = {one.made for one in corrections_of(tx, first.keys())}
    free = {identity: row for identity, row in first.items() if identity not in made}
    maybe = _maybe_near(tx, reading, free, threshold)
    judged = [identity for identity in free if identity in same]
    doubtful = {identity: first[identity] for identity in (*maybe, *judged)}
    if doubtful:
        found |= _planned(tx, reading, names, doubtful, stored, threshold, same)
    return found


def _maybe_near(tx: Tx, reading: Reading, new: Mapping[str, int], threshold: float | None) -> list[str]:
    """Return the identities of new facts that are worded as a stored one is."""
    if threshold is None:
        return []
    digests = {
        identity: reading.wordings.get(row) or fact_signature(reading.facts[row]).digest
        for identity, row in new.items()
        if row in reading.vectors
    }
    worded = word_digests.known_wordings(tx, set(digests.values()))
    return [identity for identity, one in digests.items() if one in worded]


def _planned(
    tx: Tx,
    reading: Reading,
    names: Names,
    doubtful: Mapping[str, int],
    stored: Mapping[str, int],
    threshold: float | None,
    same: Mapping[str, Same],
) -> dict[int, Match]:
    """Let the rules of ingest decide of facts that may be near stored ones."""
    said = [reading.said(row, names) for row in doubtful.values()]
    vectors: dict[str, NDArray[np.float32]] = {
        identity: unpack_vectors(reading.vectors[row][1])[0]
        for identity, row in doubtful.items()
        if row in reading.vectors
    }
    near = near_facts(tx, [one.candidate for one in said if one.fact_id in vectors], threshold)
    found: dict[int, Match] = {}
    for plan in plan_facts(
        said, stored_ids=stored, vectors=vectors, stored=near, threshold=threshold, same=same
    ):
        head = doubtful[plan.fact_id]
        for one in plan.said:
            row = doubtful[one.fact_id]
            if plan.joins is not None:
                found[row] = Match(row=plan.joins, cosine=plan.cosines.get(one.fact_id))
            elif row != head:
                found[row] = Match(there=head, cosine=plan.cosines.get(one.fact_id))
    return found


# -- what comes -----------------------------------------------------------------------------------


def cells_of(source: Tx, one: Becomes, turns: Sequence[StoredTurn]) -> list[tuple[Any, ...]]:
    """Return the chunks of which something comes, as `memforest.store.copying.cells` has them, of a session of these turns."""
    new = [turn.ordinal for turn in turns if one.rest is None or one.rest.get(turn.row) is not None]
    cells = copying.cells(source, one.there.row)
    return [cell for cell in cells if bisect_left(new, cell[2]) < bisect_right(new, cell[3])]


def told(
    source: Tx, cells: Collection[int], whole: Collection[int], new: Collection[int]
) -> tuple[list[StoredOccurrence], dict[int, tuple[int, ...]]]:
    """Return the occurrences of chunks that come, and the turns of each; all ids are those there.

    Args:
        source: a transaction of the other memory.
        cells: the chunks.
        whole: those that come as they are; of others come the occurrences of turns that all come.
        new: turns that come.
    """
    found = copying.occurrences(source, cells)
    said = copying.said_in(source, {one.row for one in found})
    return [
        one for one in found if one.cell in whole or all(turn in new for turn in said.get(one.row, (0,)))
    ], said


def facts_of(source: Tx, one: Becomes) -> set[int]:
    """Return the facts there of which something comes with a session."""
    cells = [cell[0] for cell in cells_of(source, one, turns_of_session(source, one.there.row))]
    new = {row for row, text in (one.rest or {}).items() if text is not None}
    found, _ = told(source, cells, cells if one.rest is None else (), new)
    return {occurrence.fact for occurrence in found}
