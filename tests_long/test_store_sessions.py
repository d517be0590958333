"""Sessions, turns and chunks as rows: they come back as they were written, in their order, and no other session's with them."""

from __future__ import annotations

import json
from datetime import timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests_long.stored import (
    add_turns,
    chunk_of,
    empty_memory,
    finish_chunk,
    put_fact,
    put_session,
    say,
    value,
)

from memforest.records import Turn
from memforest.store import facts, reads, sessions
from memforest.store.connections import Connection
from memforest.times import from_ms

ODD = 'Zoë \U0001f98a "it\'s" \x1f\n{0} %s \u202e'
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(lambda text: "\0" not in text)


@pytest.mark.parametrize(("infer", "metadata"), [(True, {}), (False, {"ü": [1, None, {"x": ODD}], "b": 0.5})])
def test_a_session_comes_back_as_it_was_written(
    tx: Connection, infer: bool, metadata: dict[str, object]
) -> None:
    """By its id and by its row; first without turns, then with their number and times."""
    row = sessions.add_session(tx, ODD, infer=infer, stored_ms=-9, metadata=metadata)
    found = sessions.session_with_row(tx, row)
    assert found == sessions.find_session(tx, ODD)
    assert found == sessions.SessionRow(row, ODD, "received", infer, -9, metadata, 0, 0, 0)
    turns = [Turn(str(n), "Ana", "x", from_ms(at), ordinal=n) for n, at in enumerate((700, -40, 90))]
    add_turns(tx, row, turns, 0)
    tx.execute("UPDATE session SET status = 'ingested' WHERE id = ?", (row,))
    now = sessions.session_with_row(tx, row)
    assert (now.turns, now.start_ms, now.end_ms, now.status) == (3, -40, 700, "ingested")


def test_a_session_that_is_not_there_is_none_or_an_error(tx: Connection) -> None:
    """Ids are compared character by character."""
    put_session(tx, "Ana")
    assert [sessions.find_session(tx, one) for one in ("ana", "Ana ", "", "An\u0061\u0301")] == [None] * 4
    with pytest.raises(KeyError, match="77"):
        sessions.session_with_row(tx, 77)
    assert sessions.list_sessions(empty_memory()) == []


def test_sessions_are_listed_by_when_they_began(tx: Connection) -> None:
    """Then by id; not by when they were stored, nor by when they ended."""
    for name, at, n in (("c", 50, 1), ("b", 10, 9), ("z", 40, 1), ("a", 50, 3)):
        put_session(tx, name, ["x"] * n, at_ms=at)
    found = sessions.list_sessions(tx)
    assert [one.session_id for one in found] == ["b", "z", "a", "c"]
    assert [one.turns for one in found] == [9, 1, 3, 1]


def test_what_is_left_to_do_is_told(tx: Connection) -> None:
    """A session that was received and not ingested, and one with a chunk that failed or was not read."""
    rows = [put_session(tx, name, ["x"] * 3, chunk=2)[0] for name in "abcd"]
    for row in rows[1:]:
        tx.execute("UPDATE session SET status = 'ingested' WHERE id = ?", (row,))
        for chunk in sessions.chunks(tx, row):
            finish_chunk(tx, chunk.row, "extracted", maker="m")
    assert (sessions.unfinished(tx), sessions.waiting(tx)) == (rows[:1], 1)
    finish_chunk(tx, sessions.chunks(tx, rows[3])[1].row, "failed", maker="m", reason="away")
    finish_chunk(tx, sessions.chunks(tx, rows[2])[0].row, "verbatim", maker="m")
    assert (sessions.unfinished(tx), sessions.waiting(tx)) == ([rows[0], rows[3]], 1)
    tx.execute("UPDATE chunk SET status = 'pending' WHERE session = ?", (rows[1],))
    assert sessions.unfinished(tx) == [rows[0], rows[1], rows[3]]
    assert [sessions.finish_chunks(tx, row, []) for row in rows] == [False, False, True, True]
    tx.execute("UPDATE chunk SET status = 'extracted'")
    assert sessions.unfinished(tx) == rows[:1]


def test_a_deleted_session_takes_its_turns_and_chunks(tx: Connection) -> None:
    """With what was read in them; the next one gets none of its row ids."""
    put_session(tx, "stays")
    row, turns = put_session(tx, "goes", ["a", "b"])
    say(tx, put_fact(tx), turns[0])
    chunk = chunk_of(tx, turns[0])
    sessions.delete_session(tx, row)
    assert sessions.find_session(tx, "goes") is None
    counts = [
        value(tx, f"SELECT count(*) FROM {table}") for table in ("session", "turn", "chunk", "occurrence")
    ]
    assert counts == [1, 1, 1, 0]
    again, new = put_session(tx, "goes", ["a", "b"])
    assert again > row
    assert min(new) > max(turns)
    assert chunk_of(tx, new[0]) > chunk


