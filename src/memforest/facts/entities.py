"""Which entity a name means.

Keys are Unicode-safe (`memforest.text.entity_key`). A participant is also known by the first word of a
longer name and by a short form that starts only one participant's name ("Mel" for Melanie); both are
kept as aliases. Two different full names are never joined: a false join mixes two people's lives.
"""

from __future__ import annotations

from collections.abc import Iterable

from memforest.store import facts as rows
from memforest.store.db import Tx
from memforest.text import entity_key
from memforest.types import EntityKind

__all__ = ["EntityBook"]

MIN_SHORT_FORM = 3
"""Fewest characters of a short form: two letters ("Al") start too many names."""
MIN_DROPPED = 2
"""Fewest characters a short form leaves out: "Ann" is not short for Anna."""


class EntityBook:
    """Finds or makes the entities of one memory, inside one write transaction."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._known = dict(rows.names(tx))
        self._participants = {e.key: e.row for e in rows.entities(tx) if e.kind == "participant"}

    def participant(self, name: str) -> int | None:
        """Return the entity of a speaker, made active; None when the name has no letters to key by."""
        key = entity_key(name) or (name.casefold().strip() or None)
        if key is None:
            return None
        row = self._known.get(key)
        if row is None or key not in self._participants:
            row = rows.put_entity(self._tx, key, name, "participant", active=True)
            self._known[key] = self._participants[key] = row
        return row

    def entity(self, name: str, kind: EntityKind) -> int | None:
        """Return the entity that a name means, made if it is new; None when it cannot be keyed."""
        key = entity_key(name)
        if key is None:
            return None
        row = self._known.get(key)
        if row is None:
            row = self._short_form(key)
            if row is None:
                row = rows.put_entity(self._tx, key, name, "unknown" if kind == "participant" else kind)
            else:
                rows.add_alias(self._tx, key, row)
            self._known[key] = row
        return row

    def _short_form(self, key: str) -> int | None:
        matches = {row for full, row in self._participants.items() if _is_short_form(key, full)}
        return matches.pop() if len(matches) == 1 else None

    def find(self, names: Iterable[str]) -> list[int]:
        """Return the entities that names mean, without making any."""
        keys = (entity_key(name) for name in names)
        return [self._known[key] for key in keys if key in self._known]


def _is_short_form(short: str, full: str) -> bool:
    """Return whether `short` can stand for the participant key `full`.

    Example:
        >>> _is_short_form("mel", "melanie"), _is_short_form("ana", "ana ruiz"), _is_short_form("me", "melanie")
        (True, True, False)
    """
    first = full.split(" ")[0].split("_")[0]
    if short == first:
        return short != full
    return MIN_SHORT_FORM <= len(short) <= len(first) - MIN_DROPPED and first.startswith(short)
