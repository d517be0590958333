"""The deletion of something from one memory, from its target to the receipt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from memforest.errors import CorruptStoreError, ForeignStoreError, StoreKeyError, StoreWriteError
from memforest.keys import Key
from memforest.memory.erase.erase import Erased, erase_turns
from memforest.memory.erase.receipt import LAYERS, DeleteReceipt
from memforest.memory.erase.targets import Target, aim
from memforest.memory.places import gone_digests
from memforest.store import salts
from memforest.store.db import Database
from memforest.store.disposal import remove
from memforest.store.erase_counts import Counts, counting, owner_of, table_counts
from memforest.store.erase_traces import note_deleted
from memforest.store.faults import mapped_errors
from memforest.store.files import count_files, remove_files
from memforest.store.savepoint import undone
from memforest.store.tx import Tx
from memforest.systems.attached import Attached, Placings

_TABLES: Mapping[str, tuple[str, ...]] = {
    "sessions": ("session",),
    "turns": ("turn",),
    "cells": ("cell",),
    "facts": ("fact",),
    "occurrences": ("occurrence",),
    "mentions": ("mention",),
    "states": ("state",),
    "relations": ("relation",),
    "entities": ("entity",),
    "aliases": ("alias", "name_use"),
    "choices": ("choice",),
    "trees": ("tree",),
    "leaves": ("leaf",),
    "nodes": ("node",),
    "summaries": ("derived_summary",),
    "vectors": ("derived_turn_vector", "derived_fact_vector", "derived_node_vector"),
    "corrections": ("correction",),
    "write_keys": ("write_key",),
    "jobs": ("job",),
}
"""Layer of a receipt -> the tables that are counted for it."""
_OF_INDEX = {"tree": "trees", "leaf": "leaves", "node": "nodes", "derived_summary": "summaries"}


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deletion that is committed: its receipt so far, whether vectors are missing now, and the trees that changed."""

    receipt: DeleteReceipt
    reworded: bool = False
    trees: frozenset[int] = field(default_factory=frozenset)


def delete_target(db: Database, attached: Attached, target: Target, now_ms: int) -> Deletion:
    """Delete in one transaction; the log still holds it (see `memforest.store.disposal.purge`).

    Raises:
        NotFoundError: if there is nothing of that kind and name.
        StoreError: if the file cannot be written.
    """
    with db.write() as tx:
        return _deleted(tx, attached, target, now_ms)


def count_target(db: Database, attached: Attached, target: Target, now_ms: int) -> DeleteReceipt:
    """Count what a deletion would take away: it is done, and undone before the transaction ends.

    Raises:
        NotFoundError: if there is nothing of that kind and name.
        StoreError: if the file cannot be written.
    """
    with db.write() as tx, undone(tx):
        return replace(_deleted(tx, attached, target, now_ms).receipt, dry_run=True)


def remove_memory(
    path: Path, user_id: str, *, busy_timeout_s: float, key: Key | None = None, dry_run: bool = False
) -> DeleteReceipt:
    """Delete the files of a user's memory, whatever state it is in and whatever its key; or count what is in them.

    Raises:
        ForeignStoreError: if it is another program's file, or another user's.
        StoreError: if a file cannot be deleted.
    """
    gone, warnings = dict.fromkeys(LAYERS, 0), []
    try:
        encrypted = key is not None and salts.read(path) is not None
        db = Database(path, busy_timeout_s=busy_timeout_s, key=key if encrypted else None)
    except (
        CorruptStoreError,
        StoreKeyError,
        StoreWriteError,
    ) as exc:  # nobody can write to it, be it for want of room
        with mapped_errors(path):
            gone["files"] = count_files(path) if dry_run else remove_files(path)
        return DeleteReceipt("user", gone, dry_run=dry_run, warnings=(f"nothing could be counted: {exc}",))
    try:
        try:
            gone |= _counted(db, user_id)
        except (CorruptStoreError, StoreWriteError) as exc:
            warnings.append(f"not all could be counted: {exc}")
        gone["files"] = count_files(path) if dry_run else remove(db)
    finally:
        db.close()
    return DeleteReceipt("user", gone, dry_run=dry_run, warnings=tuple(warnings))


def _counted(db: Database, user_id: str) -> dict[str, int]:
    """Return how many rows of each layer a memory has.

    Raises:
        ForeignStoreError: if it is another user's.
        CorruptStoreError: if it cannot be read.
    """
    with db.read() as tx:
        if owner_of(tx) not in (None, user_id):
            raise ForeignStoreError(
                f"{db.path.name!r} belongs to another user id; it was renamed or copied here"
            )
        found = table_counts(tx)
    counts = {layer: sum(found.get(table, 0) for table in _TABLES.get(layer, ())) for layer in LAYERS}
    return {**counts, "word_rows": counts["turns"] + counts["facts"]}


def _deleted(tx: Tx, attached: Attached, target: Target, now_ms: int) -> Deletion:
    cuts, forced, texts = aim(tx, target)
    if not cuts and not texts.corrections(tx):
        return Deletion(DeleteReceipt(target.kind, dict.fromkeys(LAYERS, 0)))
    with counting(tx) as counts:
        erased = erase_turns(tx, Placings(tx, attached), cuts, now_ms, forced, texts)
        note_deleted(tx, {one for cut in cuts for one in gone_digests(cut.spot, cut.text)})
    return Deletion(_receipt(target.kind, counts, erased), erased.reworded, erased.trees)


def _receipt(kind: str, counts: Counts, erased: Erased) -> DeleteReceipt:
    gone = {layer: sum(counts.rows.get(table, 0) for table in _TABLES.get(layer, ())) for layer in LAYERS}
    gone["word_rows"] = erased.words
    indexes = {
        name: {_OF_INDEX[table]: count for table, count in found.items()}
        for name, found in sorted(counts.indexes.items())
    }
    changed = {name: count for name, count in sorted(erased.changed.items()) if count}
    return DeleteReceipt(kind, gone, changed, indexes)
