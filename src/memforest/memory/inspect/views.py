"""Views of a memory: its sessions, facts, timelines, indexes and counts.

Every function takes a `ViewContext`, an open read transaction with the snapshot that belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memforest.config import Config
from memforest.memory.inspect.indexes import index_views
from memforest.memory.inspect.job_views import jobs_view
from memforest.memory.inspect.stored import (
    IndexView,
    Stats,
)
from memforest.memory.known import sampled_share, unknown_note
from memforest.memory.staleness import Present, stale_notes
from memforest.memory.zone import stored_zone, zone_note
from memforest.search.cache import Snapshots
from memforest.search.snapshot import Snapshot
from memforest.store import counts, meta, schema, spent
from memforest.store import trees as tree_rows
from memforest.store.corrections import HIDDEN
from memforest.store.facts import FactRow
from memforest.store.tx import Tx
from memforest.systems.attached import Attached
from memforest.systems.moments import Moment


@dataclass(frozen=True, slots=True)
class ViewContext:
    """A read transaction with its snapshot, which is read when a view asks for it: counting needs none."""

    tx: Tx
    cache: Snapshots
    config: Config
    attached: Attached
    present: Present | None = None
    """What makes the memory's parts now."""
    moment: Moment | None = None
    """The moment that `cache` has snapshots of; None for the memory as it is."""

    @property
    def snapshot(self) -> Snapshot:
        """The memory's searchable state as the transaction sees it, or as it was at the moment."""
        return self.cache.get(self.tx)

    def told(self, facts: Iterable[FactRow]) -> list[FactRow]:
        """Return those facts that there were at the moment, hidden ones too, as they were told then."""
        if self.moment is None:
            return list(facts)
        snapshot = self.snapshot
        return [
            snapshot.restated.get(fact.row, fact)
            for fact in facts
            if fact.row in snapshot.fact_row
            or (self.verdict(fact) >= HIDDEN and fact.row not in snapshot.later)
        ]

    def verdict(self, fact: FactRow) -> int:
        """Return what was decided of a fact at the moment; see `memforest.store.corrections.VERDICTS`."""
        decided = None if self.moment is None else self.snapshot.verdicts
        return fact.verdict if decided is None else decided.get(fact.row, 0)


def indexes(context: ViewContext) -> list[IndexView]:
    """Return the memory's indexes, by name."""
    return index_views(context.tx, context.attached)


def stats(context: ViewContext, user_id: str) -> Stats:
    """Return counts of everything, the embedder, the schema and the size on disk."""
    tx = context.tx
    nodes, dirty = tree_rows.node_count(tx, without=context.attached.paced(tx))
    found = counts.count_rows(tx)
    embedder, known = meta.get(tx, "embedder"), sampled_share(tx, context.cache.known)
    present = context.present
    stale = () if present is None else stale_notes(tx, context.config, context.attached, present)
    return Stats(
        user_id=user_id,
        sessions=found["session"],
        turns=found["turn"],
        facts=found["fact"],
        occurrences=found["occurrence"],
        entities=counts.entities_by_kind(tx),
        trees=counts.trees_by_index(tx),
        nodes=nodes,
        dirty_nodes=dirty,
        failed_chunks=counts.failed_cells(tx),
        vectors=counts.vectors_by_kind(tx),
        embedder=embedder,
        known=known,
        schema=schema.version(tx),
        generation=meta.generation(tx),
        # Of a user without a memory it is another one's file that is read.
        bytes=counts.size_bytes(tx) if meta.get(tx, "user_id") == user_id else 0,
        unfinished=counts.unread_sessions(tx),
        makers=counts.makers(tx),
        spent=spent.total(tx),
        indexes={
            view.name: {
                "lag": view.lag,
                "reason": view.reason,
                "trees": view.trees,
                **view.counts,
            }
            for view in index_views(tx, context.attached)
        },
        notes=(
            *context.attached.notes(tx),
            *stale,
            *([note] if (note := zone_note(stored_zone(tx), context.config.timezone)) else []),
            *([note] if (note := unknown_note(known, embedder or "")) else []),
        ),
        timezone=stored_zone(tx),
        jobs=jobs_view(tx, context.config.clock()),
        stale=tuple(stale),
    )
