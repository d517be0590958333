"""The index hmem: events joined by likeness within windows of the calendar, consolidated from week to year (H-Mem).

The first evidence of a part of a question as lines for a model that is to reason about it.

A further question without a model: one about an entity that a question describes, and whose name the graph has.

"What does Ana's sister study?" names nobody but Ana. Where a relation of hers is called so and leads to one entity alone, that
is asked for by name: "What does Lucía study?". Source: H-Mem (arXiv 2605.15701) §3.3, where a model asks; this is the plain case.


Taking a question apart before it is searched: its sub-queries, what is answered to each, and one further question where something is missing.

With a model: one plan, then sub-queries in waves, all that wait for nothing more at once; for each one call that answers it
from its first evidence, and one more where a follow-up is asked. Answers join the text of the sub-queries that need them. Without:
the sub-queries of rules, and the follow-up of `memforest.trees.hmem`. What fails of a model costs its part, and is said.

Source: H-Mem (arXiv 2605.15701) §3.3.

"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from graphlib import TopologicalSorter
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from memforest.config import Explore
from memforest.errors import ConfigError, InputError, ModelRefusedError
from memforest.graph.graph import Graph
from memforest.graph.paths import seeds
from memforest.nodes import Node
from memforest.reading.question_parts import alone, parts_of
from memforest.reading.relations import LANGUAGES, load_words
from memforest.reading.steps import Steps
from memforest.records import SubQuery
from memforest.search.filters import (
    IndexResult,
    Part,
    Prepared,
    RefineCandidate,
    Refinement,
    Search,
    TurnHit,
    memory_zone,
    unsaid,
)
from memforest.search.snapshot import Snapshot
from memforest.store import derived, evidence, meta, trees
from memforest.store.connections import Tx
from memforest.store.sessions import damaged_turns
from memforest.text import cut, lexical_tokens
from memforest.times import from_ms
from memforest.trees import hmem_rows
from memforest.trees.hmem_find import Explored, explore_of, find
from memforest.trees.hmem_grow import KIND, OWNER, HMemPlacing, advance, empty, problems, requests_of
from memforest.trees.hmem_rows import EVENT, KINDS, LEVELS, ROOT, HMemSettings, made_by, now
from memforest.trees.hmem_score import names_in
from memforest.trees.index import FALLS_BACK, Host, Index, IndexProblem
from memforest.trees.node import Contract
from memforest.trees.refresh import NodeWork

if TYPE_CHECKING:
    from memforest.ports import Settled
    from memforest.reading.explore_llm import EvidenceLine, Reasoned


MOST_LINES = 10
"""Pieces of evidence that a model reads of one part: k of the paper's default."""


def lines_of(tx: Tx, snapshot: Snapshot, found: IndexResult, most: int = MOST_LINES) -> list[EvidenceLine]:
    """Return the first pieces of what was found as lines, best first, without damaged ones.

    A turn that says what is hidden stands there by the statement that speaks for it.
    """
    from memforest.reading.explore_llm import EvidenceLine as Told

    hits = list(islice(_each_fact_once(found), most))
    nodes = list(found.nodes)[:most]
    turns = {int(snapshot.turns.ids[hit.turn]) for hit in hits}
    said = evidence.turn_texts(tx, turns - damaged_turns(tx, turns).keys())
    facts = evidence.fact_texts(tx, {int(snapshot.facts.ids[hit.fact]) for hit in hits if hit.fact >= 0})
    texts = derived.summaries(tx, [node.node for node in nodes])
    spans = trees.nodes_with_ids(tx, list(texts))
    ranked: list[tuple[float, Told]] = []
    for hit in hits:
        turn = said.get(int(snapshot.turns.ids[hit.turn]))
        if turn is None:
            continue
        text = turn.text
        if snapshot.turns.muted[hit.turn]:
            if hit.fact < 0:
                continue
            text = facts[int(snapshot.facts.ids[hit.fact])].text
        ranked.append((hit.score, Told(text, from_ms(turn.said_ms), None, turn.speaker)))
    for node in nodes:
        if text_of := texts.get(node.node):
            span = spans[node.node]
            ranked.append((node.score, Told(text_of, from_ms(span.start_ms), from_ms(span.end_ms))))
    return [told for _, told in sorted(ranked, key=lambda one: -round(one[0], 9))][:most]


def _each_fact_once(found: IndexResult) -> list[TurnHit]:
    seen: set[int] = set()
    kept = []
    for hit in islice(found.hits, 3 * MOST_LINES):
        if hit.fact < 0 or hit.fact not in seen:
            seen.add(hit.fact)
            kept.append(hit)
    return kept


