"""The inspector's pages: what they show, that every text stands as text, and what they do with ids that are not there."""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")
pytest.importorskip("httpx")

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.inspected import HOSTILE_SESSION, HOSTILE_USER, MARKUP, Browser, fill, links, opened, tags
from tests_long.worlds import fast_config, fast_folder

from memforest.memory.forest import AsyncMemForest
from memforest.server.auth import OpenAccess
from memforest.server.ui.app import ASSETS, HEADERS, ui_app

PAGES = ("forest", "entities", "facts", "sessions", "ask", "diff")
BY_ID = {"tree": "scope=x", "session": "id=x", "turn": "session=trip&id=x", "fact": "id=x"}
VENDORED = {
    "htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
}
"""htmx 4.0.1 and its SSE extension as they are on npm."""


@pytest.fixture(scope="module")
def forest() -> Iterator[AsyncMemForest]:
    """Memories of two users, only read here."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        yield opened(folder)


@pytest.fixture(scope="module")
def browser(forest: AsyncMemForest) -> Browser:
    """A browser without JavaScript."""
    return Browser(ui_app(OpenAccess(forest)))


@pytest.fixture(scope="module")
def walked(browser: Browser) -> dict[str, str]:
    """Every page that links lead to from the first one, by its address, and some that forms lead to."""
    hostile = quote(HOSTILE_USER, safe="")
    left = ["/", f"/ask?user={hostile}&q=Where+does+Eve+live&answer=1", "/ask?user=ann&q=Where+does+ann+live"]
    left += [f"/diff?user={hostile}&a=2024-01-01&b=2024-06-01", f"/find?user={hostile}&q=script"]
    left += ["/diff?user=ann&a=2023-06-01&b=2024-06-01", "/find?user=ann&q=Clara"]
    left += [f"/diff?user={hostile}&a=2020-01-01&b=2040-06-01&by=known"]
    left += ["/diff?user=ann&a=2020-01-01&b=2040-06-01&by=known&entity=ann"]
    found: dict[str, str] = {}
    while left:
        at = left.pop()
        if at not in found:
            answer = browser.get(at)
            assert answer.status_code == 200, (at, answer.status_code)
            found[at] = answer.text
            left += links(answer.text)
    return found


def test_every_page_is_reached_by_links_alone(walked: dict[str, str]) -> None:
    """No script is needed to get anywhere."""
    reached = {at.partition("?")[0].strip("/") for at in walked}
    assert reached >= {"", "tree", "timeline", "fact", "session", "turn", *PAGES}


def test_stored_markup_is_text_on_every_page(walked: dict[str, str]) -> None:
    """No tag, handler, style or address of what was stored is one of the page."""
    allowed = {"script": "/static/", "img": "/static/", "link": "/static/"}
    for at, page in walked.items():
        for tag, given in tags(page):
            assert not any(name.startswith("on") for name in given), (at, tag)
            assert "style" not in given, (at, tag)
            assert tag not in ("iframe", "object", "embed", "u", "i", "style"), (at, tag)
            if tag in allowed:
                assert str(given.get("src") or given.get("href")).startswith(allowed[tag]), (at, tag)
            for name in ("href", "src", "action"):
                assert str(given.get(name) or "/").startswith(("/", "#")), (at, tag, given)
    assert any("&lt;script&gt;" in page for page in walked.values())


def test_no_template_is_run_on_what_was_said(walked: dict[str, str]) -> None:
    """What looks like a template is shown as it is."""
    assert any("{{ 7*7 }}" in page for page in walked.values())


def test_marks_that_turn_text_around_are_named_not_obeyed(walked: dict[str, str]) -> None:
    """They stand as their code points, or are left out of lists."""
    for at, page in walked.items():
        shown = re.sub(r'(?:href|value)="[^"]*"', "", page)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b]", shown), at
    assert any('<span class="mark">U+202E</span>' in page for page in walked.values())


def bars(page: str) -> list[tuple[list[str], float, float, str]]:
    """Return for each bar of a page the times beside it, where it begins, its width, and its kind."""
    found = []
    for cell in re.findall(r'<td class="axis">(.*?)</td>', page, re.S):
        drawn = re.search(r'<rect class="bar ([^"]*)" x="([\d.]+)%" y="5" width="([\d.]+)%"', cell)
        if drawn is not None:
            times = re.findall(r'datetime="([^"]+)"', cell)
            found.append((times, float(drawn[2]), float(drawn[3]), drawn[1]))
    return found


def test_every_bar_has_its_times_in_words(walked: dict[str, str]) -> None:
    """For who does not see it: a drawing is hidden from a reader of screens, or has a name and a table below."""
    for at, page in walked.items():
        for drawing in re.finditer(r"<svg ([^>]*)>", page):
            if 'role="img"' in drawing.group(1):
                assert "aria-label=" in drawing.group(1), at
                assert "<table" in page[drawing.end() :], at
            else:
                assert 'aria-hidden="true"' in drawing.group(1), at
        assert all(times for times, *_ in bars(page)), at
    drawn = {at.partition("?")[0] for at, page in walked.items() if bars(page)}
    assert drawn == {"/forest", "/tree", "/timeline", "/sessions", "/ask"}


def test_every_page_has_one_heading_a_title_and_a_language(walked: dict[str, str]) -> None:
    """So that a reader of screens knows where it is."""
    for at, page in walked.items():
        assert page.count("<h1") == 1, at
        assert re.search(r"<title>[^<]+ · memforest</title>", page), at
        assert '<html lang="en">' in page
        assert page.count("<main") == 1, at


def test_every_field_has_a_label(walked: dict[str, str]) -> None:
    """Tied to it by its id."""
    for at, page in walked.items():
        found = tags(page)
        labelled = {given.get("for") for tag, given in found if tag == "label"}
        for tag, given in found:
            if tag in ("input", "select", "textarea") and given.get("type") != "hidden":
                assert given.get("id") in labelled, (at, given)


def test_users_are_listed_with_their_sizes(browser: Browser) -> None:
    """The sizes of their files."""
    page = browser.get("/").text
    assert len(re.findall(r'<td class="num" data-label="Size">[\d.]+ [kM]B</td>', page)) == 2


def test_a_tree_unfolds_level_by_level_down_to_what_was_said(browser: Browser) -> None:
    """From the root by links, to a leaf and its sources."""
    page = browser.get("/tree", user="ann", scope="ann").text
    levels = 0
    while "Below" in page:
        below = [one for one in links(page) if one.startswith("/tree") and "." in one]
        page = browser.get(below[-1]).text
        levels += 1
    assert levels >= 1
    assert "As it was said" in page
    assert "session" in page


def test_a_summary_names_its_maker(browser: Browser) -> None:
    """It is the machine's, not a person's."""
    assert "Summary, made by" in browser.get("/tree", user="ann", scope="ann").text


def test_a_timeline_says_who_said_so_and_what_ended_it(browser: Browser) -> None:
    """Of one attribute, without events."""
    page = browser.get("/timeline", user="ann", entity="ann", attribute="residence").text
    rows = re.findall(r"<tr>.*?</tr>", page, re.S)
    berlin = next(
        row for row in rows if re.search(r'class="value"><a href="[^"]*"><bdi dir="auto">Berlin', row)
    )
    assert "I live in Berlin" in berlin
    assert '<strong><bdi dir="auto">Lisbon' in berlin.rpartition("<td>")[2]
    assert "I moved to Lisbon last week." in berlin.rpartition("<td>")[2]
    assert "Events" not in page


def test_values_stand_before_events_and_name_all_attributes(browser: Browser) -> None:
    """Each with its own pages; the choice of attributes is whole whatever is on a page."""
    page = browser.get("/timeline", user="ann", entity="ann").text
    assert page.index('id="values"') < page.index('id="events"')
    assert re.findall(r'<option value="(\w+)"', page) == ["job", "residence"]
    values, events = page.split('<section id="events">')
    assert "I live in Berlin" in values
    assert "Clara visited me" in events
    assert re.findall(r'<tr class="group"><th [^>]*><a [^>]*><bdi dir="auto">(\w+)', values) == [
        "job",
        "residence",
    ]


def test_a_bar_stands_where_its_times_are(walked: dict[str, str]) -> None:
    """From the first bar of a table to the last, in proportion; what is open goes to the edge and is marked."""
    seen = 0
    for at, page in walked.items():
        for table in re.findall(r"<table.*?</table>", page, re.S):
            closed = []
            for times, x, width, kind in bars(table):
                if "open" in kind:
                    assert x == 0 or x + width == pytest.approx(100, abs=0.02), at
                else:
                    closed.append((datetime.fromisoformat(times[0]).timestamp(), x))
            if len(closed) < 2:
                continue
            (first, left), (last, right) = min(closed), max(closed)
            for when, x in closed:
                share = (when - first) / (last - first) if last > first else 0.0
                # days are told, not times, and an instant at the edge is drawn to the left
                assert x == pytest.approx(left + share * (right - left), abs=2), at
            seen += 1
    assert seen > 10


def test_a_timeline_at_an_earlier_time_knows_less(browser: Browser) -> None:
    """What was said later is not there."""
    page = browser.get("/timeline", user="ann", entity="ann", said_by="2023-06-01").text
    assert "Berlin" in page
    assert "Lisbon" not in page


def test_evidence_comes_before_the_answer(browser: Browser) -> None:
    """With a way to the answer; how it was found comes last."""
    page = browser.get("/ask", user="ann", q="Where does ann live?", answer="1").text
    parts = (
        'id="evidence"',
        '<ol class="evidence">',
        'id="answer"',
        'id="h-along"',
        "How the question was read",
    )
    assert [page.index(one) for one in parts] == sorted(page.index(one) for one in parts)
    answer = page.partition('id="answer"')[2].partition("<h2")[0]
    assert "Lisbon" in answer
    assert re.search(r'Taken from\s+<a href="#e\d+">\[\d+\]</a>', answer)
    assert 'id="answer"' not in browser.get("/ask", user="ann", q="Where does ann live?").text


def piece(page: str, words: str) -> str:
    """Return the piece of evidence with some words."""
    listed = page.partition('<ol class="evidence">')[2].partition("</ol>")[0]
    return next(one for one in listed.split("<li id=") if words in one.partition("</h3>")[0])


def test_a_piece_of_evidence_tells_its_dates_speaker_and_source(browser: Browser) -> None:
    """With the story of the turn."""
    page = browser.get("/ask", user="ann", q="Where does ann live?", reference_date="2024-06-02").text
    berlin = piece(page, "I live in Berlin")
    assert re.search(r"relevance 0\.\d\d|score -?\d+\.\d\d", berlin)
    assert re.search(r'<b><bdi dir="auto">ann</bdi></b>, said <time datetime="2023-03-05T10:00', berlin)
    assert 'href="/session?user=ann&amp;id=trip&amp;turn=t-1#tt-1"' in berlin
    assert 'href="/turn?user=ann&amp;session=trip&amp;id=t-1"' in berlin


def test_what_cannot_be_answered_is_said(browser: Browser) -> None:
    """And why."""
    page = browser.get("/ask", user="ann", q="What is the name of the cat of Bob?", answer="1").text
    assert "This memory has no answer: " in page


def test_a_question_shows_its_plan_its_trees_and_the_parts_of_scores(browser: Browser) -> None:
    """And the path to each piece of evidence."""
    page = browser.get("/ask", user="ann", q="Where does ann live?").text
    for told in (
        "Plan",
        "residence",
        "Trees recalled",
        "Filters",
        "Parts of its score",
        "Path through the tree",
    ):
        assert told in page
    assert re.search(r'<th scope="row">lexical</th><td class="num">\+\d', page)


def test_the_options_of_a_question_are_those_of_search(browser: Browser) -> None:
    """In words, too; what is not found is said."""
    question = "Where does ann live?"
    page = browser.get("/ask", user="ann", q=question, as_of="last June", reference_date="2024-06-02").text
    assert 'true at <bdi dir="auto">last June' in page
    page = browser.get("/ask", user="ann", q=question, **{"from": "2023-01-01", "to": "2023-06-01"}).text
    assert "Lisbon" not in page.partition('<ol class="evidence">')[2].partition("</ol>")[0]
    assert "only during" in page
    none = browser.get("/ask", user="ann", q="quantum chromodynamics", min_relevance="1").text
    all_of_it = browser.get("/ask", user="ann", q="quantum chromodynamics", min_relevance="0").text
    assert none.count('<li id="e') <= all_of_it.count('<li id="e')


def test_another_index_is_asked_and_its_trees_are_in_the_story(folder: Path) -> None:
    """The choice is there where there are several; a tree of the whole conversation has the turn, too."""
    forest = AsyncMemForest(str(folder), fast_config(indexes=("memforest", "segtree")))
    asyncio.run(fill(forest))
    browser = Browser(ui_app(OpenAccess(forest)))
    page = browser.get("/ask", user="ann", q="Where does ann live?", index="segtree").text
    assert re.findall(r'<option value="(\w+)"( selected)?', page) == [
        ("memforest", ""),
        ("segtree", " selected"),
    ]
    assert re.search(r'index</th><td><bdi dir="auto">segtree', page)
    assert 'index <bdi dir="auto">segtree' in page
    trees = story(browser, "trip", "t-1")["Where it stands in trees"]
    assert "conversation" in trees
    assert all(browser.get(one).status_code == 200 for one in links(trees))
    asyncio.run(forest.close())


def test_the_window_and_the_evidence_stand_on_one_axis(browser: Browser) -> None:
    """Each row of evidence leads to it."""
    page = browser.get("/ask", user="ann", q="What did ann do in January 2024?").text
    table = page.partition('id="h-along"')[2].partition("</table>")[0]
    assert re.search(
        r'asked about</th>.*?class="bar window".*?>1 January 2024<.*?>31 January 2024<', table, re.S
    )
    wanted = set(re.findall(r'href="#(e\d+)"', table))
    assert wanted
    for at in wanted:
        assert f'<li id="{at}">' in page


def test_a_question_of_another_instant_shows_it(browser: Browser) -> None:
    """What it was filtered by is told as times, and drawn."""
    page = browser.get("/ask", user="ann", q="Where does ann live?", as_of="2023-06-01").text
    assert "datetime(" not in page
    assert re.search(r'as of</th><td><time datetime="2023-06-01', page)
    assert "only true at" in page


def test_the_forest_has_a_field_to_ask_in(browser: Browser) -> None:
    """With an answer."""
    page = browser.get("/forest", user="ann").text
    form = re.search(r'<form[^>]*action="/ask".*?</form>', page, re.S)
    assert form is not None
    assert 'name="answer" value="1"' in form.group()


def test_a_diff_shows_before_and_after(browser: Browser) -> None:
    """In this order, in one row."""
    page = browser.get("/diff", user="ann", a="2023-06-01", b="2024-06-01", entity="ann").text
    row = next(
        row for row in re.findall(r"<tr>.*?</tr>", page, re.S) if "residence" in row and "Lisbon" in row
    )
    assert row.index("Berlin") < row.index("Lisbon")


def test_what_was_learnt_between_two_instants(browser: Browser) -> None:
    """By when this memory recorded it."""
    page = browser.get("/diff", user="ann", by="known", a="2020-01-01", b="2040-01-01").text
    assert "learnt" in page
    assert "Nothing." in browser.get("/diff", user="ann", by="known", a="2020-01-01", b="2020-01-02").text


def test_a_turn_that_is_linked_to_stands_out(browser: Browser) -> None:
    """It has an anchor and a mark."""
    page = browser.get("/session", user="ann", id="trip", turn="t-2").text
    assert re.search(r'<li id="tt-2" class="wanted">\s*<p class="by"><b><bdi dir="auto">Bob', page)


def story(browser: Browser, session: str, turn: str, user: str = "ann") -> dict[str, str]:
    """Return the parts of the story of a turn, by their headings."""
    answer = browser.get("/turn", user=user, session=session, id=turn)
    assert answer.status_code == 200, answer.text
    parts = re.split(r"<h2>(.*?)</h2>", answer.text, flags=re.S)
    heads = [re.sub(r"<.*", "", one, flags=re.S).strip() for one in parts[1::2]]
    return {"": parts[0], **dict(zip(heads, parts[2::2], strict=True))}


def test_the_story_of_a_turn_tells_what_was_made_of_it(browser: Browser) -> None:
    """Its words, its facts, whom they name, the states, what ended these, and the leaves it stands in."""
    told = story(browser, "trip", "t-1")
    assert "My sister Clara lives in Rome." in told[""]
    assert len(re.findall(r'<a href="/fact\?', told["Facts"])) == 1
    assert ">Clara<" in told["Names in it"]
    states = told["States it tells"].split("<li>")
    berlin = next(one for one in states if "Berlin" in one)
    assert "until" in berlin or " to " in berlin
    assert re.search(r"Superseded by\s+<strong>.*Lisbon", berlin)
    assert "Superseded" not in next(one for one in states if "Rome" in one)
    trees = told["Where it stands in trees"]
    assert "session trip" in trees
    assert "entity ann" in trees
    for one in links(trees):
        assert browser.get(one).status_code == 200
    assert "No fact of this turn was corrected" in told["Corrections"]
    assert "States it ended" not in told


def test_the_story_of_a_turn_tells_what_it_ended(browser: Browser, forest: AsyncMemForest) -> None:
    """With the words that had told it, and where."""
    first = asyncio.run(forest.user("ann").turns("later"))[0].id
    told = story(browser, "later", first)
    berlin = next(one for one in told["States it ended"].split("<li>") if "Berlin" in one)
    assert "I live in Berlin" in berlin
    assert "id=trip&amp;turn=t-1" in berlin


def test_the_story_of_a_turn_tells_its_corrections(folder: Path) -> None:
    """What was corrected or forgotten stands there with what was done."""
    forest = opened(folder)
    memory, browser = forest.user("ann"), Browser(ui_app(OpenAccess(forest)))
    ids = [next(one.fact_id for one in asyncio.run(memory.list(entity=name))) for name in ("Berlin", "Acme")]
    asyncio.run(memory.update(ids[0], "ann lives in Potsdam."))
    asyncio.run(memory.forget(ids[1]))
    told = story(browser, "trip", "t-1")
    assert re.search(r"corrected, .*Potsdam.*, instead of .*Berlin", told["Corrections"])
    assert '<span class="tag">corrected</span>' in told["Facts"]
    told = story(browser, "trip", "t-2")
    assert re.search(r"forgotten, .*Acme", told["Corrections"])
    assert '<span class="tag">forgotten</span>' in told["Facts"]
    asyncio.run(forest.close())


def test_a_turn_of_which_nothing_was_made_says_so(folder: Path) -> None:
    """It is found by its words all the same."""
    forest = AsyncMemForest(str(folder), fast_config())
    turns = [{"speaker": "ann", "content": "Hm.", "timestamp": "2024-01-01T00:00:00Z", "id": "a"}]
    asyncio.run(forest.ingest_session("ann", "s", turns, infer=False))
    told = story(Browser(ui_app(OpenAccess(forest))), "s", "a")
    assert "No fact was made of this turn" in told["Facts"] or "Hm." in told["Facts"]
    asyncio.run(forest.close())


def test_the_story_of_a_hostile_turn_is_text(browser: Browser) -> None:
    """Its ids, its words, and what was made of them."""
    told = story(browser, HOSTILE_SESSION, "../0<a>", HOSTILE_USER)
    page = "".join(told.values())
    assert "&lt;script&gt;" in told[""]
    assert all(not name.startswith("on") for _, given in tags(page) for name in given)
    assert {tag for tag, _ in tags(page)}.isdisjoint({"u", "script", "iframe"})


@pytest.mark.parametrize(
    "path",
    [
        *(f"/{page}?user=nobody&{more}" for page, more in BY_ID.items()),
        "/fact?user=ann&id=../../etc/passwd",
        "/fact?user=ann&id=f1:00000000000000000000000000000000",
        "/session?user=ann&id=%252e%252e",
        "/turn?user=ann&session=x&id=t-1",
        "/turn?user=ann&session=trip&id=%3Cb%3E",
        "/timeline?user=ann&entity=Zoe",
        "/tree?user=ann&scope=nothing",
        "/tree?user=ann&node=987654",
        "/nothing",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/vendor/../../app.py",
    ],
)
def test_what_is_not_there_is_not_found(browser: Browser, path: str) -> None:
    """Users, facts, sessions, nodes, pages, and files outside the folder."""
    answer = browser.get(path)
    assert answer.status_code == 404
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/forest",
        "/forest?user=%20",
        "/forest?user=a%00b",
        "/tree?user=ann",
        "/tree?user=ann&node=1.x",
        "/tree?user=ann&node=-1",
        "/tree?user=ann&node=" + ".".join("1" * 200),
        "/tree?user=ann&node=99999999999999999999",
        "/tree?user=ann&scope=ann&from=-1",
        "/tree?user=ann&scope=ann&from=%D9%A3",
        *(f"/{page}?user=ann&from=x" for page in ("facts", "sessions", "entities")),
        "/timeline?user=ann&entity=ann&state=x",
        "/session?user=ann&id=trip&from=x",
        "/?from=x",
        "/facts?user=ann&as_of=yesterdayish",
        "/facts?user=ann&verdict=great",
        "/entities?user=ann&kind=ghost",
        "/diff?user=ann&a=x&b=y",
        "/diff?user=ann&a=2024-01-01&b=2024-02-01&by=magic",
        "/diff?user=ann&a=2024-01-01&b=2024-02-01&by=known&after=x",
        "/ask?user=ann&q=where&top_k=1000",
        *(f"/ask?user=ann&q=where&min_relevance={one}" for one in ("x", "2", "-1", "nan", "inf")),
        "/ask?user=ann&q=where&as_of=yesterdayish",
        "/ask?user=ann&q=where&from=2024-01-01",
        "/ask?user=ann&q=where&from=2024-02-01&to=2024-01-01",
        "/ask?user=ann&q=where&from=x&to=y",
        "/ask?user=ann&q=where&index=magic",
        "/turn?user=ann&session=trip",
        "/turn?user=ann&id=t-1",
        "/diff?user=ann&a=2024-01-01&b=yesterdayish",
        "/ask?user=ann&q=" + "x" * 9000,
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(browser: Browser, path: str) -> None:
    """And is no error of the server."""
    answer = browser.get(path)
    assert answer.status_code == 422, answer.text
    assert 'role="alert"' in answer.text


def test_an_error_quotes_ids_as_text(browser: Browser) -> None:
    """An id in a message is escaped as everywhere."""
    answer = browser.get("/session", user="ann", id=MARKUP)
    assert answer.status_code == 404
    assert "<img src=x" not in answer.text


def test_hostile_ids_lead_to_their_own_pages(browser: Browser) -> None:
    """They are parameters, so that nothing folds them."""
    page = browser.get("/session", user=HOSTILE_USER, id=HOSTILE_SESSION)
    assert page.status_code == 200
    assert browser.get("/session", user=HOSTILE_USER, id="s").status_code == 404


@pytest.mark.parametrize(
    "path", ["/", "/login", "/nothing", "/forest?user=nobody", "/static/style.css", "/static/none"]
)
def test_every_answer_has_the_headers(browser: Browser, path: str) -> None:
    """Errors and files, too; only files are kept."""
    answer = browser.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    kept = path.endswith(".css")
    assert answer.headers["cache-control"] == ("max-age=3600" if kept else "no-store")


def test_the_policy_allows_nothing_inline_and_no_other_host() -> None:
    """Every source is this server itself."""
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_every_file_is_served_as_what_it_is(browser: Browser) -> None:
    """No browser has to guess."""
    for name, kind in ASSETS.items():
        answer = browser.get(f"/static/{name}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)


def test_files_of_others_are_as_they_were_published() -> None:
    """With their licence beside them."""
    vendor = files("memforest.server.ui") / "static" / "vendor"
    for name, digest in VENDORED.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest, name
    assert "THE SOFTWARE IS PROVIDED" in (vendor / "LICENSE.htmx").read_text(encoding="utf-8")


def test_no_file_of_ours_names_another_host() -> None:
    """Beside the name space of SVG, which nobody fetches."""
    room = files("memforest.server.ui")
    for folder in ("templates", "static"):
        for one in (room / folder).iterdir():
            if one.is_file():
                found = re.findall(r"(?:https?:)?//[a-z][\w.-]+\.\w+", one.read_text(encoding="utf-8"))
                assert set(found) <= {"http://www.w3.org"}, one.name


def test_pages_work_where_they_are_mounted(forest: AsyncMemForest) -> None:
    """Links, files and forms have the mount's path in front."""
    starlette = pytest.importorskip("starlette.applications")
    routing = pytest.importorskip("starlette.routing")
    app = starlette.Starlette(routes=[routing.Mount("/a/ui", ui_app(OpenAccess(forest)))])
    browser = Browser(app)
    page = browser.get("/a/ui/forest", user="ann").text
    assert all(one.startswith("/a/ui/") for one in links(page))
    assert browser.get("/a/ui/static/style.css").status_code == 200


