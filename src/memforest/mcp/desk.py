"""Who calls, and with which memory: the one thing that all tools, resources and prompts ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, cast

from mcp.server.mcpserver import Context

from memforest.access import PRINCIPAL, Access, Principal, Scope
from memforest.errors import NotFoundError
from memforest.forest.handle import AsyncUserMemory

if TYPE_CHECKING:
    from memforest.mcp.server import MemoryServer

NOBODY = "there is no memory of this user yet; add_memory begins one"
"""Said of a user without a memory, and alike of one that the caller may not see."""


class Desk:
    """Decides whose memory a call is about.

    Args:
        access: decides on callers.
        user: the only user that this server serves; None where the key or an argument names one.
        fixed: no tool of this server has the argument `user`.
    """

    def __init__(self, access: Access, user: str | None, *, fixed: bool) -> None:
        self.access = access
        self.user = user
        self.fixed = fixed

    async def who(self, ctx: Context | None) -> Principal:
        """Return who calls: whom the HTTP app has identified, elsewhere whom `Access` takes a call without a key for.

        Raises:
            UnauthenticatedError: if there is no key and one is needed.
        """
        request = None if ctx is None else ctx.request_context.request
        found = None if request is None else request.scope.get(PRINCIPAL)
        return found if isinstance(found, Principal) else await self.access.identify(None)

    def bound(self, who: Principal) -> str | None:
        """Return the only user that a caller sees here; None for one who names a user."""
        return self.user if self.user is not None else who.user

    def user_id(self, who: Principal, given: str) -> str:
        """Return the user that a call is about.

        Args:
            who: calls.
            given: the user as an argument or an address names them; empty where the server is for one user.

        Raises:
            NotFoundError: if the caller may not see that user: as for one that there is not.
        """
        bound = self.bound(who)
        if bound is None:
            return given
        if given not in ("", bound) or who.user not in (None, bound):
            raise NotFoundError(NOBODY)
        return bound

    @asynccontextmanager
    async def memory(self, ctx: Context, given: str, scope: Scope) -> AsyncIterator[AsyncUserMemory]:
        """Give the memory that a call is about, for as long as it lasts.

        Raises:
            AccessError: if the caller may not do this.
            NotFoundError: if the caller may not see that user.
            InputError: if the user is no usable id.
        """
        who = await self.who(ctx)
        who.require(scope)
        user_id = self.user_id(who, given)
        async with self.access.forest(who) as forest:
            try:
                yield forest.user(user_id)
            except NotFoundError:
                if await forest.has_user(user_id):
                    raise
                raise NotFoundError(NOBODY) from None


def desk_of(ctx: Context) -> Desk:
    """Return the desk of the server that a call came to."""
    return cast("MemoryServer", ctx.mcp_server).desk


def memory_of(ctx: Context, user: str, scope: Scope) -> AbstractAsyncContextManager[AsyncUserMemory]:
    """Return a context with the memory that a call is about; see `Desk.memory`."""
    return desk_of(ctx).memory(ctx, user, scope)
