"""What is measured: memforest in every form, baselines that know no trees, and the port by which other packages come in.

A system is named on the command line: ``memforest:emb`` is an index with a mode, ``memforest_paper:llm+planner`` a preset with
one, ``bm25`` a baseline, ``package.module:make`` somebody else's. Behind ``@`` stand settings that differ: ``memforest@top_k=5``,
``memforest_paper@families=session+entity``, ``timem@recall.complexity=0``, ``segtree@propagate=bottom-up``. They are fields
of `Config` or `Ranking`, or settings of the index. ``swap=0.3`` makes the memory of talk in which 30% of pairs of turns were
exchanged (SegTreeMem's Table 3), for any system.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memforest import _sync
from memforest.config import MODES, Config, Mode, Ranking, load_default_config
from memforest.errors import ConfigError, MemForestError
from memforest.evaluation.cases import Case, Question, turn_id, turn_key
from memforest.evaluation.measures import key_span, normal_tokens
from memforest.memory.blocking import MemForest
from memforest.memory.open import embedder_of
from memforest.ports import Embedder, ReadsStates
from memforest.read.results import IngestResult, QueryResult, Usage, context_lines
from memforest.reading.timestamps import zone_named
from memforest.search.scores import term_scores
from memforest.search.vectors import index_tokens, question_tokens, turn_text
from memforest.settings import INDEX_SETTINGS, PRESETS, hints_of
from memforest.trees.attached import INDEXES, make_index

__all__ = ["BASELINES", "Found", "Maker", "Piece", "ReadOnce", "Rows", "System", "Written", "open_system", "settings_of",
    "spent_ms", "swapped", "system_names",]  # fmt: skip

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of evidence: the line that a model reads, and the keys of the turns that it tells of, the first one first."""

    text: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What a system found for a question, best first, and what models it asked for that."""

    pieces: tuple[Piece, ...]
    calls: int = 0
    tokens: int = 0
    answer: str | None = None
    """What the system answers by itself, where it was asked to (`ask`)."""


@dataclass(frozen=True, slots=True)
class Written:
    """What making a memory took: seconds, models' calls and tokens, and what there is then; counts that a system lacks are 0."""

    seconds: float = 0.0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    facts: int = 0
    trees: int = 0
    nodes: int = 0
    bytes: int = 0
    retained: tuple[int, int] = (0, 0)
    """Ent-GR: questions whose key span a fact of their turns still has, and questions that have a key span."""


class System(Protocol):
    """The port: whatever can be written to and asked. A class with these two methods is a system (``package.module:Class``)."""

    def write(self, case: Case) -> Written | None:
        """Make a memory of a case, unless there is one; None says nothing of what that took."""
        ...

    def find(self, case: Case, question: Question, most: int) -> Found | Sequence[Piece]:
        """Return the evidence for a question, best first, at most so many pieces."""
        ...


Maker = Callable[[Path], System]
"""Makes a system that keeps its files in a folder."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A system's name, read: what it is, its mode, and the settings that differ."""

    name: str
    kind: str
    mode: Mode | None
    settings: Mapping[str, Any]
    swap: float = 0.0


def settings_of(name: str) -> Spec:
    """Return what a system's name says.

    Raises:
        ConfigError: if there is no such system or mode, or a setting is malformed.
    """
    head, _, tail = name.partition("@")
    settings: dict[str, Any] = {}
    for pair in filter(None, tail.split(",")):
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ConfigError(f"system {name!r}: {pair!r} is not of the form SETTING=VALUE")
        settings[key] = _value(value)
    kind, colon, mode = head.partition(":")
    swap = settings.pop("swap", 0.0)
    if not isinstance(swap, (int, float)) or not 0 <= swap <= 1:
        raise ConfigError(f"system {name!r}: swap is a share of pairs, 0 to 1, not {swap!r}")
    if kind in BASELINES or (colon and kind not in (*INDEXES, *PRESETS)):
        if kind in BASELINES and (colon or settings):
            raise ConfigError(f"system {name!r}: the baseline {kind!r} has no modes and no settings but swap")
        return Spec(name, head, None, settings, float(swap))
    if kind not in (*INDEXES, *PRESETS):
        raise ConfigError(
            f"unknown system {name[:80]!r}; known: {', '.join(system_names())}, or 'package.module:Class'"
        )
    known = next((one for one in MODES if one == mode), None)
    if colon and known is None:
        raise ConfigError(f"system {name!r}: unknown mode {mode!r}; known: {', '.join(MODES)}")
    return Spec(name, kind, known, settings, float(swap))


