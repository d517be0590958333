"""Two instants compared: what was so at one and not at the other, or what the memory held and learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from starlette.responses import Response

from memforest.errors import InputError, NotFoundError
from memforest.forest.handle import AsyncUserMemory
from memforest.interval import local_time
from memforest.limits import MAX_PAGE
from memforest.memory.results import ChangePage, Diff, TimelineEntry
from memforest.ui.visit import PAGE, Visit

WAYS = ("valid", "known")
"""Compared by when things were so, or by when this memory held them."""


@dataclass(frozen=True, slots=True)
class HeldPair:
    """A state of an entity as a memory held it at each of two instants; None where it held none such."""

    before: TimelineEntry | None
    after: TimelineEntry | None

    @property
    def either(self) -> TimelineEntry:
        """The state, as held later where both instants have it."""
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def change(self) -> str:
        """What has become of it."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "gone"
        times = [(one.start, one.end) for one in (self.before, self.after)]
        return "same" if times[0] == times[1] else "changed"


@dataclass(frozen=True, slots=True)
class _Held:
    """The states that were held at two instants; `cut` where there were more than one reads."""

    pairs: Sequence[HeldPair]
    cut: bool


def side_by_side(before: Sequence[TimelineEntry], after: Sequence[TimelineEntry]) -> list[HeldPair]:
    """Return the states of two timelines in pairs: those of one attribute and value, first by when they began, then in order.

    So a state that has ended meanwhile, or whose time was corrected, is one row and not two.

    Example:
        >>> entry = TimelineEntry("state", "", None, None, "residence", "Berlin")
        >>> [one.change for one in side_by_side([entry], [entry, entry])]
        ['same', 'new']
    """
    sides = [_by_value(before), _by_value(after)]
    pairs: list[HeldPair] = []
    for name in dict.fromkeys((*sides[0], *sides[1])):
        left, right = list(sides[0].get(name, ())), list(sides[1].get(name, ()))
        for one in tuple(left):
            same = next((other for other in right if other.start == one.start), None)
            if same is not None:
                pairs.append(HeldPair(one, same))
                left.remove(one)
                right.remove(same)
        pairs += [HeldPair(one, other) for one, other in zip_longest(left, right)]
    return sorted(pairs, key=_place)


def _by_value(entries: Sequence[TimelineEntry]) -> dict[tuple[str, str], list[TimelineEntry]]:
    found: dict[tuple[str, str], list[TimelineEntry]] = {}
    for one in entries:
        if one.kind == "state":
            found.setdefault((one.attribute or "", one.value or ""), []).append(one)
    return found


def _place(pair: HeldPair) -> tuple[str, float, str]:
    one = pair.either
    return one.attribute or "", float("-inf") if one.start is None else one.start.timestamp(), one.value or ""


async def diff(visit: Visit) -> Response:
    """Show the form for two instants, and what differs when both are given."""
    names = ("a", "b", "entity", "said_by", "known_at", "after")
    asked = {name: visit.given(name) for name in names}
    way = visit.given("by") or "valid"
    if way not in WAYS:
        raise InputError("by: give valid or known")
    memory = visit.memory
    found: Diff | None = None
    changes: ChangePage | None = None
    held: _Held | None = None
    a, b = asked["a"], asked["b"]
    sessions = await memory.sessions(limit=1)  # and whether there is such a memory
    both = None if a is None or b is None else (a, b)
    if both is not None and way == "valid":
        found = await memory.diff(
            *both, entity=asked["entity"], said_by=asked["said_by"], known_at=asked["known_at"]
        )
    elif both is not None:
        changes = await memory.changes(both[0], until=both[1], limit=PAGE, after=asked["after"])
        if asked["entity"] is not None and asked["after"] is None:
            held = await _held(memory, asked["entity"], asked["said_by"], both)
    return visit.page(
        "diff.html",
        user=visit.user,
        here="diff",
        asked=asked,
        way=way,
        found=found,
        changes=changes,
        held=held,
        begins=local_time(sessions[0].start, visit.forest.config.zone).date() if sessions else None,
    )


async def _held(
    memory: AsyncUserMemory, entity: str, said_by: str | None, instants: tuple[str, str]
) -> _Held:
    """Return the states of an entity that a memory held at two instants.

    Raises:
        NotFoundError: if it knew nothing of the entity at either.
    """
    sides: list[Sequence[TimelineEntry]] = []
    cut, unknown = False, None
    for instant in instants:
        try:
            page = await memory.timeline(entity, said_by=said_by, known_at=instant, limit=MAX_PAGE)
        except NotFoundError as exc:
            if unknown is not None:
                raise
            unknown = exc
            sides.append(())
            continue
        sides.append(page.entries)
        cut = cut or page.next_cursor is not None
    return _Held(side_by_side(*sides), cut)
