"""Make a site of the pages of docs/, with search and both colour schemes, that asks nothing of another host.

    make docs-site

The site is ``.docs-site/site``. Its pages can be read from there; its search needs a server, and any will do:
``python -m http.server -d .docs-site/site``. The order of the pages is ``nav`` of ``zensical.toml``. Exit code 1 when a link leads
nowhere, a page asks another host, or ``nav`` does not name a page; the site is there all the same.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from scripts import llms

ROOT = Path(__file__).resolve().parents[1]
STAGE = ROOT / ".docs-site"
BESIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "NOTICE")
"""What of the project's root is part of the site."""
CLASSES = "classes.md"
"""The page of what `memforest` exports, made from the docstrings."""
_PAGE = re.compile(r'^ *"(.+\.md)",$')
_LINK = re.compile(
    r"```.*?^ *```|`[^`\n]+`|\[((?:`[^`\n]*`|[^\[\]`])*)\]\(([^)#\s]*)(#[^)\s]*)?\)", re.DOTALL | re.MULTILINE
)
_ASKED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?![^>]*rel=["']?(?:canonical|next|prev))[^>]*href=["']?(?:https?:)?//"""
    r"""|@import\b|\burl\(["']?(?:https?:)?//"""
)
"""What makes a browser ask another host; a link that somebody follows is none."""
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_PROBLEM = re.compile(r"^Warning: (.+)\n.*\[ (\S+?):(\d+):\d+ \]", re.MULTILINE)


def planned(config: str, there: Sequence[str]) -> tuple[str, list[str]]:
    """Return a configuration whose ``nav`` has the pages that are there, and which of them it did not name.

    Those come last, below "More". Groups without a page are left out.
    """
    lines = config.splitlines(keepends=True)
    named = {found[1] for line in lines if (found := _PAGE.match(line))}
    kept = "".join(line for line in lines if not (found := _PAGE.match(line)) or found[1] in there)
    kept = re.sub(r'^ *\{ "[^"]+" = \[\s*\] \},\n', "", kept, flags=re.MULTILINE)
    more = sorted(set(there) - named)
    rows = "".join(f'    "{page}",\n' for page in more)
    group = f'  {{ "More" = [\n{rows}  ] }},\n' if more else ""
    return re.sub(r"^\]$", lambda end: group + end[0], kept, count=1, flags=re.MULTILINE), more


def relinked(text: str, source: str) -> str:
    """Return a page with its links as they are in the site, where docs/ and the project's root are one folder.

    A link to a file that is no part of the site becomes its text.

    Args:
        text: the page.
        source: where it stands in the project, e.g. ``docs/guide/start.md``.
    """
    home = posixpath.dirname(source.removeprefix("docs/"))

    def one(found: re.Match[str]) -> str:
        target, anchor = found[2], found[3] or ""
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path == "README.md":
            path = "docs/index.md"
        if not path.startswith("docs/") and path not in BESIDE:
            return found[1]
        return f"[{found[1]}]({posixpath.relpath(path.removeprefix('docs/'), home or '.')}{anchor})"

    return _LINK.sub(one, text)


def classes(names: Sequence[str]) -> str:
    """Return the page of the exported classes and functions; a blocking class has the verbs of its twin."""
    rows = [
        "# Classes",
        "What `memforest` exports, from its docstrings. [The reference](reference.md) has the options of verbs.",
    ]
    for name in names:
        rows.append(f"::: memforest.{name}")
        if f"Async{name}" in names:
            rows[-1] += "\n    options:\n      members: false"
    return "\n\n".join(rows) + "\n"


def stage() -> list[str]:
    """Write the pages as the site has them, and their configuration; return the pages that ``nav`` does not name."""
    shutil.rmtree(STAGE, ignore_errors=True)
    pages = STAGE / "pages"
    shutil.copytree(ROOT / "docs", pages)
    for name in BESIDE:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, pages)
    for page in pages.rglob("*.md"):
        name = page.relative_to(pages).as_posix()
        source = name if name in BESIDE else f"docs/{name}"
        page.write_text(relinked(page.read_text(encoding="utf-8"), source), encoding="utf-8")
    sys.path.insert(0, str(ROOT / "src"))
    (pages / CLASSES).write_text(classes(import_module("memforest").__all__), encoding="utf-8")
    there = [page.relative_to(pages).as_posix() for page in pages.rglob("*.md")]
    config, more = planned((ROOT / "zensical.toml").read_text(encoding="utf-8"), there)
    (STAGE / "zensical.toml").write_text(config, encoding="utf-8")
    return more


def main() -> int:
    """Build the site; print what is in it, and what is wrong with it."""
    more = stage()
    zensical = Path(sys.executable).with_name("zensical")
    command = [str(zensical), "build", "--config-file", str(STAGE / "zensical.toml")]
    done = subprocess.run(command, cwd=STAGE, capture_output=True, text=True, check=False)
    said = _COLOUR.sub("", done.stdout + done.stderr)
    site = STAGE / "site"
    if done.returncode or not site.is_dir():
        print(said, file=sys.stderr)
        return 1
    problems = [f"{page}:{line}: {what}" for what, page, line in _PROBLEM.findall(said)]
    for page in (STAGE / "pages").rglob("*.md"):
        shutil.copy(page, site / page.relative_to(STAGE / "pages"))
    llms.write(STAGE, site)
    built = [one for one in site.rglob("*") if one.is_file()]
    html = [one for one in built if one.suffix in (".html", ".css")]
    problems += [
        f"{one.name}: asks another host" for one in html if _ASKED.search(one.read_text(encoding="utf-8"))
    ]
    problems += [f"{page}: not in nav of zensical.toml" for page in more]
    if problems:
        print(*problems, sep="\n")
    megabytes = sum(one.stat().st_size for one in built) / 1e6
    print(f"{sum(one.suffix == '.html' for one in html)} pages, {megabytes:.1f} MB: {site / 'index.html'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
