"""Reading time: timestamps, dates in conversation, and the time window of a question.

Not the standard library's ``calendar``, which nothing here needs. Four entry points:
`parse_timestamp` for the time of a turn, `find_dates` for what its text says about time,
`question_window` for the time that a question is about, and `window_of` for the day, week, month or year in
which an instant lies. `Period` and its friends are calendar days without a zone. No clock is read: what
"yesterday" means is always told by the caller.
"""

from __future__ import annotations

from memforest.calendar.neighbours import Direction
from memforest.calendar.numeric import ambiguous_dates, numeric_order
from memforest.calendar.phrases import MAX_CHARS, DateSpan, find_dates
from memforest.calendar.question import question_window
from memforest.calendar.timestamp import parse_timestamp, zone_named
from memforest.calendar.windows import CalendarWindow, Unit, window_of, window_with_key, windows_between

__all__ = [
    "MAX_CHARS",
    "CalendarWindow",
    "DateSpan",
    "Direction",
    "Unit",
    "ambiguous_dates",
    "find_dates",
    "numeric_order",
    "parse_timestamp",
    "question_window",
    "window_of",
    "window_with_key",
    "windows_between",
    "zone_named",
]
