"""The settings of the index.

Sources: fan-outs and thresholds are the reference configuration's (session 3, entity 8, scene 10, three facts in two
sessions); paper §6.1 asks for a moderate fan-out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = ["MemForestSettings"]


@dataclass(frozen=True, slots=True)
class MemForestSettings:
    """How the forest grows."""

    KEPT: ClassVar[tuple[str, ...]] = ("session_k", "entity_k", "scene_k")
    """Kept by a memory from its first write, because its trees have their shape by them."""

    session_k: int = 3
    """Most children of a node in a session's tree. At least 3."""
    entity_k: int = 8
    """Most children of a node in an entity's tree. At least 3."""
    scene_k: int = 10
    """Most children of a node in a scene's tree. At least 3."""
    active_min_facts: int = 3
    """An entity gets a tree of its own with this many distinct facts, if they come from enough sessions."""
    active_min_sessions: int = 2
    """Sessions that those facts must come from. Participants always have a tree."""
