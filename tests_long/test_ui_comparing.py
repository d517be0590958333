"""What the memory held at two instants, side by side; and turns that a person deletes from the page of their session."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")
pytest.importorskip("httpx")

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.inspected import MARKUP, Browser, Keys, key, links, opened, tags, turn
from tests_long.worlds import fast_config

from memforest.memory.forest import AsyncMemForest
from memforest.read.stored import TimelineEntry
from memforest.server.auth import OpenAccess, Scope
from memforest.server.ui import asking, pages
from memforest.server.ui.app import ui_app
from memforest.server.ui.asking import side_by_side
from memforest.testing import FrozenClock

FIRST, SECOND = "2024-01-10T12:00:00Z", "2024-03-10T12:00:00Z"


def entry(
    value: str, start: int | None = None, end: int | None = None, attribute: str = "residence"
) -> TimelineEntry:
    """Return a state from one year to another."""
    times = [None if one is None else datetime(one, 1, 1, tzinfo=timezone.utc) for one in (start, end)]
    return TimelineEntry("state", "", times[0], times[1], attribute, value)


def told(pairs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the value and the change of each pair."""
    return [(one["either"].value or "", one["change"]) for one in pairs]


@each(
    ("before", "after", "pairs"),
    [
        ([], [], []),
        ([entry("Rome", 2020)], [entry("Rome", 2020)], [("Rome", "same")]),
        ([entry("Rome", 2020)], [entry("Rome", 2020, 2022)], [("Rome", "changed")]),
        ([entry("Rome", 2020)], [entry("Rome", 2019)], [("Rome", "added"), ("Rome", "gone")]),
        ([entry("Rome")], [entry("Rome", 2020)], [("Rome", "gone"), ("Rome", "added")]),
        ([entry("Rome", 2020)], [], [("Rome", "gone")]),
        ([], [entry("Rome", 2020)], [("Rome", "added")]),
        (
            [entry("Rome", 2020)],
            [entry("Rome", 2020, 2022), entry("Oslo", 2022)],
            [("Rome", "changed"), ("Oslo", "added")],
        ),
    ],
)
def test_a_state_that_ended_meanwhile_is_one_row(
    before: list[TimelineEntry], after: list[TimelineEntry], pairs: list[tuple[str, str]]
) -> None:
    """Another value or start is another row."""
    assert told(side_by_side(before, after)) == pairs


def test_of_a_value_that_came_back_each_time_finds_its_own() -> None:
    """By when it began, whatever the order."""
    early, late = entry("Rome", 2015, 2016), entry("Rome", 2020)
    pairs = side_by_side([late], [early, late])
    assert [(one["before"], one["after"]) for one in pairs] == [(None, early), (late, late)]


def test_rows_stand_by_attribute_and_then_in_time_order() -> None:
    """What has no beginning stands first."""
    given = [entry("cook", 2021, attribute="job"), entry("Oslo", 2022), entry("Rome", 2020), entry("Bonn")]
    found = side_by_side([], given)
    assert [one["either"].value for one in found] == ["cook", "Bonn", "Rome", "Oslo"]


def test_the_same_value_of_another_attribute_is_another_state() -> None:
    """Who lives in Rome was not born there."""
    pairs = side_by_side([entry("Rome", 2020, attribute="birthplace")], [entry("Rome", 2020)])
    assert [one["change"] for one in pairs] == ["gone", "added"]


