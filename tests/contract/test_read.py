"""Everything that a memory holds can be read: listed, paged, filtered, counted, and compared between two times."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.contract.talk import ANNA, KNOWN, fact, holding, opened, said, shown, statements, texts

from memforest import MemForest, UserMemory
from memforest.errors import InputError, NotFoundError
from memforest.testing import FrozenClock

MANY = [text for turns in ANNA.values() for _, _, text in turns]


def pages(read: Callable[..., Any], limit: int) -> list[Any]:
    """Return what is on all pages of a listing."""
    got: list[Any] = []
    cursor = None
    for _ in range(100):
        page = read(limit=limit, cursor=cursor)
        assert len(page) <= limit
        got += list(page)
        if (cursor := page.next_cursor) is None:
            return got
    raise AssertionError("the pages do not end")


def test_get_returns_what_list_shows(read_anna: UserMemory) -> None:
    """Every fact of the list can be got by its id, and is the same."""
    for one in read_anna.list():
        assert read_anna.get(one.fact_id) == one


def test_get_of_an_unknown_id_is_an_error(read_anna: UserMemory, forest: MemForest) -> None:
    """A NotFoundError, in a memory that is there and for a user who has none."""
    with pytest.raises(NotFoundError):
        read_anna.get("f1:nothing")
    with pytest.raises(NotFoundError):
        forest.user("nobody").get("f1:nothing")


def test_a_fact_says_who_said_it_when_and_where(read_anna: UserMemory) -> None:
    """Speaker, times, named entities and turns are those of the talk; what superseded it is named."""
    ghent = fact(read_anna, "Ghent")
    assert (ghent.speaker, ghent.said) == ("Anna", datetime(2024, 3, 4, 9, tzinfo=timezone.utc))
    assert ghent.stored == KNOWN["march"]
    assert {"Anna", "Ghent"} <= set(ghent.entities)
    assert [source.session_id for source in ghent.sources] == ["march"]
    assert "Lille" in (ghent.superseded_by or "")
    assert fact(read_anna, "Lille").superseded_by is None


def test_words_of_time_are_told_as_days(read_anna: UserMemory) -> None:
    """The words "last week", of a Monday in April is the week before, and the day's text stays as it was said."""
    [date] = fact(read_anna, "Lille").dates
    assert (date.words, date.precision) == ("last week", "week")
    assert (f"{date.start:%m-%d}", date.end and f"{date.end:%m-%d}") == ("04-08", "04-15")


def test_list_has_all_in_time_order(read_anna: UserMemory) -> None:
    """Every statement that was made, by its valid start; questions state nothing."""
    found = list(read_anna.list())
    assert {one.text for one in found} == set(MANY) - {"Did you sell the canoe?"}
    assert [one.start for one in found] == sorted(one.start for one in found)


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_pages_of_list_make_the_whole(read_anna: UserMemory, limit: int) -> None:
    """By cursor and by offset, each fact is on one page, and the total is told."""
    whole = list(read_anna.list())
    assert pages(read_anna.list, limit) == whole
    assert read_anna.list(limit=limit).total == len(whole)
    assert list(read_anna.list(offset=2, limit=limit)) == whole[2 : 2 + limit]


@pytest.mark.parametrize(
    ("narrowed", "expected"),
    [
        ({"entity": "Milo"}, ["ferrets", "Tannery", "harbour"]),
        ({"entity": "milo", "session_id": "april"}, ["Tannery"]),
        ({"session_id": "may"}, ["harbour", "Kestrel", "dulcimer"]),
        ({"during": ("2024-05-18", "2024-05-19"), "entity": "Milo", "session_id": "may"}, ["harbour"]),
        ({"as_of": "2024-03-04T09:00:30Z"}, ["canoe", "Ghent"]),
        ({"verdict": "pinned"}, []),
    ],
)
def test_list_can_be_narrowed(read_anna: UserMemory, narrowed: dict[str, Any], expected: list[str]) -> None:
    """By entity, session, time and verdict; each word stands for one statement."""
    found = list(read_anna.list(**narrowed))
    assert len(found) == len(expected)
    assert all(word in one.text for one, word in zip(found, expected, strict=True))


