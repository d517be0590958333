"""From a user id to a file and back: names that cannot collide or lead elsewhere, and looking that writes nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.worlds import fast_config, said

from memforest import MemForest
from memforest.errors import ForeignStoreError, StoreError
from memforest.memory.open import label_of
from memforest.store.directory import file_name, has_memory, is_own_name, memory_files, owner_of, survey

IDS = st.text(min_size=1, max_size=80).filter(lambda text: text.isprintable())


@settings(max_examples=80)
@given(IDS, IDS)
def test_every_id_has_a_file_of_its_own(one: str, other: str) -> None:
    """In small ASCII letters, so that no file system confuses two; short, and never a path."""
    names = [file_name(one), file_name(other)]
    assert (names[0] == names[1]) == (one == other)
    for name in names:
        assert name == name.lower() == Path(name).name
        assert name.isascii()
        assert len(name) <= 24 + 1 + 20 + 3
        assert is_own_name(name)


@each(
    ("user", "slug"),
    [
        ("Ana", "ana"),
        ("José García", "jose-garcia"),
        ("../../etc/passwd", "etc-passwd"),
        ("a" * 99, "a" * 24),
        ("a" * 23 + " b", "a" * 23),  # no hyphen at the end of what is cut
        ("東京", "user"),
        ("--", "user"),
        ("ana.db", "ana-db"),
    ],
)
def test_a_file_is_named_so_that_people_find_it(user: str, slug: str) -> None:
    """What of the id is plain letters and digits, then a digest of the whole id."""
    name = file_name(user)
    assert name.removesuffix(".db").rpartition("-")[0] == slug
    assert len(name.removesuffix(".db").rpartition("-")[2]) == 20


def test_ids_that_look_alike_are_apart() -> None:
    """Capitals, accents and forms of one letter make other users."""
    alike = ["ana", "Ana", "ANA", "aná", "ana ", "ana-", "a\u0301na", "\u00e1na"]
    assert len({file_name(user) for user in alike}) == len(alike)


@each(
    ("name", "own"),
    [
        ("ana-0123456789abcdef0123.db", True),
        ("a-b-0123456789abcdef0123.db", True),
        ("ana-0123456789abcdef012.db", False),
        ("ana-0123456789abcdef01234.db", False),
        ("ana-0123456789abcdef0123.db-wal", False),
        ("Ana-0123456789abcdef0123.db", False),
        (f"{'a' * 25}-0123456789abcdef0123.db", False),
        ("ana-0123456789abcdefghij.db", False),
        ("-0123456789abcdef0123.db", False),
        ("notes-of-mine.db", False),
    ],
)
def test_only_our_names_are_ours(name: str, own: bool) -> None:
    """A file that is called otherwise is somebody else's, whatever is in it."""
    assert is_own_name(name) == own


@pytest.mark.parametrize(("user", "label"), [("x" * 64, "x" * 64), ("x" * 65, "user"), ("é", "é")])
def test_a_long_id_is_no_name(user: str, label: str) -> None:
    """Up to 64 characters an id is shown as it is."""
    assert label_of(user) == label


def test_files_that_may_be_memories_are_listed(folder: Path) -> None:
    """In order, by their names alone; a directory that is not there has none, and a file is no directory."""
    for name in ("b-1.db", "a-1.db", "plain.db", "a-1.db-wal", "a-2.txt", "readme"):
        (folder / name).touch()
    (folder / "inner-1.db").mkdir()
    assert [path.name for path in memory_files(folder)] == ["a-1.db", "b-1.db", "inner-1.db"]
    assert memory_files(folder / "missing") == []
    for look in (memory_files, survey):
        with pytest.raises(StoreError):
            look(folder / "readme")
    with pytest.raises(StoreError):
        has_memory(folder / "readme", "ana")


def test_looking_at_a_directory_leaves_every_byte(folder: Path) -> None:
    """Users are told by what is in their files; copies, empty and foreign files are named or passed over."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("ana", "s", said("I live in Oslo."))
        forest.register_user("bob")
    (folder / "empty-file.db").touch()
    (folder / "foreign-file.db").write_bytes(b"hello, I am no database" * 50)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = survey(folder)
    assert found.users == ("ana", "bob")
    assert [one.file for one in found.unreadable] == ["foreign-file.db"]
    assert owner_of(folder / file_name("ana")) == "ana"
    assert owner_of(folder / "empty-file.db") is None
    assert [has_memory(folder, user) for user in ("ana", "bob", "zoe")] == [True, True, False]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_file_under_another_users_name_is_refused(folder: Path) -> None:
    """Nobody gets the memory of somebody else by a copy; the copy stays as it is."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("ana", "s", said("I live in Oslo."))
    copy = folder / file_name("eve")
    copy.write_bytes((folder / file_name("ana")).read_bytes())
    with MemForest(folder, fast_config()) as forest:
        for verb in (forest.user("eve").sessions, forest.user("eve").list):
            with pytest.raises(ForeignStoreError):
                verb()
        with pytest.raises(ForeignStoreError):
            forest.ingest_session("eve", "s", said("I live in Rome."))
        assert [one.text for one in forest.user("ana").list()] == ["I live in Oslo."]
    assert owner_of(copy) == "ana"
