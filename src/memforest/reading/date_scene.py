"""What a date rule asks of the text around it: its tense, which of two Mays it means, and units counted from now.

Tense: a language file lists patterns of verbs in order, each with the tense that it stands for; at one place in the text
the first pattern that matches counts. Of the verbs found the nearest to the left in the clause counts, else the nearest
to the right in it, else the nearest in the sentence.

Choice: a month, weekday, day of the month, season or holiday without a year is the latest one when the nearest verb is in
the past, and the coming one otherwise. Without any verb it is the coming one too, or the latest if that was a few days ago
and is far nearer. "Since" looks back; "until", "by" and "from" look ahead unless the verb is in the past. A plan that was
changed ("was cancelled") may be over or not, and what is far nearer counts.

In doubt there is no date, as a missing one is better than a wrong one: among recurring days ("every", "on Mondays",
birthdays), with a plain present that may tell a habit ("I swim on Monday"), in a tale of another time ("when I was ten"),
in a name or a title ("Friday Night Lights"), when numbers or words of time stand unread beside it ("Monday 21"), when the
weekday is today's, for a season without a verb that is in the past or looks ahead, and when the chosen one is most of a
year away while the other is near.

Units: "N units ago" is the calendar unit that contains that day ("two weeks ago": a Monday-to-Sunday week), because nobody
means the exact day; only days and hours give a day, and so does "six weeks ago today". "Last week/month/year" is the
calendar unit before the current one (see `memforest.reading.date_rules`), "the last week" the seven days up to today.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Literal, cast

from memforest.reading.date_language import Language, Rule, fold_word
from memforest.reading.periods import Kind, Period, day, latest, soonest, stepped, unit_period
from memforest.records import Precision

_REACH = 160
"""Most characters of a sentence to either side of a date that are looked at."""
_STOP = re.compile(r"(?<!\b\w)[.!?]+(?=[\s\"'”’)]|$)|[;\n。！？]")

_QUOTED = re.compile(
    r"""["“«]([^"“”«»\n]{1,80})["”»]|(?<!\w)'([^'\n]{1,80})'(?!\w)|(?<![\w*])[*_]([^*_\n]{1,80})[*_](?![\w*])"""
)
_TITLE_WORD = re.compile(r"[^\W\d_]{2,}")
_SHORT_WORD = 4


@dataclass(frozen=True, slots=True)
class Scene:
    """One text in one language, said at one moment in one zone."""

    text: str
    """Folded: see `memforest.reading.date_language`."""
    said: str
    """The same with its accents, which tell tenses apart ("llegó", "llego"); as long as `text`."""
    now: datetime
    today: date
    """The local day of `now`."""
    zone: tzinfo
    language: Language
    day_first: bool | None
    """Whether ``03/05/2023`` is 3 May; None when that is not known."""
    speakers: tuple[Language, ...]
    """Whose words may stand around a date: for a numeric date, those of every language in use."""

    def sentence(self, start: int, end: int) -> tuple[int, int]:
        """Return the bounds of the sentence around a stretch of the text, at most `_REACH` characters away."""
        low, high = max(0, start - _REACH), min(len(self.text), end + _REACH)
        behind = _STOP.search(self.text, end, high)
        low = max((one.end() for one in _STOP.finditer(self.text, low, start)), default=low)
        return low, behind.start() if behind else high

    def clause(self, start: int, end: int) -> tuple[int, int]:
        """Return the bounds of the clause around a stretch of the text."""
        bounds = self.language.beside["clause"]
        low, high = self.sentence(start, end)
        behind = bounds.search(self.text, end, high)
        low = max((one.end() for one in bounds.finditer(self.text, low, start)), default=low)
        return low, behind.start() if behind else high

    def says(self, name: str, bounds: tuple[int, int]) -> bool:
        """Return whether a pattern of the language matches within bounds of the text."""
        return self.language.beside[name].search(self.text, *bounds) is not None


Tense = Literal["past", "coming", "future", "present", "either", "unsure", "none"]
"""``coming`` is a verb that is not in the past, ``future`` one that looks ahead; ``either`` tells of a plan that was changed,
whose day may be over or not; ``present`` one that may tell a habit ("I swim on Monday"); ``unsure`` a verb
that leaves it open ("she would come on Friday"); ``none`` no verb at all."""


