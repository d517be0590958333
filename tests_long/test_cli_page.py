"""Tests of `memforest tree --html`: one page, nothing of what was said can act in it, and large forests stay usable."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memforest import InputError, MemForest
from memforest.cli import main
from memforest.cli.page import page_of, replace_file, shown_of
from memforest.memory.results import Source, TreeView

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(2)><details ontoggle=alert(3) open>',
    "</style></title></details></summary><base href='//x'>",
    "<!-- <script>alert(4)</script> --> &lt;b&gt; javascript:alert(5)",
    "right \u202eto left\u202c \u2066isolate\u2069 \u061c mark \x1b[31m\x00\u2028",
)
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "p", "div", "input", "button", "span", "main",
    "section", "h2", "details", "summary", "strong", "bdi", "time", "blockquote", "cite", "script",
    "svg", "g", "line", "circle", "text",
}  # fmt: skip
WHEN = datetime(2024, 1, 5, tzinfo=timezone.utc)
Run = Callable[..., Result]


class Page(HTMLParser):
    """Reads a page: elements, attributes, the text of each element, and whether tags are balanced."""

    VOID = frozenset({"meta", "input"})

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that the innermost element ends."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note a text under its element."""
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def handle_comment(self, data: str) -> None:
        """The page has none."""
        raise AssertionError(data)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on a directory of its own."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, args, catch_exceptions=False)

    return run


def ingest(run: Run, path: Path, sessions: list[object], user: str = "me") -> None:
    """Store sessions."""
    path.write_text(json.dumps({"user": user, "sessions": sessions}), encoding="utf-8")
    result = run("ingest", str(path), "--embedder", "hash-words-1@64")
    assert result.exit_code == 0, result.output