@settings(max_examples=30)
@given(
    st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from([None, "user", "assistant"]), st.integers(-(10**12), 10**12)), max_size=5),
    st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers() | TEXTS, max_size=3),
)  # fmt: skip
def test_turns_come_back_as_they_were_said(
    said: list[tuple[str, str, str | None, int]], metadata: dict[str, object]
) -> None:
    """In their order, whatever the characters, times and values; and each with a digest that is its own."""
    tx = empty_memory()
    row = sessions.add_session(tx, "s", infer=True, stored_ms=0, metadata={})
    turns = [
        Turn(f"t{n}", speaker, text, from_ms(at), ordinal=n, role=role, time_source="session", metadata=metadata)
        for n, (speaker, text, role, at) in enumerate(said)
    ]  # fmt: skip
    ids = add_turns(tx, row, turns, 5)
    assert [(one.row, one.turn) for one in sessions.turns_of_session(tx, row)] == list(
        zip(ids, turns, strict=True)
    )
    assert ids == sorted(set(ids))
    assert sessions.damaged_turns(tx) == {}
    assert sessions.speakers(tx) == {speaker for speaker, *_ in said}
    tx.close()


def test_a_time_in_another_zone_is_the_same_time(tx: Connection) -> None:
    """Stored are milliseconds since 1970 in UTC."""
    row = sessions.add_session(tx, "s", infer=True, stored_ms=0, metadata={})
    when = from_ms(5_000).astimezone(timezone(timedelta(hours=-5)))
    add_turns(tx, row, [Turn("t", "Ana", "Hi.", when, 0)], 77)
    assert tx.execute("SELECT said_ms, stored_ms FROM turn").fetchall() == [(5_000, 77)]
    assert sessions.turns_of_session(tx, row)[0].turn.said == when


@pytest.mark.parametrize(
    ("bounds", "expected"), [((), "abcde"), ((2,), "cde"), ((0, 0), "a"), ((1, 3), "bcd"), ((4, 99), "e"), ((5,), ""), ((3, 2), "")]
)  # fmt: skip
def test_a_part_of_a_session_is_read_with_both_its_ends(
    tx: Connection, bounds: tuple[int, ...], expected: str
) -> None:
    """And nothing of a session beside it."""
    put_session(tx, "other", list("xyz"))
    row, _ = put_session(tx, "s", list("abcde"))
    assert "".join(turn.text for turn in sessions.turns_of_session(tx, row, *bounds)) == expected


def test_turn_ids_are_a_sessions_own(tx: Connection) -> None:
    """Which of some are known is told of one session; another may have the same."""
    row, _ = put_session(tx, "s", ["a", "b"])
    other, _ = put_session(tx, "o", ["a", "b", "c"])
    assert [sessions.turn_with_id(tx, one, "t2") is not None for one in (row, other)] == [False, True]


def test_a_chunk_says_what_became_of_it(tx: Connection) -> None:
    """Nothing at first; then its last end, with what was skipped in order, and other chunks as they were."""
    row, turns = put_session(tx, texts=list("abcd"), chunk=2)
    first, second = sessions.chunks(tx, row)
    assert first == sessions.ChunkRow(chunk_of(tx, turns[0]), row, 0, 0, 1, "pending", None, None, ())
    finish_chunk(tx, second.row, "failed", maker="m1", reason=ODD)
    skipped = ((3, "ü"), (2, ODD), (2, "b"))
    finish_chunk(tx, first.row, "extracted", maker="m2", skipped=skipped)
    done, failed = sessions.chunks(tx, row)
    assert (done.status, done.reason, done.maker, done.skipped) == ("extracted", None, "m2", skipped)
    assert (failed.status, failed.reason, failed.maker, failed.skipped) == ("failed", ODD, "m1", ())
    finish_chunk(tx, second.row, "extracted", maker="m3")
    assert sessions.chunks(tx, row)[1].reason is None


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((), [0, 1, 2]),
        ((0, 1), [0]),
        ((1, 2), [0, 1]),
        ((2,), [1, 2]),
        ((3, 3), [1]),
        ((5,), []),
        ((4, 4), [2]),
    ],
)
def test_the_chunks_of_some_turns_are_those_that_hold_one_of_them(
    tx: Connection, bounds: tuple[int, ...], expected: list[int]
) -> None:
    """However little of a chunk that is."""
    put_session(tx, "other", list("abcde"), chunk=1)
    row, _ = put_session(tx, texts=list("abcde"), chunk=2)
    assert [chunk.ordinal for chunk in sessions.chunks(tx, row, *bounds)] == expected


