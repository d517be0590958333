"""Applying corrections to chunks, and taking back what was made of chunks and sessions.

Corrections hold for everything that is extracted, now or later. A fact gets the verdict that follows from its
corrections (`memforest.read.corrections`). An update puts another fact at the same turns, even if nothing is extracted
from them. What was remembered stands at its turns in the same way.

`retract_chunk` and `retract_session` delete facts, leaves and derived rows in the same transaction, when a session grows
past a half-full chunk or `replace=True` overwrites it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from memforest.read.corrections import ChunksSaid, verdicts
from memforest.read.quoting import sentences_said
from memforest.reading.canonical import EntityBook, speaker_key, tie_end
from memforest.reading.entities import merge_mentions
from memforest.reading.extract_local import read_statement
from memforest.reading.timestamps import stored_zone, zone_named
from memforest.records import Mention, State
from memforest.search.timeline import superseded_facts
from memforest.search.vectors import digest
from memforest.store import corrections as corrections_rows
from memforest.store import derived, meta, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.corrections import Correction
from memforest.store.facts import FactRow
from memforest.times import from_ms
from memforest.write.reword import (
    Naming,
    drop_unnamed,
    ensure_wordings,
    identity_of,
    insert_facts,
    is_one_unit,
    restate_fact,
    without_occurrences,
)

_TIE_END = len(tie_end("f1:00000000"))

Vectors = Mapping[bytes, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of applying corrections: whether a statement lacks its vector, and what the caller should know."""

    unembedded: bool = False
    warnings: tuple[str, ...] = ()


def settle_chunks(tx: Tx, chunks: Collection[int], vectors: Vectors = MappingProxyType({})) -> Settled:
    """Bring the corrected statements and the verdicts of some chunks in line with the corrections.

    Args:
        tx: the open write transaction.
        chunks: what they say is written.
        vectors: digest of a text -> its unit vector, of what may be written.
    """
    said = ChunksSaid.read(tx, chunks)
    corrections_rows.drop_places(tx, said.stale)
    for number, found in said.hits.items():
        correction = said.corrections[number]
        own = [one for one in found if said.facts[one.fact].fact_id == correction.fact_id]
        new = [one for one in own if not said.is_again(correction, one)]
        corrections_rows.add_places(tx, number, (place for one in new for place in said.places(one)))
    writer = _Instead(tx, vectors)
    made = writer.write(said, _wanted(tx, said))
    settle_verdicts(tx, {*said.facts, *made})
    return Settled(writer.unembedded, tuple(dict.fromkeys(_said_again(said))))


def settle_verdicts(tx: Tx, facts: Collection[int]) -> None:
    """Derive the verdicts of facts from the corrections, and write those that differ."""
    stored = facts_rows.facts_with_ids(tx, facts) if facts else {}
    if not stored:
        return
    if not any(fact.verdict for fact in stored.values()) and not corrections_rows.exists(tx):
        return
    now = verdicts(tx, stored.values())
    changed = [row for row, fact in stored.items() if now[row] != fact.verdict]
    for row in changed:
        corrections_rows.put_verdict(tx, row, now[row])


def note_places(tx: Tx, correction: int, fact: int, chunks: Collection[int]) -> None:
    """Note where the statement of a new correction was said."""
    said = ChunksSaid.read(tx, chunks)
    corrections_rows.add_places(
        tx, correction, (place for one in said.said if one.fact == fact for place in said.places(one))
    )


def chunks_about(tx: Tx, corrections: Iterable[Correction]) -> set[int]:
    """Return the chunks that corrections are about: where the statements and their places are, and what was put there."""
    chunks: set[int] = set()
    for one in corrections:
        chunks |= {chunk for _, chunk in corrections_rows.facts_said_instead(tx, one.row)}
        chunks |= corrections_rows.chunks_of_turns(
            tx, {place.turn for place in corrections_rows.places_of(tx, one.row)}
        )
        fact = facts_rows.fact_by_id(tx, one.fact_id)
        if fact is not None:
            chunks |= {said.chunk for said in facts_rows.occurrences(tx, (fact.row,))[fact.row]}
    return chunks


