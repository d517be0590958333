"""Which session of this memory a session of another one becomes, and what of its turns is to come.

A turn is here if one of the same id, speaker and time that says the same is, in a session of the same id: an id that a merge
has changed counts as the one that it was made of. What was deleted here is known by digests, and never comes. Where
both memories went on with a session, the turns of both stand in it. Of two sessions that share nothing but their id, the one
that comes gets another id, which follows from whose it is: so it is found again, also by way of a third memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Becomes:
    """A session of the other memory and what it is here: new, one of which something is to come, or one that is here already."""

    there: SessionRow
    session_id: str
    how: Literal["new", "grown", "same"]
    row: int | None = None
    """Its row here, if it is here."""
    over: int | None = None
    """Row here of a session of that id with other turns, which goes first."""
    rest: Mapping[int, str | None] | None = None
    """Turn there -> what of it comes, of those that are not here; None is nothing: it was deleted here. Without it all comes as it is."""
    here: Mapping[int, int] = field(default_factory=dict)
    """Turn there -> turn here, of those that are here, where `rest` is given."""

    @property
    def turns(self) -> int:
        """How many turns come."""
        if self.how == "same":
            return 0
        if self.rest is None:
            return self.there.turns
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
        overwrite: whether what is here under an id goes where it has other turns too.
    """
    found = copying.sessions_with_root(tx, root_id(there.session_id), there.session_id)
    if not found and not known.deleted:
        return Becomes(there, there.session_id, "new")
    theirs = turns_of_session(source, there.row)
    over = found.get(there.session_id) if overwrite else None
    rows = found.values() if over is None else [over]
    ours = [turn for row in rows for turn in turns_of_session(tx, row)]
    compared = _compare(theirs, ours, known)
    if over is not None and compared.rest and len(compared.here) < len(ours):
        found, compared = {}, _compare(theirs, [], known)
    else:
        over = None
    session_id, row = _place(source, there, found, compared.votes, known)
    if row is None and all(compared.rest.get(turn.row) == turn.text for turn in theirs):
        return Becomes(there, session_id, "new", over=over)
    how: Literal["new", "grown", "same"] = "new" if row is None else "grown"
    if not any(text is not None for text in compared.rest.values()):
        how = "same"
    return Becomes(there, session_id, how, row, over, compared.rest, compared.here)


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
    source: Tx, there: SessionRow, found: Mapping[str, int], votes: Counter[int], known: Known
) -> tuple[str, int | None]:
    """Return the id and the row here of what a session becomes: of that here with which it shares most, else by its id."""
    session_id = there.session_id
    if votes:
        session_id = max(found, key=lambda one: votes[found[one]])  # the first of several, as `max` does
    elif session_id in found and session_id == root_id(session_id):
        first = copying.origin_of(source, there.row)
        origin = known.own if first is None else known.origins[first]
        session_id = derived_id(session_id, origin.memory, origin.user_id)
    return session_id, found.get(session_id)


def renamed(sessions: Iterable[Becomes]) -> dict[str, str]:
    """Return the ids of sessions there -> here, of those that are called otherwise here."""
    return {
        one.there.session_id: one.session_id for one in sessions if one.session_id != one.there.session_id
    }


def batches(sessions: Iterable[Becomes], most_turns: int) -> Iterator[list[Becomes]]:
    """Yield sessions in groups of bounded size; a longer session is a group by itself."""
    part: list[Becomes] = []
    size = 0
    for one in sessions:
        if part and size + one.turns > most_turns:
            yield part
            part, size = [], 0
        part.append(one)
        size += one.turns
    if part:
        yield part
