"""Copying sessions of another memory, whole, in one write transaction: turns, chunks, statements and what hangs on them.

What hangs on statements is what the graph is made from, too: relations, names as they were spelled, and people's choices.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from memforest.errors import CorruptStoreError
from memforest.read.quoting import derived_id
from memforest.reading.canonical import EntityBook, fact_identity, speaker_key, tie_end
from memforest.records import EntityKind
from memforest.search.vectors import index_tokens
from memforest.store import copying, corrections, derived, entities, meta
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.copying import MentionCopy
from memforest.store.corrections import SentencePlace, add_places
from memforest.store.database import Database
from memforest.store.facts import (
    FactRow,
    StoredOccurrence,
    add_facts,
    add_occurrences,
    read_dates,
    write_dates,
)
from memforest.store.sessions import (
    AGAIN,
    StoredTurn,
    damaged_turns,
    insert_turns,
    turns_of_session,
    turns_with_ids,
)
from memforest.times import from_ms
from memforest.write.corrections import demote_silent, retract_session, settle_chunks
from memforest.write.erase import TurnCut, erase_turns
from memforest.write.erase_corrections import content_words
from memforest.write.merge_match import FactMatch, OtherFacts, chunks_of, match, read_facts, told
from memforest.write.merge_plan import Merging, Names, SessionPlan
from memforest.write.reword import drop_chosen, ensure_wordings, fact_signature, restate_fact
from memforest.write.sessions import CONTEXT_TURNS


class Entities:
    """Finds or makes here what the other memory's facts name: by key, as within a memory."""

    def __init__(self, tx: Tx, source: Tx, renamed: Names, rows: dict[int, int], new: set[int]) -> None:
        self._tx, self._source, self._names = tx, source, renamed
        self._rows, self._new = rows, new
        self._made = EntityBook(tx)
        self.participants: set[str] = set()
        """Names of those who take part in the other memory, and may say nothing here."""

    def here(self, there: int) -> int:
        """Return the row here of an entity there."""
        if there not in self._rows:
            self._put(facts_rows.entity_with_row(self._source, there))
        return self._rows[there]

    def participant(self, name: str) -> None:
        """Find or make the entity of a speaker."""
        key = speaker_key(name)
        found = None if key is None else facts_rows.entity_with_key(self._source, key)
        if found is not None:
            self._put(found)

    def _put(self, there: facts_rows.EntityRow) -> None:
        key, label = self._names.entity(there)
        if there.kind == "participant":
            self.participants.add(label)
        self._made.learn([key])
        if self._made.rows[key] is None:
            self._new.add(there.row)
        self._rows[there.row] = self._made.put(key, label, cast("EntityKind", there.kind))

    def write(self) -> None:
        """Store the entities that were made, before anything names them."""
        self._made.write()


def merge_choices(db: Database, other: Database, renamed: Names) -> None:
    """Copy what people have decided there of entities that are both here too, in a transaction of its own.

    The newest decision counts, wherever it was made. Merging again finds what was copied, unless it was taken back here.
    """
    with other.read() as source:
        decisions = corrections.history(source)
        if not decisions:
            return
        there = copying.entities(source, {row for one in decisions for row in (one.entity, one.other)})
        with db.write() as tx:
            found = {
                row: facts_rows.entity_with_key(tx, renamed.entity(entity)[0])
                for row, entity in there.items()
            }
            here = {row: entity.row for row, entity in found.items() if entity is not None}
            known = {one[1:] for one in corrections.history(tx)}
            for one in decisions:
                if one.entity in here and one.other in here:
                    first, second = sorted((here[one.entity], here[one.other]))
                    if first != second and (one.verdict, first, second, one.made_ms) not in known:
                        corrections.put(tx, one.verdict, first, second, one.made_ms)
            meta.bump(tx)


