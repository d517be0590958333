"""What may be wrong between turns, the nodes of the tree, their windows, and the jobs that write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import tzinfo

from memforest.calendar import window_of
from memforest.interval import from_ms, to_ms
from memforest.store import feed, indexes
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.base import IndexProblem
from memforest.systems.timem import check_rows
from memforest.systems.timem.grow import KIND, OWNER
from memforest.systems.timem.levels import LEVELS, ROOT, SEGMENT, SESSION, UNITS, windowed
from memforest.systems.timem.schedule import key_of
from memforest.systems.timem.settings import TiMemSettings
from memforest.systems.zone import memory_zone
from memforest.tree import Node


def problems(tx: Tx, settings: TiMemSettings) -> list[IndexProblem]:
    """Return what is wrong with the segments and the windows; nothing of what has not been placed yet."""
    row = indexes.find(tx, OWNER)
    if row is None or row.cursor < feed.position(tx):
        return []
    found = [IndexProblem("placement", message) for message in _segments(tx, settings)]
    return found + [IndexProblem("tree", message) for message in _nodes(tx, settings)]


def _segments(tx: Tx, settings: TiMemSettings) -> Iterator[str]:
    size = 2 * settings.segment
    wrong = check_rows.wrong_segments(tx, size)
    if wrong:
        yield f"{len(wrong)} segment(s) are of other turns than are stored; the first of them is node {wrong[0]}"
    left = check_rows.uncovered(tx, size)
    if left:
        yield f"{len(left)} turn(s) are in no segment; the first of them is row {left[0]}"


def _nodes(tx: Tx, settings: TiMemSettings) -> Iterator[str]:
    stored = check_rows.all_rows(tx)
    head = tree_rows.find_head(tx, OWNER, KIND, 0)
    nodes = tree_rows.nodes_with_ids(tx, [one.node for one in stored])
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
    opened = check_rows.open_jobs(tx, OWNER)
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


def _window(one: check_rows.Stored, node: Node, zone: tzinfo) -> Iterator[str]:
    """Yield what is wrong between a node and the window that it stands for."""
    window = window_of(from_ms(one.begin_ms), UNITS[one.level], zone)
    if (window.key, to_ms(window.start)) != (one.window, one.begin_ms):
        yield f"node {one.node} stands for {one.window}, which does not begin where it says"
    elif not one.begin_ms <= node.start_ms < to_ms(window.end):
        yield f"node {one.node} begins outside of its window {one.window}"


def _family(
    one: check_rows.Stored,
    node: Node,
    at: Mapping[int, check_rows.Stored],
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
