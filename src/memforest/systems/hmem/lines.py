"""The first evidence of a part of a question as lines for a model that is to reason about it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from memforest.interval import from_ms
from memforest.search.snapshot import Snapshot
from memforest.store import derived
from memforest.store import evidence as rows
from memforest.store import trees as tree_rows
from memforest.store.digests import damaged_turns
from memforest.store.tx import Tx
from memforest.systems.base import Found, Hit

if TYPE_CHECKING:
    from memforest.steps.llm.explore import Told

MOST_LINES = 10
"""Pieces of evidence that a model reads of one part: k of the paper's default."""


def lines_of(tx: Tx, snapshot: Snapshot, found: Found, most: int = MOST_LINES) -> list[Told]:
    """Return the first pieces of what was found as lines, best first, without damaged ones.

    A turn that says what is hidden stands there by the statement that speaks for it.
    """
    from memforest.steps.llm.explore import Told

    hits = list(islice(_each_fact_once(found), most))
    nodes = list(found.nodes)[:most]
    turns = {int(snapshot.turns.ids[hit.turn]) for hit in hits}
    said = rows.turn_texts(tx, turns - damaged_turns(tx, turns).keys())
    facts = rows.fact_texts(tx, {int(snapshot.facts.ids[hit.fact]) for hit in hits if hit.fact >= 0})
    texts = derived.summaries(tx, [node.node for node in nodes])
    spans = tree_rows.nodes_with_ids(tx, list(texts))
    ranked: list[tuple[float, Told]] = []
    for hit in hits:
        turn = said.get(int(snapshot.turns.ids[hit.turn]))
        if turn is None:
            continue
        text = turn.text
        if snapshot.turns.muted[hit.turn]:
            if hit.fact < 0:
                continue
            text = facts[int(snapshot.facts.ids[hit.fact])].text
        ranked.append((hit.score, Told(text, from_ms(turn.said_ms), None, turn.speaker)))
    for node in nodes:
        if text_of := texts.get(node.node):
            span = spans[node.node]
            ranked.append((node.score, Told(text_of, from_ms(span.start_ms), from_ms(span.end_ms))))
    return [told for _, told in sorted(ranked, key=lambda one: -round(one[0], 9))][:most]


def _each_fact_once(found: Found) -> list[Hit]:
    seen: set[int] = set()
    kept = []
    for hit in islice(found.hits, 3 * MOST_LINES):
        if hit.fact < 0 or hit.fact not in seen:
            seen.add(hit.fact)
            kept.append(hit)
    return kept
