"""Relations from statements and from states: how long they hold, and what tells of them. Profiles of entities."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta, timezone
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, said

from memforest import MemForest
from memforest.graph.graph import Graph, graph_of
from memforest.graph.paths import relations_of
from memforest.graph.profile import MOST, MOST_CHARS, profile_of, salient
from memforest.graph.relations import KnownRelation, known_relations, state_lines
from memforest.ports import MOST_SOURCES, FoundLine, ends_of
from memforest.search.cache import SnapshotCache
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.reads import RelationRow, StateSeen

KEYS = ("ana", "bob", "davis", "miami")
PLACES = {key: place for place, key in enumerate(KEYS)}
ENTITIES = {10: 0, 11: 1, 12: 2, 13: 3, 20: 0}
"""Stored entity -> place: 10 and 20 are one."""


def seen(
    value: str, at_ms: int, fact: int, *, entity: int = 10, attribute: str = "residence", **more: str
) -> StateSeen:
    """Return an observation of a state; its row is that of its fact, its occurrence 100 more."""
    change = more.get("change", "is")
    return StateSeen(
        entity, attribute, value, more.get("previous"), change, fact, at_ms, "", fact, occurrence=fact + 100
    )


def related_by(source: int, label: str, target: int, fact: int, occurrence: int, at_ms: int) -> RelationRow:
    """Return a relation that an occurrence states."""
    return RelationRow(0, fact, occurrence, source, label, target, at_ms, at_ms)


def related(
    *states: StateSeen, told: tuple[RelationRow, ...] = ()
) -> dict[tuple[str, str, str], KnownRelation]:
    """Return the relations by the keys of their ends."""
    lines = state_lines(states, ENTITIES).values()
    found = known_relations(told, lines, ENTITIES, PLACES)
    return {(KEYS[source], label, KEYS[target]): one for (source, label, target), (_, one) in found.items()}


def test_another_value_ends_a_relation_and_its_return_begins_it_anew() -> None:
    """Davis, Miami, Davis: two times there, with the evidence of both, and nothing is erased."""
    found = related(seen("Davis", 10, 1), seen("Miami", 20, 2), seen("Davis", 30, 3))
    davis, miami = found["ana", "residence", "davis"], found["ana", "residence", "miami"]
    assert davis.spans == ((10, 20), (30, None))
    assert (davis.start_ms, davis.end_ms, davis.weight) == (10, None, 2)
    assert davis.facts == (1, 3)
    assert davis.occurrences == (101, 103)
    assert miami.spans == ((20, 30),)
    assert [davis.holds_at(at) for at in (5, 10, 19, 20, 29, 30)] == [False, True, True, False, False, True]


def test_what_was_left_held_before_nobody_knows_since_when() -> None:
    """'Moved from Davis to Miami' tells of both; where it began is open."""
    found = related(seen("Miami", 20, 1, previous="Davis", change="start"))
    assert found["ana", "residence", "davis"].spans == ((None, 20),)
    assert found["ana", "residence", "davis"].holds_at(-5)
    assert found["ana", "residence", "miami"].start_ms == 20
    assert found["ana", "residence", "davis"].weight == 1


def test_an_end_that_is_told_ends_and_several_values_hold_beside_each_other() -> None:
    """One brother more ends none; 'no longer' ends what it names alone."""
    brothers = [seen("Bob", 10, 1, attribute="brother"), seen("Davis", 20, 2, attribute="brother")]
    found = related(*brothers, seen("Bob", 30, 3, attribute="brother", change="end"))
    assert found["ana", "brother", "bob"].spans == ((10, 30),)
    assert found["ana", "brother", "davis"].spans == ((20, None),)
    over = related(seen("Davis", 10, 1), seen("Davis", 40, 2, change="end"))
    assert over["ana", "residence", "davis"].spans == ((10, 40),)


def test_the_states_of_entities_that_are_one_are_read_together() -> None:
    """What was told of one name ends what was told of the other."""
    found = related(seen("Davis", 10, 1), seen("Miami", 20, 2, entity=20))
    assert found["ana", "residence", "davis"].end_ms == 20


def test_a_state_of_no_entity_of_oneself_or_of_nothing_is_no_relation() -> None:
    """A value that is no name, the own name, and a change of nobody knows what."""
    assert not related(
        seen("a small flat", 10, 1),
        seen("Ana", 20, 2, attribute="name"),
        seen("Davis", 30, 3, attribute="unspecified"),
    )


def test_one_label_however_it_is_written_and_a_state_gives_it_its_end() -> None:
    """Statements and states of one label are one relation, which the state ends."""
    told = (
        related_by(10, "Residence", 12, 5, 50, 15),
        related_by(10, " residence ", 12, 6, 60, 16),
        related_by(10, "residence", 10, 7, 70, 17),
    )
    found = related(seen("Davis", 10, 1), seen("Miami", 20, 2), told=told)
    assert set(found) == {("ana", "residence", "davis"), ("ana", "residence", "miami")}
    both = found["ana", "residence", "davis"]
    assert (both.weight, both.facts, both.occurrences) == (3, (1, 5, 6), (50, 60, 101))
    assert both.spans == ((10, 20),)
    assert both.latest_ms == 16


def test_a_statement_relates_from_when_it_was_first_so_with_no_end() -> None:
    """Of two occurrences the earlier one; a label of blanks is none."""
    told = (
        related_by(10, "met", 11, 5, 50, 30),
        related_by(10, "met", 11, 5, 51, 20),
        related_by(11, "met", 10, 5, 50, 30),
        related_by(10, " ", 11, 5, 50, 1),
    )
    found = related(told=told)
    assert set(found) == {("ana", "met", "bob"), ("bob", "met", "ana")}
    assert (found["ana", "met", "bob"].spans, found["ana", "met", "bob"].weight) == (((20, None),), 2)


TOLD = (
    "I live in Oslo.",
    "My sister is Lucia Perez.",
    "Lucia Perez works at Orrin Labs.",
    "I moved to Bergen.",
    *(f"Lucia Perez visited Aldenville number {number}." for number in range(12)),
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of one session of Ana's, a minute a turn."""
    folder = tmp_path_factory.mktemp("told")
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", said(*TOLD))
    return folder


