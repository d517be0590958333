"""Consistency checks that SQL alone can do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from memforest.store import derived
from memforest.store.dialect import gathered
from memforest.store.engine import errors
from memforest.store.facts import QUOTE
from memforest.store.packing import NUMBER, unpack_ids, unpack_text, unpack_vectors
from memforest.store.tx import Tx, begin_anew

INDEXES = ("derived_turn_words", "derived_fact_words")
"""The full-text tables."""

VECTOR_KINDS: tuple[derived.ItemKind, ...] = get_args(derived.ItemKind)

CHECKS_INDEXES = (3, 44, 0)
"""SQLite from which "integrity_check" runs FTS5's own check too: https://www.sqlite.org/changes.html."""


@dataclass(frozen=True, slots=True)
class Integrity:
    """The problems that SQLite finds in the file and in the lexical index, and a note on parts it could not check."""

    file: list[str]
    index: list[str]
    note: str | None = None


def integrity(tx: Tx) -> Integrity:
    """Run SQLite's own checks: of the b-trees, of rows that point at nothing, and FTS5's of the lexical index.

    To be called before anything else is read in the transaction, on a fresh connection: before SQLite 3.44
    FTS5's check is a statement that takes the write lock for a moment, and the transaction is begun anew behind it.
    """
    # That of the connection: an encrypted file is read by another SQLite than Python's own.
    version = tuple(map(int, str(tx.execute("SELECT sqlite_version()").fetchone()[0]).split(".")))
    index, note = ([], None) if version >= CHECKS_INDEXES else _index_problems(tx)
    file: list[str] = []
    for (text,) in tx.execute("PRAGMA integrity_check"):
        if text != "ok":
            (index if any(name in text for name in INDEXES) else file).append(text)
    rows = tx.execute("PRAGMA foreign_key_check")
    return Integrity(file + [f"{row[0]} {row[1]} points at no {row[2]}" for row in rows], index, note)


def _index_problems(tx: Tx) -> tuple[list[str], str | None]:
    problems, note = [], None
    tx.execute("PRAGMA query_only = off")
    for table in INDEXES:
        try:
            tx.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        except errors("OperationalError") as exc:
            note = f"the lexical index was not checked by FTS5, which needs to write: {exc}"
        except errors("DatabaseError") as exc:
            problems.append(f"{table}: {exc}")
    tx.execute("PRAGMA query_only = on")
    begin_anew(tx)
    return problems, note


def session_problems(tx: Tx) -> list[str]:
    """Return sessions with gaps in their turns, or whose cells do not cover them exactly."""
    rows = tx.execute(
        """SELECT s.session_id, (SELECT count(*) FROM turn t WHERE t.session = s.id),
                  (SELECT max(ordinal) + 1 FROM turn t WHERE t.session = s.id),
                  (SELECT sum(last - first + 1) FROM cell c WHERE c.session = s.id),
                  (SELECT count(*) FROM cell c JOIN turn t ON t.session = c.session
                       AND t.ordinal BETWEEN c.first AND c.last WHERE c.session = s.id), s.erased
           FROM session s"""
    )
    return [
        f"session {name!r}: {turns} turns, numbered to {top}, in cells of {covered}"
        for name, turns, top, covered, held, erased in rows
        # Where turns were deleted there are gaps; those that are left stand in one cell each.
        if not (turns == held if erased else turns == top == covered)
    ]


def orphans(tx: Tx) -> list[tuple[int, str | None]]:
    """Return the nodes and leaves that no node has as a child and that are no root, with the index of their tree."""
    children = {
        child for (packed,) in tx.execute("SELECT children FROM node") for child in unpack_ids(packed)
    }
    rows = tx.execute(
        """SELECT n.id, t.owner FROM (SELECT id, tree FROM node UNION SELECT id, tree FROM leaf) n
           LEFT JOIN tree t ON t.id = n.tree
           WHERE n.id NOT IN (SELECT root FROM tree WHERE root IS NOT NULL) ORDER BY n.id"""
    )
    return [(node, owner) for node, owner in rows if node not in children]


