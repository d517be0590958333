"""What the participants of a memory are called in questions: by name, by first name, by role, "I" and "you"."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping

import numpy as np

from memforest.facts.entities import speaker_key
from memforest.language.participants import is_assistant
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.text import entity_key
from memforest.types import TURN_ROLES, UNSPOKEN_ROLES

_ASKER = (
    "i",
    "the user",
    "the customer",
    "el usuario",
    "la usuaria",
    "el cliente",
    "la clienta",
    "用户",
    "客户",
)
_ASKED = ("you", "the assistant", "the agent", "el asistente", "la asistente", "助手")


def surface_names(snapshot: Snapshot, user_label: str) -> Mapping[str, str]:
    """Return every name the memory knows (case-folded) -> the entity's display name.

    "I" in a question is the memory's user, if they take part in it, else whoever has the role of the user; "you" is
    the assistant, else the only other participant. A first name is somebody's if no other entity is called so.
    """
    asker, asked = _sides(snapshot, entity_key(user_label) or "")
    names = ChainMap({}, _names(snapshot))
    for words, entity in ((_ASKER, asker), (_ASKED, asked)):
        if entity is not None:
            names.maps[0].update(dict.fromkeys(words, snapshot.entities[entity].label))
    return names


@once_per_snapshot
def _participants(snapshot: Snapshot) -> dict[int, frozenset[str]]:
    """Return entity -> roles, of those who speak and are neither a tool nor a system."""
    found: dict[int, set[str]] = {}
    turns = snapshot.turns
    for speaker, role in np.unique(np.stack([turns.speaker, turns.role]), axis=1).T.tolist():
        entity = snapshot.names.get(speaker_key(snapshot.speakers[speaker]) or "")
        if entity is not None and TURN_ROLES[role] not in UNSPOKEN_ROLES:
            found.setdefault(entity, set()).add(TURN_ROLES[role])
    return {entity: frozenset(roles) for entity, roles in found.items()}


def _sides(snapshot: Snapshot, user_key: str) -> tuple[int | None, int | None]:
    """Return the entities of who asks and of who is asked, None where the memory does not tell."""
    people = _participants(snapshot)
    own = snapshot.names.get(user_key)
    asker = own if own in people else _only(one for one, roles in people.items() if "user" in roles)
    if asker is None:
        return None, None
    others = [one for one in people if one != asker]
    helps = [one for one in others if _helps(snapshot.entities[one].label, people[one])]
    return asker, _only(helps or others)


def _helps(label: str, roles: frozenset[str]) -> bool:
    return "assistant" in roles or is_assistant(label, None)


def _only(found: Iterable[int]) -> int | None:
    several = tuple(found)
    return several[0] if len(several) == 1 else None


@once_per_snapshot
def _names(snapshot: Snapshot) -> dict[str, str]:
    names = {key: snapshot.entities[row].label for key, row in snapshot.names.items()}
    for entity in snapshot.entities.values():
        names.setdefault(entity.label.casefold(), entity.label)
    for row in _participants(snapshot):
        label = snapshot.entities[row].label
        names.setdefault(label.split()[0].casefold(), label)
    return names
