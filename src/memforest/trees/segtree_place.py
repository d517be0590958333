"""The segtree index: from the feed to exchanges, and from these to leaves of the tree.

Sessions that have changed are cut into exchanges anew, and what changed leaves the tree. Whatever is done is done in short
transactions, each from what is stored, so that a crash or another process at the same time costs nothing but work: an
exchange is in the tree or waits, and what waits is placed once, in the exchanges' order.

With the placer "cosine" a leaf is placed by the vectors of the nodes' summaries, as in the paper (its compatibility model
i), one leaf a transaction: what it may join is read, these summaries are brought up to date, and the leaf is written if
the tree is as it was. Of two processes that place at once the first one wins, and the other looks again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, takewhile
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ModelError
from memforest.nodes import Node
from memforest.records import SummaryRequest
from memforest.search.vectors import digest
from memforest.store import derived, meta, trees
from memforest.store.connections import Tx
from memforest.store.indexes import Items
from memforest.times import from_ms
from memforest.trees import segtree_rows
from memforest.trees.index import Host, Placed, Placing, is_behind, place_notes
from memforest.trees.refresh import NodeWork
from memforest.trees.segtree_grow import KIND, OWNER, SegTree, nearest
from memforest.trees.segtree_rows import (
    ExchangeCut,
    ExchangePlace,
    ExchangeRow,
    SaidTurn,
    SegTreeSettings,
    leaf_exchanges,
    least_likeness,
    stale,
)

Vectors: TypeAlias = Mapping[int, NDArray[np.float64] | None]

_BACK = 8
"""Exchanges in front of new turns among which one is looked for that begins whatever was said before."""

_OPENER = "ix_segtree_opener"
"""Entry of `meta`: digest of who opened the memory when its sessions were cut."""


def receive(tx: Tx, settings: SegTreeSettings, until: int) -> bool:
    """Cut the sessions of the next notes of the feed into exchanges, and return whether more notes are left."""

    def place(items: Items) -> None:
        sessions, all_stored = segtree_rows.sessions_of(tx, items.get("turn", ()))
        lost = [] if all_stored else stale(tx)  # what went while nobody told the index
        tree = SegTree(tx, settings)
        recut(tx, tree, settings, sessions, segtree_rows.places(tx, lost), dict.fromkeys(lost))
        tree.close()

    return place_notes(tx, OWNER, until, place)


def recut(
    tx: Tx,
    tree: SegTree,
    settings: SegTreeSettings,
    sessions: Mapping[int, int],
    changed: Collection[ExchangeRow | ExchangePlace] = (),
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
        from_ |= dict.fromkeys(segtree_rows.all_sessions(tx), 0)
    gone = {one.id for one in changed}
    new: dict[int, list[ExchangeCut]] = {}
    for session, position in from_.items():
        first, cuts = _cuts(tx, settings, session, position, opener)
        wanted = {(cut.turn, cut.turn_last, cut.place): cut for cut in cuts}
        have = segtree_rows.of_session(tx, session, first)
        kept = {as_cut for as_cut, one in have.items() if as_cut in wanted and one not in gone}
        gone |= {one for as_cut, one in have.items() if as_cut not in kept}
        new[session] = [cut for as_cut, cut in wanted.items() if as_cut not in kept]
    withdraw(tx, tree, settings, gone, vectors)
    for session, cuts in new.items():
        if cuts:
            segtree_rows.add(tx, session, cuts)


def _opener(tx: Tx, settings: SegTreeSettings) -> str | None:
    """Return the speaker whose turns begin exchanges; None in a memory without turns, or if the rule does not ask."""
    if settings.leaves != "adjacent":
        return None
    return settings.opener or segtree_rows.first_speaker(tx)


def _cuts(
    tx: Tx, settings: SegTreeSettings, session: int, new: int, opener: str | None
) -> tuple[int, list[ExchangeCut]]:
    """Cut a session into exchanges from some position on; return that position and the exchanges.

    Args:
        tx: the write transaction.
        settings: of the index.
        session: that is cut.
        new: position from which on its turns are new.
        opener: who opens the memory.
    """
    for first, place in [*_starts(tx, settings, session, new), (0, None)]:
        turns = segtree_rows.turns_of_session(tx, session, first)
        speakers = [turn.speaker for turn in turns]
        places = _places(turns, place)
        if place is not None and (places[0] != place or not _begins(speakers, settings, opener)):
            continue
        found = leaf_exchanges(speakers, settings.leaves, opener=opener)
        made = [
            ExchangeCut(turns[a].ordinal, turns[b].ordinal, turns[a].row, turns[b].row, b - a + 1, places[a])
            for a, b in found
        ]
        return first, made
    raise AssertionError("a session can be cut from its start on")


def _starts(tx: Tx, settings: SegTreeSettings, session: int, new: int) -> list[tuple[int, int]]:
    """Return position and place of exchanges in front of new turns, from which on a session may be cut as from its start."""
    near = segtree_rows.last_before(tx, session, new, _BACK)  # the last one first
    if settings.leaves == "turns":
        return near[:1]
    return near[1:2] if settings.leaves == "pairs" else near


def _begins(speakers: Sequence[str], settings: SegTreeSettings, opener: str | None) -> bool:
    """Return whether an exchange begins here whatever came before: with the opener, who is answered."""
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
        known = {**segtree_rows.leaf_vectors(tx, placed, of_text=settings.leaf_vector == "text"), **vectors}
        for one in sorted(placed, key=lambda one: -placed[one]):
            tree.take_out(placed[one], known.get(one))
    segtree_rows.delete(tx, exchanges)


def settle(tx: Tx, settings: SegTreeSettings) -> None:
    """Make room for exchanges that wait in front of some that are in the tree."""
    first = segtree_rows.waiting(tx, 1)
    if not first or not is_late(tx, first[0]):
        return
    tree = SegTree(tx, settings)
    if not (settings.reads_texts and _put_beside(tx, tree, settings, first[0])):
        tree.cut_back(tree.head.count - segtree_rows.behind(tx, first[0].place, first[0].tie), {})
    tree.close()


def is_late(tx: Tx, exchange: ExchangeRow) -> bool:
    """Return whether an exchange stands before one that is in the tree."""
    last = segtree_rows.last_placed(tx)
    return last is not None and (exchange.place, exchange.tie) <= last


def _put_beside(tx: Tx, tree: SegTree, settings: SegTreeSettings, exchange: ExchangeRow) -> bool:
    """Put an exchange beside one of its own session that is in the tree right before or behind it; return whether there is one.

    So what was changed in one place stands there again.
    """
    behind = segtree_rows.behind(tx, exchange.place, exchange.tie)
    at = tree.head.count - behind
    if all(
        one.session != exchange.session
        for one in segtree_rows.by_id(tx, segtree_rows.last_of(tx, behind + 1)[:2])
    ):
        return False
    vector = segtree_rows.leaf_vectors(tx, [exchange.id], of_text=settings.leaf_vector == "text").get(
        exchange.id
    )
    tree.put_beside(at, exchange, vector)
    segtree_rows.mark_placed(tx, [(exchange.id, None, "beside")])
    return True


class SegTreePlacing(Placing):
    """Takes exchanges out of the tree in a transaction that changes turns; see `memforest.trees.index.Placing`.

    Nothing is placed here: the index is deferred.
    """

    def __init__(self, tx: Tx, settings: SegTreeSettings) -> None:
        self._tx, self._settings = tx, settings
        self._tree = SegTree(tx, settings)
        self._left: dict[int, tuple[ExchangeRow, tuple[int, ...]]] = {}
        """Exchanges that were announced, with their turns as they were."""
        self._vectors: dict[int, NDArray[np.float64] | None] = {}

    def leave(self, items: Items) -> None:
        """Mark the nodes above exchanges whose turns are about to change as dirty, and keep the exchanges' vectors."""
        found = [
            one for one in segtree_rows.of_turns(self._tx, items.get("turn", ())) if one.id not in self._left
        ]
        placed = [one for one in found if one.state == segtree_rows.PLACED]
        marked = [
            node
            for at in self._tree.ordinals([one.id for one in placed]).values()
            for node in self._tree.mark_above(at)
        ]
        if self._settings.reads_texts:  # else the next leaf could be placed by what is hidden now
            derived.drop_summaries(self._tx, sorted(set(marked)))
        of_text = self._settings.leaf_vector == "text"
        self._vectors |= segtree_rows.leaf_vectors(self._tx, [one.id for one in placed], of_text=of_text)
        for one in found:
            self._left[one.id] = one, segtree_rows.turns_between(self._tx, one.session, one.first, one.last)

    def close(self) -> Placed:
        """Take exchanges out whose turns have changed, cut their sessions anew, and write everything back."""
        of_text = self._settings.leaf_vector == "text"  # what is as it was is told otherwise now
        changed = [
            one
            for one, turns in self._left.values()
            if of_text or segtree_rows.turns_between(self._tx, one.session, one.first, one.last) != turns
        ]
        if changed:
            recut(self._tx, self._tree, self._settings, {}, changed, self._vectors)
        return self._tree.close()