def tense_of(scene: Scene, start: int, end: int) -> Tense:
    """Return the tense of the verb nearest to a stretch of the scene's text.

    Args:
        scene: the text, in its language; in text of no language nothing is known to be a verb.
        start: first character of the date.
        end: behind its last character.
    """
    verbs = scene.language.verbs
    if verbs is None:
        return "none"
    low, high = scene.sentence(start, end)
    found = [one for one in verbs.finditer(scene.said, low, high) if one.end() <= start or one.start() >= end]
    # An answer has its question's tense.
    if not found and scene.text[max(0, low - 40) : low].rstrip().endswith("?"):
        start = end = scene.text.rindex("?", 0, low)
        low, high = scene.sentence(start, end)
        found = list(verbs.finditer(scene.said, low, start))
    if not found:
        return "none"
    first, last = scene.clause(start, end)
    left = [one for one in found if first <= one.start() and one.end() <= start]
    right = [one for one in found if end <= one.start() and one.end() <= last]
    if left:
        nearest = left[-1]
    elif right:
        nearest = right[0]
    else:
        nearest = min(found, key=lambda one: start - one.end() if one.end() <= start else one.start() - end)
    tense = (nearest.lastgroup or "").partition("_")[0]  # that of the row of the table that has matched
    if tense == "reported":  # "would" looks ahead from now, unless it does so from then: "she said she would"
        then = any(
            (one.lastgroup or "").startswith("past_") for one in found if one.start() < nearest.start()
        )
        return "unsure" if then else "coming"
    return cast("Tense", tense)


Match = re.Match[str]


def group(match: Match, name: str) -> str | None:
    """Return a named group, or None if the pattern lacks it or it took no part in the match."""
    return match.group(name) if name in match.re.groupindex else None


def at(match: Match) -> tuple[int, int]:
    """Return the position of the date in a match: the group ``span``, else the whole match."""
    return match.span("span") if "span" in match.re.groupindex else match.span()


def unit_of(match: Match, rule: Rule, scene: Scene) -> str:
    """Return the unit that the rule fixes or the words name."""
    named = rule.args.get("unit")
    return str(named) if named else scene.language.units[fold_word(match["unit"])]


def number_range(match: Match, rule: Rule, scene: Scene) -> tuple[int, int] | None:
    """Return the number as a range (twice the same unless it is vague); None if there is none.

    "Two or three weeks" and "a week or two" are the range that they name.
    """
    fixed = rule.args.get("number")
    if fixed is not None:
        return fixed, fixed
    word = group(match, "number")
    if not word:
        return None
    low, high = _number(word, scene)
    other = group(match, "number2")
    if other:
        high = max(high, _number(other, scene)[1])
    elif (group(match, "more") or "so").lower() != "so":
        high = max(high, 2)
    return low, high


def _number(word: str, scene: Scene) -> tuple[int, int]:
    if word.isdigit():
        return int(word), int(word)
    numbers, folded = scene.language.numbers, fold_word(word)
    if folded in numbers:
        return numbers[folded]
    tens, ones = (numbers[one][0] for one in re.split("[- ]", folded))
    return tens + ones, tens + ones


def year_of(match: Match) -> int | None:
    """Return the year that a match names in four digits or as "'19"; None if it names none."""
    digits = group(match, "year")
    return full_year(digits.lstrip("'")) if digits else None


def full_year(digits: str) -> int:
    """Return a year of four or two digits: 69-99 are 1969-1999, 00-68 are 2000-2068 (POSIX strptime, ``%y``)."""
    year = int(digits)
    return year if len(digits) > 2 else year + (1900 if year >= 69 else 2000)


def vague(match: Match, rule: Rule, numbers: tuple[int, int]) -> bool:
    """Return whether a number is vague ("about two", "a week or so")."""
    about = any(group(match, name) for name in ("approx", "ish", "more"))
    return numbers[0] != numbers[1] or about or bool(rule.args.get("vague"))


def weekday_of(match: Match, rule: Rule, scene: Scene) -> int | None:
    """Return the weekday (0 is Monday), or None if the word is something else ("sat down")."""
    word = capital_word(match, "weekday", rule, scene)
    return None if word is None else scene.language.weekdays[word] - 1


def capital_word(match: Match, name: str, rule: Rule, scene: Scene) -> str | None:
    """Return the word of a group, folded; None if there is none, or it should have a capital letter to be a date.

    With a year it is a date in any case.
    """
    word = group(match, name)
    if word is None:
        return None
    folded = fold_word(word)
    firm = rule.args.get("any_case") or group(match, "year") or word[0].isupper()
    return folded if firm or folded not in scene.language.capital else None


