"""Views of a memory: its sessions, turns, trees, indexes and counts, and what would be made otherwise now.

Views take a `ViewContext`, an open read transaction with the snapshot that belongs to it.

Trees are nested views. Those of an index are unfolded together, level by level: a limit cuts all of them at about the
same depth instead of showing one whole and the next not at all.

`known_shares` says how much of a text an embedder has words for. An English model knows few words of other scripts: of a
Chinese chat the shipped ones know 28 % of the characters. Vectors then tell little, and the ranking goes by words as far
as they do not (`memforest.search.filters.known_words`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice, zip_longest

import numpy as np

from memforest.config import Config
from memforest.errors import IndexStateError, InputError, ModelError, NotFoundError
from memforest.plain import Listing
from memforest.ports import Embedder
from memforest.read.quoting import read_sayings, told_each
from memforest.read.stored import (
    IndexView,
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
from memforest.search.cache import Snapshots, digests_of, forest_of
from memforest.search.forest import FACT, INNER, TURNS, Forest, as_keys
from memforest.search.snapshot import Known, Snapshot, all_known
from memforest.settings import MAX_TREE_DEPTH
from memforest.store import artifacts, database, meta, reads, sessions
from memforest.store.connections import Tx
from memforest.store.corrections import HIDDEN
from memforest.store.facts import FactRow
from memforest.store.sessions import MOST, SessionRow, damaged_turns, session_origins
from memforest.text import cut, entity_key
from memforest.times import from_ms
from memforest.trees.attached import Attached, outdated
from memforest.trees.index import Index
from memforest.trees.refresh import missing_count
from memforest.trees.texts import leaf_texts


def index_views(tx: Tx, snapshot: Snapshot, attached: Attached) -> list[IndexView]:
    """Return the indexes of a memory, by name."""
    views = []
    for row in meta.index_rows(tx):
        counts = attached.counts(tx, snapshot, row)
        sizes = {name: counts.pop(name) for name in ("trees", "nodes", "leaves")}
        del counts["kinds"]
        views.append(IndexView(row.name, asdict(attached.open(row).settings), **sizes, counts=counts))
    return views


VERBATIM = "verbatim"
"""Maker of what a session with ``infer=False`` has."""


@dataclass(frozen=True, slots=True)
class Makers:
    """What makes a memory's parts now: the extractor's name with its version, who summarises, and turns per chunk."""

    extractor: str
    summariser: str
    summaries: frozenset[str]
    """All that is noted as the makers of summaries."""
    chunk_turns: int
    embedder: str | None


def what_is_stale(context: ViewContext) -> Stale:
    """Return what `rebuild(stale=True)` would make anew; that is counted by what has made it."""
    tx, present = context.tx, context.present
    return Stale(
        chunks=_chunks(tx, present),
        sessions=len(meta.stale_sessions(tx, present.extractor, present.chunk_turns)),
        summaries=sum(artifacts.of_others(tx, present.summaries).values()),
        indexes=outdated(tx, context.config, context.attached),
        texts=meta.count_lacking_next(tx) if present.embedder not in (None, meta.get(tx, "embedder")) else 0,
        next_embedder=meta.next_embedder(tx),
    )


def _chunks(tx: Tx, present: Makers) -> dict[str, int]:
    """Return reason -> number of chunks."""
    found = {
        f"extracted by {maker}, now it is {present.extractor}": count
        for infer, maker, count in meta.chunks_by_maker(tx)
        if infer and maker != present.extractor
    }
    if cut := meta.chunks_cut_otherwise(tx, present.chunk_turns):
        found[f"not of {present.chunk_turns} turns, as chunk_turns says"] = cut
    return found


def _stale_notes(context: ViewContext) -> list[str]:
    """Return what is stale in words, as far as counting finds it: of summaries only those of another maker."""
    tx, present = context.tx, context.present
    found = [
        f"{count} chunks were {why}; rebuild(stale=True) reads them again"
        for why, count in _chunks(tx, present).items()
    ]
    found += [
        f"{count} summaries were made by {maker}, now it is {present.summariser}; rebuild(stale=True) makes them anew"
        for maker, count in artifacts.of_others(tx, present.summaries).items()
    ]
    found += [
        f"the index {name!r} would be made otherwise now: {why}; rebuild(index={name!r}) does"
        for name, why in outdated(tx, context.config, context.attached).items()
    ]
    if (model := meta.next_embedder(tx)) is not None:
        left = meta.count_lacking_next(tx)
        found.append(
            f"the embedder {model!r} has been begun with, and {left} texts lack its vectors; rebuild(embedder=True) goes on"
        )
    return found


LITTLE = 0.5
"""Share of known words below which it is said that there are few."""
SAMPLE = 500
"""Turns of a memory that are looked at where all of them are not at hand."""
_FIX = "give Config(embedder=...) a multilingual model, then call rebuild(embedder=True)"


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
    shares = known([text for *_, text, _ in islice(reads.turn_rows(tx, None), SAMPLE)])
    return sum(shares) / len(shares) if len(shares) else 1.0


def unknown_note(share: float, embedder: str, what: str = "this memory") -> str | None:
    """Say that an embedder knows few words of something; None when it knows enough."""
    if share >= LITTLE:
        return None
    return (
        f"the embedder {embedder!r} has words for {share:.0%} of {what}: its vectors tell little there, "
        f"and words decide; {_FIX}"
    )


@dataclass(frozen=True, slots=True)
class ViewContext:
    """A read transaction with its snapshot, which is read when a view asks for it: counting needs none."""

    tx: Tx
    cache: Snapshots
    config: Config
    attached: Attached
    present: Makers
    """What makes the memory's parts now."""
    moment: Moment | None = None
    """The moment that `cache` has snapshots of; None for the memory as it is."""
    failed: Sequence[str] = ()
    """Why summaries could not be made when they were last to be."""

    @property
    def snapshot(self) -> Snapshot:
        """The memory's searchable state as the transaction sees it, or as it was at the moment."""
        return self.cache.get(self.tx)

    @property
    def then(self) -> Snapshot | None:
        """The memory's searchable state at the moment; None for the memory as it is, which is read from its rows."""
        return None if self.moment is None else self.snapshot

    def told(self, facts: Iterable[FactRow]) -> list[FactRow]:
        """Return those facts that there were at the moment, hidden ones too, as they were told then."""
        snapshot = self.then
        if snapshot is None:
            return list(facts)
        return [
            snapshot.restated.get(fact.row, fact)
            for fact in facts
            if fact.row in snapshot.fact_row
            or (self.verdict(fact) >= HIDDEN and fact.row not in snapshot.later)
        ]

    def verdict(self, fact: FactRow) -> int:
        """Return what was decided of a fact at the moment; see `memforest.store.corrections.VERDICTS`."""
        decided = None if self.then is None else self.then.verdicts
        return fact.verdict if decided is None else decided.get(fact.row, 0)


