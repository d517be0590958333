"""The pages of ingest jobs: how far they have come, told while they go on, and ended by a form."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")
pytest.importorskip("httpx")

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.inspected import Browser, Keys, key, links, tags
from tests_long.worlds import fast_config

from memforest.memory.forest import AsyncMemForest
from memforest.server.auth import OpenAccess, Principal
from memforest.server.jobs import Intake, JobView
from memforest.server.ui.app import ui_app

SAID = [{"role": "user", "content": "I moved to Oslo.", "timestamp": "2024-03-02T09:00:00Z"}]
SESSIONS: list[dict[str, Any]] = [
    {"user_id": "ana", "session_id": "<b>monday</b>", "turns": SAID},
    {"user_id": "ana", "session_id": "tuesday", "turns": "no turns"},
]


@pytest.fixture
def forest(folder: Path) -> Iterator[AsyncMemForest]:
    """An empty forest."""
    made = AsyncMemForest(str(folder), fast_config())
    yield made
    asyncio.run(made.close())


def ended_job(access: OpenAccess) -> tuple[Intake, JobView]:
    """Return the jobs of a server, and one of them that has ended, with a session that was refused."""

    async def run() -> tuple[Intake, JobView]:
        intake = Intake(access)
        made = await intake.submit(Principal(), SESSIONS)
        async for _ in await intake.watch(Principal(), made.id):
            pass
        found = await intake.job(Principal(), made.id)
        await intake.close(within_s=5)
        return Intake(access), found

    return asyncio.run(run())


def test_a_job_is_listed_and_shown_with_what_was_refused(forest: AsyncMemForest) -> None:
    """Counts and reasons; nothing of what was said."""
    access = OpenAccess(forest)
    intake, made = ended_job(access)
    browser = Browser(ui_app(access, intake=intake))
    page = browser.get("/jobs").text
    assert f"/job?id={made.id}" in set(links(page))
    page = browser.get("/job", id=made.id).text
    assert made.state in page
    assert "Refused" in page
    assert "Oslo" not in page
    assert "monday" not in page
    assert "hx-sse" not in page.partition("<main")[2]  # nothing more comes


def test_events_are_pieces_of_the_page_and_come_to_an_end(forest: AsyncMemForest) -> None:
    """Each has its id, with which the browser goes on after a break; the last says that nothing more comes."""
    access = OpenAccess(forest)
    intake, made = ended_job(access)
    browser = Browser(ui_app(access, intake=intake))
    answer = browser.get("/job/events", id=made.id)
    assert answer.headers["content-type"].startswith("text/event-stream")
    ids = [int(one) for one in re.findall(r"^id: (\d+)$", answer.text, re.M)]
    assert ids == sorted(ids)
    assert ids[-1] == made.last_event
    assert answer.text.endswith("event: ended\ndata: ended\n\n")
    assert "sessions done" in answer.text
    assert (
        f"This job is {made.state}: " in answer.text.split("\n\n")[-3]
    )  # for the page's live region, at the end alone
    assert answer.text.count('<div id="told"') == len(re.findall(r'class="lead ended"', answer.text))
    rest = browser.send("GET", f"/job/events?id={made.id}", headers={"Last-Event-ID": str(ids[-1])})
    assert rest.text == "event: ended\ndata: ended\n\n"


def test_a_job_that_goes_on_is_followed_and_can_be_ended(
    forest: AsyncMemForest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page names where its events are; the form takes the token."""
    access = OpenAccess(forest)
    intake, made = ended_job(access)
    going = JobView("5f", "running", made.made_at, made.changed_at, sessions=4, done=1)
    asked: list[str] = []

    async def job(_who: Principal, job_id: str) -> JobView:
        return going

    async def cancel(_who: Principal, job_id: str) -> JobView:
        asked.append(job_id)
        return going

    monkeypatch.setattr(intake, "job", job)
    monkeypatch.setattr(intake, "cancel", cancel)
    browser = Browser(ui_app(access, intake=intake))
    page = browser.get("/job", id="5f").text
    assert 'hx-sse:connect="/job/events?id=5f&amp;after=0"' in page
    assert 'width="250"' in page
    assert '<p id="told" role="status"></p>' in page, "what is told later is told to who only listens"
    scripts = [given for tag, given in tags(page) if tag == "script"]
    assert [str(one["src"]).rpartition("/")[2] for one in scripts] == ["htmx.min.js", "hx-sse.min.js"]
    assert not any(
        "defer" in one or "async" in one for one in scripts
    )  # or htmx may begin before its extension is there
    assert browser.post("/cancel", token="wrong", id="5f").status_code == 403
    assert (
        browser.post("/cancel", token=browser.token("/job?id=5f"), id="5f").headers["location"]
        == "/job?id=5f"
    )
    assert asked == ["5f"]


def test_a_key_that_is_revoked_hears_no_more(forest: AsyncMemForest) -> None:
    """The stream ends before the next event."""
    intake, made = ended_job(OpenAccess(forest))
    keys = Keys(forest)
    keys.known["k"] = key("k", "read")
    browser = Browser(ui_app(keys, intake=intake))
    browser.log_in("k")
    heard = len(keys.counted)

    class Once(dict[str, Principal]):
        def __contains__(self, name: object) -> bool:
            return len(keys.counted) == heard and super().__contains__(name)

    keys.known = Once(keys.known)
    assert browser.get("/job/events", id=made.id).text == "event: ended\ndata: ended\n\n"


def test_what_is_no_job_is_not_found(forest: AsyncMemForest) -> None:
    """Nor is any where the server takes none."""
    access = OpenAccess(forest)
    intake, made = ended_job(access)
    browser = Browser(ui_app(access, intake=intake))
    for path in ("/job?id=../x", "/job?id=0", "/job/events?id=0"):
        assert browser.get(path).status_code == 404
    assert browser.get("/jobs?from=x").status_code == 422
    without = Browser(ui_app(access))
    assert without.get("/jobs").status_code == 404
    assert "Jobs" not in without.get("/").text
    assert without.get(f"/job?id={made.id}").status_code == 404
