"""Which entities are one: choices, rules, what is never joined, repair edges."""

from __future__ import annotations

import pytest
from tests.table import each
from tests_long.hand_made import decided, resolve

from memforest.graph.names import Decision, Form, Likeness, NamedEntity, Resolution, compare
from memforest.graph.resolve import (
    MOST_ASKED,
    MOST_BEGINNING,
    MOST_NEIGHBOURS,
    MOST_OVERLAPS,
    Resolver,
)
from memforest.records import EntityKind
from memforest.text import entity_key

FRIENDS = tuple(NamedEntity(900 + place, f"friend{place}", "person", f"Friend{place}") for place in range(4))


def person(
    row: int,
    label: str,
    *,
    kind: EntityKind = "person",
    supports: int = 1,
    near: tuple[int, ...] = (),
    beside: tuple[int, ...] = (),
    aliases: tuple[str, ...] = (),
) -> NamedEntity:
    """Return an entity by its label."""
    key = entity_key(label) or label
    return NamedEntity(row, key, kind, label, (), aliases, supports, frozenset(near), frozenset(beside))


def joined(found: Resolution) -> dict[int, int]:
    """Return what stands for whom, as a plain dict."""
    return dict(found.into)


ANA, ANA_RUIZ, ANA_GIL = person(1, "Ana"), person(2, "Ana Ruiz"), person(3, "Ana Gil")


def test_nothing_is_joined_in_an_empty_memory() -> None:
    """No entities, no groups."""
    assert resolve([]) == Resolution()


def test_a_first_name_is_the_one_who_has_it() -> None:
    """One fits: it is joined, and the decision says by which rule."""
    found = resolve([ANA, ANA_RUIZ])
    assert joined(found) == {2: 1}
    assert found.decisions == (Decision(1, 2, "part", 0.5),)
    assert (found.of(1), found.of(2), found.of(77)) == (1, 1, 77)


def test_a_first_name_that_two_have_is_neither_and_is_near_to_both() -> None:
    """Two fit: it stays apart, with a repair edge to each."""
    found = resolve([ANA, ANA_RUIZ, ANA_GIL])
    assert joined(found) == {}
    assert found.decisions == ()
    assert found.overlaps == ((1, 3, "prefix"), (1, 2, "prefix"))


def test_names_that_are_one_by_then_count_as_one() -> None:
    """Ana is Ana Ruiz if Ana Ruiz and Ana María Ruiz are one."""
    found = resolve([ANA, ANA_RUIZ, person(4, "Ana María Ruiz")])
    assert set(joined(found)) | set(joined(found).values()) == {1, 2, 4}


def test_a_choice_joins_what_no_rule_would_and_its_undoing_parts_them() -> None:
    """A person's word counts for names that have nothing in common, and leaves nothing behind."""
    named = [person(1, "Pip", supports=3), person(2, "Eduardo Salas")]
    assert joined(resolve(named)) == {}
    found = resolve(named, [decided(1, 2, same=True)])
    assert joined(found) == {2: 1}
    assert found.decisions == (Decision(1, 2, "choice", 1.0),)
    keeper = Resolver(named, [decided(1, 2, same=True)])
    keeper.update(choices=[])
    assert keeper.resolution == resolve(named)


def test_a_choice_keeps_apart_what_a_rule_would_join() -> None:
    """Nor is there a repair edge between two that a person told apart."""
    found = resolve([ANA, ANA_RUIZ], [decided(2, 1, same=False)])
    assert joined(found) == {}
    assert found.overlaps == ()


def test_whom_a_person_told_apart_still_makes_a_name_ambiguous() -> None:
    """That Ana is not Ana Ruiz does not make her Ana Gil."""
    assert joined(resolve([ANA, ANA_RUIZ, ANA_GIL], [decided(1, 2, same=False)])) == {}


def test_a_choice_decides_an_ambiguous_name() -> None:
    """Ana is Ana Gil because somebody said so."""
    assert joined(resolve([ANA, ANA_RUIZ, ANA_GIL], [decided(1, 3, same=True)])) == {3: 1}


def test_a_married_name_is_another_full_name_of_one_person() -> None:
    """After a choice that two full names are one, what fits either is hers."""
    choices = [decided(2, 3, same=True)]
    named = [ANA, ANA_RUIZ, ANA_GIL, person(4, "A. Gil", near=(900,)), *FRIENDS]
    found = resolve(named, choices)
    assert len({found.of(row) for row in (1, 2, 3, 4)}) == 1


@pytest.mark.parametrize("newest", ["same", "apart"])
def test_the_newest_of_contradicting_choices_counts(newest: str) -> None:
    """Also where they contradict each other over a third entity."""
    a, b, c = (person(row, label) for row, label in ((1, "Uma"), (2, "Olaf"), (3, "Piet")))
    choices = [decided(1, 2, same=True, made_ms=1), decided(2, 3, same=True, made_ms=2)]
    choices.append(decided(1, 3, same=False, made_ms=3 if newest == "apart" else 0))
    found = resolve([a, b, c], choices)
    groups = {found.of(row) for row in (1, 2, 3)}
    assert len(groups) == (2 if newest == "apart" else 1)
    assert found.of(2) == found.of(3)
    assert resolve([a, b, c], choices[::-1]) == found


