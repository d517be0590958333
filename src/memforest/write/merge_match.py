"""Which statements of another memory are facts of this one, and which of its corrections hold here.

Facts join by identity, else near ones do, guarded as on ingest. Nothing is embedded and no model is asked: vectors are
those of the other memory, verdicts were given before.

A correction holds here from the merge on; of several the one that was made last counts, whichever memory it was made in.
What it says of sessions that are here already is settled at once, the rest when its session is copied.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from memforest.errors import CorruptStoreError
from memforest.read.quoting import sentences_said
from memforest.reading.canonical import PlacedFact, Same, fact_identity, plan_facts, tie_end, wording_rules
from memforest.records import ExtractedFact, Mention
from memforest.store import corrections, derived, erase, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import RESTORE, Tx
from memforest.store.corrections import Correction, SentencePlace, corrections_of
from memforest.store.derived import unpack_vectors
from memforest.store.erase import deleted
from memforest.store.facts import EntityRow, FactRow, OccurrenceRow
from memforest.store.sessions import ChunkRow, StoredTurn, turns_of_session, turns_with_ids
from memforest.times import from_ms
from memforest.write.commit import near_facts
from memforest.write.corrections import chunks_about, settle_chunks, settle_verdicts
from memforest.write.erase_corrections import content_words, left_of
from memforest.write.merge_plan import Merging, Names, Plan, SessionPlan
from memforest.write.reword import fact_signature, identity_of


@dataclass(frozen=True, slots=True)
class OtherFacts:
    """Facts of another memory as they are called here, by their rows there; nothing of this memory is in it."""

    facts: Mapping[int, FactRow]
    mentions: Mapping[int, Sequence[facts_rows.Mention]]
    called: Mapping[int, Sequence[tuple[str, str]]]
    """Fact -> (name there, name here) of those in it who are called otherwise here."""
    entities: Mapping[int, EntityRow]
    words: Mapping[int, str]
    """Fact -> its word row; nothing where it is called otherwise here."""
    wordings: Mapping[int, bytes]
    vectors: Mapping[int, tuple[bytes, bytes]]
    """Fact -> digest and vector as stored; nothing where the text is another one here, or the embedder."""

    def said(self, row: int, names: Names) -> PlacedFact:
        """Return a fact as a statement that is yet to become one here."""
        fact = self.facts[row]
        mentions = tuple(
            Mention(names.entity(self.entities[one.entity])[1], "unknown", role)  # type: ignore[arg-type]
            for one in self.mentions.get(row, ())
            for role, bit in facts_rows.ROLES.items()
            if role != "speaker" and one.roles & bit
        )
        candidate = ExtractedFact(
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
        return PlacedFact(candidate, 0, (), fact.said_ms, fact.tie.removesuffix(tie_end(fact.fact_id)))


@dataclass(frozen=True, slots=True)
class FactMatch:
    """What a fact of another memory joins here: the row of a stored fact, or another new fact there; and how near it is."""

    row: int | None = None
    there: int | None = None
    cosine: float | None = None


def read_facts(source: Tx, rows: Collection[int], names: Names, *, vectors: bool) -> OtherFacts:
    """Read facts of another memory; their texts, speakers and identities are those that they have here.

    Raises:
        CorruptStoreError: if one is not what its identity was made of.
    """
    facts = facts_rows.facts_with_ids(source, rows)
    mentions: dict[int, list[facts_rows.Mention]] = {}
    for one in facts_rows.mentions(source, rows):
        mentions.setdefault(one.fact, []).append(one)
    named = {one.entity for found in mentions.values() for one in found}
    entities = facts_rows.entities(source, named)
    called = _called(source, mentions, entities, names) if names else {}
    stored = derived.stored_vectors(source, "fact", rows) if vectors else {}
    words = derived.words_of(source, "fact", rows)
    worded = facts_rows.wordings(source, rows) if facts_rows.wording_rules(source) == wording_rules() else {}
    for row, fact in facts.items():
        if identity_of(fact, fact.text, fact.dates) != fact.fact_id:
            raise CorruptStoreError(
                f"the statement {fact.fact_id} is not what its identity was made of; {RESTORE}"
            )
        if row in called or names.speaker(fact.speaker) != fact.speaker:
            facts[row] = renamed(fact, names, called.get(row, ()))
            words.pop(row, None)
            if facts[row].text != fact.text:
                stored.pop(row, None)
                worded.pop(row, None)
    return OtherFacts(facts, mentions, called, entities, words, worded, stored)


def _called(
    source: Tx,
    mentions: Mapping[int, Sequence[facts_rows.Mention]],
    entities: Mapping[int, EntityRow],
    names: Names,
) -> dict[int, list[tuple[str, str]]]:
    """Return fact -> (name there, name here), short forms included, of those who are called otherwise here."""
    short: dict[int, set[tuple[int, str]]] = {}
    occurrences = {one.occurrence for found in mentions.values() for one in found}
    for key, entity, occurrence in facts_rows.alias_uses(source, occurrences):
        short.setdefault(occurrence, set()).add((entity, key))
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
    identity = identity_of(fact, text, fact.dates)
    tie = tie_with(fact.tie, identity)
    return replace(fact, fact_id=identity, text=text, speaker=names.speaker(fact.speaker), tie=tie)


def tie_with(tie: str, identity: str) -> str:
    """Return the tie of a statement of another identity in the place of one."""
    end = tie_end(identity)
    return tie[: -len(end)] + end


def match(
    tx: Tx, reading: OtherFacts, names: Names, threshold: float | None, same: Mapping[str, Same]
) -> dict[int, FactMatch]:
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
    stored = facts_rows.rows_of_ids(tx, wanted)
    found: dict[int, FactMatch] = {}
    first: dict[str, int] = {}
    for row in sorted(reading.facts, key=lambda at: (reading.facts[at].said_ms, reading.facts[at].tie)):
        identity = reading.facts[row].fact_id
        if identity in stored:
            found[row] = FactMatch(row=stored[identity])
        elif identity in first:  # two there, which are called the same here
            found[row] = FactMatch(there=first[identity])
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


def _maybe_near(tx: Tx, reading: OtherFacts, new: Mapping[str, int], threshold: float | None) -> list[str]:
    """Return the identities of new facts that are worded as a stored one is."""
    if threshold is None:
        return []
    digests = {
        identity: reading.wordings.get(row) or fact_signature(reading.facts[row]).digest
        for identity, row in new.items()
        if row in reading.vectors
    }
    worded = set(facts_rows.facts_worded(tx, digests.values()).values())
    return [identity for identity, one in digests.items() if one in worded]


def _planned(
    tx: Tx,
    reading: OtherFacts,
    names: Names,
    doubtful: Mapping[str, int],
    stored: Mapping[str, int],
    threshold: float | None,
    same: Mapping[str, Same],
) -> dict[int, FactMatch]:
    """Let the rules of ingest decide of facts that may be near stored ones."""
    said = [reading.said(row, names) for row in doubtful.values()]
    vectors: dict[str, NDArray[np.float32]] = {
        identity: unpack_vectors(reading.vectors[row][1])[0]
        for identity, row in doubtful.items()
        if row in reading.vectors
    }
    near = near_facts(tx, [one.candidate for one in said if one.fact_id in vectors], threshold)
    found: dict[int, FactMatch] = {}
    for plan in plan_facts(
        said, stored_ids=stored, vectors=vectors, stored=near, threshold=threshold, same=same
    ):
        head = doubtful[plan.fact_id]
        for one in plan.said:
            row = doubtful[one.fact_id]
            if plan.joins is not None:
                found[row] = FactMatch(row=plan.joins, cosine=plan.cosines.get(one.fact_id))
            elif row != head:
                found[row] = FactMatch(there=head, cosine=plan.cosines.get(one.fact_id))
    return found


def chunks_of(source: Tx, one: SessionPlan, turns: Sequence[StoredTurn]) -> list[ChunkRow]:
    """Return the chunks of which something comes, of a session of these turns."""
    chunks = sessions.chunks(source, one.there.row)
    if one.rest is None:
        return chunks
    new = [turn.ordinal for turn in turns if one.rest.get(turn.row) is not None]
    return [chunk for chunk in chunks if bisect_left(new, chunk.first) < bisect_right(new, chunk.last)]


def occurrences_told(
    source: Tx, chunks: Collection[int], whole: Collection[int], new: Collection[int]
) -> list[OccurrenceRow]:
    """Return the occurrences of chunks that come; all ids are those there.

    Args:
        source: a transaction of the other memory.
        chunks: the chunks.
        whole: those that come as they are; of others come the occurrences of turns that all come.
        new: turns that come.
    """
    found = facts_rows.occurrences(source, set(facts_rows.occurrences_in(source, chunks).values()))
    told = [
        one
        for ones in found.values()
        for one in ones
        if one.chunk in chunks
        if one.chunk in whole or all(turn in new for turn in one.turns or (0,))
    ]
    return sorted(told, key=attrgetter("row"))


def coming_facts(source: Tx, plan: Plan) -> OtherFacts:
    """Return the facts of another memory of which something comes."""
    facts: set[int] = set()
    for one in plan.sessions:
        if one.how != "same":
            turns = turns_of_session(source, one.there.row)
            chunks = {chunk.row for chunk in chunks_of(source, one, turns)}
            new = {turn.row for turn in turns if one.rest is None or one.rest.get(turn.row) is not None}
            whole = chunks if one.rest is None else ()
            facts.update(told.fact for told in occurrences_told(source, chunks, whole, new))
    return read_facts(source, facts, plan.names, vectors=plan.vectors)


def merge_corrections(tx: Tx, source: Tx, merging: Merging) -> int:
    """Store what people have decided of statements there, and apply it to what is here already.

    A correction of which no sentence stands here, or will, is not taken over.

    Args:
        tx: the write transaction.
        source: a read transaction of the other memory.
        merging: the merge; the corrections are noted in it.

    Returns:
        How many are new.

    Raises:
        CorruptStoreError: if a statement is not what its identity was made of.
    """
    plan, stored_ms = merging.plan, merging.stored_ms
    standing = _Standing(tx, source, plan)
    changed: list[Correction] = []
    new = 0
    for one in _renamed(source, standing.corrections(), plan.names):
        stored = corrections.correction_with_key(tx, one.key)
        undone_ms = None if one.undone_ms is None else stored_ms
        if stored is None:
            stored = replace(one, stored_ms=stored_ms, undone_ms=undone_ms)
            stored = replace(stored, row=corrections.add_correction(tx, stored))
            new += 1
            changed.append(stored)
        elif undone_ms is not None and stored.undone_ms is None:
            corrections.undo_correction(tx, stored.row, undone_ms)
            stored = replace(stored, undone_ms=undone_ms)
            changed.append(stored)
        if stored.made is not None and (stored.made, stored.undone_ms) == (one.made, None):
            merging.corrections[one.row] = stored.row
        for place in standing.places.get(one.row, ()):
            at = standing.here(place)
            if at is None:
                merging.decided.setdefault(place[:2], []).append((stored.row, place.quote))
            else:
                corrections.add_places(tx, stored.row, (place._replace(session_id=at[0], turn_id=at[1]),))
    if changed:
        merging.settle(settle_chunks(tx, sorted(chunks_about(tx, changed))))
        ids = {one.fact_id for one in changed}
        settle_verdicts(tx, facts_rows.rows_of_ids(tx, ids).values())
    return new


_Texts = tuple[dict[str, str], dict[str, tuple[str, str]], frozenset[str]]
"""Of a session there: turn id -> the text that stands here, or will; turn id -> (session id, turn id) here of the turns
that are here; and the words that only such texts say as do not stand here."""


class _Standing:
    """The corrections of another memory that stand here, with their places there."""

    def __init__(self, tx: Tx, source: Tx, plan: Plan) -> None:
        self._tx, self._source = tx, source
        self._becomes = {one.there.session_id: one for one in plan.sessions}
        self._deleted = deleted(tx)
        self._sessions: dict[str, _Texts] = {}
        self.places = corrections.named_places(source)
        """Correction there -> those of its places that stand here; of all, before `corrections` was called."""

    def here(self, place: SentencePlace) -> tuple[str, str] | None:
        """Return the ids of session and turn of a place that is here; None where it is yet to come."""
        return self._session(place.session_id)[1].get(place.turn_id)

    def corrections(self) -> list[Correction]:
        """Return the corrections that stand here, without words that stand here nowhere."""
        found: list[Correction] = []
        lost: dict[str, frozenset[str]] = {}
        for one in corrections.all_corrections(self._source):
            if erase.correction_digest(one.key) in self._deleted:
                continue
            spots = self._spots(one)
            gone = frozenset[str]().union(*(self._session(name)[2] for name, _ in spots))
            said = {place: text for place in self.places.get(one.row, ()) if (text := self._said(place))}
            self.places[one.row] = [*said]
            by_other = lost.get(one.fact_id)
            stands = any(turn in self._session(name)[0] for name, turn in spots)
            own = one.kind == "remember"  # it stands where its places do, whatever it replaces
            if (own or by_other is None) and not said and (own or one.kind == "update" or not stands):
                continue
            gone |= by_other or frozenset()
            if (kept := left_of(one, said.values(), gone)) is not None:
                found.append(kept)
                if kept.made is not None:
                    lost[kept.made] = gone
        return found

    def _spots(self, one: Correction) -> set[tuple[str, str]]:
        """Return (session, turn) there of the places of a correction, and of where its statement was said."""
        found = {place[:2] for place in self.places.get(one.row, ())}
        fact = facts_rows.rows_of_ids(self._source, {one.fact_id}).get(one.fact_id)
        if fact is not None:
            found.update(
                spot for _, turns in corrections.stored_times(self._source, fact).values() for spot in turns
            )
        return found

    def _said(self, place: SentencePlace) -> str | None:
        """Return the sentence of a place, if it stands here."""
        text = self._session(place.session_id)[0].get(place.turn_id)
        return None if text is None else sentences_said(text).get(place.quote)

    def _session(self, session_id: str) -> _Texts:
        if session_id not in self._sessions:
            texts: dict[str, str] = {}
            here: dict[str, tuple[str, str]] = {}
            gone: set[str] = set()
            left: set[str] = set()
            if (one := self._becomes.get(session_id)) is not None:
                spots = turns_with_ids(self._tx, set(one.here.values()))
                for turn in turns_of_session(self._source, one.there.row):
                    spot = spots.get(one.here.get(turn.row, 0))
                    text = turn.text if one.rest is None else one.rest.get(turn.row)
                    if spot is not None:
                        text, here[turn.turn_id] = spot.text, (spot.session_id, spot.turn_id)
                    if text is not None:
                        texts[turn.turn_id] = text
                        left |= content_words(turn.speaker, text)
                    if text != turn.text:
                        gone |= content_words(turn.speaker, turn.text)
            self._sessions[session_id] = texts, here, frozenset(gone - left)
        return self._sessions[session_id]


def _renamed(source: Tx, found: list[Correction], names: Names) -> list[Correction]:
    """Return corrections with the identities and texts that their statements have here."""
    if not names or not found:
        return found
    wanted = {fact_id for one in found for fact_id in (one.fact_id, one.made) if fact_id is not None}
    stored = facts_rows.rows_of_ids(source, wanted)
    reading = read_facts(source, stored.values(), names, vectors=False)
    renamed = []
    for one in found:
        about = [stored[fact_id] for fact_id in (one.fact_id, one.made) if fact_id in stored]
        called = [pair for row in about for pair in reading.called.get(row, ())]
        fact = reading.facts.get(stored.get(one.fact_id, 0))
        text = None if one.text is None else names.text(one.text, called)
        times = [None if ms is None else from_ms(ms) for ms in (one.start_ms, one.end_ms)]
        renamed.append(
            replace(
                one,
                fact_id=one.fact_id if fact is None else fact.fact_id,
                said=names.text(one.said, called),
                text=text,
                made=None if text is None else fact_identity(text, *times),
                state=json.dumps([names.speaker(part) for part in one.about], ensure_ascii=False),
            )
        )
    return renamed


def new_corrections(tx: Tx, source: Tx, plan: Plan) -> list[Correction]:
    """Return the corrections that would be taken over and are not here."""
    known = {one.key for one in corrections.all_corrections(tx)}
    return [one for one in _Standing(tx, source, plan).corrections() if one.key not in known]
