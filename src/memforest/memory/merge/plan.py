"""What merging another memory will do, read before anything is written: who is who, and which session becomes what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from memforest.display import shown
from memforest.errors import CorruptStoreError, EmbedderMismatchError, InputError
from memforest.memory.merge.names import Asked, Names, Owner, names_of
from memforest.memory.merge.sessions import Becomes, becomes
from memforest.memory.zone import stored_zone
from memforest.store import facts as fact_rows
from memforest.store import meta, sessions
from memforest.store.db import Database
from memforest.store.faults import sqlite_damage
from memforest.store.provenance import Origin, origins, put_origin
from memforest.store.tx import Tx

__all__ = [
    "Plan",
    "check_source",
    "joined",
    "keep_origins",
    "plan_merge",
]


@dataclass(frozen=True, slots=True)
class Plan:
    """A merge that is about to begin."""

    owner: Owner
    other: Owner
    names: Names
    own: Origin
    """The other memory, as the origin of its turns."""
    origins: Mapping[int, Origin]
    """Origins of the other memory's turns, by their rows there."""
    sessions: tuple[Becomes, ...]
    overwrite: bool = False
    notes: tuple[str, ...] = ()

    def becomes(self, tx: Tx, source: Tx, one: Becomes) -> Becomes | None:
        """Return what a session becomes as things are now; None when it is no longer in the other memory."""
        try:
            there = sessions.session_with_row(source, one.there.row)
        except KeyError:
            return None
        return becomes(tx, source, there, self.names, self.origins, self.own, overwrite=self.overwrite)


def check_source(source: Database, target: Path) -> None:
    """Check that a memory can be merged into another one.

    Raises:
        InputError: if it is the same file.
        CorruptStoreError: if SQLite finds it damaged.
    """
    if source.path.resolve() == target.resolve():
        raise InputError("a memory cannot be merged into itself; name another user, or another directory")
    with source.fresh() as tx:
        if (found := sqlite_damage(tx)) is not None:
            raise CorruptStoreError(f"{source.path.name!r}, which is merged, is damaged: {found}")


def plan_merge(
    tx: Tx,
    source: Tx,
    asked: Asked,
    owner: Owner,
    other: Owner,
    *,
    embedder: str | None,
    overwrite: bool,
) -> Plan:
    """Return what merging a memory will do.

    Args:
        tx: a transaction of the memory that is merged into.
        source: one of the memory that is merged.
        asked: what the caller says of people.
        owner: whose memory is merged into; `memory` is read here.
        other: whose is merged.
        embedder: the one that the memory is open with.
        overwrite: whether sessions that differ are replaced.

    Raises:
        EmbedderMismatchError: if the vectors of both are of two embedders.
        InputError: if the caller has to say who is who.
    """
    have, given = meta.get(tx, "embedder") or embedder, meta.get(source, "embedder")
    if have is not None and given is not None and have != given:
        raise EmbedderMismatchError(
            f"the memory of {shown(other.user_id)} has vectors of {given!r} and that of {shown(owner.user_id)} of "
            f"{have!r}, which cannot be compared; re-embed one of them with the other's embedder first, then merge"
        )
    owner = replace(owner, memory=meta.get(tx, "memory_id") or "")
    other = replace(other, memory=meta.get(source, "memory_id") or "")
    names, label = names_of(tx, source, asked, owner, other, origins(tx))
    own = Origin(other.memory, other.user_id, label, names.here)
    known = origins(source)
    found = [
        becomes(tx, source, one, names, known, own, overwrite=overwrite)
        for one in sorted(sessions.list_sessions(source), key=lambda one: (one.start_ms, one.session_id))
    ]
    return Plan(owner, other, names, own, known, tuple(found), overwrite, _notes(tx, source, owner, other))


def _notes(tx: Tx, source: Tx, owner: Owner, other: Owner) -> tuple[str, ...]:
    here, there = stored_zone(tx), stored_zone(source)
    if here is None or there is None or here == there:
        return ()
    return (
        f"the days of the memory of {shown(owner.user_id)} are those of {here!r}, and its words of time stay read as they "
        f"were in that of {shown(other.user_id)}, in {there!r}",
    )


def keep_origins(tx: Tx, plan: Plan, merged_ms: int) -> dict[int | None, int | None]:
    """Store where turns come from; return rows there -> here, with the other memory's own turns under None.

    Turns that once came from here are at home.
    """
    found: dict[int | None, int | None] = {None: _kept(tx, plan, plan.own, merged_ms)}
    for row, one in plan.origins.items():
        found[row] = _kept(tx, plan, one, merged_ms)
    return found


def _kept(tx: Tx, plan: Plan, origin: Origin, merged_ms: int) -> int | None:
    if (origin.memory, origin.user_id) == (plan.owner.memory, plan.owner.user_id):
        return None
    return put_origin(tx, origin, merged_ms)


def joined(tx: Tx, source: Tx, names: Names) -> tuple[list[str], list[str]]:
    """Return who takes part in both memories under one name, and what else has one name in both."""
    here = {one.key: one for one in fact_rows.entities(tx)}
    people: list[str] = []
    things: list[str] = []
    for one in fact_rows.entities(source):
        key, label = names.entity(one)
        if key in here:
            takes_part = "participant" in (one.kind, here[key].kind)
            (people if takes_part else things).append(label)
    return people, things
