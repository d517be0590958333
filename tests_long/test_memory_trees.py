"""Trees as they are shown: how nodes add up, how deep and how many, what they are called, and what leaves say."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, fast_folder, make_sessions

from memforest import MemForest
from memforest.errors import InputError, ModelError, NotFoundError, StepError
from memforest.memory.blocking import UserMemory
from memforest.read.stored import TreeView
from memforest.records import SummaryRequest


def turn(speaker: str, text: str, day: int, hour: int = 10) -> dict[str, Any]:
    """Return a turn of May 2023."""
    return {
        "speaker": speaker,
        "content": text,
        "timestamp": datetime(2023, 5, day, hour, tzinfo=timezone.utc),
    }


SAID = {
    "spring": [turn("Bob", "I work at Acme.", 1), turn("Ana", "I live in Oslo.", 1, 11)],
    "summer": [
        turn("Ana", "I moved to Lisbon.", 9),
        turn("Bob", "I visited Kyoto.", 9, 11),
        turn("Ana", "I live in Oslo.", 9, 12),
    ],
    "late": [turn("Bob", "I work at Globex now.", 20), turn("Ana", "I moved to Davis.", 20, 11)],
}


@pytest.fixture(scope="module")
def forest() -> Iterator[MemForest]:
    """Two users, only read here: "u" with the sessions above, and "many" with a larger memory."""
    with (
        tempfile.TemporaryDirectory(dir=fast_folder()) as folder,
        MemForest(folder, fast_config()) as made,
    ):
        for name, turns in SAID.items():
            made.ingest_session("u", name, turns)
        for name, turns in make_sessions(5, sessions=12, most_turns=16):
            made.ingest_session("many", name, turns)
        yield made


@pytest.fixture
def memory(forest: MemForest) -> UserMemory:
    """The memory of the sessions above."""
    return forest.user("u")


@pytest.fixture
def many(forest: MemForest) -> UserMemory:
    """A memory of twelve sessions."""
    return forest.user("many")


def nodes(view: TreeView) -> Iterator[TreeView]:
    """Yield a view and what is below it."""
    yield view
    for child in view.children:
        yield from nodes(child)


def size(views: list[TreeView]) -> int:
    """Return how many nodes views show."""
    return sum(1 for view in views for _ in nodes(view))


def test_whole_trees_add_up(many: UserMemory) -> None:
    """A node's leaves, interval and level follow from its children's, in time order; leaves alone tell of turns."""
    views = many.tree(depth=99)
    assert sum(len(view.children) > 2 for view in views) > 2
    for node in (node for view in views for node in nodes(view)):
        if node.children:
            assert node.leaves == sum(child.leaves for child in node.children)
            assert node.start == min(child.start for child in node.children)
            assert node.end == max(child.end for child in node.children)
            assert all(child.level == node.level - 1 and child.title == "" for child in node.children)
        assert (node.level == 0) == (not node.children)
        assert node.summary
        assert not node.dirty
        assert node.level == 0 or not (node.sources or node.quotes)


def test_roots_are_ordered_by_kind_time_and_title(many: UserMemory) -> None:
    """Entities, scenes, sessions; of one kind by when they begin, then by name."""
    keys = [(view.title.split(" ")[0], view.start, view.title) for view in many.tree(depth=0)]
    assert keys == sorted(keys)
    assert list(dict.fromkeys(key[0] for key in keys)) == ["entity", "scene", "session"]
    assert all(view.index == "memforest" for view in many.tree(depth=0))
    assert len({key[1] for key in keys}) < len(keys)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_trees_are_unfolded_as_deep_as_asked(many: UserMemory, depth: int) -> None:
    """A node that is not unfolded keeps its count of leaves."""

    def levels(view: TreeView) -> int:
        return 1 + max(map(levels, view.children), default=-1)

    whole = many.tree(depth=99)
    shown = many.tree(depth=depth)
    assert [levels(view) for view in shown] == [min(depth, levels(view)) for view in whole]
    assert [view.leaves for view in shown] == [view.leaves for view in whole]
    assert max(levels(view) for view in whole) >= 2


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 20, 40, 60, 100, 1000])
def test_a_limit_holds_and_hides_no_sibling(many: UserMemory, limit: int) -> None:
    """No more nodes than asked for; a node shows all of its children or none; all trees where half of it holds the roots."""
    whole = {view.title: view for view in many.tree(depth=99)}
    views = many.tree(depth=99, limit=limit)
    assert 1 <= size(views) <= limit
    assert len(views) == (len(whole) if 2 * len(whole) <= limit else max(1, limit // 2))
    for view in views:
        for shown in nodes(view):
            full = next(node for node in nodes(whole[view.title]) if same_place(node, shown))
            assert len(shown.children) in (0, len(full.children))
    if limit >= size(list(whole.values())):
        assert views == list(whole.values())


def test_a_limit_that_is_just_enough_hides_nothing(many: UserMemory) -> None:
    """All nodes where there is room for them; one less and some are hidden; all roots where they are half of it."""
    whole = many.tree(depth=99)
    assert many.tree(depth=99, limit=size(whole)) == whole
    assert size(many.tree(depth=99, limit=size(whole) - 1)) < size(whole)
    assert len(many.tree(depth=0, limit=2 * len(whole))) == len(whole)
    assert len(many.tree(depth=0, limit=2 * len(whole) - 1)) == len(whole) - 1


def test_one_tree_is_shown_whatever_the_limit(memory: UserMemory) -> None:
    """The root at least, and its children only if all have room."""
    assert [size(memory.tree("Ana", depth=9, limit=limit)) for limit in (1, 2, 3, 4, 5)] == [1, 1, 1, 4, 4]


def same_place(one: TreeView, other: TreeView) -> bool:
    """Return whether two views are of one node of a tree."""
    return (one.level, one.start, one.end, one.leaves, one.summary) == (
        other.level,
        other.start,
        other.end,
        other.leaves,
        other.summary,
    )


def test_the_largest_trees_of_each_kind_are_kept(many: UserMemory) -> None:
    """Where a limit has no room for all trees, each kind keeps those with most leaves."""
    sizes: dict[str, list[int]] = {}
    for view in many.tree(depth=0):
        sizes.setdefault(view.title.split(" ")[0], []).append(view.leaves)
    kept: dict[str, list[int]] = {}
    for view in many.tree(depth=0, limit=12):
        kept.setdefault(view.title.split(" ")[0], []).append(view.leaves)
    assert sum(len(found) for found in sizes.values()) > 6
    assert {kind: sorted(found) for kind, found in kept.items()} == {
        kind: sorted(found, reverse=True)[:2][::-1] for kind, found in sizes.items()
    }


@pytest.mark.parametrize(
    ("scope", "titles"),
    [
        ("spring", ["session spring"]),
        ("Ana", ["entity Ana"]),
        ("ANA", ["entity Ana"]),
    ],
)
def test_a_scope_names_its_tree(memory: UserMemory, scope: str, titles: list[str]) -> None:
    """Sessions and entities by name, capitals or not."""
    assert [view.title for view in memory.tree(scope)] == titles


def test_a_scene_is_named_by_its_number(memory: UserMemory) -> None:
    """With its kind before it, capitals or not."""
    scenes = [view.title for view in memory.tree() if view.title.startswith("scene")]
    assert scenes
    for title in scenes:
        assert [view.title for view in memory.tree(title.split(":")[0].upper())] == [title]


@pytest.mark.parametrize("scope", ["1", "scene", "entity Ana", "scene 999", "Acme", ""])
def test_a_scope_without_a_tree_is_said(memory: UserMemory, scope: str) -> None:
    """A number alone names no scene, and an entity that was named once has no tree."""
    with pytest.raises(NotFoundError):
        memory.tree(scope)


def test_names_of_signs_alone_are_told_apart(forest: MemForest) -> None:
    """A session called by signs is found by just these, not by others that have no word in them either."""
    forest.ingest_session("signs", "!!!", SAID["spring"])
    assert [view.title for view in forest.user("signs").tree("!!!")] == ["session !!!"]
    for scope in ("???", "", "!!"):
        with pytest.raises(NotFoundError):
            forest.user("signs").tree(scope)


@pytest.mark.parametrize("wrong", [{"depth": -1}, {"limit": 0}])
def test_trees_out_of_range_are_refused(memory: UserMemory, wrong: dict[str, Any]) -> None:
    """No levels below none, no views within none."""
    with pytest.raises(InputError, match=next(iter(wrong))):
        memory.tree(**wrong)


def test_leaves_show_what_was_said(memory: UserMemory) -> None:
    """A fact with its quotations, each once, and its turns; a chunk with the words of its turns."""
    (ana,) = memory.tree("Ana")
    assert [(leaf.summary, leaf.quotes) for leaf in ana.children] == [
        ("Ana: I live in Oslo.", ("I live in Oslo.",)),
        ("Ana: I moved to Lisbon.", ("I moved to Lisbon.",)),
        ("Ana: I moved to Davis.", ("I moved to Davis.",)),
    ]
    assert [leaf.sources for leaf in ana.children] == [
        memory.list(entity="Ana").facts[place].sources for place in range(3)
    ]
    (summer,) = memory.tree("summer")
    assert [leaf.summary for leaf in summer.children] == [
        "Ana: I moved to Lisbon.\nBob: I visited Kyoto.",
        "Ana: I live in Oslo.",
    ]


class Mute:
    """A summariser that cannot summarise."""

    name = "mute-1"

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Fail."""
        return [StepError("mute") for _ in requests]


