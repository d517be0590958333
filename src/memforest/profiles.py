r"""The lines of a profile, and its text: a section a participant, with the name as its heading and a statement a line.

>>> text = join_sections([("Ana", ["Lives in Lisbon since 2023-05-04.", "Works as a\nnurse."]), ("Ben", [])])
>>> print(text)
## Ana
- Lives in Lisbon since 2023-05-04.
- Works as a nurse.
>>> split_sections(text)
[('Ana', ['Lives in Lisbon since 2023-05-04.', 'Works as a nurse.'])]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Literal

from memforest.display import one_line
from memforest.interval import Interval, format_interval, from_ms
from memforest.types import Precision

LineKind = Literal["state", "change", "event", "said", "entity", "topic", "relation", "fact", "written"]
"""What a line is; ``"written"`` is one that a chat model wrote. A ``"relation"`` or a ``"fact"`` is in the profile of an entity."""
StatedSpan = tuple[int, int | None, Precision]
"""The time that a fact states, [start, end) in UTC ms, and how exactly; no end where it is open."""
MOST_SOURCES = 32
"""Sources of a line: the first half and the last half of more."""

_HEADING, _ITEM = "##", "-"


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line of one participant's profile, with the rows of the facts and turns that it rests on, in the order they were said."""

    participant: str
    text: str
    kind: LineKind
    facts: tuple[int, ...]
    turns: tuple[int, ...]


def ends_of(sources: Sequence[int]) -> tuple[int, ...]:
    """Return each source once, of many the first and the last ones.

    >>> len(ends_of(range(100))), ends_of([3, 3, 1])
    (32, (3, 1))
    """
    once = tuple(dict.fromkeys(sources))
    half = MOST_SOURCES // 2
    return once if len(once) <= MOST_SOURCES else (*once[:half], *once[-half:])


def stated_time(span: StatedSpan, zone: tzinfo) -> str:
    """Return a time as exact as it is stated, of several days the first and the last; of an open one the beginning."""
    start_ms, end_ms, precision = span
    start = from_ms(start_ms)
    closed = Interval.at(start) if end_ms is None else Interval(start, from_ms(end_ms))
    exact: Precision = "day" if precision in ("instant", "week", "unknown") else precision
    return format_interval(closed, exact, zone=zone, style="iso").replace("/", " to ")


def since_text(start_ms: int, span: StatedSpan | None, zone: tzinfo, *, began: bool) -> str:
    """Return since when something is so: from its first fact, which may state a time.

    Args:
        start_ms: when it was first so, as far as is known.
        span: the time that its first fact states.
        zone: whose days are written.
        began: whether it was told as a beginning.
    """
    sure = span is not None and (began or span[1] is None)
    stated = span if span is not None and span[0] == start_ms else (start_ms, None, "day")
    return f"{'since' if sure else 'known since'} {stated_time(stated, zone)}"


def join_sections(sections: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return the text of sections, each a name with its lines; what `split_sections` reads back.

    Names and lines are put on one line each, so that neither can begin a section. Blank lines are left out, and sections
    without a line. Of one name there is one section, where it comes first, with the lines of all.
    """
    held: dict[str, list[str]] = {}
    for name, lines in sections:
        held.setdefault(one_line(name), []).extend(whole for line in lines if (whole := one_line(line)))
    made: list[str] = []
    for name, lines in held.items():
        if lines:
            made += (f"{_HEADING} {name}".rstrip(), *(f"{_ITEM} {line}" for line in lines))
    return "\n".join(made)


def split_sections(text: str) -> list[tuple[str, list[str]]]:
    """Return the sections of a profile's text, in order: each a name and its lines.

    Nothing is lost of a text that has another form: what stands before the first heading is in a section with the name
    "", a line without a dash is a line like others. Sections of one name are one, as `join_sections` writes them.
    """
    held: dict[str, list[str]] = {}
    name = ""
    for whole in filter(None, map(one_line, text.splitlines())):
        mark, _, rest = whole.partition(" ")
        if mark == _HEADING:
            name = rest
        elif line := rest if mark == _ITEM else whole:
            held.setdefault(name, []).append(line)
    return list(held.items())
