"""Access by keys and tokens: who asks, within which limits, with the memories of which tenant.

Each tenant has a directory of its own below the server's, opened at need and closed when idle. The directory's name is
a hash of the tenant's exact name, like the file name of a user. So no name becomes a path, and two tenants have two
directories on any file system. The bounds of the configuration hold over all tenants together: a memory that was used
longest ago is closed
first, whosever it is, and a tenant of whom nothing is open is let go.

Limits are counted in this process by `limits` (the extra ``[server]``); several server processes count apart.

Tokens of an OpenID Connect issuer are signed JWTs, checked with the public keys that the issuer shows. These are asked for when
they are needed, kept for a while, and not asked for at every stranger's word.
Sources: RFC 7519 (JWT), RFC 8725 (its best practice), RFC 9068 (access tokens), OpenID Connect Discovery 1.0 section 4.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import logging
import math
import re
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast, get_args

from memforest.concurrency import Turns
from memforest.config import Config
from memforest.endpoint import check_url
from memforest.errors import (
    ConfigError,
    InputError,
    IssuerUnavailableError,
    RateLimitError,
    UnauthenticatedError,
)
from memforest.memory.forest import AsyncMemForest
from memforest.memory.together import Together
from memforest.server.auth import AccessSettings, IssuerSettings, Principal, Scope, check_reachable
from memforest.server.keys import PREFIX, KeyStore, KnownKeys
from memforest.store.directory import make_directory
from memforest.times import Clock, system_clock
from memforest.write.turns import check_id

if TYPE_CHECKING:
    from types import ModuleType

    from limits import RateLimitItem

_log = logging.getLogger(__name__)

Fetch: TypeAlias = Callable[[str], Coroutine[Any, Any, Mapping[str, Any]]]
"""Returns the JSON object at an address, or raises `IssuerUnavailableError`."""

ALGORITHMS: tuple[str, ...] = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""How a token may be signed: with a private key, whose public one the issuer shows. Never with a shared secret, and never not
at all (RFC 8725 sections 2.1, 3.1)."""
LEEWAY_S = 30.0
"""How far the issuer's clock and this one may be apart."""
KEYS_AGE_S = 600.0
"""How long the issuer's keys are used before they are asked for again."""
KEYS_MOST_AGE_S = 3_600.0
"""How long they are used when the issuer does not answer; then no token is taken until it does."""
KEYS_WAIT_S = 30.0
"""Least time between two questions to the issuer, however many tokens name keys that are not known."""
FETCH_S = 5.0
"""How long the issuer has for each answer."""
MOST_BYTES = 1 << 20
DISCOVERY = "/.well-known/openid-configuration"
MOST_KEYS = 100
LEAST_RSA_BITS = 2_048
"""RFC 7518 section 3.3."""
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""First letters of an algorithm -> the kind of its keys. A key of another kind is not tried: that is how a public key is
taken for a shared secret."""
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}


class IssuerKeys:
    """The public keys of an issuer, by the key id that a token names.

    The issuer is asked when nothing is known, when what is known is old, and when a token names an unknown key; but never
    twice within `KEYS_WAIT_S`.

    Args:
        settings: of the issuer.
        monotonic: says how late it is, in seconds.
        fetch: reads a document.
    """

    def __init__(self, settings: IssuerSettings, monotonic: Callable[[], float], fetch: Fetch) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._fetch = fetch
        self._one = Turns()
        self._known: tuple[Mapping[str, Any], ...] | None = None
        self._known_at = -math.inf
        self._asked: float | None = None
        self._made: dict[tuple[str, str], Any] = {}

    async def find(self, kid: str | None, algorithm: str) -> Any | None:
        """Return the key of an id and algorithm; None if the issuer has none.

        Args:
            kid: the key's name; None finds the only one for the algorithm.
            algorithm: as the token has it; one that is allowed.

        Raises:
            IssuerUnavailableError: if nothing is known, or only what is too old, and the issuer does not answer.
        """
        stale = self._age() >= KEYS_MOST_AGE_S
        is_needed = stale or self._fitting(kid, algorithm) is None
        if is_needed or (self._age() >= KEYS_AGE_S and self._may_ask()):
            async with self._one.turn():  # who needs the answer waits for it, whoever asked
                if self._may_ask():
                    await self._ask()
        if self._age() >= KEYS_MOST_AGE_S:
            raise IssuerUnavailableError("the issuer of tokens does not answer; no token can be checked")
        fitting = self._fitting(kid, algorithm)
        if fitting is None:
            return None
        name = (str(fitting.get("kid")), algorithm)
        if name not in self._made:
            self._made[name] = _made(fitting, algorithm)
        return self._made[name]

    def _age(self) -> float:
        """Return the age of the known keys in seconds."""
        return self._monotonic() - self._known_at

    def _may_ask(self) -> bool:
        return self._asked is None or self._monotonic() - self._asked >= KEYS_WAIT_S

    async def _ask(self) -> None:
        """Read the issuer's keys; on failure keep the known ones."""
        self._asked = begun = self._monotonic()
        try:
            keys = await self._read()
        except (IssuerUnavailableError, ConfigError) as exc:
            _log.warning("the keys of the issuer of tokens were not read: %s", exc)
            return
        except asyncio.CancelledError:
            if self._known is None:  # whoever comes next asks at once: nobody can be let in before
                self._asked = None
            raise
        self._known, self._known_at = keys, begun
        self._made.clear()

    async def _read(self) -> tuple[Mapping[str, Any], ...]:
        issuer = self._settings.issuer
        described = await self._fetch(issuer.rstrip("/") + DISCOVERY)
        if described.get("issuer") != issuer:
            raise IssuerUnavailableError(
                "the issuer of tokens has another name; --oidc-issuer must be exactly that name"
            )
        where = described.get("jwks_uri")
        if not isinstance(where, str):
            raise IssuerUnavailableError("the issuer of tokens names no jwks_uri")
        check_url(where.partition("?")[0], "jwks_uri of the issuer")
        check_reachable(where, "jwks_uri of the issuer")
        keys = (await self._fetch(where)).get("keys")
        if not isinstance(keys, list):
            raise IssuerUnavailableError("the issuer of tokens shows no keys")
        return tuple(key for key in keys[:MOST_KEYS] if isinstance(key, dict))

    def _fitting(self, kid: str | None, algorithm: str) -> Mapping[str, Any] | None:
        """Return the only key of an id for an algorithm; None if there is none or more than one."""
        found = [
            key
            for key in self._known or ()
            if (kid is None or key.get("kid") == kid) and _is_for(key, algorithm)
        ]
        return found[0] if len(found) == 1 else None


