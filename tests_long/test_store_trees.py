"""Trees in the file: they grow and shrink as in memory, leaves stand where their items do, and marks go up, never sideways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests_long.stored import chunk_of, empty_memory, leaf, plant, put_fact, put_session, say, value

from memforest.nodes import DictArena, Node, TreeHead
from memforest.store import facts, indexes, trees
from memforest.store.connections import Connection
from memforest.store.derived import pack_ids
from memforest.store.trees import SqliteArena
from memforest.trees.node import check, delete, insert, outline, walk


def put_facts(tx: Connection, n: int, first: int = 0) -> list[int]:
    """Store facts that were said 10 ms apart."""
    return [put_fact(tx, f"f{at}", said_ms=10 * at) for at in range(first, first + n)]


def inner(node: int, tree: int, children: Sequence[int] = (), **values: object) -> Node:
    """Return an inner node."""
    made = Node(node, tree, 1, (7, "ü\x1f1"), 7, 9, 2, tuple(children), None, None, 3, True)
    for name, given_ in values.items():
        setattr(made, name, given_)
    return made


def ids_of(tx: Connection, table: str) -> list[int]:
    """Return the ids of a table's rows."""
    return [row[0] for row in tx.execute(f"SELECT id FROM {table} ORDER BY id")]


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=40), st.integers(3, 5), st.booleans())
def test_a_tree_in_the_file_grows_and_shrinks_as_one_in_memory(
    steps: list[tuple[int, bool]], k: int, summarised: bool
) -> None:
    """Whatever comes and goes, and however often all is written and read anew in between; leaves may be summarised."""
    with closing(empty_memory()) as tx:
        rows = facts.facts_with_ids(tx, put_facts(tx, 21))
        stored = trees.put_head(tx, "ix", "entity", 1, TreeHead(0, k))
        kinds = {"fact"} if summarised else ()
        arena, plain, head = SqliteArena(tx, kinds), DictArena(), TreeHead(stored.tree, k)
        inside: set[int] = set()
        for number, anew in steps:
            fact = list(rows.values())[number]
            if number in inside:
                stored, head = (
                    delete(one, of, fact.leaf_key) for one, of in ((arena, stored), (plain, head))
                )
            else:
                start, end = fact.leaf_span
                (stored, _), (head, _) = (
                    insert(one, of, key=fact.leaf_key, start_ms=start, end_ms=end, item_kind="fact", item=fact.row)
                    for one, of in ((arena, stored), (plain, head))
                )  # fmt: skip
            inside ^= {number}
            if anew:
                arena.flush()
                arena = SqliteArena(tx, kinds)
        arena.flush()
        arena = SqliteArena(tx, kinds)
        assert outline(arena, stored) == outline(plain, head)
        assert _told(arena, stored, summarised) == _told(plain, head, summarised)
        assert value(tx, "SELECT count(*) FROM node WHERE level = 0") == len(inside) * summarised
        assert check(arena, stored) == []
        assert (value(tx, "SELECT count(*) FROM leaf"), (stored.height, stored.count)) == (
            len(inside),
            (head.height, head.count),
        )
        assert trees.node_count(tx)[0] == sum(1 for _ in walk(plain, head))


def _told(arena: SqliteArena | DictArena, head: TreeHead, marked: bool) -> list[tuple[object, ...]]:
    return [
        (node.level, node.key, node.start_ms, node.end_ms, node.count, node.item, node.item_kind)
        + ((node.version, node.dirty) if node.level or marked else ())
        for node in walk(arena, head)
    ]


