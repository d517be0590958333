"""Settings: frozen values, chosen once.

Source of the chunk size (b = 2): MemForest paper §4.1. Ranking weights were chosen by hand on five LoCoMo conversations,
keeping only parts that had also held on human chat; `benchmarks/locomo_recall.py` prints what each one adds. The
settings of an index stand with the index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from datetime import timedelta
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memforest.chat_steps import STEPS, step_names
from memforest.clock import Clock, system_clock
from memforest.endpoint import Budget
from memforest.errors import ConfigError
from memforest.explore import Explore
from memforest.keys import Key, KeySetting
from memforest.limits import MAX_TOP_K, MAX_TURN_CHARS
from memforest.model_settings import PORTS, ChatSetting, EmbedderSetting, RerankerSetting
from memforest.ports import Answerer, Extractor, Planner, Summariser
from memforest.recall import Recall
from memforest.redaction import PATTERNS
from memforest.settings import Bound, Count, Settings, Whole, brief

Mode: TypeAlias = Literal["emb", "emb+planner", "llm", "llm+planner"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""How a query looks into the recalled trees (paper §6.2)."""

ANSWER_THRESHOLD = 0.70
"""With it, about 1 in 20 unanswerable questions of `scripts/calibrate_answers.py` or fewer are answered, if held out."""

Refresh: TypeAlias = Literal["lazy", "path", "behind", "close"]
REFRESH: tuple[Refresh, ...] = get_args(Refresh)
"""When summaries are made that a write has left out of date: before they are read, with the write (those above what it
wrote), in the background behind it, or when the forest is closed. In every policy what is read is made before."""


@dataclass(frozen=True, slots=True)
class Ranking(Settings):
    """Weights of the query's score flow. Every signal is z-scored before it is weighted.

    Setting a weight to 0 switches the part off, which is how the benchmark's ablation works.
    """

    lexical: float = 0.3
    """BM25 over the dated, attributed text of turns."""
    turn: float = 0.35
    """Cosine of the turn to the question."""
    fact: float = 0.35
    """Best cosine of the turn or of a fact it supports to the question without participants' names."""
    before: float = 0.2
    """Flow to a leaf from the leaf before it in its session tree."""
    after: float = 0.1
    """Flow to a leaf from the leaf after it."""
    reply: float = 0.1
    """More flow from the leaf before when that one asks and another speaker answers."""
    assistant_reply: float = 0.3
    """The same from a user's turn to the assistant's right behind it, whether it asks or not; the larger one counts."""
    speaker: float = 1.0
    """Being said by whom the question asks for, else membership in the tree of the one participant whom it names."""
    date: float = 2.0
    """Nearness to the time window that the question states."""
    length: float = 0.2
    """Log of the number of words: longer turns say more."""
    question: float = 0.3
    """Taken off a turn that ends by asking."""
    temporal: float = 0.4
    """Given to turns that tell a time when the question asks for one."""
    session_tree: float = 0.4
    """Flow down from the session tree's nodes, shared over its levels."""
    session_tree_of_lists: float = 0.2
    """The same for questions that want a list: their answers lie in many sessions, and flow favours company."""
    participant_tree: float = 0.2
    """Flow down from the nodes of the speaker's tree, shared over its levels."""
    time_order: float = 0.5
    """Standing on the asked side of the event that a before/after question names; 0 also keeps the answers that a
    timeline gives, or that are chosen by their time, from leading."""
    guided: float = 1.0
    """What leaves gain that a planned or model-guided browse reached, by their places on the way down, not z-scored; only
    in the modes other than ``"emb"`` (`Config.mode`)."""
    rerank: float = 0.5
    """What the reranker says of the best candidates, if there is one (`Config.reranker`)."""
    recall: Recall | None = None
    """How an index with levels of memories recalls them, for this question or all; None is the index's own setting."""
    explore: Explore | None = None
    """How an index with a graph of entities looks for evidence, for this question or all; None is the index's own setting."""


