"""Walk the inspector in a real browser: accessibility, the keyboard alone, no JavaScript, hostile texts, no other host.

    make ui-check

It needs Playwright, axe and Chromium (Debian's package, or the one that ``CHROMIUM`` names). Screenshots of every page go to
``ui-screenshots/``. Exit code 0 when nothing was found, 1 when something was, 2 when there is no browser.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright
from playwright.sync_api import TimeoutError as Timeout
from starlette.applications import Starlette
from starlette.routing import Mount
from tests_long.inspected import HOSTILE_USER, fill
from tests_long.worlds import fast_config, make_sessions

from memforest.memory.forest import AsyncMemForest
from memforest.server.access import KeyedAccess
from memforest.server.auth import Access, OpenAccess, Principal
from memforest.server.jobs import Intake, JobPage, JobState, JobView
from memforest.server.keys import KeyStore
from memforest.server.ui.app import ui_app
from memforest.times import system_clock

ROOT = Path(__file__).parent.parent
SHOTS = ROOT / "ui-screenshots"
MOST_OF_A_KIND = 5
"""Pages of one kind that are walked; thousands differ in their texts alone."""
NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1200, "height": 900}
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
MOST_TABS = 400
REFUSED = ("a=x&b=y", "/nothing")
"""How the addresses end that are walked to see them refused."""

_OUTLINE = """() => {
  const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
  return {tag: e.tagName, name: (e.innerText || e.value || e.name || '').slice(0, 60), href: e.getAttribute('href'),
          seen: s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 && r.width > 0 && r.left >= 0};
}"""


class Found:
    """What was wrong, and how much was looked at."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()

    def check(self, good: bool, what: str) -> None:
        """Note a problem unless something is as it should be."""
        self.counts["checks"] += 1
        if not good:
            self.problems.append(what)
            print(f"  PROBLEM: {what}")


def apart(work: Coroutine[Any, Any, None]) -> None:
    """Run something in a thread of its own: this one has Playwright's event loop."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


class SlowJob(Intake):
    """Jobs of a server of which one is always under way: it goes on a step each time that it is looked at, and then ends."""

    sessions = 4

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.done = 0

    async def job(self, who: Principal, job_id: str) -> JobView:
        """Return the job as it is."""
        state: JobState = "finished" if self.done == self.sessions else "running"
        return JobView(
            "5f2c", state, system_clock(), system_clock(), sessions=self.sessions, done=self.done, users=1
        )

    async def jobs(self, who: Principal, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        """Return the one job."""
        return JobPage((await self.job(who, ""),))

    async def watch(self, who: Principal, job_id: str, after: int = 0) -> AsyncIterator[JobView]:
        """Return the job at the end of each session, a moment apart."""

        async def events() -> AsyncIterator[JobView]:
            for at in range(1, self.sessions + 1):
                await asyncio.sleep(0.3)
                self.done = at
                yield await self.job(who, job_id)

        return events()


@contextmanager
def served(access: Access, intake: Intake | None = None) -> Iterator[str]:
    """Serve an inspector on a free port of this machine, and give its address."""
    app = Starlette(routes=[Mount("/ui", ui_app(access, intake=intake))])
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="error", lifespan="off", access_log=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/ui/"
    finally:
        server.should_exit = True
        thread.join(10)


def opened(browser: Browser, found: Found, root: str, **how: Any) -> BrowserContext:
    """Return a browser's profile of its own that notes every request to another host and every complaint of the browser."""
    context = browser.new_context(**{"viewport": WIDE, **how})
    own = urlsplit(root).netloc

    def asked(request: Request) -> None:
        found.counts["requests"] += 1
        found.check(urlsplit(request.url).netloc == own, f"a request to another host: {request.url}")

    context.on("request", asked)
    context.on("console", lambda told: found.check(is_harmless(told), f"console: {told.text}"))
    context.on("weberror", lambda told: found.check(False, f"script error: {told.error}"))
    return context


def is_harmless(told: ConsoleMessage) -> bool:
    """Return whether a line of the console is no complaint; that a page was refused which is to be refused is none."""
    refused = told.location.get("url", "").endswith(REFUSED) and "responded with a status of 4" in told.text
    return refused or told.type not in ("error", "warning")


def kind_of(url: str) -> str:
    """Return the name of a page."""
    return urlsplit(url).path.rpartition("/")[2] or "users"