def test_a_node_comes_back_as_it_was_put(tx: Connection) -> None:
    """With what it has and what it lacks, when it is new and when it was changed; another one stays as it was."""
    tree = trees.put_head(tx, "ix", "entity", 1, TreeHead(0, 3)).tree
    arena = SqliteArena(tx)
    full = inner(5, tree, (1, 2**32 - 1), span=(0, 4), window="2024-W10", state=b"\x00\xff", dirty=False)
    bare = inner(6, tree)
    for node in (full, bare):
        arena.put(node)
    arena.flush()
    assert SqliteArena(tx).get_many((6, 5, 6)) == [bare, full, bare]
    changed = inner(
        5, tree, (3,), key=(1, "z"), start_ms=1, end_ms=2, count=9, version=4, span=(2, 3), window="w"
    )
    arena.put(changed)
    arena.flush()
    assert SqliteArena(tx).get_many((5, 6)) == [changed, bare]


def test_what_was_dropped_is_not_there_before_it_is_written_or_after(tx: Connection) -> None:
    """Neither a node nor a leaf, nor one that was never there; one that was put and dropped leaves no row."""
    [fact] = put_facts(tx, 1)
    tree = trees.put_head(tx, "ix", "entity", 1, TreeHead(0, 3)).tree
    first = SqliteArena(tx)
    first.put(inner(5, tree))
    first.flush()
    stands = leaf(tx, tree, "fact", fact)
    arena = SqliteArena(tx)
    arena.put(inner(6, tree))
    for gone in (5, 6, stands):
        arena.drop(gone)
        with pytest.raises(KeyError):
            arena.get(gone)
    with pytest.raises(KeyError):
        arena.drop(77)
    arena.flush()
    assert ids_of(tx, "node") == ids_of(tx, "leaf") == []
    with pytest.raises(KeyError):
        SqliteArena(tx).get_many((5,))


def test_what_is_derived_of_a_node_goes_with_it(tx: Connection) -> None:
    """Its summary and its vector; those of other nodes stay."""
    tree = trees.put_head(tx, "ix", "entity", 1, TreeHead(0, 3)).tree
    arena = SqliteArena(tx)
    for node in (5, 6):
        arena.put(inner(node, tree))
    arena.flush()
    for node in (5, 6):
        tx.execute("INSERT INTO derived_summary VALUES (?, x'00', 'm', 'own', NULL)", (node,))
        tx.execute("INSERT INTO derived_node_vector VALUES (?, x'00', x'00')", (node,))
    arena.drop(5)
    arena.flush()
    assert tx.execute("SELECT node FROM derived_summary").fetchall() == [(6,)]
    assert tx.execute("SELECT item FROM derived_node_vector").fetchall() == [(6,)]


def test_a_leaf_is_written_at_once_and_a_node_when_all_is_written_back(tx: Connection) -> None:
    """Each counts as one row written; what was not changed since is not written again."""
    [fact] = put_facts(tx, 1)
    tree = trees.put_head(tx, "ix", "entity", 1, TreeHead(0, 3)).tree
    arena = SqliteArena(tx)
    arena.put(Node(9, tree, 0, (0, ""), 0, 1, 1, (), "fact", fact, 1, False))
    arena.put(inner(5, tree, (9,)))
    assert (ids_of(tx, "leaf"), ids_of(tx, "node"), arena.written) == ([9], [], 1)
    arena.flush()
    assert (ids_of(tx, "node"), arena.written) == ([5], 2)
    arena.flush()
    assert arena.written == 2
    arena.drop(5)
    for _ in range(2):
        arena.flush()
        assert arena.written == 3


def test_no_id_is_given_twice(tx: Connection) -> None:
    """Not by one arena however many it takes, and not by two that take them in turn."""
    one, other = SqliteArena(tx), SqliteArena(tx)
    given_ = [arena.new_id() for _ in range(150) for arena in (one, other)]
    assert len(set(given_)) == 300
    assert min(given_) == 1
    assert SqliteArena(tx).new_id() > max(given_)


