"""Which indexes a memory has, which one is searched, and how they come, change and go."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.told import ATTACHED, Depth, Told, added, opened, row_of, turn, verbs
from tests_long.worlds import fast_config, file_of, said

from memforest import ConfigError, MemForest, NotFoundError
from memforest.nodes import Node, TreeHead
from memforest.store import indexes, jobs, meta
from memforest.store import trees as tree_rows
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.trees.attached import Attached


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one session and the memforest index."""
    folder = tmp_path_factory.mktemp("grown")
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo.", "I own a red bike.", "It rains."))
    return file_of(folder)


@pytest.fixture
def db(grown: Path, folder: Path) -> Iterator[Database]:
    """A copy of that file, opened; the index `told` is known."""
    with opened(Path(shutil.copy(grown, folder))) as made:
        yield made


def test_a_memory_begins_with_the_indexes_of_the_configuration(db: Database) -> None:
    """Once; what the configuration says later adds none, and there is nothing to do any more."""
    with db.write() as tx:
        tx.execute("DELETE FROM index_")
        both = Attached(fast_config(indexes=("flat", "told")))
        both.begin(tx)
        assert [row.name for row in indexes.rows(tx)] == ["flat", "told"]
        assert [index.name for index in both.of(tx)] == ["flat", "told"]
        Attached(fast_config(indexes=("facts",))).begin(tx)
        assert [row.name for row in indexes.rows(tx)] == ["flat", "told"]


def test_without_a_name_the_first_index_is_searched(db: Database) -> None:
    """First those of the configuration in its order, then those of the memory by name."""
    wants = Attached(fast_config(indexes=("told", "memforest")))
    with db.write() as tx:
        assert wants.choose(tx, None).found.name == "memforest"  # the memory does not have the other one
        added(tx)
        assert wants.choose(tx, None).found.name == "told"
        assert Attached(fast_config(indexes=("facts",))).choose(tx, None).found.name == "memforest"


def test_a_name_gets_the_memory_s_index_or_says_how_to(db: Database) -> None:
    """One that places nothing needs no adding; one that does is added; one that there is not is refused."""
    with db.write() as tx:
        assert ATTACHED.get(tx, "flat").name == "flat"
        with pytest.raises(NotFoundError):
            ATTACHED.get(tx, "told")
        with pytest.raises(ConfigError):
            ATTACHED.choose(tx, "nosuch")
        added(tx)
        assert ATTACHED.get(tx, "told") is ATTACHED.get(tx, "told")
        assert ATTACHED.choose(tx, "told").found.name == "told"


def test_an_index_that_is_behind_says_so(db: Database) -> None:
    """It warns; one that is not behind says nothing; beyond the feed, everything is missing."""
    with db.write() as tx:
        added(tx)
        for _ in range(3):
            turn(tx)
        end, (stored,) = indexes.feed_position(tx), tx.execute("SELECT count(*) FROM feed").fetchone()
        for name, cursor in (("told", end - 1), ("memforest", end - 3)):
            indexes.move(tx, name, cursor)
        indexes.stop(tx, "told", "is tired")
        assert ATTACHED.lagging(tx) == {"memforest": 3, "told": 1}
        told = "the index 'told' has not placed the last 1 change(s) (it is tired); resume() does"
        assert ATTACHED.choose(tx, "told")[1:] == (1, (told,))
        assert ATTACHED.choose(tx, "flat")[1:] == (0, ())
        indexes.move(tx, "told", end + 9)
        assert ATTACHED.lagging(tx)["told"] == stored
        assert "stands at note" in ATTACHED.choose(tx, "told").warnings[0]


@pytest.mark.parametrize(
    ("cursor", "began", "gone", "says"),
    [
        (0, 0, 0, None),
        (10, 0, 0, None),
        (11, 0, 0, "which there is not"),
        (-1, 0, 0, "which there is not"),
        (5, 0, 5, None),
        (4, 0, 5, "which is not kept any more"),
        (4, 5, 5, None),  # it began behind what is gone, and needs none of that
        (4, 3, 5, "which is not kept any more"),
        (5, 6, 5, "which there is not"),
        (5, -1, 5, "which there is not"),
    ],
)
def test_where_an_index_can_go_on_from(
    db: Database, cursor: int, began: int, gone: int, says: str | None
) -> None:
    """Between what is gone and the end of the feed; below that only if it began after what is gone went."""
    with db.write() as tx:
        tx.execute("UPDATE sqlite_sequence SET seq = 10 WHERE name = 'feed'")
        tx.execute("DELETE FROM feed")
        meta.put(tx, "feed_compacted", str(gone))
        lost = Attached.lost(tx, indexes.IndexRow("told", "{}", cursor, began, None))
    if says is None:
        assert lost is None
    else:
        assert lost is not None
        assert f"'told' stands at note {cursor} of the feed, {says}; rebuild(index='told')" in lost