def _value(text: str) -> Any:
    if "+" in text:
        return [_value(part) for part in text.split("+") if part]
    try:
        return json.loads(text)
    except ValueError:
        return text


def system_names() -> list[str]:
    """Return the names of all systems that come along."""
    return [
        "memforest",
        *(one for one in INDEXES if one != "memforest"),
        *(name for name in PRESETS if name.endswith("_paper")),
        *BASELINES,
    ]


def open_system(name: str, folder: Path, config: Config) -> System:
    """Return a system that keeps its memories below a folder; nothing is made yet.

    Args:
        name: see the module.
        folder: exists.
        config: the models of memforest, and the embedder of the baselines.

    Raises:
        ConfigError: if there is no such system, or one of its settings is wrong.
    """
    spec = settings_of(name)
    made: System
    if spec.kind in BASELINES:
        made = Baseline(spec.kind, _embedder(config), folder)
    elif spec.kind in INDEXES or spec.kind in PRESETS:
        made = ForestSystem(spec, folder, config)
    else:
        try:
            maker = resolve_name(spec.kind)
        except (ImportError, AttributeError, ValueError) as exc:
            raise ConfigError(f"the system {spec.kind!r} cannot be imported: {exc}") from exc
        made = maker(folder, **spec.settings)
    return Swapped(made, spec.swap) if spec.swap else made


def _embedder(config: Config) -> Embedder:
    """Return the embedder that the baselines share with memforest.

    Raises:
        ConfigError: if the configuration has none.
    """
    found = embedder_of(config)
    if found is None:
        raise ConfigError(
            "the baselines need an embedder, but none is configured; install one, or set Config(embedder=...)"
        )
    return found