Side = Literal["past", "coming", "open"]
"""``open``: there is no verb, and the nearer side may count."""

_RECENT_DAYS = 10
_TIMES_NEARER = 6
_JUST_OVER_DAYS = 2
_FAR_DAYS = 290
_NEAR_DAYS = 60
_OFTEN: frozenset[Kind] = frozenset(("weekday", "weekend", "day_of_month", "holiday"))
"""A plain present with one of these states a habit."""
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
        strict: a period in progress counts on neither side.
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
    """Return the side of today without a verb: a weekday just past is in doubt, "Friday 3pm" is not."""
    if behind is None or ahead is None or scene.language.beside["clock"].match(scene.text, at[1]):
        return "coming"
    back, on = _distance(behind, scene.today), _distance(ahead, scene.today)
    if kind == "weekend" and back <= _JUST_OVER_DAYS:
        return None
    if back > _RECENT_DAYS or _TIMES_NEARER * max(back, 1) > on:
        return "coming"
    return None if kind in ("weekday", "weekend") else "past"


def nth_from(candidates: Sequence[Period], count: int, today: date) -> Period | None:
    """Return the first, second, ... of several like periods in order (all Mays) that has not begun; of -1, -2, ... that is over."""
    those = [one for one in candidates if (one.start > today if count > 0 else one.end <= today)]
    index = count - 1 if count > 0 else count
    return replace(those[index], relative=True) if 0 < abs(count) <= len(those) else None


def this_one(candidates: Sequence[Period], scene: Scene, at: tuple[int, int], kind: Kind) -> Period | None:
    """Return the one of several like periods that "this" means: the one in progress, else by tense, else this year's.

    Args:
        candidates: of some years around today, in order.
        scene: the text.
        at: where the words stand.
        kind: what they name.
    """
    today, side = scene.today, side_of(scene, at, kind)
    if side == "past":
        found = latest(candidates, today, strict=False)
    elif side == "coming" or kind in ("weekday", "weekend"):
        found = soonest(candidates, today, strict=False)
    else:
        current = [one for one in candidates if one.start <= today < one.end]
        found = next(iter(current or [one for one in candidates if one.start.year == today.year]), None)
    return replace(found, relative=True) if found else None


def _distance(period: Period, today: date) -> int:
    """Return how many days a period is away from today, 0 for one in progress."""
    return max((period.start - today).days, (today - period.end).days + 1, 0)


def _bound(scene: Scene, at: tuple[int, int]) -> str | None:
    """Return "since" or "ahead" (until, by, from) for a date with such a word in front; None for others."""
    text = scene.text[max(0, at[0] - 40) : at[0]]
    if scene.language.beside["ahead"].search(text):
        return "ahead"
    found = scene.language.beside["bound"].search(text)
    return "since" if found is not None and found["since"] else None


def is_of_fiction(scene: Scene, at: tuple[int, int], period: Period) -> bool:
    """Return whether a date, even a full one, stands in a title or belongs to the story of a book or film.

    A title stands in quotation marks, alone or among capitalised words: "One Day in December", but not "See you in
    December".
    """
    text, (start, end) = scene.text, at
    named = text[start].isupper() and (period.kind is not None or not period.relative)
    before = text[max(0, start - 60) : start].rstrip(" \"'")
    for language in scene.speakers:
        if language.beside["fiction"].search(text, *scene.sentence(start, end)):
            return True
        if named and language.beside["media"].search(before):
            return True
    for quoted in _QUOTED.finditer(text, max(0, start - _REACH), min(len(text), end + _REACH)):
        low, high = quoted.span(quoted.lastindex or 0)
        if low <= start < end <= high:
            words = _TITLE_WORD.finditer(text, low, high)
            others = [word[0] for word in words if word.end() <= start or word.start() >= end]
            small = [word for word in others if word[0].islower() and len(word) > _SHORT_WORD]
            return not others or (any(word[0].isupper() for word in others[1:]) and not small)
    return False


