"""What forms of the inspector do to a memory, and with which scopes."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")
pytest.importorskip("httpx")

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.inspected import Browser, Keys, key, opened

from memforest import errors
from memforest.memory.forest import AsyncMemForest
from memforest.read.stored import FactView
from memforest.server.auth import Scope, as_sentence, detail_of, status_of
from memforest.server.ui.app import ui_app

FORMS: dict[str, Scope] = {
    "pin": "write",
    "update": "write",
    "undo": "write",
    "forget": "delete",
    "delete": "delete",
}


@pytest.fixture
def forest(folder: Path) -> Iterator[AsyncMemForest]:
    """Memories of two users."""
    made = opened(folder)
    yield made
    asyncio.run(made.close())


@pytest.fixture
def browser(forest: AsyncMemForest) -> Browser:
    """Somebody who is logged in and may do everything."""
    return logged_in(forest)


def logged_in(forest: AsyncMemForest, *scopes: Scope, user: str | None = None) -> Browser:
    """Return a browser with a session of a key."""
    keys = Keys(forest)
    keys.known["k"] = key("k", *scopes, user=user)
    browser = Browser(ui_app(keys))
    browser.log_in("k")
    return browser


def fact_of(forest: AsyncMemForest, words: str) -> FactView:
    """Return ann's fact with some words."""
    page = asyncio.run(forest.user("ann").list())
    return next(one for one in page if words in one.text)


def shown(forest: AsyncMemForest) -> list[str]:
    """Return the texts of ann's facts as they are shown."""
    return [one.text for one in asyncio.run(forest.user("ann").list())]


def post(browser: Browser, form: str, **fields: str) -> str:
    """Post a form of ann's as its page would, and return where it leads."""
    answer = browser.post(f"/{form}", token=browser.token("/"), user="ann", **fields)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def test_a_fact_is_pinned_and_the_pin_taken_back(forest: AsyncMemForest, browser: Browser) -> None:
    """The page says what was done; its history has the button that undoes it."""
    fact = fact_of(forest, "Berlin")
    page = browser.get(post(browser, "pin", id=fact.fact_id)).text
    assert "Done: pinned" in page
    assert fact_of(forest, "Berlin").verdict == "pinned"
    undo = re.search(r'name="key" value="([^"]+)"', page)
    assert undo is not None
    assert "Done: undone" in browser.get(post(browser, "undo", key=undo.group(1))).text
    assert fact_of(forest, "Berlin").verdict == ""


def test_a_fact_is_corrected_and_its_page_is_that_of_what_holds(
    forest: AsyncMemForest, browser: Browser
) -> None:
    """With what it says and from when; what was said before stands in the history."""
    fact = fact_of(forest, "nurse")
    at = post(
        browser,
        "update",
        id=fact.fact_id,
        text="Ann works as a <b>doctor</b>.",
        valid_from="2024-01-01",
        valid_to="",
    )
    assert parse_qs(urlsplit(at).query)["id"] != [fact.fact_id]
    page = browser.get(at).text
    assert "&lt;b&gt;doctor" in page
    assert "2024-01-01" in page
    assert any("doctor" in one for one in shown(forest))


def test_a_fact_is_forgotten(forest: AsyncMemForest, browser: Browser) -> None:
    """It is not shown among the facts; its page says so and offers no correction any more."""
    fact = fact_of(forest, "cook")
    page = browser.get(post(browser, "forget", id=fact.fact_id)).text
    assert "Put it right" not in page
    assert not any("cook" in one for one in shown(forest))


@pytest.mark.parametrize(
    ("fields", "gone"),
    [({"session": "trip"}, "Berlin"), ({"session": "trip", "turn": "t-2"}, "cook"), ({"id": ""}, "Berlin")],
)
def test_what_would_go_is_shown_before_it_goes(
    forest: AsyncMemForest, browser: Browser, fields: dict[str, str], gone: str
) -> None:
    """The first form changes nothing; the second deletes."""
    if "id" in fields:
        fields = {"id": fact_of(forest, gone).fact_id}
    before, token = shown(forest), browser.token("/")
    asked = browser.post("/delete", token=token, user="ann", **fields)
    assert asked.status_code == 200
    assert "What would go" in asked.text
    assert shown(forest) == before
    done = browser.post("/delete", token=token, user="ann", sure="yes", **fields)
    assert "What has gone" in done.text
    assert not any(gone in one for one in shown(forest))
    assert browser.post("/delete", token=token, user="ann", sure="yes", **fields).status_code == 404


