"""Merging another memory into one, from the check of both to fresh summaries.

Sessions are copied some at a time, each transaction whole sessions, so that other writers wait for none of them long.
After a crash between two of them, merging again goes on: what is here already is found and left. Indexes are brought up
to date behind the last one; until then, and after a crash, they lag, as behind any write, and `resume` moves them on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import to_thread
from memforest.facts.canonical import Said, Same
from memforest.interval import to_ms
from memforest.memory.host import BUSY_S, PAUSE_S
from memforest.memory.ingest.judge import find_same
from memforest.memory.ingest.writer import SessionWriter
from memforest.memory.merge import plan as planning
from memforest.memory.merge.copy import Merging, copy_sessions, match_new
from memforest.memory.merge.corrections import merge_corrections, new_corrections
from memforest.memory.merge.indexes import current_indexes, take_over
from memforest.memory.merge.match import read_facts
from memforest.memory.merge.names import Asked, Owner
from memforest.memory.merge.plan import Plan
from memforest.memory.merge.report import MergeResult
from memforest.memory.merge.sessions import Becomes
from memforest.memory.merge.told import merge_choices
from memforest.memory.summaries import Summaries
from memforest.memory.timing import Timer
from memforest.memory.usage import usage
from memforest.memory.vectors import keep_embedder
from memforest.memory.zone import keep_zone
from memforest.models.ledger import current_ledger
from memforest.refresh.made import Refreshed
from memforest.search.texts import digest
from memforest.store import copying, meta
from memforest.store import trees as tree_rows
from memforest.store.db import Database
from memforest.store.packing import unpack_vectors
from memforest.store.tx import Tx
from memforest.systems.attached import Attached, Placings

__all__ = ["MergeOptions", "Other", "merge_memory"]

BATCH_TURNS = 1_024
"""Turns of the sessions that are copied in one transaction: about a quarter of a second's work."""


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How a memory is merged; see `AsyncUserMemory.merge`."""

    asked: Asked = field(default_factory=Asked)
    dry_run: bool = False
    overwrite: bool = False
    refresh: bool | None = None


@dataclass(frozen=True, slots=True)
class Other:
    """The memory that is merged."""

    db: Database
    attached: Attached
    user_id: str
    label: str


@dataclass(frozen=True, slots=True)
class _Statements:
    """Statements of another memory, for a judge."""

    statements: Sequence[Said]
    vectors: Mapping[bytes, NDArray[np.float32]]


async def merge_memory(
    writer: SessionWriter, owner: Owner, other: Other, options: MergeOptions
) -> MergeResult:
    """Merge another memory into the writer's, or say what that would do; see `AsyncUserMemory.merge`."""
    return await _Merge(writer, owner, other, options).run()


