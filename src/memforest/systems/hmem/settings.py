"""The settings of the index hmem: what an event is, how alike is alike, when memories are made, and how it is searched.

Source of the constants: H-Mem (arXiv 2605.15701) App. A.2 and A.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from memforest.errors import ConfigError
from memforest.explore import Explore
from memforest.settings import Bound, Count, Settings
from memforest.systems.hmem.cluster import CAP, Linkage

Likeness = Annotated[float, Bound(ge=-1, le=1)]

SCHEDULES: Mapping[str, Sequence[float]] = MappingProxyType(
    {"paper": (0.8, 0.7, 0.6), "strict": (0.9, 0.8, 0.7), "loose": (0.7, 0.6, 0.5)}
)
"""Least likenesses with which events join a week's memory, these a month's, and these a year's: the paper's, and the two others
that it measured."""


@dataclass(frozen=True, slots=True)
class HMemSettings(Settings):
    """How the index hmem joins events, consolidates them, and is searched."""

    KEPT: ClassVar[tuple[str, ...]] = ("events", "schedule", "linkage", "cap", "eager", "words")

    events: Literal["facts", "turns"] = "facts"
    """What an event is: a statement with the turns that support it, or a turn, for memories without extraction."""
    schedule: Literal["calibrated", "paper", "strict", "loose"] | Sequence[Likeness] = "calibrated"
    """How alike is alike, on three levels: ``"calibrated"``, as measured for the embedder; the paper's .8 .7 .6, its
    ``"strict"`` .9 .8 .7 and ``"loose"`` .7 .6 .5; or three numbers."""
    linkage: Linkage = "member"
    """What a node is compared with: the ``"member"`` of a cluster that is most like it (the paper's pairwise likeness), the
    ``"mean"`` of the likenesses to all members, or their ``"parent"``, by the mean of their vectors."""
    cap: Count = CAP
    """Most nodes of a window that one is compared with: those right before it."""
    eager: bool = False
    """Whether everything above an event is consolidated as soon as it has joined, as in the paper; otherwise once for all that
    has joined, when it is read or the write is over."""
    words: Sequence[Count] = (120, 180, 240)
    """Most words of the memory of a week, a month and a year."""

    explore: Explore = field(default_factory=Explore)
    """How evidence is looked for, where `Ranking.explore` does not say."""

    def _check(self) -> None:
        """Refuse a schedule or bounds of words that are not three numbers."""
        if not isinstance(self.schedule, str):
            object.__setattr__(self, "schedule", tuple(self.schedule))
        for name in ("schedule", "words"):
            given = getattr(self, name)
            if not isinstance(given, str) and len(given) != 3:
                raise ConfigError(
                    f"{name}={list(given)!r} has {len(given)} numbers; give three, for weeks, months and years"
                )
