"""Which session of this memory a session of another one becomes, and what of its turns is to come.

A turn is here if one of the same id, speaker and time that says the same is, in a session of the same id: an id that a merge
has changed counts as the one that it was made of. What was deleted here is known by digests, and never comes. Where
both memories went on with a session, the turns of both stand in it. Of two sessions that share nothing but their id, the one
that comes gets another id, which follows from whose it is: so it is found again, also by way of a third memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from memforest.language.sentences import split_sentences
from memforest.memory.erase.sentences import without
from memforest.memory.merge.names import Names
from memforest.memory.places import copy_digests, derived_id, holds, root_id
from memforest.store import copying
from memforest.store.provenance import Origin
from memforest.store.sessions import SessionRow
from memforest.store.turns import StoredTurn, turns_of_session
from memforest.store.tx import Tx

__all__ = ["Becomes", "Known", "becomes"]


@dataclass(frozen=True, slots=True)
class Becomes:
    """A session of the other memory and what it is here: new, one of which something is to come, or one that is here already."""

    there: SessionRow
    session_id: str
    how: Literal["new", "grown", "same"]
    row: int | None = None
    """Its row here, if it is here."""
    first: int = 0
    """The ordinal of the first turn that is not here."""
    over: int | None = None
    """Row here of a session of that id with other turns, which goes first."""
    rest: Mapping[int, str | None] | None = None
    """Turn there -> what of it comes, where not all from `first` on does; None is nothing: it was deleted here."""
    here: Mapping[int, int] = field(default_factory=dict)
    """Turn there -> turn here, of those that are here, where `rest` is given."""

    @property
    def turns(self) -> int:
        """How many turns come."""
        if self.how == "same":
            return 0
        if self.rest is None:
            return self.there.turns - self.first
        return sum(text is not None for text in self.rest.values())


@dataclass(frozen=True, slots=True)
class Known:
    """Who is called otherwise here, where the other memory's turns are from, and the digests of what was deleted here."""

    names: Names
    origins: Mapping[int, Origin]
    own: Origin
    """The other memory itself."""
    deleted: frozenset[bytes]

    def is_deleted(self, turn: StoredTurn, text: str) -> bool:
        """Return whether a text of a turn was deleted here."""
        return bool(self.deleted) and not self.deleted.isdisjoint(
            copy_digests(turn, text, self.names.speaker(turn.speaker))
        )

    def left(self, turn: StoredTurn, near: Collection[StoredTurn]) -> str | None:
        """Return what of a turn is neither in turns here nor was deleted here; None for nothing."""
        if self.is_deleted(turn, turn.text):
            return None
        if not near and not self.deleted:
            return turn.text
        stale = [
            piece
            for piece in split_sentences(turn.text)
            if self.is_deleted(turn, piece.text) or any(holds(one.text, piece.text) for one in near)
        ]
        return without(turn.text, stale) if stale else turn.text


def becomes(tx: Tx, source: Tx, there: SessionRow, known: Known, *, overwrite: bool = False) -> Becomes:
    """Return what a session of another memory is here.

    Args:
        tx: a transaction of this memory.
        source: one of the other memory.
        there: the session.
        known: what is known of both.
        overwrite: whether what is here under an id goes where it differs; else the session gets another id.
    """
    found = copying.sessions_with_root(tx, root_id(there.session_id), there.session_id)
    if overwrite:
        found = [one for one in found if one.session_id == there.session_id]
    if not found and not known.deleted:
        return Becomes(there, there.session_id, "new")
    theirs = turns_of_session(source, there.row)
    ours = {one.row: turns_of_session(tx, one.row) for one in found}
    erased = copying.is_erased(source, there.row)
    for one in found:
        first = _first_new(theirs, ours[one.row], known, erased=erased or one.erased)
        if first is not None:
            return Becomes(there, one.session_id, "grown" if first < len(theirs) else "same", one.row, first)
    over = found[0].row if overwrite and found else None
    if over is not None:
        found, ours = [], {}
    compared = _compare(theirs, [turn for one in ours.values() for turn in one], known)
    session_id, row = _place(source, there, found, compared.votes, known)
    if row is None and all(compared.rest.get(turn.row) == turn.text for turn in theirs):
        return Becomes(there, session_id, "new", over=over)
    how: Literal["new", "grown", "same"] = "new" if row is None else "grown"
    if not any(text is not None for text in compared.rest.values()):
        how = "same"
    return Becomes(there, session_id, how, row, over=over, rest=compared.rest, here=compared.here)


