"""Settings: frozen values, chosen once.

Source of the chunk size (b = 2): MemForest paper §4.1. Ranking weights were chosen by hand on five LoCoMo
conversations. Only parts that also held on human chat were kept. `memforest eval` says what each one adds
(`memforest@lexical=0`). The
settings of an index stand with the index.


What a setting for a model or a step takes: an object with the port's attributes, an endpoint, a name or a function.

Whether a value will do is told without loading or calling anything.


How memories of several levels are recalled for a question: which levels, how many of each, who decides, and their order.

Sources of the constants: TiMem (arXiv 2601.02845) §3.3, Table 10 and App. B.3, and where the paper says nothing its released
configuration. Read by the index `timem`; `Ranking(recall=...)` says so for one question.


How a question that needs several hops and several times is explored: entities, the levels of a tree, and what ranks them.

Source of the constants: H-Mem (arXiv 2605.15701) §3.3, App. A.2 and A.4, where it names them. Read by the index `hmem`;
`Ranking(explore=...)` says so for one question.


Reading the configuration: argument over environment over file over preset over default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from datetime import timedelta
from inspect import iscoroutinefunction
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeGuard, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memforest.endpoint import STEPS, Budget, ChatEndpoint, EmbeddingEndpoint, step_names
from memforest.errors import ConfigError
from memforest.ports import Answerer, ChatModel, Embedder, Extractor, Planner, Reranker, Summariser
from memforest.protection import PATTERNS, Key, KeySetting
from memforest.records import Complexity
from memforest.settings import (
    MAX_TOP_K,
    MAX_TURN_CHARS,
    Bound,
    Count,
    Settings,
    Whole,
    brief,
    build,
    checked,
    experimental,
    hints_of,
    overlaid,
    preset,
    read_file,
    refuse_unknown,
    with_article,
)
from memforest.times import Clock, system_clock

EmbedderSetting: TypeAlias = Embedder | EmbeddingEndpoint | Callable[[list[str]], Any] | str | None
RerankerSetting: TypeAlias = Reranker | Callable[[str, list[str]], Any] | str | None
ChatSetting: TypeAlias = ChatModel | ChatEndpoint | None


@dataclass(frozen=True, slots=True)
class Port:
    """What may stand for a model or a step: an object with some attributes, or one of some types."""

    kind: str
    needs: tuple[str, ...]
    types: tuple[type, ...] = ()
    names: str = ""
    """The names that there are, where a name will do."""
    function: str = ""
    """Of what, where a plain function will do."""

    def fits(self, value: object) -> bool:
        """Return whether an object has the attributes of the port."""
        return not isinstance(value, type) and all(hasattr(value, one) for one in self.needs)

    def check(self, name: str, value: Any) -> None:
        """Refuse what is neither.

        Raises:
            ConfigError: if it is not; it says what to write.
        """
        if value is None or isinstance(value, self.types) or (self.names and isinstance(value, str)):
            return
        if isinstance(value, type):
            raise ConfigError(f"Config({name}=...) takes an object, not a class; write {value.__name__}(...)")
        if self.fits(value) or (self.function and callable(value)):
            return
        takes = [f"a name ({self.names})"] if self.names else []
        takes += [with_article(one.__name__) for one in self.types]
        takes += [f"a function of {self.function}"] if self.function else []
        takes += [f"an object with {' and '.join(self.needs)} (the {self.kind} port)"]
        raise ConfigError(f"Config({name}=...) takes {', '.join(takes)} or None; {_instead(name, value)}")


def is_embedder(value: object) -> TypeGuard[Embedder]:
    """Return whether an object has the attributes of an embedder."""
    return PORTS["embedder"].fits(value)


def is_reranker(value: object) -> TypeGuard[Reranker]:
    """Return whether an object has the attributes of a reranker."""
    return PORTS["reranker"].fits(value)


def _instead(name: str, value: Any) -> str:
    """Say what to write for a model or step; neither a mapping nor a long text is shown, as it may hold a key."""
    shown = isinstance(value, str) and _MODEL_NAME.fullmatch(value) and not value.startswith("sk-")
    model = repr(value) if shown else "'gpt-4o'"
    if name == "chat":
        return f"write Config(chat=ChatEndpoint(model={model}))"
    if name in _STEP_OF:
        steps = f"chat_steps=[{_STEP_OF[name]!r}]"
        return f"a model that does it is given as Config(chat=ChatEndpoint(model={model}), {steps})"
    return f"not {with_article(type(value).__name__)}"


_MODEL_NAME = re.compile(r"[\w.:-]+(/[\w.:-]+)?")
_STEP_OF: Mapping[str, str] = {
    "extractor": "extract",
    "summariser": "summarise",
    "answerer": "answer",
}
PORTS: Mapping[str, Port] = {
    "embedder": Port(
        "Embedder",
        ("model_id", "embed"),
        (EmbeddingEndpoint,),
        names="'auto', 'minilm', 'bge' or 'none'",
        function="texts",
    ),
    "reranker": Port(
        "Reranker", ("model_id", "score"), names="'local' or 'none'", function="a question and texts"
    ),
    "chat": Port("ChatModel", ("model_id", "complete"), (ChatEndpoint,)),
    "extractor": Port("Extractor", ("name", "extract")),
    "summariser": Port("Summariser", ("name", "summarise")),
    "planner": Port("Planner", ("name", "plan")),
    "answerer": Port("Answerer", ("name", "answer")),
}
"""Field of `Config` -> what it takes."""


Order: TypeAlias = Literal["score", "level"]
"""How what was recalled stands in front of a reader; see `Recall.order`."""
Who: TypeAlias = Literal["auto", "model", "rules", "off"]
Level: TypeAlias = Annotated[int, Bound(ge=1, le=6)]

COMPLEXITIES: Sequence[Complexity] = get_args(Complexity)
"""The complexities 0, 1 and 2 by their names in a plan."""
LEVELS = 6
"""Levels that there may be: segment, session, day, week, month and year, from 1."""
LEAVES = 20
"""Leaves that a recall starts from where no budget says (released configuration)."""

BUDGETS: Mapping[str, Mapping[str, Sequence[int]]] = MappingProxyType(
    {
        "timem": MappingProxyType(
            {"simple": (20, 4, 0, 0, 1), "hybrid": (20, 4, 2, 0, 1), "complex": (20, 4, 4, 2, 1)}
        ),
        "locomo": MappingProxyType(
            {"simple": (20, 4, 0, 0, 1), "hybrid": (20, 4, 2, 0, 1), "complex": (20, 4, 2, 2, 1)}
        ),
    }
)
"""Most memories of the levels 1 to 5 by complexity: the two sets of the released configuration."""


@dataclass(frozen=True, slots=True)
class Recall(Settings):
    """How an index with levels of memories recalls them; each switch of the paper's Tables 3 and 4 is one of these.

    Level 1 is the segment, 2 the session, 3 the day, 4 the week, 5 the month and 6 the year.
    """

    planner: Who = "auto"
    """Who says how much a question needs, and by which words to look. ``"model"``: the chat model, in one call.
    ``"rules"``: the plan of the question. ``"auto"``: the model, if there is one and `complexity` is not given.
    ``"off"``: nobody; a question without `complexity` is ``"hybrid"``."""
    gate: Who = "auto"
    """Who drops what the question does not need. ``"model"``: the chat model, in one call. ``"rules"``: drop what
    repeats, has ended, or is far below the best. ``"auto"``: the model if there is one. ``"off"``: nobody."""
    complexity: Annotated[int, Bound(ge=0, le=2)] | None = experimental(None)
    """How much is recalled whatever the question: 0 simple, 1 hybrid, 2 complex; None is what the planner says."""
    levels: Sequence[Level] | None = experimental(None)
    """The levels that are recalled, such as ``(1,)`` or ``(2, 3, 4, 5)``; None is all that the budgets name."""
    flat: bool = experimental(False)
    """Recall all levels as one pool by their own scores, instead of what is above the best leaves."""
    leaves: Literal["fused", "paper"] = experimental("fused")
    """How leaves are found. ``"fused"``: by the best turn of each, as other indexes score turns; ``"paper"``: the cosine of the leaf
    and BM25 of the keywords, each divided by its largest value (eq. 7)."""
    weight: Annotated[float, Bound(ge=0, le=1)] = experimental(0.9)
    """What the cosine counts with ``leaves="paper"``, 0 to 1; BM25 has the rest (Table 10, measured with another embedder)."""
    k1: Annotated[float, Bound(ge=0)] = experimental(1.5)
    """How fast more of one word stops to count with ``leaves="paper"``."""
    b: Annotated[float, Bound(ge=0, le=1)] = experimental(0.75)
    """How far longer leaves are held to be so with ``leaves="paper"``."""
    budgets: Literal["timem", "locomo"] | Mapping[Complexity, Sequence[Whole]] = field(
        default="timem", hash=False
    )
    """Most memories of each level. ``"timem"`` and ``"locomo"`` are those of the paper's two runs. A mapping such as
    ``{"complex": (20, 4, 4, 2, 1)}`` gives the levels from 1 on. The rest is as in ``"timem"``."""
    prune: Literal["best", "own"] = experimental("best")
    """Which memories of a level stay that has more than its budget: those above the best leaves, or those with the best scores
    of their own."""
    order: Order = experimental("score")
    """In which order a reader gets what is left behind all cuts. ``"level"``: the lowest level first, and of each what is
    nearest to the time of the question (eq. 11)."""
    show: Literal["turns", "texts"] = experimental("turns")
    """What stands for a leaf: its turns, or its text where it has one."""

    def _check(self) -> None:
        """Refuse what recalls nothing, and levels or budgets that there are none of."""
        if self.levels is not None:
            object.__setattr__(self, "levels", tuple(self.levels))
            if not self.levels:
                raise ConfigError("Recall(levels=...) names no level; give some of 1 to 6, or None for all")
        if isinstance(self.budgets, Mapping):
            own = {name: tuple(one) for name, one in self.budgets.items()}
            if long := [name for name, one in own.items() if not 0 < len(one) <= LEVELS]:
                raise ConfigError(
                    f"Recall(budgets=...) gives {long[0]!r} {len(own[long[0]])} numbers; give one for each level, "
                    f"1 to {LEVELS} of them"
                )
            object.__setattr__(self, "budgets", own)
        asked = (
            COMPLEXITIES if self.complexity is None else COMPLEXITIES[self.complexity : self.complexity + 1]
        )
        if not any(self.budgets_of(one) for one in asked):
            raise ConfigError(
                f"Recall() recalls nothing: of the levels {tuple(self.levels or range(1, LEVELS + 1))} none has a budget above "
                f"0 for a question that is {' or '.join(asked)}; give it one, as in budgets={{'{asked[-1]}': (20, 4, 4, 2, 1)}}"
            )

    def budgets_of(self, complexity: Complexity) -> dict[int, int]:
        """Return the most memories by level, from 1, for a question; levels with none are not there."""
        known = BUDGETS["timem" if isinstance(self.budgets, Mapping) else self.budgets]
        own = self.budgets if isinstance(self.budgets, Mapping) else {}
        numbers = own.get(complexity, known[complexity])
        return {
            level: most
            for level, most in enumerate(numbers, 1)
            if most > 0 and (self.levels is None or level in self.levels)
        }

    def leaves_of(self, complexity: Complexity) -> int:
        """Return how many leaves a recall starts from, whether they are shown or not."""
        known = BUDGETS["timem" if isinstance(self.budgets, Mapping) else self.budgets]
        own = self.budgets if isinstance(self.budgets, Mapping) else {}
        return own.get(complexity, known[complexity])[0] or LEAVES


Scope: TypeAlias = Literal["auto", "short", "long", "mixed"]
Weight: TypeAlias = Annotated[float, Bound(ge=0)]


@dataclass(frozen=True, slots=True)
class Explore(Settings):
    """How the index `hmem` looks for evidence; see docs/research/hmem.md for what the paper has otherwise."""

    planner: Who = "auto"
    """Who takes a question apart. ``"model"``: the chat model, in one call. ``"rules"``: the plan of the question.
    ``"auto"``: the model if there is one. ``"off"``: nobody; the question is its only sub-query."""
    scope: Scope = experimental("auto")
    """What is searched whatever the planner says: ``"short"``, turns and events; ``"long"``, events and memories; ``"mixed"``,
    all. ``"auto"`` is what the planner says."""
    tree: bool = experimental(True)
    """Take evidence from the tree: events and memories. Otherwise it is turns alone, compared by themselves, as in the paper's
    form without a tree; without long memory is ``scope="short"``."""
    follow_up: Who = "auto"
    """Who asks once more for what is missing: as `planner`."""
    similarity: Weight = experimental(0.70)
    """Weight of the cosine (paper: theta 1)."""
    time: Weight = experimental(0.15)
    """Weight of how well the time fits (paper: theta 2)."""
    robustness: Weight = experimental(0.15)
    """Weight of how well a memory has held (paper: theta 3); 0 leaves it out."""
    entity: Weight = experimental(0.3)
    """Weight of how near the entities are to the question that lead to a piece, as z-scores; with 0 they only lead to it, as in
    the paper."""
    known: Weight = experimental(0.3)
    """Weight of telling a state or a relation of an entity that the question names; 0 leaves it out."""
    similarity_of: Literal["fused", "cosine"] = experimental("fused")
    """What S is. ``"cosine"``: the cosine, as in the paper. ``"fused"``: relevance by words, vectors, neighbouring
    turns and speaker, as z-scores over all turns. With MiniLM it finds 25 to 30 points more of the evidence for
    questions of several hops."""
    reach: Literal["all", "graph"] = experimental("all")
    """What can be evidence if a question names entities, or is near to some. ``"graph"``: only what the entities lead
    to, as in the paper. ``"all"``: everything; what they lead to gains by `entity`."""
    overlap: Annotated[float, Bound(ge=0, le=1)] = experimental(0.5)
    """Weight of what two intervals share beside how near they are (lambda; the paper names none)."""
    decay_days: Annotated[float, Bound(gt=0)] = experimental(365.0)
    """Age at which a memory that was never consolidated is down to 1/e (tau)."""
    reinforcement: Annotated[float, Bound(ge=0)] = experimental(0.5)
    """How much longer it takes for every consolidation (eta)."""
    hops: Whole = experimental(2)
    """Most edges from an entity that a question names to another one; 0 for none but those."""
    neighbours: Count = experimental(8)
    """Most edges that are followed from one entity: those of the largest weight, of equal ones the latest."""
    entities: Count = experimental(64)
    """Most entities of one sub-query."""
    sub_queries: Annotated[int, Bound(ge=1, le=5)] = experimental(5)
    """Most sub-queries; a plan with more is left, and the question is asked as it is."""

    def _check(self) -> None:
        """Refuse weights of which none counts."""
        if not self.similarity + self.time + self.robustness + self.entity:
            raise ConfigError(
                "Explore() ranks by nothing: similarity, time, robustness and entity are all 0; give one of them a weight"
            )


Mode: TypeAlias = Literal["emb", "emb+planner", "llm", "llm+planner"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""How a query looks into the recalled trees (paper §6.2)."""

