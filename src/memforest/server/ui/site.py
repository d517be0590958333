"""Sessions, access checks and error pages of the inspector.

Sessions of browsers are kept in this process, bounded in number and time; forms carry a token of their session.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memforest.errors import ForbiddenError, MemForestError, RateLimitError, UnauthenticatedError
from memforest.memory.forest import AsyncMemForest
from memforest.server.auth import (
    Access,
    OpenAccess,
    Principal,
    Scope,
    as_sentence,
    detail_of,
    from_elsewhere,
    is_local_host,
    status_of,
)
from memforest.server.jobs import Intake
from memforest.server.ui.visit import PageRequest, base_of, environment, link, read_form

MOST = 20
"""Most sessions of one key at once; one more ends that of it which was used least recently."""
MOST_OF_TENANT = 1_000
"""Most of a tenant's keys together; a key with further sessions ends its own alone, a key without one is refused."""
IDLE_S = 2 * 3600.0
"""A session that nobody used for so long has ended."""
LIFE_S = 12 * 3600.0
"""A session lasts no longer, however much it is used."""

RETRY_S = 60.0
_ID_BYTES = 32


@dataclass(slots=True)
class _Session:
    credential: str
    tenant: str | None
    key: str
    begun: float
    used: float


class Sessions:
    """The browser sessions, by digests of the ids in their cookies.

    A restart ends them all. The credential that a session was begun with is kept, because whether it still holds is
    asked anew at each request.

    Args:
        clock: seconds that only grow.
        most: bound on how many there are of one key.
        most_of_tenant: and of all keys of a tenant.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
        most_of_tenant: int = MOST_OF_TENANT,
    ) -> None:
        self._clock = clock
        self._most = most
        self._most_of_tenant = most_of_tenant
        self._secret = secrets.token_bytes(32)
        self._open: OrderedDict[bytes, _Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @staticmethod
    def new_id() -> str:
        """Return a random id of 256 bits for a cookie."""
        return secrets.token_urlsafe(_ID_BYTES)

    def begin(self, credential: str, who: Principal) -> str:
        """Begin a session and return its id, a new one, so that no earlier id opens it.

        Raises:
            RateLimitError: if the tenant's keys have as many as may be, and this one has none that could be ended.
        """
        made, now = self.new_id(), self._clock()
        for digest in [digest for digest, one in self._open.items() if self._has_ended(one, now)]:
            del self._open[digest]
        tenants = [(digest, one) for digest, one in self._open.items() if one.tenant == who.tenant]
        own = [digest for digest, one in tenants if one.key == who.key]
        if len(own) >= self._most or len(tenants) >= self._most_of_tenant:
            if not own:
                raise RateLimitError("too many sessions of this tenant are open", retry_after_s=RETRY_S)
            del self._open[own[0]]
        self._open[_digest(made)] = _Session(credential, who.tenant, who.key, now, now)
        return made

    def credential(self, session_id: str) -> str | None:
        """Return the credential of a session; None if there is none or it has ended."""
        key, now = _digest(session_id), self._clock()
        session = self._open.get(key)
        if session is None:
            return None
        if self._has_ended(session, now):
            del self._open[key]
            return None
        session.used = now
        self._open.move_to_end(key)
        return session.credential

    @staticmethod
    def _has_ended(one: _Session, now: float) -> bool:
        return now - one.used > IDLE_S or now - one.begun > LIFE_S

    def end(self, session_id: str) -> None:
        """End a session, if there is one."""
        self._open.pop(_digest(session_id), None)

    def token(self, session_id: str) -> str:
        """Return the token of a session's forms, which proves that they come from its own pages."""
        return hmac.new(self._secret, session_id.encode(), hashlib.sha256).hexdigest()

    def is_token(self, session_id: str, given: str) -> bool:
        """Return whether a form's token is its session's, in constant time."""
        return hmac.compare_digest(self.token(session_id).encode(), given.encode("utf-8", "replace"))


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode("utf-8", "replace")).digest()