def _said_again(said: ChunksSaid) -> Iterable[str]:
    """Say which statements were made again after they had been hidden."""
    for number, found in said.hits.items():
        correction = said.corrections[number]
        for one in found:
            if correction.hides and said.is_again(correction, one):
                how = "corrected" if correction.kind == "update" else "forgotten"
                yield (
                    f"session {said.texts[one.turns[-1]].session_id[:60]!r} says again what was {how}, and it stays hidden; "
                    f"undo({correction.key!r}) shows it"
                )


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where a corrected statement stands: the turns of what it is in the place of, with its quote, speaker and time."""

    chunk: int
    turns: tuple[int, ...]
    quote: str
    speaker: str
    said_ms: int
    place: str


_Wanted = dict[int, dict[tuple[int, tuple[int, ...]], _Spot]]
"""Correction -> (chunk, turns) -> spot."""


def _wanted(tx: Tx, said: ChunksSaid) -> _Wanted:
    """Return where the statements that people gave are to stand, those of updates of such statements too."""
    wanted: _Wanted = {}
    corrections = dict(said.corrections)
    queue = []
    for one in list(corrections.values()):
        if one.made is not None:
            spots = [
                _Spot(hit.chunk, hit.turns, hit.quote, hit.speaker, hit.said_ms, hit.tie[:-_TIE_END])
                for hit in said.hits.get(one.row, ())
                if not said.is_again(one, hit)
            ]
            queue.append((one, spots + _silent_spots(tx, said, one)))
    while queue:
        one, spots = queue.pop(0)
        mine = wanted.setdefault(one.row, {})
        new = [spot for spot in spots if (spot.chunk, spot.turns) not in mine]
        mine.update({(spot.chunk, spot.turns): spot for spot in new})
        if new and one.made is not None:
            queue += [
                (after, new)
                for after in corrections_rows.corrections_of(tx, {one.made})
                if after.kind == "update" and after.fact_id == one.made
            ]
    return wanted


def _silent_spots(tx: Tx, said: ChunksSaid, correction: Correction) -> list[_Spot]:
    """Return the places of a correction in chunks from which nothing was extracted that it is about."""
    told = {one.chunk for one in said.hits.get(correction.row, ())}
    sentences: dict[int, list[str]] = {}
    for one in said.held:
        if one.correction == correction.row and said.turns[one.turn] not in told:
            sentences.setdefault(one.turn, []).append(sentences_said(said.texts[one.turn].text)[one.quote])
    spots = []
    for turn, quote in sentences.items():
        chunk, text = said.turns[turn], said.texts[turn]
        place = f"{text.session_id}\x1f{corrections_rows.ordinal_of_chunk(tx, chunk):06d}\x1f999"
        spots.append(_Spot(chunk, (turn,), "\n".join(quote), text.speaker, text.said_ms, place))
    return spots


class _Instead:
    """Writes the statements that people gave, in the place of others or by themselves, inside one write transaction."""

    def __init__(self, tx: Tx, vectors: Vectors) -> None:
        self._tx = tx
        self._vectors = vectors
        self._zone = zone_named(stored_zone(tx) or "UTC")
        self._books: dict[int, tuple[EntityBook, tuple[str, ...]]] = {}
        self.unembedded = False

    def write(self, said: ChunksSaid, wanted: _Wanted) -> set[int]:
        """Write what is wanted and not there, delete what is there and not wanted, and return the facts that were written."""
        there = {(one.correction, one.chunk, one.turns): one for one in said.instead}
        asked = {(number, *place) for number, spots in wanted.items() for place in spots}
        gone = [one for key, one in there.items() if key not in asked]
        self.unembedded |= without_occurrences(self._tx, {one.row: one.fact for one in gone}).reworded
        made = set()
        for number, spots in wanted.items():
            new = [spot for place, spot in spots.items() if (number, *place) not in there]
            if new:
                made.add(self._put(corrections_rows.correction_with_row(self._tx, number), new))
        return made

    def _put(self, correction: Correction, spots: Sequence[_Spot]) -> int:
        ensure_wordings(self._tx)
        assert correction.made is not None  # else it is wanted nowhere
        fact = facts_rows.fact_by_id(self._tx, correction.made)
        stored = fact is not None
        for spot in sorted(spots, key=lambda one: (one.said_ms, one.place)):
            fact = self._occurrence(correction, spot, fact)
        assert fact is not None
        if stored:
            fact = restate_fact(self._tx, fact)
        if (key := digest(fact.text)) in self._vectors:
            derived.put_vectors(self._tx, "fact", [(fact.row, key, self._vectors[key])])
        elif meta.get(self._tx, "embedder") is not None:
            self.unembedded = True
        return fact.row

    def _occurrence(self, correction: Correction, spot: _Spot, fact: FactRow | None) -> FactRow:
        book, speakers = self._book(spot.chunk)
        text = correction.text or ""
        statement = read_statement(
            text, speaker=spot.speaker, participants=speakers, said=from_ms(spot.said_ms), zone=self._zone
        )
        if about := correction.about:
            statement = replace(
                statement,
                mentions=merge_mentions((*statement.mentions, Mention(about[0]))),
                states=(State(about[0], about[1], about[2]),) if about[1:] else statement.states,
            )
        tie = f"{spot.place}{tie_end(correction.made or '')}"
        if fact is None:
            new = FactRow(
                row=0,
                fact_id=correction.made or "",
                text=text,
                speaker=spot.speaker,
                start_ms=correction.start_ms,
                end_ms=correction.end_ms,
                precision=correction.precision,
                negated=statement.negated,
                said_ms=spot.said_ms,
                tie=tie,
                topics=statement.topics,
                stored_ms=correction.held_ms,
            )
            (fact,) = insert_facts(self._tx, [new])
        occurrence = facts_rows.StoredOccurrence(
            row=0,
            fact=fact.row,
            chunk=spot.chunk,
            speaker=spot.speaker,
            said_ms=spot.said_ms,
            topics=json.dumps(statement.topics, ensure_ascii=False),
            cosine=None,
            text=text,
            quote=spot.quote,
            tie=tie,
            dates=facts_rows.NO_DATES,
            correction=correction.row,
        )
        (row,) = facts_rows.add_occurrences(self._tx, [occurrence], [spot.turns])
        naming = Naming(self._tx, book)
        when = correction.start_ms, correction.end_ms, correction.precision
        naming.add(statement, fact, row, spot.said_ms, ends=when[1] is not None and not is_one_unit(*when))
        naming.write()
        return fact

    def _book(self, chunk: int) -> tuple[EntityBook, tuple[str, ...]]:
        if chunk not in self._books:
            book, speakers = EntityBook(self._tx), tuple(corrections_rows.speakers_of(self._tx, chunk))
            for speaker in speakers:
                book.participant(speaker)
            self._books[chunk] = book, speakers
        return self._books[chunk]


EarlierResults = tuple[Mapping[str, int], Collection[tuple[str, str]]]
"""What results have reported of chunks that are cut anew.

