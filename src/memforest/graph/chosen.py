"""What people decided about entities, made free of contradictions: of words that contradict each other the newest counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memforest.graph.named import Choice, Decision, Named


@dataclass(frozen=True, slots=True)
class Chosen:
    """People's decisions that hold.

    Args:
        groups: entity -> all entities that it was said to be one with, itself too.
        apart: entity -> the entities that it was said not to be.
        decisions: what made the groups, one for each entity that came to another.
    """

    groups: Mapping[int, frozenset[int]] = field(default_factory=dict)
    apart: Mapping[int, frozenset[int]] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()

    def group(self, entity: int) -> frozenset[int]:
        """Return the entities that an entity was said to be one with, itself too."""
        return self.groups.get(entity) or frozenset((entity,))

    def parts(self, one: Iterable[int], other: frozenset[int] | set[int]) -> bool:
        """Return whether an entity of one group was said not to be one of the other."""
        return any(entity in self.apart and not self.apart[entity].isdisjoint(other) for entity in one)

    def changed(self, other: Chosen) -> set[int]:
        """Return the entities of which two sets of decisions say something different."""
        found: set[int] = set()
        for mine, theirs in ((self.groups, other.groups), (self.apart, other.apart)):
            found |= {
                entity for entity in mine.keys() | theirs.keys() if mine.get(entity) != theirs.get(entity)
            }
        for decision in set(self.decisions) ^ set(other.decisions):
            found |= {decision.entity, decision.into}
        return found


def chosen_of(choices: Sequence[Choice], named: Mapping[int, Named]) -> Chosen:
    """Return the decisions that hold: newest first, each unless a newer one contradicts it.

    Of two of one moment that two are apart comes first. Decisions about an entity that is not there wait for it.
    """
    known = [one for one in choices if one.entity in named and one.other in named and one.entity != one.other]
    if not known:
        return Chosen()
    known.sort(
        key=lambda one: (-one.made_ms, one.same, *sorted((named[one.entity].key, named[one.other].key)))
    )
    groups: dict[int, frozenset[int]] = {}
    apart: dict[int, set[int]] = {}
    decisions = []
    for one in known:
        first, second = (groups.get(end, frozenset((end,))) for end in (one.entity, one.other))
        if one.same:
            if (
                first is second
                or one.other in first
                or any(not apart.get(end, set()).isdisjoint(second) for end in first)
            ):
                continue
            both = first | second
            groups.update(dict.fromkeys(both, both))
            ends = sorted((one.entity, one.other), key=lambda end: named[end].key)
            decisions.append(Decision(ends[1], ends[0], "choice", 1.0))
        elif one.other not in first:
            apart.setdefault(one.entity, set()).add(one.other)
            apart.setdefault(one.other, set()).add(one.entity)
    return Chosen(groups, {end: frozenset(others) for end, others in apart.items()}, tuple(decisions))
