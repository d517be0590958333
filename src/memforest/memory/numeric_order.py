"""How the people of a memory write numeric dates: "03/04/2024" is 3 April or 4 March.

`Config.day_first` says so, or else what they have written: a date such as "25/12/2023" can be read in one way only. What
was proven is kept with the memory, so that no write has to read all turns; where both orders were, nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memforest.calendar import ambiguous_dates, numeric_order
from memforest.config import Config
from memforest.display import shown
from memforest.language.language import detect_language
from memforest.store import meta
from memforest.store.tx import Tx
from memforest.text import cut
from memforest.types import Turn

KEY = "day_first"
_STORED = {"true": True, "false": False}
_BOTH = "both"


def order_of(tx: Tx, config: Config) -> bool | None:
    """Return whether numeric dates have the day first: as configured, else as the memory's people write; None if unknown."""
    return config.day_first if config.day_first is not None else _STORED.get(meta.get(tx, KEY) or "")


def keep_order(tx: Tx, texts: Iterable[str]) -> None:
    """Keep what new texts prove."""
    proven = numeric_order(texts)
    if proven is None:
        return
    now, known = "true" if proven else "false", meta.get(tx, KEY)
    if known != now:
        meta.put(tx, KEY, now if known is None else _BOTH)


def doubtful_dates(turns: Sequence[Turn], day_first: bool | None) -> list[str]:
    """Return a warning that names a date of which the order is not known; nothing if there is none."""
    if day_first is not None:
        return []
    found = [
        (one, turn)
        for turn in turns
        if (dates := ambiguous_dates(turn.text)) and detect_language(turn.text) != "es"
        for one in dates
    ]
    if not found:
        return []
    (words, turn), more = found[0], f" and {len(found) - 1} more" if len(found) > 1 else ""
    return [
        f"{cut(repr(words), 40)} in turn {cut(repr(turn.id), 60)}{more}: nothing tells whether the day or the month comes "
        "first, so it dates nothing; set day_first (MEMFOREST_DAY_FIRST) to true or false"
    ]


def month_first_warning(times: Sequence[str], day_first: bool | None) -> tuple[str, ...]:
    """Return a warning that names a timestamp of which the order is not known; nothing if there is none."""
    found = [] if day_first is not None else [time for time in times if ambiguous_dates(time)]
    if not found:
        return ()
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"timestamp {shown(found[0])}{more}: nothing tells whether the day or the month comes first, and it was read "
        "month first; set day_first (MEMFOREST_DAY_FIRST) to true or false",
    )
