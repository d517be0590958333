"""What keeps a segment tree in shape on bad input, and where leaves go that come late."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.segtrees import NAME, anew, configured, fan_outs, height, sound, tree
from tests_long.worlds import make_sessions, said

from memforest import MemForest

TOPICS = ("We sail a small boat", "My left knee hurts", "Rust has good traits", "They bake rye bread")
MANY = [f"{TOPICS[n // 5 % 4]} {n}." for n in range(40)]
LEAVES = {"leaves": "turns"}
TALK = sorted(make_sessions(3, sessions=5, most_turns=8), key=lambda one: str(one[1][0]["timestamp"]))


def grown(folder: Path, own: dict[str, Any]) -> MemForest:
    """Return a memory with a leaf for each of `MANY`, open."""
    forest = MemForest(folder, configured({**LEAVES, **own}))
    forest.ingest_session("u", "s", said(*MANY, day=5), infer=False)
    return forest


def test_leaves_that_are_like_no_node_do_not_make_a_tower(folder: Path) -> None:
    """From `height_max` on they join the root; without it each makes a level."""
    for most in (4, 0):
        with grown(
            folder / str(most), {"tau": 1.0, "fall": 1.0, "height_max": most, "fan_out_max": 0}
        ) as forest:
            sound(forest.user("u"), folder / str(most))
        assert height(folder / str(most)) == (most or len(MANY) - 1)


def test_leaves_that_are_like_every_node_do_not_make_a_broom(folder: Path) -> None:
    """A node has `fan_out_max` children at most, and a quarter at least of what was cut; without it the root has all."""
    for most in (8, 0):
        with grown(folder / str(most), {"tau": -1.0, "fan_out_max": most, "height_max": 0}) as forest:
            sound(forest.user("u"), folder / str(most))
        found = fan_outs(folder / str(most))
        assert max(found) <= (most or len(MANY))
        assert (len(found) > len(MANY) // 8) == bool(most)


def test_a_root_of_the_highest_level_is_cut_too(folder: Path) -> None:
    """Where both guards meet, the height grows with the logarithm of the leaves."""
    with grown(folder, {"tau": -1.0, "fan_out_max": 8, "height_max": 1}) as forest:
        sound(forest.user("u"), folder)
    assert max(fan_outs(folder)) <= 8
    assert height(folder) == 2


@pytest.mark.parametrize("own", [{"tau": -1.0}, {"tau": 0.7}])
def test_a_tree_with_cuts_is_what_a_rebuild_makes(folder: Path, own: dict[str, Any]) -> None:
    """Also when a session comes before all of it, or a turn goes in the middle."""
    own = {**LEAVES, **own, "fan_out_max": 8}
    with grown(folder, own) as forest:
        memory = forest.user("u")
        for change in (
            lambda: forest.ingest_session("u", "late", said("We met.", "Note 3.", day=2), infer=False),
            lambda: memory.delete(turn=("s", "30")),
            lambda: memory.add(said("Note 3 again.", day=9)[0], session_id="s", infer=False),
        ):
            change()
            sound(memory, folder)
            before = tree(folder)
            assert before == anew(folder, configured(own))
            memory.rebuild(index=NAME)
            assert tree(folder) == before


def test_another_threshold_is_that_of_the_tree(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was measured anew since, not one that was set: of a memory that is opened, or open."""
    for own, same in (({}, False), ({"tau": 0.5}, True)):
        place = folder / str(same)
        with MemForest(place, configured(own)) as forest:
            forest.ingest_session("u", "s", said(*MANY, day=5), infer=False)
            before = tree(place)
            with monkeypatch.context() as patch:
                patch.setattr("memforest.trees.segtree.least_likeness", lambda *_: 0.31)
                sound(forest.user("u"), place)
                assert (tree(place) == before) is same
                assert tree(place) == anew(place, configured(own))