LABEL = "of all sessions"
"""Name of the scope of the only tree."""


def request_of(node: Node, inputs: tuple[str, ...], settings: SegTreeSettings) -> NodeWork:
    """Return the summary request of a stretch, made of the texts below it, in order.

    It is not told whether the stretch is the whole tree: what was so is a part later, and says the same.

    Args:
        node: the stretch.
        inputs: what is below it.
        settings: of the index.
    """
    request = SummaryRequest(
        kind=KIND,
        label=LABEL,
        start=from_ms(node.start_ms),
        end=from_ms(node.end_ms),
        inputs=inputs,
        level=node.level,
        summarise=settings.summarise,
    )
    # A summary that is compared with nothing needs no vector.
    return NodeWork(node.id, request, vector="cosine" in (settings.scorer, settings.placer))


Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The next exchange and what it may join, as they were read."""

    token: tuple[int, int, int]
    exchange: ExchangeRow
    vector: Vector | None
    choices: Sequence[tuple[int, str, Vector | None]]
    """What the leaf may join: the level that picking it means, its text, and its vector."""
    least: float
    unread: Mapping[int, int]
    """Nodes that are to be made before they are compared, with the versions that they were read in."""
    late: bool
    """Whether the exchange stands before some that are in the tree."""
    lacks: bool
    """Whether a vector is missing that the memory's embedder is to make."""