Refresh: TypeAlias = Literal["lazy", "path", "behind", "close"]
"""When to make summaries that a write has outdated: before they are read, with the write, in the background after it,
or when the forest is closed. In every policy what is read is made before."""


@dataclass(frozen=True, slots=True)
class Ranking(Settings):
    """Weights of the query's score flow. Every signal is z-scored before it is weighted.

    Setting a weight to 0 switches the part off, which is how the benchmark's ablation works.
    """

    lexical: float = experimental(0.3)
    """BM25 over the dated, attributed text of turns."""
    turn: float = experimental(0.35)
    """Cosine of the turn to the question."""
    fact: float = experimental(0.35)
    """Best cosine of the turn or of a fact it supports to the question without participants' names."""
    before: float = experimental(0.2)
    """Flow to a leaf from the leaf before it in its session tree."""
    after: float = experimental(0.1)
    """Flow to a leaf from the leaf after it."""
    reply: float = experimental(0.1)
    """More flow from the leaf before when that one asks and another speaker answers."""
    assistant_reply: float = experimental(0.3)
    """The same from a user's turn to the assistant's right behind it, whether it asks or not; the larger one counts."""
    speaker: float = experimental(1.0)
    """Being said by whom the question asks for, else membership in the tree of the one participant whom it names."""
    date: float = experimental(2.0)
    """Nearness to the time window that the question states."""
    length: float = experimental(0.2)
    """Log of the number of words: longer turns say more."""
    question: float = experimental(0.3)
    """Taken off a turn that ends by asking."""
    temporal: float = experimental(0.4)
    """Given to turns that tell a time when the question asks for one."""
    session_tree: float = experimental(0.4)
    """Flow down from the session tree's nodes, shared over its levels."""
    session_tree_of_lists: float = experimental(0.2)
    """The same for questions that want a list: their answers lie in many sessions, and flow favours company."""
    participant_tree: float = experimental(0.2)
    """Flow down from the nodes of the speaker's tree, shared over its levels."""
    time_order: float = 0.5
    """Whether the answers that a timeline gives, or that are chosen by their time, lead; 0 is not."""
    guided: float = experimental(1.0)
    """Bonus of leaves that a planned or model-guided browse reached, by their places on the way down. Not z-scored,
    and only in modes other than ``"emb"`` (`Config.mode`)."""
    rerank: float = 0.5
    """What the reranker says of the best candidates, if there is one (`Config.reranker`)."""
    ranker: float = experimental(1.0)
    """Whether the first pieces are ordered by how likely they answer (`memforest.reading.answer_local`); 0 is not."""
    recall: Recall | None = None
    """How an index with levels of memories recalls them, for this question or all; None is the index's own setting."""
    explore: Explore | None = None
    """How an index with a graph of entities looks for evidence, for this question or all; None is the index's own setting."""