def copy_sessions(tx: Tx, source: Tx, merging: Merging, wanted: Iterable[SessionPlan]) -> None:
    """Copy sessions, or what of them comes; each is here whole when the transaction ends.

    What of them was deleted here, or is here, comes too where it was read together with what is new, and is deleted before the
    transaction ends, with all that was made of it.

    Args:
        tx: the write transaction.
        source: a read transaction of the other memory.
        merging: the merge; what is copied is added.
        wanted: the sessions, each asked for when the one before is copied.

    Raises:
        CorruptStoreError: if something of them is damaged there.
    """
    ensure_wordings(tx)
    part = _Part(tx, source, merging)
    for one in wanted:
        part.copy(one)
    part.finish()
    drop_chosen(tx)
    if part.cuts:
        _cut(tx, merging, part.cuts)
    meta.bump(tx)


def _cut(tx: Tx, merging: Merging, cuts: Mapping[int, str | None]) -> None:
    """Delete what of turns that were copied is not to be here, by row; None is all of one."""
    spots = turns_with_ids(tx, cuts)
    # An origin stays, also when nothing of it does: later sessions refer to it.
    wanted = [
        TurnCut(spot._replace(origin=None) if cuts[spot.row] is None else spot, cuts[spot.row])
        for spot in spots
    ]
    done = erase_turns(tx, wanted, merging.stored_ms)
    merging.reworded |= done.reworded
    merging.cut = True
    alive = facts_rows.facts_with_ids(tx, set(merging.facts.values()))
    merging.facts = {there: row for there, row in merging.facts.items() if row in alive}
    merging.new_facts &= merging.facts.keys()
    named = copying.entities(tx, set(merging.entities.values()))
    merging.entities = {there: row for there, row in merging.entities.items() if row in named}
    merging.new_entities &= merging.entities.keys()
    cut = {spot.session for spot in spots}
    merging.sessions = {there: row for there, row in merging.sessions.items() if row not in cut}


