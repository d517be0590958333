"""The inspector's door: who gets in, with what cookie, from which host, and that forms are ours."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")
pytest.importorskip("httpx")

sys.path.insert(0, str(Path(__file__).parent.parent))

from starlette.applications import Starlette
from starlette.routing import Mount
from tests_long.inspected import Browser, Keys, key, opened
from tests_long.worlds import fast_folder

from memforest.errors import IssuerUnavailableError, RateLimitError, UnauthenticatedError
from memforest.memory.forest import AsyncMemForest
from memforest.server.auth import OpenAccess, Principal, is_local_host
from memforest.server.ui.app import ui_app
from memforest.server.ui.site import COOKIE, IDLE_S, LIFE_S, Sessions, TicketAccess


@pytest.fixture(scope="module")
def forest() -> Iterator[AsyncMemForest]:
    """Memories of two users, only read here."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        yield opened(folder)


@pytest.fixture
def keys(forest: AsyncMemForest) -> Keys:
    """Access by two keys: one that may do everything, one that sees ann alone."""
    made = Keys(forest)
    made.known = {"all": key("all"), "ann": key("ann", "read", user="ann"), "adds": key("adds", "write")}
    return made


def test_without_a_key_every_page_leads_to_the_login(keys: Keys) -> None:
    """Whether or not what it asks for is there."""
    browser = Browser(ui_app(keys))
    for path in ("/", "/forest?user=ann", "/fact?user=ann&id=x", "/ask?user=nobody"):
        answer = browser.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")


def test_a_key_opens_and_logging_out_closes(keys: Keys) -> None:
    """Pages are there in between."""
    browser = Browser(ui_app(keys))
    assert browser.log_in("all").headers["location"] == "/"
    assert browser.get("/").status_code == 200
    assert browser.post("/logout", token=browser.token("/")).headers["location"] == "/login"
    assert browser.get("/").status_code == 303


def test_logging_out_ends_the_session_not_only_the_cookie(keys: Keys) -> None:
    """A cookie that was copied before opens nothing."""
    browser = Browser(ui_app(keys))
    browser.log_in("all")
    kept = browser.cookies[COOKIE]
    browser.post("/logout", token=browser.token("/"))
    browser.cookies.set(COOKIE, kept, domain="localhost.local", path="/")
    assert browser.get("/").status_code == 303


@pytest.mark.parametrize(("given", "status"), [("wrong", 401), ("", 422), ("  ", 422), ("adds", 403)])
def test_a_key_that_is_unknown_or_may_not_read_does_not_open(keys: Keys, given: str, status: int) -> None:
    """The login says so and stays."""
    browser = Browser(ui_app(keys))
    assert browser.log_in(given).status_code == status
    assert browser.get("/").status_code == 303


def test_a_key_that_was_revoked_opens_no_further_page(keys: Keys) -> None:
    """Each request asks anew whether the key holds."""
    browser = Browser(ui_app(keys))
    browser.log_in("all")
    del keys.known["all"]
    assert browser.get("/forest?user=ann").status_code == 303


def test_a_login_gives_a_new_id_so_that_one_planted_before_is_worth_nothing(keys: Keys) -> None:
    """Who knew the id of the cookie before the login is not logged in by it."""
    app = ui_app(keys)
    browser, thief = Browser(app), Browser(app)
    browser.get("/login")
    thief.cookies = browser.cookies
    browser.log_in("all")
    assert browser.get("/").status_code == 200
    assert thief.get("/").status_code == 303


@pytest.mark.parametrize(("scheme", "secure"), [("http", False), ("https", True)])
def test_the_cookie_is_for_this_site_and_no_script(keys: Keys, scheme: str, secure: bool) -> None:
    """And over https it travels only so; the key is not in it."""
    browser = Browser(Starlette(routes=[Mount("/ui", ui_app(keys))]), scheme=scheme)
    answer = browser.post("/ui/login", token=browser.token("/ui/login"), key="all")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/ui" in cookie
    assert ("Secure" in cookie) is secure
    assert "all" not in cookie.split(";")[0]


def test_behind_a_proxy_that_speaks_https_the_cookie_is_for_https_alone(keys: Keys) -> None:
    """The proxy hands requests on in clear text, and need not be one whose headers are believed."""
    browser = Browser(ui_app(keys, https=True))
    assert "Secure" in browser.get("/login").headers["set-cookie"]


def test_requests_count_against_the_limit(keys: Keys) -> None:
    """One too many is told when to come back."""
    browser = Browser(ui_app(keys))
    browser.log_in("all")
    keys.most = len(keys.counted) + 1
    assert browser.get("/").status_code == 200
    answer = browser.get("/")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    refused = Browser(ui_app(keys)).log_in("all")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")


