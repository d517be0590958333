"""Tokens of an OpenID Connect issuer: signed JWTs, checked with the public keys that the issuer shows.

The keys are asked for when they are needed, kept for a while, and not asked for at every stranger's word.
Sources: RFC 7519 (JWT), RFC 8725 (its best practice), RFC 9068 (access tokens), OpenID Connect Discovery 1.0 section 4.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import logging
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast, get_args

from memforest.concurrency import Turns
from memforest.endpoint import check_url
from memforest.errors import ConfigError, InputError, IssuerUnavailableError
from memforest.server.auth import IssuerSettings, Principal, Scope, check_reachable
from memforest.times import Clock, system_clock
from memforest.write.turns import check_id

if TYPE_CHECKING:
    from types import ModuleType


Fetch: TypeAlias = Callable[[str], Coroutine[Any, Any, Mapping[str, Any]]]
"""Returns the JSON object at an address, or raises `IssuerUnavailableError`."""

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
    twice within `IssuerSettings.keys_wait_s`.

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
        stale = self._age() >= self._settings.keys_most_age_s
        is_needed = stale or self._fitting(kid, algorithm) is None
        if is_needed or (self._age() >= self._settings.keys_max_age_s and self._may_ask()):
            async with self._one.turn():  # who needs the answer waits for it, whoever asked
                if self._may_ask():
                    await self._ask()
        if self._age() >= self._settings.keys_most_age_s:
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
        return self._asked is None or self._monotonic() - self._asked >= self._settings.keys_wait_s

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
                "the issuer of tokens calls itself otherwise; --oidc-issuer should be exactly as it does"
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


def fetcher(timeout_s: float) -> Fetch:
    """Return a function that fetches JSON documents by HTTP within a time-out and `MOST_BYTES`, without redirects and cookies."""

    async def fetch(url: str) -> Mapping[str, Any]:
        # Importing the client takes a second.
        http = await asyncio.to_thread(importlib.import_module, "memforest.models.openai_http")
        try:
            async with http.BoundedClient(most_bytes=MOST_BYTES, timeout=timeout_s) as client:
                reply = await client.get(url)
            found = json.loads(reply.content) if reply.status_code == 200 else None
        except (http.HttpError, OSError, ValueError, RecursionError) as exc:
            raise IssuerUnavailableError(
                f"the issuer of tokens does not answer: {type(exc).__name__}"
            ) from exc
        if not isinstance(found, dict):
            raise IssuerUnavailableError(
                f"the issuer of tokens gives no document (HTTP {reply.status_code}); check --oidc-issuer"
            )
        return found

    return fetch


_log = logging.getLogger(__name__)

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
        self._keys = IssuerKeys(settings, monotonic, fetch or fetcher(settings.timeout_s))

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
            header.get("alg") in self.settings.algorithms
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
        now, leeway = self._clock().timestamp(), self.settings.leeway_s
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
