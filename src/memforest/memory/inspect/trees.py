"""Trees as nested views: scope, interval, counts, summary, and at the leaves what was said.

All trees are unfolded together, level by level: a level is a handful of statements, however many nodes it
has, and a limit cuts all trees at about the same depth instead of showing one whole and the next not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, zip_longest

from memforest.errors import InputError, NotFoundError
from memforest.interval import from_ms
from memforest.limits import MAX_TREE_DEPTH
from memforest.memory.inspect.stored import Source, TreeView, turn_sources
from memforest.memory.inspect.views import ViewContext
from memforest.memory.quoting import Quotes
from memforest.store import derived
from memforest.store import evidence as texts
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.text import cut, entity_key
from memforest.tree import Node, TreeHead


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which trees are shown, and how much of them."""

    scope: str | None
    """Only the trees of the session or entity with this name; a number needs its kind before it ("scene 7")."""
    index: str | None
    """Only the trees of this index."""
    depth: int
    """Levels below the root to unfold, 0 for the roots alone; at most `MAX_TREE_DEPTH` are."""
    limit: int | None
    """Most nodes; None for all. Where roots alone are more than half of it, only the largest trees of each kind are shown."""
    node: int | None = None
    """Instead of trees, this node and what is below it."""


def tree_views(context: ViewContext, wanted: Wanted) -> list[TreeView]:
    """Return the forest as nested views, roots first.

    Raises:
        InputError: if the depth is below 0 or the limit below 1.
        NotFoundError: if no tree has that scope, or the memory has no such index.
        ConfigError: if there is no such index at all.
    """
    shown, nodes, titles, owners = _shown(context, wanted)
    written = _Texts.read(context, nodes, owners)
    views = [
        replace(_view(nodes, written, nodes[head.root or 0], titles[head.tree]), index=owners[head.tree])
        for head in shown
    ]
    return sorted(views, key=lambda view: (view.title.split(" ")[0], view.start, view.title, view.index))


def shown_nodes(context: ViewContext, wanted: Wanted) -> list[int]:
    """Return the nodes of which `tree_views` shows the summaries.

    Raises:
        InputError, NotFoundError, ConfigError: as there.
    """
    return [node.id for node in _shown(context, wanted)[1].values() if node.level or node.dirty]


def _shown(
    context: ViewContext, wanted: Wanted
) -> tuple[list[TreeHead], dict[int, Node], dict[int, str], dict[int, str]]:
    """Return the trees that are shown, their unfolded nodes, and the titles and indexes of trees."""
    scope, name, depth, limit = wanted.scope, wanted.index, wanted.depth, wanted.limit
    if depth < 0 or (limit is not None and limit < 1):
        raise InputError(f"depth={depth}, limit={limit}: give a depth of 0 or more and a limit of 1 or more")
    if wanted.node is not None:
        if scope is not None or name is not None:
            raise InputError("tree(node=...) is of one node; leave out scope and index")
        return _branch(context, wanted.node, depth, limit)
    heads: dict[int, tuple[str, TreeHead]] = {}
    owners: dict[int, str] = {}
    titles: dict[int, str] = {}
    called: set[int] = set()
    attached = context.attached
    used = attached.of(context.tx) if name is None else [attached.get(context.tx, name)]
    for index in used:
        found = [
            (kind, head) for kind, _, head in tree_rows.heads(context.tx, index.name) if head.root is not None
        ]
        own = {head.tree: (kind, head) for kind, head in found}
        heads |= own
        owners |= dict.fromkeys(own, index.name)
        if scope is not None:
            labels = index.labels(context.tx, own)
            called |= {
                tree
                for tree, (kind, _) in own.items()
                if _is_called(scope, kind, labels[tree], numbered=kind in index.numbered)
            }
    if scope is not None:
        heads = {tree: one for tree, one in heads.items() if tree in called}
        if not heads:
            of = "" if name is None else f" of the index {name!r}"
            raise NotFoundError(
                f"there is no tree{of} for {cut(repr(scope), 60)}; list the trees without a scope"
            )
    shown = _largest(heads.values(), limit)
    for index in used:
        own_shown = [head.tree for head in shown if owners[head.tree] == index.name]
        titles |= index.titles(context.tx, own_shown) if own_shown else {}
    several = len({owners[head.tree] for head in shown}) > 1
    titles = {tree: f"{title} ({owners[tree]})" if several else title for tree, title in titles.items()}
    return shown, _unfold(context.tx, [head.root or 0 for head in shown], depth, limit), titles, owners


def _branch(
    context: ViewContext, node: int, depth: int, limit: int | None
) -> tuple[list[TreeHead], dict[int, Node], dict[int, str], dict[int, str]]:
    """Return what `_shown` does of one node, as if it were the root of its tree.

    Raises:
        NotFoundError: if there is no such node.
    """
    tx = context.tx
    nodes = _unfold(tx, [node], depth, limit)
    if node not in nodes:
        raise NotFoundError(f"there is no node {node}; nodes of trees that were made anew have other numbers")
    tree = nodes[node].tree
    kind, _, head = tree_rows.head_of(tx, tree)
    [owner] = tree_rows.owners(tx, [tree]).values()
    index = context.attached.get(tx, owner)
    titles = index.titles(tx, {tree: (kind, head)}) if head.root == node else {tree: ""}
    return [replace(head, root=node)], nodes, titles, {tree: owner}