def _is_for(key: Mapping[str, Any], algorithm: str) -> bool:
    """Return whether a key fits an algorithm and is meant for signatures (RFC 7517 section 4)."""
    operations = key.get("key_ops", ["verify"])
    return (
        key.get("kty") == _KINDS[algorithm[:2]]
        and key.get("crv", _CURVES.get(algorithm)) == _CURVES.get(algorithm)
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
        and isinstance(operations, list)
        and "verify" in operations
    )


def _made(key: Mapping[str, Any], algorithm: str) -> Any | None:
    """Return the key object of a JWK; None if it is unusable or too weak."""
    import jwt

    try:
        made = jwt.PyJWK({**key}, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError):
        return None
    if key["kty"] == "RSA" and made.key.key_size < LEAST_RSA_BITS:
        return None
    return made


async def fetch_json(url: str) -> Mapping[str, Any]:
    """Return the JSON object at an address, read by HTTP within `FETCH_S` and `MOST_BYTES`, without redirects and cookies.

    Raises:
        IssuerUnavailableError: if there is none.
    """
    # Importing the client takes a second.
    http = await asyncio.to_thread(importlib.import_module, "memforest.models.openai_http")
    try:
        async with http.BoundedClient(most_bytes=MOST_BYTES, timeout=FETCH_S) as client:
            reply = await client.get(url)
        found = json.loads(reply.content) if reply.status_code == 200 else None
    except (http.HttpError, OSError, ValueError, RecursionError) as exc:
        raise IssuerUnavailableError(f"the issuer of tokens does not answer: {type(exc).__name__}") from exc
    if not isinstance(found, dict):
        raise IssuerUnavailableError(
            f"the issuer of tokens gives no document (HTTP {reply.status_code}); check --oidc-issuer"
        )
    return found