def _doubtful(scene: Scene, at: tuple[int, int]) -> bool:
    """Return whether the words around a date show that it is no single day, or leave open which day."""
    beside, text = scene.language.beside, scene.text
    before = text[max(0, at[0] - 40) : at[0]]
    if beside["title"].match(text, at[1]) and not beside["placed"].search(before):
        return True  # "Friday Night Lights", and not "on Friday Nora left"
    if scene.says("recurring", scene.clause(*at)) or scene.says("told", scene.sentence(*at)):
        return True
    return bool(beside["behind"].match(text, at[1]) or beside["in_front"].search(before))


_DAY = timedelta(days=1)
_CLOCK = ("minute", "hour")
_PRECISION: dict[str, Precision] = {
    **dict.fromkeys(("minute", "hour", "day", "weekend"), "day"),
    **dict.fromkeys(("week", "fortnight"), "week"),
    "month": "month",
    "quarter": "season",
    "year": "year",
    "decade": "decade",
}


def away(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Return the unit a number of units away, or the exact day if the words say so ("a year ago today")."""
    exact = group(match, "exact")
    numbers = number_range(match, rule, scene) or ((1, 1) if exact else None)
    if numbers is None or not _holds(match, rule, scene):
        return None
    unit, sign = unit_of(match, rule, scene), rule.args.get("sign", -1)
    if exact:
        on = stepped(scene.today, unit, sign * numbers[0])
        wider = group(match, "wider")
        found = unit_period(scene.language.units[fold_word(wider)], on) if wider else day(on)
        return replace(found, relative=True)
    if group(match, "half") or group(match, "half2"):
        return _and_a_half(scene, unit, sign * numbers[0], sign)
    if unit in _CLOCK:
        ends = [day(_hours_on(scene, unit, sign * number)) for number in numbers]
    else:
        ends = [unit_period(unit, scene.today, sign * number) for number in numbers]
    start, end = min(p.start for p in ends), max(p.end for p in ends)
    return Period(start, end, _PRECISION[unit], relative=True, approx=vague(match, rule, numbers))


def _and_a_half(scene: Scene, unit: str, count: int, sign: int) -> Period | None:
    """Return "two and a half years" in months, months in weeks, weeks in days; nothing finer is a date."""
    if unit == "year":
        found = unit_period("month", scene.today, 12 * count + 6 * sign)
    elif unit == "month":
        found = unit_period("week", stepped(scene.today, "month", count) + 15 * sign * _DAY)
    else:
        length = {"week": 7, "decade": 3652}.get(unit, 1)
        found = day(scene.today + (length * count + length // 2 * sign) * _DAY)
    return replace(found, relative=True, approx=True)


def _holds(match: Match, rule: Rule, scene: Scene) -> bool:
    """Return whether the verbs are those that a rule requires.

    So "in two weeks" is a time to come, and not a duration of the past or present, and "for two years" reaches to the present.
    """
    required = rule.args.get("requires")
    if required == "perfect":
        return scene.says("perfect", (scene.clause(*match.span())[0], match.start()))
    if required is None:
        return True
    tense, unit = tense_of(scene, *at(match)), unit_of(match, rule, scene)
    if unit in _CLOCK or tense in ("future", "coming"):
        return tense == "future" or (tense == "coming" and unit != "minute")
    return tense == "none" or (tense == "present" and unit != "day")


def _hours_on(scene: Scene, unit: str, count: int) -> date:
    """Return the local day `count` hours or minutes of absolute time after the reference.

    Raises:
        OverflowError: if it lies outside the years 1 to 9999.
    """
    return (
        (scene.now.astimezone(timezone.utc) + timedelta(**{f"{unit}s": count})).astimezone(scene.zone).date()
    )


def rolling(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Return the last or next number of units, up to today or from today on."""
    if not _holds(match, rule, scene):
        return None
    numbers = number_range(match, rule, scene) or (1, 1)
    unit, sign = unit_of(match, rule, scene), rule.args["sign"]
    if unit in _CLOCK:
        edge = _hours_on(scene, unit, sign * numbers[1])
    else:
        edge = stepped(scene.today, unit, sign * numbers[1])
    start, end = (edge, scene.today) if sign < 0 else (scene.today, edge)
    return Period(start, end + _DAY, _PRECISION[unit], relative=True, approx=vague(match, rule, numbers))


def current(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Return the current unit up to today, or from today on."""
    whole = replace(unit_period(unit_of(match, rule, scene), scene.today), relative=True)
    if rule.args["sign"] < 0:
        return replace(whole, end=scene.today + _DAY)
    return replace(whole, start=scene.today)
