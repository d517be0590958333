"""The read path of one memory: plan, embed, search, and the evidence or answer that comes of it.

A memory adds two things to the reading of a question: which year's 6 May is meant (`in_memory`), and what its
participants are called: by name, by first name, by role, "I" and "you" (`surface_names`).
"""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from functools import partial
from heapq import merge
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import to_thread
from memforest.config import Config, Ranking
from memforest.endpoint import Budget
from memforest.errors import EmbedderMismatchError, ModelError, StepError
from memforest.models.ledger import Ledger, keeping
from memforest.ports import Embedder, ReadsStates, Reranker, embed_questions
from memforest.progress import Timer
from memforest.read.answer import (
    RANKED,
    answered,
    ranked,
    with_later,
    within_budget,
    without_questions,
)
from memforest.read.evidence import (
    EvidenceReader,
    falling_score,
    pinned_hits,
    with_pinned,
)
from memforest.read.host import MemoryHost
from memforest.read.rerank import (
    WARNING_CHARS,
    Known,
    SearchOutcome,
    by_level,
    candidate,
    explanation,
    first_pieces,
    leaf_key,
    only,
    relevant,
    second_look,
)
from memforest.read.results import AskResult, Evidence, QueryResult, usage
from memforest.read.summaries import Summaries
from memforest.read.views import unknown_note
from memforest.reading.answer_local import weights_for
from memforest.reading.canonical import speaker_key
from memforest.reading.clauses import asked_in
from memforest.reading.date_phrases import latest_within, years_back
from memforest.reading.entities import is_assistant
from memforest.reading.question_parts import language_of
from memforest.reading.steps import Steps
from memforest.records import TURN_ROLES, UNSPOKEN_ROLES, QuestionPlan
from memforest.search.as_of import Moment, moment_notes
from memforest.search.cache import Snapshots
from memforest.search.filters import NodeHit, Prepared, Search, TurnHit, allowed, turn_places
from memforest.search.relevance import LIKELY, Judge, Relevance
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.search.succession import Reader, is_read, open_weights, said_later, standing
from memforest.search.vectors import VectorMaker, day_text, question_tokens, without_names, worded
from memforest.store.database import Database
from memforest.text import cut, entity_key
from memforest.times import from_ms, to_ms
from memforest.trees.attached import Attached
from memforest.trees.index import MOST_ROUNDS, Index, choose_mode

_ONE_DAY = timedelta(hours=25)
"""The longest day: when clocks are put back."""


def in_memory(plan: QuestionPlan, snapshot: Snapshot, reference_ms: int, zone: tzinfo) -> QuestionPlan:
    """Return the plan of a question that names days without a year, moved to the last such days of the memory.

    For questions without a reference date: a memory of years ago is asked about its own 6 May, and not about that of the
    clock's year. Days ahead of the clock stay, and so do days of which no year is covered.

    Args:
        plan: with `open_year`, its bounds as the clock has them.
        snapshot: of the memory.
        reference_ms: the clock's time.
        zone: whose calendar days are meant.
    """
    said, now = snapshot.turns.said_ms, from_ms(reference_ms)
    named = plan.as_of if plan.start is None and plan.end is None else plan.start
    if not len(said) or (named is not None and named > now):
        return plan
    start, end = (plan.as_of, None) if plan.start is None and plan.end is None else (plan.start, plan.end)
    years = latest_within(start, end, from_ms(int(said.min())), from_ms(int(said.max())), zone)
    if not years:
        return plan
    return replace(
        plan,
        start=years_back(plan.start, years, zone),
        end=years_back(plan.end, years, zone, ends=True),
        as_of=years_back(plan.as_of, years, zone),
    )


_ASKER = (
    *("i", "the user", "the customer", "el usuario", "la usuaria"),
    *("el cliente", "la clienta", "用户", "客户"),
)
_ASKED = ("you", "the assistant", "the agent", "el asistente", "la asistente", "助手")


