"""Merging another memory into one, from the check of both to fresh summaries.

Sessions are copied some at a time, each transaction whole sessions, so that other writers wait for none of them long.
After a crash between two of them, merging again goes on: what is here already is found and left. Behind the last one, the
summaries of the other memory that this one asks for are copied; the others are made like those of any write.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from memforest.concurrency import to_thread
from memforest.models.ledger import current_ledger
from memforest.progress import Timer
from memforest.read.host import BUSY_S, PAUSE_S
from memforest.read.receipts import MergeResult
from memforest.read.results import usage
from memforest.read.summaries import Summaries
from memforest.reading.canonical import Same
from memforest.reading.timestamps import keep_zone
from memforest.search.vectors import keep_embedder
from memforest.store import artifacts, meta
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.sessions import Origin
from memforest.store.upkeep import purge
from memforest.times import to_ms
from memforest.trees.refresh import Refreshed
from memforest.write import merge_plan
from memforest.write.batch import SessionWriter
from memforest.write.commit import planned
from memforest.write.extract import ExtractedSession, find_same
from memforest.write.merge_copy import copy_sessions, extracted, merge_choices
from memforest.write.merge_corrections import merge_corrections, new_corrections
from memforest.write.merge_plan import MergeOptions, Merging, Plan, SessionPlan, batches

BATCH_TURNS = 1_024
"""Turns of the sessions that are copied in one transaction: about a quarter of a second's work."""


async def merge_memory(
    writer: SessionWriter, owner: Origin, other: Database, theirs: Origin, options: MergeOptions
) -> MergeResult:
    """Merge another memory into the writer's, or say what that would do; see `AsyncUserMemory.merge`.

    `owner` and `theirs` are whose the two memories are.
    """
    return await _Merge(writer, owner, other, theirs, options).run()