class _Merge:
    """One merge."""

    def __init__(self, writer: SessionWriter, owner: Owner, other: Other, options: MergeOptions) -> None:
        self._writer = writer
        self._db = writer.db
        self._owner = owner
        self._other = other
        self._options = options
        self._timer = Timer()
        self._started = time.perf_counter()
        self._embedder = None if writer.vectors is None else writer.vectors.embedder

    async def run(self) -> MergeResult:
        await to_thread(planning.check_source, self._other.db, self._db.path)
        plan, before = await to_thread(self._planned)
        if self._options.dry_run:
            return await to_thread(self._dry, plan, before)
        merging, corrections, cursors = await to_thread(self._begin, plan)
        merging.same = await self._judged(plan, merging)
        did = await self._copy(plan, merging)
        with self._timer.timed("place"):
            taken = await to_thread(
                take_over,
                self._db,
                self._writer.attached,
                self._other.db,
                self._other.attached,
                merging,
                cursors,
            )
            if merging.reworded:
                await self._writer.fill_vectors()
            problems = await self._writer.catch_up(failed=False, occasion="write")
        grown, total = await to_thread(self._grown, before)
        refreshed = await self._refresh(grown)
        return self._result(
            plan,
            before,
            did,
            facts_inserted=len(merging.new_facts),
            facts_merged=len(merging.facts) - len(merging.new_facts),
            turns_added=did.turns,
            entities_added=len(merging.new_entities),
            corrections_added=corrections,
            trees_copied=taken.trees,
            trees_merged=len(grown & before.trees.keys()),
            total_trees=total,
            nodes_refreshed=refreshed.done.nodes,
            nodes_dirty=refreshed.done.left,
            flushed_tree_ids=refreshed.trees,
            warnings=(
                *plan.notes,
                *merging.warnings,
                *taken.problems,
                *problems,
                *refreshed.done.failures,
                *current_ledger().warnings,
            ),
        )

    # -- before anything is written -------------------------------------------------------------------

    def _planned(self) -> tuple[Plan, _Before]:
        with self._timer.timed("plan"), self._other.db.read() as source, self._db.read() as tx:
            plan = planning.plan_merge(
                tx,
                source,
                self._options.asked,
                self._owner,
                Owner("", self._other.user_id, self._other.label),
                embedder=None if self._embedder is None else self._embedder.model_id,
                overwrite=self._options.overwrite,
            )
            people, things = planning.joined(tx, source, plan.names)
            sizes = {head.tree: head.count for _, _, head in tree_rows.heads(tx)}
            return plan, _Before(sizes, tuple(people), tuple(things))

    def _dry(self, plan: Plan, before: _Before) -> MergeResult:
        """Return what would be done, by reading alone."""
        with self._other.db.read() as source, self._db.read() as tx:
            merging = self._merging(tx, source, plan, 0, {}, {})
            wanted = [one for one in plan.sessions if one.how != "same"]
            inserted = joined = 0
            for part in _batches(wanted):
                cells = [
                    cell[0]
                    for one in part
                    for cell in copying.cells(source, one.there.row)
                    if cell[3] >= one.first
                ]
                facts = {one.fact for one in copying.occurrences(source, cells)} - merging.facts.keys()
                reading = read_facts(source, facts, plan.names, vectors=merging.vectors)
                found = match_new(tx, reading, merging)
                inserted, joined = inserted + len(facts) - len(found), joined + len(found)
                merging.facts.update(dict.fromkeys(facts, 0))
            new = new_corrections(tx, source)
        did = _Did(
            sum(one.how == "new" for one in wanted),
            sum(one.how == "grown" for one in wanted),
            len(plan.sessions) - len(wanted),
            sum(one.there.turns - one.first for one in wanted),
            _renamed(wanted),
        )
        return self._result(
            plan,
            before,
            did,
            dry_run=True,
            facts_inserted=inserted,
            facts_merged=joined,
            turns_added=did.turns,
            corrections_added=new,
            total_trees=len(before.trees),
            warnings=plan.notes,
        )

    def _begin(self, plan: Plan) -> tuple[Merging, int, dict[str, int]]:
        """Store whose memory is merged, and what people decided there; from here on merging again changes no names."""
        with self._other.db.read() as source, self._db.write() as tx:
            cursors = current_indexes(tx)
            placings = Placings(tx, self._writer.attached, later=True)
            keep_embedder(tx, self._db.path, self._embedder)
            keep_zone(tx, self._writer.config)
            stored_ms = to_ms(self._writer.config.clock())
            origins = planning.keep_origins(tx, plan, stored_ms)
            done = merge_corrections(tx, source, placings, plan, stored_ms)
            placings.close()
            merging = self._merging(tx, source, plan, stored_ms, origins, done.rows)
            merging.settle(done.settled)
            meta.bump(tx)
        return merging, done.new, cursors

    def _merging(
        self,
        tx: Tx,
        source: Tx,
        plan: Plan,
        stored_ms: int,
        origins: Mapping[int | None, int | None],
        corrections: Mapping[int, int],
    ) -> Merging:
        have, given = meta.get(tx, "embedder"), meta.get(source, "embedder")
        return Merging(
            plan.names,
            stored_ms,
            have is not None and have == given,
            self._writer.threshold,
            origins,
            corrections,
        )

    async def _judged(self, plan: Plan, merging: Merging) -> Mapping[str, Same]:
        """Ask a judge, if there is one, which new statements say what a stored one says."""
        judge = self._writer.steps.judge
        if judge is None or self._embedder is None or not merging.vectors:
            return {}
        with self._timer.timed("judge"):
            told = await to_thread(self._statements, plan)
            return await find_same(
                judge, self._db, self._writer.cache, [told], self._embedder.model_id, among=False
            )

    def _statements(self, plan: Plan) -> _Statements:
        with self._other.db.read() as source:
            rows = [one.there.row for one in plan.sessions if one.how != "same"]
            cells = [cell[0] for row in rows for cell in copying.cells(source, row)]
            facts = {one.fact for one in copying.occurrences(source, cells)}
            reading = read_facts(source, facts, plan.names, vectors=True)
            said = [reading.said(row, plan.names) for row in sorted(reading.facts)]
            vectors = {
                digest(reading.facts[row].text): unpack_vectors(stored[1])[0]
                for row, stored in reading.vectors.items()
            }
            return _Statements(said, vectors)

    # -- writing --------------------------------------------------------------------------------------

    async def _copy(self, plan: Plan, merging: Merging) -> _Did:
        """Copy the sessions that are not here, some in a transaction."""
        did, busy_s = _Did(same=sum(one.how == "same" for one in plan.sessions)), 0.0
        for part in _batches([one for one in plan.sessions if one.how != "same"]):
            if busy_s >= BUSY_S:
                await asyncio.sleep(PAUSE_S)
                busy_s = 0.0
            started = time.perf_counter()
            await to_thread(self._copy_part, plan, merging, part, did)
            self._timer.add("copy", started)
            busy_s += time.perf_counter() - started
        await to_thread(merge_choices, self._db, self._other.db, plan.names)
        if any(one.over is not None for one in plan.sessions):
            await to_thread(self._db.checkpoint)  # the log still holds what was overwritten
        return did

    def _copy_part(self, plan: Plan, merging: Merging, part: Sequence[Becomes], did: _Did) -> None:
        with self._other.db.read() as source, self._db.write() as tx:
            now = [found for one in part if (found := plan.becomes(tx, source, one)) is not None]
            wanted = [one for one in now if one.how != "same"]
            copy_sessions(tx, source, Placings(tx, self._writer.attached, later=True), merging, wanted)
        did.add(wanted, len(now) - len(wanted))

    def _grown(self, before: _Before) -> tuple[set[int], int]:
        """Return the trees that have other leaves now, and how many trees there are."""
        with self._db.read() as tx:
            sizes = {head.tree: head.count for _, _, head in tree_rows.heads(tx)}
        return {tree for tree, size in sizes.items() if before.trees.get(tree) != size}, len(sizes)

    async def _refresh(self, trees: set[int]) -> _Made:
        """Make the summaries that the caller or the policy wants now."""
        summaries: Summaries = self._writer.summaries
        refresh, policy = self._options.refresh, summaries.policy
        if refresh or (refresh is None and policy == "path"):
            with self._timer.timed("refresh"):
                dirty = await to_thread(self._dirty_titles)
                done = (
                    await self._writer.refresh(self._timer)
                    if refresh
                    else await self._writer.refresh_above(trees, self._timer)
                )
                still = await to_thread(self._dirty_titles)
            return _Made(done, tuple(dirty[tree] for tree in dirty if tree not in still))
        done = await self._writer.refresh_nothing()
        if refresh is None and policy == "behind" and done.left:
            ledger = current_ledger()
            await summaries.begin(ledger.budget.less(ledger.calls, ledger.tokens), frozenset(trees))
        return _Made(done)

    def _dirty_titles(self) -> dict[int, str]:
        """Return what the trees are called that have dirty nodes."""
        with self._db.read() as tx:
            trees = tree_rows.dirty_trees(tx)
            found: dict[int, str] = {}
            for index in self._writer.attached.of(tx):
                if index.paced:
                    continue
                found |= index.titles(tx, [tree for tree, owner in trees.items() if owner == index.name])
            return found

    def _result(self, plan: Plan, before: _Before, did: _Did, **counts: object) -> MergeResult:
        ran = {} if self._writer.vectors is None else self._writer.vectors.ran
        return MergeResult(
            user_id=self._other.user_id,
            sessions_added=did.added,
            sessions_grown=did.grown,
            sessions_same=did.same,
            renamed=did.renamed,
            people=dict(plan.names.here),
            participants_joined=before.participants,
            entities_joined=before.entities,
            elapsed_sec=round(time.perf_counter() - self._started, 6),
            usage=usage(current_ledger(), self._timer.ms, ran),
            **counts,  # type: ignore[arg-type]
        )


