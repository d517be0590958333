"""The forest as one HTML page that needs nothing else: `memforest tree --html`.

Stored text is untrusted. Every string goes through `shown_text`, which takes out controls and directional marks and
escapes the rest; the page's policy allows its own style and script, by their digests, and nothing besides: no
network, no other script, no form.
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from memforest.cli.graph_page import graph_section, shown_text
from memforest.cli.screen import Screen, counted, leaf_counts, sources
from memforest.memory.results import GraphPicture, TreeView

QUOTE_CHARS = 2000
"""Longest text of a leaf; what is longer is cut, so that a few pasted documents do not make the page huge."""

QUOTE_LINES = 100
"""Most lines of a leaf."""

SUMMARY_CHARS = 400
NAME_CHARS = 120
NO_PICTURE = GraphPicture()


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of the forest a page shows: counts of trees, nodes and leaves, of all there are."""

    trees: int
    all_trees: int
    nodes: int
    leaves: int
    all_leaves: int
    """Leaves of the trees that are shown."""

    @property
    def left_out(self) -> str:
        """What the page leaves out, in words; empty when it shows all."""
        parts = []
        if self.trees < self.all_trees:
            parts.append(f"{self.all_trees - self.trees:,} of {self.all_trees:,} trees, the smallest")
        if self.leaves < self.all_leaves:
            parts.append(f"{self.all_leaves - self.leaves:,} of {self.all_leaves:,} leaves")
        return " and ".join(parts)


def shown_of(found: Sequence[TreeView], trees: int | None) -> Shown:
    """Count what trees hold.

    Args:
        found: the trees, unfolded as far as they are.
        trees: how many there are; None when a scope was named, so that all are here.
    """
    nodes = leaves = 0
    stack = list(found)
    while stack:
        view = stack.pop()
        nodes += 1
        leaves += view.level == 0
        stack += view.children
    there = len(found) if trees is None else max(len(found), trees)
    return Shown(len(found), there, nodes, leaves, sum(view.leaves for view in found))


def page_of(
    title: str,
    found: Sequence[TreeView],
    shown: Shown,
    zone: tzinfo,
    picture: GraphPicture = NO_PICTURE,
) -> str:
    """Return the page.

    Args:
        title: whose forest it is; untrusted as all text here.
        found: the trees, sorted by kind.
        shown: what of the forest they are.
        zone: time zone of the days.
        picture: of the graph; an empty one is left out.
    """
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="referrer" content="no-referrer">\n',
            f"<title>{shown_text(title, NAME_CHARS)}</title>\n<style>{style}</style>\n</head>\n<body>\n",
            *_head(title, shown),
            "<main>\n",
            *graph_section(picture),
            *_Body(Screen(zone=zone)).sections(found),
            f"</main>\n<script>{script}</script>\n</body>\n</html>\n",
        ]
    )


def replace_file(path: Path, content: str) -> None:
    """Write a file, for its owner alone, so that it is there whole or as it was before.

    A link in its place is replaced, not followed. A pipe or device is written to.

    Raises:
        OSError: if it cannot be written.
    """
    if path.exists() and not path.is_file():
        path.write_text(content, encoding="utf-8")
        return
    made, name = tempfile.mkstemp(dir=path.parent, prefix=".memforest-", suffix=".part")  # of mode 0600
    part = Path(name)
    try:
        with os.fdopen(made, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _asset(name: str) -> str:
    return (files("memforest.data") / "page" / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """Return a source expression that allows exactly this inline text.

    Source: https://www.w3.org/TR/CSP3/#match-element-to-source-list
    """
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _head(title: str, shown: Shown) -> Iterator[str]:
    yield f'<header>\n<h1 dir="auto">{shown_text(title, NAME_CHARS)}</h1>\n'
    counts = f"{counted(shown.trees, 'tree')}, {counted(shown.nodes, 'node')}"
    yield f'<p class="dim">{counts}. A summary may be of the machine\'s making; the leaves are what was said.</p>\n'
    if shown.left_out:
        yield (
            f'<p class="note">Not on this page: {html.escape(shown.left_out)}. '
            "A larger --limit, or the name of one session or entity, shows more.</p>\n"
        )
    yield (
        '</header>\n<div class="find" id="tools" hidden><input id="find" type="search" placeholder="Find" '
        'aria-label="Find in names, summaries and quotes"><button id="close" type="button">Close all</button>'
        '<span class="dim" id="found" role="status"></span></div>\n'
    )


@dataclass(frozen=True, slots=True)
class _Body:
    """Writes trees; the screen knows how days are shown."""

    screen: Screen

    def sections(self, found: Sequence[TreeView]) -> Iterator[str]:
        """Yield the trees under a heading for each kind."""
        for kind, views in groupby(found, key=lambda view: view.title.partition(" ")[0]):
            trees = list(views)
            yield f"<section>\n<h2>{shown_text(kind, NAME_CHARS)} trees ({len(trees)})</h2>\n"
            for view in trees:
                yield from self._node(view, view.title.partition(" ")[2])
            yield "</section>\n"
        if not found:
            yield "<p>There is nothing in this memory yet.</p>\n"

    def _node(self, view: TreeView, label: str) -> Iterator[str]:
        if view.level == 0 and not label:
            yield from self._leaf(view)
            return
        name = f"<bdi><strong>{shown_text(label, NAME_CHARS)}</strong></bdi> " if label else ""
        leaves = f"{view.leaves:,} {'leaf' if view.leaves == 1 else 'leaves'}"
        counts = html.escape(leaf_counts(view) or leaves)
        stale = ' <span class="stale">summary out of date</span>' if view.dirty else ""
        yield f'<details><summary>{name}{self._when(view)} <span class="counts">{counts}</span>{stale}'
        if view.level == 0:
            yield "</summary>\n"
            yield from self._leaf(view)
        else:
            yield (
                f'<p dir="auto">{shown_text(view.summary, SUMMARY_CHARS)}</p></summary>\n'
                if view.summary
                else "</summary>\n"
            )
            for child in view.children:
                yield from self._node(child, child.title if child.level else "")
            if not view.children:
                yield f'<p class="note">{leaves} not on this page.</p>\n'
        yield "</details>\n"

    def _leaf(self, view: TreeView) -> Iterator[str]:
        number = f' <span class="counts">{html.escape(leaf_counts(view))}</span>' if view.span else ""
        yield f'<div class="leaf">{self._when(view)}{number}\n'
        if view.quotes and view.summary not in view.quotes:
            yield f'<p dir="auto">{shown_text(view.summary, QUOTE_CHARS)}</p>\n'
        lines = view.quotes or [line for line in view.summary.splitlines() if line.strip()]
        for said in lines[:QUOTE_LINES]:
            yield f'<blockquote dir="auto">{shown_text(said, QUOTE_CHARS)}</blockquote>\n'
        if len(lines) > QUOTE_LINES:
            yield f'<p class="note">{counted(len(lines) - QUOTE_LINES, "more line")} not on this page.</p>\n'
        if view.sources:
            yield f"<cite><bdi>{html.escape(sources(view.sources))}</bdi></cite>\n"
        yield "</div>\n"

    def _when(self, view: TreeView) -> str:
        return f"<time>{html.escape(self.screen.interval(view.start, view.end))}</time>"
