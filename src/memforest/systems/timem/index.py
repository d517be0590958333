"""The timem index: memories by the calendar, each written from the ones below it when its time has ended (TiMem)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from memforest.ports import is_remote
from memforest.search.snapshot import Snapshot
from memforest.store import job_failures, jobs
from memforest.store.tx import Tx
from memforest.systems.base import (
    Candidate,
    Found,
    Index,
    IndexProblem,
    Kind,
    NodeWork,
    Prepared,
    Refined,
    Search,
)
from memforest.systems.host import Host
from memforest.systems.profiling import FoundProfile, ProfileRequest
from memforest.systems.timem import edit_rows, rows
from memforest.systems.timem.advance import advance, write_ended
from memforest.systems.timem.check import problems
from memforest.systems.timem.counts import counts
from memforest.systems.timem.gate import refine
from memforest.systems.timem.grow import KIND, OWNER
from memforest.systems.timem.history import reopened
from memforest.systems.timem.levels import LEVELS
from memforest.systems.timem.placing import TiMemPlacing
from memforest.systems.timem.profiling import found_profile
from memforest.systems.timem.recall import find, prepare
from memforest.systems.timem.receive import forget_place
from memforest.systems.timem.requests import requests_of
from memforest.systems.timem.schedule import schedule
from memforest.systems.timem.settings import TiMemSettings
from memforest.systems.zone import memory_zone
from memforest.text import cut
from memforest.tree import Contract, Node


class TiMemIndex(Index):
    """One tree of everything that was said: year, month, week, day, session, segment."""

    name = OWNER
    follows = frozenset[Kind]({"turn", "fact"})
    deferred = True
    paced = True
    profiles = True
    make_tables = staticmethod(rows.make_tables)
    Settings = TiMemSettings
    contracts = MappingProxyType({KIND: Contract("contained")})
    carried: Mapping[str, str] | None = MappingProxyType(
        {
            "ix_timem_node.session": "session",
            "ix_timem_node.turn": "turn",
            "ix_timem_node.turn_last": "turn",
        }
    )

    def placing(self, tx: Tx) -> TiMemPlacing:
        """Begin to take segments out inside a write transaction."""
        return TiMemPlacing(tx, self.settings)

    async def advance(self, host: Host, until: int) -> None:
        """Place what the feed has noted, and write what is due; see `memforest.systems.timem.advance`."""
        await advance(host, self.settings, until)

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Return how the memories of nodes are written now."""
        return requests_of(tx, self.settings, [node.id for node in nodes])

    def reopen(self, tx: Tx, nodes: Collection[int]) -> None:
        """Have nodes written again that are out of date, and what has one of their texts as history."""
        marked = set(nodes)
        if rows.any_clean(tx):
            marked |= reopened(tx, self.settings, marked)
            edit_rows.set_dirty(tx, marked - rows.dirty_among(tx, marked))
        schedule(tx, self.settings, memory_zone(tx), marked)

    def labels(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return what the tree is of."""
        return dict.fromkeys(trees, "of all sessions")

    def node_names(self, tx: Tx, nodes: Collection[int]) -> Mapping[int, str]:
        """Return the level of each node with its calendar window or the name of its session, such as ``"day 2024-05-04"``."""
        found = rows.names(tx, nodes)
        return {
            node: f"{LEVELS[level]} {window.rpartition('/')[2] if window else session or ''}".rstrip()
            for node, level, window, session in found
        }

    def check(self, tx: Tx) -> list[IndexProblem]:
        """Return what is wrong with the tree, its windows and the jobs."""
        found = super().check(tx)
        return found or problems(tx, self.settings)

    async def ready(self, host: Host) -> Sequence[str]:
        """Write what has ended, without a model; with one, `advance` does."""
        return () if is_remote(host.steps.summariser) else await write_ended(host, self.settings)

    def profile(self, tx: Tx, request: ProfileRequest) -> FoundProfile:
        """Return the profile of the last month that had ended; see `memforest.systems.timem.profiling`."""
        return found_profile(tx, self.settings, request)

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Say how much a question needs; without a model, have written first what has ended."""
        late = await self.ready(host)
        prepared = await prepare(host, request, self.settings.recall)
        return replace(prepared, warnings=(*late, *prepared.warnings)) if late else prepared

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> Found:
        """Return the best leaves and the memories above them; see `memforest.systems.timem.recall`."""
        return find(tx, snapshot, request, self.settings.recall)

    async def refine(self, host: Host, request: Search, found: Sequence[Candidate]) -> Refined | None:
        """Drop what a question does not need; see `memforest.systems.timem.gate`."""
        return await refine(host, request, found, self.settings.recall)

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return how many nodes each level has, and how many memories are written, wait, are out of date and have failed."""
        return counts(tx, self.settings)

    def notes(self, tx: Tx) -> list[str]:
        """Return which memories could not be written, and why."""
        failed = job_failures.failures(tx, OWNER)
        if not failed:
            return []
        first = f"{failed[0].key}: {failed[0].payload['reason']}"
        return [
            f"{len(failed)} memories of 'timem' could not be written, and wait for advance(): {cut(first, 300)}"
        ]

    def clear(self, tx: Tx) -> None:
        """Delete the tree, the rows of the table and the jobs."""
        super().clear(tx)
        jobs.drop(tx, OWNER)
        forget_place(tx)