async def place_by_text(host: Host, settings: SegTreeSettings) -> None:
    """Place the exchanges that wait, one by one.

    Raises:
        ModelError: if what nodes say cannot be made, or no call to a model can succeed.
    """
    tried: Mapping[int, int] = {}
    failures: list[str] = []
    while (seen := await host.look(partial(_look, settings=settings))) is not None and not seen.lacks:
        if seen.late:
            await host.write(partial(settle, settings=settings))
        elif seen.unread and seen.unread == tried:
            why = failures[0] if failures else "the budget is used up, or another process was at it"
            raise ModelError(f"what a stretch says could not be made: {why}")
        elif seen.unread:
            tried = seen.unread
            failures += await host.ensure_fresh(lambda tx, tried=tried: tried)  # type: ignore[misc]
        else:
            best = await _nearest(host, seen)
            await host.write(partial(_place, settings=settings, seen=seen, best=best))
            failures = []


def _look(tx: Tx, settings: SegTreeSettings) -> _Seen | None:
    """Return the next exchange that waits, and what it may join; None if none waits."""
    found = segtree_rows.waiting(tx, 1)
    if not found:
        return None
    exchange, model = found[0], meta.get(tx, "embedder")
    of_text = settings.leaf_vector == "text"
    vector = segtree_rows.leaf_vectors(tx, [exchange.id], of_text=of_text).get(exchange.id)
    tree = SegTree(tx, settings)
    open_ = tree.choices()
    texts = trees.node_texts(tx, [node for node, _ in open_])
    vectors: dict[int, Vector | None] = {
        node: row.astype(np.float64)
        for node, row in derived.vectors_of_items(tx, "node", [node.id for node, _ in open_]).items()
    }
    if open_ and not open_[0][0].level:
        vectors.setdefault(open_[0][0].id, tree.vector_of_last())
    tau = settings.tau
    if tau is None:
        tau = 0.0 if model is None else least_likeness(model, "cosine", settings.leaf_vector)
    return _Seen(
        token=tree.token,
        exchange=exchange,
        vector=vector,
        choices=[(level, texts.get(node.id, ""), vectors.get(node.id)) for node, level in open_],
        least=tree.needed(tau),
        unread={node.id: node.version for node, _ in open_ if node.level and node.dirty},
        late=is_late(tx, exchange),
        lacks=model is not None and vector is None,
    )


