"""The zone of a memory."""

from __future__ import annotations

from datetime import timezone, tzinfo

from memforest.calendar import zone_named
from memforest.store import meta
from memforest.store.tx import Tx


def memory_zone(tx: Tx) -> tzinfo:
    """Return the zone of a memory's days; UTC before the first write."""
    name = meta.get(tx, "timezone")
    return timezone.utc if name is None else zone_named(name)
