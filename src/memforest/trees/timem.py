"""The timem index: memories by the calendar, each written from the ones below it when its time has ended (TiMem)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from types import MappingProxyType
from typing import Any

from memforest.nodes import Node
from memforest.ports import is_remote
from memforest.reading.periods import window_of
from memforest.search.filters import IndexResult, Prepared, RefineCandidate, Refinement, Search, memory_zone
from memforest.search.snapshot import Snapshot
from memforest.store import indexes, jobs, trees
from memforest.store.connections import Tx
from memforest.store.indexes import Kind
from memforest.text import cut
from memforest.times import from_ms, to_ms
from memforest.trees import timem_rows
from memforest.trees.index import FoundProfile, Host, Index, IndexProblem, ProfileRequest
from memforest.trees.node import Contract
from memforest.trees.refresh import NodeWork
from memforest.trees.timem_consolidate import TiMemPlacing, advance, requests_of, write_ended
from memforest.trees.timem_grow import KIND, OWNER, counts, forget_place, reopened
from memforest.trees.timem_leaves import refine
from memforest.trees.timem_profiles import found_profile
from memforest.trees.timem_recall import find, prepare
from memforest.trees.timem_rows import (
    LEVELS,
    ROOT,
    SEGMENT,
    SESSION,
    UNITS,
    TiMemNode,
    TiMemSettings,
    key_of,
    schedule,
    windowed,
)


def problems(tx: Tx, settings: TiMemSettings) -> list[IndexProblem]:
    """Check segments and windows against the turns; nothing while notes of the feed wait."""
    row = indexes.find(tx, OWNER)
    if row is None or row.cursor < indexes.feed_position(tx):
        return []
    found = [IndexProblem("placement", message) for message in _segments(tx, settings)]
    return found + [IndexProblem("tree", message) for message in _nodes(tx, settings)]


def _segments(tx: Tx, settings: TiMemSettings) -> Iterator[str]:
    size = 2 * settings.segment
    wrong = timem_rows.wrong_segments(tx, size)
    if wrong:
        yield f"{len(wrong)} segment(s) are of other turns than are stored; the first of them is node {wrong[0]}"
    left = timem_rows.uncovered(tx, size)
    if left:
        yield f"{len(left)} turn(s) are in no segment; the first of them is row {left[0]}"


def _nodes(tx: Tx, settings: TiMemSettings) -> Iterator[str]:
    stored = timem_rows.all_rows(tx)
    head = trees.find_head(tx, OWNER, KIND, 0)
    nodes = trees.nodes_with_ids(tx, [one.node for one in stored])
    if head is None:
        if stored:
            yield f"{len(stored)} node(s) are in no tree"
        return
    below: dict[int, list[int]] = {}
    for one in stored:
        if one.parent is not None:
            below.setdefault(one.parent, []).append(one.node)
    at = {one.node: one for one in stored}
    levels = [SEGMENT, SESSION, *windowed(settings.levels), ROOT]
    zone = memory_zone(tx)
    opened = timem_rows.open_jobs(tx, OWNER)
    for one in stored:
        node = nodes.get(one.node)
        if node is None:
            yield f"node {one.node} is not in the tree"
            continue
        yield from _family(one, node, at, below.get(one.node, []), levels)
        if one.window is not None:
            yield from _window(one, node, zone)
        if (
            node.dirty
            and LEVELS[one.level] in settings.levels
            and key_of(one.level, one.session, one.window) not in opened
        ):
            yield f"node {one.node} is out of date, and no job writes it"


def _window(one: TiMemNode, node: Node, zone: tzinfo) -> Iterator[str]:
    """Yield what is wrong between a node and the window that it stands for."""
    window = window_of(from_ms(one.begin_ms), UNITS[one.level], zone)
    if (window.key, to_ms(window.start)) != (one.window, one.begin_ms):
        yield f"node {one.node} stands for {one.window}, which does not begin where it says"
    elif not one.begin_ms <= node.start_ms < to_ms(window.end):
        yield f"node {one.node} begins outside of its window {one.window}"


def _family(
    one: TiMemNode,
    node: Node,
    at: Mapping[int, TiMemNode],
    children: list[int],
    levels: list[int],
) -> Iterator[str]:
    """Yield what is wrong between a node, the one above it and those below it."""
    wanted = levels[levels.index(one.level) + 1] if one.level != ROOT else None
    parent = None if one.parent is None else at.get(one.parent)
    if (None if parent is None else parent.level) != wanted:
        yield f"node {one.node} of level {LEVELS[one.level]} is not below one of level {LEVELS[wanted or ROOT]}"
    if list(node.children) != children or (node.level, node.window) != (one.level, one.window):
        yield f"node {one.node} has other children, another level or window in the tree than in the index's table"
    if (node.start_ms, node.end_ms, node.count) != (one.start_ms, one.end_ms, one.leaves):
        yield f"node {one.node} has another interval or count in the tree than in the index's table"
    kids = [at[child] for child in children if child in at]
    if kids and (min(kid.start_ms for kid in kids), max(kid.end_ms for kid in kids)) != (
        one.start_ms,
        one.end_ms,
    ):
        yield f"node {one.node} has another interval than its children together"


class TiMemIndex(Index):
    """One tree of everything that was said: year, month, week, day, session, segment."""

    name = OWNER
    follows = frozenset[Kind]({"turn", "fact"})
    deferred = True
    paced = True
    profiles = True
    make_tables = staticmethod(timem_rows.make_tables)
    Settings = TiMemSettings
    contracts = MappingProxyType({KIND: Contract("contained")})
    carried: Mapping[str, str] | None = MappingProxyType(
        {
            "ix_timem_node.session": "session",
            "ix_timem_node.turn": "turn",
            "ix_timem_node.turn_last": "turn",
        }
    )

    def placing(self, tx: Tx) -> TiMemPlacing:
        """Begin to take segments out inside a write transaction."""
        return TiMemPlacing(tx, self.settings)

    async def advance(self, host: Host, until: int) -> None:
        """Place what the feed has noted, and write what is due; see `memforest.trees.timem_consolidate`."""
        await advance(host, self.settings, until)

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Return how the memories of nodes are written now."""
        return requests_of(tx, self.settings, [node.id for node in nodes])

    def reopen(self, tx: Tx, nodes: Collection[int]) -> None:
        """Schedule dirty nodes to be written again, with those that have one of their texts as history."""
        marked = set(nodes)
        clean = "SELECT 1 FROM node n JOIN ix_timem_node i ON i.node = n.id WHERE NOT n.dirty LIMIT 1"
        if tx.execute(clean).fetchone() is not None:
            marked |= reopened(tx, self.settings, marked)
            trees.mark_out_of_date(tx, marked - timem_rows.dirty_among(tx, marked))
        schedule(tx, self.settings, memory_zone(tx), marked)

    def labels(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return what the tree is of."""
        return dict.fromkeys(trees, "of all sessions")

    def node_names(self, tx: Tx, nodes: Collection[int]) -> Mapping[int, str]:
        """Return the level of each node with its calendar window or the name of its session, such as ``"day 2024-05-04"``."""
        found = timem_rows.names(tx, nodes)
        return {
            node: f"{LEVELS[level]} {window.rpartition('/')[2] if window else session or ''}".rstrip()
            for node, level, window, session in found
        }

    def check(self, tx: Tx) -> list[IndexProblem]:
        """Return what is wrong with the tree, its windows and the jobs."""
        found = super().check(tx)
        return found or problems(tx, self.settings)

    async def ready(self, host: Host) -> Sequence[str]:
        """Write the memories of windows that have ended, if no model is needed; else `advance` does."""
        return () if is_remote(host.steps.summariser) else await write_ended(host, self.settings)

    def profile(self, tx: Tx, request: ProfileRequest) -> FoundProfile:
        """Return the profile of the last month that had ended; see `memforest.trees.timem_profiles`."""
        return found_profile(tx, self.settings, request)

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Plan how much a question needs; without a model, first write the memories of windows that have ended."""
        late = await self.ready(host)
        prepared = await prepare(host, request, self.settings.recall)
        return replace(prepared, warnings=(*late, *prepared.warnings)) if late else prepared

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return the best leaves and the memories above them; see `memforest.trees.timem_recall`."""
        return find(tx, snapshot, request, self.settings.recall)

    async def refine(
        self, host: Host, request: Search, found: Sequence[RefineCandidate]
    ) -> Refinement | None:
        """Drop what a question does not need; see `memforest.trees.timem_leaves`."""
        return await refine(host, request, found, self.settings.recall)

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return how many nodes each level has, and how many memories are written, wait, are out of date and have failed."""
        return counts(tx, self.settings)

    def notes(self, tx: Tx) -> list[str]:
        """Return which memories could not be written, and why."""
        failed = jobs.failures(tx, OWNER)
        if not failed:
            return []
        first = f"{failed[0].key}: {failed[0].payload['reason']}"
        return [
            f"{len(failed)} memories of 'timem' could not be written, and wait for advance(): {cut(first, 300)}"
        ]

    def clear(self, tx: Tx) -> None:
        """Delete the tree, the rows of the table and the jobs."""
        super().clear(tx)
        jobs.drop(tx, OWNER)
        forget_place(tx)
