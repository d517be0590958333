"""Copying sessions of another memory by the way of ingest: turns are stored, then what was extracted of them there is committed.

What the other memory knows of a chunk is read as if an extractor had just returned it, with the names that people and
things have here. So the commit of a write decides which statements are which facts, and nothing is extracted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from memforest.errors import CorruptStoreError
from memforest.read.quoting import derived_id
from memforest.reading.canonical import Same, fact_identity
from memforest.records import (
    ChunkOutcome,
    EntityKind,
    ExtractedFact,
    Mention,
    Relation,
    Skipped,
    State,
)
from memforest.store import corrections, derived, meta, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import RESTORE, Tx
from memforest.store.corrections import SentencePlace, add_places
from memforest.store.database import Database
from memforest.store.derived import unpack_vectors
from memforest.store.erase import deleted
from memforest.store.facts import FactRow, OccurrenceRow
from memforest.store.reads import RelationRow, relations
from memforest.store.sessions import AGAIN, ChunkRow, StoredTurn, turns_of_session, turns_with_ids
from memforest.times import from_ms
from memforest.write.commit import commit
from memforest.write.corrections import retract_session
from memforest.write.erase import erase_turns
from memforest.write.erase_corrections import content_words, sweep_corrections
from memforest.write.extract import ExtractedSession
from memforest.write.merge_plan import Merging, Names, Plan, SessionPlan, called_in
from memforest.write.reword import identity_of
from memforest.write.sessions import CONTEXT_TURNS, StoredSession, store_turns

Lost = Mapping[int, frozenset[str]]
"""Chunk there -> words that only turns say that stand far from it here: a deletion of those would not find its statements."""


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


def extracted(source: Tx, plan: Plan, one: SessionPlan, lost: Lost | None = None) -> ExtractedSession:
    """Return what the other memory has extracted of a session, as far as it comes, with the names of here.

    Rows, ordinals and the speakers are those there. What an update or a caller's statement put somewhere is left out: it
    follows from the corrections. A chunk that waits to be read waits here too.

    Args:
        source: a transaction of the other memory.
        plan: the merge.
        one: the session.
        lost: words that no statement of a chunk may tell, by chunk.

    Raises:
        CorruptStoreError: if a turn or a statement is not what was stored.
    """
    turns = turns_of_session(source, one.there.row)
    if damaged := next((turn for turn in turns if turn.is_damaged), None):
        raise CorruptStoreError(f"{damaged.name} of the other memory is damaged; {AGAIN} there")
    chunks = _coming(source, one, turns)
    new = {turn.row for turn in turns if one.rest is None or one.rest.get(turn.row) is not None}
    within = facts_rows.occurrences_in(source, [chunk.row for chunk in chunks])
    found = facts_rows.occurrences(source, set(within.values()))
    facts = facts_rows.facts_with_ids(source, found)
    for fact in facts.values():
        if identity_of(fact, fact.text, fact.dates) != fact.fact_id:
            raise CorruptStoreError(
                f"the statement {fact.fact_id} is not what its identity was made of; {RESTORE}"
            )
    told = [
        said
        for several in found.values()
        for said in several
        if said.row in within and said.correction is None
        if one.rest is None or all(turn in new for turn in said.turns or (0,))
        if not lost or content_words(said.text).isdisjoint(lost.get(said.chunk, ()))
    ]
    reader = _Reader(source, plan.names, facts, told, {turn.row: turn.ordinal for turn in turns})
    candidates: dict[int, list[ExtractedFact]] = {chunk.row: [] for chunk in chunks}
    for said in sorted(told, key=lambda said: said.tie):  # as they were told
        candidates[said.chunk].append(reader.statement(said))
    stored = (derived.stored_vectors(source, "fact", facts), derived.stored_vectors(source, "turn", new))
    vectors = {key: unpack_vectors(vector)[0] for of_kind in stored for key, vector in of_kind.values()}
    return ExtractedSession(
        StoredSession(
            one.there.row,
            one.session_id,
            infer=one.there.infer,
            turns={turn.ordinal: (turn.row, turn.turn) for turn in turns},
            chunk_rows=chunks,
        ),
        [
            (
                chunk,
                ChunkOutcome(
                    tuple(candidates[chunk.row]),
                    tuple(Skipped(at, "", why) for at, why in chunk.skipped),
                    chunk.reason if chunk.status == "failed" else None,
                    maker=chunk.maker,
                ),
            )
            for chunk in chunks
            if chunk.status != "pending"
        ],
        "",
        vectors if plan.vectors else {},
        same=reader.same,
        labels=reader.labels,
    )


def _coming(source: Tx, one: SessionPlan, turns: Sequence[StoredTurn]) -> list[ChunkRow]:
    """Return the chunks of which something comes, of a session of these turns."""
    chunks = sessions.chunks(source, one.there.row)
    if one.rest is None:
        return chunks
    new = {turn.ordinal for turn in turns if one.rest.get(turn.row) is not None}
    return [chunk for chunk in chunks if not new.isdisjoint(range(chunk.first, chunk.last + 1))]


class _Reader:
    """Reads occurrences of another memory as statements that were just extracted."""

    def __init__(
        self,
        source: Tx,
        names: Names,
        facts: Mapping[int, FactRow],
        told: Sequence[OccurrenceRow],
        ordinals: Mapping[int, int],
    ) -> None:
        own = {one.row for one in told}
        self._names, self._facts, self._ordinals = names, facts, ordinals
        self._mentions: dict[int, list[facts_rows.Mention]] = {}
        for mention in facts_rows.mentions(source, facts):
            if mention.occurrence in own:
                self._mentions.setdefault(mention.occurrence, []).append(mention)
        named = {one.entity for several in self._mentions.values() for one in several}
        self._entities = facts_rows.entities(source, named)
        self._called = called_in(source, facts, names)
        self._spelled: dict[tuple[int, int], list[str]] = {}
        for occurrence, entity, name in facts_rows.names_in(source, own):
            self._spelled.setdefault((occurrence, entity), []).append(name)
        self._states: dict[int, list[facts_rows.NewState]] = {}
        for state in facts_rows.states(source, own):
            self._states.setdefault(state.occurrence, []).append(state)
        self._relations: dict[int, list[RelationRow]] = {}
        for relation in relations(source, facts, hidden=True):
            self._relations.setdefault(relation.occurrence, []).append(relation)
        self.labels = dict(names.entity(one) for one in self._entities.values())
        """Key of an entity -> how it is called."""
        self.same: dict[str, Same] = {}
        """Identity of an occurrence in other words than its fact's -> that fact."""

    def statement(self, said: OccurrenceRow) -> ExtractedFact:
        """Return an occurrence as a statement."""
        fact, names, called = self._facts[said.fact], self._names, self._called.get(said.fact, ())
        start, end = (None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms))
        begins_ms = said.said_ms if fact.start_ms is None else fact.start_ms
        text = names.text(said.text, called)
        identity = fact_identity(text, start, end, said.dates)
        of_fact = fact_identity(names.text(fact.text, called), start, end, fact.dates)
        if identity != of_fact:
            self.same[identity] = Same(of_fact, 1.0 if said.cosine is None else said.cosine)

        def spelled(entity: int) -> list[str]:
            found = self._spelled.get((said.row, entity)) or [self._entities[entity].label]
            return [names.text(name, called) for name in found]

        return ExtractedFact(
            text=text,
            turns=tuple(self._ordinals[turn] for turn in said.turns),
            speaker=names.speaker(said.speaker),
            quote=said.quote,
            start=start,
            end=end,
            precision=fact.precision,
            dates=said.dates,
            negated=fact.negated,
            mentions=tuple(
                Mention(name, cast("EntityKind", self._entities[one.entity].kind), role)  # type: ignore[arg-type]
                for one in self._mentions.get(said.row, ())
                for role, bit in facts_rows.ROLES.items()
                if role != "speaker" and one.roles & bit
                for name in spelled(one.entity)
            ),
            topics=said.topics,
            # That a range ended follows from its time.
            states=tuple(
                State(
                    spelled(one.entity)[0],
                    one.attribute,
                    names.speaker(one.value),
                    None if one.previous is None else names.speaker(one.previous),
                    one.change,  # type: ignore[arg-type]
                )
                for one in self._states.get(said.row, ())
                if one.change != "end" or one.at_ms == begins_ms
            ),
            relations=tuple(
                Relation(spelled(one.source)[0], names.text(one.label, called), spelled(one.target)[0])
                for one in self._relations.get(said.row, ())
            ),
        )


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
    now = replace(merging.plan, deleted=deleted(tx))
    done: list[SessionPlan] = []
    cuts: dict[int, str | None] = {}
    fact, entity = (meta.take_ids(tx, kind, 0) for kind in ("fact", "entity"))
    for one in part:
        if (found := now.becomes(tx, source, one)) is not None:
            done.append(found)
            if found.how != "same":
                cuts |= _copy(tx, source, merging, found)
    merging.new_facts.update(range(fact, meta.take_ids(tx, "fact", 0)))
    merging.new_entities.update(range(entity, meta.take_ids(tx, "entity", 0)))
    if cuts:
        _cut(tx, merging, cuts)
    meta.bump(tx)
    return done


