"""Look at every page of the site in Chromium: axe, a phone's width, both colour schemes, no other host, and the search.

    make docs-site-check

It needs what ``make ui-check`` needs, and the site of ``make docs-site``. Screenshots of every page go to ``ui-screenshots/``.
Exit code 0 when nothing was found, 1 when something was, 2 when there is no browser or no site.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from scripts.docs_site import STAGE
from scripts.ui_check import FLAGS, NARROW, SHOTS, Found, opened

SEARCHED = "encryption"
WIDE = {"width": 1280, "height": 900}
"""Wide enough for the menu to stand beside the page."""


class _Quiet(SimpleHTTPRequestHandler):
    """Serves the site and says nothing."""

    def log_message(self, *args: object) -> None:
        """Leave out the line of a request."""


def look(page: Page, root: str, site: Path, kind: str, found: Found) -> None:
    """Open each page at one width and in one colour scheme."""
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        page.goto(root + name, wait_until="networkidle")
        found.counts["pages"] += 1
        width = page.evaluate("document.documentElement.scrollWidth")
        most = (page.viewport_size or WIDE)["width"]
        found.check(width <= most, f"{name}: {width} px wide at {most}")
        result = Axe().run(page)
        found.check(result.violations_count == 0, f"{name}, {kind}: {result.generate_report()}")
        page.screenshot(path=str(SHOTS / f"docs-{kind}-{name.replace('/', '-')}.png"))


def search(page: Page, root: str, found: Found) -> None:
    """Find a page by a word, with the keyboard alone."""
    page.goto(root + "index.html", wait_until="networkidle")
    page.keyboard.press("Control+k")
    page.wait_for_timeout(500)
    page.keyboard.type(SEARCHED)
    page.wait_for_timeout(2000)
    page.screenshot(path=str(SHOTS / "docs-search.png"))
    page.keyboard.press("Enter")
    page.wait_for_timeout(2000)
    found.check(f"{SEARCHED}.html" in page.url, f"the search for {SEARCHED!r} leads to {page.url}")


def check(browser: Browser, site: Path, found: Found) -> None:
    """Serve the site on a free port of this machine, and look at it wide and narrow, light and dark."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}/"
    search(opened(browser, found, root).new_page(), root, found)
    looks = (
        ("wide", WIDE, "light"),
        ("night", WIDE, "dark"),
        ("phone", NARROW, "dark"),
        ("day", NARROW, "light"),
    )
    for kind, size, scheme in looks:
        context = opened(browser, found, root, viewport=size, color_scheme=scheme)
        look(context.new_page(), root, site, kind, found)
        context.close()
    server.shutdown()


def main() -> int:
    """Run all checks and say what was found."""
    where = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else STAGE / "site"
    if where is None or not (site / "index.html").exists():
        print("There is no Chromium (CHROMIUM names one), or no site (`make docs-site`).", file=sys.stderr)
        return 2
    SHOTS.mkdir(exist_ok=True)
    found = Found()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=where, args=FLAGS)
        check(browser, site, found)
        browser.close()
    print(", ".join(f"{count:,} {what}" for what, count in found.counts.items()))
    print(f"{len(found.problems)} problems; screenshots in {SHOTS.name}/")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