@pytest.fixture
def browser(folder: Path) -> Iterator[Browser]:
    """A browser at a memory that learnt in January where ann lives, and in March that she had moved."""
    clock = FrozenClock(FIRST)
    forest = AsyncMemForest(str(folder), fast_config(clock=clock))

    async def live() -> None:
        await forest.ingest_session("ann", "one", [turn("ann", "I live in Berlin.", FIRST)])
        clock.advance(days=60)
        await forest.ingest_session("ann", "two", [turn("ann", "I moved to Lisbon last week.", SECOND)])
        await forest.ingest_session("ann", "odd", [turn("Eve", f"I live in {MARKUP}.", SECOND)])

    asyncio.run(live())
    yield Browser(ui_app(OpenAccess(forest)))
    asyncio.run(forest.close())


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the texts of the cells of the rows of a table, which is named by a heading."""
    table = page.partition(f'aria-labelledby="{heading}"')[2].partition("</table>")[0]
    bodies = re.findall(r"<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.S)
    return [
        [
            re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", cell)).strip()
            for cell in re.findall(r"<t[hd].*?</t[hd]>", body, re.S)
        ]
        for body in bodies
    ]


def held(browser: Browser, a: str, b: str, **more: str) -> dict[str, list[list[str]]]:
    """Return the rows of what was held of where ann lives at two instants, by change."""
    answer = browser.get("/diff", user="ann", by="known", a=a, b=b, **{"entity": "ann", **more})
    assert answer.status_code == 200, answer.text
    changes = ("added", "changed", "gone", "same")
    found = {one: [row for row in rows(answer.text, f"h-{one}") if row[0] == "residence"] for one in changes}
    return {change: lines for change, lines in found.items() if lines}


def test_two_states_stand_side_by_side(browser: Browser) -> None:
    """Berlin without an end, then with one; Lisbon on the later side alone."""
    found = held(browser, "2024-02-01", "2024-05-01")
    assert [*found] == ["added", "changed"]
    [lisbon], [berlin] = found["added"], found["changed"]
    assert berlin[1].startswith("Berlin , from")
    assert re.match(r"Berlin , .* to \d+ (February|March) 2024", berlin[2])
    assert lisbon[1] == "–"
    assert lisbon[2].startswith("Lisbon")


def test_the_first_instant_is_the_earlier_one(browser: Browser) -> None:
    """Otherwise the page says so."""
    answer = browser.get("/diff", user="ann", by="known", a="2024-05-01", b="2024-02-01", entity="ann")
    assert answer.status_code == 422
    assert "before" in answer.text


def test_before_the_memory_knew_of_it_a_side_is_empty(browser: Browser) -> None:
    """Which is no error; at two such instants it is."""
    [[berlin]] = held(browser, "2020-01-01", "2024-02-01").values()
    assert berlin[1] == "–"
    answer = browser.get("/diff", user="ann", by="known", a="2019-01-01", b="2020-01-01", entity="ann")
    assert answer.status_code == 404


def test_what_had_not_been_said_by_then_is_on_neither_side(browser: Browser) -> None:
    """`said_by` holds for both."""
    found = held(browser, "2024-02-01", "2024-05-01", said_by="2024-02-01")
    [[berlin]] = found.values()
    assert [*found] == ["same"]
    assert berlin[1].startswith("Berlin")


def test_without_an_entity_the_page_says_what_to_give(browser: Browser) -> None:
    """What was learnt is there all the same; with a name there is a table and no such hint."""
    page = browser.get("/diff", user="ann", by="known", a="2024-02-01", b="2024-05-01").text
    assert "Name an entity" in page
    assert "What this memory held" not in page
    assert rows(page, "h-changes") != []
    named = browser.get("/diff", user="ann", by="known", a="2024-02-01", b="2024-05-01", entity="ann").text
    assert "Name an entity" not in named
    assert rows(named, "h-changes") != []


def test_evidence_says_until_when_it_was_true_and_what_ended_it(browser: Browser) -> None:
    """By its number, where that is among the evidence, or by its turn."""
    asked = {"user": "ann", "q": "Where does ann live?", "reference_date": SECOND}
    page = browser.get("/ask", **asked).text
    listed = page.partition('<ol class="evidence">')[2].partition("</ol>")[0].split("<li id=")
    berlin = next(one for one in listed if "I live in Berlin" in one.partition("</h3>")[0])
    ends = re.search(
        r'until <time [^>]*>26 February 2024</time> \(see <a href="#(e\d+)">\[\d+\]</a>\)', berlin
    )
    assert ends is not None, berlin
    [lisbon] = [one for one in listed if one.startswith(f'"{ends[1]}"')]
    assert "I moved to Lisbon" in lisbon
    alone = browser.get("/ask", **asked, as_of="2024-01-20", top_k="1").text
    assert re.search(
        r'until <time [^>]*>26 February 2024</time> \(see <a class="source" href="/session', alone
    )


def test_what_differs_stands_in_groups(browser: Browser) -> None:
    """Added, changed, ended; a group without a difference is not there."""
    page = browser.get("/diff", user="ann", a="2024-02-01", b="2024-05-01").text
    [[name, before, after, since]] = rows(page, "g-changed")
    assert (name, before.split()[0], after.split()[0]) == ("ann , residence", "Berlin", "Lisbon")
    assert since == "26 February 2024"
    assert 'id="g-ended"' not in page
    assert [row[0] for row in rows(page, "g-begun")] == ["Eve , residence"]
    back = browser.get("/diff", user="ann", a="2024-05-01", b="2024-02-01").text
    assert [row[0] for row in rows(back, "g-ended")] == ["Eve , residence"]
    assert "Nothing differs." in browser.get("/diff", user="ann", a="2020-01-01", b="2020-02-01").text


def test_markup_in_what_was_held_is_text(browser: Browser) -> None:
    """Values and names are escaped as everywhere."""
    page = browser.get("/diff", user="ann", by="known", a="2024-02-01", b="2024-05-01", entity="Eve").text
    assert "&lt;script&gt;" in page.partition("What this memory held")[2]
    assert all("onerror" not in given for _, given in tags(page))


def test_a_long_timeline_is_cut_and_says_so(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """No page reads the whole memory."""
    url = {"user": "ann", "by": "known", "a": "2024-02-01", "b": "2024-05-01", "entity": "ann"}
    assert "only the first part of a longer timeline" not in browser.get("/diff", **url).text
    monkeypatch.setattr(asking, "MAX_PAGE", 1)
    assert "only the first part of a longer timeline" in browser.get("/diff", **url).text


def forms(page: str) -> list[dict[str, str]]:
    """Return the hidden fields of each form of a page that deletes a turn."""
    found = []
    for form in re.findall(r"<form[^>]*/delete\".*?</form>", page, re.S):
        fields = {
            str(given["name"]): str(given.get("value") or "") for tag, given in tags(form) if tag == "input"
        }
        if "turn" in fields:
            found.append(fields)
    return found


def test_a_turn_is_deleted_from_the_page_of_its_session(folder: Path) -> None:
    """Its form leads to what would go, and that page's form deletes; the others stay."""
    forest = opened(folder)
    browser = Browser(ui_app(OpenAccess(forest)))
    page = browser.get("/session", user="ann", id="trip").text
    assert [one["turn"] for one in forms(page)] == ["t-1", "t-2"]
    asked = browser.post("/delete", **forms(page)[1]).text
    assert "What would go" in asked
    assert "I work at Acme" in browser.get("/session", user="ann", id="trip").text
    [sure] = forms(asked)
    done = browser.post("/delete", **sure).text
    assert "What has gone" in done
    assert "To the session" in done
    left = browser.get("/session", user="ann", id="trip").text
    assert "I work at Acme" not in left
    assert "I live in Berlin" in left
    [last] = forms(left)
    done = browser.post("/delete", **last, sure="yes").text
    assert ("To the session" in done) == (browser.get("/session", user="ann", id="trip").status_code == 200)
    asyncio.run(forest.close())