def test_a_node_is_unfolded_alone_as_it_is_in_its_tree(many: UserMemory) -> None:
    """With its number a node is shown as it stands in the whole tree."""
    unfolded = next(view for view in many.tree(depth=2) if view.level > 1)
    [root] = many.tree(node=unfolded.node_id, depth=1)
    assert (root.title, root.node_id, root.index) == (unfolded.title, unfolded.node_id, unfolded.index)
    for child in root.children:
        [below] = many.tree(node=child.node_id, depth=1)
        assert below.summary == child.summary
        assert below.maker == child.maker
        inside = next(one for one in unfolded.children if one.node_id == child.node_id)
        assert [one.node_id for one in below.children] == [one.node_id for one in inside.children]


def test_only_summaries_have_a_maker(many: UserMemory) -> None:
    """What was said has none."""
    found = [node for view in many.tree(depth=9) for node in nodes(view)]
    assert all(node.maker.startswith("local-") for node in found if node.level and not node.dirty)
    assert any(not node.maker for node in found if not node.level)


def test_a_node_that_is_not_there_or_named_with_a_scope_is_refused(memory: UserMemory) -> None:
    """A number says which tree is meant; a scope beside it could contradict."""
    with pytest.raises(NotFoundError):
        memory.tree(node=999_999)
    with pytest.raises(InputError):
        memory.tree("spring", node=1)


