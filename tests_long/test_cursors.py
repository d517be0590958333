"""Pages by cursor: whatever is written between them, what stays is on one page, and on one alone."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, fast_folder, make_sessions

from memforest import InputError, MemForest
from memforest.memory.blocking import UserMemory
from memforest.plain import Listing
from memforest.settings import MAX_CURSOR_CHARS, MAX_PAGE
from memforest.store.directory import file_name

T0 = datetime(2024, 3, 1, tzinfo=timezone.utc)
PLACES = ("Davis", "Miami", "Oslo", "Lisbon", "Kyoto", "Bergen", "Quito", "Accra", "Turin", "Lyon")

Page = Any
Read = Callable[[UserMemory, int, str | None], Page]


def _name(item: Any) -> Any:
    return next(
        getattr(item, name) for name in ("fact_id", "session_id", "id", "name") if hasattr(item, name)
    )


LISTINGS: dict[str, Read] = {
    "facts": lambda memory, limit, cursor: memory.list(limit=limit, cursor=cursor),
    "facts of somebody": lambda memory, limit, cursor: memory.list(limit=limit, cursor=cursor, entity="Ana"),
    "facts by a time": lambda memory, limit, cursor: memory.list(
        limit=limit, cursor=cursor, said_by="2030-01-01"
    ),
    "facts of a time": lambda memory, limit, cursor: memory.list(
        limit=limit, cursor=cursor, during=("2020-01-01", "2030-01-01")
    ),
    "facts with metadata": lambda memory, limit, cursor: memory.list(
        limit=limit, cursor=cursor, filters={"kind": "kept"}
    ),
    "sessions": lambda memory, limit, cursor: memory.sessions(limit=limit, cursor=cursor),
    "turns": lambda memory, limit, cursor: memory.turns("s5", limit=limit, cursor=cursor),
}


def put(forest: MemForest, day: int, *, before: bool = False) -> None:
    """Store a session of two turns, of which each says what no other does."""
    at = T0 + timedelta(days=-day if before else day)
    texts = (
        f"I bought {day + 3} {PLACES[day % 10]} stamps.",
        f"My number {day} locker is in {PLACES[day // 10 % 10]}.",
    )
    turns = [
        {"speaker": "Ana", "content": text, "timestamp": at + timedelta(minutes=minute), "kind": "kept"}
        for minute, text in enumerate(texts)
    ]
    forest.ingest_session("u", f"{'b' if before else 's'}{day}", turns, refresh=False)


def filled() -> Iterator[MemForest]:
    """A forest with a memory of ten sessions."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made, MemForest(made, fast_config()) as forest:
        for day in range(10):
            put(forest, day)
        yield forest


STEPS = st.lists(st.sampled_from(["later", "earlier", "delete", "forget", "append"]), max_size=4)


@pytest.mark.parametrize("listing", sorted(LISTINGS))
@settings(max_examples=4, deadline=None)
@given(steps=STEPS, limit=st.integers(1, 7), seed=st.integers(0, 99))
def test_what_stays_is_on_one_page(listing: str, steps: list[str], limit: int, seed: int) -> None:
    """Sessions come before, behind and between, others go, facts are forgotten: nobody else moves, and pages are in order."""
    read, random = LISTINGS[listing], Random(seed)
    for forest in filled():
        memory = forest.user("u")
        before = [_name(one) for one in read(memory, MAX_PAGE, None)]
        gone: set[Any] = set()
        seen: list[Any] = []
        cursor: str | None = None
        todo = list(steps)
        for number in range(200):
            page = read(memory, limit, cursor)
            assert len(page) <= limit
            seen += [_name(one) for one in page]
            cursor = page.next_cursor
            if cursor is None:
                break
            assert len(page) == limit
            if todo:
                gone |= _write(forest, todo.pop(0), random, number)
        after = [_name(one) for one in read(memory, MAX_PAGE, None)]
        assert len(set(seen)) == len(seen)
        stayed = [one for one in before if one in set(after) and one not in gone]
        assert [one for one in seen if one in set(stayed)] == stayed
        assert not steps or set(seen) - set(before) <= set(after) | gone


def _write(forest: MemForest, step: str, random: Random, number: int) -> set[Any]:
    """Do something to the memory, and return the ids of what has gone."""
    memory = forest.user("u")
    if step in ("later", "earlier"):
        put(forest, 40 + number, before=step == "earlier")
    elif step == "append":
        turn = {
            "speaker": "Ana",
            "content": f"I sold {number + 70} boats.",
            "timestamp": T0 + timedelta(days=90),
        }
        memory.add([turn], session_id="s5")
    elif step == "forget":
        fact = random.choice(memory.list(limit=MAX_PAGE).facts)
        memory.forget(fact.fact_id)
        return {fact.fact_id}
    else:
        sessions = [one.session_id for one in memory.sessions() if one.session_id != "s5"]
        facts = {one.fact_id for one in memory.list(limit=MAX_PAGE)}
        gone = random.choice(sessions)
        memory.delete(session_id=gone)
        return {gone} | (facts - {one.fact_id for one in memory.list(limit=MAX_PAGE)})
    return set()


