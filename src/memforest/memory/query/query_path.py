"""The read path of one memory: plan, embed, search, and the evidence or answer that comes of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import to_thread
from memforest.config import Config, Ranking
from memforest.endpoint import Budget
from memforest.errors import EmbedderMismatchError, ModelError, StepError
from memforest.interval import to_ms
from memforest.language.requests import asked_in
from memforest.memory.host import MemoryHost
from memforest.memory.query.answer import answered, turns_before, within_budget, without_questions
from memforest.memory.query.evidence import (
    left_out,
    make_evidence,
    once_per_fact,
    pinned_hits,
    speaking_hits,
    tree_titles,
    undamaged_hits,
    with_pinned,
)
from memforest.memory.query.explain import Searched, explanation, leaf_key
from memforest.memory.query.memories import Memories, by_score
from memforest.memory.query.ordering import candidate, in_order, only
from memforest.memory.query.reading import in_memory, memory_notes, search_tokens
from memforest.memory.query.rerank import (
    WARNING_CHARS,
    Reading,
    said_before,
    said_order,
    second_look,
)
from memforest.memory.query.surface_names import surface_names
from memforest.memory.results import AskResult, QueryResult
from memforest.memory.summaries import Summaries
from memforest.memory.timing import Timer, timed
from memforest.memory.usage import usage
from memforest.memory.vectors import VectorMaker
from memforest.models import Embedder
from memforest.models.ledger import Ledger, keeping
from memforest.ports import embed_questions
from memforest.search.cache import SnapshotCache, Snapshots
from memforest.search.snapshot import Snapshot
from memforest.search.texts import without_names, worded
from memforest.steps.choose import Steps
from memforest.store import sessions
from memforest.store.db import Database
from memforest.store.digests import AGAIN
from memforest.store.tx import Tx
from memforest.systems.attached import Attached, Chosen
from memforest.systems.base import MOST_ROUNDS, Hit, Index, NodeHit, Prepared, Search
from memforest.systems.modes import choose_mode
from memforest.systems.moments import Moment, MomentCache, VerdictsAt, moment_notes
from memforest.text import cut
from memforest.types import QuestionPlan

Row = NDArray[np.float32]
_Rows = tuple[Row | None, Row | None]


@dataclass(frozen=True, slots=True)
class Query:
    """A question with its checked options; times are aware UTC. See `AsyncMemForest.query`.

    `question` is what is read of it, at most `QUESTION_CHARS` characters; `warnings` say if that is not all.
    """

    question: str
    reference: datetime
    reference_given: bool
    as_of: datetime | None
    during: tuple[datetime, datetime] | None
    top_k: int
    max_tokens: int | None
    index: str | None
    ranking: Ranking
    rerank_top: int = 20
    rerank_tokens: int = 1050
    mode: str | None = None
    budget: Budget = field(default_factory=Budget)
    browse_calls: int = 32
    explain: bool = False
    warnings: tuple[str, ...] = ()
    moment: Moment | None = None


@dataclass(frozen=True, slots=True)
class QueryPath:
    """Answers questions from one memory. `embedder` is None when the memory works by words alone."""

    db: Database
    cache: Snapshots
    steps: Steps
    embedder: Embedder | None
    warnings: tuple[str, ...]
    attached: Attached
    config: Config
    summaries: Summaries
    verdicts_at: VerdictsAt

    async def query(self, asked: Query, label: str) -> QueryResult:
        """Return ranked evidence; `label` is who "I" is. See `AsyncMemForest.query`."""
        with keeping(Ledger(asked.budget, "query")) as ledger:
            return (await self._at(asked.moment)._query(asked, label, ledger))[0]

    def _at(self, moment: Moment | None) -> QueryPath:
        """Return the path that answers from what there was at a moment."""
        if moment is None or not isinstance(self.cache, SnapshotCache):
            return self
        return replace(self, cache=MomentCache(self.cache, moment, self.verdicts_at))

    async def _query(self, asked: Query, label: str, ledger: Ledger) -> tuple[QueryResult, Search]:
        mode = choose_mode(asked.mode, self.steps)
        timer = Timer()
        started = time.perf_counter()
        snapshot, waiting, (index, lag, behind) = await to_thread(self._snapshot, asked)
        timer.add("open", started)
        request, unread = await self._read(asked, snapshot, label, timer)
        maker = None if unread or self.embedder is None else VectorMaker(self.db, self.embedder)
        host = MemoryHost(
            self.db,
            self.cache,
            self.config,
            self.steps,
            maker,
            self.summaries,
            timer,
            asked.question,
            ask=partial(self._read_further, asked, snapshot, label, timer),
        )
        prepared = await index.prepare(host, replace(request, mode=mode))
        found, prepared = await self._searched(asked, index, host, prepared)
        unranked: list[str] = []
        if self.steps.reranker is not None and self._reranks(asked):
            reading = Reading(
                asked.rerank_top, asked.rerank_tokens, asked.ranking.rerank, asked.ranking.time_order != 0
            )
            look = partial(
                second_look, self.steps.reranker, asked.question, prepared.request.plan, found, reading
            )
            found, unranked = await timed(timer, "rerank", look)
        shown = with_pinned(found.evidence, found.pinned, asked.top_k)
        evidence = in_order(within_budget(shown, asked.max_tokens), found.shown, asked.reference)
        why = (
            {"explain": explanation(prepared.request, asked.moment, found, evidence, prepared.trace)}
            if asked.explain
            else {}
        )
        result = QueryResult(
            question=asked.question,
            evidence=evidence,
            plan=prepared.request.plan,
            reference_date=asked.reference,
            timezone=self.config.timezone,
            index=index.name,
            usage=usage(ledger, timer.ms, {} if maker is None else maker.ran),
            trace={
                "generation": snapshot.generation,
                "embedder": None if self.embedder is None else self.embedder.model_id,
                "planner": self.steps.planner.name,
                "trees": found.trees,
                "lag": lag,
                "reranker": found.reranker,
                **prepared.trace,
                **why,
            },
            warnings=(
                *self.warnings,
                *asked.warnings,
                *unread,
                *prepared.warnings,
                *found.warnings,
                *left_out(found.pinned, evidence),
                *unranked,
                *memory_notes(snapshot, self.embedder),
                *waiting,
                *behind,
                *ledger.warnings,
            ),
        )
        return result, prepared.request

    async def _read(
        self, asked: Query, snapshot: Snapshot, label: str, timer: Timer
    ) -> tuple[Search, list[str]]:
        """Return the planned and embedded question, and a warning if it could not be embedded.

        Raises:
            StepError: if what the planner returns is no plan.
        """
        names, question = surface_names(snapshot, label), asked_in(asked.question)
        # The embedder works in threads of its own, so it goes first: the plan is made meanwhile.
        (vectors, warnings), plan = await asyncio.gather(
            timed(timer, "embed", partial(self._question_vectors, question, snapshot)),
            timed(
                timer,
                "plan",
                partial(self.steps.planner.plan, asked.question, reference=asked.reference, names=names),
            ),
        )
        if not isinstance(plan, QuestionPlan):
            raise StepError(
                f"the planner {self.steps.planner.name!r} returned {type(plan).__name__}, not a QuestionPlan"
            )
        if plan.open_year and not asked.reference_given:
            plan = in_memory(plan, snapshot, to_ms(asked.reference), self.config.zone)
        request = Search(
            tokens=search_tokens(question, plan, self.config.zone),
            plan=plan,
            reference_ms=to_ms(asked.reference),
            vector=vectors[0],
            bare_vector=vectors[1],
            known=worded(question) * self.cache.known([without_names(question, snapshot.speakers)])[0],
            as_of_ms=None if asked.as_of is None else to_ms(asked.as_of),
            during_ms=None if asked.during is None else (to_ms(asked.during[0]), to_ms(asked.during[1])),
            ranking=asked.ranking,
            asked_mode=asked.mode,
            browse_calls=asked.browse_calls,
            explain=asked.explain,
        )
        return request, warnings

    async def _read_further(
        self, asked: Query, snapshot: Snapshot, label: str, timer: Timer, question: str
    ) -> Search:
        """Return another question, read with the options of the one that is asked."""
        return (await self._read(replace(asked, question=question), snapshot, label, timer))[0]

    async def _searched(
        self, asked: Query, index: Index, host: MemoryHost, prepared: Prepared
    ) -> tuple[Searched, Prepared]:
        """Rank candidates, and let the index refine and repeat the ranking, at most `MOST_ROUNDS` times."""
        for _ in range(MOST_ROUNDS):
            with host.timed("search"):
                found = await to_thread(self._search, asked, index, prepared.request)
            refined = await index.refine(host, prepared.request, [candidate(one) for one in found.evidence])
            if refined is None:
                break
            prepared = replace(
                prepared,
                request=refined.again or prepared.request,
                trace={**prepared.trace, **refined.trace},
                warnings=(*prepared.warnings, *refined.warnings),
            )
            if refined.kept is not None:
                found = only(found, refined.kept)
            if refined.again is None:
                break
        return replace(found, trees=found.trees or list(prepared.trees)), prepared

    def _snapshot(self, asked: Query) -> tuple[Snapshot, list[str], Chosen]:
        """Return the snapshot, warnings about what it does not have, and the index to search."""
        with self.db.read() as tx:
            snapshot = self.cache.get(tx)
            missing = [*_waiting(sessions.waiting(tx)), *moment_notes(tx, asked.moment)]
            return snapshot, missing, self.attached.choose(tx, asked.index)

    async def _question_vectors(self, question: str, snapshot: Snapshot) -> tuple[_Rows, list[str]]:
        """Return the vectors of the question, and of the question without participants' names.

        An embedder that fails costs the vectors and a warning, not the answer: words, time order and trees are here.

        Raises:
            EmbedderMismatchError: if the embedder is another one than the memory's.
        """
        if self.embedder is None or not snapshot.dimension:
            return (None, None), []
        bare = without_names(question, snapshot.speakers)
        maker = VectorMaker(self.db, self.embedder, stored_dimension=snapshot.dimension)
        try:
            rows = await embed_questions(self.embedder, [question, bare])
            maker.check_dimension()
        except EmbedderMismatchError:
            raise
        except ModelError as exc:
            return (None, None), [f"{cut(str(exc), WARNING_CHARS)}: searched without vectors"]
        return (rows[0], rows[1]), []

    def _reranks(self, asked: Query) -> bool:
        return self.steps.reranker is not None and asked.ranking.rerank != 0

    def _search(self, asked: Query, index: Index, request: Search) -> Searched:
        """Return the ranked evidence; where a reranker follows, its whole pool instead of the first `top_k`."""
        with self.db.read() as tx:
            snapshot = self.cache.get(tx)
            self.attached.get(tx, index.name)  # another process may have dropped it since
            return self._found(tx, snapshot, asked, index, request)

    def _found(self, tx: Tx, snapshot: Snapshot, asked: Query, index: Index, request: Search) -> Searched:
        """Let the index search, and make evidence of what it finds."""
        reranks = self._reranks(asked)
        found = index.search(tx, snapshot, request)
        wanted = max(asked.top_k + found.spare, asked.rerank_top if reranks else 0)
        read = asked.rerank_top + found.spare
        damage: dict[str, None] = {}
        memories = Memories(tx, snapshot, index, request, damage)
        speaking = speaking_hits(snapshot, found.hits)
        sound = once_per_fact(undamaged_hits(tx, snapshot, speaking, damage))
        ranked = by_score(sound, found.nodes)
        best = list(islice((hit for hit in ranked if isinstance(hit, Hit) or memories.shows(hit)), wanted))
        pinned = list(undamaged_hits(tx, snapshot, pinned_hits(snapshot, request), damage))
        turns = {(hit.turn, hit.fact): hit for hit in (*pinned, *best) if isinstance(hit, Hit)}
        nodes = [hit for hit in best if isinstance(hit, NodeHit)]
        told = make_evidence(tx, snapshot, index, list(turns.values()), asked.question)
        made = dict(zip(turns, told, strict=True))
        summed = dict(zip((hit.node for hit in nodes), memories.evidence(nodes), strict=True))
        titles = tree_titles(tx, index, [tree for tree, _ in found.trees])
        return Searched(
            evidence=[made[hit.turn, hit.fact] if isinstance(hit, Hit) else summed[hit.node] for hit in best],
            pinned=[made[hit.turn, hit.fact] for hit in pinned],
            trees=[(title, round(score, 4)) for title, (_, score) in zip(titles, found.trees, strict=True)],
            notes=found.notes,
            before=said_before(tx, snapshot, best[:read]) if reranks else [],
            order=said_order(snapshot, best[:read]) if reranks else [],
            shown=found.order,
            browsed={
                leaf_key(made[row]): hit.browsed for row, hit in turns.items() if hit.browsed is not None
            },
            warnings=(
                *found.warnings,
                *(f"{name} is damaged and left out of the evidence; {AGAIN}" for name in damage),
                *memories.warnings,
            ),
        )

    async def ask(self, asked: Query, label: str) -> AskResult:
        """Answer from the best evidence, or abstain; see `AsyncMemForest.ask`."""
        with keeping(Ledger(asked.budget, "ask")) as ledger:
            path = self._at(asked.moment)
            with keeping(ledger.part()) as part:
                result, read = await path._query(asked, label, part)
            told, timer = without_questions(result.evidence), Timer()
            before = await to_thread(turns_before, self.db, path.cache, told)
            made = await timed(
                timer,
                "answer",
                partial(
                    answered,
                    self.steps,
                    asked.question,
                    plan=result.plan,
                    reference=asked.reference,
                    evidence=told,
                    before=before,
                    parts=read.parts,
                ),
            )
            nearest = made.answer.nearest
            return AskResult(
                question=asked.question,
                answer=made.answer.text,
                citations=tuple(told[i] for i in made.answer.cited),
                reason=made.answer.reason,
                result=replace(
                    result,
                    trace={**result.trace, "answerer": made.answerer},
                    warnings=tuple(dict.fromkeys((*result.warnings, *made.warnings, *ledger.warnings))),
                ),
                usage=usage(ledger, {**result.usage.ms, **timer.ms}, result.usage.embeds),
                score=made.answer.score,
                nearest=None if nearest is None else told[nearest],
            )


def _waiting(n: int) -> list[str]:
    if not n:
        return []
    return [
        f"{n} session(s) are stored but not ingested yet: being written, or interrupted; resume() completes them"
    ]