def indexes(context: ViewContext) -> list[IndexView]:
    """Return the memory's indexes, by name."""
    return index_views(context.tx, context.snapshot, context.attached)


def stats(context: ViewContext, user_id: str) -> Stats:
    """Return counts of everything, the embedder, the schema and the size on disk."""
    tx = context.tx
    views = index_views(tx, context.snapshot, context.attached)
    dirty = missing_count(tx, context.snapshot, context.attached.of(tx))
    found = meta.count_rows(tx)
    embedder, known = meta.get(tx, "embedder"), sampled_share(tx, context.cache.known)
    stale = _stale_notes(context)
    return Stats(
        user_id=user_id,
        sessions=found["session"],
        turns=found["turn"],
        facts=found["fact"],
        occurrences=found["occurrence"],
        entities=meta.entities_by_kind(tx),
        trees={
            row.name: kinds
            for row in meta.index_rows(tx)
            if (kinds := context.attached.counts(tx, context.snapshot, row)["kinds"])
        },
        nodes=sum(view.nodes + view.leaves for view in views),
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
        spent=meta.total_spent(tx),
        indexes={
            view.name: {"trees": view.trees, "nodes": view.nodes, "leaves": view.leaves, **view.counts}
            for view in views
        },
        notes=(
            *context.attached.notes(tx),
            *(view.counts["failed"] for view in views if "failed" in view.counts),
            *(f"summaries are left: {why}" for why in context.failed[:3]),
            *stale,
            *([note] if (note := zone_note(stored_zone(tx), context.config.timezone)) else []),
            *([note] if (note := unknown_note(known, embedder or "")) else []),
        ),
        timezone=stored_zone(tx),
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


_NUMBERED = ("scene", "year")
"""Kinds of trees whose names are numbers."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """The trees of one index that are shown: their roots, the nodes that are unfolded, and titles by root."""

    index: Index
    forest: Forest
    roots: Sequence[int]
    rows: frozenset[int]
    titles: Mapping[int, str]


def tree_views(context: ViewContext, wanted: TreeQuery) -> list[TreeView]:
    """Return the forest as nested views, roots first.

    Raises:
        InputError: if the depth is below 0 or the limit below 1.
        NotFoundError: if no tree has that scope, or the memory has no such index.
        ConfigError: if there is no such index at all.
    """
    views = [view for shown in _shown(context, wanted) for view in _views_of(context, shown)]
    return sorted(views, key=lambda view: (view.title.split(" ")[0], view.start, view.title, view.index))


def _views_of(context: ViewContext, shown: _Shown) -> Iterator[TreeView]:
    tx, snapshot, forest, index = context.tx, context.snapshot, shown.forest, shown.index
    rows = sorted(shown.rows)
    facts = {row: int(snapshot.facts.ids[forest.item[row]]) for row in rows if forest.kind[row] == FACT}
    runs = {
        row: snapshot.turns.ids[forest.item[row] : forest.item_end[row]].tolist()
        for row in rows
        if forest.kind[row] == TURNS
    }
    told = {row for row in rows if row in set(forest.told.tolist())}
    keys = dict(zip(rows, as_keys(digests_of(tx, snapshot, index)[rows]), strict=True)) if told else {}
    stored = artifacts.found(tx, {keys[row] for row in told})
    made = {row: stored[keys[row]] for row in told if keys[row] in stored}
    bare = [row for row in rows if row not in made and forest.kind[row] != INNER]
    texts = {row: one.text for row, one in made.items()} | leaf_texts(tx, forest, bare)
    sayings, said = read_sayings(tx, set(facts.values())), reads.fact_sources(tx, set(facts.values()))
    named = reads.turn_names(tx, {turn for turns in runs.values() for turn in turns})
    pairs = {row: said.get(fact, []) for row, fact in facts.items()}
    pairs |= {row: [named[turn] for turn in turns if turn in named] for row, turns in runs.items()}
    names = index.node_names(snapshot, forest, rows)
    spanned = set(forest.tree_kind) == {"conversation"}

    def view(row: int, title: str) -> TreeView:
        below = forest.children[row]
        return TreeView(
            title=title or names.get(row, ""),
            start=from_ms(int(forest.start_ms[row])),
            end=from_ms(int(forest.end_ms[row])),
            level=int(forest.level[row]),
            leaves=int(forest.counts[row]),
            summary=texts.get(row, ""),
            # A node of a paced index that has no text yet is not out of date.
            dirty=row in told and row not in made and not index.paced,
            children=tuple(view(one, "") for one in below) if shown.rows.issuperset(below) else (),
            quotes=told_each(sayings[facts[row]]) if row in facts else (),
            sources=turn_sources(pairs.get(row, [])),
            span=forest.span(row) if spanned else None,
            window=forest.window_of(row),
            node_id=int(forest.ids[row]),
            maker=made[row].maker if row in made else "",
        )

    for root in shown.roots:
        yield replace(view(root, shown.titles[root]), index=index.name)


def indexes_shown(context: ViewContext, wanted: TreeQuery) -> list[Index]:
    """Return the indexes of which `tree_views` shows nodes; errors are those of `tree_views`."""
    return [shown.index for shown in _shown(context, wanted)]


def rows_shown(tx: Tx, snapshot: Snapshot, forest: Forest, *, index: Index, wanted: TreeQuery) -> list[int]:
    """Return the nodes of an index's forest of which `tree_views` shows the summaries."""
    return sorted(_of_index(tx, snapshot, index, forest, wanted, several=False).rows)


def _shown(context: ViewContext, wanted: TreeQuery) -> list[_Shown]:
    """Return the trees that are shown, by index."""
    scope, name, depth, limit = wanted.scope, wanted.index, wanted.depth, wanted.limit
    if depth < 0 or (limit is not None and limit < 1):
        raise InputError(f"depth={depth}, limit={limit}: give a depth of 0 or more and a limit of 1 or more")
    if wanted.node is not None and (scope is not None or name is not None):
        raise InputError("tree(node=...) shows one node; leave out scope and index")
    tx, snapshot, attached = context.tx, context.snapshot, context.attached
    forests = []
    for index in attached.of(tx) if name is None else [attached.get(snapshot.indexes, name)]:
        with suppress(IndexStateError) if name is None else nullcontext():
            forests.append((index, forest_of(tx, snapshot, index)))
    some = [(index, forest) for index, forest in forests if len(forest.tree_kind)]
    found = [_of_index(tx, snapshot, *one, wanted, several=len(some) > 1) for one in some]
    found = [one for one in found if one.roots]
    if not found and wanted.node is not None:
        raise NotFoundError(
            f"there is no node {wanted.node}; when a tree changes, its nodes get other numbers"
        )
    if not found and scope is not None:
        of = "" if name is None else f" of the index {name!r}"
        raise NotFoundError(
            f"there is no tree{of} for {cut(repr(scope), 60)}; list the trees without a scope"
        )
    return found


def _of_index(
    tx: Tx, snapshot: Snapshot, index: Index, forest: Forest, wanted: TreeQuery, *, several: bool
) -> _Shown:
    """Return what is shown of one index's trees; where several have some, titles say which it is."""
    if wanted.node is not None:
        (row,) = forest.rows_with(np.array([wanted.node], dtype=np.int64)).tolist()
        if row < 0:
            return _Shown(index, forest, (), frozenset(), {})
        root = bool(forest.parent[row] < 0)
        title = index.titles(tx, snapshot, forest)[int(forest.tree[row])] if root else ""
        return _Shown(index, forest, [row], _unfolded(forest, [row], wanted), {row: title})
    trees: Sequence[int] = range(len(forest.tree_kind))
    if wanted.scope is not None:
        names = index.names(snapshot, forest)
        trees = [tree for tree in trees if _is_called(wanted.scope, forest.tree_kind[tree], names[tree])]
    trees = _largest(forest, trees, wanted.limit)
    titles = index.titles(tx, snapshot, forest) if trees else []
    mark = f" ({index.name})" if several else ""
    roots = {int(forest.tree_root[tree]): f"{titles[tree]}{mark}" for tree in trees}
    return _Shown(index, forest, list(roots), _unfolded(forest, list(roots), wanted), roots)


def _is_called(scope: str, kind: str, label: str) -> bool:
    """Return whether a name given by the caller names this tree's scope; a numbered scope is named with its kind."""
    if kind in _NUMBERED:
        return scope.casefold() == f"{kind} {label}"
    key = entity_key(scope)
    return label == scope or (key is not None and key == entity_key(label))


def _largest(forest: Forest, trees: Sequence[int], limit: int | None) -> Sequence[int]:
    """Keep all trees, or when their roots would take more than half of the limit, the largest of each kind."""
    if limit is None or 2 * len(trees) <= limit:
        return trees
    kinds: dict[str, list[int]] = {}
    for tree in sorted(trees, key=lambda tree: -int(forest.counts[forest.tree_root[tree]])):
        kinds.setdefault(forest.tree_kind[tree], []).append(tree)
    in_turn = chain.from_iterable(zip_longest(*kinds.values()))
    return [tree for tree in in_turn if tree is not None][: max(1, limit // 2)]


def _unfolded(forest: Forest, roots: Sequence[int], wanted: TreeQuery) -> frozenset[int]:
    """Return the roots and what is below them; a node's children are all there, or none of them is."""
    found, frontier = set(roots), list(roots)
    for _ in range(min(wanted.depth, MAX_TREE_DEPTH)):
        opened: list[int] = []
        for row in frontier:
            below = forest.children[row]
            if wanted.limit is None or len(found) + len(opened) + len(below) <= wanted.limit:
                opened += below
        if not opened:
            break
        found.update(opened)
        frontier = opened
    return frozenset(found)


def stored_session(tx: Tx, session_id: str) -> SessionRow:
    """Return a session.

    Raises:
        NotFoundError: if there is none with that id.
    """
    found = sessions.find_session(tx, session_id)
    if found is None:
        raise NotFoundError(
            f"there is no session {cut(repr(session_id), 60)}; list the sessions for their ids"
        )
    return found


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
    page, following = listing.page(found, limit, lambda row: (row.start_ms, row.session_id))
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
            participants=tuple(speakers.get(row.row, ())),
            failed_chunks=failed.get(row.row, 0),
            metadata=row.metadata,
            origin=origins.get(row.row),
        )
        for row in page
    ]
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
    session = stored_session(tx, session_id)
    after = -1 if key is None else int(key[0])
    found = sessions.turns_of_session(tx, session.row, after + 1, most=MOST if limit is None else limit + 1)
    page, following = listing.page(found, limit, lambda one: (one.ordinal,))
    damaged = damaged_turns(tx, [one.row for one in page])
    views = [
        TurnView(
            turn.id,
            turn.speaker,
            turn.role,
            turn.text,
            turn.said,
            turn.time_source,
            from_ms(one.stored_ms),
            turn.metadata,
            one.row in damaged,
        )
        for one, turn in ((one, one.turn) for one in page)
    ]
    return TurnPage(tuple(views), session.turns, following)
