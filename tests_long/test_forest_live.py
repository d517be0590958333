"""Speaking to a memory as one goes: `add`, its sessions of a day, users and their names, and what a write reports."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from memforest import MemForest
from memforest.config import Config
from memforest.errors import InputError, NotFoundError, SessionConflictError
from memforest.models import HashEmbedder
from memforest.testing import FrozenClock

NOON = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that says noon of 1 June 2024, UTC, until it is moved."""
    return FrozenClock(NOON)


def settings(clock: FrozenClock, **more: Any) -> Config:
    """Return a configuration that goes by a clock."""
    return Config(**{"embedder": HashEmbedder(32), "clock": clock, **more})


@pytest.fixture
def forest(folder: Path, clock: FrozenClock) -> Iterator[MemForest]:
    """An empty forest that goes by the clock."""
    with MemForest(folder, settings(clock)) as made:
        yield made


def spoken(forest: MemForest, user: str = "ana") -> dict[str, int]:
    """Return session id -> turns."""
    return {one.session_id: one.turns for one in forest.user(user).sessions()}


def test_what_is_added_goes_to_the_session_of_the_day(forest: MemForest, clock: FrozenClock) -> None:
    """One session a day, up to the last millisecond before midnight; each turn has the time of its call."""
    ana = forest.user("ana")
    assert ana.add("I live in Oslo.").session_id == "live-2024-06-01"
    clock.set("2024-06-01T23:59:59.999+00:00")
    assert ana.add("I work at Acme.").added
    clock.advance(seconds=0.001)
    assert ana.add("I moved to Lisbon.").session_id == "live-2024-06-02"
    assert spoken(forest, "ana") == {"live-2024-06-01": 2, "live-2024-06-02": 1}
    first, second = ana.sessions()
    assert (first.start, first.end) == (NOON, datetime(2024, 6, 1, 23, 59, 59, 999_000, tzinfo=timezone.utc))
    assert second.start == datetime(2024, 6, 2, tzinfo=timezone.utc)
    assert [one.statement for one in ana.list()] == [
        'ana: "I live in Oslo."',
        'ana: "I work at Acme."',
        'ana: "I moved to Lisbon."',
    ]


def test_the_day_is_that_on_which_it_was_said(forest: MemForest) -> None:
    """So memories are brought along in any order of days; words without a time go on behind those of today."""
    ana = forest.user("ana")
    for when, session in (
        ("2024-06-01T13:00:00+00:00", "live-2024-06-01"),
        ("2024-03-02T09:00:00+00:00", "live-2024-03-02"),
        ("2023-01-01", "live-2023-01-01"),
        ("2024-03-02T10:00:00+00:00", "live-2024-03-02"),
        (None, "live-2024-06-01"),
    ):
        assert ana.add(f"I saw a bird on {when}.", timestamp=when).session_id == session
    assert ana.add("A word.", timestamp="2024-03-02", infer=False).session_id == "live-2024-03-02-verbatim"


@pytest.mark.parametrize(
    ("zone", "day"),
    [("Pacific/Kiritimati", "2024-06-02"), ("UTC", "2024-06-01"), ("Pacific/Pago_Pago", "2024-06-01")],
)
def test_a_day_is_one_of_the_memorys_zone(folder: Path, clock: FrozenClock, zone: str, day: str) -> None:
    """Of its first write; another setting later moves no day."""
    with MemForest(folder, settings(clock, timezone=zone)) as forest:
        assert forest.user("ana").add("I live in Oslo.").session_id == f"live-{day}"
        assert forest.user("ana").stats().timezone == zone
    with MemForest(folder, settings(clock, timezone="America/New_York")) as forest:
        assert forest.user("ana").add("I work at Acme.").session_id == f"live-{day}"
        assert forest.user("ana").stats().timezone == zone


def test_words_and_statements_have_sessions_of_their_own(forest: MemForest) -> None:
    """What is stored as it stands does not make the day's other turns so."""
    ana = forest.user("ana")
    ana.add("I live in Oslo.")
    assert ana.add("I work at Acme.", infer=False).session_id == "live-2024-06-01-verbatim"
    ana.add("I moved to Lisbon.")
    assert spoken(forest) == {"live-2024-06-01": 2, "live-2024-06-01-verbatim": 1}
    assert {one.statement for one in ana.list()} == {
        'ana: "I live in Oslo."',
        "ana: I work at Acme.",
        'ana: "I moved to Lisbon."',
    }


