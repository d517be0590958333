"""The settings of the timem index: its levels, what a segment is, what a memory is written from, and when.

Source of the constants: TiMem (arXiv 2601.02845) §3, App. B, and where the paper says nothing its released configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from memforest.errors import ConfigError
from memforest.recall import Recall
from memforest.settings import Bound, Count, Settings, Whole
from memforest.systems.timem.levels import LEVELS, MEMORY_LEVELS


@dataclass(frozen=True, slots=True)
class TiMemSettings(Settings):
    """How the timem index cuts time, writes memories, and is searched."""

    KEPT: ClassVar[tuple[str, ...]] = (
        "levels",
        "segment",
        "history",
        "history_of",
        "pass_through",
        "dates",
        "words",
        "idle_min",
    )

    levels: Sequence[str] = ("segment", "session", "day", "week", "month")
    """The levels that memories are written on, the lowest first: ``"segment"`` and ``"session"``, and any of ``"day"``,
    ``"week"``, ``"month"`` and ``"year"``."""
    segment: Count = 1
    """Exchanges, which are two turns each, of a segment; the paper measured 1, 2, 4 and 8 (Table 9)."""
    history: Sequence[Whole] = (3, 3, 3, 3, 3, 3)
    """How many earlier texts are shown when a memory of each level is written, the lowest level first; 0 for none, 3 in the
    paper (eq. 3). One number is meant for all levels."""
    history_of: Literal["children", "memories"] = "children"
    """Which earlier texts: ``"memories"``, the last ones of the level, as in the paper, so that one is written after the
    other; or ``"children"``, the last of what these were made of, so that all of a level are written at once."""
    pass_through: bool = True
    """Whether a window with one memory below it says what that says; otherwise, and in the paper, it is told once more."""
    dates: Literal["beside", "kept"] = "beside"
    """Whether the day that is meant stands beside words such as "yesterday" in what a segment is written from, or, as in the
    paper, they are kept as they were said."""
    words: Sequence[Count] = (80, 300, 400, 500, 600, 600)
    """Most words of a memory of each level, the lowest first (prompts of the released configuration); of a month, of each
    participant. Fewer where less is below."""
    idle_min: Annotated[float, Bound(ge=0)] = 10.0
    """Minutes without a turn after which a session has ended (released configuration)."""

    recall: Recall = field(default_factory=Recall)
    """How memories are recalled, where `Ranking.recall` does not say."""

    def _check(self) -> None:
        """Refuse levels that are unknown, out of order, or without the first two."""
        known = [one for one in LEVELS if one in MEMORY_LEVELS]
        if list(self.levels[:2]) != known[:2] or list(self.levels) != [
            one for one in known if one in self.levels
        ]:
            raise ConfigError(
                f"levels={list(self.levels)!r}: give 'segment' and 'session', and behind them any of "
                f"{', '.join(repr(one) for one in known[2:])}, in this order"
            )
        for name, values in (("history", self.history), ("words", self.words)):
            if len(values) < len(self.levels):
                raise ConfigError(
                    f"{name}={list(values)!r} has {len(values)} numbers; give one for each of the {len(self.levels)} levels"
                )

    def history_at(self, level: int) -> int:
        """Return how many earlier texts a memory of a level is written with; levels as in `memforest.systems.timem.levels`."""
        return int(self.history[self.levels.index(LEVELS[level])])

    def words_at(self, level: int) -> int:
        """Return the most words of a memory of a level."""
        return int(self.words[self.levels.index(LEVELS[level])])
