"""Authentication and authorization for all front ends: who the caller is, what they may do, and with which memories.

Who makes a request, and what that allows.

Settings of who may do what at a server: limits, and an issuer of tokens.

What a request says of who asks: the key or token among its headers, and the name it calls the server by.

Errors as servers answer and log them: the status of each class, and the place of one that nobody expected, never its text.
"""

from __future__ import annotations

import errno
import ipaddress
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import urlsplit

from memforest import errors
from memforest.endpoint import check_url
from memforest.errors import ConfigError, ForbiddenError, UnauthenticatedError
from memforest.memory.forest import AsyncMemForest
from memforest.memory.pool import no_memory
from memforest.settings import Count, Settings, brief
from memforest.text import cut
from memforest.times import one_line

PRINCIPAL = "memforest.principal"
"""Where the scope of a request in ASGI holds who makes it, from when the key was looked at."""

Scope = Literal["read", "write", "delete", "admin"]
"""What a key allows: to ask and look; to add and correct; to delete and forget; to list users, check and rebuild."""

ALL_SCOPES: frozenset[Scope] = frozenset(("read", "write", "delete", "admin"))


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request.

    `tenant` is whose memories are meant; None is the server's own directory, without tenants. `user` is the only
    user that the caller sees, None for all of the tenant. `key` names the key or the subject of the token for limits; it is
    nobody's secret.
    """

    tenant: str | None = None
    user: str | None = None
    scopes: frozenset[Scope] = ALL_SCOPES
    key: str = "anonymous"

    def require(self, scope: Scope) -> None:
        """Raise unless the caller has a scope.

        Raises:
            ForbiddenError: if the caller lacks it.
        """
        if scope not in self.scopes:
            raise ForbiddenError(f"this needs a key with the scope {scope!r}")

    def user_id(self, given: str) -> str:
        """Return the user of a request, if the caller may act for them.

        Raises:
            NotFoundError: if the caller may not see that user: as for one that there is not.
        """
        if self.user is not None and given != self.user:
            raise no_memory(given)
        return given


class Access(Protocol):
    """The protocol of access decisions, which every front end uses."""

    async def identify(self, credential: str | None) -> Principal:
        """Return the caller of a request.

        Args:
            credential: the key or token that came with it, without its scheme; None when none did.

        Raises:
            UnauthenticatedError: if there is none and one is needed, or it is unknown, expired or revoked.
        """
        ...

    async def count(self, principal: Principal) -> None:
        """Count a request against the limits.

        Raises:
            RateLimitError: if it is one too many.
        """
        ...

    def ingesting(self, principal: Principal) -> AbstractAsyncContextManager[None]:
        """Return a context that counts an ingest; entering it raises `RateLimitError` when the tenant is at its bound."""
        ...

    def forest(self, principal: Principal) -> AbstractAsyncContextManager[AsyncMemForest]:
        """Return a context with the memories of the caller's tenant, which stay open while it lasts."""
        ...

    def directory(self, principal: Principal) -> Path:
        """Return the directory of the memories of the caller's tenant."""
        ...

    async def close(self) -> None:
        """Close all memories that it has opened."""
        ...


class OpenAccess:
    """Access without keys to one forest: for a server on loopback, and for a host app that checks callers itself.

    Args:
        forest: whose memories.
        owned: close it with this.
    """

    def __init__(self, forest: AsyncMemForest, *, owned: bool = False) -> None:
        self._forest = forest
        self._owned = owned

    async def identify(self, credential: str | None) -> Principal:
        """Return the same caller for every request."""
        return Principal()

    async def count(self, principal: Principal) -> None:
        """Let every request pass."""

    @asynccontextmanager
    async def ingesting(self, principal: Principal) -> AsyncIterator[None]:
        """Let every ingest pass."""
        yield

    @asynccontextmanager
    async def forest(self, principal: Principal) -> AsyncIterator[AsyncMemForest]:
        """Yield the one forest."""
        yield self._forest

    def directory(self, principal: Principal) -> Path:
        """Return the forest's directory."""
        return self._forest.directory

    @property
    def open_files(self) -> int:
        """Number of files that the open memories hold."""
        return self._forest._pool.open_files

    @property
    def cached_bytes(self) -> int:
        """Approximate bytes of cached snapshots."""
        return self._forest._pool.cached_bytes

    async def close(self) -> None:
        """Close the forest, if this object owns it."""
        if self._owned:
            await self._forest.close()


