"""Placing what the feed has noted, and building levels that have become active."""

from __future__ import annotations

from functools import partial

from memforest.interval import to_ms
from memforest.store import indexes
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.base import STEP
from memforest.systems.hmem.grow import OWNER
from memforest.systems.hmem.receive import grown, raise_levels, receive
from memforest.systems.hmem.settings import HMemSettings
from memforest.systems.host import Host


async def advance(host: Host, settings: HMemSettings, until: int) -> None:
    """Place the notes of the feed up to a number; with `eager`, have all that is above an event consolidated before the next.

    Raises:
        ConfigError: if the zone of the memory is not known here.
    """
    now_ms = to_ms(host.now)
    behind, older = await host.look(partial(_state, until=until, now_ms=now_ms))
    step = 1 if settings.eager else STEP
    while behind:
        behind = await host.write(partial(receive, settings=settings, until=until, now_ms=now_ms, step=step))
        if settings.eager:
            await host.ensure_fresh(lambda tx: tree_rows.dirty_children(tx, owner=OWNER))
    if older:
        await host.write(partial(raise_levels, settings=settings, now_ms=now_ms))


def _state(tx: Tx, until: int, now_ms: int) -> tuple[bool, bool]:
    """Return whether notes wait, and whether the memory is old enough for more levels."""
    row = indexes.find(tx, OWNER)
    return row is not None and row.cursor < until, grown(tx, now_ms)
