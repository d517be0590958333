"""Whom and what a memory knows: entities with their names, relations, the way between two, and decisions on who is who."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.known_people import TOLD, WHO, remembered, tell

from memforest import Config, InputError, MemForest, NotFoundError, UserMemory
from memforest.read.entities import Entity


@pytest.fixture(name="forest")
def _forest(folder: Path) -> Iterator[MemForest]:
    with remembered(folder) as forest:
        yield forest


@pytest.fixture(name="memory")
def _memory(forest: MemForest) -> UserMemory:
    return forest.user(WHO)


def names_of(memory: UserMemory) -> set[frozenset[str]]:
    """Return the names of each entity."""
    return {frozenset(one.names) for one in memory.entities()}


def one_named(memory: UserMemory, name: str) -> Entity:
    """Return the entity with a name."""
    return next(one for one in memory.entities() if name in one.names)


def test_entities_are_told_with_all_their_names(memory: UserMemory) -> None:
    """Those that most statements name come first; each name has how often it was seen, and who speaks is told apart."""
    page = memory.entities()
    assert [one.supports for one in page] == sorted((one.supports for one in page), reverse=True)
    first = page.entities[0]
    assert (first.name, first.kind, first.role, first.salience) == ("Mara", "participant", "speaker", 1.0)
    lucia = one_named(memory, "Lucia")
    assert (lucia.name, lucia.role, dict(lucia.names)) == ("Lucía", "named", {"Lucía": 2, "Lucia": 1})
    assert one_named(memory, "Orrin Labs").kind == "organisation"
    assert all(0 < one.salience <= 1 for one in page)


def test_entities_are_found_by_kind_and_words(memory: UserMemory) -> None:
    """Whatever case and accents the words have; a limit cuts, and the page says of how many."""
    assert {one.name for one in memory.entities("place")} == {"Porto", "Madrid", "Lisbon", "Kyoto"}
    assert [one.name for one in memory.entities(query="LUCIA")] == ["Lucía"]
    assert {one.name for one in memory.entities(query="labs orrin")} == {"Orrin Labs"}
    cut = memory.entities(limit=2)
    assert (len(cut), cut.total) == (2, memory.entities().total)
    none = memory.entities("work", "nothing such")
    assert not none
    assert (none.total, none.to_dict()["entities"]) == (0, [])
    with pytest.raises(InputError):
        memory.entities("animal")  # type: ignore[arg-type]  # that is what is tried
    with pytest.raises(InputError, match="blank"):
        memory.entities(query=" ")


def test_a_memory_without_names_has_an_empty_graph(folder: Path) -> None:
    """Nothing is an entity, nothing is near, and nothing raises but for the name."""
    with MemForest(folder, Config(embedder=None)) as forest:
        forest.register_user("u")
        memory = forest.user("u")
        assert not memory.entities()
        assert memory.entity_choices() == []
        with pytest.raises(NotFoundError):
            memory.relations("Mara")


@pytest.mark.parametrize("name", ["", "I", "—", "🦊", "\u202eMara", "n" * 500, "<b>Mara</b>", "Mara'; DROP"])
def test_hostile_names_are_no_error_of_ours(memory: UserMemory, name: str) -> None:
    """Each is a name like any other: known, or not found; a long one is cut in the message."""
    for call in (
        memory.relations,
        lambda it: memory.path(it, "Mara"),
        lambda it: memory.merge_entities("Rex", it),
    ):
        said = ""
        try:
            call(name)
        except NotFoundError as exc:
            said = str(exc)
        assert len(said) < 400
    assert memory.verify().ok


def test_relations_have_their_time_and_sources(memory: UserMemory) -> None:
    """What ended stays with its end, behind what holds; at a time only what held then."""
    found = memory.relations("Mara")
    homes = [one for one in found if one.label == "residence"]
    assert [one.target for one in homes] == ["Lisbon", "Porto"]
    assert (homes[0].start, homes[0].end) == (datetime(2024, 3, 3, tzinfo=timezone.utc), None)
    assert homes[1].end == homes[0].start
    assert homes[1].sources[0].session_id == "2024-01-05-0"
    assert memory.get(homes[1].fact_ids[0]).sources == homes[1].sources
    then = [one.target for one in memory.relations("mara", as_of="2024-02-10") if one.label == "residence"]
    assert then == ["Porto"]
    assert [one for one in memory.relations("Mara", as_of="2023-01-01") if one.label == "residence"] == []
    assert {one.source for one in memory.relations("Lisbon")} == {"Mara"}


def test_an_unknown_name_is_answered_with_near_ones(memory: UserMemory) -> None:
    """Spelled alike; else with those that are named most."""
    with pytest.raises(NotFoundError):
        memory.relations("Orin Lab")
    with pytest.raises(NotFoundError):
        memory.path("Mara", "qqq")


def test_a_path_is_told_with_its_evidence(memory: UserMemory) -> None:
    """Step by step: what relates the two, where that was said, and in which words."""
    found = memory.path("Orrin Labs", "Lisbon")
    assert [one.target for one in found][-1] == "Lisbon"
    assert found.source == found.steps[0].source == "Orrin Labs"
    assert all(one.target == after.source for one, after in zip(found.steps, found.steps[1:], strict=False))
    last = found.steps[-1]
    assert (last.kind, last.labels, last.texts) == ("relation", ("residence",), ("I moved to Lisbon.",))
    [home] = last.relations
    assert (home.source, home.label, home.target, home.end) == ("Mara", "residence", "Lisbon", None)
    assert home == next(one for one in memory.relations("Lisbon") if one.label == "residence")
    assert all(one.sources and one.fact_ids for one in found)


def test_no_path_is_false_and_no_step_is_not(memory: UserMemory) -> None:
    """Too far is no way; an entity is no step from itself."""
    assert not memory.path("Orrin Labs", "Rex", hops=1)
    same = memory.path("Lucia", "Lucía")
    assert same
    assert (same.found, len(same)) == (True, 0)
    for hops in (0, 9, None):
        with pytest.raises(InputError, match="hops"):
            memory.path("Mara", "Rex", hops=hops)  # type: ignore[arg-type]  # that is what is tried


def test_a_merge_is_undone_by_a_split_and_that_by_a_merge(memory: UserMemory) -> None:
    """Names, relations and ways follow the decision at once; each undoes the other to the letter."""
    before = [one.to_dict() for one in memory.entities()]
    assert not memory.path("Rex", "Kyoto", hops=1)
    both = memory.merge_entities("Rex", "Lucía")
    assert set(both.names) == {"Rex", "Lucía", "Lucia"}
    assert both.decisions
    assert memory.path("Rex", "Kyoto", hops=1)
    assert frozenset(both.names) in names_of(memory)
    apart = memory.split_entity("Lucía", "Rex")
    assert set(apart.names) == {"Rex"}
    assert [one.to_dict() for one in memory.entities()] == before
    again = memory.merge_entities("Lucía", "Rex")
    assert set(again.names) == set(both.names)
    assert memory.verify().ok


def test_the_newest_decision_on_two_names_counts(memory: UserMemory) -> None:
    """One a pair is told, whatever was decided before."""
    memory.merge_entities("Rex", "Porto")
    assert [(one.verdict, {one.name, one.other}) for one in memory.entity_choices()] == [
        ("same", {"Rex", "Porto"})
    ]
    memory.split_entity("Porto", "Rex")
    [choice] = memory.entity_choices()
    assert (choice.verdict, {choice.name, choice.other}) == ("apart", {"Rex", "Porto"})


def test_a_merge_overrules_every_split_between_the_two(memory: UserMemory) -> None:
    """Of three that are one, one is split off and merged again with another one than before."""
    memory.merge_entities("Rex", "Porto")
    memory.merge_entities("Porto", "Madrid")
    memory.split_entity("Madrid", "Rex")
    assert frozenset({"Porto", "Madrid"}) in names_of(memory)
    memory.merge_entities("Rex", "Madrid")
    assert frozenset({"Rex", "Porto", "Madrid"}) in names_of(memory)
    assert {one.verdict for one in memory.entity_choices()} == {"same"}


def test_a_decision_holds_for_what_is_said_later(memory: UserMemory, forest: MemForest, folder: Path) -> None:
    """Also after the memory is closed and opened again."""
    memory.merge_entities("Rex", "Lucía")
    tell(forest, (("2024-05-01", "Iven", "Rex visited Bergen with Mara."),))
    forest.close()
    with MemForest(folder, Config(embedder=None)) as opened:
        assert {"Rex", "Lucía"} <= set(one_named(opened.user(WHO), "Rex").names)


def test_what_cannot_be_merged_or_split_is_said(memory: UserMemory) -> None:
    """One name twice, a name of another entity, the only name; nothing is decided then."""
    with pytest.raises(InputError):
        memory.merge_entities("Lucía", "Lucia")
    with pytest.raises(InputError):
        memory.split_entity("Mara", "Rex")
    with pytest.raises(InputError):
        memory.split_entity("Lucía", "Lucia")
    with pytest.raises(NotFoundError):
        memory.split_entity("Mara", "Bergen")
    assert memory.entity_choices() == []


def test_what_is_deleted_takes_its_decisions_along(memory: UserMemory) -> None:
    """No name of it is left, in no entity and no choice."""
    memory.merge_entities("Rex", "Lucía")
    memory.delete(entity="Rex")
    assert memory.entity_choices() == []
    assert not any("Rex" in names for names in names_of(memory))
    assert memory.verify(deleted=["Rex"]).ok


def test_the_graph_does_not_depend_on_the_order_of_sessions(folder: Path) -> None:
    """The same entities, relations and ways, whichever session was stored first."""
    told = []
    for user, order in (("a", TOLD), ("b", TOLD[::-1])):
        with MemForest(folder, Config(embedder=None)) as forest:
            for when, who, text in order:
                turns = [{"speaker": who, "content": text, "timestamp": when}]
                forest.ingest_session(user, f"{when} {who}", turns)
            memory = forest.user(user)
            told.append(
                (
                    [one.to_dict() for one in memory.entities()],
                    [one.to_dict() for one in memory.relations("Mara")],
                    memory.path("Orrin Labs", "Lisbon").to_dict(),
                )
            )
    assert told[0] == told[1]