_RATE = re.compile(
    r"\s*[1-9]\d{0,8}\s*(/|per)\s*([1-9]\d{0,3}\s*)?(second|minute|hour|day)s?\s*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class IssuerSettings(Settings):
    """Settings of a token issuer: which tokens are accepted, and which claims are read.

    A token says more than who somebody is. By default it must name its tenant, sees only the user who is its subject, and
    allows to read, unless it has scopes of memforest.
    """

    issuer: str
    """The issuer's address, exactly as tokens have it in ``iss``; https, but on this machine."""
    audience: str
    """What tokens must name in ``aud``: this server. A token for another service is none for this one."""
    tenant_claim: str | None = "tenant"
    """The claim that names the tenant; a token without it is refused. None: all are for the server's own directory."""
    user_claim: str | None = "sub"
    """The claim that names the only user that a token sees; a token without it is refused. None: tokens see all users of their
    tenant."""
    scope_claim: str = "scope"
    """The claim that holds scopes: a text with spaces between them, or a list."""
    scope_prefix: str = "memforest:"
    """What memforest's scopes begin with there, as in ``memforest:read``; others are passed over, as they are for other
    services."""
    default_scopes: Sequence[Scope] = ("read",)
    """What a token allows that has no scope of memforest; with none it is refused."""

    def _check(self) -> None:
        """Raise for addresses without TLS, and for names that are empty."""
        check_url(self.issuer, "oidc issuer")
        check_reachable(self.issuer, "oidc issuer")
        for name in ("audience", "scope_claim"):
            if not getattr(self, name).strip():
                raise ConfigError(
                    f"IssuerSettings({name}=...) is empty; give the value that tokens for this server have"
                )
        object.__setattr__(self, "default_scopes", tuple(self.default_scopes))


@dataclass(frozen=True, slots=True)
class AccessSettings(Settings):
    """Settings of a server's limits and its token issuer.

    Who needs no key (a server on loopback for which none was ever made) has no limits either.
    """

    key_rate: str | None = "600/minute"
    """Most requests of one key or one token's subject, such as ``"600/minute"`` or ``"10 per second"``; None for any number."""
    tenant_rate: str | None = "6000/minute"
    """Most requests of a tenant with all its keys."""
    ingests_per_tenant: Count = 16
    """Most ingests of a tenant at once."""
    issuer: IssuerSettings | None = None
    """Whose tokens are taken beside keys; None for nobody's."""

    def _check(self) -> None:
        """Raise for rates that are not positive."""
        for name in ("key_rate", "tenant_rate"):
            rate = getattr(self, name)
            if rate is not None and _RATE.fullmatch(rate) is None:
                raise ConfigError(
                    f"AccessSettings({name}={brief(rate)}) is not a rate; write one such as '600/minute' or '10/second'"
                )


def is_loopback(host: str) -> bool:
    """Return whether an address is a loopback address.

    Example:
        >>> [is_loopback(one) for one in ("127.0.0.1", "::1", "[::1]", "localhost", "0.0.0.0", "", "localhost.example")]
        [True, True, True, True, False, False, False]
    """
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def may_bind(host: str, keyed: bool) -> None:
    """Raise if a server without keys would listen beyond loopback.

    Args:
        host: the address to listen on.
        keyed: whether a key was ever made for the server, or it takes the tokens of an issuer.

    Raises:
        ConfigError: if there is no key and the address is not this machine's alone; it says what to do.
    """
    if not keyed and not is_loopback(host):
        raise ConfigError(
            f"without a key memforest listens on this machine only, not on {brief(host)}: make a key first "
            "(memforest keys create NAME), or give --oidc-issuer and --oidc-audience, or --host 127.0.0.1"
        )


def check_reachable(url: str, name: str) -> None:
    """Raise for a plain HTTP address that is not loopback.

    Raises:
        ConfigError: if it is one.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ConfigError(f"{name} must be an https address: its keys decide who may enter")


KEY_HEADER = "X-API-Key"
SCHEMES = ("bearer", "token")
"""Schemes of ``Authorization`` that carry a key; ``Token`` is what mem0's client sends."""
SEVERAL = "different keys came with this request; send one, in one header"


def credential_of(headers: Mapping[str, str]) -> str | None:
    """Return the key or token of a request, None if it has none; for REST and MCP.

    Args:
        headers: of the request; one that came twice is there twice among its items, as in Starlette's `Headers`.

    Example:
        >>> credential_of({"X-API-Key": "mfk_1"}), credential_of({"Authorization": "Basic abc"})
        ('mfk_1', None)

    Raises:
        UnauthenticatedError: if several came that differ. What stands before the server may have checked any of them.
    """
    credentials = set()
    for name, value in headers.items():
        if name.lower() == KEY_HEADER.lower():
            credentials.add(value.strip())
        elif name.lower() == "authorization":
            scheme, _, credential = value.partition(" ")
            if scheme.lower() in SCHEMES:
                credentials.add(credential.strip())
    credentials.discard("")
    if len(credentials) > 1:
        raise UnauthenticatedError(SEVERAL)
    return next(iter(credentials), None)


def place_of_origin(origin: str) -> str | None:
    """Return the host and port of an origin; None for one without, such as ``null``."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Return whether a browser's headers say that another origin's page has caused a request.

    It says so also of a picture and of a link, which name no ``Origin``.
    Source: https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header
    """
    return headers.get("sec-fetch-site", "none").strip().lower() not in ("none", "same-origin")


def is_local_host(host: str, others: Collection[str] = ()) -> bool:
    """Return whether a ``Host`` header names loopback or one of the given names.

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
    """Return a host without port and brackets of IPv6; None if the text is not a host."""
    name = host.strip().lower()
    if not name.startswith("["):
        return name.partition(":")[0]
    name, closed, port = name[1:].partition("]")
    good = closed and (not port or (port[0] == ":" and (port[1:].isdigit() or port[1:] == "*")))
    return name if good else None


def is_full(error: BaseException) -> bool:
    """Return whether an error or its cause says that a disk or quota is full.

    SQLite's own is told by its phrase, as Python 3.10 has no error codes.
    """
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            return False
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if "disk is full" in str(seen).lower():
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def place_of(error: BaseException) -> str:
    """Return the module and line number of the innermost memforest frame of an error.

    Example:
        >>> place_of(ValueError("never raised"))
        '?'
    """
    found, trace = "?", error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", "?"))
        if found == "?" or module.startswith("memforest"):
            found = f"{module}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


TOLD: tuple[tuple[type[errors.MemForestError], int, str], ...] = (
    (errors.UnauthenticatedError, 401, ""),
    (errors.ForbiddenError, 403, ""),
    (errors.RateLimitError, 429, ""),
    (errors.IssuerUnavailableError, 503, ""),
    (errors.AccessError, 500, ""),
    (errors.NotFoundError, 404, ""),
    (errors.SessionConflictError, 409, ""),
    (errors.CorrectionError, 409, ""),
    (errors.IdempotencyError, 409, ""),
    (errors.InputError, 422, ""),
    (errors.StoreLockedError, 423, "another process is writing to this memory; try again"),
    (errors.StoreClosedError, 503, "the memory was closed meanwhile; try again"),
    (errors.StoreReplacedError, 503, "the memory was deleted or replaced meanwhile; try again"),
    (
        errors.CorruptStoreError,
        503,
        "the memory is damaged; `memforest maintain verify` says where, `memforest maintain repair` mends it",
    ),
    (errors.StoreKeyError, 503, "the memory's encryption does not fit the server's key"),
    (errors.SchemaVersionError, 503, "another version of memforest wrote the memory"),
    (
        errors.IndexStateError,
        503,
        "the trees of an index cannot be made; the other indexes are not concerned",
    ),
    (
        errors.StoreWriteError,
        503,
        "the memory cannot be read or written; its disk or directory needs attention",
    ),
    (errors.StoreError, 503, "the memory cannot be used now; `memforest doctor` says why"),
    (errors.BudgetError, 503, "the call's budget for models is used up; what was made stays"),
    (errors.ModelRequestError, 503, "the model does not accept this request: it may be too long"),
    (
        errors.StepError,
        503,
        "a model's reply could not be used; what was received is stored, and resume goes on",
    ),
    (errors.EmbedderMismatchError, 503, "the memory was made with another embedder than the server's"),
    (errors.WeightsError, 503, "the weights of a model cannot be used; the server's log says more"),
    (errors.ModelRefusedError, 503, "a model refuses the server's requests; its settings need attention"),
    (errors.ModelError, 503, "a model cannot be reached; what was received is stored, try again"),
    (errors.ConfigError, 422, "the server's configuration does not allow this"),
    (
        errors.SomeUsersFailedError,
        500,
        "it failed for some users and was done for the others; the server's log names them",
    ),
    (errors.MemForestError, 500, "the server could not do this; its log says more"),
)
"""Class of an error, its HTTP status, and what is told of it, the first that fits; nothing where its message is about what was
asked, and is told as it is."""
FULL = "the disk of the server is full; what was received before is kept, and resume goes on with it when there is room"

DETAIL_CHARS = 2_000
_PLACE = re.compile(r"://|(?:^|[\s'\"=(])(?:~?/|[A-Za-z]:[\\/])\S")
"""An address or a path."""


def told_of(kind: type[errors.MemForestError]) -> tuple[int, str]:
    """Return the HTTP status of a class of error, and the text that takes the place of its message; empty where that is told."""
    return next((status, text) for known, status, text in TOLD if issubclass(kind, known))


def status_of(error: errors.MemForestError) -> int:
    """Return the HTTP status of an error."""
    is_out = isinstance(error, errors.StoreWriteError) and is_full(error)
    return 507 if is_out else told_of(type(error))[0]


def detail_of(error: errors.MemForestError) -> str:
    """Return the detail of an error that the caller may see."""
    _, fixed = told_of(type(error))
    if not fixed or (isinstance(error, errors.ConfigError) and not _PLACE.search(str(error))):
        return str(error)[:DETAIL_CHARS]
    return FULL if status_of(error) == 507 else fixed


MOST_SENTENCE = 400


def as_sentence(text: str) -> str:
    """Return a text on one line, cut where it is long, with a capital letter and a full stop."""
    text = cut(one_line(text), MOST_SENTENCE)
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
