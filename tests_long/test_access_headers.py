"""Tests of what a request says of who asks: one reading of keys, for every front end."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

from starlette.datastructures import Headers
from tests.table import each

from memforest.errors import UnauthenticatedError
from memforest.server.auth import credential_of, is_local_host

KEY = "mfk_0"


@each(
    ("headers", "found"),
    [
        ({}, None),
        ({"X-API-Key": KEY}, KEY),
        ({"X-API-Key": "", "Authorization": f"Bearer {KEY}"}, KEY),
        ({"X-API-Key": KEY, "Authorization": f"Bearer {KEY}"}, KEY),
        ({"X-API-Key": KEY, "Authorization": "Basic other"}, KEY),
        ({"X-API-Key": f" {KEY}\t"}, KEY),
        ({"x-api-key": KEY}, KEY),
        ({"Authorization": f"bearer {KEY}"}, KEY),
        ({"Authorization": f"Token {KEY}"}, KEY),
        ({"Authorization": f"Bearer   {KEY} "}, KEY),
        ({"Authorization": "Bearer"}, None),
        ({"Authorization": "Bearer "}, None),
        ({"Authorization": KEY}, None),
        ({"Authorization": f"Basic {KEY}"}, None),
        ({"Authorization": f" Bearer {KEY}"}, None),
    ],
)
def test_a_key_is_read_from_the_headers_that_carry_one(headers: dict[str, str], found: str | None) -> None:
    """Of `Authorization` two schemes are read, in any case, and no other; the same key may come twice."""
    assert credential_of(headers) == found


@each(
    "several",
    [
        [("x-api-key", KEY), ("authorization", "Bearer other")],
        [("x-api-key", "other"), ("authorization", f"Token {KEY}")],
        [("x-api-key", KEY), ("x-api-key", "other")],
        [("authorization", f"Bearer {KEY}"), ("authorization", "Bearer other")],
    ],
)
def test_keys_that_differ_let_nobody_in(several: list[tuple[str, str]]) -> None:
    """Whichever counted, something that stands before the server may have checked another one."""
    headers = Headers(raw=[(name.encode(), value.encode()) for name, value in several])
    with pytest.raises(UnauthenticatedError):
        credential_of(headers)


def test_rest_and_mcp_read_keys_alike() -> None:
    """Neither has a reading of its own: what passes one door passes the other."""
    pytest.importorskip("fastapi")
    pytest.importorskip("mcp.server.mcpserver")
    from memforest.server.mcp import http
    from memforest.server.rest import routing as deps

    assert vars(http)["credential_of"] is vars(deps)["credential_of"] is credential_of


@each(
    ("host", "local"),
    [
        ("localhost", True),
        ("LOCALHOST:8420", True),
        ("127.0.0.1:8420", True),
        ("127.9.9.9", True),
        ("[::1]:8420", True),
        ("[::1]", True),
        ("[::ffff:127.0.0.1]:8420", True),
        ("[::ffff:10.0.0.1]", False),
        ("localhost.", True),
        ("memory.example:443", True),
        ("memory.example.evil", False),
        ("localhost.evil", False),
        ("[::1", False),
        ("[::1]evil", False),
        ("[::1]:x", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_which_names_are_this_machine(host: str, local: bool) -> None:
    """Its own names, addresses of loopback, and names that are allowed, whatever the port."""
    assert is_local_host(host, ["memory.example:*"]) is local


def test_a_further_name_may_be_an_address_with_colons() -> None:
    """As options and `Host` write it, in brackets; another address that begins alike is another."""
    allowed = ("[fd00::1]:*", "memory.lan:8420")
    for host in ("[fd00::1]", "[FD00::1]:8420", "memory.lan:1"):
        assert is_local_host(host, allowed), host
    for host in ("[fd00::2]:8420", "[fd00", "fd00", "", "[fd00::1]evil"):
        assert not is_local_host(host, allowed), host
