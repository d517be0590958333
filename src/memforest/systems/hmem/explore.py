"""Taking a question apart before it is searched: its sub-queries, what is answered to each, and one further question where something is missing.

With a model: one plan, then sub-queries in waves, all that wait for nothing more at once; for each one call that answers it
from its first evidence, and one more where a follow-up is asked. Answers join the text of the sub-queries that need them. Without:
the sub-queries of rules, and the follow-up of `memforest.systems.hmem.further`. What fails of a model costs its part, and is said.

Source: H-Mem (arXiv 2605.15701) §3.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from memforest.errors import ConfigError, InputError, ModelRefusedError
from memforest.explore import Explore
from memforest.interval import from_ms
from memforest.plans import SubQuery
from memforest.search.snapshot import Snapshot
from memforest.steps.choose import Steps
from memforest.steps.local.parts import alone, parts_of
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.base import Candidate, Prepared, Refined, Search
from memforest.systems.hmem.find import Explored, explore_of, find
from memforest.systems.hmem.further import Further, described
from memforest.systems.hmem.grow import OWNER
from memforest.systems.hmem.lines import lines_of
from memforest.systems.host import Host
from memforest.systems.modes import FALLS_BACK
from memforest.systems.searching import Part
from memforest.systems.unsaid import unsaid
from memforest.systems.zone import memory_zone
from memforest.text import cut

if TYPE_CHECKING:
    from memforest.ports import Settled
    from memforest.steps.llm.explore import Reasoned, Told

FAILURES = (*FALLS_BACK, ModelRefusedError)
WHY_CHARS = 300
SHOWN_CHARS = 300
"""Most characters of a text in a trace."""


async def prepare(host: Host, request: Search, settings: Explored) -> Prepared:
    """Return a question with its parts, each read as a question of its own, and answered where a model answers.

    Args:
        host: of the memory.
        request: the question.
        settings: of the index.

    Raises:
        ConfigError: if a model is to plan or to ask further, and there is none for it.
    """
    explore = explore_of(request, settings)
    planner = _who("planner", explore.planner, host.steps, "plan")
    follow_up = _who("follow_up", explore.follow_up, host.steps, "answer")
    asking = _Asking(host, request, explore, settings, planner, follow_up)
    return await asking.prepared()


def refine(found: Sequence[Candidate]) -> Refined | None:
    """Return the candidates without the memories of which every sentence stands in other ones; None if there is no such."""
    kept = unsaid(found)
    if len(kept) == len(found):
        return None
    return Refined(kept=kept, trace={"said_twice": len(found) - len(kept)})


def _who(name: str, asked: str, steps: Steps, step: str) -> str:
    """Return who does a part: the one who is asked for, else the model where there is one.

    Raises:
        ConfigError: if the model is asked for, and there is none.
    """
    able = steps.calls is not None and step in steps.by_chat
    if asked == "auto":
        return "model" if able else "rules"
    if asked == "model" and not able:
        raise ConfigError(
            f"Explore({name}='model') needs a chat model: give Config(chat=...) with {step!r} in chat_steps, or {name}='rules'"
        )
    return asked


@dataclass(slots=True)
class _Counts:
    """What became of follow-ups."""

    asked: int = 0
    refused: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Asking:
    """The preparation of one question."""

    host: Host
    request: Search
    explore: Explore
    settings: Explored
    planner: str
    follow_up: str
    warnings: list[str] = field(default_factory=list)
    parts: dict[str, list[Part]] = field(default_factory=dict)
    """Id of a sub-query -> its part, and the one that asks further."""
    counts: _Counts = field(default_factory=_Counts)

    async def prepared(self) -> Prepared:
        """Return the question with its parts."""
        subs = await self._planned()
        if self.request.asked_mode not in (None, "emb"):
            self.warnings.append(
                f"mode {self.request.asked_mode!r} did what 'emb' does: the index {OWNER!r} does not browse trees"
            )
        self.warnings += await self._fresh(subs)
        if self.follow_up == "model":
            await self._in_waves(subs)
        else:
            await self._by_rules(subs)
        parts = tuple(part for sub in subs for part in self.parts[sub.id])
        return Prepared(
            replace(self.request, parts=parts),
            trace={"mode": "emb", "explore": self._trace(parts)},
            warnings=tuple(self.warnings),
        )

    def _trace(self, parts: Sequence[Part]) -> dict[str, Any]:
        return {
            "planner": self.planner,
            "sub_queries": [_shown(part) for part in parts],
            "follow_ups": {"by": self.follow_up, "asked": self.counts.asked, "refused": self.counts.refused},
        }

    # -- the plan ---------------------------------------------------------------------------------

    async def _planned(self) -> list[SubQuery]:
        """Return the sub-queries, each behind those it depends on."""
        host = self.host
        plan, question = self.request.plan, host.question
        if not question.strip():
            return [SubQuery("1", "?", scope="mixed")]
        if self.planner == "off":
            return [replace(alone(plan, question), scope="mixed")]
        if self.planner == "model":
            try:
                with self.host.timed("plan"):
                    return await self._by_model()
            except FAILURES as exc:
                self.planner = "rules"
                self.warnings.append(f"{_why(exc)}: the question was taken apart by rules")
        return parts_of(plan, question, most=self.explore.sub_queries)

    async def _by_model(self) -> list[SubQuery]:
        from memforest.steps.llm.explore import plan_parts

        host = self.host
        people, zone = await host.read(lambda tx, snapshot: (tuple(snapshot.speakers), memory_zone(tx)))
        made = await plan_parts(
            host.steps,
            host.question,
            people,
            from_ms(self.request.reference_ms),
            zone=zone,
            most=self.explore.sub_queries,
        )
        self.warnings += made.notes
        return list(made.parts)

    async def _fresh(self, subs: Sequence[SubQuery]) -> list[str]:
        """Have the memories written that may be evidence, and return why some could not be."""
        scopes = {
            sub.scope or "mixed" if self.explore.scope == "auto" else self.explore.scope for sub in subs
        }
        if scopes == {"short"}:
            return []
        return await self.host.ensure_fresh(partial(tree_rows.dirty_children, owner=OWNER))

    # -- reading parts ----------------------------------------------------------------------------

    async def _read(self, subs: Sequence[SubQuery], known: Mapping[str, str]) -> list[Part]:
        """Return sub-queries read as questions, each with the answers that it needs in its text.

        One that cannot be read is the question itself.
        """
        texts = [_with_answers(sub, known) for sub in subs]
        host = self.host
        whole = " ".join(host.question.split())
        others = [text for text in texts if text not in (whole, "?")]
        try:
            read = iter(await self.host.read_questions(others) if others else [])
        except (*FAILURES, InputError) as exc:
            self.warnings.append(f"{_why(exc)}: its parts were searched for as the question itself")
            return [Part(sub, self.request) for sub in subs]
        found = [self.request if text in (whole, "?") else next(read) for text in texts]
        return [Part(sub, _timed(sub, one)) for sub, one in zip(subs, found, strict=True)]

    # -- without a model --------------------------------------------------------------------------

    async def _by_rules(self, subs: Sequence[SubQuery]) -> None:
        """Read all sub-queries, and ask further for what they describe."""
        for part in await self._read(subs, {}):
            self.parts[part.sub.id] = [part]
        if self.follow_up == "off" or self.request.plan is None:
            return
        first = [self.parts[sub.id][0] for sub in subs]
        further = await self.host.read(partial(_described, first, self.request.reference_ms))
        asked: list[tuple[Part, Further]] = []
        for part, one in zip(first, further, strict=True):
            if one is None:
                continue
            if why := one.refused or _refused(one, part.sub):
                self.counts.refused.append(cut(why, SHOWN_CHARS))
            else:
                asked.append((part, one))
        for (part, _), made in zip(
            asked, await self._read([_follow(part.sub, one.text) for part, one in asked], {}), strict=True
        ):
            self.counts.asked += 1
            self.parts[part.sub.id].append(replace(made, follows=part.sub.id))

    # -- with a model -----------------------------------------------------------------------------

    async def _in_waves(self, subs: Sequence[SubQuery]) -> None:
        """Read and answer sub-queries in the order in which they need each other, all that can be at once."""
        by_id = {sub.id: sub for sub in subs}
        sorter = TopologicalSorter({sub.id: [one for one in sub.depends_on if one in by_id] for sub in subs})
        sorter.prepare()
        answers: dict[str, str] = {}
        while sorter.is_active():
            wave = [by_id[id] for id in sorted(sorter.get_ready(), key=list(by_id).index)]
            read = await self._read(wave, answers)
            settled = [self._settled(sub, by_id, answers) for sub in wave]
            for parts in await asyncio.gather(*map(self._answered, read, settled)):
                self.parts[parts[0].sub.id] = parts
                answers[parts[0].sub.id] = parts[0].answer
            sorter.done(*(sub.id for sub in wave))

    @staticmethod
    def _settled(sub: SubQuery, by_id: Mapping[str, SubQuery], answers: Mapping[str, str]) -> list[Settled]:
        from memforest.ports import Settled

        return [Settled(by_id[id].text, answers[id]) for id in sub.depends_on if answers.get(id)]

    async def _answered(self, part: Part, settled: Sequence[Settled]) -> list[Part]:
        """Return a part with its answer, and with the one that asks for what was missing."""
        lines = await self._lines(part)
        made = await self._reason(part.sub, lines, settled)
        if made is None:
            return [part]
        first = replace(part, answer=made.answer)
        query = self._allowed(part.sub, lines, made)
        if not query:
            return [first]
        (further,) = await self._read([_follow(part.sub, query)], {})
        self.counts.asked += 1
        more = await self._lines(further)
        again = await self._reason(part.sub, list(dict.fromkeys([*more, *lines])), settled)
        answer = made.answer if again is None or not again.answer else again.answer
        return [replace(part, answer=answer), replace(further, follows=part.sub.id)]

    def _allowed(self, sub: SubQuery, lines: Sequence[Told], made: Reasoned) -> str:
        """Return the follow-up of a model, empty if it may not be asked."""
        from memforest.steps.llm.explore_checks import anchors_of, follow_up_refused

        if not made.query:
            return ""
        anchors = anchors_of([text for one in lines for text in (one.text, one.speaker)])
        why = follow_up_refused(made.query, sub, anchors, missing=made.missing)
        if why is not None:
            self.counts.refused.append(why)
            return ""
        return made.query

    async def _lines(self, part: Part) -> list[Told]:
        """Return the first evidence of a part."""
        request = replace(part.request, parts=(part,), ranking=self.request.ranking)
        with self.host.timed("search"):
            return await self.host.read(
                lambda tx, snapshot: lines_of(tx, snapshot, find(tx, snapshot, request, self.settings))
            )

    async def _reason(
        self, sub: SubQuery, lines: Sequence[Told], settled: Sequence[Settled]
    ) -> Reasoned | None:
        """Return what a model makes of a part; None if it fails, which is said."""
        from memforest.steps.llm.explore import reason

        zone = await self.host.look(memory_zone)
        try:
            with self.host.timed("reason"):
                return await reason(
                    self.host.steps, sub, lines, settled, from_ms(self.request.reference_ms), zone=zone
                )
        except FAILURES as exc:
            self.warnings.append(f"{_why(exc)}: sub-query {cut(sub.id, 60)!r} was not answered by itself")
            return None


def _described(parts: Sequence[Part], at_ms: int, tx: Tx, snapshot: Snapshot) -> list[Further | None]:
    from memforest.graph.graph import graph_of

    if not len(snapshot.facts.ids):
        return [None] * len(parts)
    graph = graph_of(tx, snapshot)
    return [described(graph, part.request, part.sub.text, at_ms) for part in parts]


def _refused(one: Further, sub: SubQuery) -> str | None:
    from memforest.steps.llm.explore_checks import anchors_of, follow_up_refused

    return follow_up_refused(one.text, sub, anchors_of(one.names))


def _follow(sub: SubQuery, text: str) -> SubQuery:
    return replace(sub, id=f"{sub.id}+", text=text, depends_on=(sub.id,))


def _with_answers(sub: SubQuery, known: Mapping[str, str]) -> str:
    """Return the text of a sub-query with the answers to those it depends on."""
    answers = [known[id] for id in sub.depends_on if known.get(id)]
    return " ".join(" ".join([sub.text, *answers]).split())


def _timed(sub: SubQuery, request: Search) -> Search:
    """Return a sub-query's question with the time that its planner worked out, where its own text has none."""
    plan = request.plan
    if sub.interval is None or (plan.start, plan.end, plan.as_of) != (None, None, None):
        return request
    return replace(request, plan=replace(plan, start=sub.interval[0], end=sub.interval[1]))


def _shown(part: Part) -> dict[str, Any]:
    sub = part.sub
    shown: dict[str, Any] = {
        "id": sub.id,
        "text": cut(sub.text, SHOWN_CHARS),
        "scope": sub.scope or "mixed",
        "depends_on": list(sub.depends_on),
    }
    if sub.interval is not None:
        shown["interval"] = [None if one is None else one.isoformat() for one in sub.interval]
    shown |= {"coverage": sub.coverage} if sub.coverage else {}
    shown |= {"follows": part.follows} if part.follows else {}
    return shown | ({"answer": cut(part.answer, SHOWN_CHARS)} if part.answer else {})


def _why(exc: Exception) -> str:
    return cut(str(exc), WHY_CHARS)