def test_list_of_an_unknown_entity_or_session_is_an_error(read_anna: UserMemory) -> None:
    """A NotFoundError, as an empty list would say that nothing was said of it."""
    for unknown in ({"entity": "Zoe"}, {"session_id": "june"}):
        with pytest.raises(NotFoundError):
            read_anna.list(**unknown)  # type: ignore[arg-type]


def test_a_cursor_survives_what_comes_and_goes(anna: UserMemory) -> None:
    """From page to page no fact is there twice or missing while others are added and deleted."""
    before = [one.fact_id for one in anna.list()]
    first = anna.list(limit=4)
    anna.delete(first.facts[1].fact_id)
    anna.add(said("I own a kiln.", start="2024-05-25T10:00:00+00:00"), session_id="new")
    rest, cursor = [], first.next_cursor
    while cursor:
        page = anna.list(limit=4, cursor=cursor)
        rest += [one.fact_id for one in page]
        cursor = page.next_cursor
    assert [one for one in rest if one in before] == before[4:]
    assert len(rest) == len(set(rest)) == len(before) - 4 + 1


def test_sessions_are_listed_in_time_order(read_anna: UserMemory) -> None:
    """With their turns, their first and last time and who took part."""
    march, april, may = read_anna.sessions()
    assert [one.session_id for one in (march, april, may)] == ["march", "april", "may"]
    assert (march.turns, set(march.participants)) == (4, {"Anna", "Ruth"})
    assert (f"{may.start:%H:%M}", f"{may.end:%H:%M}") == ("07:30", "07:33")
    assert april.origin is None


def test_pages_of_sessions_and_turns_make_the_whole(read_anna: UserMemory) -> None:
    """Each is on one page."""
    assert pages(read_anna.sessions, 2) == list(read_anna.sessions())
    for limit in (1, 3):
        assert pages(lambda **how: read_anna.turns("april", **how), limit) == list(read_anna.turns("april"))


def test_turns_are_what_was_said(read_anna: UserMemory) -> None:
    """To the letter, in order, with speaker, time, and when the memory received them."""
    for name, turns in ANNA.items():
        got = list(read_anna.turns(name))
        assert [(one.speaker, f"{one.said:%Y-%m-%dT%H:%M:%SZ}", one.text) for one in got] == list(turns)
        assert {one.stored for one in got} == {KNOWN[name]}
        assert len({one.id for one in got}) == len(got)


def test_turns_of_an_unknown_session_are_an_error(read_anna: UserMemory, forest: MemForest) -> None:
    """A NotFoundError, also for a user who has no memory."""
    for memory in (read_anna, forest.user("nobody")):
        with pytest.raises(NotFoundError):
            memory.turns("june")


def test_entities_are_whom_and_what_statements_name(read_anna: UserMemory) -> None:
    """Who takes part are speakers; others are named; those that most statements name come first."""
    found = {one.name: one for one in read_anna.entities()}
    assert {"Anna", "Ruth", "Milo", "Ghent", "Lille"} <= set(found)
    assert (found["Anna"].role, found["Milo"].role) == ("speaker", "named")
    assert found["Milo"].supports == 3
    supports = [one.supports for one in read_anna.entities()]
    assert supports == sorted(supports, reverse=True)


def test_entities_can_be_looked_for_and_paged(read_anna: UserMemory) -> None:
    """By kind and by words of a name, in any case."""
    assert [one.name for one in read_anna.entities(query="tannery")] == ["Tannery Lane"]
    assert not read_anna.entities(query="zoe")
    assert {one.name for one in read_anna.entities("place")} == {"Ghent", "Lille"}
    assert pages(read_anna.entities, 2) == list(read_anna.entities())
    with pytest.raises(InputError):
        read_anna.entities(query=" ")