def test_a_summary_that_could_not_be_made_is_shown_as_such(folder: Path) -> None:
    """Inner nodes are dirty and empty, leaves are what was said; a summariser that can makes them at the next look."""
    with MemForest(folder, fast_config(summariser=Mute())) as forest:
        forest.ingest_session("u", "summer", SAID["summer"])
        (view,) = forest.user("u").tree("summer")
        assert (view.dirty, view.summary, view.leaves) == (True, "", 2)
        assert [(leaf.dirty, bool(leaf.summary)) for leaf in view.children] == [(False, True)] * 2
        assert forest.user("u").stats().dirty_nodes > 0
    with MemForest(folder, fast_config()) as forest:
        (view,) = forest.user("u").tree("summer", depth=0)
        assert (view.dirty, bool(view.summary)) == (False, True)


@pytest.mark.parametrize("user", ["u", "many"])
def test_counts_are_those_of_the_views(forest: MemForest, user: str) -> None:
    """Sessions, turns, facts, trees and nodes are as many as the views show."""
    memory = forest.user(user)
    views, stats = memory.tree(depth=99), memory.stats()
    assert stats.sessions == len(memory.sessions())
    assert stats.turns == sum(one.turns for one in memory.sessions())
    assert stats.facts == memory.list().total
    assert stats.occurrences >= stats.facts
    kinds = [view.title.split(" ")[0] for view in views]
    assert stats.trees == {"memforest": {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}}
    assert stats.nodes == size(views)
    assert (stats.dirty_nodes, stats.unfinished, stats.failed_chunks) == (0, 0, 0)
    names = {name for fact in memory.list(limit=1000) for name in fact.entities}
    assert sum(stats.entities.values()) >= len(names)
    assert stats.entities["participant"] == len({p for one in memory.sessions() for p in one.participants})


def test_an_index_says_on_one_line_how_it_stands(memory: UserMemory) -> None:
    """Trees and leaves."""
    (view,) = memory.indexes()
    leaves = sum(one.leaves for one in memory.tree(depth=0))
    assert repr(view) == f"IndexView(memforest: {view.trees} trees, {leaves} leaves)"
