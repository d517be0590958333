"""Views of a memory: its sessions, turns, trees, indexes, jobs and counts, and what would be made otherwise now.

Views take a `ViewContext`, an open read transaction with the snapshot that belongs to it.

Trees are nested views. All are unfolded together, level by level: a level is a handful of statements, however many nodes
it has, and a limit cuts all trees at about the same depth instead of showing one whole and the next not at all.

`known_shares` says how much of a text an embedder has words for. An English model knows few words of other scripts: of a
Chinese chat the shipped ones know 28 % of the characters. Vectors then tell little, and the ranking goes by words as far
as they do not (`memforest.search.filters.known_words`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from itertools import accumulate, chain, islice, zip_longest

from memforest.config import Config
from memforest.errors import InputError, ModelError, NotFoundError
from memforest.nodes import Node, TreeHead
from memforest.plain import Listing
from memforest.ports import Embedder, Summariser
from memforest.read.quoting import Quotes
from memforest.read.stored import (
    FailedJobView,
    IndexView,
    JobsView,
    SessionPage,
    SessionView,
    Stale,
    Stats,
    TreeView,
    TurnPage,
    TurnView,
    turn_sources,
)
from memforest.reading.timestamps import stored_zone, zone_note
from memforest.search.as_of import Moment
from memforest.search.cache import Snapshots
from memforest.search.snapshot import Known, Snapshot, all_known
from memforest.settings import MAX_TREE_DEPTH
from memforest.store import database, derived, evidence, jobs, meta, sessions, snapshot, trees
from memforest.store import indexes as indexes_rows
from memforest.store.connections import Tx
from memforest.store.corrections import HIDDEN
from memforest.store.facts import FactRow
from memforest.store.sessions import MOST, damaged_turns, session_origins
from memforest.text import cut, entity_key
from memforest.times import from_ms, to_ms
from memforest.trees.attached import Attached, outdated
from memforest.trees.refresh import Describe, makers_of, stale_nodes


def index_views(tx: Tx, attached: Attached) -> list[IndexView]:
    """Return the indexes of a memory, by name."""
    lag, sizes = attached.lagging(tx), attached.sizes(tx)
    views = []
    for row in indexes_rows.rows(tx):
        index, reason = attached.open(row), attached.lost(tx, row) or row.reason
        own, counts = sizes.get(row.name, (0, 0, 0)), attached.counts(tx, row, index)
        views.append(IndexView(row.name, asdict(index.settings), lag.get(row.name, 0), reason, *own, counts))
    return views


VERBATIM = "verbatim"
"""Maker of what a session with ``infer=False`` has."""


@dataclass(frozen=True, slots=True)
class Makers:
    """What makes a memory's parts now: the extractor's name with its version, who summarises, and turns per chunk."""

    extractor: str
    summariser: Summariser
    chunk_turns: int
    embedder: str | None


def what_is_stale(tx: Tx, config: Config, attached: Attached, present: Makers, describe: Describe) -> Stale:
    """Return what `rebuild(stale=True)` would make anew; it reads every summary's inputs."""
    return Stale(
        chunks=_chunks(tx, present),
        sessions=len(indexes_rows.stale_sessions(tx, present.extractor, present.chunk_turns)),
        summaries=len(stale_nodes(tx, describe, present.summariser)),
        indexes=outdated(tx, config, attached),
        texts=indexes_rows.lacking_count(tx)
        if present.embedder not in (None, meta.get(tx, "embedder"))
        else 0,
        next_embedder=indexes_rows.next_embedder(tx),
    )


def _chunks(tx: Tx, present: Makers) -> dict[str, int]:
    """Return reason -> number of chunks."""
    found = {
        f"extracted by {maker}, now it is {present.extractor}": count
        for infer, maker, count in indexes_rows.chunks_by_maker(tx)
        if infer and maker != present.extractor
    }
    if cut := indexes_rows.chunks_cut_otherwise(tx, present.chunk_turns):
        found[f"not of {present.chunk_turns} turns, as chunk_turns says"] = cut
    return found


