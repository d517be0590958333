"""Full dates in further languages ("5. März 2024"), by the month names that the package dateparser carries.

With the extra ``[languages]`` only; without it nothing is imported. The names of many languages make one table, as nobody
has to know which one a text is in: a name that means two months is left out. What names no year is no date, as there
are no verbs to tell which one is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

CODE = "mul"
"""The code of these languages together (ISO 639-2: multiple languages)."""

_DATA = "dateparser.data"
_LANGUAGES = 60
"""So many of dateparser's languages, the most used first."""
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_RULES: tuple[Mapping[str, Any], ...] = (
    {
        "op": "date",
        "needs": ["@month"],
        "patterns": [
            r"{day}(?:\.|º|er)? (?:de |di |d')?{month}\.?,? (?:de |del )?{year}",
            r"{month}\.? {day}\.?,? {year}",
        ],
    },
    {"op": "month", "needs": ["@month"], "pattern": r"{month}\.? (?:de |del )?{year}"},
)
_MACROS = {
    "day": r"(?P<day>0?[1-9]|[12]\d|3[01])",
    "year": r"(?P<year>1[5-9]\d\d|2[01]\d\d)(?!\d|[:/%-]\d|[.,]\d|%)",
}


def further_data() -> Mapping[str, Any] | None:
    """Return the table of further languages as a language file has it; None without the extra."""
    if find_spec("dateparser") is None:
        return None
    order = import_module(f"{_DATA}.languages_info").language_order
    meant: dict[str, set[int]] = {}
    for code in order[:_LANGUAGES]:
        info = import_module(f"{_DATA}.date_translation_data.{code}").info
        for number, month in enumerate(_MONTHS, 1):
            for word in info.get(month, ()):
                if word.isalpha() and len(word) > 2:
                    meant.setdefault(word.lower(), set()).add(number)
    months: dict[str, list[str]] = {}
    for word in sorted(meant):
        if len(meant[word]) == 1:
            months.setdefault(str(min(meant[word])), []).append(word)
    return {"meta": {"code": CODE}, "months": months, "macros": _MACROS, "rule": _RULES}
