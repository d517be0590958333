"""Who may do what at a server: keys and tokens, tenants and their memories, limits."""

from memforest.access.access import Access, OpenAccess
from memforest.access.keyed import KeyedAccess
from memforest.access.principal import ALL_SCOPES, Principal, Scope
from memforest.access.settings import AccessSettings, IssuerSettings, is_loopback, may_bind

__all__ = [
    "ALL_SCOPES",
    "Access",
    "AccessSettings",
    "IssuerSettings",
    "KeyedAccess",
    "OpenAccess",
    "Principal",
    "Scope",
    "is_loopback",
    "may_bind",
]