async def _nearest(host: Host, seen: _Seen) -> int | None:
    """Return the level of the node that the leaf is most like; None if it is like none of them, or has no vector.

    Raises:
        ModelError: if a vector is missing and cannot be made.
    """
    if seen.vector is None:
        return None
    lacking = [text for _, text, vector in seen.choices if vector is None]
    made = iter(await host.embed_texts(lacking) if lacking else ())
    vectors = [next(made).astype(np.float64) if known is None else known for _, _, known in seen.choices]
    best = nearest(seen.vector, vectors, seen.least)
    return None if best is None else seen.choices[best][0]


def _place(tx: Tx, settings: SegTreeSettings, seen: _Seen, best: int | None) -> None:
    """Add the leaf if the tree and the exchange are as they were; in a memory without vectors by the number of leaves."""
    found = segtree_rows.waiting(tx, 1)
    tree = SegTree(tx, settings)
    if tree.token != seen.token or not found or found[0] != seen.exchange:
        return
    level, maker = tree.by_count() if seen.vector is None else (tree.at_most(best), "cosine")
    tree.add(seen.exchange, level, seen.vector)
    segtree_rows.mark_placed(tx, [(seen.exchange.id, level, maker)])
    tree.close()


TAU = "ix_segtree_tau"
"""Entry of `meta`: the threshold that the tree was begun with, if it was measured for the embedder."""
BATCH = 256
"""Leaves that are placed in one transaction where no text is read: a tenth of a second's work."""


async def advance(host: Host, settings: SegTreeSettings, until: int) -> None:
    """Place everything that the feed has noted up to a number, as far as its vectors are there.

    Raises:
        ModelError: if texts are to be embedded and cannot be.
    """

    def stands(tx: Tx) -> tuple[bool, bool, bool]:
        """Return whether notes are behind, whether exchanges wait, and whether the memory has vectors."""
        waits = segtree_rows.count(tx, segtree_rows.WAITING) > 0
        return is_behind(tx, OWNER, until), waits, meta.get(tx, "embedder") is not None

    behind, waits, vectors = await host.look(stands)
    while behind and await host.write(partial(receive, settings=settings, until=until)):
        pass
    if behind:
        _, waits, vectors = await host.look(stands)
    if not waits:
        return
    if settings.leaf_vector == "text" and vectors:
        await _embed(host)
    if settings.reads_texts:
        await host.write(partial(settle, settings=settings))
        await place_by_text(host, settings)
    else:
        while await host.write(partial(grow, settings=settings)):
            pass


async def _embed(host: Host) -> None:
    """Make the vectors of the texts of exchanges that wait."""

    def look(tx: Tx) -> list[tuple[segtree_rows.ExchangeRow, str]]:
        found = segtree_rows.by_id(tx, segtree_rows.without_vector(tx, BATCH))
        said = segtree_rows.texts(tx, [one.id for one in found])
        return [(one, said[one.id]) for one in found]

    while found := await host.look(look):
        vectors = await host.embed_texts([text for _, text in found])
        made = [(one, vector) for (one, _), vector in zip(found, vectors, strict=True)]
        await host.write(partial(segtree_rows.put_vectors, found=made))


def grow(tx: Tx, settings: SegTreeSettings) -> bool:
    """Place the next exchanges that wait, without reading a text; return whether there may be more.

    One whose vector is missing, because the embedder failed, waits for it, and all behind it with it.
    """
    settle(tx, settings)
    found = segtree_rows.waiting(tx, BATCH + 1)
    model = meta.get(tx, "embedder")
    of_text = settings.leaf_vector == "text"
    vectors = (
        segtree_rows.leaf_vectors(tx, [one.id for one in found], of_text=of_text) if model is not None else {}
    )
    ready = found if model is None else list(takewhile(lambda one: one.id in vectors, found))
    if not ready:
        return False
    tau = settings.tau
    if tau is None and model is not None:
        tau = least_likeness(model, "centroid", settings.leaf_vector)
        if not segtree_rows.last_placed(tx):
            meta.put(tx, TAU, str(tau))
    tree = SegTree(tx, settings)
    made = []
    for one in ready[:BATCH]:
        by_count = tau is None or model is None
        level, maker = tree.by_count() if by_count else tree.by_likeness(vectors[one.id], tau or 0.0)
        tree.add(one, level, vectors.get(one.id))
        made.append((one.id, level, maker))
    segtree_rows.mark_placed(tx, made)
    tree.close()
    return len(ready) > BATCH
