"""The request for a page of the inspector, and helpers that show stored data.

Texts stay texts, times are in the memory's zone, lists come in pages of 50, and a time axis with bars is drawn as numbers for an
SVG.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memforest.errors import InputError, NotFoundError
from memforest.memory.forest import AsyncMemForest
from memforest.memory.user import AsyncUserMemory
from memforest.reading.states import attribute_name
from memforest.server.auth import Principal, Scope
from memforest.server.jobs import Intake
from memforest.times import UNSAFE, local_time, one_line

TEXT_CHARS = 20_000
"""Longest text on a page; of a longer one the rest is counted."""

_KEPT = "\n\t"
_BROKEN = re.compile("[\ud800-\udfff]")


def safe_text(text: object, limit: int = TEXT_CHARS) -> Markup:
    """Return a stored text as safe HTML: escaped, isolated in direction, with hidden characters named.

    A control or a directional mark in a text changes how the page reads; here it stands as its code point.

    Args:
        text: what was stored.
        limit: most characters that are shown.
    """
    whole = str(text)
    found, at, shown = [], 0, whole[:limit]
    marks = [one for pattern in (UNSAFE, _BROKEN) for one in pattern.finditer(shown)]
    for match in sorted(marks, key=re.Match.start):
        if match.group() not in _KEPT:
            named = Markup('<span class="mark">U+{}</span>').format(f"{ord(match.group()):04X}")
            found += [escape(shown[at : match.start()]), named]
            at = match.end()
    found.append(escape(shown[at:]))
    if len(whole) > limit:
        found.append(Markup('<span class="note"> … {:,} more characters</span>').format(len(whole) - limit))
    return Markup('<bdi dir="auto">{}</bdi>').format(Markup("").join(found))


def short(text: object, limit: int = 120) -> Markup:
    """Return a text as safe HTML on one line of a table, cut with an ellipsis."""
    return Markup('<bdi dir="auto">{}</bdi>').format(plain(text, limit))


def plain(text: object, limit: int = 120) -> str:
    """Return a text on one line for an attribute or a title; Jinja escapes it."""
    line = _BROKEN.sub("\ufffd", one_line(str(text)))
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def minute(when: datetime | None, zone: tzinfo) -> Markup:
    """Return a time to the minute as ``<time>``; a dash for None."""
    return _time(when, zone, len("2024-05-01 12:30"))


def day(when: datetime | None, zone: tzinfo) -> Markup:
    """Return a day as ``<time>``; a dash for None."""
    return _time(when, zone, len("2024-05-01"))


def _time(when: datetime | None, zone: tzinfo, shown: int) -> Markup:
    if when is None:
        return Markup("–")
    local = local_time(when, zone)
    return Markup('<time datetime="{}">{}</time>').format(local.isoformat(), local.isoformat(" ")[:shown])


def counted(count: int, thing: str) -> str:
    """Return a count with its noun.

    Example:
        >>> counted(1, "tree"), counted(1200, "tree")
        ('1 tree', '1,200 trees')
    """
    if count == 1:
        return f"1 {thing}"
    several = thing[:-1] + "ies" if thing.endswith("y") else thing + "s"
    return f"{count:,} {several}"


def link(base: str, page: str, **params: object) -> str:
    """Return the address of a page; parameters without a value are left out.

    Ids travel as parameters, never as parts of a path: no proxy and no router folds what is in them.

    Example:
        >>> link("/ui", "forest", user="../ann")
        '/ui/forest?user=..%2Fann'
    """
    given = {name: str(value) for name, value in params.items() if value is not None and value != ""}
    return f"{base}/{page}" + (f"?{urlencode(given, errors='replace')}" if given else "")


def environment() -> Environment:
    """Return the templates' environment, which escapes everything and raises for missing names."""
    made = Environment(
        loader=PackageLoader("memforest.server.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"text": safe_text, "short": short, "plain": plain, "minute": minute, "day": day}
    made.filters["attribute"] = attribute_name
    # What no page has to name: a template sets `here`, its own name in the navigation.
    made.globals |= {"counted": counted, "here": "", "user": None, "keyed": False, "has_jobs": False}
    return made


def base_of(request: Request) -> str:
    """Return the path that the inspector is mounted at."""
    return str(request.scope.get("root_path", ""))


PAGE = 50
"""Items of one page."""
MOST_FORM_BYTES = 64_000
"""Largest form: a corrected statement of the most characters, each of four bytes and escaped, is smaller."""
_MOST_FIELDS = 50
_MOST_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page by a caller who may see it."""

    request: Request
    templates: Environment
    who: Principal
    forest: AsyncMemForest
    token: str
    """What the page's forms carry."""
    keyed: bool
    """Whether they are logged in, and can log out."""
    form: Mapping[str, str]
    """The fields that were posted; empty for a page that is read."""
    again: Callable[[], Awaitable[object]]
    """Asks anew whether who looks may; raises as at first."""
    intake: Intake | None = None
    """The ingest jobs of the server, if it takes any."""

    def url(self, page: str, **params: object) -> str:
        """Return the address of a page."""
        return link(base_of(self.request), page, **params)

    def may(self, scope: Scope) -> bool:
        """Return whether the caller has a scope."""
        return scope in self.who.scopes

    def given(self, name: str) -> str | None:
        """Return a parameter or field; None if it is blank or missing.

        Raises:
            InputError: if it is too long.
        """
        value = self.form.get(name) if self.form else self.request.query_params.get(name)
        if value is not None and len(value) > _MOST_CHARS:
            raise InputError(f"{name} has {len(value):,} characters; {_MOST_CHARS:,} at most")
        return value if value is not None and value.strip() else None

    def needed(self, name: str) -> str:
        """Return a parameter or field.

        Raises:
            InputError: if it is blank or not there.
        """
        value = self.given(name)
        if value is None:
            raise InputError(f"this page needs {name}=")
        return value

    def number(self, name: str, default: int, most: int) -> int:
        """Return a whole number of 0 or more.

        Raises:
            InputError: if it is none, or more than `most`.
        """
        value = self.given(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 19) or int(value) > most:
            raise InputError(f"{name}: give a whole number of 0 to {most:,}")
        return int(value)

    @property
    def user(self) -> str:
        """The user whose memory the page is about.

        Raises:
            InputError: if none is named.
            NotFoundError: if who looks may not see that user.
        """
        return self.who.user_id(self.needed("user"))

    @property
    def memory(self) -> AsyncUserMemory:
        """The memory that the page is about.

        Raises:
            InputError: if no user is named.
            NotFoundError: if who looks may not see that user.
        """
        return self.forest.user(self.user)

    @property
    def jobs(self) -> Intake:
        """The ingest jobs of the server.

        Raises:
            NotFoundError: if it takes none.
        """
        if self.intake is None:
            raise NotFoundError("this server takes no ingest jobs")
        return self.intake

    def page(self, template: str, **context: Any) -> Response:
        """Return a page: the template with what it shows, and with the user whose memory it is about, if one is named."""
        if self.given("user") is not None:
            context["user"] = self.user
        return HTMLResponse(self.part(template, **context))

    def part(self, template: str, **context: Any) -> str:
        """Return the rendered template of a page or a part of one."""
        return self.templates.get_template(template).render(
            url=self.url,
            given=self.given,
            may=self.may,
            zone=self.forest.config.zone,
            token=self.token,
            keyed=self.keyed,
            has_jobs=self.intake is not None,
            **context,
        )

    def draw(self, pieces: Iterable[AxisSpan]) -> dict[str, Any] | None:
        """Return the drawing of spans on a time axis of the memory's zone; None if none of them has a time."""
        return draw(tuple(pieces), self.forest.config.zone)

    def go(self, page: str, **params: object) -> Response:
        """Return the redirect to a page after a form was carried out."""
        return RedirectResponse(self.url(page, **params), 303)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a posted form.

    Raises:
        InputError: if it is no form, not UTF-8, too large, or a field is there twice.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InputError("post a form (application/x-www-form-urlencoded)")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_FORM_BYTES:
            raise InputError(f"the form has more than {MOST_FORM_BYTES:,} bytes")
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise InputError("the form is not encoded as UTF-8, or has too many fields") from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InputError("a field of the form is there twice")
    return fields


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
_FIRST = datetime.min.replace(tzinfo=timezone.utc).timestamp()
_LAST = datetime(9999, 12, 31, 23, tzinfo=timezone.utc).timestamp()


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """A bar from `start` to `end` on a time axis; None is open. `label` stands in front of its row, `note` is its tooltip."""

    label: str
    start: datetime | None
    end: datetime | None
    kind: str = "node"
    note: str = ""
    row: str | None = None
    """Pieces of one row share its lines, one below the other where they overlap; None for a line of its own."""
    said: str = ""
    """Stands in the bar, or behind it, as far as there is room."""


def draw(pieces: Sequence[AxisSpan], zone: tzinfo) -> dict[str, Any] | None:
    """Return the drawing of spans on a time axis; None if none of them has a time.

    `ticks` and `names` are positions with texts. A bar with an unknown start or end is `open` and drawn to the edge; its `text`,
    as much as fits, begins at `text_x`.

    Args:
        pieces: what is drawn, in the order of their rows.
        zone: whose days the ticks are.
    """
    times = [when for one in pieces for when in (one.start, one.end) if when is not None]
    if not times:
        return None
    first, last = min(times).timestamp(), max(times).timestamp()
    if any(one.end is None or one.start is None for one in pieces) or last - first < 60:
        room = max((last - first) * 0.12, 3600.0)
        first, last = first - (room if any(one.start is None for one in pieces) else 0), last + room
    scale = (WIDTH - LABELS - EDGE) / (last - first)
    rows: dict[str, list[tuple[float, float, AxisSpan]]] = {}
    for at, piece in enumerate(pieces):
        begin = first if piece.start is None else piece.start.timestamp()
        end = last if piece.end is None else piece.end.timestamp()
        width = max((end - begin) * scale, LEAST)
        x = min(LABELS + (begin - first) * scale, WIDTH - EDGE - width)
        key = f"{at}" if piece.row is None else f"={piece.row}"
        rows.setdefault(key, []).append((round(x, 1), round(width, 1), piece))
    y, bars, names = float(HEAD), list[dict[str, Any]](), list[tuple[float, str]]()
    for placed in rows.values():
        names.append((y + ROW / 2, fitting(placed[0][2].label, int((LABELS - 2 * PAD) / CHAR))))
        for line in _lines(placed):
            bars += _bars(line, y + 5)
            y += ROW
    ticks = [(round(LABELS + (at - first) * scale, 1), text) for at, text in _ticks(first, last, zone)]
    return {"width": WIDTH, "height": int(y) + 8, "ticks": ticks, "names": names, "bars": bars}


def fitting(text: str, cells: int) -> str:
    """Return as much of a text as fits into a number of cells, with an ellipsis if it is cut.

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


_Placed = tuple[float, float, AxisSpan]
"""Where a piece begins, its width, and it."""


def _lines(placed: Sequence[_Placed]) -> Iterable[list[_Placed]]:
    """Return the spans of a row on lines where none hides another; spans without text share one line."""
    lines: list[list[_Placed]] = []
    for one in sorted(placed, key=lambda one: one[:2]):
        free = (line for line in lines if not one[2].said or line[-1][0] + line[-1][1] <= one[0] + 0.2)
        line = next(free, None)
        if line is None:
            lines.append([one])
        else:
            line.append(one)
    return lines


def _bars(line: Sequence[_Placed], y: float) -> Iterable[dict[str, Any]]:
    """Yield the bars of a line, each with its text inside, or behind it where there is more room before the next."""
    for at, (x, width, piece) in enumerate(line):
        wanted = _cells(piece.said)
        inside = int((width - 2 * PAD) / CHAR)
        behind = int(((line[at + 1][0] if at + 1 < len(line) else WIDTH) - x - width - 2 * PAD) / CHAR)
        cells, text_x = (inside, x + PAD) if inside >= min(wanted, behind) else (behind, x + width + PAD)
        text = fitting(piece.said, min(cells, MOST_CELLS)) if cells >= min(wanted, LEAST_CELLS) else ""
        place = {"x": x, "y": y, "width": width, "text": text, "text_x": round(text_x, 1)}
        yield {**place, "kind": piece.kind, "note": piece.note, "open": None in (piece.start, piece.end)}


def _ticks(first: float, last: float, zone: tzinfo) -> Iterable[tuple[float, str]]:
    """Yield the ticks of an axis: starts of years, months, days, hours or minutes, whichever are few enough."""
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
    at = start.timestamp()
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
        at = when.timestamp()
        if first <= at <= last:
            text = f"{year:04d}" if step % 12 == 0 else f"{when:%b} {year:04d}"
            yield at, text


def _local(at: float, zone: tzinfo) -> datetime:
    within = min(max(at, _FIRST), _LAST)  # the edges of a picture may lie beyond the calendar
    return local_time(_EPOCH + timedelta(seconds=within), zone)
