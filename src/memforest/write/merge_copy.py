"""Copying sessions of another memory, whole, in one write transaction: turns, chunks, statements and what hangs on them.

What hangs on statements is what the graph is made from, too: relations, names as they were spelled, and people's choices.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from memforest.errors import CorruptStoreError
from memforest.read.quoting import derived_id
from memforest.reading.canonical import EntityBook, speaker_key
from memforest.records import EntityKind
from memforest.search.vectors import index_tokens
from memforest.store import corrections, derived, meta, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.corrections import SentencePlace, add_places
from memforest.store.database import Database
from memforest.store.erase import deleted
from memforest.store.facts import OccurrenceRow, StoredOccurrence, add_occurrences, write_dates
from memforest.store.sessions import (
    AGAIN,
    ChunkRow,
    StoredTurn,
    damaged_turns,
    insert_turns,
    turns_of_session,
    turns_with_ids,
)
from memforest.times import from_ms
from memforest.write.corrections import demote_silent, retract_session, settle_chunks
from memforest.write.erase import erase_turns
from memforest.write.erase_corrections import content_words
from memforest.write.merge_match import (
    FactMatch,
    OtherFacts,
    chunks_of,
    match,
    occurrences_told,
    read_facts,
    tie_with,
)
from memforest.write.merge_plan import Merging, Names, SessionPlan
from memforest.write.reword import drop_chosen, ensure_wordings, identity_of, insert_facts, restate_fact
from memforest.write.sessions import CONTEXT_TURNS


def merge_choices(db: Database, other: Database, renamed: Names) -> None:
    """Copy what people have decided there of entities that are both here too, in a transaction of its own.

    The newest decision counts, wherever it was made. Merging again finds what was copied, unless it was taken back here.
    """
    with other.read() as source:
        decisions = corrections.history(source)
        if not decisions:
            return
        there = facts_rows.entities(source, {row for one in decisions for row in (one.entity, one.other)})
        with db.write() as tx:
            keys = {row: renamed.entity(entity)[0] for row, entity in there.items()}
            found = facts_rows.entities_with_keys(tx, keys.values())
            here = {row: found[key].row for row, key in keys.items() if key in found}
            known = {one[1:] for one in corrections.history(tx)}
            for one in decisions:
                if one.entity in here and one.other in here:
                    first, second = sorted((here[one.entity], here[one.other]))
                    if first != second and (one.verdict, first, second, one.made_ms) not in known:
                        corrections.put(tx, one.verdict, first, second, one.made_ms)
            meta.bump(tx)


def copy_sessions(tx: Tx, source: Tx, merging: Merging, part: Sequence[SessionPlan]) -> list[SessionPlan]:
    """Copy sessions, or what of them comes, and return what they became; each is here whole when the transaction ends.

    What of them was deleted here, or is here, comes too where it was read together with what is new, and is deleted before the
    transaction ends, with all that was made of it.

    Args:
        tx: the write transaction.
        source: a read transaction of the other memory.
        merging: the merge; what is copied is added.
        part: the sessions; each is copied as it is now, those that are gone there are left out.

    Raises:
        CorruptStoreError: if something of them is damaged there.
    """
    ensure_wordings(tx)
    now = replace(merging.plan, deleted=deleted(tx))
    copied, done = _Part(tx, source, merging), []
    for one in part:
        if (found := now.becomes(tx, source, one)) is not None:
            done.append(found)
            if found.how != "same":
                copied.copy(found)
    copied.finish()
    drop_chosen(tx)
    if copied.cuts:
        _cut(tx, merging, copied.cuts)
    meta.bump(tx)
    return done


def _cut(tx: Tx, merging: Merging, cuts: Mapping[int, str | None]) -> None:
    """Delete what of turns that were copied is not to be here, by row; None is all of one."""
    spots = turns_with_ids(tx, cuts).values()
    # An origin stays, also when nothing of it does: later sessions refer to it.
    wanted = {
        spot._replace(origin=None) if cuts[spot.row] is None else spot: cuts[spot.row] for spot in spots
    }
    done = erase_turns(tx, wanted, merging.stored_ms)
    merging.reworded |= done.reworded
    merging.cut = True
    alive = facts_rows.facts_with_ids(tx, set(merging.facts.values()))
    merging.facts = {there: row for there, row in merging.facts.items() if row in alive}
    merging.new_facts &= merging.facts.keys()
    merging.new_entities &= facts_rows.entities(tx, merging.new_entities).keys()


class _Part:
    """The sessions that are copied in one transaction."""

    def __init__(self, tx: Tx, source: Tx, merging: Merging) -> None:
        self._tx, self._source, self._merging = tx, source, merging
        self._book = EntityBook(tx)
        self._turns: dict[int, int] = {}
        """Turn there -> turn here."""
        self._chunks: dict[int, int] = {}
        """Chunk there -> chunk here."""
        self._whole: set[int] = set()
        """Chunks there of which every turn was copied."""
        self._speakers: set[str] = set()
        """Who speaks in sessions there that are read whole, and may say nothing here."""
        self._lost: dict[int, frozenset[str]] = {}
        """Chunk there -> words that only turns say that stand far from it here: a deletion of those would not find its statements."""
        self.cuts: dict[int, str | None] = {}
        """Turns here of which only a part, or nothing, is to stay."""

    def copy(self, one: SessionPlan) -> None:
        """Copy a session's turns and chunks."""
        tx, there, merging = self._tx, one.there, self._merging
        if damaged := next(iter(damaged_turns(self._source, session=there.row).values()), None):
            raise CorruptStoreError(f"{damaged.name} of the memory that is merged is damaged; {AGAIN} there")
        if one.over is not None:
            merging.reworded |= retract_session(tx, one.over)
        row = one.row
        if row is None:
            row = sessions.add_session(
                tx,
                one.session_id,
                infer=there.infer,
                stored_ms=merging.stored_ms,
                metadata=there.metadata,
                erased=there.erased,
            )
        stored = turns_of_session(self._source, there.row)
        chunks = chunks_of(self._source, one, stored)
        if one.rest is None:
            self._copy_turns(
                stored, [turn._replace(session=row, session_id=one.session_id) for turn in stored]
            )
            self._whole.update(chunk.row for chunk in chunks)
            placed = chunks
        else:
            placed = self._copy_some(one, one.rest, row, stored, chunks)
        self._chunks |= zip(
            (chunk.row for chunk in chunks), sessions.copy_chunks(tx, row, placed), strict=True
        )
        for chunk, now in zip(chunks, placed, strict=True):
            if (now.ordinal, one.session_id) != (chunk.ordinal, there.session_id):
                place = there.session_id, f"{chunk.ordinal:06d}"
                merging.places[place] = one.session_id, f"{now.ordinal:06d}"
        if there.status == "ingested":
            self._speakers.update(turn.speaker for turn in stored)

    def _copy_some(
        self,
        one: SessionPlan,
        rest: Mapping[int, str | None],
        row: int,
        stored: Sequence[StoredTurn],
        chunks: Sequence[ChunkRow],
    ) -> list[ChunkRow]:
        """Copy turns that are not here, and those that were deleted here and were read with them; return the chunks as they are here."""

        def is_read(turn: StoredTurn, chunk: ChunkRow) -> bool:
            return chunk.first - CONTEXT_TURNS <= turn.ordinal <= chunk.last

        coming = [
            turn
            for turn in stored
            if rest.get(turn.row) is not None
            or (turn.row in rest and any(is_read(turn, chunk) for chunk in chunks))
        ]
        ours = turns_of_session(self._tx, row)
        next_turn = ours[-1].ordinal + 1 if ours else 0
        next_chunk = max((chunk.ordinal + 1 for chunk in sessions.chunks(self._tx, row)), default=0)
        at = {turn.ordinal: next_turn + number for number, turn in enumerate(coming)}
        ids = {turn.turn_id for turn in ours}
        new = []
        for turn in coming:
            turn_id, origin = turn.turn_id, self._merging.plan.origins[turn.origin]
            if turn_id in ids:
                said = turn.speaker, str(turn.said_ms), rest[turn.row] or turn.text
                turn_id = derived_id(turn_id, origin.memory, origin.user_id, turn_id, *said)
            ids.add(turn_id)
            placed = turn._replace(session=row, session_id=one.session_id, ordinal=at[turn.ordinal])
            new.append(placed._replace(turn_id=turn_id))
        self._copy_turns(coming, new)
        self.cuts |= {self._turns[turn.row]: rest[turn.row] for turn in coming if rest[turn.row] != turn.text}
        here = turns_with_ids(self._tx, set(one.here.values()))
        ordinals = {row: turn.ordinal for row, turn in here.items()}
        cut_anew: list[ChunkRow] = []
        for chunk in chunks:
            own = [at[turn.ordinal] for turn in coming if chunk.first <= turn.ordinal <= chunk.last]
            read = [turn for turn in stored if is_read(turn, chunk)]
            least = own[0] - CONTEXT_TURNS
            far = [turn for turn in read if ordinals.get(one.here.get(turn.row, 0), least) < least]
            if far:
                near = (content_words(turn.speaker, turn.text) for turn in read if turn not in far)
                lost = frozenset[str]().union(*(content_words(turn.speaker, turn.text) for turn in far))
                self._lost[chunk.row] = lost.difference(*near)
            skipped = tuple((at[number], why) for number, why in chunk.skipped if number in at)
            ordinal = next_chunk + len(cut_anew)
            cut_anew.append(replace(chunk, ordinal=ordinal, first=own[0], last=own[-1], skipped=skipped))
        return cut_anew

    def _copy_turns(self, there: Sequence[StoredTurn], placed: Sequence[StoredTurn]) -> None:
        """Copy turns, with their words, their vectors and where corrections are about them."""
        tx, merging = self._tx, self._merging
        new = [
            turn._replace(
                speaker=merging.names.speaker(turn.speaker),
                stored_ms=merging.stored_ms,
                origin=merging.origins[turn.origin],
            )
            for turn in placed
        ]
        rows = dict(zip((turn.row for turn in there), insert_turns(tx, new), strict=True))
        self._turns |= rows
        same = [turn.row for turn, now in zip(there, new, strict=True) if now.speaker == turn.speaker]
        words = derived.words_of(self._source, "turn", same)
        for turn, now in zip(there, new, strict=True):
            if turn.row not in words:
                words[turn.row] = " ".join(index_tokens(now.speaker, now.text, from_ms(now.said_ms)))
        derived.add_words(tx, "turn", [(rows[turn], said) for turn, said in words.items()])
        vectors = derived.stored_vectors(self._source, "turn", same) if merging.plan.vectors else {}
        merging.reworded |= len(vectors) < len(there)
        derived.copy_vectors(tx, "turn", [(rows[turn], *vector) for turn, vector in vectors.items()])
        for turn, made in zip(there, new, strict=True):
            for correction, quote in merging.decided.get((turn.session_id, turn.turn_id), ()):
                add_places(tx, correction, (SentencePlace(made.session_id, made.turn_id, quote),))

    def finish(self) -> None:
        """Copy what the chunks tell: facts that are new, and occurrences of those and of the facts that are here."""
        tx, source, merging = self._tx, self._source, self._merging
        told = occurrences_told(source, self._chunks, self._whole, self._turns)
        # What an update put somewhere does not come where it does not stand here.
        found = [
            one
            for one in told
            if (one.correction is None or one.correction in merging.corrections)
            and (not self._lost or content_words(one.text).isdisjoint(self._lost.get(one.chunk, ())))
        ]
        reading = read_facts(source, {one.fact for one in found}, merging.names, vectors=merging.plan.vectors)
        # Those that an earlier transaction copied are known.
        joined = {row: FactMatch(merging.facts[row]) for row in reading.facts if row in merging.facts}
        rest = {row: fact for row, fact in reading.facts.items() if row not in joined}
        joined |= match(tx, replace(reading, facts=rest), merging.names, merging.threshold, merging.same)
        _insert_facts(tx, merging, reading, joined)
        rows = add_occurrences(
            tx,
            [self._occurrence(one, reading, joined) for one in found],
            [[self._turns[turn] for turn in one.turns] for one in found],
        )
        people = self._name(reading, dict(zip((one.row for one in found), rows, strict=True)))
        _restate(tx, source, merging, reading, found)
        if corrections.exists(tx):
            merging.settle(settle_chunks(tx, list(self._chunks.values())))
        demote_silent(tx, people)

    def _occurrence(
        self, one: OccurrenceRow, reading: OtherFacts, joined: Mapping[int, FactMatch]
    ) -> StoredOccurrence:
        """Return an occurrence as it is here."""
        merging, fact = self._merging, reading.facts[one.fact]
        text, tie = one.text, one.tie
        if called := reading.called.get(one.fact, ()):
            text = merging.names.text(text, called)
            tie = tie_with(tie, identity_of(fact, text, one.dates))
        cosine = one.cosine
        if cosine is None and one.fact in joined:
            cosine = joined[one.fact].cosine
        return StoredOccurrence(
            row=0,
            fact=merging.facts[one.fact],
            chunk=self._chunks[one.chunk],
            speaker=merging.names.speaker(one.speaker),
            said_ms=one.said_ms,
            topics=json.dumps(one.topics, ensure_ascii=False),
            cosine=cosine,
            text=text,
            quote=one.quote,
            tie=merging.tie(tie),
            dates=write_dates(one.dates),
            correction=None if one.correction is None else merging.corrections[one.correction],
            stored_ms=merging.stored_ms,
        )

    def _name(self, reading: OtherFacts, own: Mapping[int, int]) -> set[str]:
        """Insert whom and what occurrences name: mentions, states, short names, relations and spellings.

        A name that is the label there may be another spelling here, and the other way round.

        Args:
            reading: the facts.
            own: occurrence there -> here.

        Returns:
            The names of those who take part in the other memory.
        """
        tx, source, merging, names = self._tx, self._source, self._merging, self._merging.names
        mentions = [one for ones in reading.mentions.values() for one in ones if one.occurrence in own]
        keys = {key for name in self._speakers if (key := speaker_key(name)) is not None}
        there = {one.row: one for one in facts_rows.entities_with_keys(source, keys).values()}
        there |= {one.entity: reading.entities[one.entity] for one in mentions}
        here: dict[int, int] = {}
        self._book.learn(names.entity(one)[0] for one in there.values())
        for row, one in there.items():
            key, label = names.entity(one)
            is_new = self._book.rows[key] is None
            here[row] = self._book.put(key, label, cast("EntityKind", one.kind))
            merging.new_entities |= {here[row]} if is_new else set()
        self._book.write()

        def called(fact: int, text: str) -> str:
            return names.text(text, reading.called.get(fact, ()))

        states = [
            one._replace(
                fact=merging.facts[one.fact],
                occurrence=own[one.occurrence],
                entity=here[one.entity],
                value=names.speaker(one.value),
                previous=None if one.previous is None else names.speaker(one.previous),
            )
            for one in facts_rows.states(source, own)
        ]
        short = facts_rows.alias_uses(source, own)
        facts_rows.use_aliases(
            tx, [(key, here[entity], own[occurrence]) for key, entity, occurrence in short]
        )
        relations = [
            (
                merging.facts[one.fact],
                own[one.occurrence],
                here[one.source],
                called(one.fact, one.label),
                here[one.target],
            )
            for one in facts_rows.relations_of(source, reading.facts)
            if one.occurrence in own
        ]
        spelled: dict[tuple[int, int], set[str]] = {}
        for occurrence, entity, name in facts_rows.names_in(source, own):
            spelled.setdefault((occurrence, entity), set()).add(name)
        said: dict[tuple[int, int], set[str]] = {}  # two there may be one here
        for mention in mentions:
            plain = {there[mention.entity].label} if mention.roles != facts_rows.SPEAKS else set[str]()
            found = spelled.get((mention.occurrence, mention.entity), plain)
            now = said.setdefault((own[mention.occurrence], here[mention.entity]), set())
            now.update(called(mention.fact, name) for name in found)
        facts_rows.add_named(
            tx,
            [(merging.facts[one.fact], here[one.entity], own[one.occurrence], one.roles) for one in mentions],
            states,
            relations,
            [
                (occurrence, entity, name)
                for (occurrence, entity), now in said.items()
                if now - {self._book.labels[entity]}
                for name in sorted(now)
            ],
        )
        return {names.entity(one)[1] for one in there.values() if one.kind == "participant"}


