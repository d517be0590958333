"""Decides which May or Thursday is meant, or that nobody can tell: a date that is not said is better than a wrong one.

A month, weekday, day of the month, season or holiday without a year is the latest one when the nearest verb is in the
past, and the coming one otherwise. Without any verb it is the coming one too, or the latest if that was a few days ago
and is far nearer. "Since" looks back; "until", "by" and "from" look ahead unless the verb is in the past.

A plan that was changed ("was cancelled") may be over or not, and what is far nearer counts.

In doubt there is no date: among recurring days ("every", "on Mondays", birthdays), with a plain present that may tell
a habit ("I swim on Monday"), in a tale of another time ("when I was ten"), in a name or a title ("Friday Night Lights"), when
numbers or words of time stand unread beside it ("Monday 21"), when the weekday is today's, for a season without a
verb that is in the past or looks ahead, and when the chosen one is most of a year away while the other is near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Literal

from memforest.calendar.period import Kind, Period, latest, soonest
from memforest.calendar.scene import Scene
from memforest.calendar.tense import tense_of

Side = Literal["past", "coming", "open"]
"""``open``: there is no verb, and what is nearer may count."""

_RECENT_DAYS = 10
_TIMES_NEARER = 6
_JUST_OVER_DAYS = 2
_FAR_DAYS = 290
_NEAR_DAYS = 60
_OFTEN: frozenset[Kind] = frozenset(("weekday", "weekend", "day_of_month", "holiday"))
"""What a plain present tells of as a habit."""
_YEARLY: frozenset[Kind] = frozenset(("day", "month", "quarter", "season", "holiday"))
"""What comes once a year, and lacks its year."""


def side_of(scene: Scene, at: tuple[int, int], kind: Kind) -> Side | None:
    """Return on which side of today a date lies that names no year; None in doubt.

    Args:
        scene: the text.
        at: where the date stands.
        kind: what it names.
    """
    if scene.language.verbs is None or _doubtful(scene, at):
        return None
    bound = _bound(scene, at)
    tense = tense_of(scene, *at)
    if bound == "since" or tense == "past":
        return "past"
    if tense == "unsure" or (kind == "season" and tense != "future"):
        return None
    if tense == "either":
        return "open" if kind in ("day", "month") else None
    if tense == "present" and kind in _OFTEN and bound is None:
        return None
    return "open" if tense == "none" and bound is None else "coming"


def choose_bare(
    candidates: Sequence[Period], scene: Scene, at: tuple[int, int], kind: Kind, *, strict: bool = False
) -> Period | None:
    """Return which of several like periods (all Mays) is meant; one in doubt is marked so.

    Args:
        candidates: of some years around today, in any order.
        scene: the text.
        at: where the words stand.
        kind: what they name.
        strict: what goes on today counts on neither side.
    """
    behind = latest(candidates, scene.today, strict=strict)
    ahead = soonest(candidates, scene.today, strict=strict)
    told = side = side_of(scene, at, kind)
    if side == "open":
        side = _nearer(behind, ahead, scene, at, kind)
    found, other = (behind, ahead) if side == "past" else (ahead, behind)
    found, doubt = found or other, side is None or found is None
    if found is None:
        return None
    if kind == "weekday" and found.start.weekday() == scene.today.weekday():
        doubt = True
    if other is not None and found is not other:
        far, near = _distance(found, scene.today), _distance(other, scene.today)
        doubt = doubt or (far > _FAR_DAYS and near < _NEAR_DAYS and _bound(scene, at) != "since")
    if other is found or (not doubt and side == "past") or (doubt and _doubtful(scene, at)):
        other = None  # a verb in the past leaves no choice, nor do words that are no single day
    return replace(
        found,
        relative=True,
        open_year=kind in _YEARLY,
        doubt=doubt,
        kind=kind,
        ahead=None if told in (None, "open") else side != "past",
        other=other,
    )


def _nearer(
    behind: Period | None, ahead: Period | None, scene: Scene, at: tuple[int, int], kind: Kind
) -> Side | None:
    """Return which side is meant where there is no verb: a day of the week just gone is in doubt, "Friday 3pm" is not."""
    clock = scene.language.doubts.get("clock")
    if behind is None or ahead is None or (clock is not None and clock.match(scene.text, at[1])):
        return "coming"
    back, on = _distance(behind, scene.today), _distance(ahead, scene.today)
    if kind == "weekend" and back <= _JUST_OVER_DAYS:
        return None
    if back > _RECENT_DAYS or _TIMES_NEARER * max(back, 1) > on:
        return "coming"
    return None if kind in ("weekday", "weekend") else "past"


def choose(
    candidates: Sequence[Period], which: str, scene: Scene, at: tuple[int, int], kind: Kind
) -> Period | None:
    """Return the one of several like periods (all Mays) that `which` means today.

    Args:
        candidates: of some years around today, in any order.
        which: ``last`` (the latest that is over), ``before_last``, ``next`` (the first that has not begun), ``this``
            (the one in progress, else by tense, else this year's) or ``bare`` (see `choose_bare`).
        scene: the text.
        at: where the words stand.
        kind: what they name.
    """
    if which == "bare":
        return choose_bare(candidates, scene, at, kind)
    today, found = scene.today, None
    if which == "next":
        found = soonest(candidates, today, strict=True)
    elif which == "this":
        found = _this(candidates, scene, at, kind)
    else:
        found = latest(candidates, today, strict=True)
        if which == "before_last" and found is not None:
            found = latest([p for p in candidates if p.start < found.start], today, strict=True)
    return found.marked(relative=True) if found else None


def _this(candidates: Sequence[Period], scene: Scene, at: tuple[int, int], kind: Kind) -> Period | None:
    side = side_of(scene, at, kind)
    if side == "past":
        return latest(candidates, scene.today, strict=False)
    now = next((one for one in candidates if one.start <= scene.today < one.end), None)
    if now is not None or side == "coming" or kind in ("weekday", "weekend"):
        return now or soonest(candidates, scene.today, strict=True)
    return next((one for one in candidates if one.start.year == scene.today.year), None)


def _distance(period: Period, today: date) -> int:
    """Return how many days a period is away from today, 0 for one in progress."""
    return max((period.start - today).days, (today - period.end).days + 1, 0)


def _bound(scene: Scene, at: tuple[int, int]) -> str | None:
    """Return "since" or "ahead" (until, by, from) for a date with such a word in front; None for others."""
    ahead, before = scene.language.ahead, scene.language.before
    text = scene.text[max(0, at[0] - 40) : at[0]]
    if ahead is not None and ahead.search(text):
        return "ahead"
    found = before.search(text) if before is not None else None
    return "since" if found is not None and found["since"] else None


def is_of_fiction(scene: Scene, at: tuple[int, int], period: Period) -> bool:
    """Tell whether a date, even a full one, stands in a title or is of what a book or film tells."""
    named = scene.text[at[0]].isupper() and (period.kind is not None or not period.relative)
    before = scene.text[max(0, at[0] - 60) : at[0]].rstrip(" \"'")
    for language in scene.speakers:
        media = language.doubts.get("media")
        if scene.says(language.doubts.get("fiction"), scene.sentence(*at)):
            return True
        if named and media is not None and media.search(before) is not None:
            return True
    return scene.in_title(*at)


def _doubtful(scene: Scene, at: tuple[int, int]) -> bool:
    """Tell whether the words around a date say that it is no single day, or leave it open which."""
    doubts, text = scene.language.doubts, scene.text
    behind, title = doubts.get("behind"), doubts.get("title")
    ahead, placed = doubts.get("before"), doubts.get("placed")
    before = text[max(0, at[0] - 40) : at[0]]
    if title is not None and title.match(text, at[1]) and not (placed is not None and placed.search(before)):
        return True  # "Friday Night Lights", and not "on Friday Nora left"
    return (
        scene.says(doubts.get("recurring"), scene.clause(*at))
        or scene.says(doubts.get("told"), scene.sentence(*at))
        or (behind is not None and behind.match(text, at[1]) is not None)
        or (ahead is not None and ahead.search(before) is not None)
    )
