"""Ingesting the sessions of files, memory by memory, with counts of the outcomes.

Every session is durable when `Loaded` counts it, so an interruption loses nothing that was reported. Summaries
that a model makes behind the sessions are waited for at the end; others are made when they are read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memforest.cli.formats import FileMemory, FileSession, read_chat
from memforest.endpoint import Budget
from memforest.errors import InputError, MemForestError, SessionConflictError
from memforest.forest import MemForest
from memforest.forest.options import read_time
from memforest.memory.chunks import MOST_REFUSED, RefusedStatement
from memforest.memory.ingest.turns import Arrival, read_arrival
from memforest.memory.results import FlushResult, IngestResult, Stats, Usage

__all__ = ["IngestOptions", "Loaded", "Plan", "load", "name_user", "plan_memories", "read_file"]

DEFAULT_USER = "me"
TURNS_TOGETHER = 1024
"""Turns of the sessions that go to a model together: enough for hundreds of requests in flight, few enough that
progress shows and an interruption costs little."""

OnSession = Callable[[FileSession], None]
"""Called after each session."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How sessions are ingested; see `AsyncMemForest.ingest_session`."""

    timestamp: str | None = None
    infer: bool = True
    replace: bool = False
    budget: Budget = field(default_factory=Budget)
    """What all sessions together may spend on models."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What will go into one user's memory: pairs of file name and session."""

    user: str
    sessions: tuple[tuple[str, FileSession], ...]

    @property
    def turns(self) -> int:
        """How many turns all sessions have."""
        return sum(len(session.turns) for _, session in self.sessions)


@dataclass(slots=True)
class Loaded:
    """What became of one user's sessions so far."""

    user: str
    sessions_new: int = 0
    sessions_unchanged: int = 0
    sessions_failed: int = 0
    turns_added: int = 0
    facts_added: int = 0
    facts_merged: int = 0
    facts_superseded: int = 0
    turns_refused: int = 0
    """Turns that were not stored; `warnings` say why."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Pieces of turns that became no fact, by reason."""
    refused: list[RefusedStatement] = field(default_factory=list)
    """The first statements of a model that were not kept."""
    failed_chunks: int = 0
    failure: str | None = None
    """Why the first of them failed."""
    nodes_dirty: int = 0
    """Nodes whose summary is out of date; they are made when they are read."""
    left_chunks: int = 0
    """Chunks that the budget did not reach."""
    model_calls: int = 0
    model_tokens: int = 0
    """Prompt and completion tokens."""
    model_failures: int = 0
    seconds: float = 0.0
    embedded: Counter[str] = field(default_factory=Counter)
    """Texts the model ran, by kind."""
    embedder: str | None = None
    bytes: int = 0
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def count(self, result: IngestResult) -> None:
        """Add one session's result."""
        if result.unchanged and not result.chunks:
            self.sessions_unchanged += 1
        else:
            self.sessions_new += 1
        self.turns_added += result.turns_added
        self.turns_refused += len(result.refused)
        self.facts_added += len(result.added)
        self.facts_merged += len(result.merged)
        self.facts_superseded += len(result.superseded)
        self.skipped.update(reason for _, reason in result.skipped)
        self.refused += result.refused_statements[: MOST_REFUSED - len(self.refused)]
        self.failed_chunks += len(result.failed)
        if self.failure is None and result.failed:
            self.failure = result.failed[0].failure
        self.nodes_dirty = result.nodes_dirty
        self.left_chunks += len(result.left)
        self._spend(result.usage)
        self.warnings += [text for text in result.warnings if text not in self.warnings]

    def add(self, made: FlushResult) -> None:
        """Add the summaries that were made behind the sessions."""
        self.nodes_dirty = made.nodes_dirty
        self._spend(made.usage)
        self.warnings += [text for text in made.warnings if text not in self.warnings]

    def _spend(self, usage: Usage) -> None:
        self.model_calls += usage.model_calls
        self.model_tokens += usage.prompt_tokens + usage.completion_tokens
        self.model_failures += usage.failures
        self.embedded.update(usage.embeds)

    def close(self, stats: Stats, seconds: float) -> None:
        """Note the state at the end."""
        self.seconds = round(seconds, 2)
        self.embedder = stats.embedder
        self.bytes = stats.bytes


def read_file(path: Path, *, session_id: str | None = None, stdin: Callable[[], bytes]) -> list[FileMemory]:
    """Return what a chat file holds; ``-`` is standard input.

    Args:
        path: the file.
        session_id: names the file's session, which must be the only one.
        stdin: returns what standard input holds.

    Raises:
        InputError: if the file cannot be read, or not as a chat, or has more than one session to name.
    """
    from_stdin = str(path) == "-"
    name = "standard input" if from_stdin else path.name
    try:
        data = stdin() if from_stdin else path.read_bytes()
    except IsADirectoryError:
        raise InputError(f"{name} is a directory; name the files in it") from None
    except OSError as exc:
        raise InputError(f"cannot read {str(path)!r}: {exc.strerror or exc}") from exc
    found = read_chat(data, name=name, session_id=session_id or (None if from_stdin else path.stem))
    if session_id is None:
        return found
    if len(found) > 1 or len(found[0].sessions) > 1:
        raise InputError(f"{name} holds several sessions, which --session cannot name; leave it out")
    return [replace(found[0], sessions=(replace(found[0].sessions[0], session_id=session_id),))]


