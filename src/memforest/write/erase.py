"""Deleting turns, or sentences of them, in one transaction, with all that was made of them.

An occurrence of a fact goes for one of three reasons. A turn or a sentence that supports it goes. Its statement holds words
that only the deleted text said: a chunk is read together with the turns before it, so "she" may stand there by name. Or it
calls somebody by a short form whose name nobody speaks by, or says, any more.

A fact without occurrences goes; other facts are worded, dated and attributed by the occurrences that they have left.
Nothing is extracted anew. All else that was made of the text goes: summaries above the leaves that changed, vectors, words,
skipped pieces, reasons of failures, metadata, corrections.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memforest.reading.canonical import speaker_key
from memforest.search.vectors import index_tokens
from memforest.store import corrections, derived, erase, meta, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.facts import FactRow, OccurrenceRow, resolve_aliases
from memforest.store.sessions import StoredTurn, turns_of_session
from memforest.text import lexical_tokens
from memforest.times import from_ms
from memforest.write.corrections import demote_silent, settle_chunks
from memforest.write.erase_corrections import (
    DeletedKeys,
    FreedCorrections,
    content_words,
    free_corrections,
    quoted,
    reached_corrections,
    repeated,
    spelled,
)
from memforest.write.reword import drop_chosen, drop_unnamed, lessen_facts
from memforest.write.sessions import CONTEXT_TURNS

FAILED = "what it failed on was deleted"
"""The reason of a failed chunk of which something was deleted."""


@dataclass(frozen=True, slots=True)
class TurnCut:
    """A turn and what is to be left of it; None is nothing."""

    spot: StoredTurn
    text: str | None = None


_NOTHING = DeletedKeys()


@dataclass(slots=True)
class Erased:
    """What was changed, beside what went."""

    changed: Counter[str] = field(default_factory=Counter)
    gone: tuple[FactRow, ...] = ()
    words: int = 0
    """Rows of the lexical index that went, also where a turn has another one now."""
    tokens: set[str] = field(default_factory=set)
    """What those said, and those that were changed."""
    reworded: bool = False
    """A fact or a turn has another text now, and no vector."""


@dataclass(slots=True)
class _Session:
    """A session of which turns are cut: its chunks that read one of them, and the turns around, by ordinal."""

    cuts: dict[int, TurnCut]
    chunks: list[tuple[int, int, int]]
    around: dict[int, StoredTurn]
    speakers: frozenset[str]
    """Content words of the names of the cut turns' speakers that go on to speak in it."""

    @property
    def own_chunks(self) -> list[int]:
        """The chunks that hold one of the turns themselves."""
        cut = sorted(self.cuts)
        return [
            chunk for chunk, first, last in self.chunks if bisect_left(cut, first) < bisect_right(cut, last)
        ]

    def lost_words(self, first: int, last: int) -> frozenset[str]:
        """Return the words that only deleted text said, of the turns from `first` to `last` and those read with them.

        Another form of a word that is left tells nothing: "lives" where somebody says "I live in Davis".
        """
        gone: set[str] = set()
        left: set[str] = set(self.speakers)
        for ordinal in range(max(0, first - CONTEXT_TURNS), last + 1):
            spot, cut = self.around.get(ordinal), self.cuts.get(ordinal)
            if cut is not None:
                gone |= content_words(cut.spot.speaker, cut.spot.text)
            if cut is not None and cut.text is not None:
                left |= content_words(cut.spot.speaker, cut.text)
            elif cut is None and spot is not None:
                left |= content_words(spot.speaker, spot.text)
        return frozenset(word for word in gone - left if not left.issuperset(lexical_tokens(word) or (word,)))

    def repeats(self, text: str, first: int, last: int) -> bool:
        """Return whether a statement of those turns has a sentence that only deleted text said, as an answer's has its question."""
        near = [at for at in range(max(0, first - CONTEXT_TURNS), last + 1) if at in self.around]
        stays = (self.cuts[at].text if at in self.cuts else self.around[at].text for at in near)
        left = "\n".join(one for one in stays if one)
        return any(repeated(text, self.cuts[at].spot.text, left) for at in near if at in self.cuts)


