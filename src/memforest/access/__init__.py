"""Who may do what at a server: keys and tokens, tenants and their memories, limits."""

from memforest.access.access import Access, OpenAccess
from memforest.access.headers import credential_of, from_elsewhere, is_local_host
from memforest.access.keyed import KeyedAccess
from memforest.access.principal import ALL_SCOPES, PRINCIPAL, Principal, Scope
from memforest.access.rates import Shares
from memforest.access.settings import AccessSettings, IssuerSettings, is_loopback, may_bind

__all__ = [
    "ALL_SCOPES",
    "PRINCIPAL",
    "Access",
    "AccessSettings",
    "IssuerSettings",
    "KeyedAccess",
    "OpenAccess",
    "Principal",
    "Scope",
    "Shares",
    "credential_of",
    "from_elsewhere",
    "is_local_host",
    "is_loopback",
    "may_bind",
]