def stale_notes(tx: Tx, config: Config, attached: Attached, present: Makers) -> list[str]:
    """Return what is stale in words, as far as counting finds it: of summaries only those of another maker."""
    found = [
        f"{count} chunks were {why}; rebuild(stale=True) reads them again"
        for why, count in _chunks(tx, present).items()
    ]
    found += [
        f"{count} summaries were made by {maker}, now it is {present.summariser.name}; rebuild(stale=True) makes them anew"
        for maker, count in derived.summaries_of_others(tx, makers_of(present.summariser)).items()
    ]
    found += [
        f"the index {name!r} would be made otherwise now: {why}; rebuild(index={name!r}) does"
        for name, why in outdated(tx, config, attached).items()
    ]
    if (model := indexes_rows.next_embedder(tx)) is not None:
        left = indexes_rows.lacking_count(tx)
        found.append(
            f"the embedder {model!r} has been begun with, and {left} texts lack its vectors; rebuild(embedder=True) goes on"
        )
    return found


LITTLE = 0.5
"""Share of known words below which it is said that there are few."""
SAMPLE = 500
"""Turns of a memory that are looked at where all of them are not at hand."""
_FIX = "give Config(embedder=...) a multilingual model, and the memory that one: rebuild(embedder=True)"


def known_of(embedder: Embedder | None) -> Known:
    """Return what says which share of texts a memory's embedder has words for."""
    return all_known if embedder is None else partial(known_shares, embedder)


def known_shares(embedder: Embedder, texts: Sequence[str]) -> list[float]:
    """Return which share of each text an embedder has words for; 1 where it cannot say.

    Raises:
        ModelError: if what it says is not one number from 0 to 1 per text.
    """
    if not hasattr(embedder, "known_shares"):
        return [1.0] * len(texts)
    shares = [float(share) for share in embedder.known_shares(texts)]
    if len(shares) != len(texts) or not all(0.0 <= share <= 1.0 for share in shares):
        raise ModelError(
            f"embedder {embedder.model_id!r}: known_shares() of {len(texts)} texts must return as many numbers from 0 to 1"
        )
    return shares


def sampled_share(tx: Tx, known: Known) -> float:
    """Return the mean share of known words of a memory's first turns, `SAMPLE` at most; 1 if it has none."""
    shares = known([text for *_, text, _ in islice(snapshot.turn_rows(tx, None), SAMPLE)])
    return sum(shares) / len(shares) if len(shares) else 1.0


def unknown_note(share: float, embedder: str, what: str = "this memory") -> str | None:
    """Say that an embedder knows few words of something; None when it knows enough."""
    if share >= LITTLE:
        return None
    return (
        f"the embedder {embedder!r} has words for {share:.0%} of {what}: its vectors tell little there, "
        f"and words decide; {_FIX}"
    )


def jobs_view(tx: Tx, now: datetime) -> JobsView:
    """Return the counts of jobs as of a time, and the first that were given up."""
    states, oldest_ms, expired, failed, due = jobs.count(tx, now_ms=to_ms(now))
    return JobsView(
        states=states,
        oldest_due=None if oldest_ms is None else from_ms(oldest_ms),
        expired=expired,
        due=due,
        failed=tuple(FailedJobView(*one) for one in failed),
    )


def given_up(tx: Tx) -> list[str]:
    """Return the first jobs that were given up, in words, each with its reason."""
    return [
        f"job {cut(repr(key), 60)} of {cut(repr(owner), 60)} was given up after {tries} tries: "
        f"{reason}; resume() tries once more"
        for owner, _, key, tries, reason in jobs.given_up(tx)
    ]


@dataclass(frozen=True, slots=True)
class ViewContext:
    """A read transaction with its snapshot, which is read when a view asks for it: counting needs none."""

    tx: Tx
    cache: Snapshots
    config: Config
    attached: Attached
    present: Makers | None = None
    """What makes the memory's parts now."""
    moment: Moment | None = None
    """The moment that `cache` has snapshots of; None for the memory as it is."""

    @property
    def snapshot(self) -> Snapshot:
        """The memory's searchable state as the transaction sees it, or as it was at the moment."""
        return self.cache.get(self.tx)

    def told(self, facts: Iterable[FactRow]) -> list[FactRow]:
        """Return those facts that there were at the moment, hidden ones too, as they were told then."""
        if self.moment is None:
            return list(facts)
        snapshot = self.snapshot
        return [
            snapshot.restated.get(fact.row, fact)
            for fact in facts
            if fact.row in snapshot.fact_row
            or (self.verdict(fact) >= HIDDEN and fact.row not in snapshot.later)
        ]

    def verdict(self, fact: FactRow) -> int:
        """Return what was decided of a fact at the moment; see `memforest.store.corrections.VERDICTS`."""
        decided = None if self.moment is None else self.snapshot.verdicts
        return fact.verdict if decided is None else decided.get(fact.row, 0)


