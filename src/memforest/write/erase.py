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
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from memforest.reading.canonical import speaker_key
from memforest.search.vectors import index_tokens
from memforest.store import corrections, derived, erase, meta, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.facts import OccurrenceRow
from memforest.store.sessions import StoredTurn, turns_of_session, turns_with_ids
from memforest.text import lexical_tokens
from memforest.times import from_ms
from memforest.write.corrections import demote_silent, settle_chunks, take_out
from memforest.write.erase_corrections import (
    NOTHING,
    DeletedKeys,
    FreedCorrections,
    content_words,
    free_corrections,
    quoted,
    repeated,
    spelled,
)
from memforest.write.reword import drop_chosen, without_occurrences
from memforest.write.sessions import CONTEXT_TURNS

FAILED = "what it failed on was deleted"
"""The reason of a failed chunk of which something was deleted."""


Cuts = Mapping[StoredTurn, str | None]
"""Turns and what is to be left of each; None is nothing."""


@dataclass(slots=True)
class Erased:
    """What a deletion did."""

    gone: Counter[str] = field(default_factory=Counter)
    """Rows that went, by layer of the receipt."""
    changed: Counter[str] = field(default_factory=Counter)
    """What was changed, beside what went."""
    tokens: set[str] = field(default_factory=set)
    """What the rows of the lexical index said that went or were changed."""
    reworded: bool = False
    """A fact or a turn has another text now, and no vector."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A chunk that reads a turn which is cut: its own turns, and those before it."""

    cut: Sequence[StoredTurn]
    """The turns among them that are cut."""
    own: bool
    """Whether one of these is in it."""
    left: str
    """The texts that are left of all of them."""
    lost: frozenset[str]
    """Words that only deleted text said there."""


def erase_turns(
    tx: Tx,
    cuts: Cuts,
    now_ms: int,
    forced: Collection[int] = (),
    texts: DeletedKeys = NOTHING,
) -> Erased:
    """Delete turns, or the sentences of them that are not to be left, and all that was made of those.

    Args:
        tx: the open write transaction, in which nothing was written yet.
        cuts: the turns.
        now_ms: the present, UTC ms.
        forced: occurrences that go in any case; turns of each are among the cuts.
        texts: what else goes from corrections.
    """
    done = Erased()
    with erase.counting(tx, now_ms) as done.gone:
        chunks = _look(tx, cuts)
        freed, facts, named = _drop_occurrences(tx, cuts, chunks, forced, texts, done)
        _drop_turns(tx, cuts, texts, done)
        _settle_sessions(tx, cuts, chunks, texts, done)
        facts |= _drop_called(tx, {spot.speaker for spot in cuts}, named, done)
        _settle_facts(tx, freed, facts, done)
        _respell(tx, named, done)
        demote_silent(tx, {spot.speaker for spot, text in cuts.items() if text is None})
        drop_chosen(tx, at_once=True)
    derived.purge_words(tx, done.tokens)
    meta.bump(tx)
    return done


def _look(tx: Tx, cuts: Cuts) -> dict[int, _Chunk]:
    """Return the chunks that read one of the turns.

    Another form of a word that is left tells nothing: "lives" where somebody says "I live in Davis". Nor does the name of
    a turn's speaker who goes on to speak in the session.
    """
    left = {spot.row: text for spot, text in cuts.items()}
    gone = [row for row, text in left.items() if text is None]
    heard = erase.heard_besides(tx, {spot.session for spot in cuts}, gone)
    heard &= {(spot.session, spot.speaker) for spot in cuts}
    read = erase.chunks_reading(tx, left, CONTEXT_TURNS)
    spots = turns_with_ids(tx, {turn for around in read.values() for turn, _ in around})
    chunks = {}
    for chunk, around in read.items():
        turns = [spots[turn] for turn, _ in around]
        cut = [spot for spot in turns if spot.row in left]
        stays = [
            (spot.speaker, text) for spot in turns if (text := left.get(spot.row, spot.text)) is not None
        ]
        names = [name for session, name in heard if session == turns[0].session]
        kept = content_words(*names, *chain(*stays))
        lost = content_words(*chain(*((spot.speaker, spot.text) for spot in cut))) - kept
        chunks[chunk] = _Chunk(
            cut,
            any(within for turn, within in around if turn in left),
            "\n".join(text for _, text in stays),
            frozenset(word for word in lost if not kept.issuperset(lexical_tokens(word) or (word,))),
        )
    return chunks


