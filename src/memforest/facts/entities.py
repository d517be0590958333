"""Which entity a name means.

Keys are Unicode-safe (`memforest.text.entity_key`). Who speaks in a session is there also known by the
first word of a longer name and by a short form that starts only one speaker's name ("Mel" for Melanie);
both are kept as aliases for questions. Speakers of other sessions are not considered: whom a name means
must not depend on the order in which sessions arrive, and another session's Mel may be another Mel. Two
different full names are never joined: a false join mixes two people's lives.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from memforest.store import facts as rows
from memforest.store.aliases import use_alias
from memforest.store.tx import Tx
from memforest.text import entity_key
from memforest.types import EntityKind

MIN_SHORT_FORM = 3
"""Fewest characters of a short form: two letters ("Al") start too many names."""
MIN_DROPPED = 2
"""Fewest characters a short form leaves out: "Ann" is not short for Anna."""
_QUOTES = "\"'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f"


def speaker_key(name: str) -> str | None:
    """Return the key of who speaks, which may be a sign without letters; None when nothing is left of it."""
    return entity_key(name) or (name.casefold().strip() or None)


def spelling(name: str) -> str:
    """Return a name as it is spelled: in the normal form C, without the quotation marks that a sentence has around it.

    Example:
        >>> spelling("  \u201cJoe\u2019s  Diner\u201d ")
        'Joe\u2019s Diner'
    """
    bare = " ".join(unicodedata.normalize("NFC", name).split())
    while len(bare) > 1 and bare[0] in _QUOTES and bare[-1] in _QUOTES:
        bare = bare[1:-1].strip()
    return bare


class EntityBook:
    """Finds or makes the entities that one session names, inside one write transaction."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._known: dict[str, int] = {}
        self._labels: dict[int, str] = {}
        self._kinds: dict[int, set[str]] = {}
        self._were: set[int] = set()
        self._speakers: dict[str, int] = {}

    def participant(self, name: str) -> int | None:
        """Return the entity of a speaker; None when the name has no letters to key by."""
        key = speaker_key(name)
        if key is None:
            return None
        row = self._look_up(key)
        if row is None or row not in self._were:
            row = rows.put_entity(self._tx, key, name, "participant")
            self._known[key] = row
            self._labels.setdefault(row, name)
            self._were.add(row)
        self._speakers[key] = row
        return row

    def entity(self, name: str, kind: EntityKind, occurrence: int | None = None) -> int | None:
        """Return the entity that a name means, made if it is new; None when it cannot be keyed.

        With the occurrence that names it, a short form is kept as an alias for as long as that occurrence is.
        """
        key = entity_key(name)
        if key is None:
            return None
        if key in self._speakers:
            return self._speakers[key]
        row = self._short_form(key)
        if row is not None:
            if occurrence is not None:
                use_alias(self._tx, key, row, occurrence)
            return row
        row = self._look_up(key)
        if row is None or kind not in self._kinds.setdefault(row, set()):
            row = rows.put_entity(self._tx, key, name, "unknown" if kind == "participant" else kind)
            self._known[key] = row
            self._labels.setdefault(row, name)
            self._kinds.setdefault(row, set()).add(kind)
        return row

    def label(self, entity: int) -> str:
        """Return the label of an entity that the book has found or made."""
        return self._labels[entity]

    def _short_form(self, key: str) -> int | None:
        matches = {row for full, row in self._speakers.items() if is_short_form(key, full)}
        return matches.pop() if len(matches) == 1 else None

    def find(self, names: Iterable[str]) -> list[int]:
        """Return the entities that names mean, without making any."""
        found = (self._look_up(key) for name in names if (key := entity_key(name)) is not None)
        return [row for row in found if row is not None]

    def _look_up(self, key: str) -> int | None:
        """Return the entity of a key that is no alias, read when it is first asked for."""
        if key not in self._known and (found := rows.entity_with_key(self._tx, key)) is not None:
            self._known[key] = found.row
            self._labels[found.row] = found.label
            if found.kind == "participant":
                self._were.add(found.row)
        return self._known.get(key)


def is_short_form(short: str, full: str) -> bool:
    """Return whether `short` can stand for the participant key `full`.

    Example:
        >>> is_short_form("mel", "melanie"), is_short_form("ana", "ana ruiz"), is_short_form("me", "melanie")
        (True, True, False)
    """
    first = full.split(" ")[0].split("_")[0]
    if short == first:
        return short != full
    return MIN_SHORT_FORM <= len(short) <= len(first) - MIN_DROPPED and first.startswith(short)
