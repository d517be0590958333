"""Lists of messages, in memforest's shapes and LoCoMo's: what is read of them, and what an error names."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import InputError
from memforest.importers import FileSession, read_sessions

HI = {"role": "user", "content": "Hi", "timestamp": "2024-05-01T10:00:00Z"}
YO = {"role": "assistant", "content": "Yo", "timestamp": "2024-05-01T10:01:00Z"}
LOCOMO = {
    "sample_id": "conv-1",
    "qa": [],
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Bo",
        "session_10_date_time": "9:00 am on 3 May, 2023",
        "session_10": [{"speaker": "Ana", "dia_id": "D10:1", "text": "Later."}],
        "session_2_date_time": "1:56 pm on 2 May, 2023",
        "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "Look", "blip_caption": "a dog"}],
        "session_3_date_time": "1:56 pm on 4 May, 2023",
        "session_4": [],
    },
}


def read(value: Any, *, name: str | None = "chat.json") -> list[FileSession]:
    """Read a value as the file `chat.json`; text and bytes as they are."""
    data = value if isinstance(value, bytes) else str(value).encode()
    if isinstance(value, (dict, list)):
        data = json.dumps(value).encode()
    return read_sessions(io.BytesIO(data), name=name)


def shape(found: list[FileSession]) -> list[tuple[str | None, str, int]]:
    """Return (user, session id, number of turns) of every session."""
    return [(one.user, one.session_id, len(one.turns)) for one in found]


def test_a_list_of_messages_is_one_session_named_after_the_file() -> None:
    """The plainest chat log needs no ids at all, and its messages arrive as they are."""
    found = read([HI, YO])
    assert shape(found) == [(None, "chat", 2)]
    assert found[0].turns == (HI, YO)


@pytest.mark.parametrize("key", ["turns", "messages"])
def test_an_object_with_turns_is_one_session(key: str) -> None:
    """Its own id and time are taken; without an id it is named after the file."""
    (session,) = read({"session_id": "s1", "timestamp": "2024-05-01", key: [HI]})
    assert (session.session_id, session.timestamp) == ("s1", "2024-05-01")
    assert shape(read({key: [HI]})) == [(None, "chat", 1)]


def test_an_object_with_sessions_is_read_whole() -> None:
    """The demo's format: sessions in order, the user it names, numbers where an id is missing."""
    value = {"user": "nora", "sessions": [{"session_id": "a", "turns": [HI]}, {"messages": [HI, YO]}]}
    assert shape(read(value)) == [("nora", "a", 1), ("nora", "chat-2", 2)]


def test_json_lines_are_grouped_by_session() -> None:
    """Messages of one session may stand apart; the grouping key does not become metadata."""
    lines = [{**HI, "session_id": "a"}, {**HI, "session_id": "b"}, {**YO, "session_id": "a"}, YO]
    found = {
        one.session_id: one.turns for one in read("\n".join(json.dumps(line) for line in lines) + "\n\n")
    }
    assert {name: len(turns) for name, turns in found.items()} == {"a": 2, "b": 1, "chat": 1}
    assert found["a"] == (HI, YO)


def test_one_line_of_json_lines_is_one_message() -> None:
    """A log that has just begun reads like a longer one."""
    assert shape(read(json.dumps(HI))) == [(None, "chat", 1)]


def test_json_lines_end_at_newlines_only() -> None:
    """A line separator inside a message, which JSON allows there, does not end it; CRLF does."""
    lines = [{**HI, "content": "one\u2028two\x85three"}, YO]
    text = "\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    assert shape(read(text)) == [(None, "chat", 2)]


def test_json_lines_may_hold_sessions() -> None:
    """One session object a line."""
    lines = [{"session_id": "a", "turns": [HI]}, {"session_id": "b", "turns": [HI, YO]}]
    assert shape(read("\n".join(map(json.dumps, lines)))) == [(None, "a", 1), (None, "b", 2)]


