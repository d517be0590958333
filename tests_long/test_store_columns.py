"""Column reads for the arrays of a query, and aliases: each in its order, whole or of some rows, and the same either way."""

from __future__ import annotations

from contextlib import closing
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests_long.stored import (
    add_mention,
    add_state,
    empty_memory,
    put_entities,
    put_entity,
    put_fact,
    put_session,
    say,
    use_alias,
    value,
)

from memforest.records import State
from memforest.store import facts, reads, sessions
from memforest.store.connections import Connection
from memforest.store.reads import StateSeen


def test_sessions_stand_by_their_first_time_and_their_id(tx: Connection) -> None:
    """Whichever was stored first; one without turns stands nowhere."""
    rows = {
        name: put_session(tx, name, ["x", "y"], at_ms=at)[0]
        for name, at in (("c", 5), ("b", 9), ("a", 9), ("é", -1))
    }
    silent = sessions.add_session(tx, "silent", infer=True, stored_ms=0, metadata={})
    expected = [(-1, "é", rows["é"]), (5, "c", rows["c"]), (9, "a", rows["a"]), (9, "b", rows["b"])]
    assert reads.session_spans(tx) == expected
    assert reads.session_spans(tx, [rows["b"], rows["c"], silent]) == [expected[1], expected[3]]
    assert reads.session_spans(tx, []) == []


def test_turns_are_read_by_session_and_position(tx: Connection) -> None:
    """Not by time, which may go back within a session."""
    (one, first), (two, second) = put_session(tx, "s", ["a", "b"], at_ms=500), put_session(tx, "o", ["c"])
    tx.execute("UPDATE turn SET said_ms = 3 WHERE id = ?", (first[1],))
    expected = [
        (first[0], one, "Ana", 500, "a", None),
        (first[1], one, "Ana", 3, "b", None),
        (second[0], two, "Ana", 0, "c", None),
    ]
    assert list(reads.turn_rows(tx)) == expected
    assert list(reads.turn_rows(tx, [two, 99])) == expected[2:]
    assert reads.sessions_of(tx, [first[1], first[0], 99]) == {one}
    assert reads.sessions_of(tx, []) == set()


def test_a_fact_is_its_speakers_when_it_names_them(tx: Connection) -> None:
    """As a participant, by the very label; else it is nobody's, 0."""
    _, [turn] = put_session(tx)
    ana = put_entity(tx, "ana", "Ana", "participant")
    bob = put_entity(tx, "bob", "Bob", "participant")
    place = put_entity(tx, "oslo", "Oslo", "place")
    named = {
        "f1": ("Ana", (ana, bob)),
        "f2": ("Ana", (bob,)),
        "f3": ("Oslo", (place,)),
        "f4": ("ana", (ana,)),
        "f5": ("Bob", (bob, ana)),
    }
    rows = {}
    for name, (speaker, who) in named.items():
        rows[name] = put_fact(tx, name, speaker=speaker, start_ms=1, end_ms=4, said_ms=9)
        where = say(tx, rows[name], turn)
        for one in who:
            add_mention(tx, where, one, "subject")
    found = list(reads.fact_rows(tx))
    assert {fact_id: speaker for _, speaker, *_, fact_id, _ in found} == {
        "f1": ana,
        "f2": 0,
        "f3": 0,
        "f4": 0,
        "f5": bob,
    }
    assert [row for row, *_ in found] == sorted(rows.values())
    assert found[0] == (rows["f1"], ana, 1, 4, 9, "f1", 0)
    assert list(reads.fact_rows(tx, [rows["f4"], rows["f2"], 99])) == [found[1], found[3]]
    assert reads.wordings(tx, [rows["f2"], 99]) == {rows["f2"]: "Ana paints."}
    assert len(reads.wordings(tx)) == 5


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sets(st.integers(0, 4), min_size=1), st.integers(0, 2)), max_size=12
    )
)
def test_whatever_was_said_how_often_is_read_alike_in_whole_and_in_part(
    said: list[tuple[int, set[int], int]],
) -> None:
    """Times of facts said more than once, distinct turns that support them, and whom they name."""
    with closing(empty_memory()) as tx:
        _, turns = put_session(tx, texts=list("abcde"))
        rows = [put_fact(tx, f"f{n}") for n in range(4)]
        who = put_entities(tx, "x", "y", "z")
        times: dict[int, list[int]] = {row: [] for row in rows}
        supports, mentions = set(), set()
        for fact, of, name in said:
            where = say(tx, rows[fact], *(turns[n] for n in sorted(of)))
            add_mention(tx, where, who[name], "other")
            times[rows[fact]].append(1000 * min(of))
            supports |= {(rows[fact], turns[n]) for n in of}
            mentions.add((rows[fact], who[name]))
        often = {row: tuple(sorted(at)) for row, at in times.items() if len(at) > 1}
        assert reads.said_often(tx) == often
        assert reads.supports(tx) == sorted(supports)
        assert reads.mentions(tx) == sorted(mentions)
        some = rows[1:3]
        assert reads.said_often(tx, some) == {row: at for row, at in often.items() if row in some}
        assert reads.supports(tx, some) == sorted(one for one in supports if one[0] in some)
        assert reads.mentions(tx, some) == sorted(one for one in mentions if one[0] in some)


