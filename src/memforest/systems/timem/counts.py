"""Counts of what the index holds, for `stats`."""

from __future__ import annotations

from typing import Any

from memforest.store import job_failures
from memforest.store.tx import Tx
from memforest.systems.timem import rows
from memforest.systems.timem.levels import LEVELS
from memforest.systems.timem.schedule import OWNER
from memforest.systems.timem.settings import TiMemSettings

__all__ = ["counts"]


def counts(tx: Tx, settings: TiMemSettings) -> dict[str, Any]:
    """Return the nodes of each level, and the memories by how they stand.

    `written` have their text; `waiting` have none yet, as they are not due or were not made; `stale` have one that is out
    of date; `failed` could not be written, and are among those two.
    """
    found: dict[str, int] = dict.fromkeys(settings.levels, 0)
    stand = {"written": 0, "waiting": 0, "stale": 0}
    for level, dirty, told, count in rows.standing(tx):
        name = LEVELS[level]
        if name in found:
            found[name] += count
            stand["stale" if told and dirty else "written" if told else "waiting"] += count
    return {"levels": found, "memories": {**stand, "failed": len(job_failures.failures(tx, OWNER))}}