def _cut(tx: Tx, merging: Merging, cuts: Mapping[int, str | None]) -> None:
    """Delete what of turns that were copied is not to be here, by row; None is all of one."""
    spots = turns_with_ids(tx, cuts).values()
    # An origin stays, also when nothing of it does: later sessions refer to it.
    wanted = {
        spot._replace(origin=None) if cuts[spot.row] is None else spot: cuts[spot.row] for spot in spots
    }
    erase_turns(tx, wanted, merging.stored_ms)
    merging.cut = True
    merging.done.facts &= facts_rows.facts_with_ids(tx, merging.done.facts).keys()
    merging.new_facts &= merging.done.facts
    merging.new_entities &= facts_rows.entities(tx, merging.new_entities).keys()


def _copy(tx: Tx, source: Tx, merging: Merging, one: SessionPlan) -> Mapping[int, str | None]:
    """Copy a session, or what of it comes; return the turns here of which only a part, or nothing, is to stay."""
    there, row = one.there, one.row
    before = [] if one.over is None else turns_of_session(tx, one.over)
    if one.over is not None:
        retract_session(tx, one.over)
    if row is None:
        row = sessions.add_session(
            tx,
            one.session_id,
            infer=there.infer,
            stored_ms=merging.stored_ms,
            metadata=there.metadata,
            erased=there.erased,
        )
    stored = turns_of_session(source, there.row)
    chunks = _coming(source, one, stored)
    coming, placed, spans, lost = (
        (stored, stored, chunks, {})
        if one.rest is None
        else _some(tx, merging, one, one.rest, row, stored, chunks)
    )
    rows = _copy_turns(
        tx, merging, coming, [turn._replace(session=row, session_id=one.session_id) for turn in placed]
    )
    if before:
        said = (content_words(turn.speaker, turn.text) for turn in before)
        sweep_corrections(tx, one.session_id, frozenset[str]().union(*said))
        merging.cut = True
    at = {turn.ordinal: now.ordinal for turn, now in zip(coming, placed, strict=True)}
    first = meta.take_ids(tx, "chunk", 0)
    sessions.add_chunks(tx, row, [(chunk.ordinal, chunk.first, chunk.last) for chunk in spans])
    here = {
        chunk.row: replace(now, row=first + n)
        for n, (chunk, now) in enumerate(zip(chunks, spans, strict=True))
    }
    work = extracted(source, merging.plan, one, lost)
    if work.outcomes:
        session = StoredSession(
            row,
            one.session_id,
            infer=there.infer,
            speakers=sessions.speakers_of(tx, row),
            turns={turn.ordinal: (turn.row, turn.turn) for turn in turns_of_session(tx, row)},
        )
        outcomes = [(here[chunk.row], _moved(outcome, at)) for chunk, outcome in work.outcomes]
        same = {**merging.same, **work.same}
        work = replace(work, stored=session, outcomes=outcomes, threshold=merging.threshold, same=same)
        commit(tx, work, merging.stored_ms, merging.done)
    else:
        sessions.finish_chunks(tx, row, ())
    rest = one.rest or {}
    return {rows[turn.row]: rest[turn.row] for turn in coming if rest.get(turn.row, turn.text) != turn.text}


