"""Reading time: timestamps, dates in conversation, and the time window of a question.

Not the standard library's ``calendar``, which nothing here needs. Three entry points:
`parse_timestamp` for the time of a turn, `find_dates` for what its text says about time, and
`question_window` for the time that a question is about. `Period` and its friends are calendar days
without a zone. No clock is read: what "yesterday" means is always told by the caller.
"""

from __future__ import annotations

from memforest.calendar.phrases import MAX_CHARS, DateSpan, Direction, find_dates
from memforest.calendar.question import question_window
from memforest.calendar.timestamp import parse_timestamp, zone_named

__all__ = [
    "MAX_CHARS",
    "DateSpan",
    "Direction",
    "find_dates",
    "parse_timestamp",
    "question_window",
    "zone_named",
]