def _insert_facts(tx: Tx, merging: Merging, reading: OtherFacts, joined: Mapping[int, FactMatch]) -> None:
    """Insert the facts that are new here, with their words and vectors; note which row each fact has."""
    new = sorted(reading.facts.keys() - joined.keys())
    facts = [
        replace(fact, tie=merging.tie(fact.tie), stored_ms=merging.stored_ms)
        for fact in map(reading.facts.__getitem__, new)
    ]
    stored = insert_facts(tx, facts, reading.wordings, reading.words)
    rows = {there: fact.row for there, fact in zip(new, stored, strict=True)}
    merging.new_facts |= rows.keys()
    merging.facts |= rows
    merging.facts |= {there: one.row for there, one in joined.items() if one.row is not None}
    merging.facts |= {
        there: merging.facts[one.there] for there, one in joined.items() if one.there is not None
    }
    vectors = [(row, *reading.vectors[there]) for there, row in rows.items() if there in reading.vectors]
    derived.copy_vectors(tx, "fact", vectors)
    merging.reworded |= len(vectors) < len(rows)


def _restate(
    tx: Tx,
    source: Tx,
    merging: Merging,
    reading: OtherFacts,
    found: Sequence[OccurrenceRow],
) -> None:
    """Derive facts anew that were here, and those of which only a part of the occurrences came."""
    came = Counter(one.fact for one in found)
    whole = facts_rows.occurrence_counts(source, came)
    by_here: dict[int, list[int]] = {}
    for row in came:
        # Under other ids sessions of one time may stand in another order.
        if row not in merging.new_facts or came[row] < whole[row] or merging.places:
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
