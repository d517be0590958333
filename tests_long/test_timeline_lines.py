"""States as a timeline shows them: what ended each, what they stand on, and pages of states or of events alone."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, fast_folder

from memforest import MemForest
from memforest.errors import InputError
from memforest.memory.blocking import UserMemory
from memforest.read.stored import TimelineEntry

SAID = (
    ("2024-01-01", "I live in Rome."),
    ("2024-01-05", "My brother is Tom."),
    ("2024-02-01", "I visited Kyoto."),
    ("2024-03-01", "My brother is Sam."),
    ("2024-03-02", "I still live in Rome."),
    ("2024-05-01", "I moved to Bern."),
    ("2024-06-01", "I no longer live in Bern."),
    ("2024-07-01", "I moved from Vigo to Lugano."),
)


@pytest.fixture(scope="module")
def memory() -> Iterator[UserMemory]:
    """Somebody with two brothers who moves, only read here."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder, MemForest(folder, fast_config()) as forest:
        turns = [{"speaker": "Ana", "content": text, "timestamp": f"{day}T10:00:00Z"} for day, text in SAID]
        forest.ingest_session("u", "s", turns)
        yield forest.user("u")


def homes(memory: UserMemory, **more: Any) -> dict[str | None, TimelineEntry]:
    """Return where Ana lived, by value."""
    return {one.value: one for one in memory.timeline("Ana", attribute="residence", **more)}


def test_a_second_brother_does_not_end_the_first(memory: UserMemory) -> None:
    """Values that hold side by side end only where somebody says so, as in `diff` and in the graph."""
    found = [(one.value, one.end) for one in memory.timeline("Ana", attribute="brother")]
    assert found == [("Tom", None), ("Sam", None)]


def test_nobody_took_the_place_of_the_first_brother(memory: UserMemory) -> None:
    """In the history of a statement, too, what holds beside others is superseded by none of them; a home is."""
    brothers = memory.timeline("Ana", attribute="brother")
    assert [one.kind for one in memory.history(brothers[0].fact_ids[0])] == ["said"]
    rome = memory.history(homes(memory)["Rome"].fact_ids[0])
    assert [(one.kind, one.text) for one in rome if one.kind == "superseded"] == [
        ("superseded", 'Ana: "I moved to Bern."')
    ]


def test_a_value_is_ended_by_the_next_one(memory: UserMemory) -> None:
    """With that value, the fact that tells it, and its words."""
    ended = homes(memory)["Rome"].ended_by
    assert ended is not None
    assert (ended.value, [one.text for one in ended.spoken]) == ("Bern", ["I moved to Bern."])
    assert ended.fact_id == homes(memory)["Bern"].fact_ids[0]
    assert [source.turn_ids for source in ended.sources] == [("5",)]


def test_a_value_is_ended_by_a_statement_of_its_end(memory: UserMemory) -> None:
    """Which tells of no other value."""
    ended = homes(memory)["Bern"].ended_by
    assert ended is not None
    assert (ended.value, ended.text) == (None, "I no longer live in Bern.")
    assert memory.get(ended.fact_id).text == ended.text


def test_what_was_left_and_what_came_are_told_by_one_statement(memory: UserMemory) -> None:
    """Nobody knows since when it had been."""
    vigo, lugano = homes(memory)["Vigo"], homes(memory)["Lugano"]
    assert vigo.ended_by is not None
    assert vigo.ended_by.value == "Lugano"
    assert vigo.ended_by.fact_id == vigo.fact_ids[0] == lugano.fact_ids[0]
    assert lugano.ended_by is None


def test_what_was_not_said_by_a_time_ended_nothing_then(memory: UserMemory) -> None:
    """The ending is that of the moment that was asked for."""
    bern = homes(memory, said_by="2024-05-20")["Bern"]
    assert (bern.end, bern.ended_by) == (None, None)


def test_an_entry_names_the_facts_that_it_stands_on(memory: UserMemory) -> None:
    """All of a state, oldest first; an event its own."""
    rome = homes(memory)["Rome"]
    assert [memory.get(one).said for one in rome.fact_ids] == sorted(
        memory.get(one).said for one in rome.fact_ids
    )
    assert {
        turn for one in rome.fact_ids for source in memory.get(one).sources for turn in source.turn_ids
    } == {turn for source in rome.sources for turn in source.turn_ids}
    [event] = memory.timeline("Kyoto")
    assert memory.get(event.fact_ids[0]).text == event.text


def test_a_corrected_end_is_told_by_the_correction(folder: Path) -> None:
    """A state that a person has ended names the fact that holds its end."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session(
            "u", "s", [{"speaker": "Ana", "content": "I live in Rome.", "timestamp": "2024-01-01T10:00:00Z"}]
        )
        user = forest.user("u")
        [fact] = user.list()
        user.update(fact.fact_id, valid_to="2024-04-01")
        [rome] = user.timeline("Ana", attribute="residence")
        assert rome.end is not None
        assert rome.ended_by is None or rome.ended_by.fact_id in rome.fact_ids


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_states_and_events_are_pages_of_their_own(memory: UserMemory, limit: int) -> None:
    """Together they are the whole, each in its order; every page tells all attributes there are."""
    whole = list(memory.timeline("Ana"))
    for kind in ("state", "event"):
        found: list[TimelineEntry] = []
        cursor = None
        while True:
            page = memory.timeline("Ana", kind=kind, limit=limit, cursor=cursor)
            found += page
            cursor = page.next_cursor
            assert page.attributes == ("brother", "residence")
            assert page.total == sum(one.kind == kind for one in whole)
            if cursor is None:
                break
        assert found == [one for one in whole if one.kind == kind]
    assert memory.timeline("Ana", attribute="residence", kind="event") == []


def test_a_kind_that_there_is_not_is_refused(memory: UserMemory) -> None:
    """And so is the cursor of the other kind's pages."""
    with pytest.raises(InputError):
        memory.timeline("Ana", kind="values")  # type: ignore[arg-type]
    cursor = memory.timeline("Ana", kind="state", limit=1).next_cursor
    with pytest.raises(InputError, match="cursor"):
        memory.timeline("Ana", kind="event", limit=1, cursor=cursor)
