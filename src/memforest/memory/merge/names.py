"""Who of another memory is who in this one: names that are the same person's, and names that two people share.

People and things of one name are one, as they are within a memory. The owners of two memories are two people unless
the caller says otherwise: where both have the same name, the caller is asked. Who is called otherwise here than there
is renamed in what is copied: as a speaker, in statements and in states. What was said, word for word, stays.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from memforest.display import shown
from memforest.errors import InputError
from memforest.facts.entities import speaker_key
from memforest.memory.ingest.turns import check_id
from memforest.store import facts as fact_rows
from memforest.store.facts import EntityRow
from memforest.store.provenance import Origin
from memforest.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller says of people: see `AsyncUserMemory.merge`."""

    same_person: bool | None = None
    same: Mapping[str, str] = field(default_factory=dict)
    apart: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memory one is: its id, its user, and the user's display name."""

    memory: str
    user_id: str
    label: str


@dataclass(frozen=True, slots=True)
class Names:
    """Key of a name in the other memory -> the name here, of those who are called otherwise here."""

    here: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.here)

    def speaker(self, name: str) -> str:
        """Return the name of a speaker here."""
        return self.here.get(speaker_key(name) or "", name) if self.here else name

    def value(self, value: str) -> str:
        """Return the value of a state, which may be somebody's name."""
        return self.speaker(value)

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
    tx: Tx, source: Tx, asked: Asked, owner: Owner, other: Owner, known: Mapping[int, Origin]
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
        raise InputError(
            f"the memory of {shown(other.user_id)} was merged before with other names "
            f"({_told(before) or 'all as they are'}); leave same_person, same and apart out"
        )
    return wanted


def _wanted(
    tx: Tx, source: Tx, asked: Asked, owner: Owner, other: Owner, known: Collection[Origin]
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
    tx: Tx, source: Tx, asked: Asked, owner: Owner, other: Owner, known: Collection[Origin]
) -> dict[str, str]:
    """Return the other owner's key -> name here, where that is another one; owners of one name are asked about."""
    key = speaker_key(other.label) or ""
    if asked.same_person:
        return {key: owner.label}
    owners = {speaker_key(owner.label): owner.user_id}
    owners |= {speaker_key(one.label): one.user_id for one in known}
    if key not in owners or not (_there(source, key) and _there(tx, key)):
        return {}
    if asked.same_person is None:
        raise InputError(
            f"the memories of {shown(owners[key])} and {shown(other.user_id)} both call their owner "
            f"{shown(other.label)}; say same_person=True (--same-person) if that is one person, or same_person=False (--two-people)"
        )
    return {key: f"{other.label} ({other.user_id})"}


def _there(tx: Tx, key: str) -> bool:
    return fact_rows.entity_with_key(tx, key) is not None


def _known_key(source: Tx, name: object, what: str) -> str:
    """Return the key of a name that the other memory knows.

    Raises:
        InputError: if it is no name, or nobody and nothing there is called so.
    """
    key = speaker_key(check_id(name, what))
    if key is None or not _there(source, key):
        raise InputError(f"{what}: nobody and nothing in the memory that is merged is called {shown(name)}")
    return key


def _told(origin: Origin) -> str:
    return ", ".join(f"{key} as {label}" for key, label in sorted(origin.names.items()))