@dataclass(frozen=True, slots=True)
class Config(Settings):
    """How a memory is written and read.

    A memory keeps its `chunk_turns`, its embedder and the fan-outs of its trees from the first write on. A change here
    affects new memories, and others when they are rebuilt (`AsyncUserMemory.rebuild`). Another embedder is
    refused until then, see `EmbedderMismatchError`.
    """

    _apart: ClassVar[Collection[str]] = (*PORTS, "key")

    timezone: str = "UTC"
    """The zone that naive times are read in, and that local days ("yesterday") are taken in."""
    day_first: bool | None = None
    """Whether ``03/04/2024`` is 3 April, in texts and timestamps. None: as the people of the memory write, which a
    date such as ``25/12/2023`` proves. Without such a date, a text's date is not used, a timestamp is read month
    first, and a warning says so."""
    embedder: EmbedderSetting = "auto"
    """``"auto"`` (the best one installed), ``"minilm"``, ``"bge"``, ``"none"`` (words only), an `EmbeddingEndpoint`,
    an object with the `Embedder` port, or a function from a list of texts to rows of numbers."""
    chunk_turns: Count = 2
    """Turns per dialogue chunk, the unit of extraction (b of paper §4.1). At least 1."""
    indexes: Sequence[str] = ("memforest",)
    """The indexes of a new memory, at least one. The first one answers queries that name no index."""
    index_settings: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Name of an index -> its settings, as a mapping or as the index's own object; in a file ``[index.NAME]``. Other
    settings have their defaults."""
    summary_words: Annotated[int, Bound(ge=8)] | None = None
    """Most words of a node's summary, at least 8. None: 60, or 200 if `chat` summarises (reference configuration)."""
    max_turn_chars: Count = MAX_TURN_CHARS
    """Most characters of a turn. A longer turn is refused, with a reason that names this setting."""
    busy_timeout_s: Annotated[float, Bound(ge=0)] = 30.0
    """How long a write waits for another process that is writing the same memory."""
    max_open_files: Annotated[int, Bound(ge=3)] = 48
    """Most files that one forest keeps open between calls, over all users, at least 3. The memory used longest ago is
    closed first, and opens again by itself. Running calls may open more."""
    max_cache_mb: Whole = 512
    """Most megabytes of arrays that one forest keeps between queries, over all users, at least 0. The memory used
    longest ago is dropped first, and its next query reads it again."""
    top_k: Annotated[int, Bound(ge=1, le=MAX_TOP_K)] = 10
    """Most pieces of evidence, 1 to 1000, if a query does not say."""
    min_relevance: Annotated[float, Bound(ge=0, le=1)] = 0.006
    """Least `Evidence.relevance`, in [0, 1], if a query does not say. With it, thanks and small talk find nothing. 0
    leaves nothing out."""
    reranker: RerankerSetting = "auto"
    """Reads the best candidates again, each together with the question. ``"auto"`` is the local reranker if the
    embedder is an installed one. None or ``"none"`` is no reranker. It may also be ``"local"``, an object with the
    `Reranker` port, or a function from a question and a list of texts to numbers. The local one reads only English."""
    rerank_top: Count = experimental(20)
    """How many candidates the reranker reads, at least 1. It orders them; no other comes among them."""
    rerank_tokens: Count = experimental(840)
    """How many tokens the reranker reads a query, with the question once a candidate; at least 1. They are estimated (four
    ASCII characters or one other a token), the candidates are read in the order of their rank, and one is read in any case."""
    ranking: Ranking = field(default_factory=Ranking)
    """Weights of the query's score flow."""
    answer_threshold: Annotated[float, Bound(ge=0, le=1)] | None = None
    """Least score of an answer of `ask` without a chat model, in [0, 1]. Below it `ask` abstains and names the nearest
    quote. The score is the chance, on the data it was calibrated on, that one of the quotes is right. With a higher
    value, `ask` answers less and errs less. With 0 it answers whenever evidence is about the people and the time of
    the question. None is 0.75 with the local cross-encoder, 0.7 with vectors, 0.62 with words."""
    clock: Clock = system_clock
    """A function that returns the present as an aware datetime."""
    extractor: Extractor | None = None
    """An object with the `Extractor` port. None: the one of `chat`, or the local one. The same holds for the next
    three."""
    summariser: Summariser | None = None
    """An object with the `Summariser` port."""
    planner: Planner | None = None
    """An object with the `Planner` port."""
    answerer: Answerer | None = None
    """An object with the `Answerer` port."""
    chat: ChatSetting = None
    """The chat model: a `ChatEndpoint`, or an object with the `ChatModel` port. None: every step is local."""
    chat_steps: Sequence[str] = field(default_factory=step_names)
    """The steps that `chat` does. The others stay local."""
    mode: Mode | None = None
    """How a query browses the recalled trees: ``"emb"``, ``"emb+planner"``, ``"llm"`` or ``"llm+planner"``. None:
    ``"llm+planner"`` with a `chat` model, else ``"emb"``."""
    browse_calls: Whole = experimental(32)
    """Most calls to `chat` that one query spends on choosing where to go down in trees; what is left is browsed by
    embedding. At least 0."""
    refresh: Refresh | None = None
    """When to make summaries that a write has outdated: ``"lazy"`` (before they are read), ``"path"`` (with the
    write), ``"behind"`` (in the background) or ``"close"`` (when the forest is closed). None: ``"behind"`` if `chat`
    summarises, else ``"lazy"``."""
    advance_every_s: Annotated[float, Bound(ge=0)] = 0
    """Seconds between two looks at the open memories for what is due by the calendar, in indexes that close windows of time; 0 for
    none: it is then made behind writes and by `advance`. A memory that is not open is not looked at."""
    ingest_budget: Budget = field(default_factory=Budget)
    """What one ingest may spend on models, if the call does not say."""
    query_budget: Budget = field(default_factory=Budget)
    """What one query may spend on models, if the call does not say."""
    retention: str | timedelta | None = None
    """How long turns are kept: a `timedelta`, or a text such as ``"365 days"`` (days or weeks), at least one day.
    None: for ever. `expire()` deletes older turns, and a write does so at most once a day."""
    trace: str | Path | None = None
    """A file that gets a line of JSON for every call to `chat`, with the request and the reply."""
    redact: Callable[[dict[str, Any]], Mapping[str, Any] | None] | None = None
    """A function that gets every record before it goes to `trace`, and returns what to write."""
    redact_patterns: Sequence[str] = ()
    """What to replace in every text before it is stored: names of `memforest.protection.PATTERNS` (``"email"``,
    ``"iban"``,
    ``"card"``, ``"ip"``, ``"phone"``, ``"key"``)."""
    redact_turn: Callable[[str, Mapping[str, Any]], str] | None = None
    """A function that gets every text before it is stored, after `redact_patterns`, and returns what to store. Texts
    are those of a turn, its speaker's name, and the texts of the metadata of turn and session. It is told which
    (``"field"``: text, speaker, metadata or
    session), and the turn's ``"role"``, ``"speaker"`` and ``"metadata"``. It runs in a worker thread. A turn on which it
    raises is refused alone."""
    key: KeySetting = None
    """Key that encrypts the files: at least 32 random bytes, their hexadecimal digits, or a function without arguments
    that returns either. None: no encryption. It needs the extra ``[encrypted]``; see docs/encryption.md."""

    def _check(self) -> None:
        """Refuse what is no model or step, and zones and indexes that there cannot be."""
        for name, port in PORTS.items():
            port.check(name, getattr(self, name))
        for name in ("clock", "redact", "redact_turn"):
            if isinstance(getattr(self, name), type):
                raise ConfigError(f"Config({name}=...) should be a function, not a class")
        self._check_redaction()
        if not self.indexes or len(set(self.indexes)) < len(self.indexes):
            raise ConfigError("Config(indexes=...) takes one or more names, each only once")
        for name, given in self.index_settings.items():
            if not isinstance(given, Mapping) and (isinstance(given, type) or not is_dataclass(given)):
                raise ConfigError(
                    f"Config(index_settings[{name!r}]=...) should be a mapping, or the index's settings"
                )
        if unknown := sorted(set(self.chat_steps) - set(STEPS)):
            raise ConfigError(f"chat_steps: unknown step {unknown[0]!r}; known: {', '.join(STEPS)}")
        object.__setattr__(self, "retention", _duration(self.retention))
        object.__setattr__(self, "indexes", tuple(self.indexes))
        object.__setattr__(self, "key", Key.of(self.key))
        own = {
            name: dict(one) if isinstance(one, Mapping) else one for name, one in self.index_settings.items()
        }
        object.__setattr__(self, "index_settings", own)
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
            raise ConfigError(
                f"timezone={self.timezone!r} is unknown; give an IANA name such as 'Europe/Madrid'"
            ) from exc

    def _check_redaction(self) -> None:
        if iscoroutinefunction(self.redact_turn):
            raise ConfigError(
                "Config(redact_turn=...) should be a plain function; it runs in a thread of its own"
            )
        if unread := sorted(set(self.redact_patterns) - set(PATTERNS)):
            raise ConfigError(f"redact_patterns: unknown pattern {unread[0]!r}; known: {', '.join(PATTERNS)}")
        object.__setattr__(self, "redact_patterns", tuple(self.redact_patterns))

    @property
    def zone(self) -> ZoneInfo:
        """The time zone as an object."""
        return ZoneInfo(self.timezone)