def test_locomo_is_read_as_published() -> None:
    """One memory per sample, sessions by number, each at its date; sessions without turns are passed over."""
    found = read([LOCOMO])
    assert shape(found) == [("conv-1", "session_2", 1), ("conv-1", "session_10", 1)]
    assert found[0].timestamp == "1:56 pm on 2 May, 2023"
    assert found[0].turns[0]["blip_caption"] == "a dog"
    assert shape(read(LOCOMO)) == shape(found)


def test_a_locomo_key_may_have_leading_zeros_and_none_is_endless() -> None:
    """The number orders the sessions, the key names them; a key of 5,000 digits is no session."""
    said = [{"speaker": "Ana", "dia_id": "D1:1", "text": "Hello."}]
    talk = {"session_10": said, "session_01": said, "session_01_date_time": "9:00 am on 3 May, 2023"}
    found = read([{"sample_id": "x", "conversation": talk}])
    assert shape(found) == [("x", "session_01", 1), ("x", "session_10", 1)]
    endless = {"sample_id": "x", "conversation": {"session_" + "1" * 5_000: said}}
    with pytest.raises(InputError, match="conversation"):
        read(endless)


def test_locomo_samples_are_separate_memories() -> None:
    """Two samples are two users; the same sample twice is an error."""
    assert {one.user for one in read([LOCOMO, {**LOCOMO, "sample_id": 7}])} == {"conv-1", "7"}
    with pytest.raises(InputError):
        read([LOCOMO, LOCOMO])


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    """Files of Windows editors are read."""
    assert shape(read(b"\xef\xbb\xbf" + json.dumps([HI]).encode())) == [(None, "chat", 1)]


@each(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b" \n\t ", "the file is empty"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"PK\x03\x04rest", "zip archive is damaged"),
        (b"%PDF-1.7", "PDF"),
        (b"SQLite format 3\0rest", "database"),
        ("[]".encode("utf-16"), "the list is empty"),
        (b'[{"role": "us\x00er"}]', "byte 13: a NUL"),
        (b'[\n{"role": "user", "content": "caf\xe9"}]', "line 2: some bytes are not UTF-8"),
        (b'[\n{"role": "user",}]', "line 2 column"),
        (
            b'{"role": "user", "content": "a"}\n{"role": "user"\n',
            "line 2 column .*one complete message a line",
        ),
        (b"Hello there", "line 1: this is not a chat in a known format"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" + b"9" * 5000 + b"]", "this is not a chat in a known format"),
        (b"42", "not a chat in a known format"),
        (b"null", "not a chat in a known format"),
        (b"[]", "the list is empty"),
        (b'["a"]', "item 0: there is a text where a message"),
        (b"{}", r"has no keys"),
        (b'{"chats": []}', "has the keys 'chats'"),
        (b'{"turns": []}', "'turns' is empty"),
        (b'{"turns": "a"}', "'turns' is a text"),
        (b'{"turns": [1]}', r"turns\[0\]: there is a number"),
        (b'{"sessions": [{"turns": [1]}]}', r"sessions\[0\].turns\[0\]"),
        (b'{"sessions": [[]]}', r"sessions\[0\]: a session should be an object"),
        (b'{"sessions": [{"id": "a", "turns": [TURN]}, {"id": "a", "turns": [TURN]}]}', "'a' is used twice"),
        (b'{"session_id": true, "turns": [TURN]}', "the id is a truth value"),
        (b'{"timestamp": [], "turns": [TURN]}', "the timestamp is a list"),
        (b'{"metadata": 1, "turns": [TURN]}', "'metadata' should be an object"),
        (b'[TURN, {"turns": [TURN]}]', "item 1: there is a session among messages"),
        (b'[{"turns": [TURN]}, TURN]', "item 1: a session should be an object with 'turns'"),
        (b'{"sample_id": "x", "conversation": {"session_1": 5}}', "'session_1' is a number"),
        (b'{"sample_id": "x", "conversation": {"session_1": []}}', "no session with turns"),
    ],
)
def test_errors_name_file_place_and_fix(data: bytes, message: str) -> None:
    """Every malformed file gets an error that begins with its name and says where and what is wrong."""
    with pytest.raises(InputError, match=f"^chat.json.*({message})"):
        read(data.replace(b"TURN", json.dumps(HI).encode()))