def test_users_come_fifty_a_page(folder: Path) -> None:
    """All of them, each once."""
    forest = AsyncMemForest(str(folder), fast_config())

    async def make() -> None:
        for at in range(60):
            await forest.register_user(f"user {at:03}")

    asyncio.run(make())
    browser = Browser(ui_app(OpenAccess(forest)))
    seen, at = [], "/"
    for _ in range(2):
        page = browser.get(at).text
        seen += re.findall(r'<th scope="row"><a [^>]*><bdi dir="auto">(user \d+)', page)
        at = next((one for one in links(page) if "from=" in one), "")
    assert sorted(seen) == [f"user {at:03}" for at in range(60)]
    assert at == ""
    asyncio.run(forest.close())


def test_long_lists_come_by_cursor_and_lose_nothing(folder: Path) -> None:
    """Sessions, turns, facts and entities; a link to a turn leads to the page that it is on."""
    forest = AsyncMemForest(str(folder), fast_config())

    async def make() -> None:
        turns = [
            {
                "speaker": f"P{at}",
                "content": f"I live in Town{at}.",
                "timestamp": f"2024-01-01T00:{at:02}:00Z",
                "id": f"n{at}",
            }
            for at in range(60)
        ]
        await forest.ingest_session("u", "long", turns, refresh=False)
        for at in range(54):
            await forest.ingest_session("u", f"s{at:02}", turns[:1], infer=False, refresh=False)

    asyncio.run(make())
    memory = forest.user("u")
    facts, entities = asyncio.run(memory.list(limit=1)).total, asyncio.run(memory.entities(limit=1)).total
    assert min(facts, entities) > 50
    browser = Browser(ui_app(OpenAccess(forest)))
    for start, item, count in (
        ("/sessions?user=u", r'<th scope="row"><a [^>]*><bdi dir="auto">([^<]+)', 55),
        ("/session?user=u&id=long", r'<li id="t(n\d+)"', 60),
        ("/facts?user=u", r'<th scope="row"><a href="([^"]+)', facts),
        ("/entities?user=u", r'<th scope="row"><a href="([^"]+)', entities),
    ):
        seen: list[str] = []
        at: str | None = start
        while at:
            page = browser.get(at).text
            found = re.findall(item, page)
            assert len(found) <= 50
            seen += found
            at = next((one for one in links(page) if "from=" in one), None)
        assert (len(seen), len(set(seen))) == (count, count), start
    page = browser.get("/session", user="u", id="long", turn="n58").text
    assert '<li id="tn58" class="wanted">' in page
    assert '<li id="tn1"' not in page
    asyncio.run(forest.close())


def test_the_pictures_of_the_docs_are_small_and_all_are_shown() -> None:
    """As `make screenshots` makes them."""
    docs = Path(__file__).parent.parent / "docs"
    shown = re.findall(
        r"!\[[^\]]{10,}\]\(pictures/([\w-]+\.png)\)", (docs / "inspector.md").read_text(encoding="utf-8")
    )
    pictures = {one.name: one.stat().st_size for one in (docs / "pictures").glob("*.png")}
    assert sorted(shown) == sorted(pictures)
    assert sum(pictures.values()) < 600_000
