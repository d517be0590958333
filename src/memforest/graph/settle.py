"""Groups of entities that are one, out of the likenesses of their names; no group holds two that must stay apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from memforest.graph.chosen import Chosen
from memforest.graph.likeness import TIERS, apart, compare, is_full
from memforest.graph.named import Decision, Named
from memforest.graph.names import Form


@dataclass(frozen=True, slots=True)
class Match:
    """An entity whose name another's may be short for, the rule and its score, and whether enough speaks for it."""

    other: int
    rule: str
    score: float
    enough: bool


@dataclass(frozen=True, slots=True)
class World:
    """What groups are made of: entities and their names as they are compared, decisions, and matches of who asks."""

    named: Mapping[int, Named]
    forms: Mapping[int, Form]
    chosen: Chosen
    matches: Mapping[int, tuple[Match, ...]]

    def two(self, one: int, other: int) -> bool:
        """Return whether two entities are surely two, whatever their groups."""
        first, second = self.named[one], self.named[other]
        if other in first.beside or one in second.beside:
            return True
        mine, theirs = self.forms[one], self.forms[other]
        if apart(mine, theirs):
            return True
        if first.kind == second.kind == "participant":
            found = compare(mine, theirs)
            return found is None or found.rule != "form"
        return is_full(mine) and is_full(theirs) and compare(mine, theirs) is None

    def unlike(self, one: int, other: int) -> bool:
        """Return whether two entities are surely two and nobody said that one of them has the other's name too."""
        if not self.two(one, other):
            return False
        first, second = self.named[one], self.named[other]
        if other in first.beside or one in second.beside:
            return True
        theirs, mine = self.chosen.groups.get(other, ()), self.chosen.groups.get(one, ())
        return all(self.two(one, too) for too in theirs) and all(self.two(too, other) for too in mine)

    def may_be_one(self, one: frozenset[int], other: frozenset[int]) -> bool:
        """Return whether two groups may be one."""
        if self.chosen.parts(one, other):
            return False
        return not any(self.unlike(first, second) for first in one for second in other)

    def order(self, entity: int) -> tuple[str, int]:
        """Return by what entities are ordered: their keys, which tell them apart."""
        return self.named[entity].key, entity


def settle(world: World, entities: Collection[int]) -> tuple[list[frozenset[int]], list[Decision]]:
    """Return the groups of more than one entity and why each came to be.

    People's decisions come first, then equal names, then the others: surest rules first, longest names first, and where
    names are as long the likest first. An entity joins only if all that its name fits are one group by then.

    Args:
        world: what groups are made of.
        entities: whom to group; with an entity all that its matches and decisions reach.
    """
    groups: dict[int, frozenset[int]] = {}
    for entity in entities:
        groups[entity] = world.chosen.group(entity)
    decisions: list[Decision] = []

    def join(entity: int, match: Match) -> None:
        one, other = groups[entity], groups[match.other]
        if one is not other and one != other and world.may_be_one(one, other):
            both = one | other
            groups.update(dict.fromkeys(both, both))
            decisions.append(Decision(entity, match.other, match.rule, match.score))

    asking = [entity for entity in entities if entity in world.matches]
    equal = ((one, match) for one in asking for match in world.matches[one] if match.rule == "form")
    for entity, match in _in_order(world, equal):
        join(entity, match)
    for step in _steps(world, asking):
        fitting = [(entity, found) for entity in step if (found := _only(world, entity, groups)) is not None]
        for entity, match in _in_order(world, fitting):
            join(entity, match)
    return list({group for group in groups.values() if len(group) > 1}), decisions


def _in_order(world: World, pairs: Iterable[tuple[int, Match]]) -> list[tuple[int, Match]]:
    return sorted(pairs, key=lambda pair: (-pair[1].score, world.order(pair[0]), world.order(pair[1].other)))


def _steps(world: World, asking: Iterable[int]) -> list[list[int]]:
    """Return who asks, in steps: surest rules first, longest names first."""
    steps: dict[tuple[int, int], list[int]] = {}
    for entity in asking:
        rules = [TIERS[match.rule] for match in world.matches[entity] if match.rule != "form"]
        if rules:
            steps.setdefault((min(rules), -len(world.forms[entity].tokens)), []).append(entity)
    return [steps[step] for step in sorted(steps)]


def _only(world: World, entity: int, groups: Mapping[int, frozenset[int]]) -> Match | None:
    """Return the best match of an entity if all its matches are one group and enough speaks for one of them."""
    matches = [match for match in world.matches[entity] if match.rule != "form"]
    if len({groups[match.other] for match in matches}) != 1:
        return None
    enough = [match for match in matches if match.enough]
    return min(enough, key=lambda one: (-one.score, world.order(one.other))) if enough else None