OBSERVED = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["home", "job"]), st.integers(0, 2), st.sampled_from("ab"),
              st.sampled_from(["Oslo", "Rome", "Davis"]), st.sampled_from([None, "Oslo", "Lima"])),
    max_size=12,
)  # fmt: skip


def observe(tx: Connection, observed: list[tuple[int, str, int, str, str, str | None]]) -> list[StateSeen]:
    """Store observations, and return them in the order of their entities, attributes, times, ties and rows."""
    _, [turn] = put_session(tx)
    who = put_entities(tx, "ana", "bob")
    made = []
    for n, (entity, attribute, at_ms, tie, seen, previous) in enumerate(observed):
        fact = put_fact(tx, f"f{n}", tie=tie if n % 2 else "its first", said_ms=at_ms)
        where = say(tx, fact, turn, said_ms=at_ms, tie=tie)
        row = add_state(tx, where, who[entity], State("x", attribute, seen, previous))
        made.append(
            StateSeen(
                who[entity], attribute, seen, previous, "is", fact, at_ms, tie, row, occurrence=where[1]
            )
        )
    return sorted(made, key=lambda one: (one.entity, one.attribute, one.at_ms, one.tie, one.fact, one.row))


@settings(max_examples=20)
@given(OBSERVED)
def test_the_observations_of_an_attribute_are_read_in_the_order_of_its_timeline(
    observed: list[tuple[int, str, int, str, str, str | None]],
) -> None:
    """Of the same entity and attribute, and no others."""
    with closing(empty_memory()) as tx:
        timeline = observe(tx, observed)
        assert reads.states_seen(tx) == timeline
        for entity, attribute in {one[:2] for one in timeline}:
            own = [one for one in timeline if one[:2] == (entity, attribute)]
            assert reads.states_of_attribute(tx, (entity,), attribute) == own
        assert reads.states_of_attribute(tx, (1,), "none") == []


def test_observations_are_read_by_fact_or_by_row(tx: Connection) -> None:
    """A tie that is the fact's own is the fact's; rows that are not there are left out."""
    timeline = observe(
        tx,
        [
            (0, "home", 2, "a", "Oslo", None),
            (0, "home", 1, "b", "Rome", "Oslo"),
            (1, "job", 0, "a", "cook", None),
        ],
    )
    assert [one.value for one in timeline] == ["Rome", "Oslo", "cook"]
    assert reads.states_seen(tx, [timeline[0].fact, 99]) == timeline[:1]
    assert reads.states_with_ids(tx, [timeline[0].row, timeline[2].row, 99]) == [timeline[0], timeline[2]]
    assert reads.states_with_ids(tx, [timeline[0].row, timeline[1].row]) == [timeline[1], timeline[0]]
    assert value(tx, "SELECT count(*) FROM occurrence WHERE tie IS NULL") == 1
    tx.execute("UPDATE occurrence SET tie = 'z' WHERE fact = ?", (timeline[0].fact,))
    assert reads.states_seen(tx, [timeline[0].fact])[0].tie == "z"


