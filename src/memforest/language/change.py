"""The change that the words right around a thing tell: "*joined* Kinetik", "*gave* the oboe *up*", "*has not left* Acme"."""

from __future__ import annotations

import re

from memforest.language.aspect import Stance, rules

MOST_BETWEEN = 4
"""Words between a word of change and what changes: "bought *herself a bright red* Tesla"."""


def change_of(before: str, behind: str) -> Stance | None:
    """Return the change that the words around a thing tell, None if none: it begins, ends, or is back.

    A beginning that somebody is only told to make ("tells me to get one") is ``unreal``.

    Args:
        before: the words in front of it, in its sentence.
        behind: those behind it.
    """
    if _GIVEN.search(before) and behind.startswith(" a "):
        return None  # "gave it a go"
    found = _told_behind(before, behind)
    if found is not None:
        return found
    wording = rules()
    last = {name: _last(wording[name], before) for name in ("leave", "enter", "again")}
    if last["leave"] >= 0 and _FAR_FROM.match(before, last["leave"]):
        last["leave"] = -1
    best = max(last, key=lambda name: last[name])
    if last[best] < 0:
        pair = _last(_FOR_NEW, before)
        return "start" if pair >= 0 and wording["leave"].search(before[:pair]) else None
    return _governing(best, before, last[best])


def _told_behind(before: str, behind: str) -> Stance | None:
    """Return the change that is told behind a thing, or by "new" in front of it: "a *new* Corvid", "Renate *has left*"."""
    wording = rules()
    follows = behind.lstrip()
    if wording["fresh"].search(before[-12:]) and _FRESH_END.search(before):
        return "start"
    if wording["again"].match(follows):
        return "back"
    if wording["gone"].match(follows) or (_PUT.search(before) and _AWAY.match(behind)):
        return "end"
    return "start" if wording["arrive"].match(follows) else None


def _governing(name: str, before: str, at: int) -> Stance | None:
    """Return the change that a word of change tells which begins at `at`, if it governs what is behind `before`."""
    match = rules()[name].search(before, at)
    between = before[match.end() if match else at :]
    if name == "leave":
        if _TO_NEW.search(between) or _EXCHANGED.match(before[at:]):
            return "start"
        return "end" if _is_near(between) else None
    if not _is_near(between) or (name == "enter" and match and _HABIT.match(match.group())):
        return None
    if _ADVISED.search(before[:at]):
        return "unreal"
    return "back" if name == "again" else "start"


def governor_at(name: str, before: str) -> int:
    """Return where the last wording of a class begins that governs what stands behind a text, or -1."""
    pattern = rules()[name]
    at = _last(pattern, before)
    found = pattern.search(before, at) if at >= 0 else None
    return at if found is not None and _is_near(before[found.end() :]) else -1


def is_kept(before: str) -> bool:
    """Return whether a leaving is denied, so that things are as they were: "has *not left* Kinetik"."""
    if not _NEGATED.search(before):
        return False
    at = governor_at("leave", before)
    return at >= 0 and _NEGATED_HERE.search(before[:at]) is not None


def _last(pattern: re.Pattern[str], text: str) -> int:
    """Return where the last match of a pattern starts, or -1."""
    at = -1
    for match in pattern.finditer(text):
        at = match.start()
    return at


def _is_near(between: str) -> bool:
    """Return whether what stands between a word of change and a phrase leaves the one governing the other."""
    return len(between.split()) <= MOST_BETWEEN and not _APART.search(between)


_APART = re.compile(r"[,;:]| and ")
_FAR_FROM = re.compile(r"from\b.*\b(?:in|at|on|with)\b", re.IGNORECASE)
"""What is left in between is something else: "sheltered from the rain in the Blue Heron"."""
_FRESH_END = re.compile(r"[\w-]\s+$")
_FOR_NEW = re.compile(r"\b(?:to|for|with|and now|on to)\b")
_TO_NEW = re.compile(r"\w.{0,40}\b(?:to|for|into|onto|and)\b")
_EXCHANGED = re.compile(r"(?:replac|swap|exchang)\w* .{1,40}\bwith\b", re.IGNORECASE)
"""What is behind "with" is the new thing: "replaced the kettle *with* a samovar", but not "broke up *with*"."""
_ADVISED = re.compile(
    r"(?<!\bdecided )(?<!\bchose )(?<!\bmanaged )(?<!\bagreed )(?<!\bhad )(?<!\bgot )\bto $"
)
"""In front of an infinitive: told to do, not done, "tells me *to* get one"; but "decided to" is a start."""
_HABIT = re.compile(r"(?!was\b|is\b|has\b|does\b)\w+[^s\W]s\b")
"""A word of change in the simple present: "*takes* the tram", "*goes* for the tart"."""
_GIVEN = re.compile(r"\bg(?:ave|ives?|iven) $")
_PUT = re.compile(
    r"\b(?:put|gave|threw|sent|packed|handed|traded|locked)(?: (?:the|an?|my|his|her|their|old|\w+'s)){0,3}\s+$",
    re.IGNORECASE,
)
_AWAY = re.compile(r" (?:away|aside|up|back|in|out)\b")
"""A verb split by what it is about: "*put* the oboe *away*"."""
_NEGATED = re.compile(r"n't\b|\b(?:not|never)\b", re.IGNORECASE)
_NEGATED_HERE = re.compile(r"(?:n't|\b(?:not|never))(?: [\w']+){0,2} $", re.IGNORECASE)