def check_is_harmless(content: str) -> Page:
    """Check that a page holds our elements only, asks for nothing, and allows its own style and script alone."""
    page = Page(content)
    assert set(page.tags) <= ELEMENTS
    assert page.tags.count("script") == page.tags.count("style") == 1
    names = {name for _, name, _ in page.attributes}
    assert not [name for name in names if name.startswith("on")]
    assert not names & {"src", "href", "srcset", "action", "style", "formaction", "srcdoc"}
    (policy,) = [value for _, name, value in page.attributes if name == "content" and "default-src" in value]
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256("".join(page.texts[kind]).encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", content)
    assert not re.search(r"https?:|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", content)
    return page


def test_hostile_text_stays_text(run: Run, tmp_path: Path) -> None:
    """User, session and speaker names, turns, and so facts and summaries, cannot end a tag or start one."""
    said = [
        {"speaker": f"Eve {bad}".replace("\x00", ""), "content": f"I live in {bad}.".replace("\x00", ""), "timestamp": f"2024-01-0{n}T10:00:00Z"}
        for n, bad in enumerate(HOSTILE, 1)
    ]  # fmt: skip
    plain = {"speaker": "Ana", "content": "I adopted a dog in Oslo.", "timestamp": "2024-02-01T10:00:00Z"}
    ingest(run, tmp_path / "a.json", [{"session_id": HOSTILE[0], "turns": [*said, plain]}], user=HOSTILE[1])
    page = tmp_path / "forest.html"
    assert run("tree", "--html", str(page)).exit_code == 0
    read = check_is_harmless(page.read_text(encoding="utf-8"))
    quotes = " ".join(read.texts["blockquote"])
    assert "</script><img src=x onerror=alert(1)>" in quotes
    assert "I adopted a dog in Oslo." in quotes
    assert any(HOSTILE[0] in name for name in read.texts["strong"])
    assert HOSTILE[1] in read.texts["title"][0]


def test_the_page_drills_down_to_what_was_said(run: Run, tmp_path: Path) -> None:
    """Scope, days, counts, summary; below them the facts, each with its quote, session and turn."""
    turns = [
        {
            "speaker": "Bo",
            "content": f"I bought {n} apples in Oslo.",
            "timestamp": f"2024-01-{n:02}T10:00:00Z",
        }
        for n in range(2, 14)
    ]
    ingest(run, tmp_path / "a.json", [{"session_id": "fruit", "turns": turns}])
    page = tmp_path / "forest.html"
    result = run("tree", "--html", str(page))
    assert str(page) in result.output.replace("\n", "")
    read = check_is_harmless(page.read_text(encoding="utf-8"))
    assert {"fruit", "Bo"} <= set(read.texts["strong"])
    assert "2024-01-02 to 2024-01-13" in read.texts["time"]
    assert "12 leaves" in read.texts["span"]
    assert any("apples" in text for text in read.texts["p"])
    assert {"I bought 7 apples in Oslo.", "Bo: I bought 7 apples in Oslo."} & set(read.texts["blockquote"])
    assert "fruit #5" in read.texts["bdi"]
    assert "Not on this page" not in "".join(read.texts["p"])


def test_a_limit_cuts_all_trees_alike_and_says_what_is_missing(run: Run, tmp_path: Path) -> None:
    """At most so many nodes; the note counts what is left out, on the page, on the terminal and in JSON."""
    sessions = [
        {
            "session_id": f"s{s}",
            "turns": [
                {"speaker": "Bo", "content": f"I saw {n} cats in Oslo.", "timestamp": 1_700_000_000 + s * 9_000 + n}
                for n in range(30)
            ],
        }
        for s in range(6)
    ]  # fmt: skip
    ingest(run, tmp_path / "a.json", list(sessions))
    page = tmp_path / "forest.html"
    whole = json.loads(run("tree", "--html", str(page), "--json").stdout)["data"]
    assert (whole["left_out"], whole["file"]) == ("", str(page))
    cut = json.loads(run("tree", "--html", str(page), "--json", "--limit", "80").stdout)["data"]
    assert cut["nodes"] <= 80 < whole["nodes"]
    assert cut["trees"] == whole["trees"]
    read = check_is_harmless(page.read_text(encoding="utf-8"))
    assert any(f"Not on this page: {cut['left_out']}" in text for text in read.texts["p"])
    few = json.loads(run("tree", "--html", str(page), "--json", "--limit", "4").stdout)["data"]
    assert few["trees"] == 2
    assert "trees" in few["left_out"]
    assert "Left out" in run("tree", "--html", str(page), "--limit", "4").output
    with MemForest(tmp_path / "memories") as forest:
        assert len(forest.user("me").tree(limit=4)) == 2
        with pytest.raises(InputError, match="limit=0"):
            forest.user("me").tree(limit=0)


def made(leaves: int) -> list[TreeView]:
    """Return one tree with many leaves, eight to a node."""
    level: list[TreeView] = []
    for n in range(leaves):
        when = WHEN + timedelta(hours=n)
        text = f"{HOSTILE[n % 5]} fact {n}"
        level.append(
            TreeView("", when, when, 0, 1, text, False, (), (text,), (Source(HOSTILE[0], (str(n),)),))
        )
    height = 0
    while len(level) > 1:
        height += 1
        groups = [level[i : i + 8] for i in range(0, len(level), 8)]
        level = [
            TreeView("session s" if len(groups) == 1 else "", g[0].start, g[-1].end, height, sum(c.leaves for c in g),
                     HOSTILE[height % 5], height == 1, tuple(g))
            for g in groups
        ]  # fmt: skip
    return level


def test_five_thousand_nodes_stay_harmless_and_small() -> None:
    """A page of 5,000 leaves has them all, closed, in less than a kilobyte each."""
    found = made(5000)
    shown = shown_of(found, 3)
    assert (shown.leaves, shown.all_leaves, shown.left_out) == (5000, 5000, "2 of 3 trees, the smallest")
    content = page_of("x", found, shown, timezone.utc)
    read = check_is_harmless(content)
    assert sum("fact 4999" in text for text in read.texts["blockquote"]) == 1
    assert ("details", "open", "") not in read.attributes
    assert len(content.encode()) < 5_000_000


def test_long_texts_are_cut() -> None:
    """One pasted document does not make the page huge."""
    long = TreeView("entity Ana", WHEN, WHEN, 0, 1, "x " * 50_000, False, (), ("y " * 50_000,))
    content = page_of("u", [long], shown_of([long], None), timezone.utc)
    assert len(content) < 20_000
    assert "…" in content


def test_a_page_is_written_whole_or_not_at_all(run: Run, tmp_path: Path) -> None:
    """A place that cannot be written is named; nothing half-written stays; an older page is replaced."""
    ingest(
        run,
        tmp_path / "a.json",
        [{"turns": [{"speaker": "Bo", "content": "Hi Ana.", "timestamp": 1_700_000_000}]}],
    )
    missing = run("tree", "--html", str(tmp_path / "none" / "x.html"))
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "x.html cannot be written" in missing.stderr
    assert run("tree", "--html", str(tmp_path)).exit_code == 2
    page = tmp_path / "pages" / "x.html"
    page.parent.mkdir()
    page.write_text("old", encoding="utf-8")
    assert run("tree", "a", "--html", str(page)).exit_code == 0
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [one.name for one in page.parent.iterdir()] == ["x.html"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no file modes")
def test_a_page_is_for_its_owner_alone_and_follows_no_link(tmp_path: Path) -> None:
    """What a link leads to, at the page's name or at a name that could be foreseen, stays as it is."""
    page, other = tmp_path / "page.html", tmp_path / "other.txt"
    other.write_text("not to be touched")
    page.symlink_to(other)
    (tmp_path / f".page.html.{os.getpid()}.part").symlink_to(other)
    replace_file(page, "<html>")
    assert (page.read_text(), other.read_text()) == ("<html>", "not to be touched")
    assert stat.S_IMODE(page.lstat().st_mode) == 0o600
    assert not page.is_symlink()


def test_an_empty_page_says_so() -> None:
    """A memory without trees gives a page, not an error."""
    content = page_of("u", [], shown_of([], 0), timezone.utc)
    assert "nothing in this memory yet" in content
    check_is_harmless(content)
