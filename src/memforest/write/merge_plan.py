"""What merging another memory will do, read before anything is written: who is who, and which session becomes what.

People and things of one name are one, as they are within a memory. The owners of two memories are two people unless
the caller says otherwise: where both have the same name, the caller is asked. A person with another name here than there
is renamed in what is copied: as a speaker, in statements and in states. What was said, word for word, stays.

A turn is here if a session of the same id has a turn of the same id, speaker, time and text. An id that a merge has
changed counts as the original one. What was deleted here is known by digests, and never comes.
Where both memories went on with a session, the turns of both stand in it. Of two sessions that share nothing but their
id, the one that comes gets another id, which follows from whose it is: so it is found again, also by way of a third
memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from memforest.errors import CorruptStoreError, EmbedderMismatchError, InputError
from memforest.read.quoting import copy_digests, derived_id, holds, root_id
from memforest.reading.canonical import Same, speaker_key
from memforest.reading.timestamps import stored_zone
from memforest.reading.tokens import split_sentences
from memforest.store import facts as facts_rows
from memforest.store import meta, sessions
from memforest.store.connections import Tx, sqlite_damage
from memforest.store.database import Database
from memforest.store.erase import deleted
from memforest.store.facts import EntityRow
from memforest.store.sessions import Origin, SessionRow, StoredTurn, origins, put_origin, turns_of_session
from memforest.times import shown
from memforest.write.commit import CommittedSession
from memforest.write.erase_corrections import without
from memforest.write.turns import check_id


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How a memory is merged, and what the caller says of people; see `AsyncUserMemory.merge`."""

    same_person: bool | None = None
    same: Mapping[str, str] = field(default_factory=dict)
    apart: Collection[str] = ()
    dry_run: bool = False
    overwrite: bool = False
    refresh: bool | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """The people with another name here: key of the name in the other memory -> the name here."""

    here: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.here)

    def speaker(self, name: str) -> str:
        """Return the name of a speaker here."""
        return self.here.get(speaker_key(name) or "", name) if self.here else name

    def entity(self, there: EntityRow) -> tuple[str, str]:
        """Return (key, label) of an entity here."""
        label = self.here.get(there.key)
        return (there.key, there.label) if label is None else (speaker_key(label) or there.key, label)

    def text(self, text: str, called: Iterable[tuple[str, str]]) -> str:
        """Return a statement in which names are replaced: (name there, name here), whole words alone."""
        pairs = sorted(set(called), key=lambda pair: (-len(pair[0]), pair))
        if not pairs:
            return text
        names = {there.casefold(): here for there, here in pairs}
        wanted = "|".join(re.escape(there) for there, _ in pairs)
        return re.sub(
            rf"(?<!\w)(?:{wanted})(?!\w)",
            lambda found: names.get(found[0].casefold(), found[0]),
            text,
            flags=re.IGNORECASE,
        )


def names_of(
    tx: Tx, source: Tx, asked: MergeOptions, owner: Origin, other: Origin, known: Mapping[int, Origin]
) -> tuple[Names, str]:
    """Return who is called otherwise here, and the name of the other memory's owner here.

    Args:
        tx: a transaction of this memory.
        source: one of the other memory.
        asked: what the caller says.
        owner: whose memory this is.
        other: whose the other one is.
        known: the origins of the turns of this memory: what was said when the memory was merged before holds.

    Raises:
        InputError: if both owners have the same name and the caller does not say whether they are one person; or what
            the caller says cannot be, or is not what was said before.
    """
    own = (other.memory, other.user_id)
    before = next((one for one in known.values() if (one.memory, one.user_id) == own), None)
    said = asked.same_person is not None or asked.same or asked.apart
    if before is not None and not said:
        return Names(before.names), before.label
    others = [one for one in known.values() if one is not before]
    wanted = _wanted(tx, source, asked, owner, other, others)
    if before is not None and wanted != (Names(before.names), before.label):
        names = ", ".join(f"{key} as {label}" for key, label in sorted(before.names.items()))
        raise InputError(
            f"the memory of {shown(other.user_id)} was merged before with other names "
            f"({names or 'all as they are'}); leave same_person, same and apart out"
        )
    return wanted


def _wanted(
    tx: Tx, source: Tx, asked: MergeOptions, owner: Origin, other: Origin, known: Collection[Origin]
) -> tuple[Names, str]:
    here: dict[str, str] = {}
    for there, name in asked.same.items():
        here[_known_key(source, there, "same")] = check_id(name, "same").strip()
    for there in asked.apart:
        key = _known_key(source, there, "apart")
        if key in here:
            raise InputError(f"{shown(there)} is named in both same and apart; leave one out")
        here[key] = f"{there.strip()} ({other.user_id})"
    key = speaker_key(other.label) or ""
    if key not in here:
        here |= _owner(tx, source, asked, owner, other, known)
    here = {key: name for key, name in here.items() if speaker_key(name) != key}
    return Names(here), here.get(key, other.label)


