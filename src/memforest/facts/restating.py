"""What a fact says of itself, derived from the occurrences that count: its wording, speaker, and when it was first said.

A fact is worded and attributed by the first of its occurrences that has its identity, and dated by the first of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memforest.facts.canonical import fact_identity
from memforest.interval import from_ms
from memforest.store import facts as fact_rows
from memforest.store.facts import FactRow, OccurrenceRow
from memforest.store.tx import Tx


def restated(tx: Tx, fact: FactRow, found: Sequence[OccurrenceRow]) -> FactRow:
    """Derive a fact from its occurrences, at least one, which are given in time order."""
    times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
    identities = [fact_identity(one.text, times[0], times[1], one.dates) for one in found]
    at = identities.index(fact.fact_id) if fact.fact_id in identities else 0
    same = fact_rows.fact_by_id(tx, identities[at])
    if same is not None and same.row != fact.row:
        # Another fact has that identity: this one keeps its own, as two may not share one.
        return replace(fact, said_ms=found[0].said_ms, tie=found[0].tie)
    return replace(
        fact,
        fact_id=identities[at],
        text=found[at].text,
        dates=found[at].dates,
        speaker=found[at].speaker,
        topics=found[at].topics,
        said_ms=found[0].said_ms,
        tie=found[0].tie,
    )