@pytest.mark.parametrize(
    "values", [{}, {"start_ms": -5}, {"start_ms": 3, "end_ms": 9}, {"start_ms": 3, "end_ms": 3}, {"start_ms": 0, "end_ms": 1}, {"end_ms": 9}]
)  # fmt: skip
def test_a_fact_stands_in_a_tree_where_its_leaf_says(tx: Connection, values: dict[str, Any]) -> None:
    """The file and `FactRow` agree on the place, to the millisecond."""
    row = put_fact(tx, said_ms=7, tie="s\x1fü", **values)
    made = leaf(tx, 4, "fact", row)
    [found] = trees.nodes_with_ids(tx, [made, 99]).values()
    fact = facts.facts_with_ids(tx, [row])[row]
    assert (found.key, (found.start_ms, found.end_ms)) == (fact.leaf_key, fact.leaf_span)
    assert (found.id, found.tree, found.level, found.count, found.children) == (made, 4, 0, 1, ())
    assert (found.item_kind, found.item, found.item_last, found.dirty) == ("fact", row, None, False)


def test_a_chunk_and_a_run_stand_from_their_first_turn_to_their_last(tx: Connection) -> None:
    """Ties of one time are by session and position, in numbers that sort as texts; a single turn is a run of one."""
    _, turns = put_session(tx, "s", list("abcdefghijkl"), at_ms=500, chunk=5)
    chunk = chunk_of(tx, turns[5])
    wanted = {
        leaf(tx, 1, "chunk", chunk): ("s\x1f000001", 5500, 9501, "chunk", chunk, None),
        leaf(tx, 1, "turn", turns[10], turns[11]): (
            "s\x1f000010",
            10500,
            11501,
            "turn",
            turns[10],
            turns[11],
        ),
        leaf(tx, 1, "turn", turns[2]): ("s\x1f000002", 2500, 2501, "turn", turns[2], None),
    }
    found = {
        row: (node.key[1], node.start_ms, node.end_ms, node.item_kind, node.item, node.item_last)
        for row, node in trees.nodes_with_ids(tx, list(wanted)).items()
    }
    assert found == wanted
    assert all(node.key[0] == node.start_ms for node in trees.nodes_with_ids(tx, list(wanted)).values())


def test_turns_that_go_back_in_time_make_no_empty_interval(tx: Connection) -> None:
    """A session may be imported with its last turn dated before its first."""
    _, turns = put_session(tx, texts=["a", "b"])
    tx.execute("UPDATE turn SET said_ms = -400 WHERE id = ?", (turns[1],))
    made = [leaf(tx, 1, "chunk", chunk_of(tx, turns[0])), leaf(tx, 1, "turn", *turns)]
    spans = {(node.start_ms, node.end_ms) for node in trees.nodes_with_ids(tx, made).values()}
    assert spans == {(0, 1)}


def test_a_leaf_of_what_is_gone_is_not_there(tx: Connection) -> None:
    """It has no time to stand at."""
    made = [leaf(tx, 1, kind, 77) for kind in ("fact", "chunk", "turn")]
    assert trees.nodes_with_ids(tx, made) == {}
    with pytest.raises(KeyError):
        SqliteArena(tx).get(made[0])


def test_an_item_is_found_in_every_tree_of_one_index(tx: Connection) -> None:
    """By tree, and not in those of another index; nor what has the same number and is of another kind."""
    [fact] = put_facts(tx, 1)
    heads = [plant(tx, [fact], scope=scope) for scope in (2, 1)]
    plant(tx, [fact], owner="other")
    leaf(tx, heads[0].tree, "chunk", fact)
    assert trees.placements(tx, "ix", "fact", fact) == [(head.tree, head.root) for head in heads]
    assert trees.placements(tx, "ix", "turn", fact) == []
    assert len(trees.placements(tx, "ix", "chunk", fact)) == 1


@pytest.mark.parametrize("n", [0, 1, 2, 11])
def test_the_leaves_of_a_tree_are_all_of_its_own(tx: Connection, n: int) -> None:
    """Of an empty one none, of one that is but a leaf that one."""
    head = plant(tx, put_facts(tx, n))
    plant(tx, put_facts(tx, 4, first=50), scope=2)
    expected = [row[0] for row in tx.execute("SELECT id FROM leaf WHERE tree = ?", (head.tree,))]
    assert sorted(trees.leaves_of(tx, head)) == sorted(expected)
    assert len(expected) == n


