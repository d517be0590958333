"""Settings of who may do what at a server: limits, and an issuer of tokens."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from memforest.access.principal import Scope
from memforest.endpoint import check_url
from memforest.errors import ConfigError
from memforest.settings import Bound, Count, Settings, brief

ALGORITHMS: tuple[str, ...] = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""How a token may be signed: with a private key, whose public one the issuer shows. Never with a shared secret, and never not
at all (RFC 8725 sections 2.1, 3.1)."""

_RATE = re.compile(
    r"\s*[1-9]\d{0,8}\s*(/|per)\s*([1-9]\d{0,3}\s*)?(second|minute|hour|day)s?\s*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class IssuerSettings(Settings):
    """Whose tokens are taken, and what is read from them.

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
    algorithms: Sequence[str] = ALGORITHMS
    """How tokens may be signed."""
    leeway_s: Annotated[float, Bound(ge=0, le=300)] = 30.0
    """How far the issuer's clock and this one may be apart."""
    keys_max_age_s: Annotated[float, Bound(ge=1)] = 600.0
    """How long the issuer's keys are used before they are asked for again."""
    keys_most_age_s: Annotated[float, Bound(ge=1)] = 3_600.0
    """How long they are used when the issuer does not answer; then no token is taken until it does."""
    keys_wait_s: Annotated[float, Bound(ge=1)] = 30.0
    """Least seconds between two questions to the issuer, however many tokens name keys that are not known."""
    timeout_s: Annotated[float, Bound(gt=0, le=60)] = 5.0
    """How long the issuer has for each answer."""

    def _check(self) -> None:
        """Refuse addresses that anybody could answer for, and algorithms with a shared secret."""
        check_url(self.issuer, "oidc issuer")
        check_reachable(self.issuer, "oidc issuer")
        for name in ("audience", "scope_claim"):
            if not getattr(self, name).strip():
                raise ConfigError(
                    f"IssuerSettings({name}=...) is empty; name what tokens of this server have"
                )
        if not self.algorithms or (wrong := sorted(set(self.algorithms) - set(ALGORITHMS))):
            shown = brief(wrong[0]) if self.algorithms else "none"
            raise ConfigError(
                f"IssuerSettings(algorithms=...) takes {', '.join(ALGORITHMS)}, not {shown}: a secret that the issuer "
                "and this server share would let this server's reader make tokens"
            )
        if self.keys_most_age_s < self.keys_max_age_s:
            raise ConfigError("IssuerSettings(keys_most_age_s=...) should be at least keys_max_age_s")
        for name in ("default_scopes", "algorithms"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class AccessSettings(Settings):
    """Limits of a server, and whose tokens it takes.

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
        """Refuse rates that are none."""
        for name in ("key_rate", "tenant_rate"):
            rate = getattr(self, name)
            if rate is not None and _RATE.fullmatch(rate) is None:
                raise ConfigError(
                    f"AccessSettings({name}={brief(rate)}) is no rate; write one such as '600/minute' or '10/second'"
                )


def is_loopback(host: str) -> bool:
    """Return whether an address that a server listens on, or a client names, is this machine alone.

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
    """Refuse to listen where others could reach memories that nothing guards.

    Args:
        host: the address to listen on.
        keyed: whether a key was ever made for the server, or it takes the tokens of an issuer.

    Raises:
        ConfigError: if there is no key and the address is not this machine's alone; it says what to do.
    """
    if not keyed and not is_loopback(host):
        raise ConfigError(
            f"without a key memforest listens on this machine alone, not on {brief(host)}: make a key first "
            "(memforest keys create NAME), or give --oidc-issuer and --oidc-audience, or --host 127.0.0.1"
        )


def check_reachable(url: str, name: str) -> None:
    """Refuse an address that is asked in clear text, unless it is this machine's.

    Raises:
        ConfigError: if it is one.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ConfigError(f"{name} should be an https address: its keys decide who is let in")
