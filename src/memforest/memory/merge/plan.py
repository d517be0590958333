"""What merging another memory will do, read before anything is written: who is who, and which session becomes what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from memforest.display import shown
from memforest.errors import CorruptStoreError, EmbedderMismatchError, InputError
from memforest.facts.canonical import Same
from memforest.memory.ingest.corrections import Settled
from memforest.memory.merge.names import Asked, Names, Owner, names_of
from memforest.memory.merge.sessions import Becomes, Known, becomes
from memforest.memory.zone import stored_zone
from memforest.store import facts as fact_rows
from memforest.store import meta, sessions
from memforest.store.db import Database
from memforest.store.erase_traces import deleted
from memforest.store.facts import FactRow
from memforest.store.faults import sqlite_damage
from memforest.store.provenance import Origin, origins, put_origin
from memforest.store.tx import Tx


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

    def whose(self) -> dict[int | None, Origin]:
        """Return the origins of the other memory's turns, by their rows there; its own under None."""
        found: dict[int | None, Origin] = {None: self.own}
        for row, one in self.origins.items():
            found[row] = one
        return found

    def known(self, tx: Tx) -> Known:
        """Return what sessions are compared by, as things are now."""
        return Known(self.names, self.origins, self.own, deleted(tx))

    def becomes(self, tx: Tx, source: Tx, one: Becomes, known: Known) -> Becomes | None:
        """Return what a session becomes as things are now; None when it is no longer in the other memory."""
        try:
            there = sessions.session_with_row(source, one.there.row)
        except KeyError:
            return None
        return becomes(tx, source, there, known, overwrite=self.overwrite)


@dataclass(slots=True)
class Merging:
    """One merge: how it is done, and over its transactions what it has copied, row id there -> row id here."""

    names: Names
    stored_ms: int
    vectors: bool
    """Whether vectors can be taken: both memories have the same embedder."""
    threshold: float | None
    origins: Mapping[int | None, int | None]
    """Row ids of origins there -> here; those of the other memory's own turns are under None."""
    whose: Mapping[int | None, Origin]
    """The origins there, by row; the other memory itself under None."""
    corrections: Mapping[int, int] = field(default_factory=dict)
    """Updates there -> here, of those whose statements stand here."""
    decided: Mapping[tuple[str, str], Sequence[tuple[int, bytes]]] = field(default_factory=dict)
    """(session, turn) there -> corrections here, and the digests of the sentences that they are about."""
    session_ids: dict[str, str] = field(default_factory=dict)
    """Ids of sessions there -> here, of those that are called otherwise here."""
    places: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """Session and chunk there -> here, of those chunks that have another number here."""
    same: Mapping[str, Same] = field(default_factory=dict)
    sessions: dict[int, int] = field(default_factory=dict)
    """New ones, without those that have grown."""
    turns: dict[int, int] = field(default_factory=dict)
    cells: dict[int, int] = field(default_factory=dict)
    facts: dict[int, int] = field(default_factory=dict)
    new_facts: set[int] = field(default_factory=set)
    """Rows there of the facts that were made here."""
    entities: dict[int, int] = field(default_factory=dict)
    new_entities: set[int] = field(default_factory=set)
    """Rows there of the entities that were made here."""
    reworded: bool = False
    """Whether there is a fact or a turn without a vector now."""
    cut: bool = False
    """Whether something was deleted that was copied."""
    warnings: dict[str, None] = field(default_factory=dict)
    """What the caller should know of corrections; each once."""

    def settle(self, settled: Settled) -> None:
        """Note the outcome of applying corrections."""
        self.reworded |= settled.unembedded
        self.warnings |= dict.fromkeys(settled.warnings)

    def tie(self, tie: str) -> str:
        """Return the place of a statement, which begins with its session and chunk, as it is here."""
        if not self.session_ids and not self.places:
            return tie
        session_id, chunk, rest = tie.split("\x1f", 2)
        place = self.places.get((session_id, chunk)) or (
            self.session_ids.get(session_id, session_id),
            chunk,
        )
        return "\x1f".join((*place, rest))

    def origin_id(self, origin: int | None) -> tuple[str, str]:
        """Return whose a turn there is: a memory and a user."""
        one = self.whose[origin]
        return one.memory, one.user_id

    def placed(self, fact: FactRow) -> FactRow:
        """Return a fact that is new here as it is stored here."""
        return replace(fact, tie=self.tie(fact.tie), stored_ms=self.stored_ms)


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
    known = Known(names, origins(source), own, deleted(tx))
    found = [
        becomes(tx, source, one, known, overwrite=overwrite)
        for one in sorted(sessions.list_sessions(source), key=lambda one: (one.start_ms, one.session_id))
    ]
    notes = _notes(tx, source, owner, other)
    return Plan(owner, other, names, own, known.origins, tuple(found), overwrite, notes)


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
