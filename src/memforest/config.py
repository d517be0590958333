"""Settings: frozen values, chosen once. Precedence: argument > environment > file > preset > default.

Sources of the constants: MemForest paper §4.1 (chunk size b = 2) and §6.1 (moderate fan-out); the fan-outs
per tree kind and the activation threshold are the reference configuration's (session 3, entity 8, scene 10, three
facts in two sessions). Ranking weights were chosen by hand on five LoCoMo conversations, keeping only
parts that had also held on human chat; `benchmarks/locomo_recall.py` prints what each one adds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memforest.chat_steps import STEPS, step_names
from memforest.clock import Clock, system_clock
from memforest.endpoint import Budget, ChatEndpoint, EmbeddingEndpoint
from memforest.errors import ConfigError
from memforest.ports import PORTS
from memforest.settings import (
    Source,
    brief,
    build,
    check,
    check_fields,
    overlaid,
    preset,
    read_file,
)

__all__ = ["MODES", "Config", "Ranking", "load_default_config"]

MODES = ("emb", "emb+planner", "llm", "llm+planner")
"""How a query looks into the recalled trees (paper §6.2)."""


@dataclass(frozen=True, slots=True)
class Ranking:
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
    speaker: float = 1.0
    """Membership in the tree of the one participant whom the question names."""
    date: float = 1.0
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
    scene_tree: float = 0.0
    """Flow down from the nodes of the scenes of the facts that a turn supports, shared over their levels."""
    time_order: float = 0.5
    """Standing on the asked side of the event that a before/after question names; 0 also keeps the answers that a
    timeline gives from leading."""
    browse: float = 0.0
    """Relevance of the path by which beam browse reached the leaf."""
    guided: float = 1.0
    """What leaves gain that a planned or model-guided browse reached, by their places on the way down, not z-scored; only
    in the modes other than ``"emb"`` (`Config.mode`), where it stands in for `browse`."""
    diversity: float = 0.0
    """Taken off a turn, when the question wants a list, for each better turn of the same session."""
    rerank: float = 0.5
    """What the reranker says of the best candidates, if there is one (`Config.reranker`)."""

    def __post_init__(self) -> None:
        """Refuse what is no finite number.

        Raises:
            ConfigError: if a weight is none.
        """
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Config:
    """How a memory is written and read.

    `cell_turns`, the fan-outs and the embedder are kept by a memory from its first write; changing them
    here affects new memories only (another embedder is refused, see `EmbedderMismatchError`).
    """

    timezone: str = "UTC"
    """The zone that naive times are read in, and that local days ("yesterday") are taken in."""
    embedder: Any = "auto"
    """``"auto"`` (the best one installed), ``"minilm"``, ``"bge"``, ``"none"`` (lexical only), an
    `EmbeddingEndpoint`, an object with the `Embedder` port, or a plain function from a list of texts to rows of
    numbers."""
    cell_turns: int = 2
    """Turns per dialogue cell, the unit of extraction (b of paper §4.1). At least 1."""
    session_k: int = 3
    """Most children of a node in a session's tree. At least 3."""
    entity_k: int = 8
    """Most children of a node in an entity's tree. At least 3."""
    scene_k: int = 10
    """Most children of a node in a scene's tree. At least 3."""
    active_min_facts: int = 3
    """An entity gets a tree of its own with this many distinct facts, if they come from enough sessions."""
    active_min_sessions: int = 2
    """Sessions that those facts must come from. Participants always have a tree."""
    summary_words: int | None = None
    """Most words of a node's summary, at least 8; None is 60, and 200 where `chat` summarises (reference
    configuration)."""
    max_turn_chars: int = 100_000
    """A longer turn is refused alone, with a reason that names this setting."""
    busy_timeout_s: float = 30.0
    """How long a write waits for another process that is writing the same memory."""
    max_open_files: int = 48
    """Files that the memories of one forest keep open between calls, over all users. The memory used longest
    ago is closed first and opens again by itself; calls under way may open more. At least 3."""
    max_cache_mb: int = 512
    """Megabytes of arrays that the memories of one forest keep between queries, over all users. The one
    used longest ago is dropped first and read again by its next query. At least 0."""
    top_k: int = 10
    """Most evidence of a query that names no `top_k` of its own."""
    reranker: Any = None
    """A second look at the best candidates, with question and candidate read together: None for none,
    ``"local"`` (the weights of the extra ``[bge]``), an object with the `Reranker` port, or a plain function from a
    question and a list of texts to numbers."""
    rerank_top: int = 20
    """How many candidates the reranker reads, at least 1. It orders them; no other comes among them."""
    ranking: Ranking = field(default_factory=Ranking)
    """Weights of the query's score flow."""
    clock: Clock = system_clock
    """A function that returns the present as an aware datetime."""
    extractor: Any = None
    """An object with the `Extractor` port; None is that of `chat`, or the local one. Likewise the next three."""
    summariser: Any = None
    """An object with the `Summariser` port."""
    planner: Any = None
    """An object with the `Planner` port."""
    answerer: Any = None
    """An object with the `Answerer` port."""
    chat: Any = None
    """The model that does the model-guided steps: None for none (every step is local), a `ChatEndpoint`, or an
    object with the `ChatModel` port."""
    chat_steps: Sequence[str] = field(default_factory=step_names)
    """The steps that `chat` does; the others stay local."""
    mode: str | None = None
    """How a query looks into the recalled trees: ``"emb"``, ``"emb+planner"``, ``"llm"`` or ``"llm+planner"``;
    None is ``"llm+planner"`` with a `chat` model and ``"emb"`` without."""
    browse_calls: int = 32
    """Most calls to `chat` that one query spends on choosing where to go down in trees; what is left is browsed by
    embedding. At least 0."""
    ingest_budget: Budget = field(default_factory=Budget)
    """What one ingest may spend on models, if it names no budget of its own."""
    query_budget: Budget = field(default_factory=Budget)
    """What one query may spend on models, if it names no budget of its own."""
    trace: str | Path | None = None
    """A file that gets a line of JSON for every call to `chat`, with what was asked and answered."""
    redact: Callable[[dict[str, Any]], Mapping[str, Any] | None] | None = None
    """Sees every record before it is written to `trace`, and returns what to write of it."""

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            ConfigError: if a value is of the wrong type or out of range, or the time zone is unknown.
        """
        check_fields(self)
        for name, port in PORTS.items():
            port.check(name, getattr(self, name))
        for name, least in (
            ("cell_turns", 1),
            ("session_k", 3),
            ("entity_k", 3),
            ("scene_k", 3),
            ("top_k", 1),
            ("rerank_top", 1),
            ("active_min_facts", 1),
            ("active_min_sessions", 1),
            ("max_turn_chars", 1),
            ("max_open_files", 3),
            ("max_cache_mb", 0),
            ("browse_calls", 0),
        ):
            value = getattr(self, name)
            if value < least:
                raise ConfigError(f"{name}={brief(value)}: give a whole number of at least {least}")
        words = self.summary_words
        if words is not None and words < 8:
            raise ConfigError(f"summary_words={brief(words)}: give a whole number of at least 8, or None")
        if self.mode not in (None, *MODES):
            raise ConfigError(f"mode={self.mode!r}: give one of {', '.join(MODES)}")
        if unknown := sorted(set(self.chat_steps) - set(STEPS)):
            raise ConfigError(
                f"chat_steps: there is no step {unknown[0]!r} for a chat model; known: {', '.join(STEPS)}"
            )
        if self.busy_timeout_s < 0:
            raise ConfigError(f"busy_timeout_s={self.busy_timeout_s!r}: give seconds, 0 or more")
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
            raise ConfigError(
                f"timezone={self.timezone!r} is unknown; give an IANA name such as 'Europe/Madrid'"
            ) from exc

    @property
    def zone(self) -> ZoneInfo:
        """The time zone as an object."""
        return ZoneInfo(self.timezone)


_SECTIONS: Mapping[str, type] = {
    "chat": ChatEndpoint,
    "embeddings": EmbeddingEndpoint,
    "ranking": Ranking,
    "ingest_budget": Budget,
    "query_budget": Budget,
}
"""Sections of a settings file. ``embeddings`` is the setting `embedder`, as an endpoint."""
_OBJECTS = ("clock", "extractor", "summariser", "planner", "answerer", "redact")
_ENVIRONMENT = {
    "timezone": "MEMFOREST_TIMEZONE",
    "embedder": "MEMFOREST_EMBEDDER",
    "reranker": "MEMFOREST_RERANKER",
    "mode": "MEMFOREST_MODE",
    "trace": "MEMFOREST_TRACE",
}
_ENDPOINTS = {"chat": "MEMFOREST_CHAT", "embeddings": "MEMFOREST_EMBEDDING"}
_ENDPOINT_SETTINGS = ("model", "base_url", "api_key")


def load_default_config(
    name: str | None = None,
    *,
    file: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    **settings: Any,
) -> Config:
    """Return the configuration: arguments over environment over file over preset over defaults.

    Without any of these every step is local: no key, no network. Loading contacts nothing, and reads no file but
    the one that is named.

    Args:
        name: a preset: ``"default_30b"`` or ``"default_4b"`` (the paper's models, served on this machine); None and
            ``"default"`` are none.
        file: a TOML file; None is the one that ``MEMFOREST_CONFIG`` names, if any. See docs/configuration.md.
        environ: read instead of the process's environment.
        **settings: fields of `Config`.

    Raises:
        ConfigError: if the name or a setting is unknown, a value is of the wrong kind or out of range, or the file
            cannot be read; it names file and setting.
    """
    if unknown := sorted(set(settings) - set(Config.__dataclass_fields__)):
        raise ConfigError(
            f"there is no setting {unknown[0]!r}; known: {', '.join(Config.__dataclass_fields__)}"
        )
    env = os.environ if environ is None else environ
    sources: list[tuple[str, dict[str, Any]]] = [(f"preset {name}", preset(name or "default"))]
    path = file or env.get("MEMFOREST_CONFIG")
    if path:
        sources.append((repr(str(path)), read_file(path)))
    sources.append(("environment", _from_environment(env)))
    table: dict[str, Any] = {}
    for source, given in sources:
        check(given, Source(source, Config, _OBJECTS, _SECTIONS))
        table = _laid_over(table, given, source)
    where = " and ".join(source for source, given in sources if given) or "defaults"
    built = _built(table, set(settings), where, env)
    try:
        base = Config(**built)
    except ConfigError as exc:
        raise ConfigError(f"{where}: {exc}") from exc
    return replace(base, **settings)


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    table: dict[str, Any] = {key: env[name] for key, name in _ENVIRONMENT.items() if env.get(name)}
    for section, prefix in _ENDPOINTS.items():
        names = {key: f"{prefix}_{key.upper()}" for key in _ENDPOINT_SETTINGS}
        given = {key: env[name].strip() for key, name in names.items() if env.get(name, "").strip()}
        if given:
            table[section] = given
    return table


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
                raise ConfigError(
                    f"{prefix}_BASE_URL is set and no model is named; set {prefix}_MODEL as well"
                )
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
    return overlaid(below, above, _SECTIONS)


def _built(
    table: Mapping[str, Any], overridden: set[str], where: str, env: Mapping[str, str]
) -> dict[str, Any]:
    """Return fields of `Config` from a table; an endpoint that an argument stands for is not looked at."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        field_name = "embedder" if key == "embeddings" else key
        if field_name in overridden:
            continue
        if key in _SECTIONS:
            values[field_name] = build(_SECTIONS[key], value, key, where, env)
        else:
            may_be_none = key in ("mode", "trace", "summary_words")
            values[key] = None if value == "none" and may_be_none else value
    return values
