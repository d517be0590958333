"""What routes depend on: who asks, what that allows, and with which memories."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from memforest.access import PRINCIPAL, Access, Principal, Scope, credential_of
from memforest.forest.forest import AsyncMemForest


def access_of(request: Request) -> Access:
    """Return what decides on requests of this app."""
    return cast(Access, request.app.state.access)


async def caller(request: Request) -> Principal:
    """Return who asks, counted against the limits; once for each request.

    How one says who one is stands in the document (`memforest.rest.openapi.SECURITY`). FastAPI's own dependencies for that
    would be solved anew wherever this one is asked for, and look at nothing that is used.

    Raises:
        UnauthenticatedError: if no key or token is there that is needed, or it does not hold.
        RateLimitError: if it is one request too many.
    """
    found = request.scope.get(PRINCIPAL)
    if not isinstance(found, Principal):
        access = access_of(request)
        found = await access.identify(credential_of(request.headers))
        await access.count(found)
        request.scope[PRINCIPAL] = found
    return found


Who = Annotated[Principal, Depends(caller)]
"""Who asks."""


@dataclass(frozen=True, slots=True)
class Needs:
    """A dependency that lets only those pass who have a scope."""

    scope: Scope

    async def __call__(self, who: Who) -> None:
        """Raise unless the caller has the scope."""
        who.require(self.scope)


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