class TicketAccess(OpenAccess):
    """Access to one forest by a one-time ticket, for nobody else on this machine: for ``memforest inspect``.

    The ticket is a word in an address that opens the inspector once, for the person at the terminal. It gives a credential
    that only the server knows and only its sessions hold.

    Args:
        forest: whose memories.
        user: the only user that is shown; None for all.
        owned: close the forest with this.
    """

    def __init__(self, forest: AsyncMemForest, *, user: str | None = None, owned: bool = False) -> None:
        super().__init__(forest, owned=owned)
        self._user = user
        self.word = secrets.token_urlsafe(32)
        self.credential = secrets.token_urlsafe(32)
        self.name = secrets.token_hex(4)
        """Sets its cookie apart: a browser has one jar for all ports of a machine, and two inspectors may run."""
        self._used = False

    def take(self, given: str) -> str | None:
        """Return the credential for the ticket's word, once; None otherwise."""
        right = hmac.compare_digest(self.word.encode(), given.encode("utf-8", "replace"))
        if not right or self._used:
            return None
        self._used = True
        return self.credential

    async def identify(self, credential: str | None) -> Principal:
        """Return the person at the terminal.

        Raises:
            UnauthenticatedError: if the credential is not the ticket's.
        """
        if credential is None or not hmac.compare_digest(
            credential.encode("utf-8", "replace"), self.credential.encode()
        ):
            raise UnauthenticatedError("open the address that `memforest inspect` prints; it works once")
        return Principal(user=self._user, key="inspect")


COOKIE = "memforest_ui"
_STRICT: Mapping[str, Any] = {"httponly": True, "samesite": "strict"}
_ID_CHARS = 43
"""Characters of a session's id."""

ELSEWHERE = "A page of another site asked for this. It may cost or change something, so open it from here."

