"""Placing what the feed has noted, and writing what is due."""

from __future__ import annotations

from functools import partial

from memforest.errors import StoreLockedError, StoreWriteError
from memforest.interval import to_ms
from memforest.ports import is_remote
from memforest.store import indexes
from memforest.store.tx import Tx
from memforest.systems.host import Host
from memforest.systems.timem.consolidate import any_due, consolidate, horizon
from memforest.systems.timem.receive import receive
from memforest.systems.timem.schedule import OWNER
from memforest.systems.timem.settings import TiMemSettings


async def advance(host: Host, settings: TiMemSettings, until: int) -> None:
    """Place the notes of the feed up to a number, and write the memories that are due.

    Behind a write without a model nothing is written: that is done before it is read. With a model the segments are written
    then, and what ended before the newest session began.

    Raises:
        ConfigError: if the zone of the memory is not known here.
        ModelError: if nothing can be written.
    """
    behind = await host.look(partial(_is_behind, until=until))
    while behind and await host.write(partial(receive, settings=settings, until=until)):
        pass
    if host.occasion == "write" and not is_remote(host.steps.summariser):
        return
    until_ms = await horizon(host)
    if until_ms is not None:
        await consolidate(host, settings, until_ms)


async def write_ended(host: Host, settings: TiMemSettings) -> list[str]:
    """Write what has ended by the clock, before it is read; return why some could not be. It costs nothing where all is written."""
    until_ms = to_ms(host.now)
    if not await host.look(lambda tx: any_due(tx, until_ms)):
        return []
    try:
        await consolidate(host, settings, until_ms)
    except (StoreWriteError, StoreLockedError) as exc:
        return [f"memories are left as they are: {exc}"]
    return []


def _is_behind(tx: Tx, until: int) -> bool:
    """Return whether notes wait."""
    row = indexes.find(tx, OWNER)
    return row is not None and row.cursor < until