def surface_names(snapshot: Snapshot, user_label: str, *, people: bool = False) -> Mapping[str, str]:
    """Return every name the memory knows, or those of `people` alone (case-folded) -> the entity's display name.

    "I" in a question is the memory's user, if they take part in it, else whoever has the role of the user; "you" is
    the assistant, else the only other participant. A first name is somebody's if no other entity is called so.
    """
    speak = _participants(snapshot)
    own = snapshot.names.get(entity_key(user_label) or "")
    askers = [one for one, roles in speak.items() if (one == own if own in speak else "user" in roles)]
    others = [one for one in speak if one not in askers] if len(askers) == 1 else []
    helpers = [
        one for one in others if "assistant" in speak[one] or is_assistant(snapshot.entities[one].label, None)
    ]
    names = ChainMap({}, _names(snapshot)[people])
    for words, entities in ((_ASKER, askers), (_ASKED, helpers or others)):
        if len(entities) == 1:
            names.maps[0].update(dict.fromkeys(words, snapshot.entities[entities[0]].label))
    return names


@once_per_snapshot
def _participants(snapshot: Snapshot) -> dict[int, frozenset[str]]:
    """Return entity -> roles, of those who speak and are neither a tool nor a system."""
    found: dict[int, set[str]] = {}
    turns = snapshot.turns
    for speaker, role in np.unique(np.stack([turns.speaker, turns.role]), axis=1).T.tolist():
        entity = snapshot.names.get(speaker_key(snapshot.speakers[speaker]) or "")
        if entity is not None and TURN_ROLES[role] not in UNSPOKEN_ROLES:
            found.setdefault(entity, set()).add(TURN_ROLES[role])
    return {entity: frozenset(roles) for entity, roles in found.items()}