def test_leaves_of_no_tree_are_swept_up(tx: Connection) -> None:
    """All others stay."""
    head = plant(tx, put_facts(tx, 2))
    leaf(tx, 77, "fact", 1)
    trees.drop_strays(tx)
    assert ids_of(tx, "leaf") == sorted(trees.leaves_of(tx, head))


def test_a_leaf_says_its_fact_or_its_turns_line_by_line(tx: Connection) -> None:
    """In the order of the session, with who spoke; several leaves may share a turn, and a run ends with its last."""
    row, turns = put_session(tx, "s", ["eins", "zwei\nzwei", "drei"], chunk=2)
    other, _ = put_session(tx, "t", ["fremd"])
    [fact] = [put_fact(tx, text="Ana paints.")]
    made = [
        leaf(tx, 1, "fact", fact),
        leaf(tx, 1, "chunk", chunk_of(tx, turns[0])),
        leaf(tx, 1, "turn", turns[1], turns[2]),
    ]
    made.append(leaf(tx, 1, "turn", turns[2]))
    nodes = trees.nodes_with_ids(tx, made)
    assert trees.leaf_texts(tx, nodes.values()) == dict(
        zip(
            made,
            ["Ana paints.", "Ana: eins\nAna: zwei\nzwei", "Ana: zwei\nzwei\nAna: drei", "Ana: drei"],
            strict=True,
        )
    )
    assert trees.leaf_texts(tx, []) == {}
    assert row != other


def test_a_fact_made_by_rule_says_what_was_said_and_a_models_its_statement(tx: Connection) -> None:
    """Line by line with the speaker, where the fact has its wording from; all of a damaged turn is not told."""
    _, turns = put_session(tx, texts=["I paint.", "Sunny.\nAnd warm.", "I rest."])
    [fact] = [put_fact(tx, text="Ana paints.")]
    say(tx, fact, turns[1], text="Painting is what Ana does.", quote="Other words")
    say(tx, fact, turns[0], quote="I paint")
    whole = put_fact(tx, "g", text="Ana: sunny. And warm.")
    say(tx, whole, turns[1], text="Ana: sunny. And warm.", quote="Sunny.\nAnd warm.")
    made = [leaf(tx, 1, "fact", fact), leaf(tx, 1, "fact", whole)]

    def read() -> list[str]:
        texts = trees.leaf_texts(tx, trees.nodes_with_ids(tx, made).values())
        return [texts[one] for one in made]

    tx.execute("UPDATE chunk SET maker = 'extract@1:gpt'")
    assert read() == ["Ana paints.", "Ana: sunny. And warm."]
    tx.execute("UPDATE chunk SET maker = 'local-1'")
    assert read() == ["Ana: I paint", "Ana: Sunny.\nAna: And warm."]
    tx.execute("UPDATE turn SET text = 'lies' WHERE id = ?", (turns[1],))
    assert read()[1] == "[turn 't1' (number 1) of session 's' is damaged]"


def test_in_the_place_of_a_damaged_turn_there_is_a_line_that_says_so(tx: Connection) -> None:
    """What it reads now is not told; the turns beside it are."""
    _, turns = put_session(tx, texts=["one", "two", "three"])
    made = leaf(tx, 1, "chunk", chunk_of(tx, turns[0]))
    tx.execute("UPDATE turn SET text = 'lies' WHERE id = ?", (turns[1],))
    text = trees.leaf_texts(tx, trees.nodes_with_ids(tx, [made]).values())[made]
    assert text.splitlines() == ["Ana: one", "[turn 't1' (number 1) of session 's' is damaged]", "Ana: three"]