def _first_new(
    theirs: Sequence[StoredTurn], ours: Sequence[StoredTurn], known: Known, *, erased: bool
) -> int | None:
    """Return the ordinal of the first turn that a session here does not have, where it has all before that and no other; else None."""
    if not ours or any(not _same(old, new, known.names) for old, new in zip(ours, theirs, strict=False)):
        return None
    if len(ours) >= len(theirs):
        return len(theirs)
    if erased or any(known.is_deleted(turn, turn.text) for turn in theirs[len(ours) :]):
        return None
    return len(ours)


def _same(old: StoredTurn, new: StoredTurn, names: Names) -> bool:
    return _near(old, new, names) and (old.turn_id, old.text) == (new.turn_id, new.text)


def _near(old: StoredTurn, new: StoredTurn, names: Names) -> bool:
    """Return whether two turns have one speaker and time; times that a store stamped itself are nobody's."""
    same_time = old.said_ms == new.said_ms or "clock" in (old.time_source, new.time_source)
    return same_time and old.speaker == names.speaker(new.speaker)


@dataclass(frozen=True, slots=True)
class _Compared:
    """What of turns there is to come, which turns here others are, and how many of those each session here has."""

    rest: dict[int, str | None] = field(default_factory=dict)
    here: dict[int, int] = field(default_factory=dict)
    votes: Counter[int] = field(default_factory=Counter)


class _Here:
    """The turns of the sessions here that may be one there; each is one turn there at most."""

    def __init__(self, turns: Sequence[StoredTurn], names: Names) -> None:
        self._names = names
        self._free = {one.row for one in turns}
        self._by_id: dict[str, list[StoredTurn]] = {}
        self._by_time: dict[int, list[StoredTurn]] = {}
        for one in turns:
            self._by_id.setdefault(root_id(one.turn_id), []).append(one)
            self._by_time.setdefault(one.said_ms, []).append(one)

    def near(self, turn: StoredTurn) -> list[StoredTurn]:
        """Return the turns of the id of one there, then those of its time that are none of the others."""
        same_id = self._by_id.get(root_id(turn.turn_id), [])
        free = [one for one in self._by_time.get(turn.said_ms, ()) if one.row in self._free]
        return [one for one in (*same_id, *free) if _near(one, turn, self._names)]

    def claim(self, turn: StoredTurn, *, same_id: bool) -> StoredTurn | None:
        """Return the turn that one there is, word for word, if no other one there is it."""
        for one in self.near(turn):
            apart = root_id(one.turn_id) != root_id(turn.turn_id)
            if one.row in self._free and one.text == turn.text and not (same_id and apart):
                self._free.discard(one.row)
                return one
        return None


def _compare(theirs: Sequence[StoredTurn], ours: Sequence[StoredTurn], known: Known) -> _Compared:
    """Compare the turns of a session with those of the sessions here that may be it."""
    here, done = _Here(ours, known.names), _Compared()
    found = {turn.row: here.claim(turn, same_id=True) for turn in theirs}
    for turn in theirs:
        match, left = found[turn.row] or here.claim(turn, same_id=False), None
        if match is None:
            near = here.near(turn)
            left = known.left(turn, near)
            match = next((one for one in near if _overlap(one.text, turn.text)), None)
        if match is not None:
            done.votes[match.session] += 1
        if match is not None and left is None:
            done.here[turn.row] = match.row
        else:
            done.rest[turn.row] = left
    return done


def _overlap(old: str, new: str) -> bool:
    return any(holds(old, piece.text) for piece in split_sentences(new)) or any(
        holds(new, piece.text) for piece in split_sentences(old)
    )


def _place(
    source: Tx, there: SessionRow, found: Sequence[copying.RootSession], votes: Counter[int], known: Known
) -> tuple[str, int | None]:
    """Return the id and the row here of what a session becomes that is none of those here, or shares turns with one."""
    rows = {one.session_id: one.row for one in found}
    if votes:
        best = max(found, key=lambda one: votes[one.row])  # the first of several, as `max` does
        return best.session_id, best.row
    session_id = there.session_id
    if session_id in rows and session_id == root_id(session_id):
        first = copying.origin_of(source, there.row)
        origin = known.own if first is None else known.origins[first]
        session_id = derived_id(session_id, origin.memory, origin.user_id)
    return session_id, rows.get(session_id)
