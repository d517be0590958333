"""The tense of the clause around a date, by its nearest verb: which of two Mays is meant hangs on it.

A language file lists patterns of verbs in order, each with the tense that it stands for; at one place in the text the
first pattern that matches counts. Of the verbs found the nearest to the left in the clause counts, else the nearest to
the right in it, else the nearest in the sentence.
"""

from __future__ import annotations

import re
from typing import Literal

from memforest.calendar.scene import Scene

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
    if not found and scene.text[max(0, low - 40) : low].rstrip().endswith(
        "?"
    ):  # an answer has its question's tense
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
    tense = _row(nearest)
    if tense == "reported":  # "would" looks ahead from now, unless it does so from then: "she said she would"
        told = any(_row(one) == "past" for one in found if one.start() < nearest.start())
        return "unsure" if told else "coming"
    return _TENSES[tense]


_TENSES: dict[str, Tense] = {
    "past": "past",
    "coming": "coming",
    "future": "future",
    "present": "present",
    "either": "either",
    "unsure": "unsure",
}


def _row(verb: re.Match[str]) -> str:
    """Return the tense of the row of the table that has matched."""
    return (verb.lastgroup or "").partition("_")[0]
