"""A file that is deleted or replaced while it is open: no write is acknowledged into nothing, nothing gone is served."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, said

from memforest import MemForest
from memforest.errors import NotFoundError, StoreReplacedError
from memforest.store import meta
from memforest.store.database import Database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps an open file where it is")

Verb = Callable[[MemForest], object]
VERBS: dict[str, Verb] = {
    "ingest": lambda forest: forest.ingest_session("u", "s3", said("I moved to Lisbon.", day=3)),
    "add": lambda forest: forest.user("u").add("I moved to Lisbon."),
    "query": lambda forest: forest.query("u", "Where?"),
    "list": lambda forest: forest.user("u").list(),
    "verify": lambda forest: forest.user("u").verify(),
    "save": lambda forest: forest.save("u"),
}


def delete(folder: Path) -> None:
    """Delete the memory, as whoever wants to forget a user does."""
    for path in folder.glob("u-*"):
        path.unlink()


def restore(folder: Path) -> None:
    """Put the backup in its place."""
    (folder / "backup").replace(file_of(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where memories go."""
    return tmp_path


@pytest.fixture
def open_forest(folder: Path) -> MemForest:
    """An open memory of two sessions, with a backup of the first."""
    forest = MemForest(folder, fast_config())
    forest.ingest_session("u", "s1", said("I live in Porto.", day=1))
    forest.save()
    shutil.copy(file_of(folder), folder / "backup")
    forest.ingest_session("u", "s2", said("My PIN is 4711.", day=2))
    return forest


def sessions(forest: MemForest) -> list[str]:
    """Return the ids of the stored sessions."""
    return [one.session_id for one in forest.user("u").sessions()]


@pytest.mark.parametrize("verb", VERBS)
def test_a_replaced_file_is_noticed_once_and_then_used(
    open_forest: MemForest, folder: Path, verb: str
) -> None:
    """The call says what has happened; the next one works on the restored file, without what came after it."""
    restore(folder)
    with open_forest as forest:
        with pytest.raises(StoreReplacedError):
            VERBS[verb](forest)
        assert sessions(forest) == ["s1"]
        assert forest.user("u").verify().ok
        forest.ingest_session("u", "s4", said("I like tea.", day=4))
    with MemForest(folder, fast_config()) as forest:
        assert sessions(forest) == ["s1", "s4"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_deleted_file_is_noticed_once_and_then_gone(
    open_forest: MemForest, folder: Path, verb: str
) -> None:
    """The call makes no new file; the next question finds no memory, the next session begins one."""
    delete(folder)
    with open_forest as forest:
        with pytest.raises(StoreReplacedError):
            VERBS[verb](forest)
        assert list(folder.glob("u-*.db")) == []
        assert forest.query("u", "What is my PIN?").evidence == ()
        with pytest.raises(NotFoundError):
            forest.user("u").verify()
        assert list(forest.users()) == []
        assert list(folder.glob("u-*.db")) == []
        forest.ingest_session("u", "s5", said("I begin again.", day=5))
        assert sessions(forest) == ["s5"]


def test_a_file_deleted_during_a_write_is_not_acknowledged(folder: Path) -> None:
    """The look before the acknowledgement is the last one: what was committed into no file is an error."""
    db = Database(folder / "u-1.db")

    def write() -> None:
        with db.write() as tx:
            tx.execute("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
            meta.put(tx, "a", "b")
            delete(folder)

    with pytest.raises(StoreReplacedError):
        write()
    db.close()
    assert list(folder.iterdir()) == []


def test_a_relative_path_is_not_mistaken_for_another_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may change its directory: the memory is where it was opened."""
    monkeypatch.chdir(folder)
    with MemForest(Path("memories"), fast_config()) as forest:
        forest.ingest_session("u", "s1", said("I live in Porto."))
        (folder / "elsewhere").mkdir()
        monkeypatch.chdir(folder / "elsewhere")
        forest.user("u").add("I like tea.")
        assert forest.user("u").verify().ok