def _duration(given: str | timedelta | None) -> timedelta | None:
    """Return a setting of how long something is kept.

    Raises:
        ConfigError: if it is no duration, or less than a day.
    """
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d{1,6})\s*(day|week)s?\s*", given)
        if found is None:
            raise ConfigError(
                f"retention={brief(given)} is not a duration; give one such as '365 days' or '52 weeks'"
            )
        given = timedelta(**{f"{found[2]}s": int(found[1])})
    if given is not None and given < timedelta(days=1):
        raise ConfigError(f"retention={given} is less than a day; give at least '1 day'")
    return given


_SECTIONS: Mapping[str, type] = {
    "chat": ChatEndpoint,
    "embeddings": EmbeddingEndpoint,
    "ranking": Ranking,
    "ingest_budget": Budget,
    "query_budget": Budget,
}
"""Sections of a settings file. ``embeddings`` is the setting `embedder`, as an endpoint."""
_INDEX = "index"
"""The section of a file that holds the tables of indexes, `Config.index_settings`."""
_OBJECTS = ("clock", "extractor", "summariser", "planner", "answerer", "redact", "redact_turn")
"""Settings that no file can hold."""
_KEY = "MEMFOREST_KEY"
_ENVIRONMENT = {
    "timezone": "MEMFOREST_TIMEZONE",
    "embedder": "MEMFOREST_EMBEDDER",
    "reranker": "MEMFOREST_RERANKER",
    "mode": "MEMFOREST_MODE",
    "retention": "MEMFOREST_RETENTION",
    "trace": "MEMFOREST_TRACE",
}
_SWITCHES = {"day_first": "MEMFOREST_DAY_FIRST"}
_ENDPOINTS = {"chat": "MEMFOREST_CHAT", "embeddings": "MEMFOREST_EMBEDDING"}
_ENDPOINT_SETTINGS = ("model", "base_url", "api_key")