def _is_called(scope: str, kind: str, label: str, *, numbered: bool) -> bool:
    """Return whether a name given by the caller names this tree's scope; a numbered scope is named with its kind."""
    if numbered:
        return scope.casefold() == f"{kind} {label}"
    key = entity_key(scope)
    return label == scope or (key is not None and key == entity_key(label))


def _largest(found: Collection[tuple[str, TreeHead]], limit: int | None) -> list[TreeHead]:
    """Keep all trees, or when their roots would take more than half of the limit, the largest of each kind."""
    if limit is None or 2 * len(found) <= limit:
        return [head for _, head in found]
    kinds: dict[str, list[TreeHead]] = {}
    for kind, head in sorted(found, key=lambda pair: -pair[1].count):
        kinds.setdefault(kind, []).append(head)
    in_turn = chain.from_iterable(zip_longest(*kinds.values()))
    return [head for head in in_turn if head is not None][: max(1, limit // 2)]


def _unfold(tx: Tx, roots: Sequence[int], depth: int, limit: int | None) -> dict[int, Node]:
    """Return the roots and what is below them; a node's children are all there, or none of them is."""
    frontier = tree_rows.nodes_with_ids(tx, roots)
    nodes = dict(frontier)
    for _ in range(min(depth, MAX_TREE_DEPTH)):
        opened: list[int] = []
        for node in frontier.values():
            if limit is None or len(nodes) + len(opened) + len(node.children) <= limit:
                opened += node.children
        if not opened:
            break
        frontier = tree_rows.nodes_with_ids(tx, opened)
        nodes.update(frontier)
    return nodes


def _names(context: ViewContext, nodes: Mapping[int, Node], owners: Mapping[int, str]) -> dict[int, str]:
    """Return the names of nodes that have one, as their indexes call them."""
    found: dict[int, str] = {}
    for name in sorted(set(owners.values())):
        own = [node.id for node in nodes.values() if owners.get(node.tree) == name]
        found |= context.attached.get(context.tx, name).node_names(context.tx, own)
    return found


@dataclass(frozen=True, slots=True)
class _Texts:
    """The texts of shown nodes: summaries and leaf texts by node, quotes by fact, sources by leaf, and the nodes' names."""

    of: Mapping[int, str]
    quotes: Mapping[int, tuple[str, ...]]
    sources: Mapping[int, tuple[Source, ...]]
    names: Mapping[int, str]
    makers: Mapping[int, derived.MadeBy]
    unwritten: frozenset[int]
    """Nodes of paced indexes that have no text yet, or never have one: nothing of them is out of date."""

    @classmethod
    def read(cls, context: ViewContext, nodes: Mapping[int, Node], owners: Mapping[int, str]) -> _Texts:
        """Read the texts of all nodes, one statement for each kind of text."""
        tx, shown = context.tx, nodes.values()
        leaves = {node.id: node.item or 0 for node in shown if node.item_kind == "fact"}
        facts, of = list(leaves.values()), tree_rows.node_texts(tx, shown)
        quotes, said = Quotes.read(tx, facts), texts.fact_sources(tx, facts)
        runs = texts.leaf_sources(tx, [node.id for node in shown if node.item_kind == "turn"])
        paced = context.attached.paced(tx)
        told = derived.summary_makers(tx, list(nodes))
        pairs = {leaf: said.get(fact, []) for leaf, fact in leaves.items()} | runs
        return cls(
            of,
            {fact: quotes.all(fact) for fact in facts},
            {leaf: turn_sources(found) for leaf, found in pairs.items()},
            _names(context, nodes, owners),
            told,
            frozenset(node.id for node in shown if owners.get(node.tree) in paced and node.id not in told),
        )


def _view(
    nodes: Mapping[int, Node], written: _Texts, node: Node, title: str, first: int | None = None
) -> TreeView:
    """Return the view of a node; in a tree whose nodes have spans, `first` is the ordinal at which it begins."""
    fact = node.item if node.item_kind == "fact" and node.item is not None else -1
    span = node.span or (None if first is None else (first, first + node.count))
    below = [nodes[child] for child in node.children if child in nodes]
    if len(below) < len(node.children):
        below = []
    places = accumulate((one.count for one in below), initial=0)
    begins = [None if span is None else span[0] + place for place in places]
    return TreeView(
        title=title or written.names.get(node.id, ""),
        start=from_ms(node.start_ms),
        end=from_ms(node.end_ms),
        level=node.level,
        leaves=node.count,
        summary=written.of.get(node.id, ""),
        dirty=node.dirty and node.id not in written.unwritten,
        children=tuple(_view(nodes, written, one, "", at) for one, at in zip(below, begins, strict=False)),
        quotes=written.quotes.get(fact, ()),
        sources=written.sources.get(node.id, ()),
        span=span,
        window=node.window,
        node_id=node.id,
        maker=written.makers[node.id].maker if node.id in written.makers else "",
    )