def first_pages(root: str) -> list[str]:
    """Return where a walk begins: the first page, and what only forms lead to."""
    hostile = quote(HOSTILE_USER, safe="")
    asked = (
        *("", "forest?user=many", f"forest?user={hostile}", "ask?user=ann&q=Where+does+ann+live&answer=1"),
        *(
            f"ask?user={hostile}&q=Where+does+Eve+live",
            "find?user=ann&q=Clara",
            f"find?user={hostile}&q=script",
        ),
        *("diff?user=ann&a=2023-06-01&b=2024-06-01", "diff?user=ann&a=2020-01-01&b=2040-01-01&by=known"),
        "diff?user=ann&a=2020-01-01&b=2040-01-01&by=known&entity=ann",
        *("forest?user=nobody", "diff?user=ann&a=x&b=y", "nothing"),
    )
    return [root + one for one in asked]


def walk(page: Page, root: str, *, shots: str | None, axe: bool, found: Found) -> dict[str, str]:
    """Go to pages by their links, some of each kind, and return their texts by address."""
    left, seen, kinds = first_pages(root), {}, Counter[str]()
    while left:
        url = left.pop(0)
        if url in seen or (kinds[kind_of(url)] >= MOST_OF_A_KIND and url not in first_pages(root)):
            continue
        refused = url.endswith(REFUSED)
        answer = page.goto(url)
        status = 0 if answer is None else answer.status
        found.check((status in (404, 422)) if refused else status == 200, f"{url}: {status}")
        kinds[kind_of(url)] += 1
        found.counts["pages"] += 1
        seen[url] = page.inner_text("body")
        found.check(page.evaluate("window.broken === undefined") is True, f"{url}: a stored script has run")
        if axe:
            page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
            result = Axe().run(page)
            found.counts[f"violations of {kind_of(url)}"] += result.violations_count
            found.counts["axe runs"] += 1
            found.check(result.violations_count == 0, f"{url}: {result.generate_report()}")
        if shots is not None and kinds[kind_of(url)] <= 2:
            page.screenshot(
                path=str(SHOTS / f"{shots}-{kind_of(url)}-{kinds[kind_of(url)]}.png"), full_page=True
            )
        hrefs = page.eval_on_selector_all("a[href]", "all => all.map(one => one.getAttribute('href'))")
        left += [urljoin(url, one).partition("#")[0] for one in hrefs]
    for kind in (
        "users",
        "forest",
        "tree",
        "entities",
        "timeline",
        "facts",
        "fact",
        "sessions",
        "session",
        "turn",
        "ask",
        "diff",
    ):
        found.check(kinds[kind] > 0, f"no page of the kind {kind} was reached by links")
    return seen


