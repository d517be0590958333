"""Checking, numbering and storing sessions and turns as they arrive; nothing is extracted yet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from memforest.calendar import window_of
from memforest.config import Config
from memforest.interval import floor_ms, from_ms, to_ms
from memforest.memory.ingest.receive import StoredSession, receive
from memforest.memory.ingest.turns import Arrival, Reading, check_id, json_object, read_addition, read_arrival
from memforest.memory.vectors import keep_embedder
from memforest.memory.zone import keep_zone, zone_of
from memforest.models import Embedder
from memforest.store import derived, sessions
from memforest.store.db import Database
from memforest.store.tx import Tx
from memforest.systems.attached import Attached, Placings

__all__ = ["Receiver"]


@dataclass(frozen=True, slots=True)
class Receiver:
    """Stores what arrives in one memory. `label` is the display name of its user."""

    db: Database
    config: Config
    label: str
    attached: Attached
    embedder: Embedder | None

    async def receive(self, arrival: Arrival) -> StoredSession:
        """Check the turns of a session and store them."""
        reading = read_arrival(arrival, self.config, self.label)
        return await self._in_thread(arrival, lambda _tx: reading, append=False)

    async def append(self, arrival: Arrival) -> StoredSession:
        """Append turns to a stored session; numbering and storing are one transaction, as other processes may append too."""
        now = floor_ms(self.config.clock())
        if arrival.session_id is None:
            day = await asyncio.to_thread(self._day, now)
            arrival = replace(arrival, session_id=f"live-{day}{'' if arrival.infer else '-verbatim'}")

        session_id = check_id(arrival.session_id, "session_id")

        def read(tx: Tx) -> Reading:
            found = sessions.find_session(tx, session_id)
            first, floor = (0, None) if found is None else (found.turns, from_ms(found.end_ms))
            taken = None if found is None else partial(sessions.has_turn, tx, found.row)
            return read_addition(
                arrival, self.config, self.label, now, first=first, floor=floor, is_taken=taken
            )

        return await self._in_thread(arrival, read, append=True)

    async def _in_thread(
        self, arrival: Arrival, read: Callable[[Tx], Reading], *, append: bool
    ) -> StoredSession:
        started = time.perf_counter()
        stored = await asyncio.to_thread(self._store, arrival, read, append)
        stored.timer.add("store", started)
        return stored

    def _store(self, arrival: Arrival, read: Callable[[Tx], Reading], append: bool) -> StoredSession:
        """Read the turns and store them, in one transaction."""
        with self.db.write() as tx:
            reading = read(tx)
            placings = Placings(tx, self.attached)
            late = keep_embedder(tx, self.db.path, self.embedder)
            keep_zone(tx, self.config)
            stored = receive(
                tx,
                self.config,
                placings,
                check_id(arrival.session_id, "session_id"),
                reading.turns,
                infer=arrival.infer,
                replace=arrival.replace,
                append=append,
                stored_ms=to_ms(self.config.clock()),
                metadata=json_object(arrival.metadata, "metadata"),
            )
            placings.close()
            if stored.replaced:
                derived.drop_stale(tx)  # now that the nodes above what went are marked
            written = time.perf_counter()
        stored.timer.add("store.commit", written)
        return replace(
            stored,
            reworded=stored.reworded or late,
            problems=tuple(placings.problems),
            refused=reading.refused,
        )

    def _day(self, now: datetime) -> str:
        """Return the day of a time in the zone in which the memory's days begin."""
        with self.db.read() as tx:
            return window_of(now, "day", zone_of(tx, self.config)).key
