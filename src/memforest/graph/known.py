"""The graph of a memory as a value: its entities, their facts and turns, and what joins them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from memforest.graph.edges import Edges
from memforest.graph.named import Resolution
from memforest.graph.relations import KnownRelation, StateLine
from memforest.search.snapshot import Ints, Lists
from memforest.types import EntityKind

OBJECT_BYTES = 400
"""What the Python objects of one entity or relation take, about."""


@dataclass(frozen=True, eq=False)
class Graph:
    """The entities of a memory and what joins them. Immutable, shared by concurrent readers."""

    ids: Ints
    """Row id of the entity that stands for each place, ascending."""
    order: Ints
    """Where each place stands among all by its key: what decides between equals, as row ids depend on what was stored first."""
    keys: tuple[str, ...]
    labels: tuple[str, ...]
    kinds: tuple[EntityKind, ...]
    members: Lists
    """Place -> row ids of the stored entities that are one in it, ascending."""
    facts: Lists
    """Place -> fact rows of the snapshot that name it, ascending."""
    turns: Lists
    """Place -> turn rows of the snapshot that support these, ascending."""
    of_fact: Lists
    """Fact row -> places that it names."""
    edges: Edges
    relations: tuple[KnownRelation, ...]
    """By the key of the source, label, and key of the target."""
    states: tuple[StateLine, ...]
    """What was told of states, by place and attribute."""
    resolution: Resolution
    """Which stored entities are one, and why."""
    by_key: Mapping[str, int]
    """Key or alias -> place."""
    spelled: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Row id of a stored entity -> its label, and the names by which it is called beside that."""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _place_of(self) -> dict[int, int]:
        return dict(zip(self.members.values.tolist(), self.members.owners.tolist(), strict=True))

    def place(self, entity: int) -> int:
        """Return the place of a stored entity, -1 when the graph has none of it."""
        return self._place_of.get(entity, -1)

    def names(self, place: int) -> tuple[str, ...]:
        """Return the names of a place as they were spelled, its label first."""
        found = dict.fromkeys([self.labels[place]])
        for entity in self.members[place]:
            found |= dict.fromkeys(self.spelled.get(entity, ()))
        return tuple(found)

    @cached_property
    def supports(self) -> Ints:
        """How many facts name each place."""
        return self.facts.counts

    @cached_property
    def relations_of(self) -> Lists:
        """Place -> the relations that it is an end of, as positions in `relations`."""
        ends = [[] for _ in range(len(self))]  # type: list[list[int]]
        for at, one in enumerate(self.relations):
            ends[one.source].append(at)
            ends[one.target].append(at)
        return Lists.of(ends)

    @cached_property
    def states_of(self) -> Lists:
        """Place -> what was told of its states, as positions in `states`."""
        found = [[] for _ in range(len(self))]  # type: list[list[int]]
        for at, line in enumerate(self.states):
            found[line.place].append(at)
        return Lists.of(found)

    @property
    def nbytes(self) -> int:
        """Bytes of it, about."""
        arrays = (self.ids, self.order, self.members, self.facts, self.turns, self.of_fact, self.edges)
        objects = len(self) + len(self.relations) + len(self.states)
        return sum(one.nbytes for one in arrays) + OBJECT_BYTES * objects