def test_notes_say_what_is_to_be_known_of_each_index(db: Database) -> None:
    """Its own where it is well; else that it lags or is lost."""

    def noted(tx: Tx) -> list[str]:
        return [note for note in ATTACHED.notes(tx) if "told" in note]

    with db.write() as tx:
        added(tx)
        assert noted(tx) == ["told says so"]
        indexes.move(tx, "told", indexes.feed_position(tx) - 1)
        assert noted(tx) == ["the index 'told' has not placed the last 1 change(s); resume() does"]
        indexes.move(tx, "told", indexes.feed_position(tx) + 1)
        assert "which there is not" in noted(tx)[0]


def test_what_an_index_keeps_of_its_settings_is_in_the_file(db: Database) -> None:
    """Those in `KEPT` and those given; what is not kept is that of whoever opens it."""
    with db.write() as tx:
        added(tx)
        assert json.loads(row_of(tx).settings) == {"depth": 2}
        Attached.drop(tx, "told")
        added(tx, given={"reads": 9})
    other = Attached(fast_config(index_settings={"told": {"depth": 4, "reads": 1}}))
    with db.read() as tx:
        assert other.get(tx, "told").settings == Depth(depth=2, reads=9)


def test_an_index_begins_behind_what_is_gone(db: Database) -> None:
    """Added or emptied, its cursor is 0 and `began` is up to where notes may be missing."""
    with db.write() as tx:
        meta.put(tx, "feed_compacted", "4")
        added(tx, current=False)
        assert row_of(tx)[2:] == (0, 4, None)
        indexes.move(tx, "told", 9)
        meta.put(tx, "feed_compacted", "6")
        ATTACHED.clear(tx, "told", "was tired")
        assert row_of(tx)[2:] == (0, 6, "was tired")


def test_adding_takes_away_what_an_older_one_has_left(db: Database) -> None:
    """Trees, tables, settings and jobs of an index that the memory does not list."""
    with db.write() as tx:
        tx.execute("CREATE TABLE ix_told_old (x)")
        meta.put(tx, "ix_told_x", "1")
        tree_rows.put_head(tx, "told", "all", 0, TreeHead(0, 8))
        jobs.add(tx, "told", "close", "window", due_ms=1)
        added(tx)
        assert indexes.own_tables(tx, "told") == ["ix_told_seen"]
        assert meta.get(tx, "ix_told_x") is None
        assert list(tree_rows.heads(tx, "told")) == []
        assert tx.execute("SELECT count(*) FROM job").fetchone() == (0,)
        with pytest.raises(ConfigError):
            ATTACHED.add(tx, "told")


def test_strays_are_dropped_and_named(db: Database) -> None:
    """By name, once each, whether they left a tree or a table; what the memory has stays."""
    with db.write() as tx:
        added(tx)
        tx.execute("CREATE TABLE ix_zeta_x (x)")
        tree_rows.put_head(tx, "alpha", "all", 0, TreeHead(0, 8))
        assert Attached.drop_strays(tx) == ["alpha", "zeta"]
        assert Attached.drop_strays(tx) == []
        assert [row.name for row in indexes.rows(tx)] == ["memforest", "told"]
        assert indexes.own_tables(tx, "told") == ["ix_told_seen"]
        assert list(tree_rows.heads(tx, "memforest"))


def test_nodes_are_summarised_as_their_own_index_says(db: Database) -> None:
    """Each index is asked of its nodes alone, and a bound is given to each."""
    with db.write() as tx:
        added(tx)
        head = tree_rows.put_head(tx, "told", "all", 0, TreeHead(0, 8))
        own = next(one[2] for one in tree_rows.heads(tx, "memforest"))
        mine, other = (_node(id_, tree) for id_, tree in ((901, head.tree), (902, own.tree)))
        made = ATTACHED.work(tx, [mine, other], {901: ("a",), 902: ("b",)}, 17)
        assert {one.node: (one.request.max_words, one.request.inputs) for one in made} == {
            901: (17, ("a",)), 902: (17, ("b",))
        }  # fmt: skip
        assert Told.log == [("work", [901])]
        assert ATTACHED.work(tx, [], {}, 17) == []
    assert verbs() == ["work"]  # of no nodes nobody is asked


def _node(id_: int, tree: int) -> Node:
    return Node(id_, tree, 1, (0, ""), 0, 1, 1, (), None, None, 1, True)
