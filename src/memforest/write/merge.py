"""Merging another memory into one, from the check of both to fresh summaries.

Sessions are copied some at a time, each transaction whole sessions, so that other writers wait for none of them long.
After a crash between two of them, merging again goes on: what is here already is found and left. Indexes are brought up
to date behind the last one: trees are taken over first (`take_over`), the rest is placed. Until then, and after a crash,
they lag as behind any write, and `resume` moves them on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from memforest.concurrency import to_thread
from memforest.models.ledger import current_ledger
from memforest.progress import Timer
from memforest.read.host import BUSY_S, PAUSE_S
from memforest.read.receipts import MergeResult
from memforest.read.results import usage
from memforest.read.summaries import Summaries
from memforest.reading.canonical import Same
from memforest.reading.timestamps import keep_zone
from memforest.search.vectors import digest, keep_embedder
from memforest.store import copying, indexes, meta
from memforest.store import facts as facts_rows
from memforest.store import trees as trees_rows
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.derived import unpack_vectors
from memforest.store.erase import deleted
from memforest.store.sessions import Origin
from memforest.store.upkeep import purge
from memforest.times import to_ms
from memforest.trees.attached import Attached, Placings
from memforest.trees.index import Copied
from memforest.trees.refresh import Refreshed
from memforest.write import merge_plan
from memforest.write.batch import SessionWriter
from memforest.write.erase_corrections import sweep_corrections
from memforest.write.extract import NewFacts, find_same
from memforest.write.merge_copy import copy_sessions, match_new, merge_choices
from memforest.write.merge_match import facts_of, merge_corrections, new_corrections, read_facts
from memforest.write.merge_plan import MergeOptions, Merging, Plan, SessionPlan, batches, renamed


def current_indexes(tx: Tx) -> dict[str, int]:
    """Return the cursors of the indexes that have placed everything that is here now."""
    end = indexes.feed_position(tx)
    return {row.name: row.cursor for row in indexes.rows(tx) if row.cursor == end}


def take_over(
    db: Database,
    attached: Attached,
    other: Database,
    merging: Merging,
    cursors: Mapping[str, int],
) -> int:
    """Let indexes take over trees of the same indexes of another memory, and return how many.

    An index that somebody has moved on meanwhile takes over nothing more: its notes were placed one by one.

    Args:
        db: the memory that is merged into.
        attached: its indexes.
        other: the memory that is merged.
        merging: what was copied.
        cursors: of the indexes that were up to date before the merge.
    """
    taken = 0
    with other.read() as source:
        with db.read() as tx:
            copied = copied_as_it_is(tx, source, merging)
            found = [
                index
                for row in indexes.rows(tx)
                if row.name in cursors
                and not (index := attached.open(row)).deferred
                # the other memory has the same index, of the same shape, and up to date
                and (there := indexes.find(source, row.name)) is not None
                and there.settings == row.settings
                and there.cursor == indexes.feed_position(source)
            ]
        for index in found:
            for piece in index.merge(copied):
                with db.write() as tx:
                    now = indexes.find(tx, index.name)
                    if now is None or now.cursor != cursors[index.name]:
                        break
                    taken += piece(tx)
                    meta.bump(tx)
    return taken


def copied_as_it_is(tx: Tx, source: Tx, merging: Merging) -> Copied:
    """Return what is here exactly as it is there: nothing that has another name or verdict here."""
    new = {row: merging.facts[row] for row in merging.new_facts}
    there, here = copying.fact_places(source, new), copying.fact_places(tx, new.values())
    facts = {row: own for row, own in new.items() if there.get(row) == here.get(own)}
    sessions = dict(merging.sessions)
    entities = {row: merging.entities[row] for row in merging.new_entities}
    if merging.names:
        labels = {one.row: one.key for one in facts_rows.entities(source)}
        entities = {row: own for row, own in entities.items() if labels.get(row) not in merging.names.here}
        sessions = {
            row: own
            for row, own in sessions.items()
            if all(merging.names.speaker(name) == name for name in copying.speakers_of(source, row))
        }
    theirs, ours = copying.verdicts(source, merging.facts), copying.verdicts(tx, merging.facts.values())
    judged = [row for row, verdict in theirs.items() if ours.get(merging.facts[row], 0) != verdict]
    for session in copying.sessions_of_facts(source, judged):
        sessions.pop(session, None)  # its summaries may tell what is hidden here, or not tell what is shown
    return Copied(source, sessions, merging.turns, merging.chunks, facts, entities, merging.session_ids)


BATCH_TURNS = 1_024
"""Turns of the sessions that are copied in one transaction: about a quarter of a second's work."""


async def merge_memory(
    writer: SessionWriter, owner: Origin, other: Database, theirs: Origin, options: MergeOptions
) -> MergeResult:
    """Merge another memory into the writer's, or say what that would do; see `AsyncUserMemory.merge`.

    `owner` and `theirs` are whose the two memories are.
    """
    return await _Merge(writer, owner, other, theirs, options).run()