def test_relations_name_both_and_where_it_was_said(read_anna: UserMemory) -> None:
    """What was said of two, with its turns; `as_of` keeps what held then."""
    brother = next(one for one in read_anna.relations("Milo") if one.label == "brother")
    assert (brother.source, brother.target) == ("Ruth", "Milo")
    assert [source.session_id for source in brother.sources] == ["march"]
    assert [one.label for one in read_anna.relations("Milo", as_of="2024-04-01")] == ["brother"]
    with pytest.raises(NotFoundError):
        read_anna.relations("Zoe")


def test_two_names_can_be_decided_to_be_one_and_apart(anna: UserMemory) -> None:
    """What a person decides on names holds for entities, relations and profiles until it is taken back."""

    def told() -> list[str]:
        return [one.target for one in anna.relations("Milo")]

    anna.add({"speaker": "Anna", "content": "Gustav lives in Metz."}, session_id="x")
    assert "Metz" not in told()
    assert set(anna.merge_entities("Milo", "Gustav").names) == {"Milo", "Gustav"}
    assert "Metz" in told()
    assert "Gustav" not in [one.name for one in anna.entities()]
    assert any("Metz" in line.text for section in anna.profile("Milo") for line in section)
    assert [one.verdict for one in anna.entity_choices()] == ["same"]
    anna.split_entity("Milo", "Gustav")
    assert "Metz" not in told()
    assert "Gustav" in [one.name for one in anna.entities()]
    assert anna.verify().ok


def test_names_that_may_be_one_are_proposed(anna: UserMemory) -> None:
    """One begins or ends with the other, and with no third; what a person decides is proposed no more."""
    for told in (
        "I drive a Skoda Fabia.",
        "My Skoda is at the garage.",
        "The Fabia is too small, says Lena Ruiz.",
    ):
        anna.add(told)
    anna.add("I moved from York to New York.")

    def proposed() -> dict[str, tuple[str, ...]]:
        return {one.name: one.perhaps for one in anna.entities() if one.perhaps}

    assert {name: sorted(some) for name, some in proposed().items()} == {
        "Skoda": ["Skoda Fabia"],
        "Fabia": ["Skoda Fabia"],
        "Skoda Fabia": ["Fabia", "Skoda"],
    }
    anna.merge_entities("Skoda", "Skoda Fabia")
    assert "Fabia" in proposed()
    anna.merge_entities("Fabia", "Skoda Fabia")
    assert proposed() == {}


def test_every_reader_knows_that_two_names_are_one(anna: UserMemory) -> None:
    """Timeline, list and answers are of the person, whichever name is asked with; a split takes that back."""
    anna.add({"speaker": "Anna", "content": "Gustav lives in Metz."}, session_id="x")
    before = {name: len(anna.list(entity=name)) for name in ("Milo", "Gustav")}
    anna.merge_entities("Milo", "Gustav")
    for name in before:
        assert {"Metz", "Tannery Lane"} <= {one.value for one in anna.timeline(name)}
        assert len(anna.list(entity=name)) == len(anna.list(entity=name, as_of="2030-01-01")) == 4
        assert any("Metz" in line.text for section in anna.profile(name) for line in section)
    assert "Metz" in (anna.ask("Where does Milo live?").answer or "")
    assert anna.verify().ok
    anna.add({"speaker": "Anna", "content": "Milo moved to Trier."}, session_id="y")
    assert [one.value for one in anna.timeline("Gustav", attribute="residence")] == ["Metz", "Trier"]
    anna.split_entity("Milo", "Gustav")
    assert {name: len(anna.list(entity=name)) for name in before} == {**before, "Milo": before["Milo"] + 1}
    assert [one.value for one in anna.timeline("Gustav", attribute="residence")] == ["Metz"]
    assert anna.verify().ok