LINKS = 2
"""Words between what an entity is and whose: "the sister *of my* Ana"."""
_LINK = re.compile(r"[^\W\d_]{1,3}")
_POSSESSIVE = re.compile(r"(?:['’]s|s['’])$", re.IGNORECASE)


class Further(NamedTuple):
    """A further question, or why there is none although an entity is described."""

    text: str
    """Empty where it is refused."""
    names: tuple[str, ...]
    """What the entity that is meant may be called."""
    refused: str = ""


def described(graph: Graph, request: Search, text: str, at_ms: int) -> Further | None:
    """Return the question with the name in the place of a description; None if it describes nobody whom the graph knows.

    Args:
        graph: of the memory.
        request: the question as it is read.
        text: of the question.
        at_ms: the present of the question; relations that have ended by then count where no other does.
    """
    words = text.split()
    asked = {token for word in words for token in lexical_tokens(word)}
    named = {place for place, score in seeds(graph, names_in(request)).items() if score == 1}
    people = [place for place in named if graph.kinds[place] in ("participant", "person")]
    found: dict[tuple[int, str], list[int]] = {}
    labels: dict[str, bool] = {}
    for place in sorted(named, key=lambda one: int(graph.order[one])):
        for number in graph.relations_of[place]:
            one = graph.relations[number]
            if one.source != place or one.target in named:
                continue
            if one.label not in labels:
                told = lexical_tokens(one.label)
                labels[one.label] = bool(told) and asked.issuperset(told)
            if labels[one.label]:
                found.setdefault((place, one.label), []).append(number)
    for (place, label), numbers in found.items():
        alone = people in ([place], [])
        span = _span(words, lexical_tokens(label), _tokens(graph, place), alone=alone)
        if span is None:
            continue
        holding = [at for at in numbers if graph.relations[at].holds_at(at_ms)] or numbers
        targets = list(dict.fromkeys(graph.relations[at].target for at in holding))
        names = tuple(graph.labels[target] for target in targets)
        if len(targets) > 1:
            return Further("", names, f"{graph.labels[place]!r} has {len(targets)} of {label!r}")
        return Further(_named(words, span, names[0]), names)
    return None


def _tokens(graph: Graph, place: int) -> frozenset[str]:
    return frozenset(token for name in graph.names(place) for token in lexical_tokens(name))


def _span(
    words: Sequence[str], label: Sequence[str], name: frozenset[str], *, alone: bool
) -> tuple[int, int] | None:
    """Return the first and last of the words that describe an entity, None if they only have its label in them.

    They do with a name in the possessive in front of the label ("Ana's sister"), with one behind it and a small word between
    ("the sister of Ana"), and where nobody else is named (`alone`) with a word for whose it is ("my sister", "her sister").
    """
    spelled = [frozenset(lexical_tokens(word)) for word in words]
    of_name = [bool(tokens) and tokens <= name for tokens in spelled]
    for first in range(len(words)):
        last = first + len(label) - 1
        if last >= len(words) or [
            token for word in words[first : last + 1] for token in lexical_tokens(word)
        ] != list(label):
            continue
        before = first
        while before and of_name[before - 1]:
            before -= 1
        if before < first and _POSSESSIVE.search(words[first - 1]):
            return before, last
        behind = last + 1
        while (
            behind < len(words)
            and behind <= last + LINKS
            and not of_name[behind]
            and _LINK.fullmatch(words[behind])
        ):
            behind += 1
        if behind > last + 1 and behind < len(words) and of_name[behind]:
            while behind + 1 < len(words) and of_name[behind + 1]:
                behind += 1
            return first, behind
        if first and alone and _owns(words[first - 1]):
            return first - 1, last
    return None


def _owns(word: str) -> bool:
    """Return whether a word says whose something is, in one of the languages of `memforest/data/relations`."""
    return any(load_words(code).plays(word.lower(), "owners") for code in LANGUAGES)


def _named(words: Sequence[str], span: tuple[int, int], name: str) -> str:
    """Return a text with a name in the place of some words; what ends the last one stays."""
    first, last = span
    end = words[last].rstrip("?!.,;:…")
    return " ".join([*words[:first], name + words[last][len(end) :], *words[last + 1 :]])


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