class ForestSystem:
    """A memforest index, with the settings of a name over a preset over the configuration."""

    def __init__(self, spec: Spec, folder: Path, config: Config) -> None:
        self.index, base = spec.kind, config
        if spec.kind in PRESETS:
            paper = load_default_config(spec.kind, environ={})
            # The paper's form, without a reranker, with the models that are configured: those of a preset need its endpoints.
            kept = {one.name: getattr(config, one.name) for one in fields(Config) if one.name in _MODELS}
            base, self.index = replace(paper, **kept, reranker=None), paper.indexes[0]
        self.mode = spec.mode
        self.config = _with(base, self.index, spec)
        self.folder = folder / f"memforest-{self._made_by()}"
        self.folder.mkdir(parents=True, exist_ok=True)
        every = dict.fromkeys((self.index, *_SHARED)) if self.config.chat is None else [self.index]
        indexes = [one for one in every if one not in _ALWAYS] or ["memforest"]
        kept = {"indexes": indexes, "max_cache_mb": _CACHE_MB}
        self.forest = MemForest(self.folder, replace(self.config, **kept))

    def _made_by(self) -> str:
        """Return a digest of what changes what is stored. Without a chat model all indexes read one memory: trees follow from it."""
        own, usual = (make_index(self.index, given).settings
            for given in (self.config.index_settings.get(self.index), None))  # fmt: skip
        kept = {name: getattr(own, name) for name in own.KEPT if getattr(own, name) != getattr(usual, name)}
        told = [repr(getattr(self.config, name)) for name in _WRITTEN]
        about = [told, kept, self.index if kept or self.config.chat is not None else "", self.config.chat]
        return sha256(json.dumps(about, default=repr).encode()).hexdigest()[:10]

    def write(self, case: Case) -> Written:
        """Ingest the case, unless its memory is there; what it took is kept beside it."""
        told = self.folder / f"{sha256(case.id.encode()).hexdigest()[:16]}.json"
        if told.exists():
            return Written(**json.loads(told.read_text(encoding="utf-8")))
        started, spent = time.perf_counter(), Usage()
        requests = [
            {"user_id": case.id, "session_id": one.session_id, "turns": one.turns, "timestamp": one.timestamp}
            for one in case.sessions
        ]
        for result in self.forest.ingest_parallel(
            requests, refresh=True if self.config.chat is not None else None
        ):
            if not isinstance(result, IngestResult):
                raise result
            spent = spent.plus(result.usage)
        took = time.perf_counter() - started
        stats = self.forest.user(case.id).stats()
        counted: dict[str, Any] = {
            "facts": stats.facts, "nodes": stats.nodes, "bytes": stats.bytes,
            "trees": sum(sum(kinds.values()) for kinds in stats.trees.values()), "retained": self._retained(case),
        }  # fmt: skip
        made = {"seconds": took, "calls": spent.model_calls, "prompt_tokens": spent.prompt_tokens,
                "completion_tokens": spent.completion_tokens, **counted}  # fmt: skip
        told.write_text(json.dumps(made), encoding="utf-8")
        return Written(**made)

    def _retained(self, case: Case) -> tuple[int, int]:
        """Return Ent-GR over the case's questions; see `key_span`."""
        spans = [(one.turns, span) for one in case.questions if (span := key_span(one, case))]
        facts: list[tuple[frozenset[str], frozenset[str]]] = []
        cursor = None
        while spans:
            page = self.forest.user(case.id).list(limit=1000, cursor=cursor)
            facts += [(frozenset(turn_key(s.session_id, t) for s in one.sources for t in s.turn_ids),
                frozenset(word for text in (one.statement, one.text, *one.wordings) for word in normal_tokens(text)))
                for one in page]  # fmt: skip
            if (cursor := page.next_cursor) is None:
                break
        return sum(any(turns & of and span <= said for of, said in facts) for turns, span in spans), len(
            spans
        )

    def _options(self, case: Case, question: Question) -> dict[str, Any]:
        return {"reference_date": question.asked or case.asked, "said_by": question.until,
            "index": self.index, "mode": self.mode, "ranking": self.config.ranking,}  # fmt: skip

    def warm(self, case: Case) -> None:
        """Open the memory and read it, so that the first question takes no longer than others; a model is not asked for that."""
        if self.config.chat is None:
            self.forest.query(case.id, "Is anybody there?", index=self.index, top_k=1)

    def find(self, case: Case, question: Question, most: int) -> Found:
        """Return the ranked evidence as the lines of `QueryResult.context`, each with the turns behind it."""
        result = self.forest.query(case.id, question.text, top_k=most, **self._options(case, question))
        return self._found(result, None)

    def ask(self, case: Case, question: Question) -> Found:
        """Return the answer of the memory itself, with what it cites; an empty one where it abstains."""
        result = self.forest.ask(case.id, question.text, **self._options(case, question))
        return self._found(result.result, result.answer or "")

    def _found(self, result: QueryResult, answer: str | None) -> Found:
        lines = context_lines(result.evidence, zone_named(result.timezone))
        pieces = (
            Piece(line or one.text, tuple(turn_key(s.session_id, t) for s in one.sources for t in s.turn_ids))
            for line, one in zip(lines, result.evidence, strict=True)
        )
        used = result.usage
        return Found(tuple(pieces), used.model_calls, used.prompt_tokens + used.completion_tokens, answer)

    def close(self) -> None:
        """Close the memories."""
        self.forest.close()


_ALWAYS = ("flat", "facts")
"""Indexes that every memory answers by."""
_CACHE_MB = 128
"""Many systems are open at once, each with one case under way."""
_SHARED = ("memforest", "segtree", "timem", "hmem")
_MODELS = ("embedder", "chat", "chat_steps", "clock", "trace", "ingest_budget", "query_budget")
_WRITTEN = ("chunk_turns", "embedder", "extractor", "timezone", "max_turn_chars")
"""Fields of `Config` that change what is stored without a model."""