def _owner(
    tx: Tx, source: Tx, asked: MergeOptions, owner: Origin, other: Origin, known: Collection[Origin]
) -> dict[str, str]:
    """Return the other owner's key -> name here, where that is another one; owners of one name are asked about."""
    key = speaker_key(other.label) or ""
    if asked.same_person:
        return {key: owner.label}
    owners = {speaker_key(owner.label): owner.user_id}
    owners |= {speaker_key(one.label): one.user_id for one in known}
    if key not in owners or not all(facts_rows.entities_with_keys(one, (key,)) for one in (source, tx)):
        return {}
    if asked.same_person is None:
        raise InputError(
            f"the memories of {shown(owners[key])} and {shown(other.user_id)} both call their owner "
            f"{shown(other.label)}; say same_person=True (--same-person) if that is one person, or same_person=False (--two-people)"
        )
    return {key: f"{other.label} ({other.user_id})"}


def _known_key(source: Tx, name: object, what: str) -> str:
    """Return the key of a name that the other memory knows.

    Raises:
        InputError: if it is no name, or nobody and nothing there is called so.
    """
    key = speaker_key(check_id(name, what))
    if key is None or not facts_rows.entities_with_keys(source, (key,)):
        raise InputError(f"{what}: the other memory has nobody and nothing called {shown(name)}")
    return key


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """A session of the other memory and what it is here: new, one of which something is to come, or one that is here already."""

    there: SessionRow
    session_id: str
    how: Literal["new", "grown", "same"]
    row: int | None = None
    """Its row here, if it is here."""
    over: int | None = None
    """Row here of a session of that id with other turns, which goes first."""
    rest: Mapping[int, str | None] | None = None
    """Turn there -> what of it comes, of those that are not here; None is nothing: it was deleted here. Without it all comes as it is."""
    here: Mapping[int, int] = field(default_factory=dict)
    """Turn there -> turn here, of those that are here, where `rest` is given."""

    @property
    def turns(self) -> int:
        """How many turns come."""
        if self.how == "same":
            return 0
        if self.rest is None:
            return self.there.turns
        return sum(text is not None for text in self.rest.values())


@dataclass(frozen=True, slots=True)
class Plan:
    """A merge that is about to begin: who is called what here, where turns come from, and what sessions become."""

    home: tuple[str, str]
    """The memory that is merged into: its id and its user."""
    names: Names
    origins: Mapping[int | None, Origin]
    """Origins of the other memory's turns, by their rows there; of those that were said there under None."""
    deleted: frozenset[bytes]
    """Digests of what was deleted here."""
    vectors: bool
    """Whether vectors can be taken: both memories have the same embedder."""
    overwrite: bool
    notes: tuple[str, ...]
    participants_joined: tuple[str, ...]
    """Who takes part in both memories under one name."""
    entities_joined: tuple[str, ...]
    """What else has one name in both."""
    sessions: tuple[SessionPlan, ...] = ()

    def is_deleted(self, turn: StoredTurn, text: str) -> bool:
        """Return whether a text of a turn was deleted here."""
        return bool(self.deleted) and not self.deleted.isdisjoint(
            copy_digests(turn, text, self.names.speaker(turn.speaker))
        )

    def left(self, turn: StoredTurn, near: Collection[StoredTurn]) -> str | None:
        """Return what of a turn is neither in turns here nor was deleted here; None for nothing."""
        if self.is_deleted(turn, turn.text):
            return None
        if not near and not self.deleted:
            return turn.text
        stale = [
            piece
            for piece in split_sentences(turn.text)
            if self.is_deleted(turn, piece.text) or any(holds(one.text, piece.text) for one in near)
        ]
        return without(turn.text, stale) if stale else turn.text

    def becomes(self, tx: Tx, source: Tx, one: SessionPlan) -> SessionPlan | None:
        """Return what a session becomes as things are now; None when it is no longer in the other memory."""
        try:
            there = sessions.session_with_row(source, one.there.row)
        except KeyError:
            return None
        return becomes(tx, source, there, self)