def test_a_key_of_one_user_sees_nobody_else(keys: Keys) -> None:
    """A user who is there and one who is not look the same."""
    browser = Browser(ui_app(keys))
    browser.log_in("ann")
    assert browser.get("/").headers["location"] == "/forest?user=ann"
    assert browser.get("/forest", user="ann").status_code == 200
    foreign = browser.get("/forest", user="nobody")
    for other in ("../../<b>ann</b>%2e%2e/\u202e", "ANN"):
        answer = browser.get("/forest", user=other)
        assert answer.status_code == foreign.status_code == 404
    hidden = [browser.get("/sessions", user=one).text.count("<") for one in ("bob", "eve")]
    assert hidden[0] == hidden[1]


def test_sessions_end_when_idle_and_when_old() -> None:
    """However much a session is used, it ends."""
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    idle, used = sessions.begin("k", key("k")), sessions.begin("k", key("k"))
    while now[0] + IDLE_S / 2 < LIFE_S:
        now[0] += IDLE_S / 2
        assert sessions.credential(used) == "k"
    assert sessions.credential(idle) is None
    now[0] = LIFE_S + 1
    assert sessions.credential(used) is None
    assert len(sessions) == 0


def test_only_so_many_sessions_are_kept_those_used_last() -> None:
    """The one that was used least recently goes."""
    sessions = Sessions(most=2)
    other = sessions.begin("other", key("other"))
    first, second = sessions.begin("1", key("k")), sessions.begin("2", key("k"))
    sessions.credential(first)
    third = sessions.begin("3", key("k"))
    kept = [sessions.credential(one) for one in (other, first, second, third)]
    assert kept == ["other", "1", None, "3"]


def test_a_tenant_has_its_own_number_of_sessions() -> None:
    """A key beyond it ends one of its own, or is refused; other tenants are not asked."""
    sessions = Sessions(most_of_tenant=2)
    one, two, new = (Principal("t", key=name) for name in ("one", "two", "new"))
    begun = [sessions.begin(who.key, who) for who in (one, two, one)]
    with pytest.raises(RateLimitError):
        sessions.begin("new", new)
    assert sessions.credential(sessions.begin("other", Principal("o", key="other"))) == "other"
    assert [sessions.credential(session) for session in begun] == [None, "two", "one"]


def test_another_sites_page_opens_no_page_that_may_ask_a_model(forest: AsyncMemForest) -> None:
    """Its pictures and links are refused, where no key is needed; what a person types or follows here is not."""
    browser = Browser(ui_app(OpenAccess(forest)))

    def status(path: str, site: str) -> int:
        return browser.send("GET", path, headers={"Sec-Fetch-Site": site}).status_code

    asked = ("/ask?user=ann&q=Where%3F&answer=1", "/tree?user=ann", "/forest?user=ann")
    assert {status(path, site) for path in asked for site in ("cross-site", "same-site")} == {403}
    assert {status(path, site) for path in (asked[0], asked[2]) for site in ("none", "same-origin")} == {200}
    assert status("/", "cross-site") == 200


def test_a_token_is_good_for_its_own_session_alone() -> None:
    """And for this process."""
    sessions = Sessions()
    token = sessions.token("a")
    assert sessions.is_token("a", token)
    assert not sessions.is_token("b", token)
    assert not Sessions().is_token("a", token)
    assert not sessions.is_token("a", "\udc80ü")


FORMS = ("/pin", "/update", "/undo", "/forget", "/delete", "/logout", "/login")


@pytest.mark.parametrize("form", FORMS)
def test_a_form_without_the_token_of_this_session_is_refused(forest: AsyncMemForest, form: str) -> None:
    """None, a wrong one, and another session's."""
    app = ui_app(OpenAccess(forest))
    browser, other = Browser(app), Browser(app)
    browser.get("/")
    for token in ("", "0" * 64, other.token("/login")):
        answer = browser.post(form, token=token, user="ann", id="x", key="x")
        assert answer.status_code == 403, form


@pytest.mark.parametrize("form", FORMS[:-1])
def test_a_form_from_another_site_is_refused_even_with_the_token(forest: AsyncMemForest, form: str) -> None:
    """The browser itself says where it comes from."""
    browser = Browser(ui_app(OpenAccess(forest)))
    fields = {"token": browser.token("/login"), "user": "ann", "id": "x"}
    answer = browser.send("POST", form, data=fields, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", "application/json"),
        (b"token=%ff%fe", "application/x-www-form-urlencoded"),
        (b"a=1&a=2", "application/x-www-form-urlencoded"),
        (b"a=" + b"x" * 70_000, "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % at for at in range(60)), "application/x-www-form-urlencoded"),
        (b"caf\xc3\xa9=1", "application/x-www-form-urlencoded"),
    ],
)
def test_what_is_no_form_of_ours_is_refused(forest: AsyncMemForest, body: bytes, kind: str) -> None:
    """Another type, another encoding, a field twice, too large, too many fields."""
    browser = Browser(ui_app(OpenAccess(forest)))
    answer = browser.send("POST", "/pin", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 422


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_posted(forest: AsyncMemForest, form: str) -> None:
    """Nothing is changed by reading an address."""
    answer = Browser(ui_app(OpenAccess(forest))).get(form)
    assert answer.status_code == (200 if form == "/login" else 405)


@pytest.mark.parametrize("host", ["localhost", "localhost:8420", "127.0.0.1:80", "127.3.2.1", "[::1]:8420"])
def test_without_keys_names_of_this_machine_are_served(forest: AsyncMemForest, host: str) -> None:
    """With any port."""
    browser = Browser(ui_app(OpenAccess(forest)))
    assert browser.send("GET", "/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[::1", "[::1]x", "localhost.evil"]
)
def test_without_keys_another_name_is_refused(forest: AsyncMemForest, host: str) -> None:
    """A site whose name is made to point here reads nothing."""
    browser = Browser(ui_app(OpenAccess(forest)))
    answer = browser.send("GET", "/", headers={"Host": host})
    assert answer.status_code == 403
    assert not is_local_host(host)