@contextmanager
def reading(folder: Path) -> Iterator[tuple[Tx, Snapshot, Graph]]:
    """Open the only memory of a folder, and give its snapshot and graph."""
    db = Database(file_of(folder))
    try:
        with db.read() as tx:
            snapshot = SnapshotCache().get(tx)
            yield tx, snapshot, graph_of(snapshot)
    finally:
        db.close()


def texts(lines: list[FoundLine], kind: str) -> list[str]:
    """Return the texts of the lines of one kind."""
    return [line.text for line in lines if line.kind == kind]


def test_a_profile_has_states_in_force_relations_and_the_latest_statements(told: Path) -> None:
    """Where Ana lives now; whose sister Lucia is; of twelve statements the last ones. Each line has its sources."""
    with reading(told) as (tx, snapshot, graph):
        ana, lucia = graph.by_key["ana"], graph.by_key["lucia perez"]
        own = profile_of(tx, snapshot, graph, ana)
        assert "residence: Bergen" in " ".join(texts(own, "state"))
        assert "Oslo" not in " ".join(texts(own, "state"))
        hers = profile_of(tx, snapshot, graph, lucia)
        assert texts(hers, "state") == ["employer: Orrin Labs (known since 2023-05-01)"]
        assert "Ana / sister / Lucia Perez (2023-05-01)" in texts(hers, "relation")
        assert len(texts(hers, "fact")) == MOST["fact"]
        assert "number 11" in texts(hers, "fact")[0]
        for line in (*own, *hers):
            assert line.facts
            assert line.turns
            assert set(line.turns) <= set(snapshot.turns.ids.tolist())
            assert len(line.text) <= MOST_CHARS
        # Who only said it is not who it is told of.
        assert not [text for text in texts(own, "fact") if "Aldenville" in text]


def test_a_profile_of_an_instant_tells_what_was_so_then(told: Path) -> None:
    """A minute after the first turn Ana lived in Oslo, and nobody had named her sister's firm."""
    with reading(told) as (tx, snapshot, graph):
        first = int(snapshot.turns.said_ms.min())
        then = profile_of(tx, snapshot, graph, graph.by_key["ana"], first + 1)
        assert texts(then, "state") == ["residence: Oslo (known since 2023-05-01)"]
        assert len(texts(then, "fact")) == 1
        assert profile_of(tx, snapshot, graph, graph.by_key["lucia perez"], first + 1) == []
        zone = timezone(timedelta(hours=14))
        far = profile_of(tx, snapshot, graph, graph.by_key["ana"], first + 1, zone=zone)
        assert texts(far, "state") == ["residence: Oslo (known since 2023-05-02)"]
        place = graph.by_key["ana"]
        holding, over = relations_of(graph, place, first + 1)
        assert ([one.label for one in holding], over) == (["residence"], [])
        assert [graph.labels[one.target] for one in relations_of(graph, place)[1]] == ["Oslo"]


def test_people_firms_and_places_have_profiles_first(told: Path) -> None:
    """By how many statements name them; what nothing names is not among them."""
    with reading(told) as (_, _snapshot, graph):
        found = salient(graph, 3)
        assert [graph.labels[place] for place in found[:2]] == ["Ana", "Lucia Perez"]
        assert len(found) == 3
        assert salient(graph, 0) == []
        kinds = [
            graph.kinds[place] in ("participant", "person", "organisation", "place")
            for place in salient(graph, 99)
        ]
        assert kinds == sorted(kinds, reverse=True)


def test_of_many_sources_the_first_and_the_last_stay() -> None:
    """A line that very much rests on has a bounded number of sources."""
    assert ends_of([5, 5, 2]) == (5, 2)
    many = ends_of(range(100))
    assert len(many) == MOST_SOURCES
    assert (many[0], many[-1]) == (0, 99)
