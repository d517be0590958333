"""Counts of what the index holds, for `stats`."""

from __future__ import annotations

from typing import Any

from memforest.store import job_failures, trees
from memforest.store.tx import Tx
from memforest.systems.timem import rows
from memforest.systems.timem.grow import KIND, OWNER
from memforest.systems.timem.levels import LEVELS
from memforest.systems.timem.settings import TiMemSettings


def counts(tx: Tx, settings: TiMemSettings) -> dict[str, Any]:
    """Return the nodes of each level, and the memories by how they stand.

    `written` are up to date; `waiting` have no text yet, as they are not due or were not made; `stale` have one that is out
    of date; `failed` could not be written, and are among those two.
    """
    sizes = rows.level_sizes(tx)
    found = {name: sizes.get(LEVELS.index(name), 0) for name in settings.levels}
    stand = {"written": sum(found.values()), "waiting": 0, "stale": 0}
    head = trees.find_head(tx, OWNER, KIND, 0)
    for level, told, count in rows.unwritten(tx, head.tree) if head else ():
        if LEVELS[level] in found:
            stand["stale" if told else "waiting"] += count
            stand["written"] -= count
    return {"levels": found, "memories": {**stand, "failed": len(job_failures.failures(tx, OWNER))}}
