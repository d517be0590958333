"""The rows of a memory that an export carries, and how each is written in it; the same table serves the import.

A part is one table. Its rows stand in the order of their ids and are numbered from 1; a reference to a row is its
number. Row ids are of one file alone, and have gaps where something was deleted; numbers are of the export.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memforest.store import indexes
from memforest.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a part.

    `form` is how its values are written: "plain" as they are, "time" as UTC milliseconds, "json" as the JSON that they hold, "flag" as true or
    false, "hex" or "base64" of bytes, "text" of a compressed text, "children" as a list of references to nodes, and
    "ref" as a reference to a row of `of`.
    """

    name: str
    form: str = "plain"
    of: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A table, its columns, and how its rows are written.

    `record` is its name in the file. With `numbered` its rows have ids of the kind `numbered` and are written one a
    line, or in blocks with the number first if `block`. `only` limits what is exported. `order` is how rows stand.
    """

    record: str
    table: str
    columns: tuple[Column, ...]
    numbered: str = ""
    block: bool = False
    only: str = ""
    order: str = "id"


def _columns(spec: str) -> tuple[Column, ...]:
    """Return columns from their names; with ":form" or ":ref=kind" where a form is not plain."""
    found = []
    for one in spec.split():
        name, _, form = one.partition(":")
        form, _, of = form.partition("=")
        found.append(Column(name, form or "plain", of))
    return tuple(found)


MEMORY = (
    Part("origin", "origin", _columns("memory user_id merged_ms:time label names:json"), "origin"),
    Part(
        "session",
        "session",
        _columns("session_id status infer:flag stored_ms:time metadata:json erased"),
        "session",
    ),
    Part(
        "turn",
        "turn",
        _columns(
            """session:ref=session ordinal turn_id speaker role text said_ms:time time_source stored_ms:time metadata:json
            digest:hex origin:ref=origin"""
        ),
        "turn",
    ),
    Part(
        "cell",
        "cell",
        _columns("session:ref=session ordinal first last status reason maker skipped:json"),
        "cell",
    ),
    Part("entity", "entity", _columns("key label kind"), "entity"),
    Part(
        "correction",
        "correction",
        _columns(
            """key kind fact_id made text start_ms:time end_ms:time precision made_ms:time undone_ms:time said
            stored_ms:time"""
        ),
        "correction",
    ),
    Part(
        "correction_place",
        "correction_place",
        _columns("correction:ref=correction session_id turn_id quote:hex"),
        order="correction, session_id, turn_id, quote",
    ),
    Part(
        "fact",
        "fact",
        _columns(
            """fact_id text speaker start_ms:time end_ms:time precision negated:flag said_ms:time tie topics:json stored_ms:time dates:json
            verdict"""
        ),
        "fact",
    ),
    Part(
        "occurrence",
        "occurrence",
        _columns(
            """fact:ref=fact cell:ref=cell speaker said_ms:time topics:json cosine text quote tie dates:json
            correction:ref=correction stored_ms:time"""
        ),
        "occurrence",
    ),
    Part(
        "occurrence_turns",
        "occurrence_turn",
        _columns("occurrence:ref=occurrence turn:ref=turn"),
        block=True,
        order="occurrence, turn",
    ),
    Part(
        "mentions",
        "mention",
        _columns("fact:ref=fact entity:ref=entity occurrence:ref=occurrence roles"),
        block=True,
        order="fact, entity, occurrence",
    ),
    Part(
        "alias_uses",
        "alias_use",
        _columns("key entity:ref=entity occurrence:ref=occurrence"),
        block=True,
        order="key, entity, occurrence",
    ),
    Part("aliases", "alias", _columns("key entity:ref=entity"), block=True, order="key"),
    Part(
        "state",
        "state",
        _columns(
            "fact:ref=fact occurrence:ref=occurrence entity:ref=entity attribute value previous change at_ms:time"
        ),
        "state",
    ),
    Part(
        "relations",
        "relation",
        _columns("fact:ref=fact occurrence:ref=occurrence source:ref=entity label target:ref=entity"),
        block=True,
    ),
    Part(
        "name_uses",
        "name_use",
        _columns("occurrence:ref=occurrence entity:ref=entity name"),
        block=True,
        order="occurrence, entity, name",
    ),
    Part(
        "choices", "choice", _columns("verdict entity:ref=entity other:ref=entity made_ms:time"), block=True
    ),
    Part("tombstone", "tombstone", _columns("kind count stored_ms:time deleted_ms:time"), "tombstone"),
    Part("deleted", "deleted", _columns("digest:hex"), block=True, order="digest"),
    Part(
        "write_key",
        "write_key",
        _columns("key:hex request:hex session:ref=session result:json stored_ms:time"),
        order="key",
    ),
    Part(
        "spent",
        "spent",
        _columns(
            "operation step calls failures retries prompt_tokens completion_tokens cached_tokens prefix_tokens seconds"
        ),
        order="operation, step",
    ),
    Part(
        "wordings",
        "derived_wording",
        _columns("fact:ref=fact wording:hex"),
        block=True,
        only="fact != 0",
        order="fact",
    ),
)
"""What a memory holds besides its indexes. Wordings are derived, and carried because they are dear to make."""

OF_CARRIED = "tree IN (SELECT id FROM tree WHERE owner IN ({owners}))"

STRUCTURE = (
    Part(
        "tree",
        "tree",
        _columns("owner kind scope:scope k root:ref=node height count"),
        "tree",
        only="owner IN ({owners})",
    ),
    Part(
        "leaves",
        "leaf",
        _columns("tree:ref=tree fact:ref=fact cell:ref=cell turn:ref=turn last:ref=turn"),
        "node",
        block=True,
        only=OF_CARRIED,
    ),
    Part(
        "nodes",
        "node",
        _columns(
            """tree:ref=tree level key_ms key_tie start_ms end_ms count children:children version dirty:flag span_lo
            span_hi window state:base64"""
        ),
        "node",
        block=True,
        only=OF_CARRIED,
    ),
)
"""The trees of the indexes that can be carried."""

_OF_NODES = f"node IN (SELECT id FROM node WHERE {OF_CARRIED})"

SUMMARIES = Part(
    "summaries",
    "derived_summary",
    _columns("node:ref=node text:text maker vector inputs:hex"),
    block=True,
    only=_OF_NODES,
    order="node",
)

VECTORS = tuple(
    Part(
        f"{kind}_vectors",
        f"derived_{kind}_vector",
        _columns(f"item:ref={kind} digest:hex vector:base64"),
        block=True,
        only=_OF_NODES.replace("node IN", "item IN", 1) if kind == "node" else "",
        order="item",
    )
    for kind in ("turn", "fact", "node")
)


def own_parts(tx: Tx, index: str, refers: Mapping[str, str]) -> list[Part]:
    """Return the tables of an index as parts, referenced ones first.

    Args:
        tx: a transaction.
        index: its name.
        refers: "table.column" -> the kind of rows that the column's numbers refer to.
    """
    parts = []
    for table in reversed(indexes.own_tables(tx, index)):
        rows = indexes.own_columns(tx, table)
        columns = tuple(
            Column(name, "ref", refers[f"{table}.{name}"])
            if f"{table}.{name}" in refers
            else Column(name, "base64" if kind == "BLOB" else "plain")
            for name, kind, _ in rows
        )
        keys = [name for name, _, key in sorted(rows, key=lambda row: row[2]) if key]
        parts.append(
            Part(table, table, columns, block=True, order=", ".join(keys or [row[0] for row in rows]))
        )
    return parts