Handler = Callable[[PageRequest], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


class Site:
    """What all pages share: access, sessions and templates.

    Args:
        access: decides.
        hosts: names of this server that a request without a key may bear, beside those of this machine.
        intake: the ingest jobs of the server.
        https: the cookie is for https, whatever a request came by.
    """

    def __init__(self, access: Access, hosts: Collection[str], intake: Intake | None, https: bool) -> None:
        self._access = access
        self._hosts = hosts
        self._ticket = ticket = access if isinstance(access, TicketAccess) else None
        self._intake = intake
        self._https = https
        self._sessions = Sessions()
        self._cookie = COOKIE if ticket is None else f"{COOKIE}_{ticket.name}"
        self._templates = environment()

    def page(self, handler: Handler) -> Endpoint:
        """Return the endpoint of a page, which needs the scope ``read``."""
        return self._endpoint(handler, "read", posted=False)

    def form(self, handler: Handler, scope: Scope) -> Endpoint:
        """Return the endpoint of a form, which needs a scope and the session's token."""
        return self._endpoint(handler, scope, posted=True)

    def _endpoint(self, handler: Handler, scope: Scope, *, posted: bool) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            session = self._session_of(request)
            credential = self._sessions.credential(session)
            try:
                who = await self._identify(request, credential)
                await self._access.count(who)
                who.require(scope)
                if from_elsewhere(request.headers) and (posted or request.query_params):
                    raise ForbiddenError(ELSEWHERE)
                form = await self._checked_form(request, session) if posted else {}
                async with self._access.forest(who) as forest:
                    token, keyed = self._sessions.token(session), credential is not None
                    again = partial(self._identify, request, credential)
                    shown = (self._templates, who, forest, token, keyed, form, again, self._intake)
                    answer = await handler(PageRequest(request, *shown))
            except UnauthenticatedError:
                self._sessions.end(session)
                answer = _redirect(request, "login")
            except MemForestError as exc:
                answer = self._refusal(request, exc)
            return self._with_cookie(request, answer, session)

        return endpoint

    async def _identify(self, request: Request, credential: str | None) -> Principal:
        """Return the caller of a request.

        Raises:
            UnauthenticatedError: if a key is needed and there is none that holds.
            ForbiddenError: if none is needed and the request bears another site's name.
        """
        who = await self._access.identify(credential)
        if (self._ticket is not None or await self._is_open()) and not is_local_host(
            request.headers.get("host", ""), self._hosts
        ):
            raise ForbiddenError("without a key you can reach this server only by the name of this machine")
        return who

    async def _is_open(self) -> bool:
        """Return whether no key is needed; a given key then proves nothing."""
        try:
            await self._access.identify(None)
        except UnauthenticatedError:
            return False
        return True

    async def _checked_form(self, request: Request, session: str) -> dict[str, str]:
        """Return the fields of a form after checking that one of our own pages sent it.

        Raises:
            ForbiddenError: if another page sent it, or an old one.
            InputError: if it is no form.
        """
        if from_elsewhere(request.headers):
            raise ForbiddenError(ELSEWHERE)
        form = await read_form(request)
        if not self._sessions.is_token(session, form.pop("token", "")):
            raise ForbiddenError("this form is out of date; open the page again and repeat")
        return form

    async def login(self, request: Request) -> Response:
        """Show the login page, or begin a session with a valid key."""
        session = self._session_of(request)
        if request.method != "POST":
            return self._login_page(request, session)
        try:
            form = await self._checked_form(request, session)
            credential = form.get("key", "").strip()
            if not credential:
                return self._login_page(request, session, "Give a key.", 422)
            who = await self._identify(request, credential)
            await self._access.count(who)
            who.require("read")
            self._sessions.end(session)
            begun = self._sessions.begin(credential, who)
        except UnauthenticatedError:
            return self._login_page(request, session, "This key is not known, or no longer valid.", 401)
        except MemForestError as exc:
            return _in_time(
                self._login_page(request, session, as_sentence(detail_of(exc)), status_of(exc)), exc
            )
        return self._with_cookie(request, _redirect(request, ""), begun, anew=True)

    async def enter(self, request: Request) -> Response:
        """Begin the session of the person with the ticket's word."""
        credential = None
        if self._ticket is not None and is_local_host(request.headers.get("host", ""), self._hosts):
            credential = self._ticket.take(request.query_params.get("ticket", ""))
        if credential is None:
            return _redirect(request, "login")
        begun = self._sessions.begin(credential, Principal())
        return self._with_cookie(request, _redirect(request, ""), begun, anew=True)

    async def logout(self, request: Request) -> Response:
        """End the session."""
        session = self._session_of(request)
        try:
            await self._checked_form(request, session)
        except MemForestError as exc:
            return self._refusal(request, exc)
        self._sessions.end(session)
        answer = _redirect(request, "login")
        answer.delete_cookie(self._cookie, path=base_of(request) or "/", **_STRICT)
        return answer

    async def failed(self, request: Request, error: Exception) -> Response:
        """Return the error page of an unknown page, of a form's address that is read, or of an unexpected error."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        said = {404: "There is no such page.", 405: "This is not a page; it only takes a form."}
        return self._message(request, said.get(status, "Something went wrong on the server."), status)

    def _refusal(self, request: Request, error: MemForestError) -> Response:
        return _in_time(self._message(request, as_sentence(detail_of(error)), status_of(error)), error)

    def _message(self, request: Request, sentence: str, status: int) -> Response:
        return self._plain(request, "message.html", status, sentence=sentence, status=status)

    def _login_page(self, request: Request, session: str, problem: str = "", status: int = 200) -> Response:
        token, ticket = self._sessions.token(session), self._ticket is not None
        answer = self._plain(request, "login.html", status, token=token, problem=problem, ticket=ticket)
        return self._with_cookie(request, answer, session)

    def _plain(self, request: Request, template: str, code: int, **context: object) -> Response:
        """Return a page that needs no login."""
        url = partial(link, base_of(request))
        return HTMLResponse(self._templates.get_template(template).render(url=url, **context), code)

    def _session_of(self, request: Request) -> str:
        """Return the session id in the cookie, or a new one."""
        given = request.cookies.get(self._cookie, "")
        return given if len(given) == _ID_CHARS and given.isascii() else Sessions.new_id()

    def _with_cookie(
        self, request: Request, answer: Response, session: str, *, anew: bool = False
    ) -> Response:
        """Return an answer that sets the session's cookie, if the browser does not have it yet."""
        if anew or request.cookies.get(self._cookie) != session:
            path, secure = base_of(request) or "/", self._https or request.url.scheme == "https"
            answer.set_cookie(self._cookie, session, int(LIFE_S), path=path, secure=secure, **_STRICT)
        return answer


def _redirect(request: Request, page: str) -> Response:
    return RedirectResponse(link(base_of(request), page), 303)


def _in_time(answer: Response, error: MemForestError) -> Response:
    """Return the answer to a refused request, with ``Retry-After`` if waiting helps."""
    if isinstance(error, RateLimitError):
        answer.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    return answer