class _Part:
    """The sessions that are copied in one transaction."""

    def __init__(self, tx: Tx, source: Tx, merging: Merging) -> None:
        self._tx, self._source, self._merging = tx, source, merging
        self._book = Entities(tx, source, merging.names, merging.entities, merging.new_entities)
        self._chunks: list[int] = []
        """Rows there of the chunks that were copied."""
        self._whole: set[int] = set()
        """Those of which every turn was copied."""
        self._new: set[int] = set()
        """Turns there that were copied."""
        self._lost: dict[int, frozenset[str]] = {}
        """Chunk there -> words that only turns say that stand far from it here: a deletion of those would not find its statements."""
        self.cuts: dict[int, str | None] = {}
        """Turns here of which only a part, or nothing, is to stay."""

    def copy(self, one: SessionPlan) -> None:
        """Copy a session's turns and chunks."""
        tx, there, merging = self._tx, one.there.row, self._merging
        if damaged := next(iter(damaged_turns(self._source, session=there).values()), None):
            raise CorruptStoreError(f"{damaged.name} of the memory that is merged is damaged; {AGAIN} there")
        if one.over is not None:
            merging.reworded |= retract_session(tx, one.over)
        if one.session_id != one.there.session_id:
            merging.session_ids[one.there.session_id] = one.session_id
        row = one.row
        if row is None:
            row = copying.insert_session(tx, self._source, there, one.session_id, merging.stored_ms)
        if one.rest is None:
            turns = turns_of_session(self._source, there)
            self._turns(turns, [turn._replace(session=row, session_id=one.session_id) for turn in turns])
            chunks = copying.chunks(self._source, there)
            self._put(row, chunks)
            self._whole.update(chunk[0] for chunk in chunks)
            merging.sessions[there] = row
        else:
            self._some(one, one.rest, row)
        copying.settle_status(tx, row)
        if one.there.status == "ingested":
            for name in copying.speakers_of(self._source, there):
                self._book.participant(name)

    def _put(self, row: int, chunks: Sequence[Sequence[Any]]) -> None:
        for chunk, new in zip(chunks, copying.insert_chunks(self._tx, row, chunks), strict=True):
            self._merging.chunks[chunk[0]] = new
        self._chunks += [chunk[0] for chunk in chunks]

    def _some(self, one: SessionPlan, rest: Mapping[int, str | None], row: int) -> None:
        """Copy turns that are not here, with their chunks, and those that were deleted here and were read with them."""
        stored = turns_of_session(self._source, one.there.row)
        chunks = chunks_of(self._source, one, stored)
        coming = [
            turn
            for turn in stored
            if rest.get(turn.row) is not None
            or (
                turn.row in rest
                and any(chunk[2] - CONTEXT_TURNS <= turn.ordinal <= chunk[3] for chunk in chunks)
            )
        ]
        next_turn, next_chunk = copying.ends(self._tx, row)
        at = {turn.ordinal: next_turn + number for number, turn in enumerate(coming)}
        ids = copying.turn_ids(self._tx, row)
        new = []
        for turn in coming:
            turn_id, origin = turn.turn_id, self._merging.origin_id(turn.origin)
            if turn_id in ids:
                parts = (*origin, turn_id, turn.speaker, str(turn.said_ms), rest[turn.row] or turn.text)
                turn_id = derived_id(turn_id, *parts)
            ids.add(turn_id)
            new.append(
                turn._replace(
                    session=row, session_id=one.session_id, turn_id=turn_id, ordinal=at[turn.ordinal]
                )
            )
        rows = self._turns(coming, new)
        ordinals = {spot.row: spot.ordinal for spot in turns_with_ids(self._tx, set(one.here.values()))}
        self.cuts |= {
            here: rest[turn.row]
            for turn, here in zip(coming, rows, strict=True)
            if rest[turn.row] != turn.text
        }
        placed: list[tuple[Any, ...]] = []
        for chunk in chunks:
            own = [at[turn.ordinal] for turn in coming if chunk[2] <= turn.ordinal <= chunk[3]]
            read = [turn for turn in stored if chunk[2] - CONTEXT_TURNS <= turn.ordinal <= chunk[3]]
            least = own[0] - CONTEXT_TURNS
            far = [turn for turn in read if ordinals.get(one.here.get(turn.row, 0), least) < least]
            if far:
                near = (content_words(turn.speaker, turn.text) for turn in read if turn not in far)
                lost = frozenset[str]().union(*(content_words(turn.speaker, turn.text) for turn in far))
                self._lost[chunk[0]] = lost.difference(*near)
            ordinal = next_chunk + len(placed)
            skipped = [[at[number], why] for number, why in json.loads(chunk[7]) if number in at]
            placed.append((chunk[0], ordinal, own[0], own[-1], *chunk[4:7], json.dumps(skipped)))
            place = (one.there.session_id, f"{chunk[1]:06d}")
            self._merging.places[place] = (one.session_id, f"{ordinal:06d}")
        self._put(row, placed)

    def _turns(self, there: Sequence[StoredTurn], new: Sequence[StoredTurn]) -> list[int]:
        """Copy turns, with their words, their vectors and where corrections are about them; return their rows here."""
        tx, merging = self._tx, self._merging
        new = [
            turn._replace(
                speaker=merging.names.speaker(turn.speaker),
                stored_ms=merging.stored_ms,
                origin=merging.origins[turn.origin],
            )
            for turn in new
        ]
        rows = insert_turns(tx, new)
        same = [at for at, turn in enumerate(there) if new[at].speaker == turn.speaker]
        words = derived.words_of(self._source, "turn", [there[at].row for at in same])
        texts = {
            at: " ".join(index_tokens(turn.speaker, turn.text, from_ms(turn.said_ms)))
            for at, turn in enumerate(new)
            if there[at].row not in words
        }
        copied = [(rows[at], texts.get(at) or words.get(turn.row, "")) for at, turn in enumerate(there)]
        derived.add_words(tx, "turn", copied)
        wanted = [there[at].row for at in same] if merging.vectors else []
        vectors = derived.stored_vectors(self._source, "turn", wanted)
        merging.reworded |= len(vectors) < len(there)
        derived.copy_vectors(
            tx,
            "turn",
            [(rows[at], *vectors[turn.row]) for at, turn in enumerate(there) if turn.row in vectors],
        )
        merging.turns.update(zip((turn.row for turn in there), rows, strict=True))
        self._new.update(turn.row for turn in there)
        for turn, made in zip(there, new, strict=True):
            for correction, quote in merging.decided.get((turn.session_id, turn.turn_id), ()):
                add_places(tx, correction, (SentencePlace(made.session_id, made.turn_id, quote),))
        return rows

    def finish(self) -> None:
        """Copy what the chunks tell: facts that are new, and occurrences of those and of the facts that are here."""
        tx, source, merging = self._tx, self._source, self._merging
        found, said = told(source, self._chunks, self._whole, self._new)
        # What an update put somewhere does not come where it does not stand here.
        found = [one for one in found if one.correction is None or one.correction in merging.corrections]
        if self._lost:
            texts = facts_rows.facts_with_ids(source, {one.fact for one in found})
            found = [
                one
                for one in found
                if content_words(one.text or texts[one.fact].text).isdisjoint(self._lost.get(one.chunk, ()))
            ]
        reading = read_facts(source, {one.fact for one in found}, merging.names, vectors=merging.vectors)
        joined = match_new(tx, reading, merging)
        _insert_facts(tx, source, merging, reading, joined)
        own = {one.row for one in found}
        mentions = [one for ones in reading.mentions.values() for one in ones if one.occurrence in own]
        states = [one for one in copying.states(source, reading.facts) if one.occurrence in own]
        called = copying.alias_uses(source, own)
        rows = add_occurrences(
            tx,
            [_occurrence(one, merging, reading, joined) for one in found],
            [[merging.turns[turn] for turn in said.get(one.row, ())] for one in found],
        )
        own_rows = dict(zip((one.row for one in found), rows, strict=True))
        here, speaker = self._book.here, merging.names.speaker
        named = [
            (merging.facts[one.fact], here(one.entity), own_rows[one.occurrence], one.roles)
            for one in mentions
        ]
        seen = [
            one._replace(
                fact=merging.facts[one.fact],
                occurrence=own_rows[one.occurrence],
                entity=here(one.entity),
                value=speaker(one.value),
                previous=None if one.previous is None else speaker(one.previous),
            )
            for one in states
        ]
        short = [(key, here(entity), own_rows[occurrence]) for key, entity, occurrence in called]
        self._book.write()
        facts_rows.add_mentions(tx, named)
        facts_rows.add_states(tx, seen)
        entities.use_aliases(tx, short)
        self._graph(reading, mentions, own_rows)
        _restate(tx, source, merging, reading, found)
        if corrections.exists(tx):
            merging.settle(settle_chunks(tx, [merging.chunks[chunk] for chunk in self._chunks]))
        demote_silent(tx, self._book.participants)

    def _graph(self, reading: OtherFacts, mentions: Collection[MentionCopy], own: Mapping[int, int]) -> None:
        """Insert the relations that occurrences tell, and how these spell the names of entities.

        A name that is the label there may be another spelling here, and the other way round.

        Args:
            reading: the facts.
            mentions: those of the occurrences, as they are there.
            own: occurrence there -> here.
        """
        tx, merging, here = self._tx, self._merging, self._book.here

        def called(fact: int, text: str) -> str:
            return merging.names.text(text, reading.called.get(fact, ()))

        told = [
            (
                merging.facts[one.fact],
                own[one.occurrence],
                here(one.source),
                called(one.fact, one.label),
                here(one.target),
            )
            for one in copying.relations(self._source, reading.facts)
            if one.occurrence in own
        ]
        self._book.write()
        entities.add_relations(tx, told)
        spelled: dict[tuple[int, int], set[str]] = {}
        for occurrence, entity, name in entities.of_occurrences(self._source, own):
            spelled.setdefault((occurrence, entity), set()).add(name)
        labels = copying.entities(tx, {here(one.entity) for one in mentions})
        said: dict[tuple[int, int], set[str]] = {}
        for mention in mentions:
            there = spelled.get((mention.occurrence, mention.entity), set())
            if not there and mention.roles != entities.SPEAKS:
                there = {reading.entities[mention.entity].label}
            now = said.setdefault((own[mention.occurrence], here(mention.entity)), set())
            now.update(called(mention.fact, name) for name in there)  # two there may be one here
        names = [
            (occurrence, entity, name)
            for (occurrence, entity), now in said.items()
            if now - {labels[entity].label}
            for name in sorted(now)
        ]
        entities.add_names(tx, names)