def load_default_config(
    *names: str | None,
    file: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    **settings: Any,
) -> Config:
    """Return the configuration: arguments over environment over file over preset over defaults.

    Without any of these every step is local: no key, no network. Loading contacts nothing, and reads no file but
    the one that is named.

    Args:
        *names: presets, each over those before it. ``"default_30b"`` and ``"default_4b"`` have the MemForest paper's
            models, served on this machine. ``"memforest_paper"`` has its form, see docs/research/modes.md.
            ``"segtree_paper"``, ``"timem_paper"`` and ``"hmem_paper"`` have forms and models of those evaluations.
            None and ``"default"`` change nothing. The models of a preset
            take the place of those before them as a whole.
        file: a TOML file; None is the one that ``MEMFOREST_CONFIG`` names, if any. See docs/configuration.md.
        environ: read instead of the process's environment.
        **settings: fields of `Config`.

    Raises:
        ConfigError: if the name or a setting is unknown, a value is of the wrong kind or out of range, or the file
            cannot be read; it names file and setting.
    """
    refuse_unknown(settings, hints_of(Config), "")
    env = os.environ if environ is None else environ
    sources: list[tuple[str, dict[str, Any]]] = [
        (f"preset {name}", preset(name or "default")) for name in names
    ]
    path = file or env.get("MEMFOREST_CONFIG")
    if path:
        sources.append((repr(str(path)), read_file(path)))
    sources.append(("environment", _from_environment(env)))
    table: dict[str, Any] = {}
    for source, given in sources:
        read = _read(given, f"{source}: ")
        if source.startswith("preset "):  # no setting of one model is meant for another
            table = {key: one for key, one in table.items() if key not in _ENDPOINTS or key not in read}
        table = _laid_over(table, read, source)
    where = " and ".join(source for source, given in sources if given) or "defaults"
    built = _built(table, set(settings), f"{where}: ", env)
    if "key" not in settings and _KEY in env:
        built["key"] = _key(env[_KEY])
    try:
        base = Config(**built)
    except ConfigError as exc:
        raise ConfigError(f"{where}: {exc}") from exc
    return replace(base, **settings)


