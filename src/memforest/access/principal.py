"""Who makes a request, and what that allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memforest.errors import ForbiddenError
from memforest.forest.pool import no_memory

PRINCIPAL = "memforest.principal"
"""Where the scope of a request in ASGI holds who makes it, from when the key was looked at."""

Scope = Literal["read", "write", "delete", "admin"]
"""What a key allows: to ask and look; to add and correct; to delete and forget; to list users, check and rebuild."""

ALL_SCOPES: frozenset[Scope] = frozenset(("read", "write", "delete", "admin"))


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request.

    `tenant` is whose memories are meant; None is the server's own directory, without tenants. `user` is the only
    user that the caller sees, None for all of the tenant. `key` names the key or the subject of the token for limits; it is
    nobody's secret.
    """

    tenant: str | None = None
    user: str | None = None
    scopes: frozenset[Scope] = ALL_SCOPES
    key: str = "anonymous"

    def require(self, scope: Scope) -> None:
        """Raise unless this is allowed.

        Raises:
            ForbiddenError: if it is not.
        """
        if scope not in self.scopes:
            raise ForbiddenError(f"this needs a key with the scope {scope!r}")

    def user_id(self, given: str) -> str:
        """Return the user that a request names.

        Raises:
            NotFoundError: if the caller may not see that user: as for one that there is not.
        """
        if self.user is not None and given != self.user:
            raise no_memory(given)
        return given
