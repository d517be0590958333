"""The levels of the tree, the windows in which their nodes join, and how many of them a memory of some age has.

Source: H-Mem (arXiv 2605.15701) §3.2 and App. A.2. The paper's L1 to L4 are the levels 0 to 3 here; level 4 is the root of a
year, which is no memory. A node joins others in one window of the size of its parent, which alone keeps a child's window
within its parent's; weeks are cut where months end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from memforest.calendar import Unit

EVENT, WEEK, MONTH, YEAR, ROOT = range(5)
LEVELS: Sequence[str] = ("event", "week", "month", "year", "root")
"""What a node of each level tells of: an event, or the time whose events it is made of."""

WITHIN: Mapping[int, Unit] = MappingProxyType({EVENT: "week_of_month", WEEK: "month", MONTH: "year"})
"""Level -> the unit of the window within which its nodes join one another."""

_DAY_MS = 86_400_000
_YOUNG_MS, _GROWN_MS = 7 * _DAY_MS, 30 * _DAY_MS


def top_level(first_ms: int, now_ms: int) -> int:
    """Return the highest level that a memory has: that of weeks for 7 days, that of months until it is more than 30 days old.

    Args:
        first_ms: when its first event was told, UTC ms.
        now_ms: the present. Before the first event, as with a clock that is wrong, the memory is young.
    """
    age_ms = now_ms - first_ms
    if age_ms < _YOUNG_MS:
        return WEEK
    return MONTH if age_ms <= _GROWN_MS else YEAR