@pytest.mark.parametrize("fields", [{}, {"id": "x", "session": "y"}, {"turn": "t-1"}])
def test_one_thing_is_deleted_at_once(browser: Browser, fields: dict[str, str]) -> None:
    """Nothing, or two things, are no target."""
    assert (
        browser.post("/delete", token=browser.token("/"), user="ann", sure="yes", **fields).status_code == 422
    )


@pytest.mark.parametrize("scopes", [("read",), ("read", "write"), ("read", "delete"), ("read", "admin")])
def test_a_form_takes_its_scope_and_no_other(forest: AsyncMemForest, scopes: tuple[Scope, ...]) -> None:
    """Who lacks it is refused before anything is looked up; who has it gets the answer of the verb."""
    browser = logged_in(forest, *scopes)
    token = browser.token("/")
    for form, scope in FORMS.items():
        answer = browser.post(f"/{form}", token=token, user="ann", id="nothing", key="nothing", text="x")
        assert answer.status_code == (404 if scope in scopes else 403), form


@pytest.mark.parametrize(
    ("scopes", "there", "away"),
    [
        (("read",), (), ("Pin", "Forget", "Delete", "Correct")),
        (("read", "write"), ("Pin", "Correct"), ("Forget", "Delete")),
        (("read", "delete"), ("Forget", "Delete"), ("Pin", "Correct")),
    ],
)
def test_a_page_offers_what_its_reader_may_do(
    forest: AsyncMemForest, scopes: tuple[Scope, ...], there: tuple[str, ...], away: tuple[str, ...]
) -> None:
    """And nothing else."""
    page = logged_in(forest, *scopes).get("/fact", user="ann", id=fact_of(forest, "Berlin").fact_id).text
    buttons = " ".join(re.findall(r"<button[^>]*>([^<]+)", page))
    assert all(one in buttons for one in there)
    assert not any(one in buttons for one in away)


def test_a_key_of_another_user_changes_nothing(forest: AsyncMemForest) -> None:
    """Every form answers as if there were no such user."""
    browser = logged_in(forest, user="bob")
    fact, before = fact_of(forest, "Berlin"), shown(forest)
    token = browser.token("/login")
    for form in FORMS:
        answer = browser.post(
            f"/{form}", token=token, user="ann", id=fact.fact_id, key="x", text="x", sure="yes"
        )
        assert answer.status_code == 404, form
    assert shown(forest) == before


def test_pinning_twice_is_a_conflict(forest: AsyncMemForest, browser: Browser) -> None:
    """The second answer says that it is so already."""
    fact = fact_of(forest, "Berlin")
    post(browser, "pin", id=fact.fact_id)
    assert browser.post("/pin", token=browser.token("/"), user="ann", id=fact.fact_id).status_code == 409


@each(
    ("error", "status"),
    [
        (errors.StoreLockedError("/srv/secret/ann.db is locked"), 423),
        (errors.CorruptStoreError("/srv/secret/ann.db is damaged"), 503),
        (errors.ModelUnavailableError("http://secret:1/v1 does not answer"), 503),
        (errors.ConfigError("/srv/secret/config.toml"), 422),
        (errors.MemForestError("/srv/secret"), 500),
    ],
)
def test_an_error_of_the_server_tells_nothing_of_the_server(
    error: errors.MemForestError, status: int
) -> None:
    """Its message may hold a path or an address; what is said instead is ours."""
    assert status_of(error) == status
    assert "secret" not in detail_of(error)
    assert as_sentence(detail_of(error)).endswith(".")


@pytest.mark.parametrize("error", [errors.NotFoundError("no such fact"), errors.InputError("give a day")])
def test_an_error_of_the_reader_says_what_is_wrong(error: errors.MemForestError) -> None:
    """In the words of the core."""
    assert detail_of(error) == str(error)