@pytest.mark.parametrize(
    ("scopes", "there"), [(("read",), 0), (("read", "write"), 0), (("read", "delete"), 2)]
)
def test_the_button_is_for_who_may_delete(folder: Path, scopes: tuple[Scope, ...], there: int) -> None:
    """One a turn, each with a name of its own."""
    forest = opened(folder)
    keys = Keys(forest)
    keys.known["k"] = key("k", *scopes)
    browser = Browser(ui_app(keys))
    browser.log_in("k")
    page = browser.get("/session", user="ann", id="trip").text
    names = re.findall(r"Delete this turn …<span class=\"unseen\"> ([^<]+)</span>", page)
    assert names == ["t-1", "t-2"][:there]
    assert len(forms(page)) == there
    asyncio.run(forest.close())


def test_a_turn_is_not_deleted_without_the_token_of_the_page(folder: Path) -> None:
    """As no form is taken that came from elsewhere."""
    forest = opened(folder)
    browser = Browser(ui_app(OpenAccess(forest)))
    [_, fields] = forms(browser.get("/session", user="ann", id="trip").text)
    fields["token"] = "0" * 64
    assert browser.post("/delete", **fields, sure="yes").status_code == 403
    assert "I work at Acme" in browser.get("/session", user="ann", id="trip").text
    asyncio.run(forest.close())


def test_leaving_it_leads_back_to_where_one_was(folder: Path) -> None:
    """To the turn, or the session."""
    forest = opened(folder)
    browser = Browser(ui_app(OpenAccess(forest)))
    token = browser.token("/session?user=ann&id=trip")
    for fields, back in (
        ({"turn": "t-2"}, "/session?user=ann&amp;id=trip&amp;turn=t-2#tt-2"),
        ({}, "/session?user=ann&amp;id=trip"),
    ):
        page = browser.post("/delete", token=token, user="ann", session="trip", **fields).text
        assert f'<a href="{back}">Leave it</a>' in page
    asyncio.run(forest.close())


def test_every_tree_is_reached_where_the_forest_shows_the_largest_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the pages of entities and of sessions, which the forest's page leads to."""
    forest = opened(folder)
    browser = Browser(ui_app(OpenAccess(forest)))
    assert "largest" not in browser.get("/forest", user="ann").text
    every = asyncio.run(forest.user("ann").tree(depth=0))
    wanted = {str(one.node_id) for one in every if one.title.split()[0] in ("entity", "session")}
    monkeypatch.setattr(pages, "PAGE", 1)
    page = browser.get("/forest", user="ann").text
    assert "The 1 largest of" in page
    monkeypatch.undo()
    seen: set[str] = set()
    left = [one for one in links(page) if urlsplit(one).path in ("/entities", "/sessions")]
    walked: set[str] = set()
    while left:
        at = left.pop()
        if at in walked:
            continue
        walked.add(at)
        answer = browser.get(at)
        assert answer.status_code == 200, at
        if at.startswith("/tree") and "Trees called" not in answer.text:  # the only one of that name, at once
            [scope] = parse_qs(urlsplit(at).query)["scope"]
            [one] = asyncio.run(forest.user("ann").tree(scope, depth=0))
            assert one.title in answer.text
            seen.add(str(one.node_id))
        for link in links(answer.text):
            parts = urlsplit(link)
            given = parse_qs(parts.query)
            if parts.path == "/tree" and "node" in given:
                seen.add(given["node"][0].partition(".")[0])
            elif parts.path in ("/find", "/session") or (parts.path == "/tree" and "scope" in given):
                left.append(link)
    assert len(wanted) > 3
    assert wanted <= seen
    asyncio.run(forest.close())
