"""Who may do what at a server: keys and tokens, tenants and their memories, limits."""

from memforest.access.access import Access, OpenAccess
from memforest.access.principal import ALL_SCOPES, Principal, Scope

__all__ = ["ALL_SCOPES", "Access", "OpenAccess", "Principal", "Scope"]