def _drop_occurrences(
    tx: Tx,
    cuts: Cuts,
    chunks: Mapping[int, _Chunk],
    forced: Collection[int],
    texts: DeletedKeys,
    done: Erased,
) -> tuple[FreedCorrections, set[int], set[int]]:
    """Delete the occurrences that go, and the facts of which none is left; restate the others.

    Returns:
        What is looked at again when the turns are as they will be: corrections, facts that have lost something, and
        entities that were named.
    """
    cut = {spot.row: (spot.text, text) for spot, text in cuts.items()}
    facts = set(facts_rows.occurrences_in(tx, chunks).values())
    names = erase.named_in(tx, chunks)
    going = {
        one.row: fact
        for fact, said in facts_rows.occurrences(tx, facts).items()
        for one in said
        if one.row in forced
        or (one.chunk in chunks and _goes(one, cut, chunks[one.chunk], names.get(one.row, ())))
    }
    lost = {row: chunk.lost for row, chunk in chunks.items()}
    # Their labels hold words of deleted text, whatever is left of their statements.
    labelled = [
        relation
        for relation, chunk, label in erase.labels_in(tx, chunks)
        if not lost[chunk].isdisjoint(content_words(label))
    ]
    facts_rows.drop_relations(tx, labelled)
    ids = {spot.session_id for spot in cuts}
    left = {row: text for row, (_, text) in cut.items()}
    freed = free_corrections(tx, ids, left, lost, going, texts)
    facts, named = _lessen(tx, going | freed.made, done)
    if freed.reached:
        erase.drop_stray_places(tx, freed.reached, ids)
        erase.drop_corrections(tx, freed.gone)
        done.changed["corrections"] += len(freed.changed)
    return freed, facts, named


def _goes(
    one: OccurrenceRow, cut: Mapping[int, tuple[str, str | None]], chunk: _Chunk, names: Collection[str]
) -> bool:
    """Return whether an occurrence of a chunk goes: because of its turns, or of the words of its statement.

    `cut` has of each turn that is cut what it said, and what is to be left of it.
    """
    for said, left in (cut[turn] for turn in one.turns if turn in cut):
        if left is None or len(quoted(left, one.quote)) < len(quoted(said, one.quote)):
            return True
    return not chunk.lost.isdisjoint(content_words(one.text, *one.topics, *names)) or any(
        repeated(one.text, spot.text, chunk.left) for spot in chunk.cut
    )


def _lessen(tx: Tx, occurrences: Mapping[int, int], done: Erased) -> tuple[set[int], set[int]]:
    """Delete occurrences, each with its fact; return the facts that are left, and the entities that were named."""
    words = derived.words_of(tx, "fact", set(occurrences.values()))
    done.tokens.update(" ".join(words.values()).split())
    lessened = without_occurrences(tx, occurrences)
    done.changed["facts"] += lessened.changed
    done.reworded |= lessened.reworded
    return set(lessened.left), lessened.named


def _drop_turns(tx: Tx, cuts: Cuts, texts: DeletedKeys, done: Erased) -> None:
    rows = [spot.row for spot in cuts]
    done.tokens.update(" ".join(derived.words_of(tx, "turn", rows).values()).split())
    take_out(tx, rows)
    erase.drop_turns(tx, [spot.row for spot, text in cuts.items() if text is None])
    for spot, text in ((spot, text) for spot, text in cuts.items() if text is not None):
        lost = content_words(spot.text) - content_words(text)
        row = erase.put_turn_anew(tx, spot, text, _scrubbed(spot.metadata, lost, texts))
        words = index_tokens(spot.speaker, text, from_ms(spot.said_ms))
        derived.put_words(tx, "turn", [(row, " ".join(words))])
        done.changed["turns"] += 1
        done.reworded = True