def tab_to(page: Page, wanted: str, found: Found) -> None:
    """Press Tab until something with a text or a field of a name has the focus, which must be seen all the way."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        here = page.evaluate(_OUTLINE)
        if here["tag"] == "BODY":
            continue
        found.counts["focus stops"] += 1
        found.check(here["seen"], f"{page.url}: the focus is not seen on {here}")
        if wanted in (here["name"].strip(), page.evaluate("document.activeElement.name || ''")):
            return
    found.check(False, f"{page.url}: Tab does not come to {wanted!r}")


def by_keyboard(page: Page, root: str, found: Found) -> None:
    """Do with the keyboard alone what a person does: find a user, look, ask, pin a fact, and take that back."""
    page.goto(root)
    page.keyboard.press("Tab")
    found.check(
        page.evaluate(_OUTLINE)["name"] == "Skip to content", "the first stop is not the way to the content"
    )
    page.keyboard.press("Enter")
    found.check(page.evaluate("document.activeElement.id") == "main", "the way to the content leads nowhere")
    tab_to(page, "user", found)
    page.keyboard.type("ann")
    page.keyboard.press("Enter")
    page.wait_for_url("**/forest?user=ann")
    tab_to(page, "Ask", found)
    page.keyboard.press("Enter")
    page.wait_for_url("**/ask?user=ann")
    tab_to(page, "q", found)
    page.keyboard.type("Where does ann live?")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=Where**")
    tab_to(page, "Facts", found)
    page.keyboard.press("Enter")
    page.wait_for_url("**/facts?user=ann")
    first = page.locator("tbody th a").first.inner_text()
    tab_to(page, first, found)
    page.keyboard.press("Enter")
    page.wait_for_url("**/fact?**")
    tab_to(page, "Pin", found)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Done: pinned.")
    undo = page.locator("button", has_text="Undo").first.inner_text()
    tab_to(page, undo.strip(), found)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Done: undone.")
    page.goto(root + "forest?user=ann")
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
    else:
        found.check(False, "Tab is caught in the page")


def live(browser: Browser, access: Access, found: Found) -> None:
    """Look on while a job goes on: its page follows it by itself and knows when it has ended."""
    with served(access, SlowJob(access)) as root:
        page = opened(browser, found, root).new_page()
        page.goto(root + "jobs")
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            found.check(Axe().run(page).violations_count == 0, f"the page of jobs has violations, {scheme}")
        page.screenshot(path=str(SHOTS / "light-jobs-1.png"))
        page.locator("tbody th a").first.click()
        found.check("running" in page.inner_text("#state"), "the job is not under way")
        try:
            page.locator("#state", has_text="finished").wait_for(timeout=15_000)
        except Timeout:
            found.check(False, "the page of a job does not follow it")
        told = page.get_by_role("status").inner_text()
        found.check(
            "This job is finished: 4 of 4" in told,
            f"the end of a job is not said to who only listens: {told!r}",
        )
        found.check(
            not page.get_by_role("button", name="Cancel").is_visible(), "a job that ended can be cancelled"
        )
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            found.check(Axe().run(page).violations_count == 0, f"the page of a job has violations, {scheme}")
        page.screenshot(path=str(SHOTS / "light-job-1.png"))


def by_key(browser: Browser, folder: Path, found: Found) -> None:
    """Log in with a key, look, and log out; the login page is checked like all others."""
    made = KeyStore(folder, system_clock).create("reader", scopes=["read"])
    access = KeyedAccess(folder, fast_config())
    with served(access) as root:
        page = opened(browser, found, root).new_page()
        page.goto(root)
        found.check(page.url.endswith("/login"), "without a key there is no login")
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            found.check(Axe().run(page).violations_count == 0, f"the login page has violations, {scheme}")
        page.screenshot(path=str(SHOTS / "light-login-1.png"))
        tab_to(page, "key", found)
        page.keyboard.type(made.key)
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Log out")
        page.goto(root + "facts?user=ann")
        page.locator("tbody th a").first.click()
        found.check(
            page.locator("button", has_text="Pin").count() == 0, "a key that only reads sees forms that write"
        )
        page.locator("button", has_text="Log out").click()
        page.wait_for_url("**/login")
    apart(access.close())


def check(browser: Browser, folder: Path, found: Found) -> None:
    """Walk everything."""
    forest = AsyncMemForest(folder, fast_config(clock=system_clock))

    async def make() -> None:
        await fill(forest)
        for name, turns in make_sessions(5, sessions=60, most_turns=16):
            await forest.ingest_session("many", name, turns)

    apart(make())
    with served(OpenAccess(forest)) as root:
        print("with JavaScript, light")
        seen = walk(opened(browser, found, root).new_page(), root, shots="light", axe=True, found=found)
        print("without JavaScript, dark")
        dark = opened(browser, found, root, java_script_enabled=False, color_scheme="dark")
        plain = dark.new_page()
        again = opened(browser, found, root).new_page()
        for url in seen:  # both now: what was out of date at the first visit has been made since
            again.goto(url)
            plain.goto(url)
            same = plain.locator("body").inner_text() == again.inner_text("body")
            found.check(
                same or "/ask" in url, f"{url}: differs without JavaScript"
            )  # asking tells what the clock says
            found.counts["pages"] += 1
        print("dark")
        walk(
            opened(browser, found, root, color_scheme="dark").new_page(),
            root,
            shots="dark",
            axe=True,
            found=found,
        )
        for scheme in ("light", "dark"):
            print(f"on a phone, {scheme}")
            phone = opened(browser, found, root, viewport=NARROW, color_scheme=scheme).new_page()
            for url in walk(phone, root, shots=f"phone-{scheme}", axe=True, found=found):
                phone.goto(url)
                phone.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
                fits = "document.documentElement.scrollWidth <= window.innerWidth"
                found.check(phone.evaluate(fits), f"{url}: wider than a phone")
        print("by keyboard")
        by_keyboard(opened(browser, found, root).new_page(), root, found)
    print("live")
    live(browser, OpenAccess(forest), found)
    apart(forest.close())
    print("by key")
    by_key(browser, folder, found)


def main() -> int:
    """Run all checks and say what was found."""
    where = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if where is None:
        print("There is no Chromium; install it, or name one in CHROMIUM.", file=sys.stderr)
        return 2
    shutil.rmtree(SHOTS, ignore_errors=True)
    SHOTS.mkdir()
    found = Found()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=where, args=FLAGS)
        check(browser, Path(folder), found)
        browser.close()
    print(", ".join(f"{count:,} {what}" for what, count in found.counts.items()))
    print(f"{len(found.problems)} problems; screenshots in {SHOTS.name}/")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
