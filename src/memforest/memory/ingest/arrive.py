"""Sessions and turns as they arrive: checked, numbered and stored, before anything is made of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from typing import Any

from memforest.config import Config
from memforest.errors import InputError
from memforest.interval import from_ms, to_ms
from memforest.memory.ingest.batch import Arrival, Arrived, read_arrival
from memforest.memory.ingest.receive import Received, receive
from memforest.memory.ingest.turns import TurnReader, json_object
from memforest.memory.timing import Timer
from memforest.memory.vectors import keep_embedder
from memforest.memory.zone import keep_zone, zone_of
from memforest.models import Embedder
from memforest.store import derived, sessions
from memforest.store.db import Database
from memforest.store.tx import Tx
from memforest.systems.attached import Attached, Placings
from memforest.types import Turn

__all__ = ["Receiver"]


@dataclass(frozen=True, slots=True)
class Receiver:
    """Stores what arrives in one memory. `label` is the display name of its user."""

    db: Database
    config: Config
    label: str
    attached: Attached
    embedder: Embedder | None

    async def arrive(self, arrival: Arrival) -> Arrived:
        """Check the turns of a session and store them."""
        read = read_arrival(arrival, self.config, self.label)
        timer, started = Timer(), time.perf_counter()
        got = await asyncio.to_thread(
            self._receive,
            arrival.session_id,
            read.turns,
            timer=timer,
            infer=arrival.infer,
            replace=arrival.replace,
            append=False,
            metadata=json_object(arrival.metadata, "metadata"),
        )
        timer.add("store", started)
        return Arrived(arrival.session_id, got, timer, read.refused)

    def receive_more(
        self,
        session_id: str,
        reader: TurnReader,
        raw: Sequence[Any],
        *,
        timer: Timer,
        infer: bool,
        metadata: dict[str, Any],
    ) -> Arrived:
        """Append turns to a stored session; numbering and storing are one transaction, as other processes may append too."""
        with self.db.write() as tx:
            found = sessions.find_session(tx, session_id)
            first, floor = (0, None) if found is None else (found.turns, from_ms(found.end_ms))
            taken = None if found is None else partial(sessions.has_turn, tx, found.row)
            read = reader.read(raw, first=first, floor=floor, is_taken=taken)
            if not read.turns:
                raise InputError("there is nothing to add; give a text or at least one message")
            how = {"infer": infer, "replace": False, "append": True, "metadata": metadata}
            got = self._received(tx, session_id, read.turns, **how)
            ended = time.perf_counter()
        timer.add("store.commit", ended)
        return Arrived(session_id, got, timer, read.refused)

    def _receive(self, session_id: str, turns: Sequence[Turn], timer: Timer, **how: Any) -> Received:
        with self.db.write() as tx:
            got = self._received(tx, session_id, turns, **how)
            ended = time.perf_counter()
        timer.add("store.commit", ended)
        return got

    def zone(self) -> tzinfo:
        """Return the zone in which the memory's days begin."""
        with self.db.read() as tx:
            return zone_of(tx, self.config)

    def _received(self, tx: Tx, session_id: str, turns: Sequence[Turn], **how: Any) -> Received:
        placings = Placings(tx, self.attached)
        late = keep_embedder(tx, self.db.path, self.embedder)
        keep_zone(tx, self.config)
        stored_ms = to_ms(self.config.clock())
        got = receive(tx, self.config, placings, session_id, turns, stored_ms=stored_ms, **how)
        placings.close()
        if got.replaced:
            derived.drop_stale(tx)  # now that the nodes above what went are marked
        return replace(got, reworded=got.reworded or late, problems=tuple(placings.problems))
