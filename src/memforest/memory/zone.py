"""The zone of a memory: where its calendar days begin, from its first write on.

Windows of days, weeks and months that an index has closed must not move by themselves, so the zone is kept in the file, and
`Config.timezone` never changes it. That setting stays what it is: in which zone times without an offset and words
such as "yesterday" are read, of somebody who may have moved. Where the two differ, results say so.
"""

from __future__ import annotations

from datetime import tzinfo

from memforest.calendar import zone_named
from memforest.config import Config
from memforest.errors import ConfigError
from memforest.store import meta
from memforest.store.tx import Tx
from memforest.text import cut

KEY = "timezone"


def stored_zone(tx: Tx) -> str | None:
    """Return the name of the memory's zone; None before the first write."""
    return meta.get(tx, KEY)


def keep_zone(tx: Tx, config: Config) -> None:
    """Give a memory that has no zone the configured one; called by every write of what was said."""
    if stored_zone(tx) is None:
        meta.put(tx, KEY, config.timezone)


def zone_of(tx: Tx, config: Config) -> tzinfo:
    """Return the memory's zone; before the first write, the one that it will get.

    Raises:
        ConfigError: if the time zone data of this machine does not know it.
    """
    stored = stored_zone(tx)
    name = config.timezone if stored is None else stored
    try:
        return zone_named(name)
    except ConfigError as exc:
        raise ConfigError(_unknown(name)) from exc


def unknown_zone(tx: Tx) -> str | None:
    """Say that the memory's zone is not known on this machine; None when it is."""
    name = stored_zone(tx)
    return None if name is None or _is_known(name) else _unknown(name)


def zone_note(stored: str | None, configured: str) -> str | None:
    """Say that the memory's zone is not the configured one, or not known here, and what to do; None when all is well."""
    if stored is None or stored == configured:
        return None
    if not _is_known(stored):
        return _unknown(stored)
    return (
        f"the days of this memory are those of {stored!r} and stay so, while times without an offset and words such as "
        f"'yesterday' are read in {configured!r}; set timezone={stored!r} to read them in the memory's days"
    )


def _is_known(name: str) -> bool:
    try:
        zone_named(name)
    except ConfigError:
        return False
    return True


def _unknown(name: str) -> str:
    return (
        f"the days of this memory are those of {cut(repr(name), 60)}, a zone that the time zone data of this machine does "
        "not know; update it (pip install -U tzdata); till then add() needs a session_id, and searching works as before"
    )