def test_a_name_that_is_allowed_is_served(forest: AsyncMemForest) -> None:
    """Whatever its case."""
    browser = Browser(ui_app(OpenAccess(forest), hosts=["memory.lan", "other.lan:*"]))
    assert browser.send("GET", "/", headers={"Host": "other.lan"}).status_code == 200
    assert browser.send("GET", "/", headers={"Host": "Memory.LAN:8420"}).status_code == 200


def test_a_ticket_opens_once(forest: AsyncMemForest) -> None:
    """For the first who has its word, and for nobody without."""
    ticket = TicketAccess(forest)
    app = ui_app(ticket)
    person, thief = Browser(app), Browser(app)
    assert thief.get("/enter", ticket="wrong").headers["location"] == "/login"
    assert person.get("/").status_code == 303
    assert person.get("/enter", ticket=ticket.word).headers["location"] == "/"
    assert person.get("/").status_code == 200
    assert thief.get("/enter", ticket=ticket.word).headers["location"] == "/login"
    assert thief.get("/").status_code == 303
    assert "memforest inspect" in thief.get("/login").text


def test_two_inspectors_on_one_machine_do_not_end_each_other(forest: AsyncMemForest) -> None:
    """A browser keeps one jar for all ports of a name: entering the second leaves the first open."""
    tickets = (TicketAccess(forest), TicketAccess(forest))
    first, second = (Browser(ui_app(one)) for one in tickets)
    first.get("/enter", ticket=tickets[0].word)
    second.cookies = first.cookies
    second.get("/enter", ticket=tickets[1].word)
    first.cookies = second.cookies
    assert first.get("/").status_code == second.get("/").status_code == 200


def test_a_ticket_is_no_way_in_by_another_name(forest: AsyncMemForest) -> None:
    """Nor is it used up so."""
    ticket = TicketAccess(forest)
    browser = Browser(ui_app(ticket), host="evil.example")
    assert browser.get("/enter", ticket=ticket.word).headers["location"] == "/login"
    assert ticket.take(ticket.word) == ticket.credential  # and it was not used up


def test_a_ticket_for_one_user_shows_that_user_alone(forest: AsyncMemForest) -> None:
    """As a key of one user does."""
    ticket = TicketAccess(forest, user="ann")
    browser = Browser(ui_app(ticket))
    browser.get("/enter", ticket=ticket.word)
    assert browser.get("/").headers["location"] == "/forest?user=ann"
    assert browser.get("/forest", user="nobody").status_code == 404


def test_without_a_ticket_there_is_no_such_way_in(forest: AsyncMemForest) -> None:
    """An empty word is none."""
    assert Browser(ui_app(OpenAccess(forest))).get("/enter", ticket="").headers["location"] == "/login"


def test_a_login_where_no_key_is_needed_opens_no_other_name(forest: AsyncMemForest) -> None:
    """Any text passes for a key there: a site that is made to point here would log in and read on."""
    browser = Browser(ui_app(OpenAccess(forest)), host="evil.example")
    assert browser.log_in("anything").status_code == 403
    assert browser.get("/").status_code == 403
    # Nor does a session that was begun by an allowed name.
    local = Browser(browser.app)
    assert local.log_in("anything").status_code == 303
    assert local.get("/").status_code == 200
    assert local.send("GET", "/", headers={"Host": "evil.example"}).status_code == 403


def test_the_list_of_users_takes_the_scope_admin(keys: Keys) -> None:
    """Who may read opens the memory of somebody they name, and is not told who else there is."""
    keys.known["reads"] = key("reads", "read")
    browser = Browser(ui_app(keys))
    browser.log_in("reads")
    page = browser.get("/")
    assert page.status_code == 200
    assert "ann" not in page.text
    assert "scope admin" in page.text
    assert browser.get("/forest", user="ann").status_code == 200


def test_when_nobody_can_be_told_from_anybody_it_is_the_server_that_fails(keys: Keys) -> None:
    """An issuer that does not answer is no mistake of whoever logs in, and worth another try."""

    async def identify(credential: str | None) -> Principal:
        if credential is None:
            raise UnauthenticatedError("give a key")
        raise IssuerUnavailableError("the issuer of tokens does not answer")

    keys.identify = identify  # type: ignore[method-assign]
    assert Browser(ui_app(keys)).log_in("a.b.c").status_code == 503
