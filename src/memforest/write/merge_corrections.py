"""Which corrections of another memory hold here.

A correction holds here from the merge on; of several the one that was made last counts, whichever memory it was made in.
What it says of sessions that are here already is settled at once, the rest when its session is copied.
"""

from __future__ import annotations

import json
from dataclasses import replace

from memforest.read.quoting import sentences_said
from memforest.reading.canonical import fact_identity
from memforest.store import corrections, erase
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.corrections import Correction, SentencePlace
from memforest.store.erase import deleted
from memforest.store.sessions import turns_of_session, turns_with_ids
from memforest.times import from_ms
from memforest.write.corrections import chunks_about, settle_chunks, settle_verdicts
from memforest.write.erase_corrections import content_words, left_of
from memforest.write.merge_plan import Merging, Names, Plan, called_in
from memforest.write.reword import identity_of


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
        for place in standing.places.get(one.row, ()):
            at = standing.here(place)
            if at is None:
                merging.decided.setdefault(place[:2], []).append((stored.row, place.quote))
            else:
                corrections.add_places(tx, stored.row, (place._replace(session_id=at[0], turn_id=at[1]),))
    if changed:
        settled = settle_chunks(tx, sorted(chunks_about(tx, changed)))
        merging.done.warnings.update(dict.fromkeys(settled.warnings))
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
    facts = facts_rows.facts_with_ids(source, stored.values())
    called_there = called_in(source, facts, names)
    renamed = []
    for one in found:
        about = [stored[fact_id] for fact_id in (one.fact_id, one.made) if fact_id in stored]
        called = [pair for row in about for pair in called_there.get(row, ())]
        row = stored.get(one.fact_id, 0)
        fact = facts.get(row)
        text = None if one.text is None else names.text(one.text, called)
        times = [None if ms is None else from_ms(ms) for ms in (one.start_ms, one.end_ms)]
        renamed.append(
            replace(
                one,
                fact_id=one.fact_id
                if fact is None
                else identity_of(fact, names.text(fact.text, called_there.get(row, ())), fact.dates),
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