@pytest.mark.parametrize("session_id", ["trip", "名前", "live-2024-06-01"])
def test_a_session_that_is_named_is_added_to(forest: MemForest, clock: FrozenClock, session_id: str) -> None:
    """On whatever day; metadata of a call are those of its turns."""
    ana = forest.user("ana")
    ana.add("I live in Oslo.", session_id=session_id, metadata={"n": 1})
    clock.advance(days=3)
    done = ana.add("I work at Acme.", session_id=session_id)
    assert (done.session_id, done.turns_added, done.unchanged) == (session_id, 1, False)
    (only,) = ana.sessions()
    assert (only.turns, only.metadata, only.end) == (2, {}, NOON + timedelta(days=3))
    assert [one.metadata for one in ana.turns(session_id)] == [{"n": 1}, {}]


def test_a_message_or_several_may_be_added(forest: MemForest) -> None:
    """A text is the user's; messages have roles and speakers; what has a time keeps it."""
    ana = forest.user("ana")
    ana.add("Hello there, my friend.")
    ana.add({"role": "assistant", "content": "Good day to you."})
    ana.add(
        [{"speaker": "Bob", "content": "I live in Rome."}, {"role": "user", "content": "I work at Acme."}]
    )
    (day,) = ana.sessions()
    assert (day.turns, day.participants) == (4, ("ana", "assistant", "Bob"))
    ana.add({"role": "user", "content": "I moved to Lisbon.", "timestamp": "2024-06-03"}, session_id="later")
    ana.add("I moved to Davis.", session_id="given", timestamp="2024-06-04T10:00:00+02:00")
    starts = {one.session_id: one.start.isoformat() for one in ana.sessions()}
    assert (starts["later"], starts["given"]) == ("2024-06-03T00:00:00+00:00", "2024-06-04T08:00:00+00:00")


def test_the_same_words_again_are_said_again(forest: MemForest, clock: FrozenClock) -> None:
    """`add` is no session that comes whole: what is added twice was said twice, and is one fact."""
    ana = forest.user("ana")
    first = ana.add("I live in Oslo.")
    clock.advance(days=1)
    second = ana.add("I live in Oslo.")
    assert (first.facts_inserted, first.facts_merged) == (1, 0)
    assert (second.facts_inserted, second.facts_merged) == (0, 1)
    assert first.added == second.merged == ('ana: "I live in Oslo."',)
    ana.add("I live in Oslo.")
    assert (ana.stats().turns, ana.stats().facts, ana.stats().occurrences) == (3, 1, 3)


def test_a_new_value_names_what_it_supersedes(forest: MemForest, clock: FrozenClock) -> None:
    """The statements whose place it took; saying it again supersedes nothing."""
    ana, found = forest.user("ana"), []
    for text in ("I live in Oslo.", "I moved to Lisbon.", "I live in Lisbon."):
        found.append(ana.add(text).superseded)
        clock.advance(days=1)
    assert found == [(), ('ana: "I live in Oslo."',), ()]
    assert ana.list().facts[0].superseded_by == "Lisbon"


@pytest.mark.parametrize("content", ["", "   ", [], [{}], {"role": "user"}, 7, None])
def test_adding_nothing_makes_no_memory(forest: MemForest, folder: Path, content: Any) -> None:
    """The error comes before the file."""
    with pytest.raises(InputError):
        forest.user("ana").add(content)
    assert not forest.has_user("ana")
    assert list(folder.iterdir()) == []


def test_a_user_speaks_under_the_name_that_was_given(forest: MemForest) -> None:
    """Without one under the id, and under "user" where that is too long for a name; an id is no name of another."""
    for user, name, shown in (
        ("a1", "Ana", "Ana"),
        ("bob", None, "bob"),
        ("x" * 65, None, "user"),
        ("y" * 64, None, "y" * 64),
    ):
        forest.register_user(user, display_name=name)
        forest.user(user).add("I live in Oslo.")
        assert forest.user(user).list().facts[0].speaker == shown
    assert forest.list_users() == sorted(["a1", "bob", "x" * 65, "y" * 64])


def test_a_new_name_is_for_what_comes_after(forest: MemForest) -> None:
    """What was said before keeps its speaker; registering again without a name changes none."""
    ana = forest.user("a1")
    ana.add("I live in Oslo.")
    forest.register_user("a1", display_name="Ana")
    forest.register_user("a1")
    ana.add("I work at Acme.")
    assert {one.statement: one.speaker for one in ana.list()} == {
        'the user: "I live in Oslo."': "user",
        'Ana: "I work at Acme."': "Ana",
    }


@pytest.mark.parametrize("name", ["", "  ", "a\0b", 7, "lone \ud800"])
def test_a_name_that_is_none_makes_no_memory(forest: MemForest, name: Any) -> None:
    """The message says which argument it is of."""
    with pytest.raises(InputError, match="display_name"):
        forest.register_user("ana", display_name=name)
    assert (forest.list_users(), forest.has_user("ana")) == ([], False)