def _with(config: Config, index: str, spec: Spec) -> Config:
    """Return a configuration with the settings of a system's name.

    Raises:
        ConfigError: if there is no such setting.
    """
    own: dict[str, Any] = {}
    weights: dict[str, Any] = {}
    general: dict[str, Any] = {}
    of_index = hints_of(INDEX_SETTINGS[index]) if index in INDEX_SETTINGS else {}
    for key, value in spec.settings.items():
        first, _, rest = key.partition(".")
        if first in of_index and rest:
            own.setdefault(first, {})[rest] = value
        elif first in of_index:
            own[first] = value
        elif first in hints_of(Ranking):
            weights[first] = value
        elif first in hints_of(Config):
            general[first] = value
        else:
            raise ConfigError(
                f"system {spec.name!r}: there is no setting {key!r} of {index}, Ranking or Config; of the index there are: "
                f"{', '.join(of_index) or 'none'}"
            )
    given = config.index_settings.get(index, {})
    below = dict(given) if isinstance(given, Mapping) else {one: getattr(given, one) for one in of_index}
    for key, value in own.items():
        before = below.get(key, {})
        below[key] = {**before, **value} if isinstance(value, dict) and isinstance(before, Mapping) else value
    try:
        ranking = replace(config.ranking, **weights)
        return replace(
            config, ranking=ranking, index_settings={**config.index_settings, index: below}, **general
        )
    except MemForestError as exc:
        raise ConfigError(f"system {spec.name!r}: {exc}") from exc


class Swapped:
    """Another system that hears the turns in another order: a share of pairs of turns exchange what is said and by whom."""

    def __init__(self, system: System, share: float, seed: int = 7) -> None:
        self._system, self._share, self._seed = system, share, seed
        self._others: dict[str, Case] = {}

    def write(self, case: Case) -> Written | None:
        """Write the exchanged talk, as a memory of its own."""
        return self._system.write(self._other(case))

    def find(self, case: Case, question: Question, most: int) -> Found | Sequence[Piece]:
        """Ask the memory of the exchanged talk, and name turns as they were before, so that what answers is still known."""
        other = self._other(case)
        before = {turn_key(one.session_id, turn_id(turn)): turn_id(turn) for one in other.sessions
            for turn in one.turns}  # fmt: skip
        found = self._system.find(other, question, most)
        pieces = found.pieces if isinstance(found, Found) else found
        return [Piece(one.text, tuple(before[key] for key in one.turns)) for one in pieces]

    def _other(self, case: Case) -> Case:
        if case.id not in self._others:  # once a case, as the time of a question is measured
            self._others = {case.id: swapped(case, self._share, self._seed)}
        return self._others[case.id]


def swapped(case: Case, share: float, seed: int) -> Case:
    """Return a case in which pairs of turns stand in each other's place, at the other's time, with their own ids.

    Args:
        case: as it was said.
        share: of all pairs of turns that could be formed, 0 to 1: as many pairs as that share of half the turns.
        seed: of the draw.
    """
    places = [(s, t) for s, session in enumerate(case.sessions) for t in range(len(session.turns))]
    drawn = random.Random(f"{seed}:{case.id}").sample(places, len(places))  # noqa: S311  # an experiment's order, no secret
    turns = [[{**turn, "id": turn_key(one.session_id, turn_id(turn))} for turn in one.turns]
        for one in case.sessions]  # fmt: skip
    for (a, b), (c, d) in zip(drawn[::2], drawn[1 : 2 * int(share * len(places) / 2) : 2], strict=False):
        turns[a][b], turns[c][d] = turns[c][d], turns[a][b]
    sessions = (replace(one, turns=tuple(said)) for one, said in zip(case.sessions, turns, strict=True))
    return Case(f"{case.id} swapped {share}", tuple(sessions), case.questions)