def test_a_deleted_chunk_takes_what_was_read_in_it(tx: Connection) -> None:
    """Facts and turns stay; so does what was read in the chunk beside it."""
    row, turns = put_session(tx, texts=list("abcd"), chunk=2)
    fact = put_fact(tx)
    for turn in (turns[0], turns[2]):
        say(tx, fact, turn)
    sessions.delete_chunk(tx, chunk_of(tx, turns[0]))
    assert [chunk.ordinal for chunk in sessions.chunks(tx, row)] == [1]
    assert tx.execute("SELECT turn FROM occurrence_turn").fetchall() == [(turns[2],)]
    assert (value(tx, "SELECT count(*) FROM fact"), len(sessions.turns_of_session(tx, row))) == (1, 4)


CHANGES = [
    "turn_id = 'u'", "speaker = 'Bob'", "role = ''", "text = text || ' '", "said_ms = said_ms + 1", "time_source = 'x'",
    "metadata = '{ }'", "ordinal = 9", "digest = x''", "digest = zeroblob(16)", "text = CAST(x'ff41' AS TEXT)",
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_every_value_of_a_turn_is_under_its_digest(tx: Connection, change: str) -> None:
    """A changed one is told with its place, among all, among some rows and in its session; another one is not."""
    row, turns = put_session(tx, "s", ["a", "b", "c"])
    tx.execute(f"UPDATE turn SET {change} WHERE id = ?", (turns[1],))
    [(found, told)] = sessions.damaged_turns(tx).items()
    assert (found, told.row, told.session) == (turns[1], turns[1], row)
    name = "'u'" if change == "turn_id = 'u'" else "'t1'"
    assert told.name == f"turn {name} (number {told.ordinal}) of session 's'"
    assert told.ordinal == (9 if change == "ordinal = 9" else 1)
    assert sessions.damaged_turns(tx, turns) == sessions.damaged_turns(tx, session=row) == {found: told}
    assert sessions.damaged_turns(tx, [turns[0], turns[2]]) == {}
    assert sessions.damaged_turns(tx, []) == {}


def test_the_damage_of_another_session_is_not_its_own(tx: Connection) -> None:
    """Each is looked at by itself, or all together."""
    row, _ = put_session(tx, "s", ["a", "b", "c"])
    other, _ = put_session(tx, "o", ["a"])
    tx.execute("UPDATE turn SET text = 'z' WHERE ordinal <= 1")
    assert [one.ordinal for one in sessions.damaged_turns(tx, session=row).values()] == [0, 1]
    assert len(sessions.damaged_turns(tx, session=other)) == 1
    assert len(sessions.damaged_turns(tx)) == 3


def test_a_session_of_another_name_damages_all_its_turns(tx: Connection) -> None:
    """Its name is a part of every digest; a long or broken one is told in short."""
    put_session(tx, "s", ["a", "b"])
    tx.execute("UPDATE session SET session_id = CAST(zeroblob(0) || x'ff' || ? AS TEXT)", ("x" * 200,))
    found = list(sessions.damaged_turns(tx).values())
    assert [one.ordinal for one in found] == [0, 1]
    assert all("\ufffd" in one.name and len(one.name) < 110 for one in found)


def test_the_texts_behind_hits_come_by_row(tx: Connection) -> None:
    """Turns with their session, facts with their times; what is not there is left out."""
    _, turns = put_session(tx, "s", ["a", ODD], at_ms=500)
    tx.execute("UPDATE turn SET metadata = ? WHERE id = ?", (json.dumps({"k": ODD}), turns[1]))
    found = sessions.turns_with_ids(tx, [turns[1], 99])
    assert {row: (one.session_id, one.turn_id, one.said_ms) for row, one in found.items()} == {
        turns[1]: ("s", "t1", 1500)
    }
    said = found[turns[1]].turn
    assert (said.speaker, said.text, said.metadata) == ("Ana", ODD, {"k": ODD})
    fact, bare = put_fact(tx, "f", ODD, start_ms=-3, end_ms=4, said_ms=9), put_fact(tx, "g")
    stored = facts.facts_with_ids(tx, [bare, fact, 99])
    assert {row: (one.text, one.start_ms, one.end_ms, one.said_ms) for row, one in stored.items()} == {
        fact: (ODD, -3, 4, 9),
        bare: ("Ana paints.", None, None, 0),
    }


def test_the_sources_of_a_fact_stand_in_the_order_in_which_they_were_said(tx: Connection) -> None:
    """By time, then by session and turn; one that nothing supports has none."""
    (_, late), (_, early), (_, same) = (
        put_session(tx, name, ["x", "y"], at_ms=at)
        for name, at in (("late", 9000), ("early", 0), ("b", 9000))
    )
    fact, silent = put_fact(tx), put_fact(tx, "g")
    for turns, at in ((late[1:], 9000), (late[:1], 9000), ((early[1], early[0]), 0), (same[:1], 9000)):
        say(tx, fact, *turns, said_ms=at)
    assert reads.fact_sources(tx, [fact, silent]) == {
        fact: [("early", "t0"), ("early", "t1"), ("b", "t0"), ("late", "t0"), ("late", "t1")],
        silent: [],
    }
