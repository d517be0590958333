"""The ticket by which the person at the terminal enters once."""

from __future__ import annotations

import hmac
import secrets

from memforest.access import OpenAccess, Principal
from memforest.errors import UnauthenticatedError
from memforest.forest.forest import AsyncMemForest


class Ticket:
    """A word in an address that opens the inspector once: for ``memforest inspect``, whose reader is at the terminal.

    What it gives is a credential that only the server knows and only its sessions hold.
    """

    def __init__(self) -> None:
        self.word = secrets.token_urlsafe(32)
        self.credential = secrets.token_urlsafe(32)
        self.name = secrets.token_hex(4)
        """Sets its cookie apart: a browser has one jar for all ports of a machine, and two inspectors may run."""
        self._used = False

    def take(self, given: str) -> str | None:
        """Return the credential for the right word the first time it is given, else None."""
        right = hmac.compare_digest(self.word.encode(), given.encode("utf-8", "replace"))
        if not right or self._used:
            return None
        self._used = True
        return self.credential


class TicketAccess(OpenAccess):
    """One forest for whoever came in by a ticket, and for nobody else on this machine.

    Args:
        forest: whose memories.
        ticket: gives the credential.
        user: the only user that is shown; None for all.
        owned: close the forest with this.
    """

    def __init__(
        self, forest: AsyncMemForest, ticket: Ticket, *, user: str | None = None, owned: bool = False
    ) -> None:
        super().__init__(forest, owned=owned)
        self._ticket = ticket
        self._user = user

    async def identify(self, credential: str | None) -> Principal:
        """Return the person at the terminal.

        Raises:
            UnauthenticatedError: if the credential is not the ticket's.
        """
        if credential is None or not hmac.compare_digest(
            credential.encode("utf-8", "replace"), self._ticket.credential.encode()
        ):
            raise UnauthenticatedError("open the address that `memforest inspect` has printed; it opens once")
        return Principal(user=self._user, key="inspect")
