"""Placing by what nodes say (paper, compatibility models i to iii): one leaf a transaction.

What a leaf may join is read, a placer decides, and the leaf is written if the tree is as it was: of two processes that
place at once the first one wins, and the other looks again. Between them the nodes above a new leaf say less than is
below them; how that is made up for is the setting `annotate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError, ModelError, ModelRequestError, ReplyError, StepError
from memforest.models.ledger import current_ledger
from memforest.ports import Placer
from memforest.refresh.requests import NodeWork
from memforest.store import derived, meta
from memforest.store import trees as tree_rows
from memforest.store.savepoint import attempted
from memforest.store.tx import Tx
from memforest.systems.host import Host
from memforest.systems.segtree import rows, vector_rows
from memforest.systems.segtree.grow import SegTree
from memforest.systems.segtree.likeness import nearest
from memforest.systems.segtree.receive import is_late, settle
from memforest.systems.segtree.requests import compared, request_of
from memforest.systems.segtree.rows import Exchange
from memforest.systems.segtree.settings import SegTreeSettings
from memforest.systems.segtree.thresholds import least_likeness
from memforest.tree import Node
from memforest.types import PlaceRequest

Vector = NDArray[np.float64]
_Versions = Mapping[int, int]
"""Nodes with the versions that they were read in."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """What a leaf may join: the level that picking it means, what it says, and its vector."""

    level: int
    text: str
    vector: Vector | None


@dataclass(frozen=True, slots=True)
class _Seen:
    """The next exchange and what it may join, as they were read."""

    token: tuple[int, int, int]
    exchange: Exchange
    text: str
    vector: Vector | None
    choices: Sequence[_Choice]
    least: float
    unread: _Versions
    """Nodes that are to be made before the placer reads them."""
    late: bool
    """Whether the exchange stands before some that are in the tree."""
    lacks: bool
    """Whether a vector is missing that the memory's embedder is to make."""


@dataclass(frozen=True, slots=True)
class _Decision:
    """Where a leaf goes, and what decided it; with `counted` the number of leaves says where."""

    level: int | None
    maker: str
    counted: bool = False


async def place_by_text(host: Host, settings: SegTreeSettings) -> None:
    """Place the exchanges that wait, one by one.

    Raises:
        ConfigError: if the placer is not there.
        ModelError: if what nodes say cannot be made, or no call to a model can succeed.
    """
    placer = _placer(host, settings)
    tried: _Versions = {}
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
            decision = await _decide(host, placer, settings, seen)
            above = await host.write(partial(_place, settings=settings, seen=seen, decision=decision))
            failures = await _annotate(host, settings, seen.exchange, above)


def _placer(host: Host, settings: SegTreeSettings) -> Placer | None:
    """Return the placer that is asked; None where vectors are compared.

    Raises:
        ConfigError: if there is none.
    """
    if settings.placer == "cosine":
        return None
    found: Placer | None = host.steps.placers.get(settings.placer)
    if found is None:
        needs = (
            "Config(placer=...)"
            if settings.placer == "own"
            else "Config(chat=...) with 'place' in chat_steps"
        )
        raise ConfigError(f"placer={settings.placer!r} of the index 'segtree' needs {needs}")
    return found


# -- one leaf -------------------------------------------------------------------------------------


def _look(tx: Tx, settings: SegTreeSettings) -> _Seen | None:
    """Return the next exchange that waits, and what it may join; None if none waits."""
    found = rows.waiting(tx, 1)
    if not found:
        return None
    exchange, model = found[0], meta.get(tx, "embedder")
    of_text = settings.leaf_vector == "text"
    vector = vector_rows.leaf_vectors(tx, [exchange.id], of_text=of_text).get(exchange.id)
    tree = SegTree(tx, settings)
    open_ = tree.choices()
    texts = tree_rows.node_texts(tx, [one.node for one in open_])
    vectors = derived.vectors_of_items(tx, "node", [one.node.id for one in open_])
    last = tree.vector_of_last() if open_ and not open_[0].node.level else None
    tau = settings.tau
    if tau is None:
        tau = 0.0 if model is None else least_likeness(model, "cosine", settings.leaf_vector)
    return _Seen(
        token=tree.token,
        exchange=exchange,
        text=vector_rows.texts(tx, [exchange.id])[exchange.id],
        vector=vector,
        choices=[
            _Choice(
                one.level,
                texts.get(one.node.id, ""),
                vectors[one.node.id].astype(np.float64)
                if one.node.id in vectors
                else (None if one.node.level else last),
            )
            for one in open_
        ],
        least=tree.needed(tau, exchange),
        unread=_unread([one.node for one in open_], texts, settings),
        late=is_late(tx, exchange),
        lacks=model is not None and vector is None,
    )


def _unread(nodes: Sequence[Node], texts: Mapping[int, str], settings: SegTreeSettings) -> _Versions:
    """Return the nodes that are out of date; where older texts may be read, of those the ones that say nothing.

    With "append" they are up to date unless the tree was cut or something has failed: a text that tells of leaves which
    are elsewhere now must not be carried on.
    """
    older = settings.annotate == "selected"
    return {
        one.id: one.version for one in nodes if one.level and one.dirty and not (older and one.id in texts)
    }


