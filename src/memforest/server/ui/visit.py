"""The request for a page of the inspector, and helpers that show stored data.

Texts stay texts, times are in the memory's zone, lists come in pages of 50, and bars stand on a time axis by percentages.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memforest.errors import InputError, NotFoundError
from memforest.memory.forest import AsyncMemForest
from memforest.memory.user import AsyncUserMemory
from memforest.read.stored import Source
from memforest.reading.states import attribute_name
from memforest.server.auth import Principal, Scope
from memforest.server.jobs import Intake
from memforest.times import EARLIEST, LATEST, UNSAFE, from_ms, local_time, one_line

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


def day(when: datetime | None, zone: tzinfo, clock: str = "") -> Markup:
    """Return a day as ``<time>``, with the time of day in a format of `strftime` behind; a dash for None."""
    if when is None:
        return Markup("–")
    local = local_time(when, zone)
    shown = f"{local.day} {local:%B} {local.year}{local.strftime(clock)}"
    return Markup('<time datetime="{}">{}</time>').format(local.isoformat(), shown)


def minute(when: datetime | None, zone: tzinfo) -> Markup:
    """Return a time to the minute as ``<time>``, or the day alone where that begins; a dash for None."""
    begins = when is not None and local_time(when, zone).time() == time()
    return day(when, zone, "" if begins else ", %H:%M")


def span(start: datetime | None, end: datetime | None, zone: tzinfo) -> Markup:
    """Return [start, end) in words: one day, a part of a day, several days, or what is known of it.

    Example:
        >>> day = datetime(2024, 5, 1, tzinfo=LATEST.tzinfo)
        >>> span(day, day + timedelta(days=1), LATEST.tzinfo).striptags()
        '1 May 2024'
    """
    start = None if start == EARLIEST else start
    if start is None or end is None:
        words = "no time known" if start is end else "until " if start is None else "from "
        return escape(words) + ("" if start is end else day(start or end, zone))
    first, after = local_time(start, zone), local_time(end, zone)
    last = local_time(max(start, end - timedelta(milliseconds=1)), zone)
    if first.date() != last.date():
        return Markup("{} to {}").format(day(start, zone), day(last, zone))
    if after.date() != last.date() and first.time() == after.time():
        return day(start, zone)
    ends = "" if last - first < timedelta(minutes=1) else f" to {last:%H:%M}"
    return Markup("{}, {}{}").format(day(start, zone), f"{first:%H:%M}", ends)


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
    made.globals |= {
        "counted": counted,
        "span": span,
        "here": "",
        "user": None,
        "keyed": False,
        "has_jobs": False,
    }
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

    def share(self, name: str) -> float | None:
        """Return a number, of which the memory says whether it is a share; None if it is blank or missing.

        Raises:
            InputError: if it is no number.
        """
        value = self.given(name)
        try:
            return None if value is None else float(value)
        except ValueError:
            raise InputError(f"{name}: give a number from 0 to 1") from None

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

    def axis(self, spans: Iterable[Span]) -> Axis | None:
        """Return the time axis, in the memory's zone, that spans stand on; None if none of them has a time."""
        return Axis.of(spans, self.forest.config.zone)

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


def turns_of(sources: Iterable[Source]) -> set[tuple[str, str]]:
    """Return the turns that sources name, as (session id, turn id)."""
    return {(one.session_id, turn_id) for one in sources for turn_id in one.turn_ids}


Span = tuple[datetime | None, datetime | None]
"""From when to when; None where that is not known."""

LEAST = 0.8
"""Narrowest bar, in percent of the axis: an instant is seen, too."""
MOST_TICKS = 5
"""So many stand beside each other on a phone."""
_DAY_S = 86_400
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 600, 1_200, 12_000)
_SECONDS = (60, 300, 900, 3_600, 10_800, 21_600, _DAY_S, 2 * _DAY_S, 7 * _DAY_S, 14 * _DAY_S)


@dataclass(frozen=True, slots=True)
class Axis:
    """A stretch of time, from `first` to `last` in UNIX seconds; bars and `ticks` stand on it in percent of its length."""

    first: float
    last: float
    ticks: tuple[tuple[float, str], ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Span], zone: tzinfo) -> Axis | None:
        """Return an axis that spans fit on; None if none of them has a time.

        Args:
            spans: what will be drawn; there is room beside them where one is open.
            zone: whose days the ticks are.
        """
        pairs = [(None if start == EARLIEST else start, end) for start, end in spans]
        times = [when.timestamp() for pair in pairs for when in pair if when is not None]
        if not times:
            return None
        first, last = min(times), max(times)
        room = max((last - first) * 0.1, 3600.0) if last - first >= 60 else 70.0 * _DAY_S
        if last - first < 60 or any(end is None for _, end in pairs):
            last += room
        if any(start is None for start, _ in pairs):
            first -= room
        bare = cls(first, last)
        return cls(first, last, tuple((bare.percent(at), text) for at, text in _ticks(first, last, zone)))

    def percent(self, at: float) -> float:
        """Return where an instant stands."""
        return round(100 * (at - self.first) / (self.last - self.first), 2)

    def bar(self, start: datetime | None, end: datetime | None) -> tuple[float, float]:
        """Return where a bar begins, and its width; an open one goes on to the edge."""
        begin = 0.0 if start is None or start == EARLIEST else self.percent(start.timestamp())
        width = max((100.0 if end is None else self.percent(end.timestamp())) - begin, LEAST)
        return min(begin, 100 - width), round(width, 2)


def _ticks(first: float, last: float, zone: tzinfo) -> Iterator[tuple[float, str]]:
    """Yield the ticks of an axis: starts of years, months, days, hours or minutes, whichever are few enough."""
    begin = _local(first, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if last - first <= 62 * _DAY_S:
        step = next((one for one in _SECONDS if (last - first) / one < MOST_TICKS), _SECONDS[-1])
        form = "%d %b" if step >= _DAY_S else "%H:%M" if last - first < _DAY_S else "%d %b, %H:%M"
        at = begin.timestamp()
        at += -(-(first - at) // step) * step
        while at <= last:
            yield at, _local(at, zone).strftime(form)
            at += step
        return
    wanted = (last - first) / (30.4 * _DAY_S * MOST_TICKS)
    months = next((one for one in _MONTHS if one > wanted), 24_000)
    number = begin.year * 12 + begin.month - 1
    for start in range(number - number % months or months, 120_000, months):
        year, month = divmod(start, 12)
        when = begin.replace(year=year, month=month + 1, day=1)
        if when.timestamp() > last:
            return
        if when.timestamp() >= first:
            yield when.timestamp(), f"{year:04d}" if months % 12 == 0 else f"{when:%b} {year:04d}"


def _local(at: float, zone: tzinfo) -> datetime:
    within = min(max(at, EARLIEST.timestamp()), LATEST.timestamp())  # an axis may reach beyond the calendar
    return local_time(from_ms(int(1000 * within)), zone)