def match_new(tx: Tx, reading: OtherFacts, merging: Merging) -> dict[int, FactMatch]:
    """Return what the facts of a reading join here, those that an earlier transaction copied among them."""
    known = {row: FactMatch(row=merging.facts[row]) for row in reading.facts if row in merging.facts}
    rest = {row: fact for row, fact in reading.facts.items() if row not in known}
    return known | match(tx, replace(reading, facts=rest), merging.names, merging.threshold, merging.same)


def _insert_facts(
    tx: Tx, source: Tx, merging: Merging, reading: OtherFacts, joined: Mapping[int, FactMatch]
) -> None:
    """Insert the facts that are new here, with their words and vectors; note which row each fact has."""
    new = sorted(reading.facts.keys() - joined.keys())
    facts = {there: merging.placed(reading.facts[there]) for there in new}
    rows = dict(zip(new, add_facts(tx, list(facts.values())), strict=True))
    merging.new_facts |= rows.keys()
    merging.facts |= rows
    for there, one in joined.items():
        if one.row is not None:
            merging.facts[there] = one.row
    for there, one in joined.items():
        if one.there is not None:
            merging.facts[there] = merging.facts[one.there]
    renamed = {there for there in new if there in reading.called}
    words = derived.words_of(source, "fact", [there for there in new if there not in renamed])
    derived.add_words(
        tx,
        "fact",
        [(row, words.get(there) or _fact_words(facts[there])) for there, row in rows.items()],
    )
    facts_rows.put_wordings(
        tx,
        [
            (row, reading.wordings.get(there) or fact_signature(facts[there]).digest)
            for there, row in rows.items()
        ],
    )
    derived.copy_vectors(
        tx,
        "fact",
        [(row, *reading.vectors[there]) for there, row in rows.items() if there in reading.vectors],
    )
    merging.reworded |= any(there not in reading.vectors for there in new)


