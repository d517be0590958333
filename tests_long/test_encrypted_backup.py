"""Backups of encrypted memories: encrypted with the same key, without the salt, and restored with it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))


from tests_long.test_encryption import encrypted
from tests_long.worlds import fast_config

from memforest import InputError, MemForest
from memforest.config import Config
from memforest.errors import StoreKeyError

pytestmark = encrypted

KEY = bytes(range(32))
TURN = [{"speaker": "Bo", "text": "I moved to Porto last week.", "timestamp": "2024-02-05T10:00:00Z"}]


def _config(key: bytes | None = KEY) -> Config:
    return fast_config(key=key)


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of the encrypted memory of "ana" in the directory "memory", under another name than the memory's."""
    with MemForest(tmp_path / "memory", _config()) as forest:
        forest.ingest_session("ana", "monday", TURN)
        assert forest.user("ana").backup(tmp_path / "ana.backup").turns == 1
    return tmp_path / "ana.backup"


def _salt(directory: Path) -> Path:
    (found,) = directory.glob("*-salt")
    return found


def _restored(directory: Path, source: Path, key: bytes | None = KEY) -> str:
    with MemForest(directory, _config(key)) as forest:
        assert forest.restore(source) == "ana"
        assert forest.user("ana").verify().ok
        return forest.user("ana").turns("monday")[0].text


def test_a_backup_is_encrypted_and_the_salt_is_not_beside_it(backup: Path) -> None:
    """Not a word of it can be read, and there is no file beside it."""
    assert b"Porto" not in backup.read_bytes()
    assert b"SQLite format" not in backup.read_bytes()
    assert [one.name for one in backup.parent.iterdir() if one.is_file()] == ["ana.backup"]


def test_a_backup_is_restored_with_the_salt_beside_it(backup: Path, tmp_path: Path) -> None:
    """The salt is put beside the memory."""
    shutil.copy(_salt(tmp_path / "memory"), tmp_path / "ana.backup-salt")
    assert _restored(tmp_path / "new", backup) == TURN[0]["text"]
    assert _salt(tmp_path / "new").stat().st_mode & 0o077 == 0


def test_a_backup_is_restored_where_the_salt_of_the_lost_memory_still_is(tmp_path: Path) -> None:
    """Under the memory's own file name it finds the salt in the directory."""
    directory = tmp_path / "memory"
    with MemForest(directory, _config()) as forest:
        forest.ingest_session("ana", "monday", TURN)
        (done,) = forest.backup(tmp_path / "backups")
    (file,) = directory.glob("*.db")
    file.unlink()
    assert _restored(directory, Path(done.path)) == TURN[0]["text"]


def test_a_backup_of_before_a_new_key_is_restored_with_the_old_key(backup: Path, tmp_path: Path) -> None:
    """The salt has stayed the same; that beside the restored memory names the old key."""
    new = bytes(32 * [7])
    with MemForest(tmp_path / "memory", _config()) as forest:
        (own,) = (one.name for one in (tmp_path / "memory").glob("*.db"))
        backup = backup.rename(backup.with_name(own))
        forest.rekey(new)
    (tmp_path / "memory" / own).unlink()
    assert _restored(tmp_path / "memory", backup) == TURN[0]["text"]


def test_without_the_salt_no_key_restores_it(backup: Path, tmp_path: Path) -> None:
    """The error says what is missing, and nothing is made."""
    with MemForest(tmp_path / "new", _config()) as forest, pytest.raises(StoreKeyError, match="salt"):
        forest.restore(backup)
    assert not list((tmp_path / "new").glob("*.db*"))


@pytest.mark.parametrize("key", [None, bytes(32 * [9])])
def test_without_its_key_it_is_refused(backup: Path, tmp_path: Path, key: bytes | None) -> None:
    """No key, or another one: nothing is made."""
    shutil.copy(_salt(tmp_path / "memory"), tmp_path / "ana.backup-salt")
    with MemForest(tmp_path / "new", _config(key)) as forest, pytest.raises(StoreKeyError):
        forest.restore(backup)
    assert not list((tmp_path / "new").glob("*.db*"))


