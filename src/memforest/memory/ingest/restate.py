"""Restating facts: deriving wording, speaker and time of a fact from its occurrences whenever one comes or goes.

A fact is worded and attributed by the first of its occurrences that has its identity, dated by the first
of all, and stands in the trees of whom they name. So the order in which sessions arrive changes nothing,
and an occurrence that is taken back leaves nothing of its wording or its speaker behind.
"""

from __future__ import annotations

from memforest.facts.canonical import Signature, stated_days
from memforest.facts.restating import restated
from memforest.facts.wording import wording, wording_rules
from memforest.interval import from_ms
from memforest.search.texts import index_tokens
from memforest.store import derived
from memforest.store import facts as fact_rows
from memforest.store.facts import FactRow
from memforest.store.tx import Tx
from memforest.systems.attached import Placings

__all__ = ["ensure_wordings", "fact_signature", "restate_fact"]


def restate_fact(tx: Tx, placings: Placings, fact: FactRow) -> FactRow:
    """Derive a fact from its occurrences, and write it with its word rows.

    A vector of another wording is dropped; the caller, or `fill_vectors`, makes the new one.

    Args:
        tx: the open write transaction.
        placings: the indexes, which are told before the fact changes.
        fact: as stored; it has at least one occurrence.

    Returns:
        The fact as it is stored now.
    """
    found = fact_rows.occurrences(tx, (fact.row,))[fact.row]
    now = restated(tx, fact, found)
    if now != fact:
        placings.leave("fact", (fact.row,))
        if now.text != fact.text:
            derived.drop_vectors(tx, "fact", (fact.row,))
        fact_rows.restate(tx, now)
        derived.put_wording(tx, fact.row, fact_signature(now).digest)
        derived.put_words(tx, "fact", fact.row, index_tokens(now.speaker, now.text, from_ms(now.said_ms)))
    return now


def fact_signature(fact: FactRow, parts: frozenset[tuple[str, str]] = frozenset()) -> Signature:
    """Return the merge signature of a stored fact; `parts` are its mentions, which its digest does without."""
    times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
    return Signature(
        wording(fact.text),
        fact.negated,
        fact.start_ms,
        fact.end_ms,
        stated_days(times[0], times[1], fact.dates),
        parts,
    )


def ensure_wordings(tx: Tx) -> None:
    """Rebuild the wording digests of all facts if they are missing or were made by another version's rules."""
    if derived.wording_rules(tx) == wording_rules():
        return
    derived.drop_wordings(tx, wording_rules())
    for fact in fact_rows.iter_facts(tx):
        derived.put_wording(tx, fact.row, fact_signature(fact).digest)