def erase_turns(
    tx: Tx,
    cuts: Sequence[TurnCut],
    now_ms: int,
    forced: Collection[int] = (),
    texts: DeletedKeys = _NOTHING,
) -> Erased:
    """Delete turns, or the sentences of them that are left out in `Cut.text`, and all that was made of those.

    Args:
        tx: the open write transaction, in which nothing was written yet.
        cuts: each turn once.
        now_ms: the present, UTC ms.
        forced: occurrences that go in any case; turns of each are among the cuts.
        texts: what else goes from corrections.
    """
    by_session: dict[int, list[TurnCut]] = {}
    for cut in cuts:
        by_session.setdefault(cut.spot.session, []).append(cut)
    found = {session: _look(tx, session, group) for session, group in by_session.items()}
    done = Erased()
    turns = {cut.spot.row: cut for cut in cuts}
    freed, facts, named = _drop_occurrences(tx, found, turns, frozenset(forced), texts, done)
    _drop_turns(tx, cuts, texts, done)
    for session, one in found.items():
        _settle_session(tx, session, one, texts, done, now_ms)
    facts |= _drop_called(tx, {cut.spot.speaker for cut in cuts}, named, done)
    _settle_facts(tx, freed, facts, done, now_ms)
    done.changed["entities"] += sum(_respell(tx, entity) for entity in sorted(named))
    erase.add_tombstones(tx, "turn", Counter(cut.spot.stored_ms for cut in cuts if cut.text is None), now_ms)
    demote_silent(tx, {cut.spot.speaker for cut in cuts if cut.text is None})
    drop_chosen(tx, at_once=True)
    erase.drop_origins(tx, {cut.spot.origin for cut in cuts if cut.spot.origin is not None})
    derived.purge_words(tx, done.tokens)
    meta.bump(tx)
    return done


def _look(tx: Tx, session: int, cuts: Sequence[TurnCut]) -> _Session:
    own = {cut.spot.ordinal: cut for cut in cuts}
    chunks = erase.chunks_reading(tx, session, own, CONTEXT_TURNS)
    first = min((first for _, first, _ in chunks), default=0) - CONTEXT_TURNS
    last = max((last for _, _, last in chunks), default=-1)
    around = {spot.ordinal: spot for spot in turns_of_session(tx, session, max(0, first), last)}
    gone = [cut.spot.row for cut in cuts if cut.text is None]
    heard = erase.still_heard(tx, session, {cut.spot.speaker for cut in cuts}, gone)
    return _Session(own, chunks, around, content_words(*heard))


def _drop_occurrences(
    tx: Tx,
    found: Mapping[int, _Session],
    turns: Mapping[int, TurnCut],
    forced: frozenset[int],
    texts: DeletedKeys,
    done: Erased,
) -> tuple[FreedCorrections, frozenset[int], set[int]]:
    """Delete the occurrences that go, and the facts of which none is left; restate the others.

    Returns:
        What is looked at again when the turns are as they will be: corrections, facts that have lost something, and
        entities that were named.
    """
    lost = {chunk: one.lost_words(first, last) for one in found.values() for chunk, first, last in one.chunks}
    spans = {chunk: (one, first, last) for one in found.values() for chunk, first, last in one.chunks}
    facts = set(facts_rows.occurrences_in(tx, lost).values())
    names = erase.entities_spelled(tx, facts)
    told = facts_rows.relations_of(tx, facts)
    going: dict[int, int] = {}
    within: dict[int, int] = {}
    for occurrences in facts_rows.occurrences(tx, facts).values():
        for one in occurrences:
            within[one.row] = one.chunk
            if one.row in forced or (
                one.chunk in lost
                and (
                    _goes(one, turns, lost[one.chunk], names.get(one.row, set()))
                    or spans[one.chunk][0].repeats(one.text, *spans[one.chunk][1:])
                )
            ):
                going[one.row] = one.fact
    sessions_cut = {cut.spot.session_id for cut in turns.values()}
    reached = reached_corrections(tx, sessions_cut, lost, texts.corrections(tx))
    erase.drop_stray_places(tx, reached, sessions_cut)
    used, named = erase.drop_occurrences(tx, going)
    labelled = [  # their labels hold words of deleted text, whatever is left of their statements
        one.id
        for one in told
        if not lost.get(within[one.occurrence], frozenset()).isdisjoint(content_words(one.label))
    ]
    facts_rows.drop_relations(tx, labelled)
    freed = free_corrections(tx, {row: cut.text for row, cut in turns.items()}, reached, texts)
    more_used, more_named = erase.drop_occurrences(tx, freed.made)
    erase.drop_corrections(tx, freed.gone)
    done.changed["corrections"] += len(freed.changed)
    touched = {*going.values(), *freed.made.values()}
    left = _lessen(tx, touched, done)
    named |= more_named
    drop_unnamed(tx, named)
    resolve_aliases(tx, used | more_used)
    return freed, left, named