def test_a_plain_backup_is_refused_where_a_key_is_configured(tmp_path: Path) -> None:
    """Nothing comes unencrypted among encrypted memories by accident."""
    with MemForest(tmp_path / "plain", _config(None)) as forest:
        forest.ingest_session("ana", "monday", TURN)
        forest.user("ana").backup(tmp_path / "ana.backup")
    with (
        MemForest(tmp_path / "new", _config()) as forest,
        pytest.raises(StoreKeyError),
    ):
        forest.restore(tmp_path / "ana.backup")
    assert not list((tmp_path / "new").glob("*.db*"))


def test_the_salt_of_another_memory_is_not_overwritten(backup: Path, tmp_path: Path) -> None:
    """With it older backups would be lost."""
    (tmp_path / "new").mkdir()
    own = _salt(tmp_path / "memory")
    shutil.copy(own, tmp_path / "ana.backup-salt")
    with MemForest(tmp_path / "other", _config()) as forest:
        forest.ingest_session("ana", "monday", TURN)
    other = shutil.copy(_salt(tmp_path / "other"), tmp_path / "new" / own.name)
    before = Path(other).read_bytes()
    with (
        MemForest(tmp_path / "new", _config()) as forest,
        pytest.raises(InputError),
    ):
        forest.restore(backup)
    assert Path(other).read_bytes() == before


def test_an_export_is_imported_into_an_encrypted_memory(tmp_path: Path) -> None:
    """And one that is refused leaves no memory behind."""
    with MemForest(tmp_path / "plain", _config(None)) as forest:
        forest.ingest_session("ana", "monday", TURN)
        forest.user("ana").export(tmp_path / "ana.jsonl")
    with MemForest(tmp_path / "new", _config()) as forest:
        assert forest.user("ana").import_(tmp_path / "ana.jsonl").turns == 1
        assert forest.user("ana").turns("monday")[0].text == TURN[0]["text"]
        (tmp_path / "torn.jsonl").write_bytes((tmp_path / "ana.jsonl").read_bytes()[:-40])
        with pytest.raises(InputError):
            forest.user("bo").import_(tmp_path / "torn.jsonl")
        assert forest.list_users() == ["ana"]


@pytest.mark.parametrize("key", [KEY, bytes(32 * [9]), None])
def test_deleting_a_memory_erases_its_salt_first(backup: Path, tmp_path: Path, key: bytes | None) -> None:
    """So that no backup of it can be opened any more; whoever has lost the key can delete it too."""
    with MemForest(tmp_path / "memory", _config(key)) as forest:
        assert forest.delete_user("ana").gone["files"] >= 2
    assert not list((tmp_path / "memory").glob("*.db*"))
    with MemForest(tmp_path / "memory", _config()) as forest:
        with pytest.raises(StoreKeyError, match="salt"):
            forest.restore(backup)
        forest.ingest_session("ana", "monday", TURN)  # with a salt of its own
        assert forest.user("ana").verify().ok
    (file,) = (tmp_path / "memory").glob("*.db")
    file.unlink()
    with MemForest(tmp_path / "memory", _config()) as forest, pytest.raises(StoreKeyError):
        forest.restore(backup.rename(backup.with_name(file.name)))


def test_what_an_encrypted_file_says_by_chance_is_not_what_was_deleted(tmp_path: Path) -> None:
    """Two letters stand somewhere in its random bytes; what is long enough would still be found in them."""
    with MemForest(tmp_path, _config()) as forest:
        forest.ingest_session("ana", "monday", TURN)
        forest.flush()
        (file,) = tmp_path.glob("*.db")
        raw = file.read_bytes().lower()
        letters = next(
            one for first in "qxzjkvw" for second in "qxzjkvw" if (one := first + second).encode() in raw
        )
        assert forest.user("ana").verify(deleted=[letters]).ok
        (file.parent / f"{file.name}-left").write_bytes(b"\x00I moved to Porto\x00")
        assert not forest.user("ana").verify(deleted=["I moved to Porto"]).ok


def test_deleting_from_an_encrypted_memory_leaves_nothing_in_it(tmp_path: Path) -> None:
    """`verify(deleted=...)` reads the rows with the key."""
    with MemForest(tmp_path / "memory", _config()) as forest:
        forest.ingest_session("ana", "monday", TURN)
        forest.ingest_session("ana", "tuesday", [{**TURN[0], "text": "I have two cats."}])
        ana = forest.user("ana")
        assert not ana.verify(deleted=["Porto"]).ok
        assert forest.delete_session("ana", "monday").gone["turns"] == 1
        assert ana.verify(deleted=["Porto"]).ok
        assert [one.session_id for one in ana.sessions()] == ["tuesday"]
