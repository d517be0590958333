"""What passes between a memory and an index that keeps profiles of those who take part in its conversations."""

from __future__ import annotations

from dataclasses import dataclass

from memforest.profiles import FoundLine, LineKind

__all__ = ["FoundLine", "FoundProfile", "LineKind", "ProfileRequest"]


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Whose profile is asked for, None for all who took part, and by when: instants in ms, None for no bound."""

    now_ms: int
    participant: str | None = None
    as_of_ms: int | None = None
    said_by_ms: int | None = None

    @property
    def bound_ms(self) -> int | None:
        """The last instant of which anything may be told."""
        bounds = [one for one in (self.as_of_ms, self.said_by_ms) if one is not None]
        return min(bounds, default=None)


@dataclass(frozen=True, slots=True)
class FoundProfile:
    """The profile in force. Without a `month` there is none yet, and `warnings` say why.

    `participants` are those whose profile it is, in the order of its lines. `unsupported` are lines of the text that no turn
    of the month supports, or that are of somebody else. `since` are the rows of what was said behind the month and may be
    told, in order: the last of `said_since`.
    """

    month: str | None = None
    start_ms: int = 0
    end_ms: int = 0
    participants: tuple[str, ...] = ()
    lines: tuple[FoundLine, ...] = ()
    unsupported: tuple[str, ...] = ()
    maker: str = ""
    out_of_date: bool = False
    since: tuple[int, ...] = ()
    said_since: int = 0
    warnings: tuple[str, ...] = ()