class _Merge:
    """One merge."""

    def __init__(
        self, writer: SessionWriter, owner: Origin, other: Database, theirs: Origin, options: MergeOptions
    ) -> None:
        self._writer = writer
        self._db = writer.db
        self._owner = owner
        self._other = other
        self._theirs = theirs
        self._options = options
        self._timer = Timer()
        self._started = time.perf_counter()
        self._embedder = None if writer.vectors is None else writer.vectors.embedder

    async def run(self) -> MergeResult:
        await to_thread(merge_plan.check_source, self._other, self._db.path)
        plan = await to_thread(self._planned)
        if self._options.dry_run:
            return await to_thread(self._dry, plan)
        merging, corrections = await to_thread(self._begin, plan)
        merging.same = await self._judged(plan)
        done = await self._copy(plan, merging)
        if self._embedder is not None:
            await self._writer.fill_vectors()
        with self._timer.timed("place"):
            copied = await to_thread(self._take_over, merging)
        refreshed = await self._refresh()
        return self._result(
            plan,
            done,
            facts_inserted=len(merging.new_facts),
            facts_merged=len(merging.done.facts - merging.new_facts),
            entities_added=len(merging.new_entities),
            corrections_added=corrections,
            summaries_copied=copied,
            nodes_refreshed=refreshed.nodes,
            nodes_dirty=refreshed.left,
            warnings=(
                *plan.notes,
                *merging.done.warnings,
                *refreshed.failures,
                *current_ledger().warnings,
            ),
        )

    def _take_over(self, merging: Merging) -> int:
        """Copy the artifacts of the other memory that this one asks for, and return how many."""
        with self._other.read() as source, self._db.write() as tx:
            wanted = self._writer.asked_for(tx, self._writer.cache.get(tx), artifacts.known(source))
            wanted -= artifacts.known(tx).keys()
            rows = [
                (*row[:5], row[5] if merging.plan.vectors else None)
                for row in artifacts.everything(source)
                if row[0] in wanted
            ]
            artifacts.add_all(tx, rows)
        return sum(row[1] in artifacts.OF_TREES for row in rows)

    def _planned(self) -> Plan:
        with self._timer.timed("plan"), self._other.read() as source, self._db.read() as tx:
            embedder = None if self._embedder is None else self._embedder.model_id
            return merge_plan.plan_merge(
                tx, source, self._options, self._owner, self._theirs, embedder=embedder
            )

    def _dry(self, plan: Plan) -> MergeResult:
        """Return what would be done, by reading alone."""
        with self._other.read() as source, self._db.read() as tx:
            coming = self._coming(source, plan)
            said = [one for work in coming for one in work.statements]
            vectors = {key: vector for work in coming for key, vector in work.vectors.items()}
            same = {key: one for work in coming for key, one in work.same.items()}
            joins = [one.joins for one in planned(tx, said, vectors, self._writer.threshold, same)]
            new = new_corrections(tx, source, plan)
        return self._result(
            plan,
            plan.sessions,
            dry_run=True,
            facts_inserted=joins.count(None),
            facts_merged=len({*joins} - {None}),
            corrections_added=len(new),
            warnings=plan.notes,
        )

    def _coming(self, source: Tx, plan: Plan) -> list[ExtractedSession]:
        return [extracted(source, plan, one) for one in plan.sessions if one.how != "same"]

    def _begin(self, plan: Plan) -> tuple[Merging, int]:
        """Store whose memory is merged, and what people decided there; from here on merging again changes no names."""
        with self._other.read() as source, self._db.write() as tx:
            keep_embedder(tx, self._db.path, self._embedder)
            keep_zone(tx, self._writer.config)
            merging = Merging(plan, to_ms(self._writer.config.clock()), self._writer.threshold)
            merging.origins = merge_plan.keep_origins(tx, plan, merging.stored_ms)
            new = merge_corrections(tx, source, merging)
            meta.bump(tx)
        return merging, new

    async def _judged(self, plan: Plan) -> Mapping[str, Same]:
        """Ask a judge, if there is one, which new statements say what a stored one says."""
        judge = self._writer.steps.judge
        if judge is None or self._embedder is None or not plan.vectors:
            return {}
        with self._timer.timed("judge"):
            coming = await self._other.reading(self._coming, plan)
            new = [(work.statements, work.vectors) for work in coming]
            return await find_same(
                judge, self._db, self._writer.cache, new, self._embedder.model_id, among=False
            )

    async def _copy(self, plan: Plan, merging: Merging) -> list[SessionPlan]:
        """Copy the sessions that are not here, some in a transaction; return what all of them became."""
        done, busy_s = [one for one in plan.sessions if one.how == "same"], 0.0
        for part in batches((one for one in plan.sessions if one.how != "same"), BATCH_TURNS):
            if busy_s >= BUSY_S:
                await asyncio.sleep(PAUSE_S)
                busy_s = 0.0
            started = time.perf_counter()
            done += await to_thread(self._copy_part, merging, part)
            self._timer.add("copy", started)
            busy_s += time.perf_counter() - started
        await to_thread(merge_choices, self._db, self._other, plan.names)
        if merging.cut:
            await to_thread(self._writer.sweep)
            await to_thread(purge, self._db)  # the log still holds what was overwritten, or did not stay
        return done

    def _copy_part(self, merging: Merging, part: Sequence[SessionPlan]) -> list[SessionPlan]:
        with self._other.read() as source, self._db.write() as tx:
            return copy_sessions(tx, source, merging, part)

    async def _refresh(self) -> Refreshed:
        """Make the summaries that are wanted now, or begin to make them."""
        summaries: Summaries = self._writer.summaries
        refresh, policy = self._options.refresh, summaries.policy
        if refresh or (refresh is None and policy == "path"):
            with self._timer.timed("refresh"):
                return await self._writer.refresh(self._timer)
        if refresh is None and policy == "behind":
            ledger = current_ledger()
            summaries.begin(ledger.budget.less(ledger.calls, ledger.tokens))
        return Refreshed()

    def _result(self, plan: Plan, done: Sequence[SessionPlan], **counts: object) -> MergeResult:
        ran = {} if self._writer.vectors is None else self._writer.vectors.ran
        return MergeResult(
            user_id=self._theirs.user_id,
            sessions_added=sum(one.how == "new" for one in done),
            sessions_grown=sum(one.how == "grown" for one in done),
            sessions_same=sum(one.how == "same" for one in done),
            turns_added=sum(one.turns for one in done),
            renamed={
                one.there.session_id: one.session_id
                for one in done
                if one.how != "same" and one.session_id != one.there.session_id
            },
            people=dict(plan.names.here),
            participants_joined=plan.participants_joined,
            entities_joined=plan.entities_joined,
            elapsed_sec=round(time.perf_counter() - self._started, 6),
            usage=usage(current_ledger(), self._timer.ms, ran),
            **counts,  # type: ignore[arg-type]
        )
