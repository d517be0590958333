"""Damaged segment trees: `verify` sees what a search or the next leaf would rely on, and `repair` makes the index anew."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.segtrees import NAME, configured, sound, tree
from tests_long.worlds import file_of, make_sessions

from memforest import MemForest

_OWN = "tree IN (SELECT id FROM tree WHERE owner = 'segtree')"
_LEAF = f"(SELECT id FROM leaf WHERE {_OWN} ORDER BY id LIMIT 1 OFFSET {{}})"
_EXCHANGE = "(SELECT id FROM ix_segtree_exchange ORDER BY place, tie LIMIT 1 OFFSET {})"

DAMAGES = {
    "a wrong height": (
        "UPDATE tree SET height = height + 1 WHERE owner = 'segtree'",
        "not its root's level",
    ),
    "a wrong sum": (
        f"""UPDATE node SET state = CAST(substr(state, 1, 9) || zeroblob(length(state) - 9) AS BLOB)
            WHERE {_OWN} AND id = (SELECT root FROM tree WHERE owner = 'segtree')""",
        "another sum than their leaves",
    ),
    "a lost sum": (
        f"UPDATE node SET state = zeroblob(8) WHERE {_OWN} AND id = (SELECT root FROM tree WHERE owner = 'segtree')",
        "another sum than their leaves",
    ),
    "an exchange without a leaf": (
        f"UPDATE ix_segtree_exchange SET turn_last = turn WHERE id = {_EXCHANGE.format(2)}",
        "turns that are not stored as they say",
    ),
    "a waiting exchange that is in the tree": (
        f"UPDATE ix_segtree_exchange SET state = 0 WHERE id = {_EXCHANGE.format(2)}",
        "the exchanges have",
    ),
    "a placed exchange that is not in the tree": (
        f"DELETE FROM leaf WHERE id = {_LEAF.format(3)}",
        "said to be in the tree and have no leaf",
    ),
    "a leaf without an exchange": (
        f"DELETE FROM ix_segtree_exchange WHERE id = {_EXCHANGE.format(2)}",
        "are in no exchange",
    ),
    "a leaf out of order": (
        f"""UPDATE ix_segtree_exchange SET place = (SELECT max(place) + 1 FROM ix_segtree_exchange)
            WHERE id = {_EXCHANGE.format(1)}""",
        "the exchanges have",
    ),
    "exchanges that overlap": (
        """UPDATE ix_segtree_exchange SET first = first - 1, turn = (SELECT p.id FROM turn p WHERE p.session =
           ix_segtree_exchange.session AND p.ordinal = ix_segtree_exchange.first - 1), turns = turns + 1
           WHERE id = (SELECT id FROM ix_segtree_exchange WHERE first > 0 ORDER BY id LIMIT 1)""",
        "hold turns of the one in front",
    ),
    "a span with a gap": (
        f"UPDATE node SET span_lo = span_lo + 1 WHERE {_OWN} AND level > 0 AND id = (SELECT root FROM tree WHERE owner = 'segtree')",
        "conversation tree 0",
    ),
}
"""What is changed behind the memory's back, and what `verify` says of it."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_seen_and_mended(folder: Path, damage: str) -> None:
    """Of the index alone; afterwards the tree is the one that it was."""
    with MemForest(folder, configured({"tau": 0.3})) as forest:
        for session_id, turns in make_sessions(3, sessions=5, most_turns=8):
            forest.ingest_session("u", session_id, turns, infer=False)
    before = tree(folder)
    statement, says = DAMAGES[damage]
    with closing(sqlite3.connect(file_of(folder))) as conn:
        assert conn.execute(statement).rowcount == 1
        conn.commit()
    with MemForest(folder, configured({"tau": 0.3})) as forest:
        memory = forest.user("u")
        problems = memory.verify().problems
        assert {one.index for one in problems} == {NAME}
        assert any(says in one.message for one in problems), problems
        assert memory.repair().left == ()
        sound(memory, folder)
    assert tree(folder) == before