def refine(found: Sequence[RefineCandidate]) -> Refinement | None:
    """Return the candidates without the memories of which every sentence stands in other ones; None if there is no such."""
    kept = unsaid(found)
    if len(kept) == len(found):
        return None
    return Refinement(kept=kept, trace={"said_twice": len(found) - len(kept)})


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
        from memforest.reading.explore_llm import plan_parts

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
        return await self.host.ensure_fresh(partial(trees.dirty_children, owner=OWNER))

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

    def _allowed(self, sub: SubQuery, lines: Sequence[EvidenceLine], made: Reasoned) -> str:
        """Return the follow-up of a model, empty if it may not be asked."""
        from memforest.reading.explore_llm import anchors_of, follow_up_refused

        if not made.query:
            return ""
        anchors = anchors_of([text for one in lines for text in (one.text, one.speaker)])
        why = follow_up_refused(made.query, sub, anchors, missing=made.missing)
        if why is not None:
            self.counts.refused.append(why)
            return ""
        return made.query

    async def _lines(self, part: Part) -> list[EvidenceLine]:
        """Return the first evidence of a part."""
        request = replace(part.request, parts=(part,), ranking=self.request.ranking)
        with self.host.timed("search"):
            return await self.host.read(
                lambda tx, snapshot: lines_of(tx, snapshot, find(tx, snapshot, request, self.settings))
            )

    async def _reason(
        self, sub: SubQuery, lines: Sequence[EvidenceLine], settled: Sequence[Settled]
    ) -> Reasoned | None:
        """Return what a model makes of a part; None if it fails, which is said."""
        from memforest.reading.explore_llm import reason

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
    from memforest.reading.explore_llm import anchors_of, follow_up_refused

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


class HMemIndex(Index):
    """A tree a year of events and what has become of them, with the graph of who and what they name."""

    name = OWNER
    deferred = True
    make_tables = staticmethod(hmem_rows.make_tables)
    Settings = HMemSettings
    numbered = frozenset({KIND})
    contracts = MappingProxyType({KIND: Contract("contained")})
    carried: Mapping[str, str] | None = MappingProxyType(
        {"ix_hmem_node.node": "node", "ix_hmem_node.founder": "fact", "ix_hmem_node.parent": "node"}
    )

    def __init__(self, settings: HMemSettings | None = None) -> None:
        super().__init__(settings)
        if self.settings.events == "turns":
            self.carried = None  # which kind of rows a column refers to is one for all memories
        self.follows = frozenset({KINDS[self.settings.events]})

    def placing(self, tx: Tx) -> HMemPlacing:
        """Begin to take events out inside a write transaction."""
        return HMemPlacing(tx, self.settings)

    async def advance(self, host: Host, until: int) -> None:
        """Place what the feed has noted; see `memforest.trees.hmem_grow`."""
        await advance(host, self.settings, until)

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Return how the memories of nodes are consolidated."""
        return requests_of(nodes, inputs, self.settings)

    def node_names(self, tx: Tx, nodes: Collection[int]) -> Mapping[int, str]:
        """Return the level of each memory with its window and how often it was consolidated, such as ``"week 2024-05/2024-W18, 3 times"``."""
        return {
            node: f"{LEVELS[level]} {window or ''}" + (f", {n} times" if n > 1 else ", once" if n else "")
            for node, level, n, window in hmem_rows.names(tx, nodes)
            if level < ROOT
        }

    def check(self, tx: Tx) -> list[IndexProblem]:
        """Return what is wrong with the trees, their windows and states."""
        found = super().check(tx)
        return found or problems(tx, self.settings)

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Take a question apart; see `memforest.trees.hmem`."""
        return await prepare(host, request, self.settings)

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return what the parts of a question bring; see `memforest.trees.hmem_find`."""
        return find(tx, snapshot, request, self.settings)

    async def refine(
        self, host: Host, request: Search, found: Sequence[RefineCandidate]
    ) -> Refinement | None:
        """Drop memories that say nothing else than what stands beside them."""
        return refine(found)

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return the columns of the paper's Table 7: turns, nodes of each level, entities and relations; see `rows.around`."""
        sizes, others = hmem_rows.level_sizes(tx), hmem_rows.around(tx)
        levels = {f"L{level + 1}": sizes.get(level, 0) for level in range(EVENT, ROOT)}
        return {"fragments": others.pop("fragments"), **levels, **others}

    def outdated(self, tx: Tx) -> str | None:
        """Return that events were joined with other likenesses than are set or measured now, if they were."""
        made, today = made_by(tx), now(tx, self.settings)
        if made is None or today is None or list(made.alphas) == list(today.alphas):
            return None
        before, after = (" ".join(f"{one:g}" for one in each.alphas) for each in (made, today))
        return f"its events were joined from the likenesses {before} on, which are {after} now"

    def notes(self, tx: Tx) -> list[str]:
        """Return that there is no tree where there is no embedder."""
        if meta.get(tx, "embedder") is not None:
            return []
        return [
            "'hmem' has no trees: events are joined by vectors, and this memory has no embedder; it is searched by words and "
            "entities"
        ]

    def clear(self, tx: Tx) -> None:
        """Delete the trees, the rows of the table, and what they were made by."""
        empty(tx)
