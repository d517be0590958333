"""The timem index: memories by the calendar, each written from the ones below it when its time has ended (TiMem)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.ports import is_remote
from memforest.search.cache import forest_of, missing_of
from memforest.search.filters import IndexResult, Prepared, RefineCandidate, Refinement, Search
from memforest.search.forest import Forest
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.times import to_ms
from memforest.trees.index import FoundProfile, Host, Index, ProfileRequest
from memforest.trees.kernel import problems
from memforest.trees.refresh import IndexPlan, NodeWork
from memforest.trees.texts import Finish
from memforest.trees.timem_grow import (
    LEVELS,
    OWNER,
    ROOT,
    SESSION,
    TiMemSettings,
    due,
    finish,
    grown,
    made_of,
    requests_of,
)
from memforest.trees.timem_leaves import refine
from memforest.trees.timem_profiles import found_profile
from memforest.trees.timem_recall import find, prepare, wanted


class TiMemIndex(Index):
    """One tree of everything that was said: year, month, week, day, session, segment."""

    name = OWNER
    paced = True
    profiles = True
    reads_store = True
    roots_differ = False
    Settings = TiMemSettings

    def grow(self, tx: Tx, snapshot: Snapshot, old: Forest | None) -> Forest:
        """Return the tree of a snapshot."""
        return grown(tx, snapshot, self.settings)

    def names(self, snapshot: Snapshot, forest: Forest) -> list[str]:
        """Return what the tree is of."""
        return ["of all sessions"] * len(forest.tree_kind)

    def asked(self) -> tuple[object, ...]:
        """Return the settings that change how memories are written."""
        own = self.settings
        return own.levels, own.history, own.history_of, own.pass_through, own.dates, own.words

    def finish(self, tx: Tx, snapshot: Snapshot, forest: Forest) -> Finish | None:
        """Mix in the history of memories, and what their turns state."""
        return finish(tx, snapshot, forest, self.settings)

    def made_of(self, forest: Forest, row: int) -> Sequence[int]:
        """Return the rows whose texts a memory is written from."""
        return made_of(forest, self.settings, row)

    def due(self, forest: Forest, now_ms: int | None) -> NDArray[np.bool_] | None:
        """Return which memories are of something that has ended."""
        return due(forest, self.settings, now_ms)

    def requests(self, tx: Tx, plan: IndexPlan, rows: Sequence[int], *, remote: bool) -> list[NodeWork]:
        """Return how the memories of nodes are written; a model is not shown facts."""
        return requests_of(tx, plan, self.settings, rows, by_rules=not remote)

    def node_names(self, snapshot: Snapshot, forest: Forest, rows: Collection[int]) -> Mapping[int, str]:
        """Return the level of each node with its calendar window or the name of its session, such as ``"day 2024-05-04"``."""
        sessions = {span.id: span.session_id for span in snapshot.sessions}

        def name(row: int) -> str:
            level, window = int(forest.level[row]), forest.window_of(row)
            what = window.rpartition("/")[2] if window else ""
            if level == SESSION:
                what = sessions[int(snapshot.turns.session[forest.item[forest.first[row]]])]
            return f"{LEVELS[level]} {what}".rstrip()

        return {row: name(row) for row in rows if forest.level[row] < ROOT}

    def check(self, forest: Forest) -> list[str]:
        """Return what is wrong with the tree."""
        return problems(forest, contained=True)

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Plan how much a question needs; without a model, also write what it reads of windows that have ended."""
        prepared, now_ms = await prepare(host, request, self.settings.recall), to_ms(host.now)

        def read(tx: Tx, snapshot: Snapshot, forest: Forest) -> Sequence[int]:
            rows: Sequence[int] = wanted(tx, snapshot, prepared.request, self, now_ms).tolist()
            return rows

        late = [] if is_remote(host.steps.summariser) else await host.ensure_fresh(self, read)
        return replace(prepared, warnings=(*late, *prepared.warnings)) if late else prepared

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return the best leaves and the memories above them; see `memforest.trees.timem_recall`."""
        return find(tx, snapshot, request, self)

    async def refine(
        self, host: Host, request: Search, found: Sequence[RefineCandidate]
    ) -> Refinement | None:
        """Drop what a question does not need; see `memforest.trees.timem_leaves`."""
        return await refine(host, request, found, self.settings.recall)

    def profile(self, tx: Tx, snapshot: Snapshot, request: ProfileRequest) -> FoundProfile:
        """Return the profile of the last month that had ended; see `memforest.trees.timem_profiles`."""
        return found_profile(tx, snapshot, self, request)

    def stats(self, tx: Tx, snapshot: Snapshot) -> dict[str, Any]:
        """Return how many nodes each level has, and how many memories are written and how many wait."""
        forest = forest_of(tx, snapshot, self)
        sizes = Counter(forest.level[forest.told].tolist())
        waiting = len(missing_of(tx, snapshot, self))
        return {
            "levels": {name: sizes[LEVELS.index(name)] for name in self.settings.levels},
            "memories": {"written": len(forest.told) - waiting, "waiting": waiting},
        }
