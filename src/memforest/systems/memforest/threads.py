"""Timelines of attributes that nobody has listed: threads of interchangeable values in a memory.

"What does Bob open with these days?" asks about something that no lexicon knows. A thread is found in two
steps. Topic: the values that the question names, or whose statements (about anybody) are near it, and from
there the values that are like those (`memforest.systems.memforest.kinds`). Timeline: what was said of the one
person and those values, read by its stance (so, begun, over, only wished for), in time order.
From there on it is a timeline like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from memforest.facts.timeline import Observation, Segment, timeline
from memforest.ranking import Scores, standardise
from memforest.search.snapshot import OPEN, Snapshot
from memforest.steps.local.stance import read_statement, stances_of
from memforest.store.db import Tx
from memforest.systems.memforest.kinds import Vocabulary, vocabulary

__all__ = ["Thread", "choose_values", "find_thread"]

SHRINK = 2.0
"""Weight, in statements, of the memory's mean relevance in a value's mean: one near statement proves little."""
SEEDS = 3
"""Values nearest the question that say what its kind of thing is like."""
MAX_SPAN_MS = 40 * 86_400_000
"""A stated time longer than this ("in 2023") is taken from its start."""
LEXICAL = 0.5
"""Weight of shared words beside the cosine in a value's relevance."""
SLACK = 0.4
"""Least score of a value, as a share of the seeds'."""


@dataclass(frozen=True, slots=True)
class Thread:
    """The timeline of one person and one kind of values; `facts` of the segments are row ids of the store.

    `told` are the facts that tell a beginning, `values` all values of the kind with their scores.
    """

    segments: tuple[Segment, ...]
    told: frozenset[int]
    values: Mapping[str, float]


def find_thread(
    tx: Tx,
    snapshot: Snapshot,
    who: str,
    dense: Scores,
    lexical: Scores,
    anchor: str,
    attribute: str | None = None,
) -> Thread | None:
    """Return the timeline of the kind of thing that a question is about, for one person, or None.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        who: the person's name as the memory has it.
        dense: cosine of every fact to the question, shape (m,); zeros without an embedder.
        lexical: BM25 of every fact, shape (m,).
        anchor: text in which a value of the kind may be named ("before the Pirc").
        attribute: the listed attribute that the question is about, if it is one.
    """
    known = vocabulary(tx, snapshot)
    values = choose_values(known, dense, lexical, anchor, attribute)
    seen, told = _observe(known, snapshot, who, values)
    return Thread(tuple(timeline(seen)), frozenset(told), values) if seen else None


def choose_values(
    known: Vocabulary, dense: Scores, lexical: Scores, anchor: str, attribute: str | None = None
) -> dict[str, float]:
    """Return the values that a question is about, with their scores: 1 is as near as the seeds are."""
    if not known.values:
        return {}
    topical = standardise(_means(known, dense)) + LEXICAL * standardise(_means(known, lexical))
    named = known.named_in(anchor) or _known_of(known, attribute)
    seeds = np.array([value in named for value in known.values])
    flowed = standardise(known.spread(topical))
    if not seeds.any():
        seeds[np.argsort(-flowed, kind="stable")[:SEEDS]] = True
        score = flowed + standardise(known.alike[:, seeds].mean(axis=1))
    else:
        score = flowed + 2 * standardise(known.spread(seeds.astype(np.float64)))
    reference = max(float(np.sort(score)[::-1][:SEEDS].mean()), 1e-9)
    return {
        value: float(score[i]) / reference
        for i, value in enumerate(known.values)
        if score[i] >= SLACK * reference or (named and seeds[i])
    }


def _known_of(known: Vocabulary, attribute: str | None) -> frozenset[str]:
    """Return the values that statements are known to give to a listed attribute, or to one asked for alike."""
    found = known.attributes.get(attribute or "", frozenset())
    return found or known.attributes.get(_ASKED_AS.get(attribute or "", ""), frozenset())


_ASKED_AS = {"hometown": "residence", "school": "employer"}
"""Attributes that people ask for by the other's name: "her home town these days"."""


def _means(known: Vocabulary, relevance: Scores) -> Scores:
    """Return the mean relevance of the statements that use each value, shrunk to the memory's mean."""
    mean = float(relevance.mean()) if len(relevance) else 0.0
    rows = (relevance[known.uses[value]] for value in known.values)
    return np.array([(row.sum() + SHRINK * mean) / (len(row) + SHRINK) for row in rows])


def _moment(snapshot: Snapshot, row: int) -> int:
    """Return when a fact is taken to have been so, in ms: the middle of its stated time, but not after it was said."""
    facts = snapshot.facts
    start, end, said = int(facts.start_ms[row]), int(facts.end_ms[row]), int(facts.said_ms[row])
    if not facts.stated[row] or end == OPEN or end - start > MAX_SPAN_MS:
        return start
    return max(start, min((start + end) // 2, said))


def _observe(
    known: Vocabulary, snapshot: Snapshot, who: str, values: Mapping[str, float]
) -> tuple[list[Observation], set[int]]:
    """Return what was said of a person and some values as observations, and the facts that tell a beginning."""
    seen: list[Observation] = []
    told: set[int] = set()
    if not values:
        return seen, told
    facts, others = snapshot.facts, known.people - {who}
    for row in np.unique(np.concatenate([known.uses[value] for value in values])).tolist():
        found = list(stances_of(read_statement(known.texts[row]), who, others, values))
        fact, at = int(facts.ids[row]), _moment(snapshot, row)
        for place, (value, stance) in enumerate(found):
            if stance in ("unreal", "over", "event"):
                continue
            change: Literal["is", "start", "end"] = (
                "end" if stance == "end" else "is" if stance == "is" else "start"
            )
            seen.append(Observation(at, f"{0 if change == 'end' else 1}{place}", fact, value, None, change))
            if change == "start" or (facts.stated[row] and change == "is"):
                told.add(fact)
    return seen, told
