"""The hmem index: events joined by likeness within windows of the calendar, consolidated from week to year (H-Mem).

A question is taken apart before it is searched. With a model there is one plan, then sub-queries in waves. A wave has
all sub-queries that wait for nothing more. Each takes one call that answers it from its first evidence, and one more
for a follow-up. Answers join
the text of the sub-queries that need them. Without: the sub-queries of rules, and one further question about an entity that a
question describes, and whose name the graph has. "What does Ana's sister study?" names nobody but Ana; where a relation of
hers is called so and leads to one entity alone, that is asked for by name: "What does Lucía study?". What fails of a model
costs its part, and is said.

Source: H-Mem (arXiv 2605.15701) §3.3, where a model asks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from graphlib import TopologicalSorter
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.config import Explore
from memforest.errors import InputError, ModelRefusedError
from memforest.graph.graph import Graph, graph_of
from memforest.graph.paths import seeds
from memforest.graph.relations import KnownRelation
from memforest.ports import Settled
from memforest.reading.question_parts import alone, parts_of
from memforest.reading.relations import LANGUAGES, load_words
from memforest.records import SubQuery, SummaryRequest
from memforest.search.cache import forest_of
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
from memforest.search.forest import Forest, as_keys
from memforest.search.snapshot import Snapshot
from memforest.store import artifacts, meta
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.sessions import damaged_turns, turns_with_ids
from memforest.text import cut, lexical_tokens
from memforest.times import from_ms
from memforest.trees.hmem_find import explore_of, find, names_in, node_marks, scope_of
from memforest.trees.hmem_grow import EVENT, KIND, LEVELS, OWNER, ROOT, WEEK, HMemSettings, grown
from memforest.trees.index import FALLS_BACK, Host, Index, doer_of, not_browsed, ready_rows
from memforest.trees.kernel import problems
from memforest.trees.refresh import IndexPlan, NodeWork

if TYPE_CHECKING:
    from memforest.reading.explore_llm import EvidenceLine


MOST_LINES = 10
"""Pieces of evidence that a model reads of one part: k of the paper's default."""


