"""How pages show what was stored: texts as texts, times in the memory's zone, sizes and counts in words."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo
from importlib.resources import files
from urllib.parse import urlencode

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from memforest.display import UNSAFE, one_line
from memforest.interval import local_time

TEXT_CHARS = 20_000
"""Longest text on a page; of a longer one the rest is counted."""

_KEPT = "\n\t"
_BROKEN = re.compile("[\ud800-\udfff]")


def safe_text(text: object, limit: int = TEXT_CHARS) -> Markup:
    """Return a stored text as it may stand between tags: escaped, isolated in its direction, and what acts unseen is named.

    A control or a directional mark in a text changes how the page reads; here it stands as its code point.

    Args:
        text: what was stored.
        limit: most characters that are shown.
    """
    whole = str(text)
    found, at, shown = [], 0, whole[:limit]
    for match in _marks(shown):
        found += [escape(shown[at : match.start()]), _named(match.group())]
        at = match.end()
    found.append(escape(shown[at:]))
    if len(whole) > limit:
        found.append(Markup('<span class="note"> … {:,} more characters</span>').format(len(whole) - limit))
    return Markup('<bdi dir="auto">{}</bdi>').format(Markup("").join(found))


def _marks(text: str) -> list[re.Match[str]]:
    marks = [
        one for pattern in (UNSAFE, _BROKEN) for one in pattern.finditer(text) if one.group() not in _KEPT
    ]
    return sorted(marks, key=re.Match.start)


def _named(char: str) -> Markup:
    return Markup('<span class="mark">U+{}</span>').format(f"{ord(char):04X}")


def short(text: object, limit: int = 120) -> Markup:
    """Return a text on one line of a table, as `safe_text` does, cut with an ellipsis."""
    line = _BROKEN.sub("\ufffd", one_line(str(text)))
    cut = line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
    return Markup('<bdi dir="auto">{}</bdi>').format(cut)


def plain(text: object, limit: int = 120) -> str:
    """Return a text for an attribute or a title: one line without marks; Jinja escapes it."""
    line = _BROKEN.sub("\ufffd", one_line(str(text)))
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def minute(when: datetime | None, zone: tzinfo) -> Markup:
    """Return a time to the minute as a ``<time>``; a dash for none."""
    return _time(when, zone, "%Y-%m-%d %H:%M")


def day(when: datetime | None, zone: tzinfo) -> Markup:
    """Return a day as a ``<time>``; a dash for none."""
    return _time(when, zone, "%Y-%m-%d")


def _time(when: datetime | None, zone: tzinfo, form: str) -> Markup:
    if when is None:
        return Markup("–")
    local = local_time(when, zone)
    year = f"{local.year:04d}"  # strftime writes years before 1000 with fewer digits on some systems
    return Markup('<time datetime="{}">{}</time>').format(
        local.isoformat(), local.strftime(form.replace("%Y", year))
    )


def human_bytes(count: int) -> str:
    """Return a size in words.

    Example:
        >>> human_bytes(900), human_bytes(1_200_000)
        ('900 B', '1.2 MB')
    """
    size, unit = float(count), "B"
    for bigger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, bigger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


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
    """Return the templates: everything is escaped, and a name that is not given is an error."""
    room = files("memforest.ui") / "templates"

    def load(name: str) -> str:
        return (room / name).read_text(encoding="utf-8")

    made = Environment(
        loader=FunctionLoader(load),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "text": safe_text,
        "short": short,
        "plain": plain,
        "bytes": human_bytes,
        "minute": minute,
        "day": day,
    }
    made.globals |= {"counted": counted}
    return made