@once_per_snapshot
def _names(snapshot: Snapshot) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names of everything, and those of people."""
    names = {key: snapshot.entities[row].label for key, row in snapshot.names.items()}
    for entity in snapshot.entities.values():
        names.setdefault(entity.label.casefold(), entity.label)
    for row in _participants(snapshot):
        label = snapshot.entities[row].label
        names.setdefault(label.split()[0].casefold(), label)
    people = {one.label for one in snapshot.entities.values() if one.kind in ("participant", "person")}
    return names, {name: label for name, label in names.items() if label in people}


UNFOUND = 3
"""The place of what may have been said later, and was not found, from 0: behind the best, and among what a cross-encoder reads."""
Row = NDArray[np.float32]
_Rows = tuple[Row | None, Row | None]
W = TypeVar("W")


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
    min_relevance: float
    max_tokens: int | None
    index: str | None
    ranking: Ranking
    mode: str | None = None
    budget: Budget = field(default_factory=Budget)
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

    async def query(self, asked: Query, label: str, ledger: Ledger) -> tuple[QueryResult, Search, Known]:
        """Return ranked evidence, the question as it was read, and what is known of evidence; see `AsyncMemForest.query`.

        Args:
            asked: the question.
            label: who "I" is.
            ledger: counts what is spent; the one in force.
        """
        mode = choose_mode(asked.mode, self.steps)
        timer = Timer()
        with timer.timed("open"):
            snapshot, waiting, index = await to_thread(self._snapshot, asked)
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
        reranker = self._reranker(asked)
        found, prepared = await self._searched(asked, index, host, prepared, reranker)
        unranked: list[str] = []
        if reranker is not None:
            with timer.timed("rerank"):
                found, unranked = await second_look(
                    reranker,
                    asked.question,
                    found,
                    top=self.config.rerank_top,
                    tokens=self.config.rerank_tokens,
                    weight=asked.ranking.rerank,
                )
        found = with_later(found, asked.question)
        if asked.ranking.ranker:
            with timer.timed("rank"):
                found = ranked(found, asked.question, prepared.request.plan)
        found = relevant(found, asked.min_relevance)
        shown: Sequence[Evidence] = found.evidence[: asked.top_k]
        if found.leaves:
            shown = first_pieces(found, asked.top_k)
        if found.pinned:
            shown = with_pinned(found.evidence, found.pinned, max(len(shown), asked.top_k))
        if asked.max_tokens is not None:
            shown = within_budget(shown, asked.max_tokens, self.config.zone)
        evidence = tuple(shown) if found.shown == "score" else by_level(shown, asked.reference)
        trace = {
            "generation": snapshot.generation,
            "embedder": None if self.embedder is None else self.embedder.model_id,
            "planner": self.steps.planner.name,
            "trees": found.trees,
            "reranker": found.reranker,
            **prepared.trace,
        }
        if asked.explain:
            trace["explain"] = explanation(prepared.request, asked.moment, found, evidence, prepared.trace)
        left = len({one.fact_id for one in found.pinned} - {one.fact_id for one in evidence})
        no_room = f"{left} pinned statement(s) are left out; raise top_k or max_tokens" if left else None
        unknown, known = None, snapshot.turns.known
        if self.embedder is not None and len(known):
            unknown = unknown_note(float(known.mean()), self.embedder.model_id)
        warnings = (
            *self.warnings,
            *asked.warnings,
            *unread,
            *prepared.warnings,
            *found.warnings,
            no_room,
            *unranked,
            unknown,
            *waiting,
            *ledger.warnings,
        )
        result = QueryResult(
            question=asked.question,
            evidence=evidence,
            plan=prepared.request.plan,
            reference_date=asked.reference,
            timezone=self.config.timezone,
            index=index.name,
            usage=usage(ledger, timer.ms, {} if maker is None else maker.ran),
            trace=trace,
            warnings=tuple(one for one in warnings if one is not None),
        )
        return result, prepared.request, found.known

    async def _read(
        self, asked: Query, snapshot: Snapshot, label: str, timer: Timer
    ) -> tuple[Search, list[str]]:
        """Return the planned and embedded question, and a warning if it could not be embedded."""
        question = asked_in(asked.question)
        # The embedder works in threads of its own, so it goes first: the plan is made meanwhile.
        (vectors, warnings), plan = await asyncio.gather(
            self._question_vectors(question, snapshot, timer), self._planned(asked, snapshot, label, timer)
        )
        # The day that is asked about as the index spells days: "on March 4th" and "on 4 March" find the same. The words
        # of the date stay: without them nDCG@10 of dated questions was 3 to 8 points lower (docs/research/ranking.md).
        day = plan.start if plan.end is not None and plan.end - (plan.start or plan.end) <= _ONE_DAY else None
        dated = question if day is None else f"{question} {day_text(day.astimezone(self.config.zone))}"
        request = Search(
            tokens=question_tokens(dated),
            plan=plan,
            reference_ms=to_ms(asked.reference),
            vector=vectors[0],
            bare_vector=vectors[1],
            known=worded(question) * self.cache.known([without_names(question, snapshot.speakers)])[0],
            as_of_ms=None if asked.as_of is None else to_ms(asked.as_of),
            during_ms=None if asked.during is None else (to_ms(asked.during[0]), to_ms(asked.during[1])),
            ranking=asked.ranking,
            asked_mode=asked.mode,
            browse_calls=self.config.browse_calls,
            explain=asked.explain,
        )
        return request, warnings

    async def _planned(self, asked: Query, snapshot: Snapshot, label: str, timer: Timer) -> QuestionPlan:
        """Return the plan of a question.

        Raises:
            StepError: if what the planner returns is no plan.
        """
        # In German every noun is written as a name is.
        names = surface_names(snapshot, label, people=language_of(asked.question) == "de")
        planner = self.steps.planner
        with timer.timed("plan"):
            plan = await planner.plan(asked.question, reference=asked.reference, names=names)
        if not isinstance(plan, QuestionPlan):
            raise StepError(
                f"the planner {planner.name!r} returned {type(plan).__name__}, not a QuestionPlan"
            )
        if plan.open_year and not asked.reference_given:
            plan = in_memory(plan, snapshot, to_ms(asked.reference), self.config.zone)
        return plan

    async def _read_further(
        self, asked: Query, snapshot: Snapshot, label: str, timer: Timer, question: str
    ) -> Search:
        """Return another question, read with the options of the one that is asked."""
        return (await self._read(replace(asked, question=question), snapshot, label, timer))[0]

    async def _searched(
        self, asked: Query, index: Index, host: MemoryHost, prepared: Prepared, reranker: Reranker | None
    ) -> tuple[SearchOutcome, Prepared]:
        """Rank candidates, and let the index refine and repeat the ranking, at most `MOST_ROUNDS` times."""
        for _ in range(MOST_ROUNDS):
            with host.timer.timed("search"):
                found = await to_thread(self._search, asked, index, prepared.request, reranker)
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

    def _snapshot(self, asked: Query) -> tuple[Snapshot, list[str], Index]:
        """Return the snapshot, warnings about what it does not have, and the index to search."""
        with self.db.read() as tx:
            snapshot = self.cache.get(tx)
            waiting = (
                f"{snapshot.waiting} session(s) are stored but not read yet: a write is going on, or was interrupted; resume() "
                "completes them"
            )
            notes = [] if asked.moment is None else moment_notes(tx, asked.moment)
            missing = [*([waiting] if snapshot.waiting else []), *notes]
            return snapshot, missing, self.attached.choose(snapshot.indexes, asked.index)

    async def _question_vectors(
        self, question: str, snapshot: Snapshot, timer: Timer
    ) -> tuple[_Rows, list[str]]:
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
            with timer.timed("embed"):
                rows = await embed_questions(self.embedder, [question, bare])
            if snapshot.dimension != self.embedder.dimension:
                raise maker.other_dimension()
        except EmbedderMismatchError:
            raise
        except ModelError as exc:
            return (None, None), [f"{cut(str(exc), WARNING_CHARS)}: searched without vectors"]
        return (rows[0], rows[1]), []

    def _search(
        self, asked: Query, index: Index, request: Search, reranker: Reranker | None
    ) -> SearchOutcome:
        """Return the ranked evidence; where a reranker follows, its whole pool instead of the first `top_k`."""
        with self.db.read() as tx:
            snapshot = self.cache.get(tx)
            self.attached.choose(snapshot.indexes, index.name)  # another process may have dropped it since
            found = index.search(tx, snapshot, request)
            wanted = max(asked.top_k + found.spare, RANKED, self.config.rerank_top if reranker else 0)
            wanted *= request.leaf_turns or 1
            reader = EvidenceReader(
                tx, snapshot, index, request, asked.question, found.forest, dict(found.ended)
            )
            ranked: Iterator[TurnHit | NodeHit] = reader.shown(found.hits)
            if found.nodes:  # at equal scores a turn comes before a node
                both = merge(ranked, found.nodes, key=falling_score)
                ranked = (hit for hit in both if isinstance(hit, TurnHit) or reader.shows(hit))
            judge = self._weights(Judge) if is_read(asked.question) else None
            relevance = Relevance(tx, snapshot, request, judge)
            hits, reads = list(islice(ranked, wanted)), isinstance(reranker, ReadsStates)
            best, sure = self._with_later(reader, request, hits, relevance, reads=reads)
            pins = pinned_hits(snapshot, request) if snapshot.facts.pinned.any() else []
            scored = {(hit.turn, hit.fact): hit for hit in best if isinstance(hit, TurnHit)}
            pinned = [scored.get((hit.turn, hit.fact), hit) for hit in reader.shown(pins)]
            made = reader.evidence([*best, *pinned])
            made = [
                one if own is None or not is_read(one.read) else replace(one, relevance=own)
                for one, own in zip(made, relevance.of([*best, *pinned]), strict=True)
            ]
            evidence = made[: len(best)]
            turns = [(one, hit) for one, hit in zip(evidence, best, strict=True) if isinstance(hit, TurnHit)]
            standings = standing(snapshot, self._weights(Reader), request, [hit for _, hit in turns[:RANKED]])
            names = index.names(snapshot, found.forest) if found.forest is not None and found.trees else []
            return SearchOutcome(
                evidence=evidence,
                pinned=made[len(best) :],
                trees=[
                    (f"{found.forest.tree_kind[tree]} {names[tree]}", round(score, 4))
                    for tree, score in found.trees
                    if found.forest is not None
                ],
                notes=found.notes,
                shown=found.order,
                leads={leaf_key(one): hit.lead for one, hit in turns if hit.lead},
                browsed={leaf_key(one): hit.browsed for one, hit in turns if hit.browsed is not None},
                leaves={
                    leaf_key(one): hit.leaf for one, hit in turns if request.leaf_turns and hit.leaf >= 0
                },
                warnings=(*found.warnings, *reader.warnings),
                statements=len(snapshot.facts.ids),
                earlier=leaf_key(evidence[0]) if sure else None,
                later={leaf_key(one): sure[at] for one, hit in turns if (at := (hit.turn, hit.fact)) in sure},
                seeks=relevance.seeks(),
                known={
                    leaf_key(one): {
                        "place": place,
                        "before": reader.before(hit),
                        "relevance": one.relevance,
                        "by_assistant": TURN_ROLES[snapshot.turns.role[hit.turn]] == "assistant",
                        "succeeds": succeeds,
                        "ended": ended,
                    }
                    for place, ((one, hit), (succeeds, ended)) in enumerate(
                        zip(turns, standings, strict=False)
                    )
                },
            )

    def _reranker(self, asked: Query) -> Reranker | None:
        """Return what is to read the best candidates again; the local reranker reads no question in another script than its own."""
        found = self.steps.reranker if asked.ranking.rerank != 0 else None
        return found if found is None or not weights_for(found.model_id) or is_read(asked.question) else None

    def _weights(self, kind: type[W]) -> W | None:
        """Return the weights of a kind for the memory's embedder, or None if the package has none."""
        return None if self.embedder is None else open_weights(self.embedder.model_id, kind)

    def _with_later(
        self,
        reader: EvidenceReader,
        request: Search,
        best: list[TurnHit | NodeHit],
        relevance: Relevance,
        *,
        reads: bool,
    ) -> tuple[list[TurnHit | NodeHit], dict[tuple[int, int], float]]:
        """Return the best hits with what may have been said later of the thing that the first of them tells of, and how sure that is.

        So only where a question asks how something stands at its present, and what was said later may answer it. What is not sure
        is there only if a cross-encoder `reads` it.
        """
        weights, first = self._weights(Reader), best[0] if best else None
        if (
            weights is None
            or request.ranking.time_order == 0
            or request.bare_vector is None
            or not weights.asks_of_present(request.plan, request.bare_vector.astype(np.float64))
            or not isinstance(first, TurnHit)
            or first.fact < 0
            or first.ordered
        ):
            return best, {}
        tx, snapshot = reader.tx, reader.snapshot
        places = {one.turn: (at, one) for at, one in enumerate(best) if isinstance(one, TurnHit)}
        score = best[min(UNFOUND, len(best)) - 1].score
        told: dict[int, tuple[TurnHit, float]] = {}
        for fact, above in said_later(tx, snapshot, weights, request, allowed(snapshot, request), first.fact):
            turns = snapshot.facts.pairs[snapshot.facts.pairs[:, 0] == fact, 1]
            turn = int(turns[turn_places(snapshot)[turns].argmax()])
            if turn != first.turn and (reads or above >= 0):
                _, own = places.get(turn, (0, TurnHit(turn, fact, score, {"later": score})))
                told.setdefault(turn, (replace(own, fact=fact), above))
        hits = [hit for hit, _ in told.values()]
        likely = zip(hits, relevance.of(hits), strict=True)
        sure, new = {}, []
        for hit in reader.shown(hit for hit, one in likely if one is None or one >= LIKELY):
            sure[hit.turn, hit.fact] = told[hit.turn][1]
            if hit.turn in places:
                best[places[hit.turn][0]] = hit
            else:
                new.append(hit)
        best[UNFOUND:UNFOUND] = new
        return best, sure

    async def ask(self, asked: Query, label: str, ledger: Ledger) -> AskResult:
        """Answer from the best evidence, or abstain; the arguments are those of `query`. See `AsyncMemForest.ask`."""
        with keeping(ledger.part()) as part:
            result, read, known = await self.query(asked, label, part)
        timer = Timer()
        evidence = list(result.evidence) if read.leaf_turns else without_questions(result.evidence)
        with timer.timed("answer"):
            answer, name, warnings = await answered(
                self.steps,
                asked.question,
                plan=result.plan,
                reference=asked.reference,
                evidence=evidence,
                known=known,
                parts=read.parts,
            )
        return AskResult(
            question=asked.question,
            answer=answer.text,
            citations=tuple(evidence[at] for at in answer.cited),
            reason=answer.reason,
            result=replace(
                result,
                trace={**result.trace, "answerer": name},
                warnings=tuple(dict.fromkeys((*result.warnings, *warnings, *ledger.warnings))),
            ),
            usage=usage(ledger, {**result.usage.ms, **timer.ms}, result.usage.embeds),
            score=answer.score,
            nearest=None if answer.nearest is None else evidence[answer.nearest],
        )
