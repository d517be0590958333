"""Choices: what people have decided of two entities, that they are one or that they are two.

Of a pair the newest counts; the ones before stay, so that taking it back leaves what was so before. A choice goes with
either of its entities.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from memforest.store.tx import Tx

Verdict = Literal["same", "apart"]


class ChoiceRow(NamedTuple):
    """A decision about two entities, of which the one with the lower row stands first; when it was made, UTC ms."""

    id: int
    verdict: Verdict
    entity: int
    other: int
    made_ms: int

    @property
    def same(self) -> bool:
        """Whether the two are one."""
        return self.verdict == "same"


def add(tx: Tx, verdict: Verdict, entity: int, other: int, made_ms: int) -> int:
    """Record a decision, which counts from now on, and return its id; who calls raises the generation.

    It is never dated before an earlier one of the pair, whatever the clock says.

    Raises:
        ValueError: if the two are one row.
    """
    if entity == other:
        raise ValueError("a choice is about two entities")
    first, second = sorted((entity, other))
    newest = tx.execute(
        "SELECT max(made_ms) FROM choice WHERE entity = ? AND other = ?", (first, second)
    ).fetchone()[0]
    return put(tx, verdict, first, second, made_ms if newest is None else max(made_ms, newest))


def put(tx: Tx, verdict: Verdict, first: int, second: int, made_ms: int) -> int:
    """Record a decision that was made at a time, maybe before others of the pair; the lower row is first."""
    return tx.insert(
        "INSERT INTO choice (verdict, entity, other, made_ms) VALUES (?, ?, ?, ?) RETURNING id",
        (verdict, first, second, made_ms),
    )


def entities(tx: Tx) -> set[int]:
    """Return the entities about which something was decided."""
    return {row for (row,) in tx.execute("SELECT entity FROM choice UNION SELECT other FROM choice")}


def history(tx: Tx) -> list[ChoiceRow]:
    """Return all choices, the oldest first."""
    rows = tx.execute("SELECT id, verdict, entity, other, made_ms FROM choice ORDER BY made_ms, id")
    return [ChoiceRow(*row) for row in rows]


def read(tx: Tx, known_ms: int | None = None) -> list[ChoiceRow]:
    """Return the choices that count, one a pair, the oldest first; with a moment those that counted then, of what is there now."""
    newest: dict[tuple[int, int], ChoiceRow] = {}
    for one in history(tx):
        if known_ms is None or one.made_ms <= known_ms:
            newest.pop((one.entity, one.other), None)
            newest[one.entity, one.other] = one
    return list(newest.values())


def remove(tx: Tx, choice: int) -> bool:
    """Take a decision back, and return whether it was there; who calls raises the generation."""
    return tx.execute("DELETE FROM choice WHERE id = ?", (choice,)).rowcount > 0
