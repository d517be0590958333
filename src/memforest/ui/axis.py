"""A time axis with bars on it, as numbers for an SVG: where ticks stand and how long bars are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo

from memforest.interval import local_time

__all__ = ["Bar", "Picture", "Piece", "draw"]

LABELS = 210
"""Width of the names in front of the bars."""
WIDTH = 1000
EDGE = 14
ROW = 26
HEAD = 30
LEAST = 5.0
"""Narrowest bar: an instant is seen, too."""
LABEL_CHARS = 30
MOST_TICKS = 9

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST = (datetime.min.replace(tzinfo=timezone.utc) - _EPOCH).total_seconds()
_LAST = (datetime(9999, 12, 31, 23, tzinfo=timezone.utc) - _EPOCH).total_seconds()


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that was so from `start` to `end`; None is open. `label` stands in front of its row, `note` tells of it."""

    label: str
    start: datetime | None
    end: datetime | None
    kind: str = "node"
    note: str = ""
    row: str | None = None
    """Pieces of one row share a line; None for a line of its own."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece as it is drawn."""

    x: float
    y: float
    width: float
    kind: str
    note: str
    open: bool
    """It has no end, and is drawn to the edge."""


@dataclass(frozen=True, slots=True)
class Picture:
    """All of a drawing: `ticks` and `names` are places with their texts."""

    width: int
    height: int
    ticks: tuple[tuple[float, str], ...]
    names: tuple[tuple[float, str], ...]
    bars: tuple[Bar, ...]


def draw(pieces: Sequence[Piece], zone: tzinfo) -> Picture | None:
    """Return the drawing of some pieces; None where none of them has a time.

    Args:
        pieces: what is drawn, in the order of their rows.
        zone: whose days the ticks are.
    """
    times = [when for one in pieces for when in (one.start, one.end) if when is not None]
    if not times:
        return None
    first, last = _seconds(min(times)), _seconds(max(times))
    if any(one.end is None or one.start is None for one in pieces) or last - first < 60:
        room = max((last - first) * 0.06, 3600.0)
        first, last = first - (room if any(one.start is None for one in pieces) else 0), last + room
    scale = (WIDTH - LABELS - EDGE) / (last - first)
    rows: dict[str, int] = {}
    bars, names = [], []
    for at, piece in enumerate(pieces):
        key = f"{at}" if piece.row is None else f"={piece.row}"
        if key not in rows:
            rows[key] = len(rows)
            names.append((HEAD + rows[key] * ROW + ROW / 2, piece.label))
        begin = first if piece.start is None else _seconds(piece.start)
        end = last if piece.end is None else _seconds(piece.end)
        x = LABELS + (begin - first) * scale
        width = max((end - begin) * scale, LEAST)
        x = min(x, WIDTH - EDGE - width)
        y = HEAD + rows[key] * ROW + 5
        bars.append(Bar(round(x, 1), y, round(width, 1), piece.kind, piece.note, piece.end is None))
    height = HEAD + len(rows) * ROW + 8
    ticks = [(round(LABELS + (at - first) * scale, 1), text) for at, text in _ticks(first, last, zone)]
    return Picture(WIDTH, height, tuple(ticks), tuple(names), tuple(bars))


def _seconds(when: datetime) -> float:
    return (when - _EPOCH).total_seconds()


def _ticks(first: float, last: float, zone: tzinfo) -> Iterable[tuple[float, str]]:
    """Yield the beginnings of years, months, days, hours or minutes, whichever are few enough."""
    days = (last - first) / 86_400
    if days > 62:
        yield from _months(first, last, zone)
        return
    steps = (
        *((60, "%H:%M"), (300, "%H:%M"), (900, "%H:%M"), (3_600, "%H:%M"), (3 * 3_600, "%d %b %H:%M")),
        *((6 * 3_600, "%d %b %H:%M"), (86_400, "%d %b %Y"), (2 * 86_400, "%d %b %Y")),
        *((7 * 86_400, "%d %b %Y"), (14 * 86_400, "%d %b %Y")),
    )
    step, form = next((pair for pair in steps if (last - first) / pair[0] <= MOST_TICKS - 2), steps[-1])
    start = _local(first, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    at = _seconds(start)
    at += max(0, int((first - at) // step)) * step
    while at <= last:
        if at >= first:
            yield at, _local(at, zone).strftime(form)
        at += step


def _months(first: float, last: float, zone: tzinfo) -> Iterable[tuple[float, str]]:
    begin, end = _local(first, zone), _local(last, zone)
    months = (end.year - begin.year) * 12 + end.month - begin.month
    step = next(
        (one for one in (1, 2, 3, 6, 12, 24, 60, 120, 600, 1200) if months / one <= MOST_TICKS - 2), 12_000
    )
    number = -(-(begin.year * 12 + begin.month - 1) // step) * step
    while number <= end.year * 12 + end.month - 1:
        year, month = divmod(number, 12)
        number += step
        if not 1 <= year <= 9999:
            continue
        when = begin.replace(year=year, month=month + 1, day=1, hour=0, minute=0, second=0, microsecond=0)
        at = _seconds(when)
        if first <= at <= last:
            text = f"{year:04d}" if step % 12 == 0 else f"{when:%b} {year:04d}"
            yield at, text


def _local(at: float, zone: tzinfo) -> datetime:
    within = min(max(at, _FIRST), _LAST)  # the edges of a picture may lie beyond the calendar
    return local_time(_EPOCH + timedelta(seconds=within), zone)
