"""The wordings of facts by their digests: near-duplicates are found without looking at every fact."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx

_RULES = 0
"""The row that stands for no fact and tells by which rules the other rows were made."""


def wording_rules(tx: Tx) -> bytes | None:
    """Return the rules that made the stored wordings, None when there are none."""
    row = tx.execute("SELECT wording FROM derived_wording WHERE fact = ?", (_RULES,)).fetchone()
    return None if row is None else bytes(row[0])


def drop_wordings(tx: Tx, rules: bytes) -> None:
    """Delete all wordings, and store the rules that make the next ones."""
    tx.execute("DELETE FROM derived_wording")
    put_wording(tx, _RULES, rules)


def put_wording(tx: Tx, fact: int, wording: bytes) -> None:
    """Store the digest of a fact's wording."""
    tx.execute(
        """INSERT INTO derived_wording VALUES (?, ?)
           ON CONFLICT (fact) DO UPDATE SET wording = excluded.wording""",
        (fact, wording),
    )


def put_wordings(tx: Tx, rows: Iterable[tuple[int, bytes]]) -> None:
    """Store (fact, digest of its wording) of facts that have none."""
    tx.executemany("INSERT INTO derived_wording VALUES (?, ?)", rows)


def facts_worded(tx: Tx, wordings: Collection[bytes]) -> list[int]:
    """Return the facts that are worded in one of these ways, by row id."""
    found: set[int] = set()
    for wording in set(wordings):
        rows = tx.execute(
            "SELECT fact FROM derived_wording WHERE wording = ? AND fact != ?", (wording, _RULES)
        )
        found.update(row[0] for row in rows)
    return sorted(found)


def known_wordings(tx: Tx, wanted: Collection[bytes]) -> set[bytes]:
    """Return those digests of wordings that a fact has."""
    one = "SELECT 1 FROM derived_wording WHERE wording = ? AND fact != ?"
    return {digest for digest in wanted if tx.execute(one, (digest, _RULES)).fetchone() is not None}


def wordings(tx: Tx, facts: Collection[int]) -> dict[int, bytes]:
    """Return the digests of facts' wordings."""
    rows = tx.execute(f"SELECT fact, wording FROM derived_wording WHERE fact {AMONG}", (tx.ids(facts),))
    return {row[0]: bytes(row[1]) for row in rows}