async def _decide(host: Host, placer: Placer | None, settings: SegTreeSettings, seen: _Seen) -> _Decision:
    """Return where the leaf goes.

    Raises:
        ModelError: if no call can succeed now.
    """
    if placer is None:
        return await _by_cosine(host, settings, seen)
    if not seen.choices:
        return _Decision(None, placer.name)
    asked: list[int | None] = []

    async def ask() -> None:
        asked.append(await placer.place(PlaceRequest(seen.text, tuple(one.text for one in seen.choices))))

    error = await attempted(ask())
    if isinstance(error, ModelError) and not isinstance(error, (StepError, ModelRequestError)):
        raise error
    found = asked[0] if asked else None
    if error is None and _is_choice(found, len(seen.choices)):
        return _Decision(None if found is None else seen.choices[found].level, placer.name)
    why = f"as {placer.name} {_fault(error)}"
    current_ledger().warn(f"some exchanges are placed by likeness, {why}")
    return await _by_cosine(host, settings, seen, f", {why}")


def _is_choice(found: object, choices: int) -> bool:
    return found is None or (type(found) is int and 0 <= found < choices)


def _fault(error: Exception | None) -> str:
    """Return what a placer did wrong, in words of ours: it is kept, and what a model says may be what somebody deletes."""
    if error is None:
        return "chose what is not there"
    if isinstance(error, ReplyError):
        return "gave no usable reply"
    return f"raised {type(error).__name__}"


async def _by_cosine(host: Host, settings: SegTreeSettings, seen: _Seen, why: str = "") -> _Decision:
    """Return where a leaf goes by its likeness with what nodes say; in a memory without vectors by their number.

    Raises:
        ModelError: if a vector is missing and cannot be made.
    """
    if seen.vector is None:
        return _Decision(None, f"runs{why}", counted=True)
    lacking = [one.text for one in seen.choices if one.vector is None]
    made = iter(await host.embed_texts(lacking) if lacking else ())
    vectors = [next(made).astype(np.float64) if one.vector is None else one.vector for one in seen.choices]
    best = nearest(seen.vector, vectors, seen.least, settings.tie)
    return _Decision(None if best is None else seen.choices[best].level, f"cosine{why}")


def _place(tx: Tx, settings: SegTreeSettings, seen: _Seen, decision: _Decision) -> dict[int, int]:
    """Add the leaf if the tree and the exchange are as they were; return the nodes above it, and none if they are not."""
    found = rows.waiting(tx, 1)
    tree = SegTree(tx, settings)
    if tree.token != seen.token or not found or found[0] != seen.exchange:
        return {}
    level = tree.by_count().level if decision.counted else tree.at_most(decision.level)
    above = [node.id for node in tree.add(seen.exchange, level, seen.vector)]
    rows.mark_placed(tx, [(seen.exchange.id, level, decision.maker)])
    tree.close()
    return {one.id: one.version for one in tree_rows.nodes_with_ids(tx, above).values()}


# -- what nodes say -------------------------------------------------------------------------------


async def _annotate(host: Host, settings: SegTreeSettings, exchange: Exchange, above: _Versions) -> list[str]:
    """Have the nodes above a new leaf made anew, as the policy says; return why some could not be, which is tried again before they are read."""
    if not above or settings.annotate == "lazy":
        return []
    if settings.annotate == "path":
        return await host.ensure_fresh(lambda tx: above)
    choose = _selected if settings.annotate == "selected" else _appended
    return await host.annotate(partial(choose, settings=settings, exchange=exchange, above=above))


def _selected(tx: Tx, settings: SegTreeSettings, exchange: Exchange, above: _Versions) -> list[NodeWork]:
    """Return the request of the node that got a leaf, of what its children say now, and those of one-child nodes over the leaf."""
    nodes = _unmoved(tx, above)
    chain = [node for node in nodes if node.count == 1]
    got = [node for node in nodes if len(node.children) > 1][:1]
    vector = compared(settings)
    return [request_of(node, _told(tx, node.children), vector=vector) for node in (*chain, *got)]


def _appended(tx: Tx, settings: SegTreeSettings, exchange: Exchange, above: _Versions) -> list[NodeWork]:
    """Return the requests of the nodes above a leaf, each of what it said before and the leaf.

    One that is new is made of what its children say; a one-child node over several leaves says what its child will say, and
    is left.
    """
    nodes = [node for node in _unmoved(tx, above) if node.count == 1 or len(node.children) > 1]
    had = derived.summaries(tx, [node.id for node in nodes])
    leaf, vector = tuple(vector_rows.texts(tx, [exchange.id]).values()), compared(settings)
    return [
        request_of(node, leaf, vector=vector, history=(had[node.id],))
        if node.id in had
        else request_of(node, _told(tx, node.children), vector=vector)
        for node in nodes
    ]


def _unmoved(tx: Tx, versions: _Versions) -> list[Node]:
    """Return those nodes that are as they were, the lowest first.

    What is above a leaf that has changed or gone meanwhile is not: nothing is made of such a leaf.
    """
    found = tree_rows.nodes_with_ids(tx, versions)
    return sorted(
        (one for one in found.values() if one.version == versions[one.id]), key=lambda one: one.level
    )


def _told(tx: Tx, nodes: Sequence[int]) -> tuple[str, ...]:
    """Return what nodes say now, in order; of a one-child node what that child says."""
    below = {one: one for one in nodes}
    while True:
        found = tree_rows.nodes_with_ids(tx, below.values())
        alone = {one: found[at].children[0] for one, at in below.items() if len(found[at].children) == 1}
        if not alone:
            break
        below |= alone
    texts = tree_rows.node_texts(tx, found.values())
    return tuple(texts[below[one]] for one in nodes if below[one] in texts)