def _read(table: Mapping[str, Any], before: str) -> dict[str, Any]:
    """Return the table of a source, checked; the tables of indexes are sections of it, called ``index.NAME``."""
    if "key" in table:
        raise ConfigError(f"{before}a file of settings must not hold the key; set {_KEY}, or Config(key=...)")
    if objects := sorted(set(table) & set(_OBJECTS)):
        raise ConfigError(f"{before}{objects[0]} is an object, which a file cannot hold; pass it to Config()")
    hints = {**hints_of(Config), "embedder": str, "reranker": str}
    known = {name: hint for name, hint in hints.items() if name not in (*_OBJECTS, "index_settings", "key")}
    known |= {**dict.fromkeys(_SECTIONS, Mapping[str, Any]), _INDEX: Mapping[str, Mapping[str, Any]]}
    read = checked(table, known, before)
    for name in set(read) & set(_SECTIONS):
        read[name] = checked(read[name], hints_of(_SECTIONS[name]), before, name)
    return read | {f"{_INDEX}.{index}": own for index, own in read.pop(_INDEX, {}).items()}


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    table: dict[str, Any] = {key: env[name] for key, name in _ENVIRONMENT.items() if env.get(name)}
    for key, name in _SWITCHES.items():
        if env.get(name, "").strip():
            table[key] = _switch(name, env[name])
    for section, prefix in _ENDPOINTS.items():
        names = {key: f"{prefix}_{key.upper()}" for key in _ENDPOINT_SETTINGS}
        given = {key: env[name].strip() for key, name in names.items() if env.get(name, "").strip()}
        if given:
            table[section] = given
    if env.get("MEMFOREST_INDEXES"):
        table["indexes"] = [name.strip() for name in env["MEMFOREST_INDEXES"].split(",")]
    return table


