"""The schema is what is written down: every table, index, trigger and view of a new file, and of one that was upgraded.

`make docs` writes `tests_long/data/schema.txt` anew, whose difference then says what a change did to the schema.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, make_sessions, older_file

from memforest import MemForest

STORED = Path(__file__).parent / "data" / "schema.txt"
OF_SQLITE = re.compile(r"sqlite_|derived_\w+_words_(data|idx|content|docsize|config)$")
"""What SQLite and FTS5 make for themselves; see https://www.sqlite.org/fts5.html#fts5_data_structures."""


def schema(path: Path) -> list[str]:
    """Return a line for each thing in a file's schema: its kind, name, table, and a digest of its normalised SQL."""
    with closing(sqlite3.connect(path)) as conn:
        found = conn.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    return sorted(
        f"{kind} {name} {table} {blake2b(normalised(sql).encode(), digest_size=8).hexdigest()}"
        for kind, name, table, sql in found
        if not OF_SQLITE.match(name)
    )


def normalised(sql: str) -> str:
    """Return SQL without what means nothing: comments, quotes around names, and spaces but those between words."""
    words = re.sub(r"--[^\n]*", "", sql).replace('"', "").split()
    return re.sub(r" ?([(),;=<>!]) ?", r"\1", " ".join(words))


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a few sessions, made by the migrations of this version."""
    folder = tmp_path_factory.mktemp("new")
    with MemForest(folder, fast_config()) as forest:
        for name, turns in make_sessions(3, sessions=2):
            forest.ingest_session("u", name, turns)
    return file_of(folder)


def test_the_schema_of_a_new_file_is_the_one_written_down(new: Path) -> None:
    """A table, index, trigger or view that is dropped, added or changed is seen."""
    found = schema(new)
    if "MEMFOREST_WRITE_DOCS" in os.environ:
        STORED.write_text("\n".join(found) + "\n", encoding="utf-8")
    assert found == STORED.read_text(encoding="utf-8").splitlines(), "see `make docs`"


def test_every_kind_of_thing_is_written_down(new: Path) -> None:
    """The list has indexes and triggers too, not tables alone."""
    kinds = {line.split()[0] for line in schema(new)}
    assert kinds >= {"table", "index", "trigger"}


@pytest.mark.parametrize(
    "before",
    ["m0005_spent", "m0006_integrity", "m0007_compact", "m0008_lean", "m0009_indexes"],
)
def test_an_upgraded_file_has_the_schema_of_a_new_one(new: Path, tmp_path: Path, before: str) -> None:
    """Whichever version wrote it, opening it for writing leaves the very same tables, indexes and triggers."""
    old = tmp_path / new.name
    older_file(new, old, before)
    assert schema(old) != schema(new)
    with MemForest(tmp_path, fast_config()) as forest:
        forest.user("u").add("I live in Oslo.", session_id="live")
    assert schema(old) == schema(new)
