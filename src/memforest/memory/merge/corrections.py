"""Merging what people have decided of statements: corrections of the other memory, and what follows of them here.

A correction holds here from the merge on, and of several the one that was made last counts, whichever memory it was made in.
What it is about of sessions that are here already is settled at once, the rest when its session is copied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from memforest.facts.canonical import fact_identity
from memforest.interval import from_ms
from memforest.memory.erase.sentences import content_words
from memforest.memory.ingest.corrections import Settled, cells_about, settle_cells, settle_verdicts
from memforest.memory.merge.match import read_facts
from memforest.memory.merge.names import Names
from memforest.memory.merge.plan import Plan
from memforest.memory.places import sentences_said
from memforest.store import copying, erase_traces
from memforest.store import corrections as rows
from memforest.store.corrections import Correction, Place
from memforest.store.turns import turns_of_session, turns_with_ids
from memforest.store.tx import Tx
from memforest.systems.attached import Placings


@dataclass(frozen=True, slots=True)
class CorrectionsMerged:
    """What became of corrections: `rows` and `decided` are those of `Merging`; how many are new; the outcome of applying those that changed."""

    rows: dict[int, int]
    decided: dict[tuple[str, str], list[tuple[int, bytes]]]
    new: int
    settled: Settled


def merge_corrections(
    tx: Tx, source: Tx, placings: Placings, plan: Plan, stored_ms: int
) -> CorrectionsMerged:
    """Store what people have decided of statements there, and apply it to what is here already.

    A correction of which no sentence stands here, or will, is not taken over.

    Args:
        tx: the write transaction.
        source: a read transaction of the other memory.
        placings: the indexes, which are told what changes.
        plan: who is who, and which session becomes what.
        stored_ms: the present, UTC ms.

    Raises:
        CorruptStoreError: if a statement is not what its identity was made of.
    """
    standing = _Standing(tx, source, plan)
    made: dict[int, int] = {}
    decided: dict[tuple[str, str], list[tuple[int, bytes]]] = {}
    changed: list[Correction] = []
    new = 0
    for one in _renamed(source, standing.corrections(), plan.names):
        stored = rows.correction_with_key(tx, one.key)
        undone_ms = None if one.undone_ms is None else stored_ms
        if stored is None:
            stored = replace(one, stored_ms=stored_ms, undone_ms=undone_ms)
            stored = replace(stored, row=rows.add_correction(tx, stored))
            new += 1
            changed.append(stored)
        elif undone_ms is not None and stored.undone_ms is None:
            rows.undo_correction(tx, stored.row, undone_ms)
            stored = replace(stored, undone_ms=undone_ms)
            changed.append(stored)
        if (stored.kind, stored.made, stored.undone_ms) == ("update", one.made, None):
            made[one.row] = stored.row
        for place in standing.places.get(one.row, ()):
            at = standing.here(place)
            if at is None:
                decided.setdefault(place[:2], []).append((stored.row, place.quote))
            else:
                rows.add_places(tx, stored.row, (place._replace(session_id=at[0], turn_id=at[1]),))
    return CorrectionsMerged(made, decided, new, _settle(tx, placings, changed))


@dataclass(frozen=True, slots=True)
class _Session:
    """What stands here, or will, of a session there: by turn id its text; id of session and turn here of those that are here.

    `lost` are the words that only those of its texts say that do not stand here.
    """

    texts: dict[str, str]
    here: dict[str, tuple[str, str]]
    lost: frozenset[str]


class _Standing:
    """The corrections of another memory that stand here, with their places there."""

    def __init__(self, tx: Tx, source: Tx, plan: Plan) -> None:
        self._tx, self._source = tx, source
        self._becomes = {one.there.session_id: one for one in plan.sessions}
        self._deleted = plan.known(tx).deleted
        self._sessions: dict[str, _Session] = {}
        self.places = rows.named_places(source)
        """Correction there -> those of its places that stand here; of all, before `corrections` was called."""

    def here(self, place: Place) -> tuple[str, str] | None:
        """Return the ids of session and turn of a place that is here; None where it is yet to come."""
        return self._session(place.session_id).here.get(place.turn_id)

    def corrections(self) -> list[Correction]:
        """Return the corrections that stand here, without words that stand here nowhere."""
        found: list[Correction] = []
        lost: dict[str, frozenset[str]] = {}
        for one in rows.all_corrections(self._source):
            if erase_traces.correction_digest(one.key) in self._deleted:
                continue
            spots = self._spots(one)
            gone = frozenset[str]().union(*(self._session(name).lost for name, _ in spots))
            said = [self._said(place) for place in self.places.get(one.row, ())]
            self.places[one.row] = [
                place for place, text in zip(self.places.get(one.row, ()), said, strict=True) if text
            ]
            by_other = lost.get(one.fact_id)
            stands = any(turn in self._session(name).texts for name, turn in spots)
            if by_other is None and not any(said) and (one.kind == "update" or not stands):
                continue
            gone |= by_other or frozenset()
            if (kept := _without(one, gone, [text for text in said if text])) is not None:
                found.append(kept)
                if kept.made is not None:
                    lost[kept.made] = gone
        return found

    def _spots(self, one: Correction) -> set[tuple[str, str]]:
        """Return (session, turn) there of the places of a correction, and of where its statement was said."""
        found = {place[:2] for place in self.places.get(one.row, ())}
        fact = copying.facts_with_identities(self._source, {one.fact_id}).get(one.fact_id)
        if fact is not None:
            found.update(
                spot for said in rows.stored_times(self._source, fact).values() for spot in said.turns
            )
        return found

    def _said(self, place: Place) -> str | None:
        """Return the sentence of a place, if it stands here."""
        text = self._session(place.session_id).texts.get(place.turn_id)
        return None if text is None else sentences_said(text).get(place.quote)

    def _session(self, session_id: str) -> _Session:
        if session_id not in self._sessions:
            self._sessions[session_id] = self._read(session_id)
        return self._sessions[session_id]

    def _read(self, session_id: str) -> _Session:
        one = self._becomes.get(session_id)
        if one is None:
            return _Session({}, {}, frozenset())
        texts, here = {}, {}
        gone: set[str] = set()
        left: set[str] = set()
        spots = {spot.row: spot for spot in turns_with_ids(self._tx, set(one.here.values()))}
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
        return _Session(texts, here, frozenset(gone - left))


def _without(one: Correction, lost: frozenset[str], said: list[str]) -> Correction | None:
    """Return a correction without the words that are lost; an update that has one hides alone. None when nothing is left of it."""

    def tells(text: str) -> bool:
        return not lost.isdisjoint(content_words(text))

    if not lost:
        return one
    if tells(one.said):
        instead = next((text for text in said if not tells(text)), None)
        if instead is None:
            return None
        one = replace(one, said=instead)
    if one.text is None or not tells(one.text):
        return one
    if one.undone_ms is not None:
        return None
    return replace(one, kind="forget", made=None, text=None, start_ms=None, end_ms=None, precision="unknown")


def _settle(tx: Tx, placings: Placings, changed: list[Correction]) -> Settled:
    """Apply corrections that are new here or undone to what was said here before."""
    if not changed:
        return Settled()
    settled = settle_cells(tx, placings, sorted(cells_about(tx, changed)))
    told = {one.fact_id for one in changed}
    settle_verdicts(tx, placings, copying.facts_with_identities(tx, told).values())
    return settled


def _renamed(source: Tx, found: list[Correction], names: Names) -> list[Correction]:
    """Return corrections with the identities and texts that their statements have here."""
    if not names or not found:
        return found
    wanted = {fact_id for one in found for fact_id in (one.fact_id, one.made) if fact_id is not None}
    stored = copying.facts_with_identities(source, wanted)
    reading = read_facts(source, stored.values(), names, vectors=False)
    renamed = []
    for one in found:
        about = [stored[fact_id] for fact_id in (one.fact_id, one.made) if fact_id in stored]
        called = [pair for row in about for pair in reading.called.get(row, ())]
        fact = reading.facts.get(stored.get(one.fact_id, 0))
        text = None if one.text is None else names.text(one.text, called)
        renamed.append(
            replace(
                one,
                fact_id=one.fact_id if fact is None else fact.fact_id,
                said=names.text(one.said, called),
                text=text,
                made=None if text is None else _identity(one, text),
            )
        )
    return renamed


def _identity(one: Correction, text: str) -> str:
    times = [None if ms is None else from_ms(ms) for ms in (one.start_ms, one.end_ms)]
    return fact_identity(text, times[0], times[1])


def new_corrections(tx: Tx, source: Tx, plan: Plan) -> list[Correction]:
    """Return the corrections that would be taken over and are not here."""
    known = {one.key for one in rows.all_corrections(tx)}
    return [one for one in _Standing(tx, source, plan).corrections() if one.key not in known]
