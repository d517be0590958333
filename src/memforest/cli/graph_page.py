"""The graph as a part of the page that `memforest tree --html` writes: who and what is named, and what joins them.

Drawn as SVG without a script or a request. Names and labels are untrusted: they go through `shown_text` like all of the page.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator

from memforest.cli.graph_layout import place
from memforest.cli.screen import clean, counted
from memforest.memory.results import GraphEdge, GraphPicture

WIDTH, HEIGHT, MARGIN = 1000, 620, 70
SMALLEST, LARGEST = 4.0, 16.0
"""Radius of a node that hardly anything names, and of the one that most name."""
NAME_CHARS, LABEL_CHARS, SHOWN_LABELS = 28, 60, 3
LISTED_CHARS = 120


def shown_text(text: str, limit: int) -> str:
    """Return a stored text as it may stand in a page, between tags or in an attribute."""
    return html.escape(clean(text, limit))


def graph_section(picture: GraphPicture) -> Iterator[str]:
    """Yield the section: the drawing, what is not in it, and its edges as a list. Nothing of an empty graph."""
    if not picture.nodes:
        return
    yield f"<section>\n<h2>Who and what is named ({len(picture.nodes)})</h2>\n"
    if picture.left_out:
        yield f'<p class="note">Not in the drawing: {html.escape(picture.left_out)}.</p>\n'
    yield from _drawing(picture)
    yield from _listed(picture)
    yield "</section>\n"


def _drawing(picture: GraphPicture) -> Iterator[str]:
    edges = [(one.source, one.target, float(one.weight)) for one in picture.edges]
    at = [
        (MARGIN + x * (WIDTH - 2 * MARGIN), MARGIN + y * (HEIGHT - 2 * MARGIN))
        for x, y in place(len(picture.nodes), edges)
    ]
    yield f'<svg class="graph" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Entities and what joins them">\n'
    for one in picture.edges:
        (x1, y1), (x2, y2) = at[one.source], at[one.target]
        wide = min(1 + math.log2(max(one.weight, 1)) / 2, 4)
        yield (
            f'<line class="{one.kind}" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" '
            f'stroke-width="{wide:.1f}"><title>{_edge(picture, one)}</title></line>\n'
        )
    most = max(one.supports for one in picture.nodes)
    for node, (x, y) in zip(picture.nodes, at, strict=True):
        radius = SMALLEST + (LARGEST - SMALLEST) * math.sqrt(node.supports / max(most, 1))
        about = f"{shown_text(node.name, LISTED_CHARS)}: {node.kind}, {counted(node.supports, 'fact')}"
        yield (
            f'<g class="node {node.kind}"><circle cx="{x:.0f}" cy="{y:.0f}" r="{radius:.1f}"><title>{about}</title></circle>'
            f'<text x="{x:.0f}" y="{y + radius + 12:.0f}">{shown_text(node.name, NAME_CHARS)}</text></g>\n'
        )
    yield "</svg>\n"


def _listed(picture: GraphPicture) -> Iterator[str]:
    if not picture.edges:
        return
    yield f'<details><summary>What joins them <span class="counts">{len(picture.edges)}</span></summary>\n'
    for one in picture.edges:
        yield f'<div class="leaf"><bdi>{_edge(picture, one)}</bdi></div>\n'
    yield "</details>\n"


def _edge(picture: GraphPicture, one: GraphEdge) -> str:
    """Say what an edge is."""
    source, target = (shown_text(picture.nodes[end].name, LISTED_CHARS) for end in (one.source, one.target))
    if one.kind == "overlap":
        return f"{source} – {target}: perhaps one name"
    if one.kind == "mention":
        return f"{source} – {target}: named together {one.weight:.0f} times"
    labels = ", ".join(shown_text(label, LABEL_CHARS) for label in one.labels[:SHOWN_LABELS])
    more = f" and {len(one.labels) - SHOWN_LABELS} more" if len(one.labels) > SHOWN_LABELS else ""
    return f"{source} – {labels}{more} – {target} ({one.weight:.0f})"