def _lessen(tx: Tx, facts: Collection[int], done: Erased) -> frozenset[int]:
    """Delete those of some facts that have no occurrence left, and restate the others, which are returned."""
    gone, changed, left, reworded = lessen_facts(tx, facts)
    done.gone += gone
    done.changed["facts"] += len(changed)
    for fact in (*gone, *changed):
        done.tokens.update(index_tokens(fact.speaker, fact.text, from_ms(fact.said_ms)))
    done.reworded |= reworded
    return left


def _drop_called(tx: Tx, names: Collection[str], entities: set[int], done: Erased) -> frozenset[int]:
    """Delete the occurrences that call somebody by a short form whose name nobody speaks by, or says, any more.

    `entities` that were named are looked at, and those that are named here are added. Returns the facts that are left.
    """
    heard = {speaker_key(name) for name in sessions.speakers(tx)}
    spoke = (facts_rows.entity_by_key(tx, key) for key in sorted({speaker_key(name) or "" for name in names}))
    entities.update(one.row for one in spoke if one is not None)
    going: dict[int, int] = {}
    for entity, called in erase.called_by_aliases(tx, entities).items():
        key = facts_rows.entity_with_row(tx, entity).key
        if key not in heard and not any(spelled(text, key) for text in erase.texts_naming(tx, entity)):
            going.update(called)
    used, named = erase.drop_occurrences(tx, going)
    left = _lessen(tx, set(going.values()), done)
    drop_unnamed(tx, named)
    resolve_aliases(tx, used)
    entities |= named
    return left


def _settle_facts(tx: Tx, freed: FreedCorrections, facts: frozenset[int], done: Erased, now_ms: int) -> None:
    """Apply the corrections to what is left, and count the facts that went."""
    if freed or corrections.exists(tx):
        found = (facts_rows.fact_by_id(tx, one) for one in sorted(freed.statements))
        facts = facts.union(fact.row for fact in found if fact is not None)
        chunks = {one.chunk for several in facts_rows.occurrences(tx, facts).values() for one in several}
        settled = settle_chunks(tx, chunks | freed.chunks)
        done.gone += settled.gone
        done.reworded |= settled.unembedded
    done.words += len(done.gone)
    erase.add_tombstones(tx, "fact", Counter(fact.stored_ms for fact in done.gone), now_ms)


def _goes(
    one: OccurrenceRow, turns: Mapping[int, TurnCut], lost: frozenset[str], names: Collection[str]
) -> bool:
    """Return whether an occurrence of a chunk goes: because of its turns, or of the words of its statement."""
    for cut in (turns[turn] for turn in one.turns if turn in turns):
        before = quoted(cut.spot.text, one.quote)
        if cut.text is None or len(quoted(cut.text, one.quote)) < len(before):
            return True
    return not lost.isdisjoint(content_words(one.text, *one.topics, *names))


