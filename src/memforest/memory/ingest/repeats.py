"""Writes with an idempotency key: one that comes again writes nothing, and gets the first one's result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from memforest.errors import IdempotencyError
from memforest.memory.chunks import ChunkReport
from memforest.memory.ingest.turns import Arrival, check_id
from memforest.memory.results import IngestResult
from memforest.store import facts as fact_rows
from memforest.store import sessions, write_keys
from memforest.store.tx import Tx
from memforest.store.write_keys import WriteKey
from memforest.systems.states import superseded_facts
from memforest.text import cut
from memforest.types import Turn

__all__ = ["KeyedWrite", "keyed", "with_first_result"]


@dataclass(frozen=True, slots=True)
class KeyedWrite:
    """The digests of a write's key and of its request."""

    name: str
    key: bytes
    request: bytes

    def find(self, tx: Tx) -> WriteKey | None:
        """Return the earlier write with this key, None if this is the first.

        Raises:
            IdempotencyError: if that one was another request.
        """
        found = write_keys.find_key(tx, self.key)
        if found is not None and found.request != self.request:
            raise IdempotencyError(
                f"the idempotency_key {cut(repr(self.name), 60)} was given with another request before; give each write "
                "a key of its own"
            )
        return found

    def keep(
        self, tx: Tx, session: int, read: Sequence[Turn], new: int, replaced: bool, stored_ms: int
    ) -> None:
        """Keep the key with what is stored in this transaction: the last `new` of the turns that were read, of a session."""
        first = read[-1].ordinal + 1 - new if read else 0
        write_keys.add_key(tx, self.key, WriteKey(self.request, session, first, new, replaced, stored_ms))


def keyed(arrival: Arrival, *, append: bool) -> KeyedWrite | None:
    """Return the digests of a write as its caller gave it, None for one without a key.

    The request is what would be stored, so it is taken after redaction.

    Raises:
        InputError: if the key is no usable text.
    """
    if arrival.idempotency_key is None:
        return None
    name = check_id(arrival.idempotency_key, "idempotency_key")
    given = {
        "append": append,
        "session_id": arrival.session_id,
        "turns": arrival.turns,
        "timestamp": arrival.timestamp,
        "infer": arrival.infer,
        "replace": arrival.replace,
        "metadata": arrival.metadata,
    }
    text = json.dumps(given, sort_keys=True, default=str)
    return KeyedWrite(name, _digest(name), _digest(text))


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def with_first_result(tx: Tx, result: IngestResult, write: WriteKey) -> IngestResult:
    """Return a result as that of the first call with its key, as far as what that brought is still there.

    Args:
        tx: a read transaction.
        result: of the repeated call.
        write: the first one.
    """
    found = write_keys.brought(tx, write)
    ended = superseded_facts(tx, found.states)
    texts = fact_rows.facts_with_ids(tx, {*found.added, *found.merged, *(row for row, _ in ended)})
    return replace(
        result,
        turns_added=write.turns,
        replaced=write.replaced,
        replayed=True,
        added=tuple(texts[row].text for row in found.added),
        merged=tuple(texts[row].text for row in found.merged),
        superseded=tuple(texts[row].text for row in sorted({row for row, _ in ended})),
        chunks=_chunks(tx, write),
    )


def _chunks(tx: Tx, write: WriteKey) -> tuple[ChunkReport, ...]:
    """Return what became of the chunks that hold turns of a write."""
    wanted = set(write_keys.cells_of(tx, write))
    ids = {turn.ordinal: turn.id for _, turn in sessions.turns(tx, write.session)}
    return tuple(
        ChunkReport(
            turn_ids=tuple(ids[at] for at in range(cell.first, cell.last + 1) if at in ids),
            status="left" if cell.status == "pending" else cell.status,
            skipped=tuple((ids[at], reason) for at, reason in cell.skipped if at in ids),
            failure=cell.reason if cell.status == "failed" else None,
        )
        for cell in sessions.cells(tx, write.session)
        if cell.ordinal in wanted
    )