def _key(digits: str) -> Key:
    """Return the key of the environment; one that is empty is an accident, and must not store anything unencrypted."""
    try:
        return Key(digits)
    except ConfigError as exc:
        raise ConfigError(f"{_KEY}: {exc}; unset it for no encryption") from None


def _switch(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise ConfigError(f"{name} should be 'true' or 'false', not {brief(value)}")
    return value.strip().lower() == "true"


def _laid_over(table: Mapping[str, Any], given: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Lay a source over those below it."""
    below, above = dict(table), dict(given)
    for section, prefix in _ENDPOINTS.items():
        if (
            source == "environment"
            and section in above
            and "model" not in {**below.get(section, {}), **above[section]}
        ):
            if "base_url" in above[section]:
                raise ConfigError(f"{prefix}_BASE_URL is set, but no model; set {prefix}_MODEL as well")
            del above[section]  # a key alone configures nothing
    if "embedder" in above and "embeddings" in above:
        names = "MEMFOREST_EMBEDDER and MEMFOREST_EMBEDDING_MODEL" if source == "environment" else ""
        raise ConfigError(
            f"{source}: {names or 'embedder and [embeddings]'} exclude each other; leave one out"
        )
    if "embedder" in above:
        below.pop("embeddings", None)
    if "embeddings" in above:
        below.pop("embedder", None)
    return overlaid(below, above)


def _built(
    table: Mapping[str, Any], overridden: set[str], before: str, env: Mapping[str, str]
) -> dict[str, Any]:
    """Return fields of `Config` from a table; an endpoint that an argument stands for is not looked at."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = "embedder" if key == "embeddings" else key
        section, _, index = key.partition(".")
        if index:
            values.setdefault("index_settings", {})[index] = value
        elif name not in overridden:
            values[name] = build(_SECTIONS[key], value, section, before, env) if key in _SECTIONS else value
    return values