def test_unnamed_input_needs_a_session_id() -> None:
    """What comes from standard input has no name to take; the fix is in the message."""
    with pytest.raises(InputError, match="--session"):
        read([HI], name=None)
    assert shape(read({"session_id": "s", "turns": [HI]}, name=None)) == [(None, "s", 1)]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "turns",
                    "sessions",
                    "messages",
                    "content",
                    "session_id",
                    "conversation",
                    "session_1",
                    "metadata",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(values)
def test_any_json_is_read_or_refused_by_name(value: Any) -> None:
    """No JSON value gets through as something else than sessions of mappings, and none crashes the reader."""
    try:
        found, refused = read(json.dumps(value)), ""
    except InputError as exc:
        found, refused = [], str(exc)
    assert bool(found) != refused.startswith("chat.json")
    assert all(one.session_id and one.turns for one in found)
    assert all(isinstance(turn, dict) for one in found for turn in one.turns)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Bytes of any kind end in sessions or in an error that names the file."""
    try:
        refused = "" if read(data) else "nothing"
    except InputError as exc:
        refused = str(exc)
    assert refused == "" or refused.startswith("chat.json")


@each(
    ("value", "ids"),
    [
        ({"id": 7, "turns": [HI]}, ["7"]),
        ({"session_id": "a", "id": "b", "turns": [HI]}, ["a"]),
        ({"sessions": [{"turns": [HI]}, {"turns": [HI]}]}, ["chat-1", "chat-2"]),
        ({"sessions": [{"turns": [HI]}]}, ["chat"]),
        ({"role": "user", "content": "Hi"}, ["chat"]),
        ({"speaker": "Ann", "text": "Hi", "session_id": 0}, ["0"]),
        ([{"name": "Ann", "message": "Hi"}, {**HI, "session_id": "x"}], ["chat", "x"]),
        ([{"turns": [HI]}], ["chat"]),
        ([{"turns": [HI], "id": "z"}, {"messages": [HI]}], ["z", "chat-2"]),
    ],
)
def test_sessions_get_their_own_ids_or_the_files(value: Any, ids: list[str]) -> None:
    """Numbered from 1 where there are several; numbers are ids, nought too."""
    assert [one.session_id for one in read(value)] == ids


@each(
    ("value", "user"),
    [({"user": "bo"}, "bo"), ({"user_id": "cy", "user": "bo"}, "cy"), ({"user_id": 7}, "7"), ({"user": None}, None), ({}, None)],
)  # fmt: skip
def test_a_file_may_say_whose_it_is(value: Any, user: str | None) -> None:
    """By an id or a name."""
    (found,) = read({**value, "turns": [HI]})
    assert found.user == user


@each("key", ["timestamp", "date"])
@each("when", ["2024-05-01", 0, 1.5, None])
def test_a_session_has_its_time_as_it_stands(key: str, when: Any) -> None:
    """What it means is decided where it is stored."""
    (found,) = read({key: when, "turns": [HI]})
    assert found.timestamp == when


def test_an_error_says_which_line() -> None:
    """Blank ones count; the line of the first message that is wrong, and no other."""
    text = "\n" + json.dumps(HI) + "\n\n" + json.dumps({**HI, "session_id": []}) + "\n" + json.dumps(YO)
    with pytest.raises(InputError):
        read(text, name="c.jsonl")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=5)), min_size=1, max_size=8))
@settings(max_examples=40)
def test_no_message_of_json_lines_is_lost(said: list[tuple[str, str]]) -> None:
    """Whichever session it is of, and in the order of the file."""
    lines = [
        json.dumps({"session_id": one, "speaker": "Ann", "content": text}, ensure_ascii=False)
        for one, text in said
    ]
    found = {one.session_id: [turn["content"] for turn in one.turns] for one in read("\n".join([*lines, ""]))}
    assert found == {one: [text for other, text in said if other == one] for one, _ in said}
