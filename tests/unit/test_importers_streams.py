"""Reading files of any size and any damage: JSON value by value, text by its encoding, archives within bounds."""

from __future__ import annotations

import io
import json
import os
import threading
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import InputError
from memforest.importers import FileSession, Format, ReadOptions, Skips, add_format, detect, open_chat
from memforest.importers import files as source
from memforest.importers.files import MOST_DEPTH, PIECE, STEP, FileReader, JsonEndError, JsonStream

HI = {"role": "user", "content": "Grüße ☕", "timestamp": "2024-05-01T10:00:00Z"}


def read(file: Any, name: str | None = "chat", **options: Any) -> tuple[list[FileSession], list[str]]:
    """Return a file's sessions, and what could not be read."""
    skips = Skips()
    with open_chat(io.BytesIO(file) if isinstance(file, bytes) else file, name=name, **options) as chat:
        return list(chat.sessions(ReadOptions(), skips)), [str(one) for one in skips.wrong]


def packed(files: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", how) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def pieces(text: str, size: int) -> list[str]:
    """Cut a text."""
    return [text[at : at + size] for at in range(0, len(text), size)]


@given(st.lists(values, max_size=6), st.integers(1, 9), st.booleans(), st.sampled_from([None, 1]))
@settings(max_examples=150, deadline=None)
def test_a_list_in_pieces_is_the_list(
    value: list[Any], size: int, ascii_only: bool, indent: int | None
) -> None:
    """Wherever the pieces end: in a word, a number, an escape; read, or passed over element by element."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    faults: list[Any] = []
    stream = JsonStream(pieces(text, size), lambda *fault: faults.append(fault))
    assert [one for _, one in stream.values()] == value
    assert stream.peek() == ""
    assert len(list(JsonStream(pieces(text, size), lambda *fault: faults.append(fault)).elements())) == len(
        value
    )
    assert faults == []


@given(st.lists(values, min_size=1, max_size=6), st.data(), st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_a_list_that_is_cut_off_is_named(value: list[Any], data: st.DataObject, size: int) -> None:
    """What was whole before is read; only a number at the very end may be cut and look whole."""
    text = json.dumps(value)
    cut = data.draw(st.integers(1, len(text) - 1))
    faults: list[Any] = []
    got = [
        one for _, one in JsonStream(pieces(text[:cut], size), lambda *fault: faults.append(fault)).values()
    ]
    assert [reason for _, reason in faults if "cut off" in reason]
    assert got[:-1] == value[: max(0, len(got) - 1)]


@each(
    ("text", "got", "reason"),
    [
        ('[{"a": 1}, {"a": }, {"b": 2}]', [{"a": 1}], "unallowed token"),
        ("[1,\n2 3,\n4]", [1, 2], "after array element"),
        ("[1,]", [1], "unallowed token"),
        ('["c", "a\nb"]', ["c"], "invalid character inside string"),
        ("[1, 2} 3]", [1, 2], "after array element"),
        ("[1, 2] 3", [1, 2], "trailing garbage"),
        ("[1, NaN]", [1], "invalid char"),
        (f"[1, {'9' * 50}]", [1], "integer overflow"),
        ("[1, 1e400]", [1], "overflow"),
        (f"[1, {'[' * MOST_DEPTH}{']' * MOST_DEPTH}]", [1], "too deeply"),
    ],
)
def test_what_is_whole_before_a_fault_is_read(text: str, got: list[Any], reason: str) -> None:
    """And the fault is named once, with its place."""
    faults: list[tuple[str, str]] = []
    stream = JsonStream([" " * 5 * STEP + text], lambda *fault: faults.append(fault))
    assert [one for _, one in stream.values()] == got
    assert stream.peek() == ""
    assert [place for place, _ in faults] == [f"byte {5 * STEP + (len(text) if text[-1] == '3' else 0):,}"]
    assert reason in faults[0][1]


def test_numbers_are_those_that_python_reads() -> None:
    """Up to 64 bits."""
    text = "[9223372036854775807, 1.5, 1e2, -0.0]"
    (found,) = [[one for _, one in JsonStream([text], print).values()]]
    assert (found, [type(one) for one in found]) == (json.loads(text), [int, float, float, float])


def test_an_object_is_read_field_by_field() -> None:
    """Fields that nobody asks for are passed over, however large."""
    text = json.dumps({"a": [1, {"b": '"}]'}], "c": {"d": [2, 3]}, "e": 4})
    stream = JsonStream(pieces(text, 3), print)
    found = {key: stream.value() for key in stream.fields() if key != "a"}
    assert found == {"c": {"d": [2, 3]}, "e": 4}
    faults: list[Any] = []
    broken = JsonStream(['{"b": 2, "c": }'], lambda *fault: faults.append(fault))
    fields = broken.fields()
    assert [next(fields), broken.value(), next(fields)] == ["b", 2, "c"]
    with pytest.raises(JsonEndError):
        broken.value()
    assert (list(fields), len(faults)) == ([], 1)


def test_a_part_that_is_left_is_passed_over() -> None:
    """Where the caller goes on before it has read a list to its end."""
    stream = JsonStream(['{"a": [[1, 2], {"x": 3}], "b": 4}'], print)
    found = []
    for key in stream.fields():
        found.append(key)
        for _ in stream.elements():
            break
    assert found == ["a", "b"]


class Endless(io.RawIOBase):
    """A file of two lists' brackets and so many messages between them, made while it is read."""

    def __init__(self, count: int, begin: bytes, item: bytes, end: bytes) -> None:
        self._left = self._bytes(count, begin, item, end)
        self._rest = b""

    def _bytes(self, count: int, begin: bytes, item: bytes, end: bytes) -> Iterator[bytes]:
        yield begin
        block = b",".join([item] * 100)
        for _ in range(count // 100 - 1):
            yield block + b","
        yield block + end

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        while len(self._rest) < size and (more := next(self._left, b"")):
            self._rest += more
        got, self._rest = self._rest[:size], self._rest[size:]
        return got


CONVERSATION = json.dumps(
    {"chat_messages": [{"sender": "human", "text": "x" * 2000, "created_at": "2024-05-01"}] * 5}
).encode()
MESSAGE = json.dumps(
    {"id": 1, "type": "message", "date": "2024-05-01T10:00:00", "from": "Ana", "text": "y" * 1000}
).encode()


@pytest.mark.parametrize(
    ("name", "begin", "item", "end"),
    [
        ("claude", b"[", CONVERSATION, b"]"),
        ("telegram", b'{"chats": {"list": [{"messages": [1], "left": [', MESSAGE, b"]}]}}"),
        ("messages", b'{"user": "ana", "extra": [', MESSAGE, b'], "sessions": []}'),
    ],
)
def test_a_large_file_is_never_held(name: str, begin: bytes, item: bytes, end: bytes) -> None:
    """Thirty megabytes and more are read in the memory of a few pieces."""
    count = 3_000 if name == "claude" else 30_000
    large = source.SourceFile("large.json", lambda: Endless(count, begin, item, end))  # type: ignore[arg-type, return-value]
    part = detect.format_named(name)
    assert part.read is not None
    skips = Skips()
    tracemalloc.start()
    try:
        reading = FileReader(large, ReadOptions(), skips, "array" if name == "claude" else "object")
        turns = sum(len(one.turns) for one in part.read(reading))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert turns == (15_000 if name == "claude" else 0)
    assert peak < 16 * PIECE
    assert count * len(item) > 25 * PIECE


@each("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@each("form", ["json", "jsonl", "csv"])
def test_encodings_by_their_byte_order_marks(encoding: str, form: str) -> None:
    """Editors and spreadsheets of Windows write UTF-16, and marks before UTF-8."""
    text = {
        "json": json.dumps([HI], ensure_ascii=False),
        "jsonl": "\n".join([json.dumps(HI, ensure_ascii=False)] * 2),
        "csv": f"role;content;timestamp\r\nuser;{HI['content']};2024-05-01\r\n",
    }[form]
    (session,), wrong = read(text.encode(encoding))
    assert (session.turns[0]["content"], wrong) == (HI["content"], [])


def test_bytes_that_are_no_utf8_are_named_with_their_line() -> None:
    """The line that has them is left out; in JSON, the message, when it comes to be stored."""
    lines = [json.dumps({**HI, "content": f"number {n}"}).encode() for n in range(4)]
    lines[2] = lines[2].replace(b"number", b"n\xfcmber \xfc")
    (session,), wrong = read(b"\n".join(lines))
    assert [turn["content"] for turn in session.turns] == ["number 0", "number 1", "number 3"]
    assert wrong == ["line 3: some bytes are not UTF-8; save the file as UTF-8"]
    _, wrong = read(b"[" + b",\n".join(lines) + b"]")
    assert wrong == ["line 3: some bytes are not UTF-8; save the file as UTF-8"]


def test_lines_of_a_log_that_cannot_be_read() -> None:
    """Broken bytes, a NUL, half a UTF-16 character: each line is named, and the others are read."""
    log = (
        b"2024-05-01 10:00 Ana: one\n2024-05-01 10:01 Ana: tw\xff\n"
        + b"x" * (1 << 20)
        + b"\n2024-05-01 10:02 Ana: a\0b\n2024-05-01 10:03 Ana: five\n"
    )
    (session,), wrong = read(log)
    assert [turn["content"][:4] for turn in session.turns] == ["one\n", "five"]
    assert [one.split(":")[0] for one in wrong] == ["line 2", "line 4"]
    odd = "2024-05-01 10:00 Ana: one\n2024-05-01 10:01 Ana: two\n".encode("utf-16")
    (session,), wrong = read(odd[:-1])
    assert [turn["content"] for turn in session.turns] == ["one"] or wrong
    assert wrong
    assert "not utf-16" in wrong[0]


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """What the system gives only once is held, as it is read twice."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes with names")
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(json.dumps([HI]).encode()))
    writer.start()
    (session,), _ = read(pipe, name=None)
    writer.join()
    assert session.session_id == "pipe"


LIST = json.dumps([HI]).encode()


@pytest.mark.parametrize(
    "path",
    ["../evil.json", "/etc/evil.json", "a/../../evil.json", "C:/evil.json", "..\\evil.json", "\\evil.json"],
)
def test_a_path_that_leads_out_of_the_archive_is_named(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not read; nothing is written to disk for any other either."""
    monkeypatch.chdir(tmp_path)
    (session,), wrong = read(packed({path: LIST, "good.json": LIST}))
    assert (session.session_id, session.where) == ("good", "good.json, item 0")
    assert [one.endswith("its path leads out of the archive") for one in wrong] == [True]
    with pytest.raises(InputError):
        read(packed({path: LIST}))
    assert list(tmp_path.iterdir()) == []


def test_a_zip_bomb_is_refused() -> None:
    """By what it announces: one file of zeros, many files, or more than is ever read."""
    bomb = b"[" + b" " * (40 << 20) + b"]"
    with pytest.raises(InputError):
        read(packed({"a.json": bomb}))
    sessions, wrong = read(packed({"a.json": bomb, "b.json": os.urandom(1 << 20), "c.json": LIST}))
    assert len(sessions) == 1
    assert "as a zip bomb does" in wrong[0]


def test_more_files_or_bytes_than_bounds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are checked before anything is read."""
    archive = packed({f"{n}.json": LIST for n in range(3)})
    monkeypatch.setattr(source, "MOST_FILES", 2)
    with pytest.raises(InputError):
        read(archive)
    monkeypatch.setattr(source, "MOST_FILES", 10)
    monkeypatch.setattr(source, "MOST_UNPACKED", len(LIST))
    with pytest.raises(InputError):
        read(archive)


def test_what_comes_out_is_counted_too() -> None:
    """An archive that lies about a size gives no more than it announces."""
    content = json.dumps([{**HI, "content": f"message {n} of many"} for n in range(200)]).encode()
    honest = packed({"a.json": content}, zipfile.ZIP_STORED)
    lying = honest.replace(len(content).to_bytes(4, "little"), (len(content) // 2).to_bytes(4, "little"))
    with pytest.raises(InputError):
        read(lying)
    many = source.SourceFile("a.json", lambda: io.BytesIO(content), 100)
    with many.open() as stream, pytest.raises(source.DamagedError):
        stream.read(1000)


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_a_damaged_archive_is_named(cut: float) -> None:
    """Cut off: as a whole. Changed inside: the file in it, and the others are read."""
    archive = packed({"a.json": LIST, "b.json": json.dumps([{**HI, "content": "other"}]).encode()})
    with pytest.raises(InputError):
        read(archive[: int(len(archive) * cut)])
    at = archive.index(b"b.json") + 30
    changed = archive[:at] + bytes(255 - one for one in archive[at : at + 8]) + archive[at + 8 :]
    sessions, wrong = read(changed)
    assert [one.session_id for one in sessions] == ["a"]
    assert [one.startswith("b.json: the file is damaged") for one in wrong] == [True]


def test_an_encrypted_file_of_an_archive_is_named() -> None:
    """Its flag says so."""
    archive = bytearray(packed({"a.json": LIST, "b.json": LIST}))
    at = archive.rindex(b"PK\x01\x02")  # the entry of the last file
    archive[at + 8] |= 1
    sessions, wrong = read(bytes(archive))
    assert [one.session_id for one in sessions] == ["a"]
    assert wrong[0].startswith("b.json: it is encrypted")


def test_archives_of_several_chats_and_of_none() -> None:
    """Each file by its own format; lists and notes beside an export are no chats, unless they are asked for."""
    claude = json.dumps(
        [{"uuid": "k", "chat_messages": [{"sender": "human", "text": "Hi", "created_at": "2024-05-01"}]}]
    ).encode()
    archive = packed({"notes.json": LIST, "x/conversations.json": claude})
    assert [one.session_id for one in read(archive)[0]] == ["k"]
    assert [one.session_id for one in read(archive, format="messages")[0]] == ["notes"]
    assert len(read(packed({"a.json": LIST, "b.json": LIST}))[0]) == 2
    for empty in (packed({}), packed({"a.png": b"\x89PNG\0"})):
        with pytest.raises(InputError):
            read(empty)


def test_a_format_of_another_room_is_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried before those that are there; two of one name are refused."""
    monkeypatch.setattr(detect, "_FORMATS", list(detect._FORMATS))

    def lines(reading: FileReader) -> Iterator[FileSession]:
        yield FileSession("own", tuple({"content": line} for _, line in reading.lines()))

    add_format(Format("own", "Own", lambda sample: sample.text.startswith("OWN"), lines))
    assert [one.session_id for one in read(b"OWN\nhello")[0]] == ["own"]
    with pytest.raises(InputError):
        add_format(Format("own", "Own", lambda _: True, lines))


@given(st.binary(max_size=80))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused_by_name(data: bytes) -> None:
    """Also as each of the formats, and in an archive."""
    for content in (data, packed({"a.json": data})):
        for name in (None, *detect.format_names()):
            refused = ""
            try:
                read(content, format=name)
            except InputError as exc:
                refused = str(exc)
            assert refused == "" or refused.startswith("chat"), (name, refused)