@pytest.fixture(scope="module")
def forest() -> Iterator[MemForest]:
    """A forest with a memory of ten sessions, which no test changes."""
    yield from filled()


@pytest.fixture(scope="module")
def world() -> Iterator[MemForest]:
    """A forest with a memory of seeded conversations: values that end, names, several speakers."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made, MemForest(made, fast_config()) as forest:
        for name, turns in make_sessions(7, sessions=12):
            forest.ingest_session("u", name, turns, refresh=False)
        yield forest


def all_pages(read: Callable[[str | None], Page]) -> list[Any]:
    """Return what is on all pages."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = read(cursor)
        found += page
        if (cursor := page.next_cursor) is None:
            return found


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_pages_are_the_whole_in_order(world: MemForest, limit: int) -> None:
    """By cursor comes what comes at once, with the same values: of facts also by offset, and as one has them by id."""
    memory = world.user("u")
    facts = list(memory.list(limit=MAX_PAGE))
    assert len(facts) > 20
    assert all_pages(lambda cursor: memory.list(limit=limit, cursor=cursor)) == facts
    by_offset = [
        one for start in range(0, len(facts), limit) for one in memory.list(offset=start, limit=limit)
    ]
    assert by_offset == facts
    assert [memory.get(one.fact_id) for one in facts[:20]] == facts[:20]
    assert all_pages(lambda cursor: memory.sessions(limit=limit, cursor=cursor)) == list(memory.sessions())
    turns = memory.turns(memory.sessions()[0].session_id)
    assert all_pages(lambda c: memory.turns(memory.sessions()[0].session_id, limit=limit, cursor=c)) == list(
        turns
    )
    people = list(memory.entities())
    assert all_pages(lambda cursor: memory.entities(limit=limit, cursor=cursor)) == people
    for one in people[:4]:
        whole = list(memory.timeline(one.name))
        assert all_pages(lambda c, name=one.name: memory.timeline(name, limit=limit, cursor=c)) == whole  # type: ignore[misc]


def test_facts_found_by_index_are_those_of_the_arrays(world: MemForest) -> None:
    """A page found by index has the views of the memory at a moment after everything: ends, successors, whom facts name."""
    memory = world.user("u")
    assert any(one.superseded_by for one in memory.list(limit=MAX_PAGE))
    for only in (
        {},
        {"entity": "Ana"},
        {"entity": "Lisbon"},
        {"session_id": memory.sessions()[2].session_id},
    ):
        by_index = memory.list(limit=MAX_PAGE, **only)  # type: ignore[arg-type]
        by_arrays = memory.list(limit=MAX_PAGE, known_at="2030-01-01", said_by="2030-01-01", **only)  # type: ignore[arg-type]
        assert by_index.facts == by_arrays.facts
        assert by_index.total == by_arrays.total == len(by_index)


def test_a_page_at_a_time_and_totals(forest: MemForest) -> None:
    """Pages tell how many there are in all, and the last one has no cursor."""
    memory = forest.user("u")
    first = memory.sessions(limit=4)
    assert (len(first), first.total, first.next_cursor is None) == (4, 10, False)
    last = memory.sessions(limit=6, cursor=first.next_cursor)
    assert (len(last), last.total, last.next_cursor) == (6, 10, None)
    assert [*first, *last] == memory.sessions()
    assert memory.turns("s3", limit=1).total == 2
    assert repr(first) == "SessionPage(4, and more)"
    assert first[0] == first.sessions[0]
    assert first[1:3] == first.sessions[1:3]
    assert first != last
    assert first.to_dict()["next_cursor"] == first.next_cursor


