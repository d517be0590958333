"""Turns may come in any order: they are taken, and stand in the order of their times."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from memforest import AsyncMemForest, Config, MemForest, SessionConflictError, TimestampError
from memforest.testing import FrozenClock, HashEmbedder

NOON = datetime(2026, 5, 4, 12, tzinfo=timezone.utc)
LINES = (
    "I keep bees behind the shed.",
    "My hives are painted yellow.",
    "I sold the old lawn mower.",
    "The honey is stored in the cellar.",
    "I planted a row of lavender.",
    "My neighbour Petra lends me her ladder.",
    "I ordered two new frames.",
    "The smoker needs a new bellows.",
    "I moved the hives to the orchard.",
)


def config(**settings: Any) -> Config:
    """Return a configuration with small chunks and a clock that stands still."""
    settings = {"chunk_turns": 3, **settings}
    return Config(embedder=HashEmbedder(), clock=FrozenClock(NOON + timedelta(days=9)), **settings)


def turn(n: int, **more: Any) -> dict[str, Any]:
    """Return the n-th thing that was said."""
    return {"role": "user", "content": LINES[n], "timestamp": NOON + timedelta(minutes=n), **more}


def shown(forest: MemForest, session_id: str = "s") -> list[str]:
    """Return what is shown of a session, in order."""
    return [one.text for one in forest.user("ilka").turns(session_id)]


def out_of_order(result: Any) -> list[str]:
    """Return the warnings that tell of turns out of order."""
    return [one for one in result.warnings if "out of order" in one]


def test_turns_of_one_call_are_sorted_and_said_so_once(tmp_path: Path) -> None:
    """Whatever order they come in, none is left out; what comes in order has no such warning."""
    mixed = [turn(n) for n in (4, 0, 8, 2, 1, 3, 7, 6, 5)]
    with MemForest(tmp_path, config()) as forest:
        me = forest.user("ilka")
        result = me.add(mixed, session_id="s")
        [warning] = out_of_order(result)
        assert warning.startswith("7 ")
        assert (result.turns_added, shown(forest)) == (9, list(LINES))
        assert me.verify().ok
        assert out_of_order(me.add([turn(n) for n in range(9)], session_id="t")) == []


def test_equal_times_keep_the_order_in_which_they_came(tmp_path: Path) -> None:
    """Sorting is stable, within a call and between calls."""
    same = [{**turn(n), "timestamp": NOON} for n in range(4)]
    with MemForest(tmp_path, config()) as forest:
        me = forest.user("ilka")
        me.add([turn(8), *same[:2]], session_id="s")
        me.add(same[2:], session_id="s")
        assert shown(forest) == [*LINES[:4], LINES[8]]


def test_a_clock_a_second_behind_is_no_error(tmp_path: Path) -> None:
    """The turn is stored where its time puts it."""
    with MemForest(tmp_path, config()) as forest:
        me = forest.user("ilka")
        me.add({**turn(0), "timestamp": NOON}, session_id="s")
        done = me.add({**turn(1), "timestamp": NOON - timedelta(seconds=1)}, session_id="s")
        assert len(out_of_order(done)) == 1
        assert shown(forest) == [LINES[1], LINES[0]]
        assert me.verify().ok


def trees(forest: MemForest) -> list[Any]:
    """Return every tree with the times and sources of its nodes."""

    def shape(node: Any) -> Any:
        return [node.start, node.sources, *map(shape, node.children)]

    return [(tree.index, tree.title.split()[0], shape(tree)) for tree in forest.user("ilka").tree(depth=9)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("indexes", [("memforest",), ("segtree", "timem", "hmem")])
def test_any_order_of_arrival_comes_to_the_same_memory(
    tmp_path: Path, seed: int, indexes: tuple[str, ...]
) -> None:
    """Turns that come late, one by one, leave what comes of all of them in order; also behind a deletion and a rebuild."""
    order = list(range(9))
    random.Random(seed).shuffle(order)
    with MemForest(tmp_path / "a", config(indexes=indexes)) as forest:
        me = forest.user("ilka")
        for n in order:
            me.add(turn(n, id=f"m{n}"), session_id="s")
            assert me.verify().ok
        assert shown(forest) == list(LINES)
        facts = [(one.start, one.text, one.sources) for one in me.list()]
        with MemForest(tmp_path / "b", config(indexes=indexes)) as other:
            other.user("ilka").add([turn(n, id=f"m{n}") for n in range(9)], session_id="s")
            assert facts == [(one.start, one.text, one.sources) for one in other.user("ilka").list()]
            assert trees(forest) == trees(other)
        me.delete(turn=("s", f"m{order[4]}"))
        assert me.verify().ok
        me.rebuild()
        assert me.verify().ok
        assert shown(forest) == [line for n, line in enumerate(LINES) if n != order[4]]


def test_a_late_turn_is_read_at_its_place_in_time(tmp_path: Path) -> None:
    """Of two values the later one is the present, whichever was stored first; the session begins with its first turn."""
    with MemForest(tmp_path, config()) as forest:
        me = forest.user("ilka")
        me.add({"role": "user", "content": "I live in Ghent.", "timestamp": "2026-03-01"}, session_id="s")
        me.add({"role": "user", "content": "I live in Riga.", "timestamp": "2026-01-05"}, session_id="s")
        values = [one.value for one in me.timeline("ilka", attribute="residence")]
        assert [str(value).casefold() for value in values] == ["riga", "ghent"]
        assert me.sessions()[0].start.month == 1
        context = me.search("Where do I live?").context()
        assert "Ghent" in context


def test_a_retry_of_a_late_turn_is_stored_once(tmp_path: Path) -> None:
    """By its own id, and by the key of the write; the keys of writes around it go on to hold."""
    with MemForest(tmp_path, config()) as forest:
        me = forest.user("ilka")
        first = me.add([turn(5), turn(6)], session_id="s", idempotency_key="first")
        me.add(turn(0, id="late"), session_id="s", idempotency_key="late")
        assert me.add(turn(0, id="late"), session_id="s").turns_added == 0
        assert me.add(turn(0, id="late"), session_id="s", idempotency_key="late").replayed
        again = me.add([turn(5), turn(6)], session_id="s", idempotency_key="first")
        assert again.replayed
        assert (again.added, again.turns_added) == (first.added, 2)
        assert shown(forest) == [LINES[0], LINES[5], LINES[6]]


def test_a_session_that_comes_again_may_have_grown_anywhere(tmp_path: Path) -> None:
    """What is stored is known again among what is new; a session that lacks what is stored is another one."""
    with MemForest(tmp_path, config()) as forest:
        forest.ingest_session("ilka", "s", [turn(2), turn(6)])
        grown = forest.ingest_session("ilka", "s", [turn(n) for n in (0, 2, 4, 6, 8)])
        assert grown.turns_added == 3
        assert shown(forest) == [LINES[n] for n in (0, 2, 4, 6, 8)]
        assert forest.ingest_session("ilka", "s", [turn(n) for n in (8, 6, 0, 2, 4)]).unchanged
        with pytest.raises(SessionConflictError):
            forest.ingest_session("ilka", "s", [turn(n) for n in (0, 2, 6, 8)])
        assert forest.user("ilka").verify().ok


def test_a_file_in_no_order_is_stored_whole(tmp_path: Path) -> None:
    """No message of it is left out, and the import says that they came out of order."""
    order = list(range(300))
    random.Random(7).shuffle(order)
    messages = [
        {
            "role": "user",
            "content": f"Parcel {n} was collected.",
            "timestamp": (NOON + timedelta(hours=n)).isoformat(),
        }
        for n in order
    ]
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(messages), encoding="utf-8")
    with MemForest(tmp_path / "mem", config()) as forest:
        done = forest.import_file("ilka", file, session_id="s")
        assert not done.files[0].wrong
        assert len(out_of_order(done.memories[0])) == 1
        assert shown(forest) == [f"Parcel {n} was collected." for n in range(300)]


def test_two_writers_with_clocks_apart_lose_nothing(tmp_path: Path) -> None:
    """Each adds to the same session at the same time; all is there, in order, and read."""

    async def write(forest: AsyncMemForest, name: str, skew: int) -> None:
        for n in range(8):
            said = NOON + timedelta(seconds=10 * n - skew)
            text = f"I saw the {name} number {n}."
            await forest.user("ilka").add(
                {"role": "user", "content": text, "timestamp": said}, session_id="s"
            )

    async def run() -> None:
        async with AsyncMemForest(tmp_path, config()) as forest:
            await asyncio.gather(write(forest, "tram", 0), write(forest, "ferry", 14))
            me = forest.user("ilka")
            times = [one.said for one in await me.turns("s")]
            assert (len(times), times) == (16, sorted(times))
            await forest.resume("ilka")
            assert (await me.verify()).ok
            assert (await me.stats()).unfinished == 0

    asyncio.run(run())


def test_only_a_time_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """And it is one of the call: nothing is stored."""
    with MemForest(tmp_path, config()) as forest:
        with pytest.raises(TimestampError):
            forest.user("ilka").add([turn(0), {**turn(1), "timestamp": "the day after"}])
        assert not forest.has_user("ilka")
