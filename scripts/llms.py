"""Write ``llms.txt`` and ``llms-full.txt``: the pages of the site for language models (https://llmstxt.org).

`scripts/docs_site.py` calls it. The first lists the pages with what each is about; the second is the README and the pages
of the groups in `WHOLE`, one after another. They stand in the site and not in the repository: the second would be a copy of
nearly all pages there, to be made anew with every change of one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["WHOLE", "about", "groups", "write"]

ROOT = Path(__file__).resolve().parents[1]
WHOLE = ("Guides", "Reference", "Explanation")
"""The groups whose pages are in ``llms-full.txt``."""
_NO_TEXT = re.compile(r"<!--.*?-->|^```.*?^```$|^[#|>!:\-].*?$", re.DOTALL | re.MULTILINE)


def groups(config: str) -> Mapping[str, list[str]]:
    """Return the pages of each group of ``nav``, in order; pages above all groups are in none."""
    nav = tomllib.loads(config)["project"]["nav"]
    return {name: pages for group in nav if isinstance(group, dict) for name, pages in group.items()}


def about(page: str) -> tuple[str, str]:
    """Return the title of a page, and its first sentence without links and marks."""
    title = re.search(r"^# (.+)$", page, re.MULTILINE)
    text = _NO_TEXT.sub("", page).strip().split("\n\n")[0]
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))
    return (title[1] if title else ""), re.split(r"(?<=[.:!?])\s+(?=\W*[A-Z`]|memforest)", plain)[0]


def write(stage: Path, site: Path) -> None:
    """Write both files.

    Args:
        stage: where ``zensical.toml`` and the ``pages`` are that the site was made from.
        site: where the files go; their links are relative to it.
    """
    config = (stage / "zensical.toml").read_text(encoding="utf-8")
    texts = {
        name: {page: (stage / "pages" / page).read_text(encoding="utf-8") for page in pages}
        for name, pages in groups(config).items()
    }
    said = tomllib.loads(config)["project"]
    head = f"# {said['site_name']}\n\n> {said['site_description']}\n"
    lines = [
        head,
        "Every page is here as Markdown; the README and most of them are in [one file](llms-full.txt).\n",
    ]
    for name, pages in texts.items():
        lines.append(f"## {name}\n")
        for page, text in pages.items():
            title, first = about(text)
            lines.append(f"- [{title}]({page}): {first}")
        lines.append("")
    (site / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    whole = [
        readme,
        *(f"<!-- {page} -->\n\n{text}" for name in WHOLE for page, text in texts.get(name, {}).items()),
    ]
    (site / "llms-full.txt").write_text("\n\n".join(whole), encoding="utf-8")