def test_a_tree_is_found_by_its_index_kind_and_scope(tx: Connection) -> None:
    """Each of the three tells trees apart; a head that is put again keeps its id."""
    wanted = [("ix", "entity", 1), ("ix", "entity", 2), ("ix", "session", 1), ("other", "entity", 1)]
    made = [trees.put_head(tx, *one, TreeHead(0, 5)) for one in wanted]
    assert len({head.tree for head in made}) == 4
    assert [trees.find_head(tx, *one) for one in wanted] == made
    assert trees.find_head(tx, "other", "session", 1) is None
    grown = TreeHead(made[1].tree, 5, 7, 2, 9)
    assert trees.put_head(tx, "ix", "entity", 2, grown) == grown
    assert trees.head_of(tx, grown.tree) == ("entity", 2, grown)
    assert trees.find_head(tx, "ix", "entity", 1) == made[0]
    assert [(kind, scope, head.tree) for kind, scope, head in trees.heads(tx)] == [
        (one[1], one[2], head.tree) for one, head in zip(wanted, made, strict=True)
    ]
    assert [head for _, _, head in trees.heads(tx, "other")] == made[3:]
    with pytest.raises(KeyError, match="77"):
        trees.head_of(tx, 77)


@pytest.mark.parametrize("k", [0, 3, 16])
def test_a_tree_without_a_fan_out_stays_one(tx: Connection, k: int) -> None:
    """It is no MemTree, and comes back as none."""
    made = trees.put_head(tx, "ix", "entity", 1, TreeHead(0, k))
    assert trees.find_head(tx, "ix", "entity", 1) == TreeHead(made.tree, k)


def test_whose_a_tree_or_node_is(tx: Connection) -> None:
    """Of those that are asked for, or of all; None of a node that is not there."""
    mine, other = plant(tx, put_facts(tx, 4)), plant(tx, [], owner="other", kind="x", scope=-3)
    assert trees.owners(tx) == {mine.tree: "ix", other.tree: "other"}
    assert trees.owners(tx, [other.tree, 77]) == {other.tree: "other"}
    assert trees.owners(tx, []) == {}
    assert trees.scopes(tx, [other.tree, 77]) == {other.tree: ("x", -3)}
    assert trees.roots(tx, [mine.tree, other.tree]) == {mine.root}
    assert trees.owner_of_node(tx, mine.root or 0) == "ix"
    assert trees.owner_of_node(tx, 77) is None


@pytest.mark.parametrize("summarised", [(), ("fact",)])
@pytest.mark.parametrize("n", [0, 1, 9])
def test_a_dropped_tree_takes_all_that_is_its_own(
    tx: Connection, n: int, summarised: tuple[str, ...]
) -> None:
    """Nodes, leaves and their derived rows; of another tree of the same facts nothing."""
    rows = put_facts(tx, 9)
    gone, stays = plant(tx, rows[:n], summarised=summarised), plant(tx, rows, scope=2, summarised=summarised)
    for node in ids_of(tx, "node"):
        tx.execute("INSERT INTO derived_summary VALUES (?, x'00', 'm', 'own', NULL)", (node,))
        tx.execute("INSERT INTO derived_node_vector VALUES (?, x'00', x'00')", (node,))
    trees.drop_tree(tx, gone)
    assert [head for _, _, head in trees.heads(tx)] == [stays]
    left = {tree for (tree,) in tx.execute("SELECT tree FROM node UNION SELECT tree FROM leaf")}
    assert left == {stays.tree}
    assert ids_of(tx, "node") == [row[0] for row in tx.execute("SELECT node FROM derived_summary ORDER BY 1")]
    assert ids_of(tx, "node") == [
        row[0] for row in tx.execute("SELECT item FROM derived_node_vector ORDER BY 1")
    ]


def test_an_index_is_rid_of_its_trees_alone(tx: Connection) -> None:
    """It is told how many those were."""
    rows = put_facts(tx, 5)
    for scope in (1, 2):
        plant(tx, rows, scope=scope)
    stays = plant(tx, rows, owner="other")
    for node in ids_of(tx, "node"):
        tx.execute("INSERT INTO derived_node_vector VALUES (?, x'00', x'00')", (node,))
    assert trees.drop_trees(tx, "ix") == 2
    assert trees.drop_trees(tx, "ix") == 0
    assert (trees.sizes(tx), trees.leaf_count(tx)) == ({"other": (1, 3, 5)}, 5)
    assert outline(SqliteArena(tx), stays) == "[[0 10 20] [30 40]]"
    assert value(tx, "SELECT count(*) FROM derived_node_vector") == 3