class ReadOnce:
    """A cross-encoder that reads a question and a text once, however many systems ask: what it says depends on nothing else.

    `spared` is what reading again would have taken so far, in ms on the clock and of processor time, shape (2,): a system's own
    cost is not less for those that were asked before it.
    """

    def __init__(self, reader: ReadsStates, model_id: str) -> None:
        self.model_id, self._reader = model_id, reader
        self._read: dict[tuple[str, str], tuple[Rows, Rows]] = {}
        self.spared = np.zeros(2)

    async def score(self, question: str, texts: Sequence[str]) -> Rows:
        """Return the scores alone, shape (n,); see `Reranker.score`."""
        return (await self.read_states(question, texts))[:, 0]

    async def read_states(self, question: str, texts: Sequence[str]) -> Rows:
        """Return what `ReadsStates.read_states` does."""
        new = [text for text in dict.fromkeys(texts) if (question, text) not in self._read]
        self.spared = self.spared + sum(self._read[question, text][1] for text in {*texts} - {*new})
        began = spent_ms()
        read = await self._reader.read_states(question, new) if new else ()
        each = (spent_ms() - began) / max(len(new), 1)
        self._read |= {(question, text): (row, each) for text, row in zip(new, read, strict=True)}
        return np.array([self._read[question, text][0] for text in texts])


def spent_ms() -> Rows:
    """Return the ms on the clock and of processor time, shape (2,); their differences count."""
    return np.array([time.perf_counter(), time.process_time()]) * 1000


class Baseline:
    """A ranking of single turns that knows no trees and no facts, by the package's own tokens and embedder; nothing is stored."""

    def __init__(self, kind: str, embedder: Embedder, folder: Path) -> None:
        self._rank, self._embedder, self._cache = (BASELINES[kind], embedder,
            folder / f"vectors-{sha256(embedder.model_id.encode()).hexdigest()[:8]}",)  # fmt: skip
        self._talks: dict[str, Talk] = {}

    def write(self, case: Case) -> Written:
        """Embed the turns, once for all baselines of a folder."""
        started = time.perf_counter()
        self._talks = {case.id: Talk(case, self._embedder, self._cache)}  # one case at a time is asked
        return Written(time.perf_counter() - started)

    def find(self, case: Case, question: Question, most: int) -> Found:
        """Return the best turns, or summaries of them."""
        if case.id not in self._talks:
            self.write(case)
        talk = self._talks[case.id]
        allowed = {turn.key for turn in case.before(question)}
        found = (piece for piece in self._rank(talk, question.text) if allowed.issuperset(piece.turns))
        return Found(tuple(piece for piece, _ in zip(found, range(most), strict=False)))