MOST_TOKEN_CHARS = 16_384
TYPES = ("jwt", "at+jwt", "application/at+jwt", "application/jwt")
"""What a token may say that it is; a logout token, say, is signed with the same keys and lets nobody in."""


def looks_like_token(credential: str) -> bool:
    """Return whether a credential has the form of a signed JWT."""
    return credential.count(".") == 2


class Issuer:
    """The check of an issuer's tokens.

    Args:
        settings: whose tokens, and what is read from them.
        clock: says what time it is.
        monotonic: says how old things are, in seconds.
        fetch: reads a document of the issuer; by HTTP when not given.

    Raises:
        ConfigError: if the package that checks signatures is not installed.
    """

    def __init__(
        self,
        settings: IssuerSettings,
        clock: Clock = system_clock,
        monotonic: Callable[[], float] = time.monotonic,
        fetch: Fetch | None = None,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._jwt = _checker()
        self._keys = IssuerKeys(settings, monotonic, fetch or fetch_json)

    async def find(self, token: str) -> Principal | None:
        """Return the caller with a token; None if the token is not valid here and now.

        Raises:
            IssuerUnavailableError: if the issuer's keys are not to be had.
        """
        if len(token) > MOST_TOKEN_CHARS or not token.isascii():
            return None
        header = self._header(token)
        if header is None:
            return None
        key = await self._keys.find(header.get("kid"), header["alg"])
        claims = None if key is None else self._claims(token, key, header["alg"])
        return None if claims is None else self._principal(claims)

    def _header(self, token: str) -> Mapping[str, Any] | None:
        """Return the header of a token; None if it is not acceptable."""
        try:
            header = self._jwt.get_unverified_header(token)
        except (self._jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        kid, kind = header.get("kid"), header.get("typ", "JWT")
        usable = (
            header.get("alg") in ALGORITHMS
            and (kid is None or isinstance(kid, str))
            and isinstance(kind, str)
            and kind.lower() in TYPES
            # What must be understood and is not, is not passed over (RFC 7515 section 4.1.11); here nothing is.
            and "crit" not in header
        )
        return header if usable else None

    def _claims(self, token: str, key: Any, algorithm: str) -> Mapping[str, Any] | None:
        """Return the claims of a token; None unless it is signed by the issuer, for this server, and valid now."""
        try:
            claims: Mapping[str, Any] = self._jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self.settings.issuer,
                audience=self.settings.audience,
                options={
                    "require": ["iss", "aud", "exp"],
                    # By the injected clock, below.
                    **dict.fromkeys(("verify_exp", "verify_nbf", "verify_iat"), False),
                },
            )
        except (self._jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        now, leeway = self._clock().timestamp(), LEEWAY_S
        times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
        if not all(type(one) in (int, float) and math.isfinite(one) for one in times.values()):
            return None  # a time that is no number cannot be kept to
        begun = max(times.get("nbf", -math.inf), times.get("iat", -math.inf))
        return claims if begun - leeway <= now < times["exp"] + leeway else None

    def _principal(self, claims: Mapping[str, Any]) -> Principal | None:
        """Return the caller that claims name; None if they lack a tenant, user or scope."""
        settings, subject = self.settings, claims.get("sub")
        tenant = user = None
        try:
            if settings.tenant_claim is not None:
                tenant = check_id(claims.get(settings.tenant_claim), "tenant")
            if settings.user_claim is not None:
                user = check_id(claims.get(settings.user_claim), "user")
        except InputError:
            _log.warning("a token of the issuer names no tenant or user; see --oidc-tenant-claim")
            return None
        claim, prefix = claims.get(settings.scope_claim), settings.scope_prefix
        names: Sequence[object] = (
            claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else ()
        )
        ours = [one.removeprefix(prefix) for one in names if isinstance(one, str) and one.startswith(prefix)]
        known = frozenset(cast("list[Scope]", [one for one in ours if one in get_args(Scope)]))
        scopes = known or frozenset(settings.default_scopes)
        if not scopes:
            return None
        # Nobody's name in limits and logs.
        identity = repr((settings.issuer, subject, tenant, user)).encode("utf-8", "surrogatepass")
        return Principal(tenant, user, scopes, f"token:{hashlib.sha256(identity).hexdigest()[:16]}")


def _checker() -> ModuleType:
    """Return the module that checks signatures, asymmetric ones included.

    Raises:
        ConfigError: if one of them is not installed.
    """
    try:
        import jwt
        from jwt.algorithms import has_crypto
    except ImportError:
        has_crypto = False
    if not has_crypto:
        raise ConfigError("tokens of an issuer need the extra [server]: pip install 'memforest[server]'")
    return jwt


TENANTS = "tenants"
"""The directory of tenants below a server's."""
SLUG_CHARS = 24
DIGEST_BYTES = 20
"""More than of a user's file, whose contents say whose it is: a directory has only its name."""

_UNSAFE = re.compile(r"[^a-z0-9]+")


def directory_of(server: Path, tenant: str | None) -> Path:
    """Return the directory of a tenant's memories; for None it is the server's own directory.

    Example:
        >>> directory_of(Path("d"), "../../etc").parent.as_posix(), directory_of(Path("d"), None).as_posix()
        ('d/tenants', 'd')
    """
    if tenant is None:
        return server
    plain = unicodedata.normalize("NFKD", tenant).encode("ascii", "ignore").decode().lower()
    slug = _UNSAFE.sub("-", plain).strip("-")[:SLUG_CHARS].strip("-") or "tenant"
    return server / TENANTS / f"{slug}-{blake2b(tenant.encode(), digest_size=DIGEST_BYTES).hexdigest()}"


class Tenants:
    """The open memories of all tenants, lent out and closed when idle.

    Args:
        directory: the server's.
        config: of all tenants; None is `load_default_config()`.

    Raises:
        ConfigError: if it names no model that there is.
    """

    def __init__(self, directory: Path, config: Config | None = None) -> None:
        self._directory = directory
        self._together = Together(config)
        self._lock = threading.Lock()
        self._open: dict[str | None, AsyncMemForest] = {}
        self._uses: Counter[str | None] = Counter()
        self._made = False

    @property
    def config(self) -> Config:
        """The configuration of all memories."""
        return self._together.config

    @property
    def opened(self) -> int:
        """Number of tenants whose memories are open."""
        with self._lock:
            return len(self._open)

    @property
    def open_files(self) -> int:
        """Number of files that the open memories of all tenants hold."""
        return self._together.open_files

    @property
    def cached_bytes(self) -> int:
        """Approximate bytes of the cached snapshots of all tenants."""
        return self._together.cached_bytes

    def directory(self, tenant: str | None) -> Path:
        """Return the directory of a tenant's memories."""
        return directory_of(self._directory, tenant)

    @asynccontextmanager
    async def forest(self, tenant: str | None) -> AsyncIterator[AsyncMemForest]:
        """Yield the memories of a tenant, which stay open while the block lasts.

        Raises:
            StoreWriteError: if the directory of tenants cannot be made.
        """
        if tenant is not None and not self._made:
            for directory in (self._directory, self._directory / TENANTS):
                await asyncio.to_thread(make_directory, directory)
            self._made = True
        with self._lock:
            forest = self._open.get(tenant)
            if forest is None:
                forest = self._open[tenant] = self._together.forest(self.directory(tenant))
            self._uses[tenant] += 1
        try:
            yield forest
        finally:
            with self._lock:
                self._uses[tenant] -= 1
            await self._let_go()

    async def close(self) -> None:
        """Close everything; calls that are under way end with a `StoreClosedError`."""
        with self._lock:
            closing = list(self._open.values())
            self._open.clear()
        for forest in closing:
            await forest.close()
        await self._together.close()

    async def _let_go(self) -> None:
        """Close idle memories beyond the bounds, and forget tenants that have none open."""
        await self._together.trim()
        with self._lock:
            empty = [
                tenant
                for tenant, forest in self._open.items()
                if not self._uses[tenant] and not self._together.opened(forest)
            ]
            for tenant in empty:
                del self._uses[tenant]
            forests = [self._open.pop(tenant) for tenant in empty]
        for forest in forests:
            await forest.close()


SPARE_S = 0.001
"""Said beyond the end of a window, so that who waits as long as was said is let pass."""
SHARE_RETRY_S = 1.0


class Rates:
    """Limits on requests of keys and tenants, counted in sliding windows.

    Args:
        settings: with the rates.

    Raises:
        ConfigError: if a rate is set and `limits` is not installed.
    """

    def __init__(self, settings: AccessSettings) -> None:
        rates = {"key": settings.key_rate, "tenant": settings.tenant_rate}
        self._items: list[tuple[str, RateLimitItem]] = []
        self._lock = threading.Lock()
        if not any(rates.values()):
            return
        try:
            from limits import parse
            from limits.storage import MemoryStorage
            from limits.strategies import MovingWindowRateLimiter
        except ImportError:
            raise ConfigError(
                "limits of requests need the extra [server]: pip install 'memforest[server]'"
            ) from None
        self._limiter = MovingWindowRateLimiter(MemoryStorage())
        self._items = [(whose, parse(rate)) for whose, rate in rates.items() if rate is not None]

    def count(self, principal: Principal) -> None:
        """Count a request; a refused one is not counted.

        Raises:
            RateLimitError: if it is one too many; with the seconds until the next one is let pass.
        """
        names = {"key": _named(principal.tenant, principal.key), "tenant": _named(principal.tenant, "")}
        with self._lock:
            for whose, item in self._items:
                if self._limiter.test(item, whose, names[whose]):
                    continue
                ends = self._limiter.get_window_stats(item, whose, names[whose]).reset_time
                wait = max(0.0, ends - time.time()) + SPARE_S  # noqa: TID251 - the clock of `limits`
                raise RateLimitError(
                    f"more than {item.amount} requests of this {whose} in {item.get_expiry()} s; "
                    f"try again in {wait:.1f} s",
                    retry_after_s=wait,
                )
            for whose, item in self._items:
                self._limiter.hit(item, whose, names[whose])


class Shares:
    """A bound for each tenant on concurrent ingests, downloads or bytes of bodies; no tenant uses another's share.

    Args:
        most: of each tenant.
        what: names it in the message.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._lock = threading.Lock()
        self._taken: Counter[str | None] = Counter()

    def take(self, tenant: str | None, count: int = 1) -> None:
        """Take an amount, to be given back later.

        Raises:
            RateLimitError: if that is more than may be; nothing is taken then.
        """
        with self._lock:
            if self._taken[tenant] + count > self._most:
                raise RateLimitError(
                    f"this tenant has {self._most:,} {self._what} already, the most at once; try again when some have ended",
                    retry_after_s=SHARE_RETRY_S,
                )
            self._taken[tenant] += count

    def give_back(self, tenant: str | None, count: int = 1) -> None:
        """Give back an amount that was taken."""
        with self._lock:
            self._taken[tenant] -= count
            if not self._taken[tenant]:
                del self._taken[tenant]

    @contextmanager
    def one(self, tenant: str | None) -> Iterator[None]:
        """Take one for as long as the block lasts.

        Raises:
            RateLimitError: on entering, if there are as many as may be.
        """
        self.take(tenant)
        try:
            yield
        finally:
            self.give_back(tenant)


def _named(tenant: str | None, key: str) -> str:
    """Return a name that is unique to a tenant and a key: it starts with the tenant's length."""
    return f"-{key}" if tenant is None else f"{len(tenant)}:{tenant}{key}"


NEEDED = "this needs a key: send it as X-API-Key, or as Authorization: Bearer KEY"
REFUSED = "the key or token is unknown, expired or revoked"
"""One sentence for all of them: a stranger learns nothing of what there is."""
ANYBODY = Principal()
MOST_CREDENTIAL_CHARS = 16_384


class KeyedAccess:
    """Access by keys and tokens, within limits, with a directory for each tenant.

    Args:
        directory: the server's: keys are in ``server/``, tenants in ``tenants/``, and the memories of nobody's tenant
            directly in it.
        config: of all memories; None is `load_default_config()`.
        settings: limits, and whose tokens are taken.
        loopback: whether only this machine reaches the server. Then, as long as no key was ever made and there is no issuer,
            everybody may do everything, without limits.
        monotonic: says how old things are, in seconds.
        fetch: reads documents of the issuer; by HTTP when not given.

    Raises:
        ConfigError: if a setting needs an extra that is not installed, or `config` names no model that there is.
    """

    def __init__(
        self,
        directory: str | Path,
        config: Config | None = None,
        settings: AccessSettings | None = None,
        *,
        loopback: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
        fetch: Fetch | None = None,
    ) -> None:
        self.settings = settings or AccessSettings()
        self.tenants = Tenants(Path(directory), config)
        self._loopback = loopback
        clock = steady(self.tenants.config.clock, monotonic)
        self._keys = KnownKeys(KeyStore(Path(directory), clock), clock, monotonic)
        given = self.settings.issuer
        self._issuer = None if given is None else Issuer(given, clock, monotonic, fetch)
        self._rates = Rates(self.settings)
        self._ingests = Shares(self.settings.ingests_per_tenant, "ingests")

    async def identify(self, credential: str | None) -> Principal:
        """Return who makes a request.

        Args:
            credential: the key or token that came with it, without its scheme; None when none did.

        Raises:
            UnauthenticatedError: if there is none and one is needed, or it is unknown, expired or revoked.
            IssuerUnavailableError: if it is a token, and the issuer's keys are not to be had.
            StoreError: if the keys cannot be read. Nobody is let in then.
        """
        found = None
        if credential and len(credential) <= MOST_CREDENTIAL_CHARS:
            if self._issuer is not None and looks_like_token(credential):
                found = await self._issuer.find(credential)
            else:
                found = await self._keys.find(credential)
        if found is not None:
            return found
        # A key that is ours and does not hold is refused also where none is needed: its memories are elsewhere.
        if not (credential or "").startswith(PREFIX) and await self.is_open():
            return ANYBODY
        raise UnauthenticatedError(REFUSED if credential else NEEDED)

    async def is_open(self) -> bool:
        """Return whether no key is needed: the server is reachable from this machine alone and no key was ever made.

        Raises:
            StoreError: if the keys cannot be read.
        """
        return self._loopback and self._issuer is None and not await self._keys.ever()

    async def count(self, principal: Principal) -> None:
        """Count a request against the limits of its key and of its tenant.

        Raises:
            RateLimitError: if it is one too many.
        """
        if principal != ANYBODY:
            self._rates.count(principal)

    @asynccontextmanager
    async def ingesting(self, principal: Principal) -> AsyncIterator[None]:
        """Count an ingest for as long as the block lasts.

        Raises:
            RateLimitError: on entering, if as many of the tenant are under way as may be.
        """
        if principal == ANYBODY:
            yield
            return
        with self._ingests.one(principal.tenant):
            yield

    def forest(self, principal: Principal) -> AbstractAsyncContextManager[AsyncMemForest]:
        """Return a context with the memories of the caller's tenant, which stay open while it lasts."""
        return self.tenants.forest(principal.tenant)

    def directory(self, principal: Principal) -> Path:
        """Return the directory of the memories of the caller's tenant."""
        return self.tenants.directory(principal.tenant)

    async def close(self) -> None:
        """Close all memories, and store the times when keys were last used."""
        try:
            await self._keys.close()
        finally:
            await self.tenants.close()


def steady(clock: Clock, monotonic: Callable[[], float]) -> Clock:
    """Return a clock that does not go back when the system's clock is set back, so that nothing expired is valid again.

    It follows a clock that is set forward and back again, but never falls behind the time that has passed.

    Args:
        clock: says what time it is.
        monotonic: says how much has passed, in seconds.
    """
    begun, since = clock(), monotonic()

    def now() -> datetime:
        return max(clock(), begun + timedelta(seconds=monotonic() - since))

    return now
