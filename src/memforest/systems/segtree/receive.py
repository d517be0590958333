"""From the feed to exchanges: sessions that have changed are cut anew, and what changed leaves the tree."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memforest.exchanges import leaf_exchanges
from memforest.search.texts import digest
from memforest.store import feed, indexes, meta
from memforest.store.tx import Tx
from memforest.systems.base import STEP
from memforest.systems.segtree import rows, vector_rows
from memforest.systems.segtree.check_rows import stale
from memforest.systems.segtree.grow import OWNER, SegTree
from memforest.systems.segtree.rows import Cut, Exchange, Place, SaidTurn
from memforest.systems.segtree.settings import SegTreeSettings

Vectors: TypeAlias = Mapping[int, NDArray[np.float64] | None]

_BACK = 8
"""Exchanges in front of new turns among which one is looked for that begins whatever was said before."""

_OPENER = "ix_segtree_opener"
"""Entry of `meta`: digest of who opened the memory when its sessions were cut."""


def receive(tx: Tx, settings: SegTreeSettings, until: int) -> bool:
    """Cut the sessions of the next notes of the feed into exchanges, and return whether more notes are left.

    If the index is not behind any more, another process was quicker, and nothing is done.
    """
    row = indexes.find(tx, OWNER)
    if row is None or row.cursor >= until:
        return False
    items, upto = feed.read(tx, row.cursor, STEP, until)
    sessions, all_stored = rows.sessions_of(tx, items.get("turn", ()))
    lost = [] if all_stored else stale(tx)  # what went while nobody told the index
    tree = SegTree(tx, settings)
    recut(tx, tree, settings, sessions, rows.places(tx, lost), dict.fromkeys(lost))
    tree.close()
    indexes.move(tx, OWNER, upto)
    return upto < until


def recut(
    tx: Tx,
    tree: SegTree,
    settings: SegTreeSettings,
    sessions: Mapping[int, int],
    changed: Collection[Exchange | Place] = (),
    vectors: Vectors = MappingProxyType({}),
) -> None:
    """Cut sessions into exchanges anew; those that are as they were keep their places, and new ones wait.

    All sessions are cut anew if somebody else opens the memory than when they were cut.

    Args:
        tx: the write transaction.
        tree: to be closed by the caller.
        settings: of the index.
        sessions: row ids, each with the position from which on its turns are new.
        changed: exchanges whose turns are others than when they were cut; their sessions are cut as a whole.
        vectors: of exchanges whose turns are not stored any more, as far as they are known.
    """
    from_: dict[int, int] = {**sessions, **{one.session: 0 for one in changed}}
    opener = _opener(tx, settings)
    told = digest(opener or "").hex()  # no name: it would outlive what its bearer has said
    if settings.leaves == "adjacent" and told != meta.get(tx, _OPENER):
        meta.put(tx, _OPENER, told)
        from_ |= dict.fromkeys(rows.all_sessions(tx), 0)
    gone = {one.id for one in changed}
    new: dict[int, list[Cut]] = {}
    for session, position in from_.items():
        first, cuts = _cuts(tx, settings, session, position, opener)
        wanted = {(cut.turn, cut.turn_last, cut.place): cut for cut in cuts}
        have = rows.of_session(tx, session, first)
        kept = {as_cut for as_cut, one in have.items() if as_cut in wanted and one not in gone}
        gone |= {one for as_cut, one in have.items() if as_cut not in kept}
        new[session] = [cut for as_cut, cut in wanted.items() if as_cut not in kept]
    withdraw(tx, tree, settings, gone, vectors)
    for session, cuts in new.items():
        if cuts:
            rows.add(tx, session, cuts)


def _opener(tx: Tx, settings: SegTreeSettings) -> str | None:
    """Return with whose turns exchanges begin; None in a memory without turns, or where it makes no difference."""
    if settings.leaves != "adjacent":
        return None
    return settings.opener or rows.first_speaker(tx)


def _cuts(
    tx: Tx, settings: SegTreeSettings, session: int, new: int, opener: str | None
) -> tuple[int, list[Cut]]:
    """Return the exchanges that a session is to have from some position on, and that position.

    Args:
        tx: the write transaction.
        settings: of the index.
        session: that is cut.
        new: position from which on its turns are new.
        opener: who opens the memory.
    """
    for first, place in [*_starts(tx, settings, session, new), (0, None)]:
        turns = rows.turns_of_session(tx, session, first)
        speakers = [turn.speaker for turn in turns]
        places = _places(turns, place)
        if place is not None and (places[0] != place or not _begins(speakers, settings, opener)):
            continue
        found = leaf_exchanges(speakers, settings.leaves, opener=opener)
        made = [
            Cut(turns[a].ordinal, turns[b].ordinal, turns[a].row, turns[b].row, b - a + 1, places[a])
            for a, b in found
        ]
        return first, made
    raise AssertionError("a session can be cut from its start on")


def _starts(tx: Tx, settings: SegTreeSettings, session: int, new: int) -> list[tuple[int, int]]:
    """Return position and place of exchanges in front of new turns, from which on a session may be cut as from its start."""
    near = rows.last_before(tx, session, new, _BACK)  # the last one first
    if settings.leaves == "turns":
        return near[:1]
    return near[1:2] if settings.leaves == "pairs" else near


def _begins(speakers: Sequence[str], settings: SegTreeSettings, opener: str | None) -> bool:
    """Return whether an exchange that begins here does so whatever was said before it: with the opener, who is answered."""
    return settings.leaves != "adjacent" or (len(speakers) > 1 and speakers[0] == opener != speakers[1])


def _places(turns: Sequence[SaidTurn], place: int | None) -> list[int]:
    """Return the place of every turn of a session in the memory's order; it never falls within a session.

    Args:
        turns: of the session from some turn on.
        place: of the first of them; None at the session's start.
    """
    said = [turn.said_ms for turn in turns]
    return list(accumulate(said if place is None else [max(place, *said[:1]), *said[1:]], max))


def withdraw(
    tx: Tx,
    tree: SegTree,
    settings: SegTreeSettings,
    exchanges: Collection[int],
    vectors: Vectors,
) -> None:
    """Delete exchanges, and take their leaves out of the tree.

    With the placer ``"centroid"`` all that is behind the first of them waits again; with one that reads what nodes say
    the other leaves stay, as placing them anew would make summaries again.

    Args:
        tx: the write transaction.
        tree: to be closed by the caller.
        settings: of the index.
        exchanges: those that go.
        vectors: of exchanges whose turns are not stored any more, as far as they are known.
    """
    if not exchanges:
        return
    placed = tree.ordinals(exchanges)
    if placed and not settings.reads_texts:
        tree.cut_back(min(placed.values()) - 1, vectors)
    elif placed:
        known = {**vector_rows.leaf_vectors(tx, placed, of_text=settings.leaf_vector == "text"), **vectors}
        for one in sorted(placed, key=lambda one: -placed[one]):
            tree.take_out(placed[one], known.get(one))
    rows.delete(tx, exchanges)


def settle(tx: Tx, settings: SegTreeSettings) -> None:
    """Make room for exchanges that wait in front of some that are in the tree."""
    first = rows.waiting(tx, 1)
    if not first or not is_late(tx, first[0]):
        return
    tree = SegTree(tx, settings)
    if not (settings.reads_texts and _put_beside(tx, tree, settings, first[0])):
        tree.cut_back(tree.head.count - rows.behind(tx, first[0].place, first[0].tie), {})
    tree.close()


def is_late(tx: Tx, exchange: Exchange) -> bool:
    """Return whether an exchange stands before one that is in the tree."""
    last = rows.last_placed(tx)
    return last is not None and (exchange.place, exchange.tie) <= last


def _put_beside(tx: Tx, tree: SegTree, settings: SegTreeSettings, exchange: Exchange) -> bool:
    """Put an exchange beside one of its own session that is in the tree right before or behind it; return whether there is one.

    So what was changed in one place stands there again.
    """
    behind = rows.behind(tx, exchange.place, exchange.tie)
    at = tree.head.count - behind
    if all(one.session != exchange.session for one in rows.by_id(tx, rows.last_of(tx, behind + 1)[:2])):
        return False
    vector = vector_rows.leaf_vectors(tx, [exchange.id], of_text=settings.leaf_vector == "text").get(
        exchange.id
    )
    tree.put_beside(at, exchange, vector)
    rows.mark_placed(tx, [(exchange.id, None, "beside")])
    return True