class Talk:
    """The turns of a case as tokens and vectors."""

    def __init__(self, case: Case, embedder: Embedder, cache: Path) -> None:
        self.turns = case.turns
        self._embedder = embedder
        texts = [turn_text(turn.speaker, turn.text) for turn in self.turns]
        file = cache / f"{sha256(json.dumps(texts).encode()).hexdigest()[:16]}.npy"
        if file.exists():
            self.rows: Rows = np.load(file)
        else:
            self.rows = self.vectors(texts)
            cache.mkdir(parents=True, exist_ok=True)
            np.save(file, self.rows)
        self._postings: dict[str, list[tuple[int, int]]] = {}
        lengths: list[int] = []
        for row, turn in enumerate(self.turns):
            tokens = Counter(index_tokens(turn.speaker, turn.text, turn.said))
            lengths.append(sum(tokens.values()))
            for token, count in tokens.items():
                self._postings.setdefault(token, []).append((row, count))
        self._lengths = np.array(lengths, dtype=np.float64)
        self.labels = clusters(self.rows, max(len(self.turns) // 10, 1))
        """The cluster of some ten turns that each is in."""
        self._tree: tuple[list[Piece], Rows] | None = None

    def vectors(self, texts: Sequence[str]) -> Rows:
        """Return the unit vectors of texts."""
        made = _sync.run(self._embedder.embed(list(texts)))
        return np.asarray(made, dtype=np.float64)

    def cosines(self, question: str) -> Rows:
        """Return the likeness of every turn to the question."""
        found: Rows = self.rows @ self.vectors([question])[0]
        return found

    def bm25(self, question: str) -> Rows:
        """Return the BM25 score of every turn, k1 .9 and b .4, turns with their day and speaker in front."""
        scores = np.zeros(len(self.turns))
        for token in set(question_tokens(question)):
            if found := self._postings.get(token):
                rows, counts = np.array(found).T
                scores[rows] += term_scores(counts.astype(np.float64), self._lengths[rows],
                    float(self._lengths.mean()), len(scores), k1=0.9, b=0.4,)  # fmt: skip
        return scores

    def pieces(self, scores: Rows) -> Iterator[Piece]:
        """Yield the turns by their scores, best first; ties by turn order."""
        return (
            Piece(self.turns[at].line, (self.turns[at].key,)) for at in np.argsort(-scores, kind="stable")
        )

    def tree(self) -> tuple[list[Piece], Rows]:
        """Return all nodes of a tree of clusters, leaves first, with their vectors.

        As RAPTOR does (arXiv 2401.18059), clusters of eight or so are made again and again of what is below; without a model a
        node's text is the three turns nearest to its middle.
        """
        if self._tree is None:
            pieces, vectors = list(self.pieces(np.zeros(len(self.turns)))), [self.rows]
            below, level = [[at] for at in range(len(self.turns))], self.rows
            while len(below) > 8:
                labels = clusters(level, max(len(below) // 8, 1))
                groups = [[at for child in np.flatnonzero(labels == n) for at in below[child]]
                    for n in sorted(set(labels))]  # fmt: skip
                level = np.stack([_unit(self.rows[group].mean(axis=0)) for group in groups])
                for group, middle in zip(groups, level, strict=True):
                    near = sorted(sorted(group, key=lambda at: -float(self.rows[at] @ middle))[:3])
                    pieces.append(Piece("\n".join(self.turns[at].line for at in near),
                        tuple(self.turns[at].key for at in near),))  # fmt: skip
                vectors.append(level)
                below = groups
            self._tree = pieces, np.concatenate(vectors)
        return self._tree


def _unit(row: Rows) -> Rows:
    unit: Rows = row / max(float(np.linalg.norm(row)), 1e-12)
    return unit


def clusters(rows: Rows, count: int, rounds: int = 12) -> NDArray[np.int64]:
    """Return the cluster of each unit row by spherical k-means, begun at rows evenly apart, so that it is always the same."""
    middles = rows[np.linspace(0, len(rows) - 1, count).astype(int)]
    labels = np.zeros(len(rows), dtype=np.int64)
    for _ in range(rounds):
        labels = np.argmax(rows @ middles.T, axis=1)
        middles = np.stack([_unit(rows[labels == n].mean(axis=0)) if (labels == n).any() else middles[n]
            for n in range(count)])  # fmt: skip
    return labels


def _standard(values: Rows) -> Rows:
    standard: Rows = (values - values.mean()) / max(float(values.std()), 1e-12)
    return standard


def _hybrid(talk: Talk, question: str) -> Iterator[Piece]:
    return talk.pieces(0.35 * _standard(talk.bm25(question)) + 0.65 * _standard(talk.cosines(question)))


def _full(talk: Talk, question: str) -> Iterator[Piece]:
    # The latest first, as a context that is too long keeps them.
    return talk.pieces(np.array([turn.said.timestamp() for turn in talk.turns]))


def _clusters(talk: Talk, question: str) -> Iterator[Piece]:
    near, labels = talk.cosines(question), talk.labels
    of_cluster = {n: float(np.sort(near[labels == n])[-3:].mean()) for n in set(labels)}
    return talk.pieces(0.5 * near + 0.5 * np.array([of_cluster[n] for n in labels]))


def _raptor(talk: Talk, question: str) -> Iterator[Piece]:
    pieces, vectors = talk.tree()
    scores = vectors @ talk.vectors([question])[0]
    return (pieces[at] for at in np.argsort(-scores, kind="stable"))


BASELINES: Mapping[str, Callable[[Talk, str], Iterator[Piece]]] = {
    "bm25": lambda talk, question: talk.pieces(talk.bm25(question)),
    "dense": lambda talk, question: talk.pieces(talk.cosines(question)), "hybrid": _hybrid,
    "clusters": _clusters, "raptor": _raptor, "full": _full,}  # fmt: skip
"""Baseline -> its ranking: words; vectors; both, z-scored, .35 to .65; turns beside the clusters they are in, without any time;
a collapsed tree of clusters; and everything, the latest first."""