def test_two_names_are_one_since_it_was_said(world: Path) -> None:
    """What the memory held before has two people; whoever was deleted goes with both names."""
    clock = FrozenClock("2026-07-01T12:00:00Z")
    with opened(world, clock) as forest:
        anna = forest.user("anna")
        anna.add({"speaker": "Anna", "content": "Gustav lives in Metz."}, session_id="x")
        then = clock()
        clock.advance(days=1)
        anna.merge_entities("Milo", "Gustav")
        assert [one.value for one in anna.timeline("Milo", known_at=then, attribute="residence")] == []
        assert [one.value for one in anna.timeline("Milo", attribute="residence")] == ["Metz"]
        assert len(anna.list(entity="Milo", known_at=then)) == 3
        anna.delete(entity="Milo")
        assert anna.verify(deleted=["Gustav", "Metz", "Milo"]).ok


def test_a_path_leads_from_one_to_another(read_anna: UserMemory) -> None:
    """Each step says why; who nobody knows is an error."""
    path = read_anna.path("Ruth", "Tannery Lane")
    assert path.found
    assert (path.steps[0].source, path.steps[-1].target) == ("Ruth", "Tannery Lane")
    assert all(step.sources for step in path)
    with pytest.raises(NotFoundError):
        read_anna.path("Ruth", "Zoe")


def test_a_profile_tells_what_lasts(read_anna: UserMemory) -> None:
    """What holds now, with its turns; at an earlier time what held then, and nothing that was said later."""
    [now] = read_anna.profile("Anna")
    lines = [one.text for one in now if one.kind == "state"]
    assert any("Lille" in one for one in lines)
    assert not any("Ghent" in one for one in lines)
    assert all(one.sources for one in now)
    [then] = read_anna.profile("Anna", as_of="2024-03-20")
    assert any("Ghent" in one.text for one in then)
    assert not any("Lille" in one.text for one in then)
    with pytest.raises(NotFoundError):
        read_anna.profile("Zoe")


def test_stats_count_what_there_is(read_anna: UserMemory) -> None:
    """Sessions, turns, facts, and whose memory it is; nothing is unfinished."""
    stats = read_anna.stats()
    assert (stats.user_id, stats.sessions, stats.turns) == ("anna", 3, 12)
    assert stats.facts == len(read_anna.list(limit=1000))
    assert (stats.failed_chunks, stats.unfinished) == (0, 0)
    assert stats.bytes > 0


def test_changes_tell_what_was_written_and_when(read_anna: UserMemory) -> None:
    """In the order of writing: turns, statements, and what they superseded; a window is half-open."""
    whole = list(read_anna.changes("2024-01-01", limit=1000))
    assert [one.at for one in whole] == sorted(one.at for one in whole)
    assert sum(one.count for one in whole if one.kind == "stored") == 12
    assert {one.text for one in whole if one.kind == "learnt"} == set(statements(read_anna))
    assert [one.superseded for one in whole if "Lille" in one.text] == [("I live in Ghent.",)]
    assert read_anna.changes(KNOWN["march"], KNOWN["march"].replace(hour=0, second=1)).changes != ()
    only = read_anna.changes(KNOWN["march"], KNOWN["april"], limit=1000)
    assert {one.session_id for one in only if one.kind == "stored"} == {"march"}


def test_pages_of_changes_make_the_whole(read_anna: UserMemory) -> None:
    """`next` of a page is given to `after=` for the one behind it."""
    got, after = [], None
    while True:
        page = read_anna.changes("2024-01-01", limit=4, after=after)
        got += list(page)
        if (after := page.next) is None:
            break
    assert got == list(read_anna.changes("2024-01-01", limit=1000))


def test_whoever_reads_on_from_the_last_until_misses_nothing(anna: UserMemory, clock: FrozenClock) -> None:
    """What comes later is in the next window, and only there."""
    first = len(anna.changes("2024-01-01", clock(), limit=1000).changes)
    seen = clock()
    anna.add(said("I own a kiln."), session_id="x")
    clock.advance(minutes=5)
    anna.forget(fact(anna, "kiln").fact_id)
    later = anna.changes(seen)
    assert [one.kind for one in later] == ["stored", "learnt", "corrected"]
    assert len(anna.changes("2024-01-01", limit=1000).changes) == first + 3