def _settle_sessions(
    tx: Tx, cuts: Cuts, chunks: Mapping[int, _Chunk], texts: DeletedKeys, done: Erased
) -> None:
    """Fit the chunks that read a deleted turn to what is left, and the sessions to their chunks."""
    by_session: dict[int, list[StoredTurn]] = {}
    for spot in cuts:
        by_session.setdefault(spot.session, []).append(spot)
    own = [row for row, chunk in chunks.items() if chunk.own]
    origins = {spot.origin for spot in cuts if spot.origin is not None}
    left, done.changed["chunks"] = erase.fit_sessions(tx, by_session, own, origins)
    if not left:
        return
    done.changed["sessions"] = len(left)
    for row, skipped, reason in erase.notes_of(tx, chunks):
        cut_at, lost = {spot.ordinal for spot in chunks[row].cut}, chunks[row].lost
        stays = [(at, why) for at, why in skipped if at not in cut_at and lost.isdisjoint(content_words(why))]
        erase.put_notes(tx, row, stays, None if reason is None else FAILED)
    for one in (sessions.session_with_row(tx, row) for row in left):
        if one.metadata:
            said = chain(*((spot.speaker, spot.text) for spot in by_session[one.row]))
            heard = chain(*((spot.speaker, spot.text) for spot in turns_of_session(tx, one.row)))
            gone = content_words(*said) - content_words(*heard)
            metadata = json.dumps(one.metadata, ensure_ascii=False)
            erase.put_metadata(tx, one.row, _scrubbed(metadata, gone, texts))


def _drop_called(tx: Tx, names: Collection[str], entities: set[int], done: Erased) -> set[int]:
    """Delete the occurrences that call somebody by a short form whose name nobody speaks by, or says, any more.

    `entities` that were named are looked at, and those that are named here are added. Returns the facts that are left.
    """
    heard = {speaker_key(name) for name in sessions.speakers(tx)}
    spoke = (facts_rows.entity_by_key(tx, key) for name in names if (key := speaker_key(name)))
    entities.update(one.row for one in spoke if one is not None)
    going: dict[int, int] = {}
    for one, called in erase.called_by_aliases(tx, entities).items():
        if one.key not in heard and not any(
            spelled(text, one.key) for text in erase.texts_naming(tx, one.row)
        ):
            going.update(called)
    left, named = _lessen(tx, going, done)
    entities |= named
    return left


def _settle_facts(tx: Tx, freed: FreedCorrections, facts: set[int], done: Erased) -> None:
    """Apply the corrections to what is left."""
    if freed.reached or (facts and corrections.exists(tx)):
        facts = facts.union(facts_rows.rows_of_ids(tx, freed.statements).values())
        chunks = {one.chunk for said in facts_rows.occurrences(tx, facts).values() for one in said}
        settled = settle_chunks(tx, chunks | corrections.chunks_of_turns(tx, freed.turns))
        done.reworded |= settled.unembedded


def _respell(tx: Tx, entities: Collection[int], done: Erased) -> None:
    """Spell those entities by what still names them that nothing spells as their label any more."""
    for one in erase.misspelled(tx, entities):
        said = (spelled(text, one.key) for text in erase.texts_naming(tx, one.row))
        label = next((name for name in said if name is not None), one.key)
        if label != one.label:
            erase.relabel(tx, one.row, label)
            done.changed["entities"] += 1


def _scrubbed(metadata: str, lost: Collection[str], texts: DeletedKeys) -> str:
    """Return metadata (JSON) without the texts in it that hold lost words, or name what was deleted."""

    def tells(text: str) -> bool:
        return not content_words(text).isdisjoint(lost) or texts.has(text)

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