def becomes(tx: Tx, source: Tx, there: SessionRow, known: Plan) -> SessionPlan:
    """Return what a session of another memory is here.

    Args:
        tx: a transaction of this memory.
        source: one of the other memory.
        there: the session.
        known: what is known of both. With its `overwrite` what is here under an id goes where it has other turns too.
    """
    found = sessions.sessions_with_root(tx, root_id(there.session_id), there.session_id)
    if not found and not known.deleted:
        return SessionPlan(there, there.session_id, "new")
    theirs = turns_of_session(source, there.row)
    over = found.get(there.session_id) if known.overwrite else None
    rows = found.values() if over is None else [over]
    ours = [turn for row in rows for turn in turns_of_session(tx, row)]
    rest, here, votes = _compare(theirs, ours, known)
    if over is not None and rest and len(here) < len(ours):
        found = {}
        rest, here, votes = _compare(theirs, [], known)
    else:
        over = None
    session_id, row = _place(there, theirs, found, votes, known)
    if row is None and all(rest.get(turn.row) == turn.text for turn in theirs):
        return SessionPlan(there, session_id, "new", over=over)
    how: Literal["new", "grown", "same"] = "new" if row is None else "grown"
    if not any(text is not None for text in rest.values()):
        how = "same"
    return SessionPlan(there, session_id, how, row, over, rest, here)


class _Here:
    """The turns of the sessions here that may be one there; each is one turn there at most."""

    def __init__(self, turns: Sequence[StoredTurn], names: Names) -> None:
        self._names = names
        self._free = {one.row for one in turns}
        self._by_id: dict[str, list[StoredTurn]] = {}
        self._by_time: dict[int, list[StoredTurn]] = {}
        for one in turns:
            self._by_id.setdefault(root_id(one.turn_id), []).append(one)
            self._by_time.setdefault(one.said_ms, []).append(one)

    def near(self, turn: StoredTurn) -> list[StoredTurn]:
        """Return the turns with the id of a turn there, then the unclaimed ones of its time; all have its speaker.

        A time that a store stamped itself equals any other.
        """
        same_id = self._by_id.get(root_id(turn.turn_id), [])
        free = [one for one in self._by_time.get(turn.said_ms, ()) if one.row in self._free]
        return [
            one
            for one in (*same_id, *free)
            if one.said_ms == turn.said_ms or "clock" in (one.time_source, turn.time_source)
            if one.speaker == self._names.speaker(turn.speaker)
        ]

    def claim(self, turn: StoredTurn, *, same_id: bool) -> StoredTurn | None:
        """Return the turn that one there is, word for word, if no other one there is it."""
        for one in self.near(turn):
            apart = root_id(one.turn_id) != root_id(turn.turn_id)
            if one.row in self._free and one.text == turn.text and not (same_id and apart):
                self._free.discard(one.row)
                return one
        return None


def _compare(
    theirs: Sequence[StoredTurn], ours: Sequence[StoredTurn], known: Plan
) -> tuple[dict[int, str | None], dict[int, int], Counter[int]]:
    """Compare the turns of a session with those of the sessions here that may be it.

    Returns:
        What of turns there is to come, which turns here the others are, and how many of those each session here has.
    """
    rest: dict[int, str | None] = {}
    same: dict[int, int] = {}
    votes: Counter[int] = Counter()
    here = _Here(ours, known.names)
    found = {turn.row: here.claim(turn, same_id=True) for turn in theirs}
    for turn in theirs:
        match, left = found[turn.row] or here.claim(turn, same_id=False), None
        if match is None:
            near = here.near(turn)
            left = known.left(turn, near)
            match = next((one for one in near if _overlap(one.text, turn.text)), None)
        if match is not None:
            votes[match.session] += 1
        if match is not None and left is None:
            same[turn.row] = match.row
        else:
            rest[turn.row] = left
    return rest, same, votes


def _overlap(old: str, new: str) -> bool:
    return any(holds(old, piece.text) for piece in split_sentences(new)) or any(
        holds(new, piece.text) for piece in split_sentences(old)
    )


def _place(
    there: SessionRow,
    theirs: Sequence[StoredTurn],
    found: Mapping[str, int],
    votes: Counter[int],
    known: Plan,
) -> tuple[str, int | None]:
    """Return the id and the row here of what a session becomes: of that here with which it shares most, else by its id."""
    session_id = there.session_id
    if votes:
        session_id = max(found, key=lambda one: votes[found[one]])  # the first of several, as `max` does
    elif session_id in found and session_id == root_id(session_id):
        origin = known.origins[theirs[0].origin if theirs else None]
        session_id = derived_id(session_id, origin.memory, origin.user_id)
    return session_id, found.get(session_id)


def batches(sessions: Iterable[SessionPlan], most_turns: int) -> Iterator[list[SessionPlan]]:
    """Yield sessions in groups of bounded size; a longer session is a group by itself."""
    part: list[SessionPlan] = []
    size = 0
    for one in sessions:
        if part and size + one.turns > most_turns:
            yield part
            part, size = [], 0
        part.append(one)
        size += one.turns
    if part:
        yield part