def state_problems(tx: Tx) -> list[str]:
    """Return the states that do not stand at the time of their fact, or of the occurrence when that states none."""
    rows = tx.execute(
        """SELECT f.fact_id, s.attribute FROM state s JOIN fact f ON f.id = s.fact
           JOIN occurrence o ON o.id = s.occurrence WHERE s.at_ms != coalesce(f.start_ms, o.said_ms)
           AND NOT (o.correction IS NOT NULL AND s.change = 'end' AND s.at_ms = f.end_ms)"""
    )
    return [f"{row[0]}: the state of {row[1]!r} does not stand at the fact's time" for row in rows]


def indexed_texts(tx: Tx, kind: Literal["turn", "fact"]) -> list[tuple[int, str, str, int]]:
    """Return (row, speaker, text, said ms) of every turn or fact: what its vector and its words are made of."""
    return tx.execute(f"SELECT id, speaker, text, said_ms FROM {kind} ORDER BY id").fetchall()


class Quotation(NamedTuple):
    """An occurrence's quote, what made it, and what its turns say, one behind the other."""

    fact_id: str
    speaker: str
    quote: str
    maker: str
    text: str
    speakers: frozenset[str]
    turns: frozenset[int]


def quotations(tx: Tx) -> Iterator[Quotation]:
    """Yield the quotes of all occurrences."""
    rows = tx.execute(
        f"""SELECT f.fact_id, o.speaker, {QUOTE}, coalesce(c.maker, ''), group_concat(t.text, ' '),
           {gathered("t.speaker")}, {gathered("t.id")} FROM occurrence o JOIN fact f ON f.id = o.fact
           JOIN cell c ON c.id = o.cell JOIN occurrence_turn x ON x.occurrence = o.id JOIN turn t ON t.id = x.turn
           GROUP BY o.id ORDER BY o.id"""
    )
    for *values, speakers, turns in rows:
        fact_id, speaker, quote, maker, text = values
        yield Quotation(
            fact_id,
            speaker,
            quote,
            maker,
            text,
            frozenset(json.loads(speakers)),
            frozenset(json.loads(turns)),
        )


def summary_texts(tx: Tx) -> list[tuple[int, str]]:
    """Return (node, text) of every summary."""
    return [(row[0], unpack_text(row[1])) for row in tx.execute("SELECT node, text FROM derived_summary")]


def vector_digests(tx: Tx) -> list[tuple[derived.ItemKind, int, bytes]]:
    """Return (kind, item, digest of the text) of every vector."""
    return [
        (kind, row[0], row[1])
        for kind in VECTOR_KINDS
        for row in tx.execute(f"SELECT item, digest FROM derived_{kind}_vector")
    ]


def vector_problems(tx: Tx) -> list[tuple[derived.ItemKind, int, str]]:
    """Return (kind, item, what is wrong) of vectors with more or fewer bytes than most, or not of unit length."""
    sizes = Counter[int]()
    for kind in VECTOR_KINDS:
        sizes.update(
            dict(tx.execute(f"SELECT length(vector), count(*) FROM derived_{kind}_vector GROUP BY 1"))
        )
    usual = max(sizes, key=lambda size: (sizes[size], size), default=0)
    problems: list[tuple[derived.ItemKind, int, str]] = []
    for kind in VECTOR_KINDS:
        for item, blob in tx.execute(f"SELECT item, vector FROM derived_{kind}_vector"):
            if len(blob) != usual or usual % NUMBER.itemsize:
                problems.append((kind, item, f"has {len(blob)} bytes where most have {usual}"))
            elif not abs(float(np.linalg.norm(unpack_vectors(blob))) - 1) <= 1e-3:
                problems.append((kind, item, "is not of unit length"))
    return problems
