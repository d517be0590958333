"""What a request says of who asks: the key or token among its headers, and the name it calls the server by."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memforest.access.settings import is_loopback
from memforest.errors import UnauthenticatedError

KEY_HEADER = "X-API-Key"
SCHEMES = ("bearer", "token")
"""Schemes of ``Authorization`` that carry a key; ``Token`` is what mem0's client sends."""
SEVERAL = "different keys came with this request; send one, in one header"


def credential_of(headers: Mapping[str, str]) -> str | None:
    """Return the key or token that came with a request; None when none did. REST and MCP read it here alike.

    Args:
        headers: of the request; one that came twice is there twice among its items, as in Starlette's `Headers`.

    Example:
        >>> credential_of({"X-API-Key": "mfk_1"}), credential_of({"Authorization": "Basic abc"})
        ('mfk_1', None)

    Raises:
        UnauthenticatedError: if several came that differ. What stands before the server may have checked any of them.
    """
    found = {credential for name, value in headers.items() if (credential := _carried(name.lower(), value))}
    if len(found) > 1:
        raise UnauthenticatedError(SEVERAL)
    return next(iter(found), None)


def _carried(name: str, value: str) -> str:
    """Return the key or token that a header carries; nothing if it carries none."""
    if name == KEY_HEADER.lower():
        return value.strip()
    scheme, _, credential = value.partition(" ")
    return credential.strip() if name == "authorization" and scheme.lower() in SCHEMES else ""


def from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Return whether a browser says that another site's page, or another server's on this machine, has caused a request.

    It says so also of a picture and of a link, which name no ``Origin``.
    Source: https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header
    """
    return headers.get("sec-fetch-site", "none").strip().lower() not in ("none", "same-origin")


def is_local_host(host: str, others: Collection[str] = ()) -> bool:
    """Return whether a ``Host`` header names this machine itself, or one of some other names.

    Another site's name may be made to point here, and a browser then reads for that site what it may not: without keys
    the name is all that tells.

    Args:
        host: the header, with or without a port.
        others: further names that are allowed; a port behind one says nothing.

    Example:
        >>> is_local_host("127.0.0.1:8420"), is_local_host("[::1]"), is_local_host("evil.example")
        (True, True, False)
    """
    name = _name_of(host)
    if name is None:
        return False
    return name in map(_name_of, others) or is_loopback(name)


def _name_of(host: str) -> str | None:
    """Return a host without its port, and an address of IPv6 without its brackets; None if it is none."""
    name = host.strip().lower()
    if not name.startswith("["):
        return name.partition(":")[0]
    name, closed, port = name[1:].partition("]")
    good = closed and (not port or (port[0] == ":" and (port[1:].isdigit() or port[1:] == "*")))
    return name if good else None