@pytest.fixture(scope="module")
def grown() -> Iterator[Connection]:
    """Two trees of one index and one of another, all clean; rolled back by whoever changes it."""
    with closing(empty_memory()) as tx:
        rows = put_facts(tx, 10)
        for owner, scope in (("ix", 1), ("ix", 2), ("other", 1)):
            plant(tx, rows, owner=owner, scope=scope)
        tx.execute("UPDATE node SET dirty = 0, version = 1")
        yield tx


@pytest.fixture
def clean(grown: Connection) -> Iterator[Connection]:
    """The trees, as they were."""
    grown.execute("SAVEPOINT test")
    yield grown
    grown.execute("ROLLBACK TO test")


def above(tx: Connection, node: int) -> set[int]:
    """Return the nodes on the way from a node to its root, that one included, by looking through all."""
    found = {node}
    for _ in range(10):
        found |= {
            one for one, packed in tx.execute("SELECT id, children FROM node") if _children(packed) & found
        }
    return found


def _children(packed: bytes) -> set[int]:
    return {int.from_bytes(packed[at : at + 4], "little") for at in range(0, len(packed), 4)}


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_mark_goes_up_to_the_root_and_nowhere_else(clean: Connection, level: int) -> None:
    """Every node on the way gets a new version, no other does."""
    node = value(clean, "SELECT max(id) FROM node WHERE level = ? AND tree = 1", level)
    trees.mark_dirty(clean, [node])
    marked = {row[0] for row in clean.execute("SELECT id FROM node WHERE dirty AND version = 2")}
    assert marked == above(clean, node)
    assert len(marked) == 4 - level
    assert value(clean, "SELECT count(*) FROM node WHERE dirty = 0 AND version != 1") == 0
    assert trees.dirty_count(clean) == trees.node_count(clean)[1] == len(marked)


def test_no_mark_is_made_for_nothing(clean: Connection) -> None:
    """Nor for a node that is not there."""
    trees.mark_dirty(clean, [])
    trees.mark_dirty(clean, [7777])
    assert trees.dirty_mark(clean) == (0, 0, 0)
    assert trees.dirty_children(clean) == {}


def test_all_nodes_are_marked_whosever_they_are(clean: Connection) -> None:
    """A second time too, as a refresh may have read them in between."""
    before = trees.dirty_mark(clean)
    marks = []
    for version in (2, 3):
        trees.mark_all_dirty(clean)
        assert clean.execute("SELECT DISTINCT dirty, version FROM node").fetchall() == [(1, version)]
        marks.append(trees.dirty_mark(clean))
    assert len({before, *marks}) == 3


def test_a_node_gets_clean_only_as_what_was_read(clean: Connection) -> None:
    """Of another version, clean already or gone, it is left, and not told."""
    ids = ids_of(clean, "node")
    trees.mark_all_dirty(clean)
    clean.execute("UPDATE node SET dirty = 0 WHERE id = ?", (ids[1],))
    asked = [(ids[0], 2), (ids[1], 2), (ids[2], 1), (ids[3], 3), (7777, 2), (ids[0], 2)]
    mark = trees.dirty_mark(clean)
    assert trees.mark_clean(clean, asked) == {ids[0]}
    assert trees.dirty_count(clean) == len(ids) - 2
    assert trees.dirty_mark(clean) != mark
    assert value(clean, "SELECT count(*) FROM node WHERE version != 2") == 0


