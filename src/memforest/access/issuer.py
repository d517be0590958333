"""Tokens of an OpenID Connect issuer: signed JWTs, checked with the keys that the issuer shows.

Sources: RFC 7519 (JWT), RFC 8725 (its best practice), RFC 9068 (access tokens), OpenID Connect Discovery 1.0 section 4.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from memforest.access.issuer_keys import Fetch, IssuerKeys, fetcher
from memforest.access.principal import Principal, Scope
from memforest.access.settings import IssuerSettings
from memforest.clock import Clock, system_clock
from memforest.errors import ConfigError, InputError
from memforest.memory.ingest.turns import check_id

if TYPE_CHECKING:
    from types import ModuleType

_log = logging.getLogger(__name__)

MOST_TOKEN_CHARS = 16_384
TYPES = ("jwt", "at+jwt", "application/at+jwt", "application/jwt")
"""What a token may say that it is; a logout token, say, is signed with the same keys and lets nobody in."""
MOST_SUBJECT_CHARS = 1_000


def looks_like_token(credential: str) -> bool:
    """Return whether something has the form of a signed JWT."""
    return credential.count(".") == 2


class Issuer:
    """Says who has a token.

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
        """Return who has a token; None if it is not valid here and now, for whatever reason.

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
        """Return the header of a token, None if such a one is not taken."""
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
        """Return what a token says, if it is signed, from this issuer, for this server, and valid now."""
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
        return claims if self._is_now(claims) else None

    def _is_now(self, claims: Mapping[str, Any]) -> bool:
        """Return whether a token is valid now; a time that is no number is none that can be kept to."""
        now, leeway = self._clock().timestamp(), self.settings.leeway_s
        times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
        if not all(type(one) in (int, float) and math.isfinite(one) for one in times.values()):
            return False
        begun = max(times.get("nbf", -math.inf), times.get("iat", -math.inf))
        return bool(begun - leeway <= now < times["exp"] + leeway)

    def _principal(self, claims: Mapping[str, Any]) -> Principal | None:
        """Return who has a token, None if it does not say so."""
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
        scopes = self._scopes(claims.get(settings.scope_claim))
        if not scopes:
            return None
        # Nobody's name in limits and logs.
        told = repr((settings.issuer, subject, tenant, user)).encode("utf-8", "surrogatepass")
        return Principal(tenant, user, scopes, f"token:{hashlib.sha256(told).hexdigest()[:16]}")

    def _scopes(self, claim: object) -> frozenset[Scope]:
        prefix = self.settings.scope_prefix
        given: Sequence[object] = (
            claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else ()
        )
        ours = [one.removeprefix(prefix) for one in given if isinstance(one, str) and one.startswith(prefix)]
        known = frozenset(cast("list[Scope]", [one for one in ours if one in get_args(Scope)]))
        return known or frozenset(self.settings.default_scopes)


def _checker() -> ModuleType:
    """Return the package that checks signatures; asymmetric ones take its own extra.

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