def test_every_name_means_one_entity(tx: Connection) -> None:
    """An alias goes before another entity's key, whether all are read or some; others mean nobody."""
    ana, bob, cleo = put_entities(tx, "ana", "bob", "cleo")
    tx.execute("INSERT INTO alias VALUES ('bob', ?), ('c', ?), ('zoë', ?)", (ana, cleo, cleo))
    names = {"ana": ana, "bob": ana, "c": cleo, "cleo": cleo, "zoë": cleo}
    assert reads.names(tx) == names
    assert reads.entities_of(tx, [*names, "dan", ""]) == names
    assert reads.entities_of(tx, ["bob"]) == {"bob": ana}
    assert reads.entities_of(tx, []) == {}
    assert reads.keys_of(tx, [cleo]) == {"cleo", "c", "zoë"}
    assert reads.keys_of(tx, [bob, ana]) == {"ana", "bob"}
    assert reads.keys_of(tx, []) == set()
    assert facts.entities(tx, [bob, 99]) == {bob: facts.EntityRow(bob, "bob", "Bob", "unknown")}
    assert list(facts.entities(tx)) == [ana, bob, cleo]


def call(tx: Connection, entity: int, at_ms: int, tie: str, fact_id: str, *, alias: str = "mel") -> int:
    """Let a fact call an entity by an alias at a time; return the occurrence."""
    turn = value(tx, "SELECT min(id) FROM turn")
    where = say(tx, put_fact(tx, fact_id, tie=tie), turn, said_ms=at_ms, tie=tie)
    add_mention(tx, where, entity, "subject")
    use_alias(tx, alias, entity, where[1])
    return where[1]


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_an_alias_means_who_was_called_so_first(tx: Connection, order: tuple[int, ...]) -> None:
    """By time, then by tie, then by key, whichever was stored first; when nobody is called so, nobody is meant."""
    put_session(tx)
    melanie, melvin, melissa = who = put_entities(tx, "melanie", "melvin", "melissa")
    uses = [(melissa, 5, "a"), (melvin, 4, "b"), (melanie, 4, "c")]
    made = {uses[n][0]: call(tx, *uses[n], f"f{n}") for n in order}
    meant = []
    for gone in (melvin, melanie, melissa):
        meant.append(reads.names(tx)["mel"])
        assert facts.wrong_aliases(tx) == []
        tx.execute("DELETE FROM occurrence WHERE id = ?", (made[gone],))
        facts.resolve_aliases(tx, {"mel"})
    assert meant == [melvin, melanie, melissa]
    assert "mel" not in reads.names(tx)
    assert len(who) == 3


def test_of_two_called_alike_at_once_the_first_by_key_is_meant(tx: Connection) -> None:
    """Whichever has the lower row."""
    _, [turn] = put_session(tx)
    second, first = put_entities(tx, "melvin", "melanie")
    where = say(tx, put_fact(tx), turn)
    for entity in (second, first):
        add_mention(tx, where, entity, "other")
        for _ in range(2):
            use_alias(tx, "mel", entity, where[1])
    assert reads.names(tx)["mel"] == first
    assert value(tx, "SELECT count(*) FROM alias_use") == 2


def test_the_aliases_that_a_chunk_uses(tx: Connection) -> None:
    """Once each, and none of another chunk's."""
    _, turns = put_session(tx, texts=["a", "b"], chunk=1)
    [ana] = put_entities(tx, "ana")
    call(tx, ana, 0, "a", "f1")
    call(tx, ana, 0, "b", "f2", alias="an")
    call(tx, ana, 0, "c", "f3", alias="an")
    say(tx, put_fact(tx, "f4"), turns[1])


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE alias SET entity = 2", ["stands for another entity"]),
        (
            "INSERT INTO alias VALUES ('zed', 2)",
            ["stands for another entity than whom it is used for, or is used by nothing"],
        ),
        ("DELETE FROM alias", ["is used, and is not there"]),
        ("DELETE FROM mention", ["does not mention the entity"]),
        ("UPDATE mention SET entity = 2", ["does not mention the entity"]),
        ("UPDATE alias SET entity = 1", []),
    ],
)
def test_an_alias_that_is_not_what_its_uses_make_of_it_is_named(
    tx: Connection, damage: str, told: list[str]
) -> None:
    """With what is wrong."""
    put_session(tx)
    ana, _ = put_entities(tx, "ana", "bob")
    call(tx, ana, 0, "a", "f1")
    assert facts.wrong_aliases(tx) == []
    tx.execute(damage)
    found = facts.wrong_aliases(tx)
    assert len(found) == len(told)
    assert all(part in text for part, (_, text) in zip(told, found, strict=True))
    assert [key for key, _ in found] == (["zed"] if "zed" in damage else ["mel"] * len(told))