def test_dirty_nodes_are_told_from_the_leaves_up(clean: Connection) -> None:
    """Each with its children, in order; of one index, or of all."""
    trees.mark_all_dirty(clean)
    clean.execute("UPDATE node SET dirty = 0 WHERE id = (SELECT min(id) FROM node)")
    found = trees.dirty_children(clean)
    arena = SqliteArena(clean)
    levels = [arena.get(node).level for node in found]
    assert levels == sorted(levels)
    assert all(children == arena.get(node).children for node, children in found.items())
    assert list(found) != sorted(found)
    mine = {node for node in found if trees.owner_of_node(clean, node) == "other"}
    assert set(trees.dirty_children(clean, "other")) == mine
    assert len(found) == value(clean, "SELECT count(*) FROM node") - 1


def test_trees_nodes_and_leaves_are_counted(clean: Connection) -> None:
    """By index; a tree without a leaf is one too, and what is read of one index is not of the other."""
    plant(clean, [], owner="empty")
    assert trees.sizes(clean) == {"ix": (2, 14, 20), "other": (1, 7, 10), "empty": (1, 0, 0)}
    assert trees.node_count(clean) == (51, 0)
    assert trees.leaf_count(clean) == 30


@pytest.mark.parametrize("owner", ["ix", "other", "none"])
def test_an_index_reads_its_own_rows_by_id(clean: Connection, owner: str) -> None:
    """All, or those that are asked for; another's rows are not told even when they are asked for."""
    own = {tree for tree, name in trees.owners(clean).items() if name == owner}
    for read, table in (
        (indexes.tree_rows, "tree"),
        (indexes.inner_rows, "node"),
        (indexes.leaf_rows, "leaf"),
    ):
        everything = ids_of(clean, table)
        whose = clean.execute(f"SELECT id, {'id' if table == 'tree' else 'tree'} FROM {table}").fetchall()
        mine = sorted(row for row, tree in whose if tree in own)
        assert [row[0] for row in read(clean, owner)] == mine
        some = everything[::-2]
        assert [row[0] for row in read(clean, owner, some)] == [row for row in mine if row in some]
        assert list(read(clean, owner, [])) == []


def test_the_rows_of_trees_and_nodes_say_what_is_stored(tx: Connection) -> None:
    """What a node does not have is None."""
    made = trees.put_head(tx, "ix", "month", 202405, TreeHead(0, 0))
    arena = SqliteArena(tx)
    arena.put(inner(5, made.tree, (8, 9), span=(0, 3), window="2024-05"))
    arena.put(inner(6, made.tree))
    arena.flush()
    assert indexes.tree_rows(tx, "ix") == [(made.tree, "month", 202405, None)]
    assert list(indexes.inner_rows(tx, "ix")) == [
        (5, made.tree, 1, pack_ids([8, 9]), 7, 9, 0, 3, "2024-05"),
        (6, made.tree, 1, b"", 7, 9, None, None, None),
    ]


@pytest.mark.parametrize("asked", [True, False])
def test_the_rows_of_leaves_name_turns_or_facts(tx: Connection, asked: bool) -> None:
    """A chunk by its first and last turn, a run by its own, a fact by itself; what is gone by 0."""
    _, turns = put_session(tx, texts=list("abcde"), chunk=3)
    row = put_fact(tx)
    tree = trees.put_head(tx, "ix", "x", 1, TreeHead(0, 3)).tree
    made = [
        leaf(tx, tree, "chunk", chunk_of(tx, turns[0])), leaf(tx, tree, "fact", row), leaf(tx, tree, "turn", turns[1]),
        leaf(tx, tree, "turn", turns[1], turns[4]), leaf(tx, tree, "chunk", 77),
    ]  # fmt: skip
    kinds = ["chunk", "fact", "turn", "turn", "chunk"]
    items = [(turns[0], turns[2]), (row, None), (turns[1], turns[1]), (turns[1], turns[4]), (0, 0)]
    found = indexes.leaf_rows(tx, "ix", made if asked else None)
    told = [
        (one.id, one.tree, indexes.LEAF_KINDS[one.kind], one.item, one.last if one.kind != 1 else None)
        for one in found
    ]
    assert told == [(one, tree, kind, *pair) for one, kind, pair in zip(made, kinds, items, strict=True)]
