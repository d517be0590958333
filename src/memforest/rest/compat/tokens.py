"""Ids that clients get for memories: they carry the user, whom the routes of mem0 do not name.

An id is no permission: whose memory it leads to is checked against the caller each time, and one that leads nowhere, one that
is of somebody else, and one that is no id at all get the same answer.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Literal

from memforest.access import Principal
from memforest.errors import NotFoundError

Kind = Literal["f", "t", "e"]
"""A fact; a turn (session id, turn id); what an `add` did (session id)."""

PARTS = {"f": 1, "t": 2, "e": 1}
MAX_CHARS = 12_000
"""Longer than the id of anything that can be stored."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """What an id stands for."""

    kind: Kind
    user: str
    parts: tuple[str, ...]

    @property
    def fact_id(self) -> str:
        """The fact's id.

        Raises:
            NotFoundError: if it stands for something else.
        """
        if self.kind != "f":
            raise no_such_memory()
        return self.parts[0]


def no_such_memory() -> NotFoundError:
    """Return the error for an id that leads nowhere, whatever the reason."""
    return NotFoundError("there is no memory with this id; ids come from add, search and get_all")


def seal(kind: Kind, user: str, *parts: str) -> str:
    """Return the id of something in a user's memory: text that fits into a path."""
    raw = json.dumps([kind, user, *parts], ensure_ascii=False, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unseal(token: str, who: Principal) -> Sealed:
    """Return what an id stands for.

    Args:
        token: the id, as a client gave it.
        who: the caller.

    Raises:
        NotFoundError: if it is no id that was handed out, or of a user whom the caller may not see.
    """
    try:
        if len(token) > MAX_CHARS:
            raise ValueError
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        kind, user, *parts = json.loads(raw)
        sound = PARTS.get(kind) == len(parts) and all(isinstance(one, str) and one for one in (user, *parts))
        if not sound or seal(kind, user, *parts) != token:
            raise ValueError
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise no_such_memory() from None
    if who.user not in (None, user):
        raise no_such_memory()
    return Sealed(kind, user, tuple(parts))
