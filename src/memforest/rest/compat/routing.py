"""How the routes of facades are registered: out of the OpenAPI description; those of mem0 with and without the slash at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import APIRouter, Depends
from starlette.convertors import PathConvertor, register_url_convertor

from memforest.access import Scope
from memforest.rest.compat.wire import FacadeRoute
from memforest.rest.deps import Needs

PREFIX = "/compat/mem0"


class _Rest(PathConvertor):
    """The rest of a path, whatever is in it: a user's id may hold a line break."""

    regex = "(?s:.*)"


register_url_convertor("rest", _Rest())

F = TypeVar("F", bound=Callable[..., Any])


def facade(prefix: str = PREFIX) -> APIRouter:
    """Return a router for routes of a facade, mem0's unless another beginning of their paths is given."""
    return APIRouter(prefix=prefix, route_class=FacadeRoute, include_in_schema=False)


def route(router: APIRouter, method: str, path: str, scope: Scope | None) -> Callable[[F], F]:
    """Return a decorator that makes a function the answer to a method and path.

    Args:
        router: that gets the route.
        method: of HTTP.
        path: with the slash at the end that mem0's client sends.
        scope: what the caller must be allowed; None for whoever has a key.
    """

    def register(function: F) -> F:
        for one in (path, path.rstrip("/")):
            router.add_api_route(
                one,
                function,
                methods=[method],
                dependencies=[] if scope is None else [Depends(Needs(scope))],
                response_model=None,
            )
        return function

    return register
