"""A memory can be taken out and put in elsewhere: whole or not at all, equal, and of one moment."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from tests.contract.talk import ANNA, fact, files, holding, opened, picture, said, shown, statements

from memforest import MemForest, UserMemory
from memforest.errors import CorruptStoreError, InputError, MemForestError, NotFoundError
from memforest.testing import FrozenClock


def decided(memory: UserMemory) -> None:
    """Do to a memory what people do: correct, forget, pin, delete."""
    memory.update(fact(memory, "Kestrel").fact_id, "Anna works at Harbour Press.")
    memory.forget(fact(memory, "dentist").fact_id)
    memory.pin(fact(memory, "ferrets").fact_id)
    memory.delete(turn=("may", memory.turns("may")[1].id))


@pytest.mark.parametrize("vectors", [False, True])
def test_an_import_equals_what_was_exported(anna: UserMemory, folder: Path, vectors: bool) -> None:
    """The same turns, statements, corrections and evidence; under another user id too."""
    decided(anna)
    result = anna.export(folder / "out.jsonl", vectors=vectors)
    assert (result.sessions, result.turns) == (3, 11)
    with opened(folder / "in") as other:
        got = other.user("someone").import_(folder / "out.jsonl")
        assert (got.sessions, got.turns, got.facts) == (3, 11, result.facts)
        assert picture(other.user("someone")) == picture(anna)
        assert [one.text for one in other.user("someone").list(verdict="forgotten")] == [
            "My dentist is Dr. Okafor."
        ]
        assert [one.verdict for one in holding(other.user("someone").list(), "ferrets")] == ["pinned"]
        assert other.user("someone").verify().ok


def test_an_import_keeps_the_three_times(anna: UserMemory, folder: Path) -> None:
    """What was known when is known of the import too."""
    anna.export(folder / "out.jsonl")
    with opened(folder / "in") as other:
        other.user("anna").import_(folder / "out.jsonl")
        for when in ({"known_at": "2024-04-01"}, {"said_by": "2024-04-01"}, {"as_of": "2024-03-20"}):
            assert statements(other.user("anna"), **when) == statements(anna, **when)


def test_an_import_goes_on_as_the_memory_would(anna: UserMemory, folder: Path) -> None:
    """What is said later makes of both the same."""
    anna.export(folder / "out.jsonl")
    with opened(folder / "in") as other:
        other.user("anna").import_(folder / "out.jsonl")
        for memory in (anna, other.user("anna")):
            memory.add(said("I moved to Bruges."), session_id="new")
        assert picture(other.user("anna")) == picture(anna)


def test_an_export_is_lines_of_json(anna: UserMemory, folder: Path) -> None:
    """Any program can read it: UTF-8, an object a line; and a stream gets the same bytes as a file."""
    anna.export(folder / "out.jsonl")
    raw = (folder / "out.jsonl").read_bytes()
    rows = [json.loads(line) for line in raw.decode().splitlines()]
    assert all(isinstance(one, dict) for one in rows)
    assert "marmalade77" in raw.decode()
    stream = io.BytesIO()
    anna.export(stream)
    assert len(stream.getvalue().splitlines()) == len(rows)


def test_an_export_is_private_and_overwrites_nothing(anna: UserMemory, folder: Path) -> None:
    """Only its owner reads it; a file that is there stays as it is unless it is said otherwise."""
    target = folder / "out.jsonl"
    anna.export(target)
    assert target.stat().st_mode & 0o077 == 0
    target.write_text("mine")
    with pytest.raises(InputError):
        anna.export(target)
    assert target.read_text() == "mine"
    anna.export(target, overwrite=True)
    assert target.read_text() != "mine"
    with pytest.raises(InputError):
        anna.export(folder / "no such directory" / "out.jsonl")
    assert [name for name in files(folder) if "out" in name] == ["out.jsonl"]


def test_a_damaged_export_is_refused_whole(anna: UserMemory, folder: Path) -> None:
    """Cut, changed, empty, or no export at all: an error of ours, and no user is made."""
    anna.export(folder / "out.jsonl")
    raw = (folder / "out.jsonl").read_bytes()
    lines = raw.splitlines(keepends=True)
    damaged = {
        "cut": raw[: len(raw) // 2],
        "without its last line": b"".join(lines[:-1]),
        "a line twice": b"".join([*lines[:3], lines[2], *lines[3:]]),
        "a word changed": raw.replace(b"marmalade77", b"marmalade78"),
        "empty": b"",
        "something else": b"%PDF-1.4\n\xff\xfe\x00",
        "other JSON": b'{"a": 1}\n',
    }
    with opened(folder / "in") as other:
        kept = []
        for name, content in damaged.items():
            try:
                other.user("anna").import_(io.BytesIO(content))
            except MemForestError:
                continue
            kept.append(name)
        assert kept == []
        assert other.list_users() == []
        other.user("anna").import_(io.BytesIO(raw))
        assert picture(other.user("anna")) == picture(anna)


def test_an_import_is_only_into_a_new_memory(anna: UserMemory, folder: Path) -> None:
    """A memory that holds something is not overwritten, and not mixed."""
    anna.export(folder / "out.jsonl")
    before = picture(anna)
    with pytest.raises(InputError):
        anna.import_(folder / "out.jsonl")
    assert picture(anna) == before


def test_taking_out_what_is_not_there_is_an_error(forest: MemForest, folder: Path) -> None:
    """Of a user without a memory there is no export and no backup, and no file is made."""
    for call in (
        lambda: forest.user("nobody").export(folder / "x"),
        lambda: forest.user("nobody").backup(folder / "x"),
        lambda: forest.backup(folder / "x", "nobody"),
    ):
        with pytest.raises(NotFoundError):
            call()
    assert not files(folder)
    with pytest.raises(InputError):
        forest.user("nobody").import_(folder / "nothing.jsonl")
    with pytest.raises(InputError):
        forest.restore(folder / "nothing.backup")
    assert forest.list_users() == []


def test_a_backup_is_a_memory(woods: MemForest, anna: UserMemory, folder: Path) -> None:
    """One memory into a file, or all into a directory that is one of memories too; the same is found in it."""
    decided(anna)
    woods.user("ben").add(said("I live in Porto.", speaker="Ben"), session_id="s")
    one = anna.backup(folder / "anna.backup")
    assert (one.sessions, one.turns) == (3, 11)
    assert sorted(one.user_id for one in woods.backup(folder / "all")) == ["anna", "ben"]
    with opened(folder / "all") as other:
        assert other.list_users() == ["anna", "ben"]
        assert picture(other.user("anna")) == picture(anna)
    with opened(folder / "new") as other:
        assert other.restore(folder / "anna.backup") == "anna"
        assert picture(other.user("anna")) == picture(anna)
        assert other.user("anna").verify().ok


def test_a_backup_is_of_its_moment(anna: UserMemory, folder: Path) -> None:
    """What is written later is not in it, and it can be restored twice."""
    before = picture(anna)
    anna.backup(folder / "b")
    anna.add(said("I moved to Bruges."), session_id="new")
    for name in ("x", "y"):
        with opened(folder / name) as other:
            other.restore(folder / "b")
            assert picture(other.user("anna")) == before


def test_nothing_is_overwritten_by_backup_and_restore(
    anna: UserMemory, woods: MemForest, folder: Path
) -> None:
    """A file or a memory that is there is an InputError, and stays as it is."""
    anna.backup(folder / "b")
    with pytest.raises(InputError):
        anna.backup(folder / "b")
    anna.backup(folder / "b", overwrite=True)
    anna.add(said("I moved to Bruges."), session_id="new")
    with pytest.raises(InputError):
        woods.restore(folder / "b")
    assert holding(anna.list(), "Bruges")
    with pytest.raises(InputError):
        woods.backup(folder / "world")


def test_a_damaged_backup_is_not_restored(anna: UserMemory, folder: Path) -> None:
    """A file that is torn or no memory is an error of ours, and no user is made."""
    anna.backup(folder / "b")
    raw = (folder / "b").read_bytes()
    (folder / "torn").write_bytes(raw[: len(raw) // 2])
    (folder / "holes").write_bytes(raw[:8192] + b"\xff" * 40_000 + raw[48_192:])
    (folder / "text").write_text("no memory")
    with opened(folder / "new") as other:
        for name in ("torn", "holes", "text"):
            with pytest.raises(MemForestError):
                other.restore(folder / name)
        assert other.list_users() == []


def test_a_file_of_messages_is_read(forest: MemForest, folder: Path) -> None:
    """Each session is stored; the same file again changes nothing; a longer one adds what is new."""
    messages = [
        {"role": "user", "content": "I own a kiln.", "timestamp": "2024-05-01T10:00:00Z"},
        {"role": "assistant", "content": "How nice.", "timestamp": "2024-05-01T10:01:00Z"},
    ]
    file = folder / "chat.json"
    file.write_text(json.dumps(messages))
    memory = forest.user("u")
    first = memory.import_file(file, session_id="chat")
    assert (first.memories[0].turns_added, list(first.problems)) == (2, [])
    before = picture(memory)
    assert memory.import_file(file, session_id="chat").memories[0].sessions_unchanged == 1
    assert picture(memory) == before
    file.write_text(
        json.dumps(
            [*messages, {"role": "user", "content": "I own a loom.", "timestamp": "2024-05-01T10:02:00Z"}]
        )
    )
    assert memory.import_file(file, session_id="chat").memories[0].turns_added == 1
    assert [text for *_, text in shown(memory)["chat"]] == ["I own a kiln.", "How nice.", "I own a loom."]
    assert holding(memory.list(), "kiln")
    assert holding(memory.list(), "loom")
    assert memory.verify().ok


def test_importing_makes_the_memory_that_adding_makes(forest: MemForest, folder: Path) -> None:
    """The same messages by file and by call are the same memory."""
    turns = [{"speaker": who, "timestamp": at, "content": text} for who, at, text in ANNA["march"]]
    (folder / "chat.json").write_text(json.dumps(turns))
    forest.user("a").import_file(folder / "chat.json", session_id="march")
    forest.ingest_session("b", "march", turns)
    assert picture(forest.user("a")) == picture(forest.user("b"))


def test_a_dry_run_of_an_import_stores_nothing(forest: MemForest, folder: Path) -> None:
    """It counts what the file holds."""
    (folder / "chat.json").write_text(json.dumps(said("I own a kiln.", "I own a loom.")))
    found = forest.user("u").import_file(folder / "chat.json", dry_run=True)
    assert found.dry_run
    assert found.files[0].turns == 2
    assert forest.list_users() == []


def test_parts_that_cannot_be_read_are_named(forest: MemForest, folder: Path) -> None:
    """Everything else is stored; a file that is none of the formats is an InputError, and nothing is."""
    good = said("I own a kiln.", "I own a loom.")
    (folder / "chat.jsonl").write_text("\n".join([json.dumps(good[0]), "{broken", json.dumps(good[1])]))
    result = forest.user("u").import_file(folder / "chat.jsonl", session_id="s")
    assert len(result.problems) == 1
    assert [text for *_, text in shown(forest.user("u"))["s"]] == ["I own a kiln.", "I own a loom."]
    (folder / "noise.bin").write_bytes(bytes(range(256)) * 20)
    for wrong in (folder / "noise.bin", folder / "nothing.json"):
        with pytest.raises(InputError):
            forest.user("v").import_file(wrong)
    assert forest.list_users() == ["u"]


def test_a_damaged_memory_makes_no_backup(world: Path, folder: Path, clock: FrozenClock) -> None:
    """The error says that it is damaged, and a backup that is there stays as it is."""
    with opened(world, clock) as forest:
        forest.user("anna").backup(folder / "b")
    kept = (folder / "b").read_bytes()
    [name] = [name for name, raw in files(world).items() if len(raw) > 50_000]
    raw = (world / name).read_bytes()
    (world / name).write_bytes(raw[:8192] + b"\xff" * 80_000 + raw[88_192:])
    with opened(world, clock) as forest, pytest.raises(CorruptStoreError):
        forest.user("anna").backup(folder / "b", overwrite=True)
    assert (folder / "b").read_bytes() == kept