def _respell(tx: Tx, entity: int) -> bool:
    """Spell an entity by what still names it, if nothing spells it as its label any more; return whether that was so."""
    try:
        found = facts_rows.entity_with_row(tx, entity)
    except KeyError:
        return False  # nothing names it any more, and it is gone
    if erase.is_spelled(tx, entity, found.label):
        return False
    said = (spelled(text, found.key) for text in erase.texts_naming(tx, entity))
    label = next((one for one in said if one is not None), found.key)
    if label == found.label:
        return False
    erase.relabel(tx, entity, label)
    return True


def _drop_turns(tx: Tx, cuts: Sequence[TurnCut], texts: DeletedKeys, done: Erased) -> None:
    rows = [cut.spot.row for cut in cuts]
    derived.drop_vectors(tx, "turn", rows)
    derived.clear_words(tx, "turn", rows)
    for cut in cuts:
        done.words += 1
        done.tokens.update(index_tokens(cut.spot.speaker, cut.spot.text, from_ms(cut.spot.said_ms)))
        if cut.text is None:
            erase.drop_turn(tx, cut.spot.row)
            continue
        lost = content_words(cut.spot.text) - content_words(cut.text)
        metadata = _scrubbed(cut.spot.metadata, lost, texts)
        row = erase.put_turn_anew(tx, cut.spot, cut.text, metadata)
        words = index_tokens(cut.spot.speaker, cut.text, from_ms(cut.spot.said_ms))
        derived.add_words(tx, "turn", [(row, " ".join(words))])
        done.changed["turns"] += 1
        done.reworded = True


def _settle_session(
    tx: Tx, session: int, found: _Session, texts: DeletedKeys, done: Erased, now_ms: int
) -> None:
    """Fit the chunks that read a deleted turn to what is left, and the session to its chunks."""
    stored = sessions.session_with_row(tx, session)
    spans = [(first, last) for _, first, last in found.chunks]
    chunks = sessions.chunks(tx, session, min(spans)[0], max(last for _, last in spans))
    read, own = {chunk for chunk, _, _ in found.chunks}, set(found.own_chunks)
    for chunk in (one for one in chunks if one.row in read):
        lost = found.lost_words(chunk.first, chunk.last)
        skipped = [
            (at, reason)
            for at, reason in chunk.skipped
            if at not in found.cuts and lost.isdisjoint(content_words(reason))
        ]
        if not erase.fit_chunk(tx, chunk.row, skipped, None if chunk.reason is None else FAILED):
            sessions.delete_chunk(tx, chunk.row)
        elif chunk.row in own:
            done.changed["chunks"] += 1
    metadata = json.dumps(stored.metadata, ensure_ascii=False)
    if stored.metadata and stored.turns:
        said = (content_words(cut.spot.speaker, cut.spot.text) for cut in found.cuts.values())
        left = (content_words(turn.speaker, turn.text) for turn in turns_of_session(tx, session))
        lost = frozenset[str]().union(*said) - frozenset[str]().union(*left)
        metadata = _scrubbed(metadata, lost, texts)
    if erase.mark_erased(tx, session, metadata):
        done.changed["sessions"] += 1
    else:
        erase.add_tombstones(tx, "session", {stored.stored_ms: 1}, now_ms)
        sessions.delete_session(tx, session)


def _scrubbed(metadata: str, lost: frozenset[str], texts: DeletedKeys) -> str:
    """Return metadata (JSON) without the texts in it that hold lost words, or name what was deleted."""

    def tells(text: str) -> bool:
        return not lost.isdisjoint(content_words(text)) or texts.has(text)

    return json.dumps(_without(json.loads(metadata), tells) or {}, ensure_ascii=False)


def _without(value: Any, tells: Callable[[str], bool]) -> Any:
    if isinstance(value, str):
        return None if tells(value) else value
    if isinstance(value, dict):
        kept = {key: _without(one, tells) for key, one in value.items() if not tells(key)}
        return {key: one for key, one in kept.items() if one is not None or value[key] is None}
    if isinstance(value, list):
        return [one for one in (_without(one, tells) for one in value) if one is not None]
    return value
