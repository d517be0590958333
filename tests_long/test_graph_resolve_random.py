"""Random worlds of names: order, ids, undoing, what stays apart, and changes against a fresh start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import get_args

from tests.table import each
from tests_long.hand_made import decided, resolve

from memforest.graph.names import TIERS, NamedEntity, Resolution, apart, compare, form_of
from memforest.graph.resolve import Resolver
from memforest.records import EntityKind
from memforest.store.corrections import ChoiceRow
from memforest.text import entity_key

FIRSTS = [
    "Ana",
    "Anna",
    "Annabel",
    "Theo",
    "Theodora",
    "Gwen",
    "Gwendolyn",
    "Otto",
    "O.",
    "Bartholomew",
    "Bartholmew",
    "Evangeline",
    "Evangelline",
    "Captain",
    "Aunt",
]
LASTS = [
    "Ruiz",
    "Gil",
    "R.",
    "Castellan",
    "Castelan",
    "Jr.",
    "Marsh",
    "Köhler",
    "Koehler",
    "team",
    "Inc.",
    "2019",
    "7",
    "Ana",
]
ODD = (
    "",
    "I",
    "🙂",
    "<b>",
    "晓雯",
    "陈晓雯",
    "青岛",
    "青岛市",
    "x" * 500,
    "NCRU",
    "Northern Coast Rowing Union",
    "שרה",
    "-",
    "a " * 40,
)
KINDS: tuple[EntityKind, ...] = get_args(EntityKind)
SEEDS = range(40)


def world(seed: int, size: int = 40) -> list[NamedEntity]:
    """Return random entities of few names, with mutual neighbours and pairs beside each other."""
    rng = Random(seed)
    labels: dict[str, str] = {}
    # Names that are alike stand together in the lists: a world has a stretch of each.
    first, last = rng.randrange(len(FIRSTS)), rng.randrange(len(LASTS))
    firsts, lasts = (2 * FIRSTS)[first : first + 7], (2 * LASTS)[last : last + 6]
    while len(labels) < size:
        titles = ["Captain"] if rng.random() < 0.15 else []
        parts = [*titles, rng.choice(firsts), *(rng.choice(lasts) for _ in range(rng.choice((0, 1, 1, 2))))]
        label = rng.choice(ODD) if rng.random() < 0.2 else " ".join(parts)
        labels.setdefault(entity_key(label) or label, label)
    near: dict[int, set[int]] = {row: set() for row in range(size)}
    beside: dict[int, set[int]] = {row: set() for row in range(size)}
    for _ in range(3 * size):
        one, other = rng.sample(range(size), 2)
        near[one].add(other)
        near[other].add(one)
    for _ in range(size // 4):
        one, other = rng.sample(range(size), 2)
        beside[one].add(other)
    kinds = ("person", "person", "person", "unknown", *KINDS)
    return [
        NamedEntity(
            row, key, rng.choice(kinds), label, (), (rng.choice(list(labels)),) if rng.random() < 0.1 else (),
            rng.randint(1, 5), frozenset(near[row]), frozenset(beside[row]),
        )
        for row, (key, label) in enumerate(labels.items())
    ]  # fmt: skip


def choices_of(seed: int, named: Sequence[NamedEntity], many: int = 8) -> list[ChoiceRow]:
    """Return random choices about entities, some of them about others that are not there."""
    rng = Random(seed)
    rows = [one.id for one in named] + [10**6]
    found = []
    for made in rng.sample(range(100), many):
        one, other = rng.sample(rows, 2)
        found.append(decided(one, other, rng.random() < 0.5, made))
    return found


def groups(found: Resolution, named: Sequence[NamedEntity]) -> set[frozenset[str]]:
    """Return the groups of more than one entity by their keys."""
    made: dict[int, set[str]] = {}
    for one in named:
        made.setdefault(found.of(one.id), set()).add(one.key)
    return {frozenset(group) for group in made.values() if len(group) > 1}


def other_ids(named: Sequence[NamedEntity], rng: Random) -> dict[int, int]:
    """Return other ids for entities."""
    return dict(zip([one.id for one in named], rng.sample(range(10**5), len(named)), strict=True))


@each("seed", SEEDS)
def test_neither_order_nor_ids_matter(seed: int) -> None:
    """The same entities under other ids and in another order give the same groups, decisions and edges."""
    rng = Random(seed)
    named = world(seed)
    choices = choices_of(seed, named)
    new = other_ids(named, rng) | {10**6: 10**6}
    moved = [
        replace(
            one,
            id=new[one.id],
            neighbours=frozenset(new[row] for row in one.neighbours),
            beside=frozenset(new[row] for row in one.beside),
        )
        for one in rng.sample(named, len(named))
    ]
    told = [
        decided(new[one.other], new[one.entity], one.same, one.made_ms)
        for one in rng.sample(choices, len(choices))
    ]
    found, again = resolve(named, choices), resolve(moved, told)
    assert again.into == {new[row]: new[into] for row, into in found.into.items()}
    assert again.overlaps == tuple((new[one], new[other], how) for one, other, how in found.overlaps)
    assert again.decisions == tuple(
        replace(one, entity=new[one.entity], into=new[one.into]) for one in found.decisions
    )


@each("seed", SEEDS)
def test_nothing_is_joined_that_must_stay_apart(seed: int) -> None:
    """No group holds two that stand beside each other, that a choice or their names keep apart, but by a choice."""
    named = world(seed)
    choices = choices_of(seed, named)
    found = resolve(named, choices)
    newest = {
        frozenset((one.entity, one.other)): one.same for one in sorted(choices, key=lambda one: one.made_ms)
    }
    told = {row for one in choices if one.same for row in (one.entity, one.other)}
    forms = {one.id: form_of(one) for one in named}
    for one, other in combinations(named, 2):
        if found.of(one.id) != found.of(other.id):
            continue
        pair = frozenset((one.id, other.id))
        assert newest.get(pair, True)
        if told.isdisjoint(pair):
            assert other.id not in one.beside
            assert one.id not in other.beside
            assert not apart(forms[one.id], forms[other.id])
            assert (
                one.kind != "participant"
                or other.kind != "participant"
                or one.key == other.key
                or (compare(forms[one.id], forms[other.id]) is not None)
            )


@each("seed", SEEDS)
def test_decisions_make_the_groups(seed: int) -> None:
    """One decision for each joined entity; together they span the groups, and each joins two whose names are compared so."""
    named = world(seed)
    choices = choices_of(seed, named)
    found = resolve(named, choices)
    assert len(found.decisions) == len(found.into)
    rows = {one.id: one.id for one in named}
    for decision in found.decisions:
        one, other = rows[decision.entity], rows[decision.into]
        assert one != other
        rows = {row: one if group == other else group for row, group in rows.items()}
        assert decision.rule in {*TIERS, "choice"}
        assert 0 < decision.score <= 1
    made: dict[int, set[int]] = {}
    for row, first in rows.items():
        made.setdefault(first, set()).add(row)
    for group in made.values():
        assert len({found.of(row) for row in group}) == 1
    assert not set(found.into) & set(found.into.values())


@each("seed", SEEDS)
def test_a_first_name_that_two_groups_have_is_neither(seed: int) -> None:
    """Unless somebody chose, or an alias or an equal name says so, no short name is in a group of two that fit it."""
    named = [one for one in world(seed, 60) if not one.aliases]
    found = resolve(named)
    forms = {one.id: form_of(one) for one in named}
    surer = {decision.entity for decision in found.decisions if decision.rule != "part"}
    for one in named:
        if one.kind != "person" or len(forms[one.id].tokens) != 1 or one.id in surer:
            continue
        fitting = [
            other
            for other in named
            if other.kind == "person" and len(forms[other.id].tokens) > 1 and not apart(forms[one.id], forms[other.id])
            and forms[one.id].tokens[0] in (forms[other.id].tokens[0], forms[other.id].tokens[-1])
        ]  # fmt: skip
        if len({found.of(other.id) for other in fitting}) > 1:
            assert not [d for d in found.decisions if d.entity == one.id and d.rule == "part"]


@each("seed", SEEDS)
def test_every_choice_can_be_undone(seed: int) -> None:
    """Made and taken back one after the other, choices leave what was there before each of them."""
    named = world(seed)
    choices = choices_of(seed, named)
    keeper = Resolver(named)
    before = []
    for count, _ in enumerate(choices):
        before.append(keeper.resolution)
        keeper.update(choices=choices[: count + 1])
        assert keeper.resolution == resolve(named, choices[: count + 1])
    for count in reversed(range(len(choices))):
        keeper.update(choices=choices[:count])
        assert keeper.resolution == before[count]


@each("seed", SEEDS)
def test_changes_end_where_a_fresh_start_does(seed: int) -> None:
    """Entities that come, change and go, with choices between, leave what resolving the last state gives."""
    rng = Random(seed)
    everybody = {one.id: one for one in world(seed, 50)}
    there = dict(list(everybody.items())[:20])
    choices = choices_of(seed, list(everybody.values()), 4)
    keeper = Resolver(_mutual(there), choices)
    for step in range(12):
        was = {one.id: one for one in _mutual(there)}
        gone = rng.sample(sorted(there), rng.randint(0, 2))
        for row in gone:
            del there[row]
        for row in rng.sample(sorted(everybody), rng.randint(0, 3)):
            kind = rng.choice(("person", "participant", "unknown", everybody[row].kind))
            there[row] = replace(everybody[row], supports=rng.randint(1, 5), kind=kind)
        now = _mutual(there)
        changed = [one for one in now if was.get(one.id) != one]
        if step % 3 == 2:
            choices = choices_of(seed + step, list(everybody.values()), 4)
            keeper.update(changed, [row for row in gone if row not in there], choices)
        else:
            keeper.update(changed, [row for row in gone if row not in there])
        assert keeper.resolution == resolve(now, choices)


def _mutual(there: dict[int, NamedEntity]) -> list[NamedEntity]:
    """Return entities whose neighbours are there."""
    return [replace(one, neighbours=one.neighbours & there.keys()) for one in there.values()]


@each("seed", SEEDS)
def test_repair_edges_join_groups_that_stay_apart(seed: int) -> None:
    """They go between entities that stand for groups, once each, and change nothing about these."""
    named = world(seed)
    found = resolve(named, choices_of(seed, named))
    for one, other, how in found.overlaps:
        assert one != other
        assert one not in found.into
        assert other not in found.into
        assert how in ("prefix", "suffix")
    assert max(Counter(found.overlaps).values(), default=1) == 1


def test_random_worlds_have_what_is_tested() -> None:
    """The worlds above join by most rules, by choices, and have repair edges and names that stay apart."""
    rules: Counter[str] = Counter()
    edges = 0
    for seed in SEEDS:
        named = world(seed)
        found = resolve(named, choices_of(seed, named))
        rules.update(decision.rule for decision in found.decisions)
        edges += len(found.overlaps)
        assert groups(found, named)
    assert {"alias", "choice", "form", "group", "initials", "letters", "part"} <= set(rules)
    assert len(rules) >= 9
    assert edges > len(SEEDS)
