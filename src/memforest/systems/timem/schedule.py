"""When memories are due: a job for the segments of each session, and one for each session and window.

Segments are due at once, a session when the next one begins or when it has been silent for `idle_min`, a window when it has
ended. Keys are (level, session) and (level, window), so that nothing is made twice (released configuration); a job
whose memory is out of date again is reopened under its key. Keys hold numbers and days, nothing that was said.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import tzinfo

from memforest.calendar import window_with_key
from memforest.interval import to_ms
from memforest.store import jobs
from memforest.store.tx import Tx
from memforest.systems.timem import rows
from memforest.systems.timem.levels import LEVELS, SEGMENT, SESSION, UNITS
from memforest.systems.timem.rows import Row
from memforest.systems.timem.settings import TiMemSettings

OWNER = "timem"


def key_of(level: int, session: int | None, window: str | None) -> str:
    """Return the key of the job by which a node is written; all segments of a session have one."""
    return f"{LEVELS[level]}:{session if level <= SESSION else window}"


def key_of_row(row: Row) -> str:
    """Return the key of the job by which a node is written."""
    return key_of(row.level, row.session, row.window)


def schedule(tx: Tx, settings: TiMemSettings, zone: tzinfo, marked: Collection[int]) -> None:
    """Have nodes written that are out of date; those of a level that is not written need nothing.

    Args:
        tx: the write transaction.
        settings: of the index.
        zone: the memory's.
        marked: the nodes.
    """
    found = rows.by_node(tx, marked).values()
    sessions = [row for row in found if row.level == SESSION]
    wanted = {key_of_row(row): row for row in found if LEVELS[row.level] in settings.levels}
    for key, row in wanted.items():
        _put(tx, key, LEVELS[row.level], _due(tx, settings, zone, row))
    for row in sessions:  # one before it that was open has ended now
        for one in rows.previous_session(tx, row.begin_ms, row.tie):
            if rows.dirty_among(tx, [one.node]):
                _put(tx, key_of_row(one), LEVELS[SESSION], _due(tx, settings, zone, one))


def _put(tx: Tx, key: str, kind: str, due_ms: int) -> None:
    if not jobs.again(tx, OWNER, key, due_ms=due_ms):
        jobs.add(tx, OWNER, kind, key, due_ms=due_ms)


def _due(tx: Tx, settings: TiMemSettings, zone: tzinfo, row: Row) -> int:
    """Return when a node is to be written."""
    if row.level == SEGMENT:
        return rows.of_session(tx, row.session or 0, SESSION)[0].begin_ms
    if row.level == SESSION:
        idle_ms = rows.end_of(tx, row.node) + round(settings.idle_min * 60_000)
        behind = rows.following(tx, row, 1)
        return min(idle_ms, behind[0].begin_ms) if behind else idle_ms
    return to_ms(window_with_key(row.window or "", UNITS[row.level], zone).end)


def unschedule(tx: Tx, row: Row) -> None:
    """Delete the job of a node that is gone; that of a session goes with that of its segments."""
    keys = [key_of_row(row)]
    if row.level == SESSION:
        keys.append(f"{LEVELS[SEGMENT]}:{row.session}")
    jobs.remove(tx, OWNER, keys)


def targets(tx: Tx, key: str) -> list[Row]:
    """Return the nodes that a job writes: all segments of a session, or one node; none if they are gone."""
    name, _, what = key.partition(":")
    level = LEVELS.index(name)
    if level <= SESSION:
        return rows.of_session(tx, int(what), level)
    found = rows.with_window(tx, level, what)
    return [] if found is None else [found]
