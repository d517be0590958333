"""What routes depend on: who asks, what that allows, and with which memories."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Annotated, Any, cast

from fastapi import Depends, Request

from memforest.access import Access, Principal, Scope, credential_of
from memforest.forest.forest import AsyncMemForest

__all__ = ["Again", "Forest", "Ingesting", "Who", "access_of", "caller", "needs"]


def access_of(request: Request) -> Access:
    """Return what decides on requests of this app."""
    return cast(Access, request.app.state.access)


async def caller(request: Request) -> Principal:
    """Return who asks, counted against the limits.

    How one says who one is stands in the document (`memforest.rest.openapi.SECURITY`). FastAPI's own dependencies for that
    would be solved anew wherever this one is asked for, and look at nothing that is used.

    Raises:
        UnauthenticatedError: if no key or token is there that is needed, or it does not hold.
        RateLimitError: if it is one request too many.
    """
    access = access_of(request)
    who = await access.identify(credential_of(request.headers))
    await access.count(who)
    return who


Who = Annotated[Principal, Depends(caller)]
"""Who asks."""


def needs(scope: Scope) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return a dependency that lets only those pass who have a scope."""

    async def check(who: Who) -> None:
        who.require(scope)

    return check


async def forest_of(request: Request, who: Who) -> AsyncIterator[AsyncMemForest]:
    """Give the memories of the caller's tenant for as long as the request lasts."""
    async with access_of(request).forest(who) as forest:
        yield forest


Forest = Annotated[AsyncMemForest, Depends(forest_of)]
"""The memories of the caller's tenant."""


async def ingesting_of(request: Request, who: Who) -> AsyncIterator[None]:
    """Count the request among the ingests of the caller's tenant for as long as it lasts."""
    async with access_of(request).ingesting(who):
        yield


Ingesting = Depends(ingesting_of)
"""Of a route that ingests: one too many is refused."""


async def again_of(request: Request) -> Callable[[], Awaitable[Principal]]:
    """Return what asks anew who has sent a request, for an answer that goes on for long; it raises as at first."""
    credential = credential_of(request.headers)
    return lambda: access_of(request).identify(credential)


Again = Annotated[Callable[[], Awaitable[Principal]], Depends(again_of)]
"""Who asks, asked anew."""
