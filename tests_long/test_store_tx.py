"""What a transaction has beyond the DB-API; SQL stands in the store alone, and SQLite's own SQL in few files of it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))


import memforest
from memforest.store.connections import (
    AMONG,
    AMONG_IDS,
    Connection,
    connect,
    gathered,
    listed,
    place_tie,
)

PACKAGE = Path(memforest.__file__).parent

DIALECT = {
    "backup", "connections", "contradictions", "checks", "counts", "db", "derived", "dialect", "discard",
    "disposal", "engine", "erase_counts",    "environment", "faults", "files", "gaps", "import_rows", "indexes", "publish", "recrypt", "residue", "schema",
}  # fmt: skip
"""The files of the store that may be SQLite's."""


@pytest.fixture
def tx() -> Iterator[Connection]:
    """Return a connection to an empty table."""
    with closing(connect(":memory:", 1.0)) as conn:
        conn.execute("CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, topics TEXT) STRICT")
        yield conn


@pytest.mark.parametrize(
    "wanted",
    [(), (2,), (-3, 2, -(2**63), 2**63 - 1), range(-50_000, 50_000)],
    ids=["none", "one", "ends", "many"],
)
def test_a_list_of_ids_is_one_value(tx: Connection, wanted: Iterable[int]) -> None:
    """Any number of row ids, of either sign, is bound at once; none is among no ids."""
    rows = [(-(2**63),), (-3,), (1,), (2,), (99_999,), (2**63 - 1,)]
    tx.executemany("INSERT INTO item (id) VALUES (?)", rows)
    expected = sorted({row[0] for row in rows} & set(wanted))
    found = tx.execute(f"SELECT id FROM item WHERE id {AMONG} ORDER BY id", (tx.ids(wanted),)).fetchall()
    assert [row[0] for row in found] == expected
    named = tx.execute(f"SELECT id FROM item WHERE id {AMONG_IDS} ORDER BY id", {"ids": tx.ids(wanted)})
    assert named.fetchall() == found
    assert tx.execute(f"SELECT value FROM {listed('?')}", (tx.ids(wanted),)).fetchall() == [
        (one,) for one in wanted
    ]


def test_keys_are_listed_as_they_are(tx: Connection) -> None:
    """A list may be of texts, whatever is in them; a number is not the text that looks like it."""
    keys = ["", "it's", '"], [', "\x1f\n", "Zoë \U0001f98a", "7"]
    tx.executemany("INSERT INTO item (key) VALUES (?)", [(key,) for key in keys])
    found = tx.execute(f"SELECT key FROM item WHERE key {AMONG} ORDER BY id", (tx.ids(keys),))
    assert [row[0] for row in found] == keys
    assert tx.execute(f"SELECT key FROM item WHERE key {AMONG}", (tx.ids([7]),)).fetchall() == []


def test_an_insert_returns_the_number_it_was_given(tx: Connection) -> None:
    """That is the new row's; if no row was inserted it is an error, and not the row before it."""
    sql = "INSERT INTO item (key) SELECT :key WHERE :key != '' RETURNING id"
    assert [tx.insert(sql, {"key": key}) for key in ("a", "b")] == [1, 2]
    with pytest.raises(LookupError):
        tx.insert(sql, {"key": ""})
    tx.execute("DELETE FROM item")
    tx.execute("BEGIN")
    assert tx.insert(sql, {"key": "c"}) == 3
    tx.execute("ROLLBACK")  # nothing of the statement is left open
    assert tx.execute("SELECT count(*) FROM item").fetchone()[0] == 0


def test_the_words_of_the_dialect(tx: Connection) -> None:
    """Lists in columns are read and made, and a leaf's tie is the session with the position in six digits."""
    tx.execute("""INSERT INTO item VALUES (1, 's', '["x", "y"]'), (2, 't', '[]')""")
    sql = f"SELECT i.id, t.value FROM item i, {listed('i.topics')} t"
    assert tx.execute(sql).fetchall() == [(1, "x"), (1, "y")]
    sql = f"SELECT {gathered('id')}, min({place_tie('key', 'id')}) FROM item"
    assert tx.execute(sql).fetchone() == ("[1,2]", "s\x1f000001")


def sources() -> Iterator[tuple[Path, ast.Module]]:
    """Yield every module with what it says."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE), ast.parse(path.read_text(encoding="utf-8"))


COMMANDS = {"integrations/claude.py"}
"""What executes commands of Claude's memory tool, which are no statements."""
SERVERS = {"server/keys.py", "server/jobs.py"}
"""What speaks to the files of a server's own, of keys and of jobs, which are SQLite and no memories."""


def runs_sql(node: ast.AST) -> bool:
    """Return whether an expression runs a statement."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    if node.func.attr == "insert":  # a list's begins with a number
        first = node.args[0] if node.args else None
        is_text = isinstance(first, ast.JoinedStr) or (
            isinstance(first, ast.Constant) and isinstance(first.value, str)
        )
        return is_text or (isinstance(node.func.value, ast.Name) and node.func.value.id in {"tx", "conn"})
    return node.func.attr in {"execute", "executemany", "executescript"}


def test_sql_is_run_in_the_store_alone() -> None:
    """Only `store` runs statements, and a server on files of its own."""
    running = {path.as_posix() for path, module in sources() if any(map(runs_sql, ast.walk(module)))}
    assert {path for path in running if not path.startswith("store/")} - COMMANDS == SERVERS
    assert "store/facts.py" in running
    for text in ("tx.insert(SQL)", "a.b.insert('INSERT')", "tx.executemany(f'{x}', y)"):
        assert any(map(runs_sql, ast.walk(ast.parse(text))))
