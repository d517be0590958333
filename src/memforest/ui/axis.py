"""A time axis with bars on it, as numbers for an SVG: where ticks stand and how long bars are."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo

from memforest.interval import local_time

LABELS = 210
"""Width of the names in front of the bars."""
WIDTH = 1000
EDGE = 44
"""Room at the right: the text of a tick stands half beside it."""
ROW = 26
HEAD = 30
LEAST = 5.0
"""Narrowest bar: an instant is seen, too."""
CHAR = 7.4
"""About the width of a character; a wide one, as in Chinese, takes two."""
PAD = 6.0
LEAST_CELLS = 4
"""Of a text in a bar: what is shorter says nothing."""
MOST_CELLS = 40
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
    """Pieces of one row share its lines, one below the other where they overlap; None for a line of its own."""
    said: str = ""
    """Stands in the bar, or behind it, as far as there is room."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece as it is drawn."""

    x: float
    y: float
    width: float
    kind: str
    note: str
    open: bool
    """It has no beginning or no end that is known, and is drawn to the edge."""
    text: str = ""
    """As much of what it says as fits; `text_x` is where that begins."""
    text_x: float = 0.0


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
        room = max((last - first) * 0.12, 3600.0)
        first, last = first - (room if any(one.start is None for one in pieces) else 0), last + room
    scale = (WIDTH - LABELS - EDGE) / (last - first)
    rows: dict[str, list[tuple[float, float, Piece]]] = {}
    for at, piece in enumerate(pieces):
        begin = first if piece.start is None else _seconds(piece.start)
        end = last if piece.end is None else _seconds(piece.end)
        width = max((end - begin) * scale, LEAST)
        x = min(LABELS + (begin - first) * scale, WIDTH - EDGE - width)
        key = f"{at}" if piece.row is None else f"={piece.row}"
        rows.setdefault(key, []).append((round(x, 1), round(width, 1), piece))
    y, bars, names = float(HEAD), list[Bar](), list[tuple[float, str]]()
    for placed in rows.values():
        names.append((y + ROW / 2, fitting(placed[0][2].label, int((LABELS - 2 * PAD) / CHAR))))
        for line in _lines(placed):
            bars += _bars(line, y + 5)
            y += ROW
    ticks = [(round(LABELS + (at - first) * scale, 1), text) for at, text in _ticks(first, last, zone)]
    return Picture(WIDTH, int(y) + 8, tuple(ticks), tuple(names), tuple(bars))


def fitting(text: str, cells: int) -> str:
    """Return as much of a text as fits into so many cells, with an ellipsis where it is cut.

    Example:
        >>> fitting("Lisbon", 6), fitting("Lisbon, Portugal", 7), fitting("東京都庁", 6)
        ('Lisbon', 'Lisbon…', '東京…')
    """
    if _cells(text) <= cells:
        return text
    kept, room = "", cells - 1
    for char in text:
        room -= _cells(char)
        if room < 0:
            break
        kept += char
    return kept.rstrip() + "…"


def _cells(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


_Placed = tuple[float, float, Piece]
"""Where a piece begins, its width, and it."""


def _lines(placed: Sequence[_Placed]) -> Iterable[list[_Placed]]:
    """Return the pieces of a row on as few lines as none hides another; events, which say nothing, all on one."""
    lines: list[list[_Placed]] = []
    for one in sorted(placed, key=lambda one: one[:2]):
        free = (line for line in lines if not one[2].said or line[-1][0] + line[-1][1] <= one[0] + 0.2)
        line = next(free, None)
        if line is None:
            lines.append([one])
        else:
            line.append(one)
    return lines


def _bars(line: Sequence[_Placed], y: float) -> Iterable[Bar]:
    """Yield the bars of a line: what one says stands in it, or behind it where there is more room before the next."""
    for at, (x, width, piece) in enumerate(line):
        wanted = _cells(piece.said)
        inside = int((width - 2 * PAD) / CHAR)
        behind = int(((line[at + 1][0] if at + 1 < len(line) else WIDTH) - x - width - 2 * PAD) / CHAR)
        cells, text_x = (inside, x + PAD) if inside >= min(wanted, behind) else (behind, x + width + PAD)
        text = fitting(piece.said, min(cells, MOST_CELLS)) if cells >= min(wanted, LEAST_CELLS) else ""
        yield Bar(
            x, y, width, piece.kind, piece.note, None in (piece.start, piece.end), text, round(text_x, 1)
        )


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
