"""Settings of a server: what it serves beside REST, whom it lets in, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import urlsplit

from memforest.access import AccessSettings
from memforest.errors import ConfigError
from memforest.intake import IntakeBounds
from memforest.settings import Bound, Settings, brief

END_S = 30.0
"""A server that was told to end has ended by then."""


SPARE_S = 5.0
"""Of these, what closing the memories may take."""


@dataclass(frozen=True, slots=True)
class ServerSettings(Settings):
    """What a server does beside answering REST.

    The memories and models are `Config`'s.
    """

    host: str = "127.0.0.1"
    """The address that it listens on; another than this machine's own takes a key, see `memforest keys`."""
    access: AccessSettings = field(default_factory=AccessSettings)
    """Limits, and whose tokens are taken."""
    jobs: IntakeBounds = field(default_factory=IntakeBounds)
    """What ingest jobs may take."""
    origins: Sequence[str] = ()
    """Origins of pages that may use REST from a browser (CORS)."""
    hosts: Sequence[str] = ()
    """What the header ``Host`` may be where a request without a key may be served, and at ``/mcp``, beside the names of this
    machine: ``"memory.example:*"`` for any port."""
    address: str | None = None
    """The server's address as clients know it, such as ``"https://memory.example"``; for MCP's metadata of tokens. Its host is
    one that requests to ``/mcp`` may name, where keys or tokens are needed."""
    mcp: bool = True
    """Serve the Model Context Protocol at ``/mcp``."""
    tools: Literal["read", "default", "full", "openai"] = "default"
    """Which tools MCP has; see ``docs/mcp.md``."""
    ui: bool = True
    """Serve the inspector at ``/ui``."""
    grace_s: Annotated[float, Bound(ge=0, le=10)] = 1.0
    """How long it still accepts connections when it was told to end, so that who asks ``/readyz`` learns of it."""
    requests_s: Annotated[float, Bound(ge=0, le=10)] = 5.0
    """How long requests under way may then take."""
    jobs_s: Annotated[float, Bound(ge=0, le=10)] = 8.0
    """How long ingest jobs under way may then take; the next start goes on with the others."""

    @property
    def names(self) -> tuple[str, ...]:
        """What requests to ``/mcp`` may call the server beside the names of this machine: `hosts`, and the host of `address`.

        Not where no key is needed: a proxy on this machine would open to everybody what was for this machine alone.
        """
        if self.address is None:
            return tuple(self.hosts)
        name = str(urlsplit(self.address).hostname)
        return (*self.hosts, f"[{name}]:*" if ":" in name else f"{name}:*")

    def _check(self) -> None:
        """Keep lists as they cannot change, and refuse to take longer to end than may be."""
        if self.grace_s + self.requests_s + self.jobs_s > END_S - SPARE_S:
            raise ConfigError(
                f"ServerSettings: grace_s, requests_s and jobs_s together are more than {END_S - SPARE_S:g} seconds"
            )
        if self.address is not None and not _is_web_address(self.address):
            raise ConfigError(
                f"ServerSettings(address={brief(self.address)}) is no address; write one such as 'https://memory.example'"
            )
        for name in ("origins", "hosts"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


def _is_web_address(given: str) -> bool:
    """Return whether a text is a scheme and a host, and perhaps a path."""
    try:
        parts = urlsplit(given)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
        )
    except ValueError:
        return False
