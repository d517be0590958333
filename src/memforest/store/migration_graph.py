"""Migration 14: what the graph of a memory is made from: relations, names as they were spelled, and people's choices."""

from __future__ import annotations

from memforest.store.tx import Tx

__all__ = ["m0014_graph"]

_STAMP = "graph_stamp"

_GRAPH = (
    # What an occurrence of a fact says of two entities that it names. The unique key finds those of an occurrence.
    """CREATE TABLE relation (
        id INTEGER PRIMARY KEY,
        fact INTEGER NOT NULL REFERENCES fact (id) ON DELETE CASCADE,
        occurrence INTEGER NOT NULL REFERENCES occurrence (id) ON DELETE CASCADE,
        source INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        label TEXT NOT NULL,
        target INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        UNIQUE (occurrence, source, label, target)
    ) STRICT""",
    "CREATE INDEX relation_fact ON relation (fact)",
    "CREATE INDEX relation_source ON relation (source)",
    "CREATE INDEX relation_target ON relation (target)",
    # How an occurrence spells a name, where that is not by the label of the entity alone.
    """CREATE TABLE name_use (
        occurrence INTEGER NOT NULL REFERENCES occurrence (id) ON DELETE CASCADE,
        entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        PRIMARY KEY (occurrence, entity, name)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX name_use_entity ON name_use (entity)",
    # What people have decided of two entities: that they are one, or that they are two. The newest of a pair counts.
    """CREATE TABLE choice (
        id INTEGER PRIMARY KEY,
        verdict TEXT NOT NULL CHECK (verdict IN ('same', 'apart')),
        entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        other INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        made_ms INTEGER NOT NULL
    ) STRICT""",
    "CREATE INDEX choice_entity ON choice (entity)",
    "CREATE INDEX choice_other ON choice (other)",
    # A number that moves with every write of these, also where rows go with others.
    f"INSERT OR IGNORE INTO meta VALUES ('{_STAMP}', '0')",
    *(
        f"""CREATE TRIGGER graph_{table}_{event} AFTER {event.upper()} ON {table}
            BEGIN UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = '{_STAMP}'; END"""
        for table in ("relation", "name_use", "choice")
        for event in ("insert", "update", "delete")
    ),
)


def m0014_graph(tx: Tx) -> None:
    """Make the tables of relations, of names as they were spelled and of choices, and what says that they have changed."""
    for statement in _GRAPH:
        tx.execute(statement)
