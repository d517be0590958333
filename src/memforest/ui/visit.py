"""One request for a page: who looks, into whose memory, with what parameters, and how the answer is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memforest.access import Principal, Scope
from memforest.errors import InputError
from memforest.forest.forest import AsyncMemForest
from memforest.forest.handle import AsyncUserMemory
from memforest.intake import Intake
from memforest.ui.showing import link

if TYPE_CHECKING:
    from jinja2 import Environment

PAGE = 50
"""Items of one page."""
MOST_FORM_BYTES = 64_000
"""Largest form: a corrected statement of the most characters, each of four bytes and escaped, is smaller."""
_MOST_FIELDS = 50
_MOST_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class Visit:
    """A request for a page by somebody who may see it."""

    request: Request
    templates: Environment
    who: Principal
    forest: AsyncMemForest
    token: str
    """What the page's forms carry."""
    keyed: bool
    """Whether they are logged in, and can log out."""
    form: Mapping[str, str]
    """The fields that were posted; empty for a page that is read."""
    again: Callable[[], Awaitable[object]]
    """Asks anew whether who looks may; raises as at first."""
    intake: Intake | None = None
    """The ingest jobs of the server, if it takes any."""

    @property
    def base(self) -> str:
        """Where the inspector is mounted."""
        return str(self.request.scope.get("root_path", ""))

    def url(self, page: str, **params: object) -> str:
        """Return the address of a page."""
        return link(self.base, page, **params)

    def may(self, scope: Scope) -> bool:
        """Return whether who looks has a scope."""
        return scope in self.who.scopes

    def given(self, name: str) -> str | None:
        """Return a parameter or field; None if it is blank or not there.

        Raises:
            InputError: if it is too long.
        """
        value = self.form.get(name) if self.form else self.request.query_params.get(name)
        if value is not None and len(value) > _MOST_CHARS:
            raise InputError(f"{name} has {len(value):,} characters; {_MOST_CHARS:,} at most")
        return value if value is not None and value.strip() else None

    def needed(self, name: str) -> str:
        """Return a parameter or field.

        Raises:
            InputError: if it is blank or not there.
        """
        value = self.given(name)
        if value is None:
            raise InputError(f"this page needs {name}=")
        return value

    def number(self, name: str, default: int, most: int) -> int:
        """Return a whole number of 0 or more.

        Raises:
            InputError: if it is none, or more than `most`.
        """
        value = self.given(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 19) or int(value) > most:
            raise InputError(f"{name}: give a whole number of 0 to {most:,}")
        return int(value)

    @property
    def user(self) -> str:
        """The user whose memory the page is about.

        Raises:
            InputError: if none is named.
            NotFoundError: if who looks may not see that user.
        """
        return self.who.user_id(self.needed("user"))

    @property
    def memory(self) -> AsyncUserMemory:
        """The memory that the page is about.

        Raises:
            InputError: if no user is named.
            NotFoundError: if who looks may not see that user.
        """
        return self.forest.user(self.user)

    def page(
        self, template: str, *, user: str | None = None, here: str = "", status: int = 200, **context: Any
    ) -> Response:
        """Return a page.

        Args:
            template: its name.
            user: whose memory it is about, for the navigation.
            here: the page's own name in the navigation.
            status: of HTTP.
            **context: what the template shows.
        """
        body = self.part(
            template,
            user=user,
            here=here,
            token=self.token,
            keyed=self.keyed,
            only=self.who.user,
            has_jobs=self.intake is not None,
            **context,
        )
        return HTMLResponse(body, status)

    def part(self, template: str, **context: Any) -> str:
        """Return what a template writes, of a page or of a part of one."""
        found = self.templates.get_template(template)
        return found.render(url=self.url, zone=self.forest.config.zone, may=self.may, **context)

    def go(self, page: str, **params: object) -> Response:
        """Return the answer to a form that was carried out: go and see."""
        return RedirectResponse(self.url(page, **params), 303)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a posted form.

    Raises:
        InputError: if it is no form, not UTF-8, too large, or a field is there twice.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InputError("post a form (application/x-www-form-urlencoded)")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_FORM_BYTES:
            raise InputError(f"the form has more than {MOST_FORM_BYTES:,} bytes")
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise InputError("the form is not encoded as UTF-8, or has too many fields") from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InputError("a field of the form is there twice")
    return fields
