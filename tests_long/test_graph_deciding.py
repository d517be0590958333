"""Deciding who is who: random decisions against what they promise, and rows that go meanwhile."""

from __future__ import annotations

import contextlib
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.known_people import WHO, remembered
from tests_long.stored import put_entity

from memforest import Config, InputError, MemForest, NotFoundError, UserMemory
from memforest.store import corrections, facts
from memforest.store.connections import Connection
from memforest.text import entity_key
from memforest.write.correct import decide_apart, decide_same

NAMES = ("Mara", "Iven", "Lucía", "Rex", "Porto", "Lisbon", "Madrid", "Orrin Labs", "Kyoto")


def group_of(memory: UserMemory, name: str) -> frozenset[str]:
    """Return the keys of all names that are one with a name."""
    key = entity_key(name)
    for one in memory.entities():
        keys = frozenset(entity_key(each) or "" for each in one.names)
        if key in keys:
            return keys
    raise AssertionError(name)


@pytest.mark.parametrize("seed", range(3))
def test_random_decisions_hold(folder: Path, seed: int) -> None:
    """Whatever came before: what was merged is one, what was split is none of what it was one with, all else stays."""
    dice = random.Random(seed)
    with remembered(folder) as forest:
        memory = forest.user(WHO)
        for _ in range(14):
            one, other = dice.sample(NAMES, 2)
            before = {name: group_of(memory, name) for name in NAMES}
            if dice.random() < 0.6:
                memory.merge_entities(one, other)
                after = {name: group_of(memory, name) for name in NAMES}
                assert after[one] == after[other] == before[one] | before[other]
                touched = before[one] | before[other]
            elif entity_key(other) in before[one]:
                apart = memory.split_entity(one, other)
                after = {name: group_of(memory, name) for name in NAMES}
                assert after[other] == {entity_key(other)} == {entity_key(name) for name in apart.names}
                assert after[one] == before[one] - after[other]
                touched = before[one]
            else:
                with pytest.raises(InputError):
                    memory.split_entity(one, other)
                continue
            untouched = [name for name in NAMES if entity_key(name) not in touched]
            assert all(after[name] == before[name] for name in untouched)
        assert memory.verify().ok


@pytest.mark.parametrize("seed", range(3))
def test_undoing_every_decision_leads_back(folder: Path, seed: int) -> None:
    """Merges taken back by splits, in any order: the entities are those of the beginning, letter by letter."""
    dice = random.Random(seed)
    with remembered(folder) as forest:
        memory = forest.user(WHO)
        first = [one.to_dict() for one in memory.entities()]
        paths = memory.path("Kyoto", "Lisbon").to_dict()
        chosen = dice.sample(NAMES[2:], 4)
        for one, other in pairwise(chosen):
            memory.merge_entities(one, other)
        assert len(group_of(memory, chosen[0])) == 4
        for name in dice.sample(chosen[1:], 3):
            memory.split_entity(chosen[0], name)
        assert [one.to_dict() for one in memory.entities()] == first
        assert memory.path("Kyoto", "Lisbon").to_dict() == paths


def test_two_decide_at_once(folder: Path) -> None:
    """Threads of two forests that merge and split the same names: each call ends in what it promises or in a clear error."""
    with remembered(folder) as forest:

        def decide(at: int) -> None:
            memory = (second if at % 2 else forest).user(WHO)
            if at % 3:
                memory.merge_entities("Rex", "Kyoto")
                return
            with contextlib.suppress(InputError):  # another has split them
                memory.split_entity("Kyoto", "Rex")

        with MemForest(folder, Config(embedder=None)) as second, ThreadPoolExecutor(4) as pool:
            list(pool.map(decide, range(12)))
        memory = forest.user(WHO)
        [choice] = memory.entity_choices()
        one = group_of(memory, "Rex") == group_of(memory, "Kyoto")
        assert one == (choice.verdict == "same")
        assert memory.verify().ok


def rows(tx: Connection, *names: str) -> list[int]:
    """Return the rows of new entities."""
    return [put_entity(tx, name.casefold(), name, "person") for name in names]


def test_what_has_gone_cannot_be_decided_of(tx: Connection) -> None:
    """Another process deleted it since it was read; nothing is written, whichever of the two it was."""
    one, other, gone = rows(tx, "Ana", "Bo", "Cai")
    facts.drop_entities(tx, [gone])
    with pytest.raises(NotFoundError):
        decide_same(tx, one, gone, ((one,), (gone,)), 5)
    with pytest.raises(NotFoundError):
        decide_apart(tx, gone, [other], 5)
    assert corrections.read(tx) == []


def test_only_the_splits_between_two_are_overruled(tx: Connection) -> None:
    """Those within one of them, and with others, stay."""
    one, other, third, fourth = rows(tx, "Ana", "Bo", "Cai", "Dee")
    decide_apart(tx, one, [third, fourth], 1)
    decide_apart(tx, other, [third], 2)
    decide_same(tx, one, other, ((one, fourth), (other, third)), 3)
    assert [each.verdict for each in corrections.history(tx)].count("apart") == 3
    held = {(each.entity, each.other): each.verdict for each in corrections.read(tx)}
    assert held == {
        (one, other): "same",
        (one, third): "same",
        (one, fourth): "apart",
        (other, third): "apart",
    }


def test_what_is_linked_by_the_split_one_stays_one(tx: Connection) -> None:
    """Decided to be one with it, and so with each other; others that it is one with by a rule are left to the rule."""
    one, other, third, fourth = rows(tx, "Ana", "Bo", "Cai", "Dee")
    decide_same(tx, one, other, ((one,), (other,)), 1)
    decide_same(tx, third, one, ((third,), (one, other)), 2)
    decide_apart(tx, one, [other, third, fourth], 3)
    held = {(each.entity, each.other): each.verdict for each in corrections.read(tx)}
    assert held == {
        (one, other): "apart",
        (one, third): "apart",
        (one, fourth): "apart",
        (other, third): "same",
    }