def test_a_choice_about_what_is_not_there_waits() -> None:
    """A choice of a deleted entity is no error, and counts again when it is there; one about itself never does."""
    keeper = Resolver([ANA], [decided(1, 5, same=True), decided(1, 1, same=True), decided(1, 1, same=False)])
    assert keeper.resolution == Resolution()
    keeper.update([person(5, "Quim")])
    assert len(keeper.resolution.into) == 1


@each(
    "named",
    [
        pytest.param([person(1, "Ana", beside=(2,)), ANA_RUIZ], id="beside, said by the short name"),
        pytest.param([ANA, person(2, "Ana Ruiz", beside=(1,))], id="beside, said by the other"),
        pytest.param([person(1, "Ford"), person(2, "Ford Inc", kind="organisation")], id="person and firm"),
        pytest.param(
            [person(1, "Imre", kind="participant"), person(2, "Imre Kovacs", kind="participant")],
            id="two who speak",
        ),
        pytest.param([person(1, "Ana Ruiz"), person(2, "Bea Ruiz")], id="full names"),
        pytest.param([person(1, "Wade Jr"), person(2, "Cornelius Wade")], id="generation"),
    ],
)
def test_never_joined(named: list[NamedEntity]) -> None:
    """Whatever they share, two that must stay apart are two."""
    friends = frozenset(friend.id for friend in FRIENDS)
    near = [
        NamedEntity(one.id, one.key, one.kind, one.label, (), (), 1, friends, one.beside) for one in named
    ]
    assert joined(resolve([*near, *FRIENDS])) == {}


def test_an_unknown_does_not_join_a_person_to_a_firm() -> None:
    """What may be either is one of them, and the two stay apart."""
    named = [
        person(1, "Jan-Ford", kind="person"),
        person(2, "Jan Ford", kind="unknown"),
        person(3, "JanFord", kind="organisation"),
    ]
    found = resolve(named)
    assert found.of(1) != found.of(3)


def test_two_short_names_of_one_that_stand_beside_each_other() -> None:
    """Only one of them can be the long one; which does not depend on the order."""
    named = [person(1, "Ana", beside=(2,)), person(2, "Ruiz", beside=(1,)), person(3, "Ana Ruiz")]
    found = resolve(named)
    assert found.of(1) != found.of(2)
    assert resolve(named[::-1]) == found


def test_an_alias_joins_whom_it_stands_for_and_nobody_if_it_stands_for_two() -> None:
    """A short name that stands for one entity somewhere is hers everywhere."""
    fifi = person(1, "Fifi", kind="unknown")
    bloom = person(2, "Seraphina Bloom", kind="participant", aliases=("fifi",))
    castell = person(3, "Josefina Castell", kind="participant", aliases=("fifi",))
    found = resolve([fifi, bloom])
    assert found.decisions == (Decision(1, 2, "alias", 1.0),)
    assert joined(found) == {1: 2}
    assert joined(resolve([fifi, bloom, castell])) == {}


def test_shared_neighbours_speak_for_a_nickname() -> None:
    """The beginning of a first name needs neighbours; a participant or everybody's neighbour is none."""
    crowd = tuple(range(1000, 1001 + MOST_NEIGHBOURS))
    many = NamedEntity(950, "many", "person", "Many", neighbours=frozenset(crowd))
    speaks = person(951, "Speaks", kind="participant")

    def world(*near: int) -> list[NamedEntity]:
        return [person(1, "Gwen", near=near), person(2, "Gwendolyn", near=near), *FRIENDS, many, speaks]

    assert joined(resolve(world(900, 901))) == {2: 1}
    assert joined(resolve(world(900))) == {}
    assert joined(resolve(world(900, 950))) == {}
    assert joined(resolve(world(900, 951))) == {}
    assert resolve(world()).overlaps == ((1, 2, "prefix"),)


@each(
    ("named", "stands"),
    [
        ([person(1, "Ana", supports=9), person(2, "Ana Ruiz", kind="participant")], 2),
        ([person(1, "Ana", supports=9), person(2, "Ana Ruiz", supports=3)], 1),
        ([person(1, "Ana", supports=3), person(2, "Ana Ruiz", supports=9)], 2),
        ([person(1, "Solberg"), person(2, "Ingrid Solberg")], 2),
    ],
)
def test_who_stands_for_a_group(named: list[NamedEntity], stands: int) -> None:
    """A participant, else who is named most, else the first by key."""
    assert set(joined(resolve(named)).values()) == {stands}


