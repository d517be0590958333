"""The site's door: who comes, whether they may, and what they read when they may not."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memforest.access import Access, Principal, Scope, from_elsewhere, is_local_host
from memforest.access.faults import status_of
from memforest.errors import ForbiddenError, MemForestError, RateLimitError, UnauthenticatedError
from memforest.intake import Intake
from memforest.ui.entering import Ticket
from memforest.ui.refusing import sentence_of
from memforest.ui.sessions import LIFE_S, Sessions
from memforest.ui.showing import environment, link
from memforest.ui.visit import Visit, read_form

COOKIE = "memforest_ui"
_ID_CHARS = 43
"""Characters of a session's id."""

ELSEWHERE = "Another site's page has asked for this, which may cost or change something. Open it from here."

Handler = Callable[[Visit], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


class Site:
    """Everything that the pages share.

    Args:
        access: decides.
        hosts: names of this server that a request without a key may bear, beside those of this machine.
        ticket: lets the person in who has its word.
        intake: the ingest jobs of the server.
        https: the cookie is for https, whatever a request came by.
        sessions: who is logged in.
    """

    def __init__(
        self,
        access: Access,
        *,
        hosts: Collection[str] = (),
        ticket: Ticket | None = None,
        intake: Intake | None = None,
        https: bool = False,
        sessions: Sessions | None = None,
    ) -> None:
        self._access = access
        self._hosts = hosts
        self._ticket = ticket
        self._intake = intake
        self._https = https
        self._sessions = sessions or Sessions()
        self._cookie = COOKIE if ticket is None else f"{COOKIE}_{ticket.name}"
        self._templates = environment()

    # -- pages and forms ------------------------------------------------------------------------

    def page(self, handler: Handler) -> Endpoint:
        """Return the endpoint of a page, which takes the scope ``read``."""
        return self._endpoint(handler, "read", posted=False)

    def form(self, handler: Handler, scope: Scope) -> Endpoint:
        """Return the endpoint of a form, which takes a scope and the token of the session."""
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
                    visit = Visit(
                        request,
                        self._templates,
                        who,
                        forest,
                        self._sessions.token(session),
                        credential is not None,
                        form,
                        lambda: self._identify(request, credential),
                        self._intake,
                    )
                    answer = await handler(visit)
            except UnauthenticatedError:
                self._sessions.end(session)
                answer = RedirectResponse(link(_base(request), "login"), 303)
            except MemForestError as exc:
                answer = self._refusal(request, exc)
            return self._with_cookie(request, answer, session)

        return endpoint

    async def _identify(self, request: Request, credential: str | None) -> Principal:
        """Return who comes.

        Raises:
            UnauthenticatedError: if a key is needed and there is none that holds.
            ForbiddenError: if none is needed and the request bears another site's name.
        """
        who = await self._access.identify(credential)
        if self._ticket is not None or await self._is_open():
            self._check_host(request)
        return who

    async def _is_open(self) -> bool:
        """Return whether no key is needed: then one that was given tells nothing of who gave it."""
        try:
            await self._access.identify(None)
        except UnauthenticatedError:
            return False
        return True

    def _check_host(self, request: Request) -> None:
        if not is_local_host(request.headers.get("host", ""), self._hosts):
            raise ForbiddenError("without a key this server is reached by the name of this machine alone")

    async def _checked_form(self, request: Request, session: str) -> dict[str, str]:
        """Return the fields of a form that came from one of our own pages.

        Raises:
            ForbiddenError: if it did not.
            InputError: if it is no form.
        """
        if from_elsewhere(request.headers):
            raise ForbiddenError(ELSEWHERE)
        form = await read_form(request)
        if not self._sessions.is_token(session, form.pop("token", "")):
            raise ForbiddenError("this form is out of date; open the page again and repeat")
        return form

    # -- coming and going -----------------------------------------------------------------------

    async def login(self, request: Request) -> Response:
        """Ask for a key, and begin a session with one that holds."""
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
            return _in_time(self._login_page(request, session, sentence_of(exc), status_of(exc)), exc)
        answer = RedirectResponse(link(_base(request), ""), 303)
        return self._with_cookie(request, answer, begun, anew=True)

    async def enter(self, request: Request) -> Response:
        """Let the person in who has the ticket's word."""
        credential = None
        if self._ticket is not None and is_local_host(request.headers.get("host", ""), self._hosts):
            credential = self._ticket.take(request.query_params.get("ticket", ""))
        if credential is None:
            return RedirectResponse(link(_base(request), "login"), 303)
        answer = RedirectResponse(link(_base(request), ""), 303)
        return self._with_cookie(request, answer, self._sessions.begin(credential, Principal()), anew=True)

    async def logout(self, request: Request) -> Response:
        """End the session."""
        session = self._session_of(request)
        try:
            await self._checked_form(request, session)
        except MemForestError as exc:
            return self._refusal(request, exc)
        self._sessions.end(session)
        answer = RedirectResponse(link(_base(request), "login"), 303)
        answer.delete_cookie(self._cookie, path=_base(request) or "/", httponly=True, samesite="strict")
        return answer

    # -- what all answers share -----------------------------------------------------------------

    async def no_page(self, request: Request, error: Exception) -> Response:
        """Say that there is no such page, or that it is no page but what a form is posted to."""
        status = error.status_code if isinstance(error, HTTPException) else 404
        said = "There is no such page." if status == 404 else "This is no page; a form is posted here."
        return self._message(request, said, status)

    def failed(self, request: Request) -> Response:
        """Say that something went wrong, and no more."""
        return self._message(request, "Something went wrong on the server.", 500)

    def _refusal(self, request: Request, error: MemForestError) -> Response:
        return _in_time(self._message(request, sentence_of(error), status_of(error)), error)

    def _message(self, request: Request, sentence: str, status: int) -> Response:
        def url(page: str, **params: object) -> str:
            return link(_base(request), page, **params)

        body = self._templates.get_template("message.html").render(
            url=url,
            sentence=sentence,
            status=status,
            user=None,
            only=None,
            here="",
            keyed=False,
            token="",
            has_jobs=False,
        )
        return HTMLResponse(body, status)

    def _login_page(self, request: Request, session: str, problem: str = "", status: int = 200) -> Response:
        def url(page: str, **params: object) -> str:
            return link(_base(request), page, **params)

        body = self._templates.get_template("login.html").render(
            url=url,
            token=self._sessions.token(session),
            problem=problem,
            ticket=self._ticket is not None,
            user=None,
            only=None,
            here="login",
            keyed=False,
            has_jobs=False,
        )
        return self._with_cookie(request, HTMLResponse(body, status), session)

    def _session_of(self, request: Request) -> str:
        """Return the id in the cookie, or a new one."""
        given = request.cookies.get(self._cookie, "")
        return given if len(given) == _ID_CHARS and given.isascii() else Sessions.new_id()

    def _with_cookie(
        self, request: Request, answer: Response, session: str, *, anew: bool = False
    ) -> Response:
        """Return an answer that gives the browser its id, if it does not have it yet."""
        if anew or request.cookies.get(self._cookie) != session:
            answer.set_cookie(
                self._cookie,
                session,
                max_age=int(LIFE_S),
                path=_base(request) or "/",
                httponly=True,
                samesite="strict",
                secure=self._https or request.url.scheme == "https",
            )
        return answer


def _base(request: Request) -> str:
    return str(request.scope.get("root_path", ""))


def _in_time(answer: Response, error: MemForestError) -> Response:
    """Return the answer to what is refused, with the time to wait if waiting helps."""
    if isinstance(error, RateLimitError):
        answer.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    return answer