Identity of each statement -> when it was stored, UTC ms: it was held from then on, if it is read again. And (identity,
attribute) of the facts that the chunks superseded.
"""


def told_by(tx: Tx, chunks: Sequence[int]) -> EarlierResults:
    """Return what results reported of chunks that are about to be deleted."""
    here = facts_rows.occurrences_in(tx, chunks)
    facts = facts_rows.facts_with_ids(tx, set(here.values()))
    stored_ms: dict[str, int] = {}
    for row, said in facts_rows.occurrences(tx, facts).items():
        for one in said:
            if one.row in here:
                identity = identity_of(facts[row], one.text, one.dates)
                stored_ms[identity] = min(one.stored_ms, stored_ms.get(identity, one.stored_ms))
    states = corrections_rows.states_of(tx, here)
    ended = superseded_facts(tx, sorted(states)) if states else set()
    facts_ended = facts_rows.facts_with_ids(tx, {row for row, _ in ended}) if ended else {}
    return stored_ms, {(facts_ended[row].fact_id, attribute) for row, attribute in ended}


def retract_session(tx: Tx, session: int) -> bool:
    """Delete a session with everything that only it supports; return whether that reworded a fact."""
    reworded = [retract_chunk(tx, chunk.row) for chunk in sessions.chunks(tx, session)]
    turns = sessions.turns_of_session(tx, session)
    take_out(tx, [turn.row for turn in turns])
    sessions.delete_session(tx, session)
    demote_silent(tx, {turn.speaker for turn in turns})
    derived.purge_words(tx)
    meta.bump(tx)
    return any(reworded)


def take_out(tx: Tx, turns: Sequence[int]) -> None:
    """Delete what was made of turns by themselves, whose chunks are retracted: their places, words and vectors."""
    derived.clear_words(tx, "turn", turns)
    derived.drop_vectors(tx, "turn", turns)


def retract_chunk(tx: Tx, chunk: int) -> bool:
    """Delete a chunk, its occurrences, and the facts that nothing else supports; its turns stay.

    Returns:
        Whether a fact that stays is worded otherwise now, so that it needs a new vector.
    """
    lessened = without_occurrences(tx, facts_rows.occurrences_in(tx, (chunk,)))
    sessions.delete_chunk(tx, chunk)
    settle_verdicts(tx, lessened.left)
    return lessened.reworded


def demote_silent(tx: Tx, speakers: set[str]) -> None:
    """Demote entities that no longer speak in any session, and delete those that no fact names."""
    heard = {speaker_key(name) for name in sessions.speakers(tx)}
    keys = {key for name in speakers if (key := speaker_key(name)) is not None} - heard
    silent = [found.row for key in sorted(keys) if (found := facts_rows.entity_by_key(tx, key)) is not None]
    for entity in silent:
        facts_rows.demote(tx, entity)
    drop_unnamed(tx, silent)