def plan_memories(
    found: Sequence[FileMemory], *, user: str | None, fallback: str | None = None
) -> list[Plan]:
    """Put the sessions of several files together, per user.

    Args:
        found: what the files hold.
        user: whose memory, whatever the files say.
        fallback: whose memory, where the files say nothing.

    Raises:
        InputError: if `user` would mix several memories, or two files have the same session.
    """
    named = {memory.user for memory in found if memory.user is not None}
    if user is not None and len(named) > 1:
        raise InputError(
            f"the files hold the memories of {len(named)} users; leave --user out and each gets its own"
        )
    by_user: dict[str, dict[str, tuple[str, FileSession]]] = {}
    for memory in found:
        sessions = by_user.setdefault(user or memory.user or fallback or DEFAULT_USER, {})
        for session in memory.sessions:
            have = sessions.setdefault(session.session_id, (memory.source, session))
            if have[1] is not session:
                raise InputError(
                    f"{have[0]} and {memory.source} both have the session {session.session_id!r}; "
                    "ingest them one by one with --session, or rename one"
                )
    return [Plan(one, tuple(sessions.values())) for one, sessions in by_user.items()]


def name_user(forest: MemForest, plan: Plan, options: IngestOptions, name: str) -> None:
    """Give a plan's user a display name; a new one of whose sessions none can be stored stays unknown.

    Raises:
        MemForestError: if the memory cannot be opened or written.
    """
    if forest.has_user(plan.user) or any(
        _is_readable(forest, one, options, name) for _, one in plan.sessions
    ):
        forest.register_user(plan.user, display_name=name)


def _is_readable(forest: MemForest, session: FileSession, options: IngestOptions, name: str) -> bool:
    when = options.timestamp if session.timestamp is None else session.timestamp
    try:
        timestamp = read_time(when, forest.config, "timestamp")
        arrival = Arrival(session.session_id, session.turns, timestamp, metadata=session.metadata)
        return bool(read_arrival(arrival, forest.config, name))
    except InputError:
        return False


def load(
    forest: MemForest, plan: Plan, options: IngestOptions, loaded: Loaded, on_session: OnSession
) -> None:
    """Ingest a plan's sessions in order. What a model makes behind them is waited for, as the process may end then.

    A session that is malformed or in conflict is noted in `loaded.errors` and the rest goes on.

    Args:
        forest: where to.
        plan: whose sessions.
        options: how.
        loaded: is counted up as sessions become durable; what it holds is right after an interruption too.
        on_session: called after each session.

    Raises:
        MemForestError: if the memory cannot be opened or written; `loaded` says how far it came.
    """
    started = time.perf_counter()
    batches = _batches(plan, together=forest.config.chat is not None)
    for batch in batches:
        results = forest.ingest_parallel(
            [_request(plan, session, options) for _, session in batch],
            budget=options.budget.less(loaded.model_calls, loaded.model_tokens),
        )
        for (source, session), result in zip(batch, results, strict=True):
            if isinstance(result, (InputError, SessionConflictError)):
                loaded.sessions_failed += 1
                loaded.errors.append(_place(source, session, result))
            elif isinstance(result, MemForestError):
                raise result
            else:
                loaded.count(result)
            on_session(session)
    if not forest.has_user(plan.user):
        return
    if forest.config.chat is not None and forest.config.refresh in (None, "behind"):
        loaded.add(
            forest.flush(plan.user, budget=options.budget.less(loaded.model_calls, loaded.model_tokens))
        )
    loaded.close(forest.user(plan.user).stats(), time.perf_counter() - started)


def _batches(plan: Plan, *, together: bool) -> list[list[tuple[str, FileSession]]]:
    """Return what is ingested in one call: session by session, or as much as a model may well read at once."""
    batches: list[list[tuple[str, FileSession]]] = []
    turns = TURNS_TOGETHER
    for one in plan.sessions:
        turns += len(one[1].turns)
        if not together or turns > TURNS_TOGETHER:
            batches.append([])
            turns = len(one[1].turns)
        batches[-1].append(one)
    return batches


def _request(plan: Plan, session: FileSession, options: IngestOptions) -> dict[str, Any]:
    """Return a request of `ingest_parallel`."""
    return {
        "user_id": plan.user,
        "session_id": session.session_id,
        "turns": list(session.turns),
        "timestamp": options.timestamp if session.timestamp is None else session.timestamp,
        "infer": options.infer,
        "replace": options.replace,
        "metadata": session.metadata,
    }


def _place(source: str, session: FileSession, exc: MemForestError) -> str:
    """Say where in the files an error belongs."""
    where = f" ({session.where})" if session.where else ""
    text = str(exc).replace("pass replace=True to overwrite it", "give --replace to overwrite it")
    text = text.replace("or the session one with timestamp=", "or give --timestamp")
    return f"{source}, session {session.session_id!r}{where}: {text}"