@dataclass(frozen=True, slots=True)
class _Before:
    """The memory before the merge: sizes of its trees, and what has one name in both."""

    trees: Mapping[int, int]
    participants: tuple[str, ...]
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Made:
    """The summaries that were made, and the titles of the trees that are up to date by that."""

    done: Refreshed
    trees: tuple[str, ...] = ()


@dataclass(slots=True)
class _Did:
    """What became of the sessions."""

    added: int = 0
    grown: int = 0
    same: int = 0
    turns: int = 0
    renamed: dict[str, str] = field(default_factory=dict)

    def add(self, written: Sequence[Becomes], same: int) -> None:
        """Count the sessions of one transaction."""
        self.added += sum(one.how == "new" for one in written)
        self.grown += sum(one.how == "grown" for one in written)
        self.same += same
        self.turns += sum(one.there.turns - one.first for one in written)
        self.renamed |= _renamed(written)


def _renamed(sessions: Sequence[Becomes]) -> dict[str, str]:
    return {
        one.there.session_id: one.session_id for one in sessions if one.session_id != one.there.session_id
    }


def _batches(sessions: Sequence[Becomes]) -> Iterator[list[Becomes]]:
    """Yield sessions in groups of bounded size; a longer session is a group by itself."""
    part: list[Becomes] = []
    size = 0
    for one in sessions:
        turns = one.there.turns - one.first
        if part and size + turns > BATCH_TURNS:
            yield part
            part, size = [], 0
        part.append(one)
        size += turns
    if part:
        yield part