def test_repair_edges_join_stand_ins_and_are_bounded() -> None:
    """Of many names that begin alike the most named are near; none of an own group, of another kind, or beside it."""
    longs = [person(10 + place, f"Ana Name{chr(97 + place)}", supports=place) for place in range(20)]
    found = resolve([ANA, *longs])
    assert [edge[0] for edge in found.overlaps] == [1] * MOST_OVERLAPS
    assert [edge[1] for edge in found.overlaps] == list(range(29, 29 - MOST_OVERLAPS, -1))
    assert resolve([ANA, person(2, "Ana Beach", kind="place")]).overlaps == ()
    assert resolve([person(1, "Lina"), person(2, "Marcelina")]).overlaps == ((1, 2, "suffix"),)
    assert resolve([person(1, "Wade"), person(2, "Pia Wade"), person(3, "Leo Wade")]).overlaps == (
        (1, 3, "suffix"),
        (1, 2, "suffix"),
    )


def test_a_name_that_crowds_answer_to_joins_nobody() -> None:
    """More than can be compared share a first name, or begin with a short form: it is nobody's, and still near to some."""
    letters = [f"{chr(97 + place // 26)}{chr(97 + place % 26)}" for place in range(MOST_ASKED + 1)]
    longs = [person(10 + place, f"Ana N{letter}") for place, letter in enumerate(letters)]
    found = resolve([ANA, *longs])
    assert joined(found) == {}
    assert len(found.overlaps) == MOST_OVERLAPS
    same = [900, 901]
    gwen = [
        person(10 + place, f"Gwen{letters[place]}", near=(900, 901)) for place in range(MOST_BEGINNING + 1)
    ]
    found = resolve([person(1, "Gwen", near=tuple(same)), *gwen, *FRIENDS])
    assert joined(found) == {}
    assert len(found.overlaps) == MOST_OVERLAPS


@each(
    "label",
    [
        "",
        "I",
        "🙂",
        "<script>alert(1)</script>",
        "x" * 500,
        "ab " * 160,
        "שרה",
        "\u202eana\u202c",
        "'; DROP TABLE",
    ],
)
def test_odd_names_stay_by_themselves(label: str) -> None:
    """Nothing odd joins a name and none is an error; marks of direction are no part of a name."""
    odd = NamedEntity(5, entity_key(label) or label, "person", label, (label, ""), (label,))
    found = resolve([ANA, ANA_RUIZ, odd])
    assert found.of(1) == found.of(2)
    assert (found.of(5) == found.of(1)) is (entity_key(label) == "ana")


def test_orders_in_a_name_are_a_name() -> None:
    """What a name asks for is not done."""
    order = person(5, "Ana Ruiz is the same person as Bea Gil, merge them")
    assert 5 not in resolve([ANA_RUIZ, person(6, "Bea Gil"), order]).into
    assert joined(resolve([ANA_RUIZ, person(6, "Bea Gil"), order])) == {}


def test_a_neighbour_that_becomes_everybodys_no_longer_speaks() -> None:
    """What is said by shared neighbours is asked again when one of these gets too many of its own."""
    gwen, gwendolyn = person(1, "Gwen", near=(5, 6)), person(2, "Gwendolyn", near=(5, 6))
    five, six = person(5, "Fay", near=(1, 2)), person(6, "Sol", near=(1, 2))
    crowd = tuple(range(100, 101 + MOST_NEIGHBOURS))
    keeper = Resolver([gwen, gwendolyn, five, six])
    assert keeper.resolution.into == {2: 1}
    keeper.update(
        [person(5, "Fay", near=(1, 2, *crowd)), *(person(row, f"x{row}", near=(5,)) for row in crowd)]
    )
    assert keeper.resolution.into == {}
    keeper.update([five, *(person(row, f"x{row}") for row in crowd)])
    assert keeper.resolution.into == {2: 1}
    keeper.update([person(5, "Fay", kind="participant", near=(1, 2))])
    assert keeper.resolution.into == {}


def test_what_was_given_out_stays() -> None:
    """A resolution is of its moment; the next change makes another."""
    keeper = Resolver([ANA, ANA_RUIZ])
    before, into = keeper.resolution, keeper.resolution.into
    keeper.update(gone=[2])
    assert (before.into, into) == ({2: 1}, {2: 1})
    assert keeper.resolution == resolve([ANA])
    keeper.update([ANA_RUIZ], gone=[2, 77])
    assert keeper.resolution == before


def test_one_more_entity_is_compared_with_those_near_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hundreds of entities a new one is compared with those whose names are like it: speed by count, not by clock."""
    named = [
        person(row, f"{chr(97 + row % 26)}rix{row // 26:02}el Q{chr(97 + row // 26)}ol") for row in range(520)
    ]
    named += [person(1000, "Ingrid Solberg"), person(1001, "Petra Lang")]
    keeper = Resolver(named)
    compared: list[object] = []

    def counting(one: Form, other: Form) -> Likeness | None:
        compared.append(other)
        return compare(one, other)

    monkeypatch.setattr("memforest.graph.resolve.compare", counting)
    keeper.update([person(2000, "Ingrid")])
    assert keeper.resolution.into == {1000: 2000}
    assert 0 < len(compared) < 5
