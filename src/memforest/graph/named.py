"""Entities as they are compared by name, what people decided about them, and which of them are one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memforest.types import EntityKind


@dataclass(frozen=True, slots=True)
class Named:
    """An entity with the names that it is called by.

    Args:
        id: row of the entity. Nothing but the ids of the result depends on it.
        key: its key (`memforest.text.entity_key`), which no other entity has.
        kind: what it is.
        label: its name as it was first spelled.
        names: further spellings.
        aliases: keys of short names that stand for it somewhere.
        supports: how many facts name it.
        neighbours: entities that are named in the same facts.
        beside: entities that are named in one statement with it as somebody else, and so are not it.
    """

    id: int
    key: str
    kind: EntityKind = "unknown"
    label: str = ""
    names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    supports: int = 0
    neighbours: frozenset[int] = frozenset()
    beside: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Choice:
    """A person's word that two entities are the same, or are not. Of words that contradict each other the newest counts."""

    entity: int
    other: int
    same: bool
    made_ms: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """Why an entity is one with another: the rule that compared their names, and how alike they are (0 to 1).

    The other (`into`) is the one it was compared with; which entity stands for them all is in `Resolution.into`.
    """

    entity: int
    into: int
    rule: str
    score: float


@dataclass(frozen=True, slots=True)
class Resolution:
    """Which entities are one.

    Args:
        into: entity that is joined -> entity that stands for its group; who stands for a group is not in it.
        decisions: one for each joined entity, in the order of the keys.
        overlaps: pairs of groups whose names begin or end alike and that stayed apart, as (short name's, other's,
            ``"prefix"`` or ``"suffix"``); a way for a search, never a name of either.
    """

    into: Mapping[int, int] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    overlaps: tuple[tuple[int, int, str], ...] = ()

    def of(self, entity: int) -> int:
        """Return the entity that stands for an entity: itself unless it is joined."""
        return self.into.get(entity, entity)
