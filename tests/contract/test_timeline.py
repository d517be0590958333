"""A timeline tells what is known of somebody in time order, each value with the time in which it held."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.contract.talk import said

from memforest import MemForest, UserMemory
from memforest.errors import InputError, NotFoundError

Line = tuple[str | None, str | None, str | None]


def told(forest: MemForest, *turns: tuple[str, str], user: str = "u") -> UserMemory:
    """Add turns of Anna, each with a day, in sessions of their own."""
    forest.register_user(user, display_name="Anna")
    for at, (day, text) in enumerate(turns):
        forest.user(user).add({"speaker": "Anna", "content": text, "timestamp": day}, session_id=f"s{at}")
    return forest.user(user)


def lines(entries: Sequence[Any]) -> list[Line]:
    """Return value, first day and end day of states."""
    return [
        (one.value, one.start and f"{one.start:%Y-%m-%d}", one.end and f"{one.end:%Y-%m-%d}")
        for one in entries
        if one.kind == "state"
    ]


def test_a_value_ends_when_another_takes_its_place(read_anna: UserMemory) -> None:
    """Intervals are half-open and meet; what holds has no end."""
    first, last = read_anna.timeline("Anna", attribute="residence")
    assert (first.value, last.value) == ("Ghent", "Lille")
    assert first.end == last.start == datetime(2024, 4, 8, tzinfo=timezone.utc)
    assert last.end is None
    assert first.start == datetime(2024, 3, 4, 9, tzinfo=timezone.utc)


def test_events_stand_at_their_own_time(read_anna: UserMemory) -> None:
    """What was said later of an earlier day stands on that day."""
    entries = list(read_anna.timeline("Anna", kind="event"))
    met = next(one for one in entries if "harbour" in one.text)
    bought = next(one for one in entries if "canoe" in one.text)
    assert (met.start, bought.start) == (
        datetime(2024, 5, 18, tzinfo=timezone.utc),
        datetime(2024, 3, 3, tzinfo=timezone.utc),
    )


def test_all_is_in_time_order_and_has_its_turns(read_anna: UserMemory) -> None:
    """Each line names the turns that say so, and lines of states and of events make the whole."""
    page = read_anna.timeline("Anna")
    known = [one.start for one in page if one.start]
    assert known == sorted(known)
    assert all(one.sources and one.fact_ids for one in page)
    kinds = [list(read_anna.timeline("Anna", kind=kind)) for kind in ("state", "event")]
    assert len(page) == page.total == sum(map(len, kinds))
    assert set(page.attributes) >= {"residence", "employer", "dentist"}


def test_who_is_only_spoken_of_has_one_too(read_anna: UserMemory) -> None:
    """Also of people who never speak."""
    assert "Tannery Lane" in [one.value for one in read_anna.timeline("Milo")]


def test_an_earlier_time_that_is_told_later_lands_in_its_place(forest: MemForest) -> None:
    """The order of arrival decides nothing."""
    memory = told(forest, ("2024-05-10", "I live in Oslo."), ("2024-03-10", "I live in Turin."))
    assert lines(memory.timeline("Anna")) == [
        ("Turin", "2024-03-10", "2024-05-10"),
        ("Oslo", "2024-05-10", None),
    ]


def test_a_value_that_comes_back_is_there_twice(forest: MemForest) -> None:
    """Who moves back lived there twice."""
    memory = told(
        forest,
        ("2024-03-10", "I live in Ghent."),
        ("2024-04-10", "I moved to Lille."),
        ("2024-05-10", "I moved back to Ghent."),
    )
    assert lines(memory.timeline("Anna", attribute="residence")) == [
        ("Ghent", "2024-03-10", "2024-04-10"),
        ("Lille", "2024-04-10", "2024-05-10"),
        ("Ghent", "2024-05-10", None),
    ]


def test_values_that_hold_side_by_side_do_not_end_one_another(forest: MemForest) -> None:
    """A second brother is no change of the first."""
    memory = told(forest, ("2024-03-10", "My brother is Milo."), ("2024-04-10", "My brother is Otto."))
    assert lines(memory.timeline("Anna", attribute="brother")) == [
        ("Milo", "2024-03-10", None),
        ("Otto", "2024-04-10", None),
    ]


def test_an_end_ends_and_puts_nothing_in_its_place(forest: MemForest) -> None:
    """Who no longer works somewhere works nowhere that is known."""
    memory = told(
        forest,
        ("2024-03-10", "I work at Kestrel Books."),
        ("2024-05-10", "I no longer work at Kestrel Books."),
    )
    assert lines(memory.timeline("Anna", attribute="employer")) == [
        ("Kestrel Books", "2024-03-10", "2024-05-10")
    ]
    assert not memory.ask("Where does Anna work?", reference_date="2024-05-20")


@pytest.mark.parametrize(
    ("first", "then", "move"),
    [
        ("2024-06-10", "2024-07-10", "I moved to Lille last month."),
        ("2024-07-03", "2024-07-10", "I moved to Lille last week."),
        ("2024-02-10", "2024-07-10", "I moved to Lille this year."),
    ],
)
def test_a_vague_date_does_not_turn_time_round(forest: MemForest, first: str, then: str, move: str) -> None:
    """What is said later wins where its interval allows it: she lives where she says she moved to."""
    memory = told(forest, (first, "I live in Ghent."), (then, move))
    values = lines(memory.timeline("Anna", attribute="residence"))
    assert [one[0] for one in values] == ["Ghent", "Lille"]
    assert values[-1][2] is None


def test_no_statement_is_valid_for_no_time(forest: MemForest) -> None:
    """Of all that is listed, the end lies behind the start, so that some `during` finds it."""
    memory = told(
        forest,
        ("2024-03-10", "I work at Kestrel Books."),
        ("2024-05-10", "I no longer work at Kestrel Books."),
        ("2024-05-11", "I used to live in Ghent."),
    )
    assert [one.text for one in memory.list() if one.end is not None and one.end <= one.start] == []


def test_a_stated_range_is_the_range(forest: MemForest) -> None:
    """A state "from 2015 to 2018" ends with 2018, and not with the next place that is told."""
    memory = told(
        forest, ("2024-03-10", "I lived in Turin from 2015 to 2018."), ("2024-04-10", "I live in Ghent.")
    )
    assert lines(memory.timeline("Anna", attribute="residence"))[0] == ("Turin", "2015-01-01", "2019-01-01")


def test_a_move_is_told_in_spanish_too(forest: MemForest) -> None:
    """The rules know Spanish: who moves has left."""
    memory = told(forest, ("2024-03-10", "Vivo en Cádiz."), ("2024-04-10", "Me mudé a Bilbao."))
    assert [one[0] for one in lines(memory.timeline("Anna", attribute="residence"))] == ["Cádiz", "Bilbao"]


def test_pages_make_the_whole(read_anna: UserMemory) -> None:
    """By cursor, whatever the size, each line is on one page."""
    whole = list(read_anna.timeline("Anna"))
    for limit in (1, 2, 5):
        got, cursor = [], None
        while True:
            page = read_anna.timeline("Anna", limit=limit, cursor=cursor)
            assert len(page) <= limit
            got += list(page)
            if (cursor := page.next_cursor) is None:
                break
        assert got == whole


def test_said_by_and_known_at_tell_less(read_anna: UserMemory) -> None:
    """What was said, or stored, later is as if it were not there: an open value stays open."""
    for when in ({"said_by": "2024-04-01"}, {"known_at": "2024-04-01"}):
        assert lines(read_anna.timeline("Anna", **when)) == [("Ghent", "2024-03-04", None)]  # type: ignore[arg-type]


def test_names_are_found_in_any_case_and_spelling(forest: MemForest) -> None:
    """Case, accents and blanks around a name do not matter."""
    memory = forest.user("u")
    memory.add(said("I live in Turin.", speaker="Zoë Brandt"), session_id="s")
    for name in ("zoë brandt", "ZOË BRANDT", " Zoë Brandt "):
        assert [one.value for one in memory.timeline(name, kind="state")] == ["Turin"]


def test_who_is_not_known_is_an_error(read_anna: UserMemory) -> None:
    """A NotFoundError; an attribute that the person does not have is an empty page."""
    with pytest.raises(NotFoundError):
        read_anna.timeline("Zoe")
    assert not read_anna.timeline("Ruth", attribute="residence")
    with pytest.raises(InputError):
        read_anna.timeline("Anna", kind="states")  # type: ignore[arg-type]
    with pytest.raises(InputError):
        read_anna.timeline("Anna", cursor="nonsense")