def indexes(context: ViewContext) -> list[IndexView]:
    """Return the memory's indexes, by name."""
    return index_views(context.tx, context.attached)


def stats(context: ViewContext, user_id: str) -> Stats:
    """Return counts of everything, the embedder, the schema and the size on disk."""
    tx = context.tx
    nodes, dirty = trees.node_count(tx, without=context.attached.paced(tx))
    found = meta.count_rows(tx)
    embedder, known = meta.get(tx, "embedder"), sampled_share(tx, context.cache.known)
    present = context.present
    stale = () if present is None else stale_notes(tx, context.config, context.attached, present)
    return Stats(
        user_id=user_id,
        sessions=found["session"],
        turns=found["turn"],
        facts=found["fact"],
        occurrences=found["occurrence"],
        entities=meta.entities_by_kind(tx),
        trees=meta.trees_by_index(tx),
        nodes=nodes,
        dirty_nodes=dirty,
        failed_chunks=meta.count_failed_chunks(tx),
        vectors=meta.vectors_by_kind(tx),
        embedder=embedder,
        known=known,
        schema=database.version(tx),
        generation=meta.generation(tx),
        # Of a user without a memory it is another one's file that is read.
        bytes=meta.size_bytes(tx) if meta.get(tx, "user_id") == user_id else 0,
        unfinished=sessions.waiting(tx),
        makers=meta.makers(tx),
        spent=meta.total(tx),
        indexes={
            view.name: {
                "lag": view.lag,
                "reason": view.reason,
                "trees": view.trees,
                **view.counts,
            }
            for view in index_views(tx, context.attached)
        },
        notes=(
            *context.attached.notes(tx),
            *stale,
            *([note] if (note := zone_note(stored_zone(tx), context.config.timezone)) else []),
            *([note] if (note := unknown_note(known, embedder or "")) else []),
        ),
        timezone=stored_zone(tx),
        jobs=jobs_view(tx, context.config.clock()),
        stale=tuple(stale),
    )


@dataclass(frozen=True, slots=True)
class TreeQuery:
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


def tree_views(context: ViewContext, wanted: TreeQuery) -> list[TreeView]:
    """Return the forest as nested views, roots first.

    Raises:
        InputError: if the depth is below 0 or the limit below 1.
        NotFoundError: if no tree has that scope, or the memory has no such index.
        ConfigError: if there is no such index at all.
    """
    shown, nodes, titles, owners = _shown(context, wanted)
    tx, every = context.tx, nodes.values()
    leaves = {node.id: node.item or 0 for node in every if node.item_kind == "fact"}
    facts, texts = list(leaves.values()), trees.node_texts(tx, every)
    quotes, said = Quotes.read(tx, facts), evidence.fact_sources(tx, facts)
    pairs = {leaf: said.get(fact, []) for leaf, fact in leaves.items()}
    pairs |= evidence.leaf_sources(tx, [node.id for node in every if node.item_kind == "turn"])
    makers, paced = derived.summary_makers(tx, list(nodes)), context.attached.paced(tx)
    names: dict[int, str] = {}
    for name in sorted(set(owners.values())):
        own = [node.id for node in every if owners.get(node.tree) == name]
        names |= context.attached.get(tx, name).node_names(tx, own)

    def view(node: Node, title: str, first: int | None = None) -> TreeView:
        """Return the view of a node; in a tree whose nodes have spans, `first` is the ordinal at which it begins."""
        span = node.span or (None if first is None else (first, first + node.count))
        below = [nodes[child] for child in node.children if child in nodes]
        if len(below) < len(node.children):
            below = []
        places = accumulate((one.count for one in below), initial=0)
        begins = [None if span is None else span[0] + place for place in places]
        maker = makers.get(node.id)
        return TreeView(
            title=title or names.get(node.id, ""),
            start=from_ms(node.start_ms),
            end=from_ms(node.end_ms),
            level=node.level,
            leaves=node.count,
            summary=texts.get(node.id, ""),
            # A node of a paced index that has no text yet, or never has one, is not out of date.
            dirty=node.dirty and not (owners.get(node.tree) in paced and maker is None),
            children=tuple(view(one, "", at) for one, at in zip(below, begins, strict=False)),
            quotes=quotes.all(node.item) if node.item_kind == "fact" and node.item is not None else (),
            sources=turn_sources(pairs.get(node.id, [])),
            span=span,
            window=node.window,
            node_id=node.id,
            maker="" if maker is None else maker.maker,
        )

    views = [
        replace(view(nodes[head.root or 0], titles[head.tree]), index=owners[head.tree]) for head in shown
    ]
    return sorted(views, key=lambda view: (view.title.split(" ")[0], view.start, view.title, view.index))