@dataclass(slots=True)
class Merging:
    """One merge: how it is done, and over its transactions what it has copied."""

    plan: Plan
    stored_ms: int
    threshold: float | None
    origins: Mapping[int | None, int | None] = field(default_factory=dict)
    """Row ids of origins there -> here; those of the other memory's own turns are under None."""
    decided: dict[tuple[str, str], list[tuple[int, bytes]]] = field(default_factory=dict)
    """(session, turn) there -> corrections here, and the digests of the sentences that they are about."""
    same: Mapping[str, Same] = field(default_factory=dict)
    """A judge's verdicts, by the identity of the statement that is merged."""
    done: CommittedSession = field(default_factory=CommittedSession)
    """What was written."""
    new_facts: set[int] = field(default_factory=set)
    """Rows here of the facts that were made."""
    new_entities: set[int] = field(default_factory=set)
    """Likewise of entities."""
    cut: bool = False
    """Whether something was deleted that was copied, or overwritten."""


def called_in(source: Tx, facts: Collection[int], names: Names) -> dict[int, list[tuple[str, str]]]:
    """Return fact -> (name there, name here), short forms included, of those in it who are called otherwise here."""
    found: dict[int, list[tuple[str, str]]] = {}
    if not names:
        return found
    mentions = facts_rows.mentions(source, facts)
    entities = facts_rows.entities(source, {one.entity for one in mentions})
    short: dict[tuple[int, int], set[str]] = {}
    for key, entity, occurrence in facts_rows.alias_uses(source, {one.occurrence for one in mentions}):
        short.setdefault((occurrence, entity), set()).add(key)
    for one in mentions:
        there = entities[one.entity]
        if (label := names.here.get(there.key)) is not None:
            keys = short.get((one.occurrence, one.entity), ())
            found.setdefault(one.fact, []).extend((name, label) for name in (there.label, *keys))
    return found


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
            raise CorruptStoreError(f"{source.path.name!r}, the memory to merge, is damaged: {found}")


def plan_merge(
    tx: Tx,
    source: Tx,
    asked: MergeOptions,
    owner: Origin,
    other: Origin,
    *,
    embedder: str | None,
) -> Plan:
    """Return what merging a memory will do.

    Args:
        tx: a transaction of the memory that is merged into.
        source: one of the memory that is merged.
        asked: what the caller says of people, and whether sessions that differ are replaced.
        owner: whose memory is merged into; `memory` is read here.
        other: whose is merged.
        embedder: the one that the memory is open with.

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
    owner = owner._replace(memory=meta.get(tx, "memory_id") or "")
    other = other._replace(memory=meta.get(source, "memory_id") or "")
    names, label = names_of(tx, source, asked, owner, other, origins(tx))
    own = Origin(other.memory, other.user_id, label, names.here)
    here, there = stored_zone(tx), stored_zone(source)
    notes: tuple[str, ...] = ()
    if here is not None and there is not None and here != there:
        notes = (
            f"the days of the memory of {shown(owner.user_id)} are those of {here!r}, and its words of time stay read as they "
            f"were in that of {shown(other.user_id)}, in {there!r}",
        )
    whose: dict[int | None, Origin] = {None: own}
    whose.update(origins(source).items())
    plan = Plan(
        (owner.memory, owner.user_id),
        names,
        whose,
        deleted(tx),
        given is not None and have == given,
        asked.overwrite,
        notes,
        *_joined(tx, source, names),
    )
    listed = sorted(sessions.list_sessions(source), key=lambda one: (one.start_ms, one.session_id))
    return replace(plan, sessions=tuple(becomes(tx, source, one, plan) for one in listed))


def keep_origins(tx: Tx, plan: Plan, merged_ms: int) -> dict[int | None, int | None]:
    """Store where turns come from; return rows there -> here, with the other memory's own turns under None.

    Turns that once came from here are at home.
    """
    return {
        row: None if one[:2] == plan.home else put_origin(tx, one, merged_ms)
        for row, one in plan.origins.items()
    }


def _joined(tx: Tx, source: Tx, names: Names) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return who takes part in both memories under one name, and what else has one name in both."""
    here = {one.key: one for one in facts_rows.entities(tx).values()}
    people: list[str] = []
    things: list[str] = []
    for one in sorted(facts_rows.entities(source).values(), key=lambda entity: entity.key):
        key, label = names.entity(one)
        if key in here:
            takes_part = "participant" in (one.kind, here[key].kind)
            (people if takes_part else things).append(label)
    return tuple(people), tuple(things)