def _moved(outcome: ChunkOutcome, at: Mapping[int, int]) -> ChunkOutcome:
    """Return the outcome of a chunk whose turns have other ordinals here."""
    return replace(
        outcome,
        candidates=tuple(
            replace(one, turns=tuple(at[turn] for turn in one.turns)) for one in outcome.candidates
        ),
        skipped=tuple(replace(one, turn=at[one.turn]) for one in outcome.skipped if one.turn in at),
    )


def _some(
    tx: Tx,
    merging: Merging,
    one: SessionPlan,
    rest: Mapping[int, str | None],
    row: int,
    stored: Sequence[StoredTurn],
    chunks: Sequence[ChunkRow],
) -> tuple[list[StoredTurn], list[StoredTurn], list[ChunkRow], Lost]:
    """Return what comes of a session that is here in part, or of which something was deleted here.

    Returns:
        The turns that are not here, with those that were deleted here and were read with them; the same as they are to be
        here, behind what is here; the chunks as they are here; and the words that their statements may not tell.
    """

    def is_read(turn: StoredTurn, chunk: ChunkRow) -> bool:
        return chunk.first - CONTEXT_TURNS <= turn.ordinal <= chunk.last

    coming = [
        turn
        for turn in stored
        if rest.get(turn.row) is not None
        or (turn.row in rest and any(is_read(turn, chunk) for chunk in chunks))
    ]
    ours = turns_of_session(tx, row)
    next_turn = ours[-1].ordinal + 1 if ours else 0
    next_chunk = max((chunk.ordinal + 1 for chunk in sessions.chunks(tx, row)), default=0)
    at = {turn.ordinal: next_turn + number for number, turn in enumerate(coming)}
    ids = {turn.turn_id for turn in ours}
    placed = []
    for turn in coming:
        turn_id, origin = turn.turn_id, merging.plan.origins[turn.origin]
        if turn_id in ids:
            said = turn.speaker, str(turn.said_ms), rest[turn.row] or turn.text
            turn_id = derived_id(turn_id, origin.memory, origin.user_id, turn_id, *said)
        ids.add(turn_id)
        placed.append(turn._replace(ordinal=at[turn.ordinal], turn_id=turn_id))
    here = turns_with_ids(tx, set(one.here.values()))
    ordinals = {row: turn.ordinal for row, turn in here.items()}
    lost: dict[int, frozenset[str]] = {}
    cut_anew: list[ChunkRow] = []
    for chunk in chunks:
        own = [at[turn.ordinal] for turn in coming if chunk.first <= turn.ordinal <= chunk.last]
        read = [turn for turn in stored if is_read(turn, chunk)]
        least = own[0] - CONTEXT_TURNS
        far = [turn for turn in read if ordinals.get(one.here.get(turn.row, 0), least) < least]
        if far:
            near = (content_words(turn.speaker, turn.text) for turn in read if turn not in far)
            gone = frozenset[str]().union(*(content_words(turn.speaker, turn.text) for turn in far))
            lost[chunk.row] = gone.difference(*near)
        cut_anew.append(replace(chunk, ordinal=next_chunk + len(cut_anew), first=own[0], last=own[-1]))
    return coming, placed, cut_anew, lost


def _copy_turns(
    tx: Tx, merging: Merging, there: Sequence[StoredTurn], placed: Sequence[StoredTurn]
) -> dict[int, int]:
    """Copy turns as they are to be here, with where corrections are about them; return row there -> row here."""
    new = [
        turn._replace(
            speaker=merging.plan.names.speaker(turn.speaker),
            stored_ms=merging.stored_ms,
            origin=merging.origins[turn.origin],
        )
        for turn in placed
    ]
    rows = store_turns(tx, new)
    for turn, made in zip(there, new, strict=True):
        for correction, quote in merging.decided.get((turn.session_id, turn.turn_id), ()):
            add_places(tx, correction, (SentencePlace(made.session_id, made.turn_id, quote),))
    return dict(zip((turn.row for turn in there), rows, strict=True))