def lines_of(tx: Tx, snapshot: Snapshot, index: Index, found: IndexResult) -> list[EvidenceLine]:
    """Return the best pieces of a search result as lines for a model, best first, without damaged ones.

    A turn with hidden parts is shown by the fact that speaks for it.
    """
    from memforest.reading.explore_llm import EvidenceLine as Told

    each: dict[tuple[int, int], TurnHit] = {}  # of the hits of one fact the first
    for hit in islice(found.hits, 3 * MOST_LINES):
        each.setdefault((hit.fact, hit.turn if hit.fact < 0 else -1), hit)
    hits, nodes = list(each.values())[:MOST_LINES], list(found.nodes)[:MOST_LINES]
    turns = {int(snapshot.turns.ids[hit.turn]) for hit in hits}
    said = turns_with_ids(tx, turns - damaged_turns(tx, turns).keys())
    facts = facts_rows.facts_with_ids(
        tx, {int(snapshot.facts.ids[hit.fact]) for hit in hits if hit.fact >= 0}
    )
    texts = ready_rows(tx, snapshot, index, [node.node for node in nodes])
    ranked: list[tuple[float, Told]] = []
    for hit in hits:
        turn, muted = said.get(int(snapshot.turns.ids[hit.turn])), snapshot.turns.muted[hit.turn]
        if turn is not None and not (muted and hit.fact < 0):
            text = facts[int(snapshot.facts.ids[hit.fact])].text if muted else turn.text
            ranked.append((hit.score, Told(text, from_ms(turn.said_ms), None, turn.speaker)))
    for node in nodes:
        if (text_of := texts.get(node.node)) and (forest := found.forest) is not None:
            start, end = (from_ms(int(ms[node.node])) for ms in (forest.start_ms, forest.end_ms))
            ranked.append((node.score, Told(text_of, start, end)))
    return [told for _, told in sorted(ranked, key=lambda one: -round(one[0], 9))][:MOST_LINES]


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
    """Replace the description of an entity in a question by its name; None if the graph knows no such entity.

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
    found: dict[tuple[int, str], list[KnownRelation]] = {}
    for place in sorted(named, key=lambda one: int(graph.order[one])):
        for one in (graph.relations[number] for number in graph.relations_of[place]):
            if one.source == place and one.target not in named:
                found.setdefault((place, one.label), []).append(one)
    for (place, label), told in found.items():
        tokens = lexical_tokens(label)
        if not tokens or not asked.issuperset(tokens):
            continue
        of_name = {token for name in graph.names(place) for token in lexical_tokens(name)}
        span = _span(words, tokens, of_name, alone=people in ([place], []))
        if span is None:
            continue
        holding = [one for one in told if one.holds_at(at_ms)] or told
        names = tuple(graph.labels[target] for target in dict.fromkeys(one.target for one in holding))
        if len(names) > 1:
            return Further("", names, f"{graph.labels[place]!r} has {len(names)} of {label!r}")
        return Further(_named(words, span, names[0]), names)
    return None


def _span(
    words: Sequence[str], label: Sequence[str], name: Collection[str], *, alone: bool
) -> tuple[int, int] | None:
    """Find the words that describe an entity, as their first and last position; None if only its label is there.

    They do with a name in the possessive in front of the label ("Ana's sister"), with one behind it and a small word between
    ("the sister of Ana"), and where nobody else is named (`alone`) with a word for whose it is ("my sister", "her sister").
    """
    spelled = [lexical_tokens(word) for word in words]
    of_name = [bool(tokens) and set(tokens).issubset(name) for tokens in spelled] + [False]
    for first in range(len(words) - len(label) + 1):
        last = first + len(label) - 1
        if list(chain(*spelled[first : last + 1])) != list(label):
            continue
        before, behind = first, last + 1
        while before and of_name[before - 1]:
            before -= 1
        if before < first and _POSSESSIVE.search(words[first - 1]):
            return before, last
        for word in words[behind : behind + LINKS]:
            if of_name[behind] or not _LINK.fullmatch(word):
                break
            behind += 1
        if behind > last + 1 and of_name[behind]:
            while of_name[behind + 1]:
                behind += 1
            return first, behind
        owners = (load_words(code).plays(words[first - 1].lower(), "owners") for code in LANGUAGES)
        if first and alone and any(owners):
            return first - 1, last
    return None


def _named(words: Sequence[str], span: tuple[int, int], name: str) -> str:
    """Put a name in the place of some words; punctuation behind the last one stays."""
    first, last = span
    end = words[last].rstrip("?!.,;:…")
    return " ".join([*words[:first], name + words[last][len(end) :], *words[last + 1 :]])


FAILURES = (*FALLS_BACK, ModelRefusedError)
SHOWN_CHARS = 300
"""Most characters of a text in a trace or warning."""


@dataclass(slots=True)
class _Asking:
    """The preparation of one question."""

    host: Host
    request: Search
    explore: Explore
    index: HMemIndex
    planner: str
    follow_up: str
    warnings: list[str] = field(default_factory=list)
    parts: dict[str, list[Part]] = field(default_factory=dict)
    """Id of a sub-query -> its part, and the one that asks further."""
    refused: list[str] = field(default_factory=list)
    """Why follow-ups were not asked."""

    async def prepared(self) -> Prepared:
        """Return the question with its parts."""
        subs = await self._planned()
        self.warnings += not_browsed(self.request, OWNER)
        if self.explore.tree and any(scope_of(self.explore, sub) != "short" for sub in subs):
            self.warnings += await self.host.ensure_fresh(self.index)
        if self.follow_up == "model":
            await self._in_waves(subs)
        else:
            await self._by_rules(subs)
        parts = tuple(part for sub in subs for part in self.parts[sub.id])
        explored = {
            "planner": self.planner,
            "sub_queries": [_shown(part) for part in parts],
            "follow_ups": {
                "by": self.follow_up,
                "asked": sum(bool(part.follows) for part in parts),
                "refused": self.refused,
            },
        }
        return Prepared(
            replace(self.request, parts=parts),
            trace={"mode": "emb", "explore": explored},
            warnings=tuple(self.warnings),
        )

    async def _planned(self) -> list[SubQuery]:
        """Return the sub-queries, each behind those it depends on."""
        host, plan, most = self.host, self.request.plan, self.explore.sub_queries
        if not host.question.strip():
            return [SubQuery("1", "?", scope="mixed")]
        if self.planner == "off":
            return [replace(alone(plan, host.question), scope="mixed")]
        if self.planner == "model":
            from memforest.reading.explore_llm import plan_parts

            people, zone = await host.read(lambda tx, snapshot: (tuple(snapshot.speakers), memory_zone(tx)))
            now = from_ms(self.request.reference_ms)
            try:
                with host.timed("plan"):
                    parts, notes = await plan_parts(
                        host.steps, host.question, people, now, zone=zone, most=most
                    )
            except FAILURES as exc:
                self.planner = "rules"
                self.warnings.append(f"{_why(exc)}: the question was taken apart by rules")
            else:
                self.warnings += notes
                return parts
        return parts_of(plan, host.question, most=most)

    def _settled(self, sub: SubQuery) -> list[Settled]:
        """Return the sub-queries that one depends on and that were answered."""
        parts = [self.parts[id][0] for id in sub.depends_on if id in self.parts]
        return [Settled(part.sub.text, part.answer) for part in parts if part.answer]

    async def _read(self, subs: Sequence[SubQuery]) -> list[Part]:
        """Read sub-queries as questions, each with the answers that it depends on in its text.

        One that cannot be read is the question itself.
        """
        texts = [
            " ".join(" ".join([sub.text, *(one.answer for one in self._settled(sub))]).split())
            for sub in subs
        ]
        itself = (" ".join(self.host.question.split()), "?")
        others = [text for text in texts if text not in itself]
        try:
            read = iter(await self.host.read_questions(others) if others else [])
        except (*FAILURES, InputError) as exc:
            self.warnings.append(f"{_why(exc)}: its parts were searched for as the question itself")
            return [Part(sub, self.request) for sub in subs]
        found = [self.request if text in itself else next(read) for text in texts]
        return [Part(sub, _timed(sub, one)) for sub, one in zip(subs, found, strict=True)]

    async def _by_rules(self, subs: Sequence[SubQuery]) -> None:
        """Read all sub-queries, and ask further for what they describe."""
        first = await self._read(subs)
        self.parts = {part.sub.id: [part] for part in first}
        if self.follow_up == "off":
            return
        described = await self.host.read(partial(_described, first, self.request.reference_ms))
        for part, one in zip(first, described, strict=True):
            if one is None:
                continue
            if one.refused:
                self.refused.append(cut(one.refused, SHOWN_CHARS))
            elif self._allowed(part.sub, one.text, one.names):
                self.parts[part.sub.id].append(await self._further(part.sub, one.text))

    async def _in_waves(self, subs: Sequence[SubQuery]) -> None:
        """Read and answer sub-queries in the order in which they need each other, all that can be at once."""
        sorter = TopologicalSorter({sub.id: sub.depends_on for sub in subs})
        sorter.prepare()
        while sorter.is_active():
            ready = sorter.get_ready()
            read = await self._read([sub for sub in subs if sub.id in ready])
            for parts in await asyncio.gather(*map(self._answered, read)):
                self.parts[parts[0].sub.id] = parts
            sorter.done(*ready)

    async def _answered(self, part: Part) -> list[Part]:
        """Answer a part; return it, and the follow-up that asks for what was missing."""
        sub, lines = part.sub, await self._lines(part)
        answer, missing, query = await self._reason(sub, lines)
        seen = [text for one in lines for text in (one.text, one.speaker)]
        if not query or not self._allowed(sub, query, seen, missing):
            return [replace(part, answer=answer)]
        further = await self._further(sub, query)
        more = await self._lines(further)
        again, *_ = await self._reason(sub, list(dict.fromkeys([*more, *lines])))
        return [replace(part, answer=again or answer), further]

    def _allowed(self, sub: SubQuery, query: str, seen: Iterable[str], missing: str | None = None) -> bool:
        """Return whether a follow-up may be asked; see `follow_up_refused`."""
        from memforest.reading.explore_llm import anchors_of, follow_up_refused

        why = follow_up_refused(query, sub, anchors_of(seen), missing=missing)
        self.refused += [] if why is None else [why]
        return why is None

    async def _further(self, sub: SubQuery, text: str) -> Part:
        """Return the follow-up of a sub-query."""
        (made,) = await self._read([replace(sub, id=f"{sub.id}+", text=text, depends_on=(sub.id,))])
        return replace(made, follows=sub.id)

    async def _lines(self, part: Part) -> list[EvidenceLine]:
        """Return the first evidence of a part."""
        request = replace(part.request, parts=(part,), ranking=self.request.ranking)
        index = self.index
        with self.host.timed("search"):
            return await self.host.read(
                lambda tx, snapshot: lines_of(tx, snapshot, index, find(tx, snapshot, request, index))
            )

    async def _reason(self, sub: SubQuery, lines: Sequence[EvidenceLine]) -> tuple[str, str, str]:
        """Let a model answer a part, as `reason` does; if it fails, with a warning, nothing is answered."""
        from memforest.reading.explore_llm import reason

        zone, now = await self.host.look(memory_zone), from_ms(self.request.reference_ms)
        try:
            with self.host.timed("reason"):
                return await reason(self.host.steps, sub, lines, self._settled(sub), now, zone=zone)
        except FAILURES as exc:
            self.warnings.append(f"{_why(exc)}: sub-query {cut(sub.id, 60)!r} was not answered by itself")
            return "", "", ""


def _described(parts: Sequence[Part], at_ms: int, tx: Tx, snapshot: Snapshot) -> list[Further | None]:
    if not len(snapshot.facts.ids):
        return [None] * len(parts)
    graph = graph_of(snapshot)
    return [described(graph, part.request, part.sub.text, at_ms) for part in parts]


def _timed(sub: SubQuery, request: Search) -> Search:
    """Add the time that the planner worked out to a sub-query whose text names none."""
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
    shown |= {"follows": part.follows} if part.follows else {}
    return shown | ({"answer": cut(part.answer, SHOWN_CHARS)} if part.answer else {})


def _why(exc: Exception) -> str:
    return cut(str(exc), SHOWN_CHARS)


class HMemIndex(Index):
    """One tree for each year of events and their consolidated memories, searched with the graph of entities."""

    name = OWNER
    roots_differ = False
    Settings = HMemSettings

    @property
    def grows_by_artifacts(self) -> bool:
        """Whether memories are compared by what they say."""
        return bool(self.settings.compare == "text")

    def grow(self, tx: Tx, snapshot: Snapshot, old: Forest | None) -> Forest:
        """Return the trees of a snapshot."""

        def said(forest: Forest, rows: NDArray[np.int64]) -> NDArray[np.float32]:
            keys = as_keys(self.digests(tx, snapshot, forest)[rows])
            found = artifacts.vectors(tx, set(keys))
            blank = np.zeros(snapshot.dimension, dtype=np.float32)
            return np.array([found.get(key, blank) for key in keys], dtype=np.float32)

        return grown(tx, snapshot, self.settings, old, said if self.grows_by_artifacts else None)

    def asked(self) -> tuple[object, ...]:
        """Return how long memories are."""
        return (tuple(self.settings.words),)

    def requests(self, tx: Tx, plan: IndexPlan, rows: Sequence[int], *, remote: bool) -> list[NodeWork]:
        """Return how to consolidate the memories of nodes; a node with a single child keeps its text."""
        made, forest = [], plan.forest
        for row in rows:
            level = int(forest.level[row])
            request = SummaryRequest(
                kind=KIND,
                label="",
                start=from_ms(int(forest.start_ms[row])),
                end=from_ms(int(forest.end_ms[row])),
                inputs=plan.inputs(row),
                max_words=int(self.settings.words[level - WEEK]),
                level=level,
                window=forest.window_of(row) or "",
                prompt="memory",
            )
            made.append(NodeWork(row, request, kept=len(forest.children[row]) == 1, words=True))
        return made

    async def ready(self, host: Host) -> Sequence[str]:
        """Have memories written level by level, where the next level is grown by what they say."""
        late: list[str] = []
        for _ in range(ROOT - WEEK if self.grows_by_artifacts else 0):
            late += await host.ensure_fresh(self)
        return late

    def node_names(self, snapshot: Snapshot, forest: Forest, rows: Collection[int]) -> Mapping[int, str]:
        """Name memories by level, window and how often they were consolidated, as ``"week 2024-05/2024-W18, 3 times"``."""
        _, times = node_marks(forest, snapshot)

        def name(row: int) -> str:
            n = int(times[row])
            often = f", {n} times" if n > 1 else ", once" if n else ""
            return f"{LEVELS[forest.level[row]]} {forest.window_of(row) or ''}{often}"

        return {row: name(row) for row in rows if WEEK <= forest.level[row] < ROOT}

    def check(self, forest: Forest) -> list[str]:
        """Return what is wrong with the trees."""
        return problems(forest, contained=True)

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Return a question with its parts, each read as a question of its own, and answered where a model answers.

        Raises:
            ConfigError: if a model is to plan or to ask further, and there is none for it.
        """
        explore = explore_of(request, self.settings)
        planner = doer_of("Explore.planner", explore.planner, host.steps, "plan")
        follow_up = doer_of("Explore.follow_up", explore.follow_up, host.steps, "answer")
        late = list(await self.ready(host))
        return await _Asking(host, request, explore, self, planner, follow_up, late).prepared()

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return what the parts of a question bring; see `memforest.trees.hmem_find`."""
        return find(tx, snapshot, request, self)

    async def refine(
        self, host: Host, request: Search, found: Sequence[RefineCandidate]
    ) -> Refinement | None:
        """Drop the memories of which every sentence stands in other candidates."""
        kept = unsaid(found)
        if len(kept) == len(found):
            return None
        return Refinement(kept=kept, trace={"said_twice": len(found) - len(kept)})

    def stats(self, tx: Tx, snapshot: Snapshot) -> dict[str, Any]:
        """Return the columns of the paper's Table 7: turns, nodes of each level, entities and relations.

        The paper has no counts of its own kind of relation; here they are distinct (source, label, target).
        """
        forest = forest_of(tx, snapshot, self)
        sizes = np.bincount(forest.level, minlength=ROOT + 1)
        levels = {f"L{level + 1}": int(sizes[level]) for level in range(EVENT, ROOT)}
        return {
            "fragments": len(snapshot.turns.ids),
            **levels,
            "entities": len(snapshot.entities),
            "edges": facts_rows.count_relations(tx),
        }

    def notes(self, tx: Tx) -> list[str]:
        """Return that there is no tree where there is no embedder."""
        if meta.get(tx, "embedder") is not None:
            return []
        return [
            "'hmem' has no trees: events are joined by vectors, and this memory has no embedder; it is searched by words and "
            "entities"
        ]
