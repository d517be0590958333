"""Options of commands that serve: limits, and an issuer of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from memforest.access import AccessSettings

F = TypeVar("F", bound=Callable[..., Any])

NONE = "none"
"""What is written for a claim that is not read, or a limit that there is not."""

TOOLS = ("read", "default", "full", "openai")
"""Profiles of MCP's tools, as `memforest.mcp` has them; here so that help imports nothing of an extra."""

_OPTIONS = (
    click.option(
        "--oidc-issuer",
        metavar="URL",
        envvar="MEMFOREST_OIDC_ISSUER",
        help="Also take the tokens of this OpenID Connect issuer. [MEMFOREST_OIDC_ISSUER]",
    ),
    click.option(
        "--oidc-audience",
        metavar="NAME",
        envvar="MEMFOREST_OIDC_AUDIENCE",
        help="What such tokens must name as their audience: this server. [MEMFOREST_OIDC_AUDIENCE]",
    ),
    click.option(
        "--oidc-tenant-claim",
        metavar="CLAIM",
        default="tenant",
        show_default=True,
        help='The claim that names the tenant; "none": all are for the directory\'s own memories.',
    ),
    click.option(
        "--oidc-user-claim",
        metavar="CLAIM",
        default="sub",
        show_default=True,
        help='The claim that names the only user that a token sees; "none": tokens see their whole tenant.',
    ),
    click.option(
        "--oidc-scope-claim",
        metavar="CLAIM",
        default="scope",
        show_default=True,
        help="The claim that holds scopes such as memforest:read; a token without any may read.",
    ),
    click.option(
        "--rate",
        "key_rate",
        metavar="RATE",
        default="600/minute",
        show_default=True,
        help='Most requests of one key or token; "none" for any number.',
    ),
    click.option(
        "--tenant-rate",
        metavar="RATE",
        default="6000/minute",
        show_default=True,
        help='Most requests of one tenant; "none" for any number.',
    ),
    click.option(
        "--tenant-ingests",
        type=int,
        metavar="COUNT",
        default=16,
        show_default=True,
        help="Most ingests of one tenant at once.",
    ),
)


ACCESS_OPTIONS = (
    *("oidc_issuer", "oidc_audience", "oidc_tenant_claim", "oidc_user_claim", "oidc_scope_claim"),
    *("key_rate", "tenant_rate", "tenant_ingests"),
)
"""Names of what `read_access` takes, as a command that has further options is given them."""


def access_options(command: F) -> F:
    """Give a command that serves the options that `read_access` reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_access(
    *,
    oidc_issuer: str | None,
    oidc_audience: str | None,
    oidc_tenant_claim: str,
    oidc_user_claim: str,
    oidc_scope_claim: str,
    key_rate: str,
    tenant_rate: str,
    tenant_ingests: int,
) -> AccessSettings:
    """Return the settings that the options say.

    Raises:
        click.UsageError: if an issuer is named without an audience, or an audience without an issuer.
        ConfigError: if a value is out of range, or the issuer's address is none.
    """
    from memforest.access import AccessSettings, IssuerSettings

    if bool(oidc_issuer) != bool(oidc_audience):
        raise click.UsageError(
            "--oidc-issuer and --oidc-audience go together: a token for another service is none for this one"
        )
    issuer = None
    if oidc_issuer and oidc_audience:
        issuer = IssuerSettings(
            oidc_issuer,
            oidc_audience,
            tenant_claim=_or_none(oidc_tenant_claim),
            user_claim=_or_none(oidc_user_claim),
            scope_claim=oidc_scope_claim,
        )
    return AccessSettings(_or_none(key_rate), _or_none(tenant_rate), tenant_ingests, issuer)


def _or_none(given: str) -> str | None:
    return None if given.strip().lower() == NONE else given
