"""Stored facts in the same words as new statements: who may be a near duplicate, found by an index.

Only statements of one wording can merge (`memforest.facts.canonical.may_merge`), so the digests of wordings
are indexed and a commit looks at a handful of facts, however many there are. That is why the plan of which
statements are which facts can be made inside the write transaction, against what is stored at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from memforest.facts.canonical import Signature
from memforest.facts.wording import wording
from memforest.store import derived, meta
from memforest.store import facts as fact_rows
from memforest.store.db import Tx
from memforest.store.facts import FactRow

__all__ = ["WORDINGS", "facts_alike", "note_wording", "wording_digest"]

WORDINGS = "1"
"""Version of the rules of wording that the index is made by; another one makes it anew."""


def wording_digest(text: str) -> bytes:
    """Return the digest of a statement's words, the same for any two that may be one fact.

    Example:
        >>> wording_digest("Ann has two dogs.") == wording_digest("Ann has 2 dogs")
        True
    """
    signs, clauses = wording(text).bag
    return blake2b(repr((sorted(signs), clauses)).encode(), digest_size=8).digest()


def note_wording(tx: Tx, fact: int, text: str) -> None:
    """Index a fact that is new, or worded otherwise now."""
    derived.put_wordings(tx, [(fact, wording_digest(text))])


def facts_alike(tx: Tx, texts: Iterable[str]) -> list[tuple[int, Signature, NDArray[np.float32]]]:
    """Return (row id, signature, vector) of the stored facts in the same words as one of the texts."""
    _make_ready(tx)
    rows = derived.facts_worded(tx, {wording_digest(text) for text in texts})
    vectors = derived.vectors_with_ids(tx, "fact", rows)
    facts = fact_rows.facts_with_ids(tx, vectors)
    return [(row, _signature(tx, facts[row]), vectors[row]) for row in sorted(vectors)]


def _make_ready(tx: Tx) -> None:
    """Index what was stored before there was an index, or by other rules."""
    if meta.get(tx, "wordings") == WORDINGS:
        return
    derived.clear_wordings(tx)
    derived.put_wordings(tx, ((fact, wording_digest(text)) for fact, text in derived.unworded(tx)))
    meta.put(tx, "wordings", WORDINGS)


def _signature(tx: Tx, fact: FactRow) -> Signature:
    return Signature(
        wording=wording(fact.text),
        negated=fact.negated,
        start=fact.start_ms,
        end=fact.end_ms,
        parts=frozenset(
            (fact_rows.entity_with_row(tx, entity).key, role)
            for entity, role in fact_rows.mentions_of(tx, fact.row)
            if role != "speaker"
        ),
    )
