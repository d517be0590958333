"""Memories that earlier versions wrote, opened with this one; `scripts/stored_files.py` says how they were made."""

from __future__ import annotations

import gzip
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.power import contents
from tests_long.test_schema import schema
from tests_long.worlds import differences, dump, fast_config, file_of, rows

from memforest import MemForest
from memforest.errors import StoreError
from memforest.memory.directory import file_name
from memforest.store import migrations
from memforest.store.tx import Tx

FOLDER = Path(__file__).parent / "data" / "stored"
STORED = sorted(FOLDER.glob("*.db.gz"))
KNOWN = [migration.__name__ for migration in migrations.MIGRATIONS]

SAID = {
    "may": [
        "I moved from Davis to Miami last week.",
        "Zoë works at Acme now.",
        "I bought a red car yesterday.",
    ],
    "june": [
        "I live in Oslo now.",
        "Me mudé a Madrid el mes pasado.",
        "I don't like the car any more.",
        "我住在北京。",
    ],
    "july": ["Zoë and I adopted two cats.", "I work at Globex now. I live in Oslo."],
}

each = pytest.mark.parametrize("stored", STORED, ids=lambda path: path.name.split(".")[0])


def unpacked(stored: Path, folder: Path) -> Path:
    """Put a stored memory into a directory."""
    path = folder / file_name("u")
    path.write_bytes(gzip.decompress(stored.read_bytes()))
    return path


def turns(month: int, texts: list[str]) -> list[dict[str, Any]]:
    """Return turns as the stored memories were given them."""
    return [
        {
            "speaker": "Ana" if at % 2 == 0 else "Bob",
            "content": text,
            "timestamp": f"2023-{month:02}-03T10:{at:02}:00Z",
        }
        for at, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What this version makes of the same conversation."""
    folder = tmp_path_factory.mktemp("new")
    with MemForest(folder, fast_config()) as forest:
        for month, (name, texts) in enumerate(SAID.items(), 5):
            forest.ingest_session("u", name, turns(month, texts))
        forest.flush()
    return dump(file_of(folder))


def test_there_is_one_of_every_schema() -> None:
    """But of the newest, which is this version's, and of two that were never committed without the next."""
    wanted = [name for name in KNOWN[:-1] if name not in ("m0003_scale", "m0009_indexes")]
    assert [path.name.split(".")[0] for path in STORED] == wanted


@each
def test_a_stored_memory_is_of_its_schema(stored: Path, folder: Path) -> None:
    """It was written by the code of its time, not by today's."""
    path = unpacked(stored, folder)
    had = [name for (name,) in rows(path, "SELECT name FROM migration")]
    assert had == KNOWN[: KNOWN.index(stored.name.split(".")[0]) + 1]


@each
def test_all_that_was_said_is_there(stored: Path, folder: Path) -> None:
    """The memory is sound, is searched and written as any other."""
    path = unpacked(stored, folder)
    with MemForest(folder, fast_config()) as forest:
        user = forest.user("u")
        assert user.verify().problems == ()
        assert [one.session_id for one in user.sessions()] == list(SAID)
        shown = user.search("Where does Ana live?", top_k=50)
        quoted = {(source.session_id, e.quote) for e in shown.evidence for source in e.sources}
        assert {(name, text) for name, texts in SAID.items() for text in texts} <= quoted
        assert "Oslo" in shown.evidence[0].quote
        for month, (name, texts) in enumerate(SAID.items(), 5):
            assert forest.ingest_session("u", name, turns(month, texts)).turns_added == 0
        assert forest.ingest_session("u", "new", turns(8, ["I moved to Rome."])).turns_added == 1
        assert forest.resume("u") == []
        assert user.verify().problems == ()
    assert [name for (name,) in rows(path, "SELECT name FROM migration")] == KNOWN


@each
def test_made_anew_it_is_as_this_version_makes_it(stored: Path, folder: Path, new: dict[str, Any]) -> None:
    """What older rules made is stale; read again, nothing tells the memory from a new one."""
    path = unpacked(stored, folder)
    with MemForest(folder, fast_config()) as forest:
        user = forest.user("u")
        assert user.stale().sessions in (0, len(SAID))  # 0 while the rules are those of the file's time
        user.rebuild(stale=True)
        user.rebuild(scopes=True)
        assert user.verify().problems == ()
        assert not user.stale()
    assert differences(new, dump(path)) == {}


@each
def test_the_schema_is_that_of_a_new_memory(stored: Path, folder: Path, tmp_path: Path) -> None:
    """Tables, indexes and triggers."""
    path = unpacked(stored, folder)
    for place in (folder, tmp_path):
        with MemForest(place, fast_config()) as forest:
            forest.register_user("u")
    assert schema(path) == schema(file_of(tmp_path))


@each
def test_an_upgrade_that_fails_leaves_the_old_file(
    stored: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the last step undoes all of them; the next opening upgrades."""
    path = unpacked(stored, folder)
    before = contents(path)

    def fails(_tx: Tx) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(migrations.apply, "__defaults__", ((*migrations.MIGRATIONS[:-1], fails),))
        with MemForest(folder, fast_config()) as forest, pytest.raises(StoreError):
            forest.query("u", "Where does Ana live?")
    assert contents(path) == before
    with MemForest(folder, fast_config()) as forest:
        assert forest.user("u").verify().ok


@pytest.mark.skipif(sys.platform == "win32", reason="forks, and kills with a signal")
@each
def test_an_upgrade_that_is_killed_leaves_the_old_file(
    stored: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whatever step the process dies."""
    path = unpacked(stored, folder)
    before = contents(path)
    pending = len(KNOWN) - KNOWN.index(stored.name.split(".")[0]) - 1
    for at in {1, pending}:

        def dies(_tx: Tx) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        steps = [*migrations.MIGRATIONS]
        steps[-at] = dies
        dies.__name__ = KNOWN[-at]
        child = os.fork()
        if child == 0:
            monkeypatch.setattr(migrations.apply, "__defaults__", (steps,))
            with MemForest(folder, fast_config()) as forest:
                forest.load("u")
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        assert contents(path) == before
    with MemForest(folder, fast_config()) as forest:
        assert forest.user("u").verify().ok
