"""Which session of this memory a session of another one becomes.

A session is the same one when its turns are the same: those that both have agree in id, speaker, text and time, from
the first on. One whose id is taken by other turns gets another id, which follows from where it came from, so that it
is found again, also when it comes a second time by way of a third memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, count
from typing import Literal

from memforest.limits import MAX_ID_CHARS
from memforest.memory.merge.names import Names
from memforest.store import copying
from memforest.store.provenance import Origin
from memforest.store.sessions import SessionRow
from memforest.store.turns import StoredTurn, turns_of_session
from memforest.store.tx import Tx

__all__ = ["Becomes", "becomes", "derived_id"]

MARK = "~"


@dataclass(frozen=True, slots=True)
class Becomes:
    """A session of the other memory and what it is here: new, one that has grown there, or one that is here already."""

    there: SessionRow
    session_id: str
    how: Literal["new", "grown", "same"]
    row: int | None = None
    """Its row here, if it is here."""
    first: int = 0
    """The ordinal of the first turn that is not here."""
    over: int | None = None
    """Row here of a session of that id with other turns, which goes first."""


def becomes(
    tx: Tx,
    source: Tx,
    there: SessionRow,
    names: Names,
    origins: Mapping[int, Origin],
    own: Origin,
    *,
    overwrite: bool = False,
) -> Becomes:
    """Return what a session of another memory is here.

    Args:
        tx: a transaction of this memory.
        source: one of the other memory.
        there: the session.
        names: who is called otherwise here.
        origins: those of the other memory's turns.
        own: the other memory itself.
        overwrite: whether what is here under an id goes where it differs; else the session gets another id.
    """
    first_origin = copying.origin_of(source, there.row)
    origin = own if first_origin is None else origins[first_origin]
    own_id = there.session_id
    first_id = _first_id(own_id, origin)
    free = None
    for session_id in chain(dict.fromkeys((own_id, first_id)), _derived_ids(first_id, origin)):
        found = copying.find_session(tx, session_id)
        if found is None:
            if session_id == own_id or session_id != first_id:
                free = free or session_id
            if session_id not in (own_id, first_id):
                break  # a later one was never given
            continue
        first = _first_new(tx, source, there.row, found, names)
        if first is not None:
            how: Literal["grown", "same"] = "grown" if first < there.turns else "same"
            return Becomes(there, session_id, how, found[0], first)
        if overwrite and session_id == own_id:
            return Becomes(there, own_id, "new", over=found[0])
    assert free is not None
    return Becomes(there, free, "new")


def _first_id(session_id: str, origin: Origin) -> str:
    """Return the id that a session had at first, where its own was derived when it was merged before."""
    first, _, _ = session_id.rpartition(MARK)
    return first if first and derived_id(first, origin, 1) == session_id else session_id


def _derived_ids(first_id: str, origin: Origin) -> Iterator[str]:
    return (derived_id(first_id, origin, number) for number in count(1))


def derived_id(session_id: str, origin: Origin, number: int) -> str:
    """Return the id of a session whose own is taken: its own with a digest of where it came from, and a number.

    Example:
        >>> derived_id("s1", Origin("memory", "bob", "Bob", {}), 1)
        's1~2d452b1fdb'
    """
    parts = (origin.memory, origin.user_id, session_id, str(number))
    digest = blake2b("\0".join(parts).encode(), digest_size=5).hexdigest()
    return f"{session_id[: MAX_ID_CHARS - len(digest) - 1]}{MARK}{digest}"


def _first_new(tx: Tx, source: Tx, there: int, here: tuple[int, bool], names: Names) -> int | None:
    """Return the ordinal of the first turn that a session here does not have; None when it is another session."""
    row, erased = here
    known = copying.turn_digests(source, there)
    if not names and copying.turn_digests(tx, row) == known:  # of one id too, which is in them
        return len(known)
    theirs, ours = turns_of_session(source, there), turns_of_session(tx, row)
    if erased or copying.is_erased(source, there):
        return len(theirs) if _share(theirs, ours, names) else None
    if any(not _same(old, new, names) for old, new in zip(ours, theirs, strict=False)):
        return None
    return min(len(ours), len(theirs))


def _share(theirs: Sequence[StoredTurn], ours: Sequence[StoredTurn], names: Names) -> bool:
    """Return whether one of two sessions, of which something was deleted, is a part of the other."""
    by_id = {turn.turn_id: turn for turn in ours}
    both = [(by_id[turn.turn_id], turn) for turn in theirs if turn.turn_id in by_id]
    return len(both) in (len(theirs), len(ours)) and all(_same(old, new, names) for old, new in both)


def _same(old: StoredTurn, new: StoredTurn, names: Names) -> bool:
    """Return whether two turns are one; times that a store stamped itself are nobody's."""
    same_time = old.said_ms == new.said_ms or "clock" in (old.time_source, new.time_source)
    return same_time and (old.turn_id, old.speaker, old.text) == (
        new.turn_id,
        names.speaker(new.speaker),
        new.text,
    )
