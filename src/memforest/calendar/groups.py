"""What the named groups of a rule's match say: a number, a unit, a word that must be capital."""

from __future__ import annotations

import re

from memforest.calendar.fold import fold_word
from memforest.calendar.language import Rule
from memforest.calendar.scene import Scene

Match = re.Match[str]


def group(match: Match, name: str) -> str | None:
    """Return a named group, or None if the pattern lacks it or it took no part in the match."""
    return match.group(name) if name in match.re.groupindex else None


def at(match: Match) -> tuple[int, int]:
    """Return where the date itself stands: the group ``span``, else the whole match."""
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
    if fixed:
        return int(fixed[0]), int(fixed[1])
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
    """Tell whether words of a number leave it open ("about two", "a week or so")."""
    about = any(group(match, name) for name in ("approx", "ish", "more"))
    return numbers[0] != numbers[1] or about or bool(rule.args.get("vague"))


def weekday_of(match: Match, rule: Rule, scene: Scene) -> int | None:
    """Return the weekday (0 is Monday), or None if the word is something else ("sat down")."""
    word = capital_word(match, "weekday", rule, scene)
    return None if word is None else scene.language.weekdays[word] - 1


def capital_word(match: Match, name: str, rule: Rule, scene: Scene) -> str | None:
    """Return the word of a group, folded; None if there is none, or it should have a capital letter to be a date."""
    word = group(match, name)
    if word is None:
        return None
    folded = fold_word(word)
    doubtful = folded in scene.language.capital and not rule.args.get("any_case") and not word[0].isupper()
    return None if doubtful else folded
