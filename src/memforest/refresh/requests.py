"""Summary requests: the texts beneath a node, the request of its index, and the digest of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

from memforest.interval import EARLIEST
from memforest.ports import Summariser
from memforest.search.texts import digest
from memforest.store import derived
from memforest.store import trees as tree_rows
from memforest.store.leaves import leaf_texts
from memforest.store.tx import Tx
from memforest.tree import Node
from memforest.types import SummaryRequest

PROMPTS = ("", "segment", "session", "day", "week", "profile", "memory")
"""What a request may name as its prompt; see `memforest.types.SummaryRequest`."""


@dataclass(frozen=True, slots=True)
class NodeWork:
    """The summary request of a node, and whether the node gets a vector.

    With `kept` the node's text is the inputs, a line each, and its vector the mean of its children's: nobody is asked. With
    `words` the request's own bound of words holds, else the memory's.
    """

    node: int
    request: SummaryRequest
    vector: bool = True
    kept: bool = False
    words: bool = False


Describe = Callable[[Tx, Sequence[Node], Mapping[int, tuple[str, ...]]], Sequence[NodeWork]]
"""Says how nodes are to be summarised, given their children's texts; of those that need it."""


def inputs_of(tx: Tx, nodes: Sequence[Node], children: Mapping[int, Node]) -> dict[int, tuple[str, ...]]:
    """Return the inputs of each node's summary: its children's texts, in order; of a leaf, what its item says."""
    texts = tree_rows.node_texts(tx, [children[child] for node in nodes for child in node.children])
    items = leaf_texts(tx, [node for node in nodes if not node.level])
    own = {node.id: tuple(texts[child] for child in node.children if child in texts) for node in nodes}
    return own | {leaf: (text,) for leaf, text in items.items()}


def bounded(work: NodeWork, max_words: int) -> NodeWork:
    """Return the work with the memory's bound of words, unless the request's own holds."""
    return work if work.words else replace(work, request=replace(work.request, max_words=max_words))


def maker_of(summariser: Summariser, request: SummaryRequest) -> str:
    """Return what is noted as the maker of a request's summary: of the summariser as a whole, or of the request's prompt."""
    made: str = summariser.maker_of(request) if hasattr(summariser, "maker_of") else summariser.name
    return made


def makers_of(summariser: Summariser) -> frozenset[str]:
    """Return everything that the summariser may be noted as."""
    blank = SummaryRequest("", "", EARLIEST, EARLIEST, ())
    return frozenset(maker_of(summariser, replace(blank, prompt=prompt)) for prompt in PROMPTS)


def fingerprint(request: SummaryRequest, maker: str, *, kept: bool = False) -> bytes:
    """Return the fingerprint of a summary: a digest of the request, of the summariser's name and version, and of whether it was asked."""
    asked = asdict(request)
    for later in ("prompt", "statements"):  # stored digests say nothing of these where they are empty
        if not asked[later]:
            del asked[later]
    told = [maker, asked, *(["kept"] if kept else [])]
    return digest(json.dumps(told, default=str, ensure_ascii=False))


def stale_nodes(tx: Tx, describe: Describe, summariser: Summariser) -> list[int]:
    """Return the nodes whose summary has another maker, or another request, than it would have now.

    A request is known by its digest, so that a summary that was made with another prompt, model, length or instruction,
    or for another name, is found; of one that was stored without a digest, the maker alone is compared. Nodes that are
    dirty already are left out.
    """
    made, makers = derived.summary_makers(tx), makers_of(summariser)
    stale = {node for node, by in made.items() if by.maker not in makers}
    nodes = [one for one in tree_rows.nodes_with_ids(tx, made.keys() - stale).values() if not one.dirty]
    for _, level in groupby(sorted(nodes, key=lambda one: (one.level, one.id)), key=lambda one: one.level):
        group = list(level)
        children = tree_rows.nodes_with_ids(tx, [child for node in group for child in node.children])
        for work in describe(tx, group, inputs_of(tx, group, children)):
            by, maker = made[work.node], maker_of(summariser, work.request)
            now = fingerprint(work.request, maker, kept=work.kept)
            if by.maker != maker or by.inputs not in (None, now):
                stale.add(work.node)
    return sorted(stale)
