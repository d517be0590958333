"""Make the pictures of docs/inspector.md: the inspector of the demo's memory, in Chromium.

    make screenshots

It needs what ``make ui-check`` needs. The conversation is the demo's, stored at one fixed time, and "now" is the day after
its last message, so that the same browser makes the same pictures.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from importlib.resources import files

from playwright.sync_api import sync_playwright
from scripts.ui_check import FLAGS, ROOT, apart, served

from memforest.config import Config
from memforest.memory.forest import AsyncMemForest
from memforest.server.auth import OpenAccess
from memforest.testing import FrozenClock

PICTURES = ROOT / "docs" / "pictures"
MOST_BYTES = 600_000
"""Of all pictures together."""
NOW = "2025-10-19T12:00:00Z"
WIDE, PHONE = 1000, 390
SHOTS = {
    "ask": (WIDE, 840, "light", "ask?user=nora&answer=1&q=Where+does+Nora+live+now%3F"),
    "timeline": (WIDE, 700, "light", "timeline?user=nora&entity=Mateo"),
    "compare": (WIDE, 960, "light", "diff?user=nora&a=2025-03-01&b=2025-10-15"),
    "tree": (WIDE, 720, "dark", "tree?user=nora&scope=Nora"),
    "turn": (WIDE, 940, "light", "turn?user=nora&session=ninety&id=9"),
    "phone-ask": (PHONE, 844, "light", "ask?user=nora&answer=1&q=Where+does+Nora+live+now%3F"),
    "phone-timeline": (PHONE, 844, "dark", "timeline?user=nora&entity=Mateo&attribute=residence"),
}
"""Name -> width, most height, colour scheme and address of a picture."""


def main() -> int:
    """Make all pictures anew; return 1 if they are too large together, 2 if there is no browser."""
    where = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if where is None:
        print("There is no Chromium; install it, or name one in CHROMIUM.", file=sys.stderr)
        return 2
    PICTURES.mkdir(exist_ok=True)
    content = (files("memforest.data") / "demo" / "nora_and_mateo.json").read_bytes()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        forest = AsyncMemForest(folder, Config(clock=FrozenClock(NOW)))

        async def fill() -> None:
            await forest.import_file("nora", io.BytesIO(content))

        apart(fill())
        browser = playwright.chromium.launch(executable_path=where, args=FLAGS)
        with served(OpenAccess(forest)) as root:
            for name, (width, most, scheme, address) in SHOTS.items():
                page = browser.new_page(viewport={"width": width, "height": most}, color_scheme=scheme)
                page.goto(root + address)
                height = min(most, page.evaluate("document.documentElement.scrollHeight"))
                page.screenshot(
                    path=str(PICTURES / f"{name}.png"),
                    full_page=True,
                    clip={"x": 0, "y": 0, "width": width, "height": height},
                )
                page.close()
        browser.close()
        apart(forest.close())
    sizes = {one.name: one.stat().st_size for one in sorted(PICTURES.glob("*.png"))}
    for name, size in sizes.items():
        print(f"{size:>9,} {name}")
    print(f"{sum(sizes.values()):>9,} in all")
    return 1 if sum(sizes.values()) > MOST_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