_Before = tuple[Mapping[int, int], tuple[str, ...], tuple[str, ...]]
"""Sizes of the trees before the merge, and the participants and the other entities that have one name in both memories."""


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
        plan, before = await to_thread(self._planned)
        if self._options.dry_run:
            return await to_thread(self._dry, plan, before)
        merging, corrections, cursors = await to_thread(self._begin, plan)
        merging.same = await self._judged(plan, merging)
        done = await self._copy(plan, merging)
        with self._timer.timed("place"):
            taken = await to_thread(
                take_over,
                self._db,
                self._writer.attached,
                self._other,
                merging,
                cursors,
            )
            if merging.reworded:
                await self._writer.fill_vectors()
            problems = await self._writer.catch_up(failed=False, occasion="write")
        grown, total = await to_thread(self._grown, before)
        refreshed, fresh = await self._refresh(grown)
        return self._result(
            plan,
            before,
            done,
            facts_inserted=len(merging.new_facts),
            facts_merged=len(merging.facts) - len(merging.new_facts),
            entities_added=len(merging.new_entities),
            corrections_added=corrections,
            trees_copied=taken,
            trees_merged=len(grown & before[0].keys()),
            total_trees=total,
            nodes_refreshed=refreshed.nodes,
            nodes_dirty=refreshed.left,
            flushed_tree_ids=fresh,
            warnings=(
                *plan.notes,
                *merging.warnings,
                *problems,
                *refreshed.failures,
                *current_ledger().warnings,
            ),
        )

    def _planned(self) -> tuple[Plan, _Before]:
        with self._timer.timed("plan"), self._other.read() as source, self._db.read() as tx:
            plan = merge_plan.plan_merge(
                tx,
                source,
                self._options,
                self._owner,
                self._theirs,
                embedder=None if self._embedder is None else self._embedder.model_id,
            )
            people, things = merge_plan.joined(tx, source, plan.names)
            sizes = {head.tree: head.count for _, _, head in trees_rows.heads(tx)}
            return plan, (sizes, tuple(people), tuple(things))

    def _dry(self, plan: Plan, before: _Before) -> MergeResult:
        """Return what would be done, by reading alone."""
        with self._other.read() as source, self._db.read() as tx:
            merging = self._merging(tx, source, plan, 0, {})
            wanted = [one for one in plan.sessions if one.how != "same"]
            inserted = joined = 0
            for part in batches(wanted, BATCH_TURNS):
                facts = {fact for one in part for fact in facts_of(source, one)} - merging.facts.keys()
                reading = read_facts(source, facts, plan.names, vectors=merging.vectors)
                found = match_new(tx, reading, merging)
                inserted, joined = inserted + len(facts) - len(found), joined + len(found)
                merging.facts.update(dict.fromkeys(facts, 0))
            new = len(new_corrections(tx, source, plan))
        return self._result(
            plan,
            before,
            plan.sessions,
            dry_run=True,
            facts_inserted=inserted,
            facts_merged=joined,
            corrections_added=new,
            total_trees=len(before[0]),
            warnings=plan.notes,
        )

    def _begin(self, plan: Plan) -> tuple[Merging, int, dict[str, int]]:
        """Store whose memory is merged, and what people decided there; from here on merging again changes no names."""
        with self._other.read() as source, self._db.write() as tx:
            cursors = current_indexes(tx)
            placings = Placings(tx, self._writer.attached, later=True)
            keep_embedder(tx, self._db.path, self._embedder)
            keep_zone(tx, self._writer.config)
            stored_ms = to_ms(self._writer.config.clock())
            origins = merge_plan.keep_origins(tx, plan, stored_ms)
            rows, decided, new, settled = merge_corrections(tx, source, placings, plan, stored_ms)
            placings.close()
            merging = self._merging(tx, source, plan, stored_ms, origins)
            merging.corrections, merging.decided = rows, decided
            merging.settle(settled)
            meta.bump(tx)
        return merging, new, cursors

    def _merging(
        self,
        tx: Tx,
        source: Tx,
        plan: Plan,
        stored_ms: int,
        origins: Mapping[int | None, int | None],
    ) -> Merging:
        have, given = meta.get(tx, "embedder"), meta.get(source, "embedder")
        whose: dict[int | None, Origin] = {None: plan.own}
        whose.update(plan.origins.items())
        return Merging(
            plan.names,
            stored_ms,
            have is not None and have == given,
            self._writer.threshold,
            origins,
            whose,
        )

    async def _judged(self, plan: Plan, merging: Merging) -> Mapping[str, Same]:
        """Ask a judge, if there is one, which new statements say what a stored one says."""
        judge = self._writer.steps.judge
        if judge is None or self._embedder is None or not merging.vectors:
            return {}
        with self._timer.timed("judge"):
            new = await to_thread(self._statements, plan)
            return await find_same(
                judge, self._db, self._writer.cache, [new], self._embedder.model_id, among=False
            )

    def _statements(self, plan: Plan) -> NewFacts:
        with self._other.read() as source:
            wanted = [one for one in plan.sessions if one.how != "same"]
            facts = {fact for one in wanted for fact in facts_of(source, one)}
            reading = read_facts(source, facts, plan.names, vectors=True)
            said = [reading.said(row, plan.names) for row in sorted(reading.facts)]
            vectors = {
                digest(reading.facts[row].text): unpack_vectors(stored[1])[0]
                for row, stored in reading.vectors.items()
            }
            return said, vectors

    async def _copy(self, plan: Plan, merging: Merging) -> list[SessionPlan]:
        """Copy the sessions that are not here, some in a transaction; return what all of them became."""
        done, busy_s = [one for one in plan.sessions if one.how == "same"], 0.0
        for part in batches((one for one in plan.sessions if one.how != "same"), BATCH_TURNS):
            if busy_s >= BUSY_S:
                await asyncio.sleep(PAUSE_S)
                busy_s = 0.0
            started = time.perf_counter()
            done += await to_thread(self._copy_part, plan, merging, part)
            self._timer.add("copy", started)
            busy_s += time.perf_counter() - started
        await to_thread(merge_choices, self._db, self._other, plan.names)
        over = [one.session_id for one in plan.sessions if one.over is not None]
        if over:
            await to_thread(self._sweep, over)
        if merging.cut or over:
            await to_thread(purge, self._db)  # the log still holds what was overwritten, or did not stay
        return done

    def _copy_part(self, plan: Plan, merging: Merging, part: Sequence[SessionPlan]) -> list[SessionPlan]:
        done: list[SessionPlan] = []
        with self._other.read() as source, self._db.write() as tx:
            now = replace(plan, deleted=deleted(tx))

            def wanted() -> Iterator[SessionPlan]:
                """Yield each session as it is to be copied when the one before is here."""
                for one in part:
                    if (found := now.becomes(tx, source, one)) is not None:
                        done.append(found)
                        if found.how != "same":
                            yield found

            copy_sessions(tx, source, self._writer.attached, merging, wanted())
        return done

    def _sweep(self, sessions: Sequence[str]) -> None:
        """Delete the corrections of what was overwritten."""
        with self._db.write() as tx:
            for session_id in sessions:
                sweep_corrections(tx, session_id)
            meta.bump(tx)

    def _grown(self, before: _Before) -> tuple[set[int], int]:
        """Return the trees that have other leaves now, and how many trees there are."""
        with self._db.read() as tx:
            sizes = {head.tree: head.count for _, _, head in trees_rows.heads(tx)}
        return {tree for tree, size in sizes.items() if before[0].get(tree) != size}, len(sizes)

    async def _refresh(self, trees: set[int]) -> tuple[Refreshed, tuple[str, ...]]:
        """Make the summaries that are wanted now; return the titles of the trees that are up to date by that, too."""
        summaries: Summaries = self._writer.summaries
        refresh, policy = self._options.refresh, summaries.policy
        if refresh or (refresh is None and policy == "path"):
            with self._timer.timed("refresh"):
                dirty = await to_thread(self._dirty_titles)
                done = await self._writer.refresh(self._timer, None if refresh else trees)
                still = await to_thread(self._dirty_titles)
            return done, tuple(dirty[tree] for tree in dirty if tree not in still)
        done = Refreshed(left=await to_thread(self._writer.count_dirty))
        if refresh is None and policy == "behind" and done.left:
            ledger = current_ledger()
            await summaries.begin(ledger.budget.less(ledger.calls, ledger.tokens), frozenset(trees))
        return done, ()

    def _dirty_titles(self) -> dict[int, str]:
        """Return what the trees are called that have dirty nodes."""
        with self._db.read() as tx:
            trees = trees_rows.dirty_trees(tx)
            found: dict[int, str] = {}
            for index in self._writer.attached.of(tx):
                if index.paced:
                    continue
                found |= index.titles(tx, [tree for tree, owner in trees.items() if owner == index.name])
            return found

    def _result(
        self, plan: Plan, before: _Before, done: Sequence[SessionPlan], **counts: object
    ) -> MergeResult:
        ran = {} if self._writer.vectors is None else self._writer.vectors.ran
        return MergeResult(
            user_id=self._theirs.user_id,
            sessions_added=sum(one.how == "new" for one in done),
            sessions_grown=sum(one.how == "grown" for one in done),
            sessions_same=sum(one.how == "same" for one in done),
            turns_added=sum(one.turns for one in done),
            renamed=renamed(one for one in done if one.how != "same"),
            people=dict(plan.names.here),
            participants_joined=before[1],
            entities_joined=before[2],
            elapsed_sec=round(time.perf_counter() - self._started, 6),
            usage=usage(current_ledger(), self._timer.ms, ran),
            **counts,  # type: ignore[arg-type]
        )