def test_diff_compares_two_times(read_anna: UserMemory) -> None:
    """What began, ended, or took another's place, with its turns; the other way round it is the mirror."""
    entries = {(one.entity, one.attribute): one for one in read_anna.diff("2024-03-20", "2024-05-01")}
    moved = entries["Anna", "residence"]
    assert (moved.change, moved.before, moved.after) == ("changed", "Ghent", "Lille")
    assert moved.sources
    assert entries["Anna", "dentist"].change == "begun"
    assert ("Ruth", "employer") not in entries
    back = {(one.entity, one.attribute): one for one in read_anna.diff("2024-05-01", "2024-03-20")}
    assert (back["Anna", "residence"].before, back["Anna", "residence"].after) == ("Lille", "Ghent")
    assert back["Anna", "dentist"].change == "ended"
    assert not read_anna.diff("2024-05-01", "2024-05-02")
    with pytest.raises(NotFoundError):
        read_anna.diff("2024-03-20", "2024-05-01", entity="Zoe")


def test_trees_cover_what_was_said(read_anna: UserMemory) -> None:
    """A session's tree has its time; inner nodes cover their children; leaves are quoted."""
    for one in read_anna.tree(depth=5):
        assert one.start <= one.end
        for child in one.children:
            assert one.start <= child.start
            assert child.end <= one.end
            assert child.level < one.level
    [march] = read_anna.tree("march", depth=5)
    assert march.start == datetime(2024, 3, 4, 9, tzinfo=timezone.utc)
    with pytest.raises(NotFoundError):
        read_anna.tree("zoe")


def test_users_are_listed(forest: MemForest) -> None:
    """Sorted, or by pages; who was only asked about is none."""
    for name in ("zoe", "ben", "Ünal", "anna"):
        forest.register_user(name)
    assert forest.list_users() == sorted(["zoe", "ben", "Ünal", "anna"])
    assert sorted(pages(forest.users, 3)) == forest.list_users()
    assert forest.has_user("ben")
    assert not forest.has_user("nobody")


def test_a_user_is_registered_once(forest: MemForest) -> None:
    """Again it is a no-op; `load_existing=False` says that there must be none."""
    forest.register_user("u", display_name="Iris")
    forest.register_user("u")
    with pytest.raises(InputError):
        forest.register_user("u", load_existing=False)
    forest.user("u").add("I own a kiln.")
    assert fact(forest.user("u"), "kiln").speaker == "Iris"


def test_every_reader_returns_plain_data(read_anna: UserMemory) -> None:
    """Each result prints in one line, and JSON takes what `to_dict` gives."""
    one = read_anna.list().facts[0]
    results = [
        read_anna.list(), read_anna.get(one.fact_id), read_anna.sessions(), read_anna.turns("may"), read_anna.entities(),
        read_anna.profile(), read_anna.stats(), read_anna.changes("2024-01-01"), read_anna.diff("2024-03-20", "2024-05-01"),
        read_anna.timeline("Anna"), read_anna.verify(), read_anna.graph(), *read_anna.history(one.fact_id),
        *read_anna.relations("Milo"), *read_anna.tree(), read_anna.path("Ruth", "Milo"), *read_anna.indexes(), read_anna.stale(),
    ]  # fmt: skip
    for result in results:
        assert json.loads(json.dumps(result.to_dict()))
        assert "\n" not in repr(result)


def test_readers_leave_the_memory_as_it_is(anna: UserMemory) -> None:
    """Nothing that only reads changes what was said or stated."""
    before = shown(anna), texts(anna.list())
    anna.tree(depth=3)
    anna.profile()
    anna.graph()
    anna.stale()
    anna.verify()
    assert (shown(anna), texts(anna.list())) == before
    assert holding(anna.list(), "Lille")