def _forged(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def test_no_other_text_is_a_cursor(forest: MemForest) -> None:
    """Garbage, another listing's, another user's, other arguments', one of another form, or with a key that cannot be."""
    memory, other = forest.user("u"), forest.user("v")
    other.add("I live in Davis. I work at Acme.", session_id="s0")
    cursor = memory.list(limit=2).next_cursor
    assert cursor is not None
    assert len(memory.list(limit=3, cursor=cursor)) == 3  # another limit is fine
    sessions = memory.sessions(limit=2).next_cursor
    digest = json.loads(base64.urlsafe_b64decode(cursor + "=="[: -len(cursor) % 4]))[1]
    forged = [
        _forged(2, digest, 1, "t", 1),
        _forged(1, "0" * 12, 1, "t", 1),
        _forged(1, digest, 1, "t"),
        _forged(1, digest, "1", "t", 1),
        _forged(1, digest, True, "t", 1),
        _forged(1, digest, 2**70, "t", 1),
        _forged(1, digest, 1, "\ud800", 1),
        _forged(1, digest, 1.5, "t", 1),
        _forged(1, digest, [1], "t", 1),
        base64.urlsafe_b64encode(b"[" * 100_000).decode()[: MAX_CURSOR_CHARS - 3],
    ]
    for wrong in [
        "",
        "x",
        "é",
        "a\0b",
        "A" * (MAX_CURSOR_CHARS + 1),
        cursor[:-3],
        sessions,
        7,
        b"x",
        *forged,
    ]:
        with pytest.raises(InputError) as caught:
            memory.list(cursor=wrong)  # type: ignore[arg-type]
        if isinstance(wrong, str) and len(wrong) > 3:
            assert wrong not in str(caught.value)
    for call in (
        lambda: memory.list(cursor=cursor, entity="Ana"),
        lambda: memory.list(cursor=cursor, said_by="2024-01-01"),
        lambda: other.list(cursor=cursor),
        lambda: memory.sessions(cursor=cursor),
        lambda: memory.turns("s1", cursor=memory.turns("s2", limit=1).next_cursor),
        lambda: memory.entities(cursor=cursor),
        lambda: memory.timeline("Ana", cursor=cursor),
        lambda: forest.users(cursor=cursor),
    ):
        with pytest.raises(InputError):
            call()
    with pytest.raises(InputError):
        memory.list(cursor=cursor, offset=1)


def test_a_cursor_holds_no_words(world: MemForest) -> None:
    """Of a fact or an entry of a timeline times, ids and numbers: cursors stand in addresses, which servers log."""
    memory = world.user("u")
    for page in (memory.list(limit=5), memory.timeline(memory.entities().entities[0].name, limit=2)):
        cursor = page.next_cursor
        assert cursor is not None
        told = base64.urlsafe_b64decode(cursor + "=="[: -len(cursor) % 4]).decode()
        assert not any(word in told for one in page for word in one.text.split() if len(word) > 5)


def test_the_key_of_the_longest_id_is_a_cursor() -> None:
    """An id of as many characters as there may be, none of them in ASCII, fits."""
    listing = Listing.of("sessions", "u")
    key = (-(2**60), "\U0001f600" * 1024)
    assert listing.key(listing.cursor(key), int, str) == key


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.sampled_from(["ann", "bob", "Cleo", "zed", "é", "x y"]), unique=True),
    st.integers(1, 4),
    st.data(),
)
def test_users_come_once(names: list[str], limit: int, data: st.DataObject) -> None:
    """Each on one page, while users come and go between the pages; only the files of a page are opened."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made, MemForest(made, fast_config()) as forest:
        for name in names:
            forest.register_user(name)
        seen: list[str] = []
        gone: set[str] = set()
        cursor: str | None = None
        while True:
            page = forest.users(limit=limit, cursor=cursor)
            seen += page
            if (cursor := page.next_cursor) is None:
                break
            if data.draw(st.booleans()):
                forest.register_user(f"new {len(seen)}")
            if seen[-1] not in gone and data.draw(st.booleans()):
                gone.add(seen[-1])
                forest.delete_user(seen[-1])
        assert len(set(seen)) == len(seen)
        assert set(names) <= set(seen)


def test_a_page_of_users_opens_its_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And names those of them that cannot be read."""
    from memforest.store import directory

    with MemForest(tmp_path, fast_config()) as forest:
        for name in ("a", "b", "c", "d"):
            forest.register_user(name)
    damaged = tmp_path / file_name("b")
    damaged.write_bytes(b"no database" * 100)
    with MemForest(tmp_path, fast_config()) as forest:
        opened: list[Path] = []
        owner = directory.owner_of

        def open_it(path: Path, key: Any) -> str | None:
            opened.append(path)
            return owner(path, key)

        monkeypatch.setattr(directory, "owner_of", open_it)
        page = forest.users(limit=1)
        assert list(page) == ["a"]
        assert len(opened) == 1
        page = forest.users(limit=1, cursor=page.next_cursor)
        assert (list(page), [one.file for one in page.unreadable]) == (["c"], [damaged.name])
        assert list(forest.users(limit=3, cursor=page.next_cursor)) == ["d"]
        assert forest.list_users() == ["a", "c", "d"]