@dataclass(frozen=True, slots=True)
class Config(Settings):
    """How a memory is written and read.

    `cell_turns`, the fan-outs of an index's trees and the embedder are kept by a memory from its first write; changing
    them here affects new memories, and others when they are made anew (`AsyncUserMemory.rebuild`). Another embedder is
    refused until then, see `EmbedderMismatchError`.
    """

    _apart: ClassVar[Collection[str]] = (*PORTS, "key")

    timezone: str = "UTC"
    """The zone that naive times are read in, and that local days ("yesterday") are taken in."""
    day_first: bool | None = None
    """Whether ``03/04/2024`` is 3 April, in what is said and in turns' timestamps; None is as the memory's people write,
    which a date such as ``25/12/2023`` proves. Where nothing does, such a date in a text dates nothing, a timestamp is
    read month first, and a warning says so."""
    embedder: EmbedderSetting = "auto"
    """``"auto"`` (the best one installed), ``"minilm"``, ``"bge"``, ``"none"`` (lexical only), an
    `EmbeddingEndpoint`, an object with the `Embedder` port, or a plain function from a list of texts to rows of
    numbers."""
    cell_turns: Count = 2
    """Turns per dialogue cell, the unit of extraction (b of paper §4.1). At least 1."""
    indexes: Sequence[str] = ("memforest",)
    """The indexes that a new memory has, at least one; the first answers queries that name none."""
    index_settings: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Name of an index -> its settings, as a mapping or as the index's own object; in a file ``[index.NAME]``. Those that
    are not named have their defaults."""
    summary_words: Annotated[int, Bound(ge=8)] | None = None
    """Most words of a node's summary, at least 8; None is 60, and 200 where `chat` summarises (reference
    configuration)."""
    max_turn_chars: Count = MAX_TURN_CHARS
    """A longer turn is refused alone, with a reason that names this setting."""
    busy_timeout_s: Annotated[float, Bound(ge=0)] = 30.0
    """How long a write waits for another process that is writing the same memory."""
    max_open_files: Annotated[int, Bound(ge=3)] = 48
    """Files that the memories of one forest keep open between calls, over all users. The memory used longest
    ago is closed first and opens again by itself; calls under way may open more. At least 3."""
    max_cache_mb: Whole = 512
    """Megabytes of arrays that the memories of one forest keep between queries, over all users. The one
    used longest ago is dropped first and read again by its next query. At least 0."""
    top_k: Annotated[int, Bound(ge=1, le=MAX_TOP_K)] = 10
    """Most evidence of a query that names no `top_k` of its own, 1 to 1000."""
    reranker: RerankerSetting = None
    """A second look at the best candidates, with question and candidate read together: None for none,
    ``"local"`` (the weights of the extra ``[bge]``), an object with the `Reranker` port, or a plain function from a
    question and a list of texts to numbers."""
    rerank_top: Count = 20
    """How many candidates the reranker reads, at least 1. It orders them; no other comes among them."""
    rerank_tokens: Count = 1050
    """How many tokens the reranker reads a query, with the question once a candidate; at least 1. They are estimated (four
    ASCII characters or one other a token), the candidates are read in the order of their rank, and one is read in any case."""
    ranking: Ranking = field(default_factory=Ranking)
    """Weights of the query's score flow."""
    answer_threshold: Annotated[float, Bound(ge=0, le=1)] = ANSWER_THRESHOLD
    """Least score of an answer of `ask` without a chat model, in [0, 1]; below it `ask` abstains and names the nearest quote.
    The score is the share of pieces of evidence like this one that were right answers where it was calibrated: higher
    answers less and errs less, 0 answers with whatever is about the people and the time of the question."""
    clock: Clock = system_clock
    """A function that returns the present as an aware datetime."""
    extractor: Extractor | None = None
    """An object with the `Extractor` port; None is that of `chat`, or the local one. Likewise the next three."""
    summariser: Summariser | None = None
    """An object with the `Summariser` port."""
    planner: Planner | None = None
    """An object with the `Planner` port."""
    answerer: Answerer | None = None
    """An object with the `Answerer` port."""
    chat: ChatSetting = None
    """The model that does the model-guided steps: None for none (every step is local), a `ChatEndpoint`, or an
    object with the `ChatModel` port."""
    chat_steps: Sequence[str] = field(default_factory=step_names)
    """The steps that `chat` does; the others stay local."""
    mode: Mode | None = None
    """How a query looks into the recalled trees: ``"emb"``, ``"emb+planner"``, ``"llm"`` or ``"llm+planner"``;
    None is ``"llm+planner"`` with a `chat` model and ``"emb"`` without."""
    browse_calls: Whole = 32
    """Most calls to `chat` that one query spends on choosing where to go down in trees; what is left is browsed by
    embedding. At least 0."""
    refresh: Refresh | None = None
    """When summaries are made that a write has left out of date: ``"lazy"`` (before they are read), ``"path"`` (with the
    write, those above what it wrote), ``"behind"`` (in the background) or ``"close"`` (when the forest is closed); None is
    ``"behind"`` where `chat` summarises, and ``"lazy"`` without."""
    advance_every_s: Annotated[float, Bound(ge=0)] = 0
    """Seconds between two looks at the open memories for what is due by the calendar, in indexes that close windows of time; 0 for
    none: it is then made behind writes and by `advance`. A memory that is not open is not looked at."""
    ingest_budget: Budget = field(default_factory=Budget)
    """What one ingest may spend on models, if it names no budget of its own."""
    query_budget: Budget = field(default_factory=Budget)
    """What one query may spend on models, if it names no budget of its own."""
    retention: str | timedelta | None = None
    """How long what was said is kept, as a `timedelta` or as a text such as ``"365 days"`` (days or weeks), at least one
    day; None is for ever. Turns that were said longer ago go with `expire()`, and at most once a day with a write."""
    trace: str | Path | None = None
    """A file that gets a line of JSON for every call to `chat`, with what was asked and answered."""
    redact: Callable[[dict[str, Any]], Mapping[str, Any] | None] | None = None
    """Sees every record before it is written to `trace`, and returns what to write of it."""
    redact_patterns: Sequence[str] = ()
    """What is replaced in every text before it is stored: names of `memforest.redaction.PATTERNS` (``"email"``, ``"iban"``,
    ``"card"``, ``"ip"``, ``"phone"``, ``"key"``)."""
    redact_turn: Callable[[str, Mapping[str, Any]], str] | None = None
    """Sees every text before it is stored, behind `redact_patterns`, and returns what to store: the text of a turn, its
    speaker's name, the texts of its metadata and the session's. It is told which (``"field"``: text, speaker, metadata or
    session), and the turn's ``"role"``, ``"speaker"`` and ``"metadata"``. It runs in a worker thread. A turn on which it
    raises is refused alone."""
    key: KeySetting = None
    """Encrypts the memories' files: at least 32 random bytes, or their hexadecimal digits, or a function without arguments
    that returns either; None for no encryption. It needs the extra ``[encrypted]``; see docs/encryption.md."""

    def _check(self) -> None:
        """Refuse what is no model or step, and zones and indexes that there cannot be."""
        for name, port in PORTS.items():
            port.check(name, getattr(self, name))
        for name in ("clock", "redact", "redact_turn"):
            if isinstance(getattr(self, name), type):
                raise ConfigError(f"Config({name}=...) should be a function, not a class")
        self._check_redaction()
        if not self.indexes or len(set(self.indexes)) < len(self.indexes):
            raise ConfigError("Config(indexes=...) should be at least one name, and none twice")
        for name, given in self.index_settings.items():
            if not isinstance(given, Mapping) and (isinstance(given, type) or not is_dataclass(given)):
                raise ConfigError(
                    f"Config(index_settings[{name!r}]=...) should be a mapping, or the index's settings"
                )
        if unknown := sorted(set(self.chat_steps) - set(STEPS)):
            raise ConfigError(
                f"chat_steps: there is no step {unknown[0]!r} for a chat model; known: {', '.join(STEPS)}"
            )
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
            raise ConfigError(
                f"redact_patterns: there is no pattern {unread[0]!r}; known: {', '.join(PATTERNS)}"
            )
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
                f"retention={brief(given)} is no duration; give one such as '365 days' or '52 weeks'"
            )
        given = timedelta(**{f"{found[2]}s": int(found[1])})
    if given is not None and given < timedelta(days=1):
        raise ConfigError(f"retention={given} is less than a day; give at least '1 day'")
    return given