def shown_nodes(context: ViewContext, wanted: TreeQuery) -> list[int]:
    """Return the nodes of which `tree_views` shows the summaries.

    Raises:
        InputError, NotFoundError, ConfigError: as there.
    """
    return [node.id for node in _shown(context, wanted)[1].values() if node.level or node.dirty]


def _shown(
    context: ViewContext, wanted: TreeQuery
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
            (kind, head) for kind, _, head in trees.heads(context.tx, index.name) if head.root is not None
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
    kind, _, head = trees.head_of(tx, tree)
    [owner] = trees.owners(tx, [tree]).values()
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
    frontier = trees.nodes_with_ids(tx, roots)
    nodes = dict(frontier)
    for _ in range(min(depth, MAX_TREE_DEPTH)):
        opened: list[int] = []
        for node in frontier.values():
            if limit is None or len(nodes) + len(opened) + len(node.children) <= limit:
                opened += node.children
        if not opened:
            break
        frontier = trees.nodes_with_ids(tx, opened)
        nodes.update(frontier)
    return nodes


def session_page(
    context: ViewContext, listing: Listing, *, limit: int | None = None, cursor: str | None = None
) -> SessionPage:
    """Return sessions in time order, ties by id, found by index.

    Args:
        context: the transaction.
        listing: what the cursor has to be of.
        limit: most sessions; None for all.
        cursor: of the page before; None for the first.

    Raises:
        InputError: if the cursor is none of this listing.
    """
    tx, key = context.tx, listing.key(cursor, int, str)
    after = None if key is None else (int(key[0]), str(key[1]))
    found = sessions.sessions_after(tx, after, MOST if limit is None else limit + 1)
    page = found[:limit]
    rows = [row.row for row in page]
    speakers, failed = sessions.participants(tx, rows), sessions.failed_chunks_of(tx, rows)
    origins = session_origins(tx, rows)
    views = [
        SessionView(
            session_id=row.session_id,
            status=row.status,
            turns=row.turns,
            start=from_ms(row.start_ms),
            end=from_ms(row.end_ms),
            participants=speakers.get(row.row, ()),
            failed_chunks=failed.get(row.row, 0),
            metadata=row.metadata,
            origin=origins.get(row.row),
        )
        for row in page
    ]
    more = len(page) < len(found)
    following = listing.cursor((page[-1].start_ms, page[-1].session_id)) if more else None
    return SessionPage(tuple(views), sessions.count_sessions(tx), following)


def turn_page(
    context: ViewContext,
    session_id: str,
    listing: Listing,
    *,
    limit: int | None = None,
    cursor: str | None = None,
) -> TurnPage:
    """Return turns of a session, in order.

    Args:
        context: the transaction.
        session_id: which session.
        listing: what the cursor has to be of.
        limit: most turns; None for all.
        cursor: of the page before; None for the first.

    Raises:
        InputError: if the cursor is none of this listing.
        NotFoundError: if there is no such session.
    """
    tx, key = context.tx, listing.key(cursor, int)
    session = sessions.find_session(tx, session_id)
    if session is None:
        raise NotFoundError(
            f"there is no session {cut(repr(session_id), 60)}; list the sessions for their ids"
        )
    after = -1 if key is None else int(key[0])
    found = sessions.turns_after(tx, session.row, after, MOST if limit is None else limit + 1)
    page = found[:limit]
    damaged = damaged_turns(tx, [row for row, _, _ in page])
    views = [
        TurnView(
            turn.id,
            turn.speaker,
            turn.role,
            turn.text,
            turn.said,
            turn.time_source,
            from_ms(stored_ms),
            turn.metadata,
            row in damaged,
        )
        for row, turn, stored_ms in page
    ]
    following = listing.cursor((page[-1][1].ordinal,)) if len(page) < len(found) else None
    return TurnPage(tuple(views), session.turns, following)