def test_a_user_may_be_required_to_be_new(forest: MemForest) -> None:
    """Only one who has a memory is refused, and that memory stays."""
    forest.register_user("ana", load_existing=False)
    forest.user("ana").add("I live in Oslo.")
    with pytest.raises(InputError):
        forest.register_user("ana", load_existing=False)
    assert spoken(forest) == {"live-2024-06-01": 1}


@pytest.mark.parametrize("user", ["", " ", "a\0b", None, 7, "x" * 5000])
def test_a_handle_needs_a_user(forest: MemForest, user: Any) -> None:
    """An id that cannot be one is refused before anything is asked of it."""
    for call in (forest.user, forest.has_user, forest.register_user):
        with pytest.raises(InputError, match="user_id"):
            call(user)


def test_a_handle_is_of_one_user_and_makes_none(forest: MemForest) -> None:
    """Every verb that works on the file needs a memory that is there."""
    ana = forest.user("ana")
    assert ana.user_id == "ana"
    for verb in (
        "verify",
        "flush",
        "advance",
        "rebuild",
        "repair",
        "tree",
    ):
        with pytest.raises(NotFoundError):
            getattr(ana, verb)()
    assert not forest.has_user("ana")


TURNS = [
    {"speaker": "Ana", "content": "I live in Oslo.", "timestamp": NOON},
    {"speaker": "Bob", "content": "I work at Acme.", "timestamp": NOON + timedelta(minutes=1)},
    {"speaker": "Ana", "content": "I moved to Lisbon.", "timestamp": NOON + timedelta(minutes=2)},
]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_session_that_grows_adds_what_is_new(forest: MemForest, cut: int) -> None:
    """And nothing when nothing is; a shorter or different version is a conflict that names the session."""
    first = forest.ingest_session("u", "s", TURNS[:cut])
    assert (first.turns_added, first.unchanged, first.replaced) == (cut, False, False)
    second = forest.ingest_session("u", "s", TURNS)
    assert (second.turns_added, second.unchanged) == (3 - cut, cut == 3)
    again = forest.ingest_session("u", "s", TURNS)
    assert (again.turns_added, again.unchanged, again.chunks, again.added) == (0, True, (), ())
    other = [{**TURNS[0], "content": "I live in Rome."}, *TURNS[1:]]
    with pytest.raises(SessionConflictError, match="'s'"):
        forest.ingest_session("u", "s", other)
    assert forest.ingest_session("u", "s", other, replace=True).replaced
    assert [one.statement for one in forest.user("u").list(entity="Rome")] == ['Ana: "I live in Rome."']
    with pytest.raises(NotFoundError):
        forest.user("u").list(entity="Oslo")


def test_a_write_reports_what_became_of_every_turn(forest: MemForest) -> None:
    """Chunks span all turns in order; what became no statement is named with a reason; facts are as counted."""
    turns = [*TURNS, {"speaker": "Bob", "content": "Hm.", "timestamp": NOON + timedelta(minutes=3)}]
    done = forest.ingest_session("u", "s", turns)
    assert [id for chunk in done.chunks for id in chunk.turn_ids] == ["0", "1", "2", "3"]
    assert (done.chunks_extracted, done.failed, done.left, done.refused) == (len(done.chunks), (), (), ())
    assert [turn_id for turn_id, reason in done.skipped if reason] == ["3"]
    assert (done.facts_inserted, set(done.added)) == (3, {one.statement for one in forest.user("u").list()})
    assert done.usage.embeds == {"turn": 4, "fact": 3}
    assert done.usage.model_calls == 0


def test_verbatim_turns_are_found_and_not_read(forest: MemForest) -> None:
    """One statement for each turn, with its speaker before it, and no chunk that was extracted."""
    done = forest.ingest_session("u", "s", TURNS, infer=False)
    assert {chunk.status for chunk in done.chunks} == {"verbatim"}
    assert done.chunks_extracted == 0
    assert [one.statement for one in forest.user("u").list()] == [
        f"{t['speaker']}: {t['content']}" for t in TURNS
    ]
    assert forest.user("u").timeline("Ana")[0].kind == "event"


@pytest.mark.parametrize("user", ["u", None])
def test_saving_folds_the_log_into_the_file(forest: MemForest, folder: Path, user: str | None) -> None:
    """Of one user, or of all whose memory is open; a copy of the file alone is then whole."""
    forest.ingest_session("u", "s", TURNS)
    (log,) = folder.glob("*.db-wal")
    assert log.stat().st_size > 0
    forest.save(user)
    assert log.stat().st_size == 0
    (path,) = folder.glob("*.db")
    (folder / "copy").mkdir()
    (folder / "copy" / path.name).write_bytes(path.read_bytes())
    with MemForest(folder / "copy", forest.config) as other:
        assert other.user("u").list() == forest.user("u").list()