def _fact_words(fact: FactRow) -> str:
    return " ".join(index_tokens(fact.speaker, fact.text, from_ms(fact.said_ms)))


def _occurrence(
    one: StoredOccurrence, merging: Merging, reading: OtherFacts, joined: Mapping[int, FactMatch]
) -> StoredOccurrence:
    """Return an occurrence as it is here, with all that it shares with its fact there."""
    fact = reading.facts[one.fact]
    called = reading.called.get(one.fact, ())
    text = fact.text if one.text is None else merging.names.text(one.text, called)
    dates = write_dates(fact.dates) if one.dates is None else one.dates
    tie = fact.tie if one.tie is None else one.tie
    if called and one.tie is not None:
        times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
        tie = tie[: -len(tie_end(fact.fact_id))] + tie_end(
            fact_identity(text, times[0], times[1], read_dates(dates))
        )
    cosine = one.cosine
    if cosine is None and one.fact in joined:
        cosine = joined[one.fact].cosine
    return one._replace(
        fact=merging.facts[one.fact],
        chunk=merging.chunks[one.chunk],
        speaker=merging.names.speaker(one.speaker),
        cosine=cosine,
        text=text,
        tie=merging.tie(tie),
        dates=dates,
        correction=None if one.correction is None else merging.corrections[one.correction],
        stored_ms=merging.stored_ms,
    )


def _restate(
    tx: Tx,
    source: Tx,
    merging: Merging,
    reading: OtherFacts,
    found: Sequence[StoredOccurrence],
) -> None:
    """Derive facts anew that were here, and those of which only a part of the occurrences came."""
    came = Counter(one.fact for one in found)
    whole = copying.occurrence_counts(source, came)
    by_here: dict[int, list[int]] = {}
    for row in came:
        # Under other ids sessions of one time may stand in another order.
        if row not in merging.new_facts or came[row] < whole[row] or merging.session_ids or merging.places:
            by_here.setdefault(merging.facts[row], []).append(row)
    stored = facts_rows.facts_with_ids(tx, by_here)
    for here in sorted(by_here):
        now = restate_fact(tx, stored[here])
        if now.text == stored[here].text:
            continue
        given = [
            row for row in by_here[here] if reading.facts[row].text == now.text and row in reading.vectors
        ]
        if given:
            derived.copy_vectors(tx, "fact", [(here, *reading.vectors[given[0]])])
        merging.reworded |= not given
