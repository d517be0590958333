"""Arguments of the public verbs, checked before anything is done; those that questions share.

Checking the requests of the parallel calls, and running those of one user together.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import os
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from memforest.concurrency import all_of
from memforest.config import MODES, Config, Ranking
from memforest.endpoint import Budget
from memforest.errors import ConfigError, InputError, MemForestError
from memforest.memory.memory import Memory
from memforest.memory.open import check_embedder, check_key
from memforest.memory.pool import MemoryPool
from memforest.memory.spanned import tell_upserted, verb_span
from memforest.progress import OnProgress, Report, no_report
from memforest.read.query import Query
from memforest.read.results import IngestResult
from memforest.reading.timestamps import parse_timestamp
from memforest.search.as_of import Moment
from memforest.settings import MAX_TOP_K, QUESTION_CHARS, brief, instead, with_article
from memforest.spans import store_id
from memforest.times import floor_ms, shown, to_ms
from memforest.trees.attached import make_index
from memforest.write.rebuild import Rebuild
from memforest.write.turns import SessionInput, check_id, json_object, messages_of, read_arrival, redacted

TimeLike = datetime | date | str | int | float
"""An aware or naive datetime, a date, an ISO 8601 or written date, or UNIX seconds; see
`memforest.reading.timestamps.parse_timestamp`. Cut to the millisecond, towards the past."""


class QueryOptions(TypedDict, total=False):
    """Optional arguments of a question; see `AsyncMemForest.query`."""

    reference_date: TimeLike | None
    as_of: TimeLike | None
    during: tuple[TimeLike, TimeLike] | None
    said_by: TimeLike | None
    known_at: TimeLike | None
    filters: Mapping[str, Any] | None
    top_k: int | None
    max_tokens: int | None
    index: str
    ranking: Ranking | None
    mode: str | None
    budget: Budget | None
    explain: bool


def read_time(value: TimeLike | None, config: Config, name: str) -> datetime | None:
    """Return an aware UTC datetime, None for None.

    Raises:
        TimestampError: if the value is no time; the message names it.
    """
    return (
        None
        if value is None
        else (parse_timestamp(value, timezone=config.zone, field=name, day_first=config.day_first)[0])
    )


def read_moment(
    said_by: TimeLike | None,
    known_at: TimeLike | None,
    config: Config,
    filters: Mapping[str, Any] | None = None,
) -> Moment | None:
    """Return the moment of what had been said by a time, was held at a time and has metadata; None when nothing is given.

    Raises:
        TimestampError: if a value is no time; the message names it.
        InputError: if the filters are no mapping of texts to JSON values.
    """
    wanted = json_object(filters, "filters")
    having = json.dumps(wanted, sort_keys=True, ensure_ascii=False) if wanted else None
    said, known = read_time(said_by, config, "said_by"), read_time(known_at, config, "known_at")
    if said is None and known is None and having is None:
        return None
    return Moment(None if known is None else to_ms(known), None if said is None else to_ms(said), having)


def read_options(question: str, options: QueryOptions, config: Config) -> Query:
    """Check a question and its options.

    Raises:
        InputError: if the question is empty, or an option is unknown or out of range.
        ConfigError: if there is no such index.
    """
    if not isinstance(question, str) or not question.strip():
        raise InputError("the question is empty; give some text")
    try:
        question.encode()
    except UnicodeEncodeError:
        raise InputError("the question holds a lone surrogate; decode it as UTF-8 first") from None
    if unknown := sorted(set(options) - set(QueryOptions.__annotations__)):
        raise InputError(
            f"there is no option {unknown[0]!r}; known: {', '.join(QueryOptions.__annotations__)}"
        )
    check_flags("query", explain=options.get("explain", False))
    reference = read_time(options.get("reference_date"), config, "reference_date")
    return Query(
        question=question if len(question) <= QUESTION_CHARS else f"{question[:_END]}\n{question[-_END:]}",
        reference=reference or floor_ms(config.clock()),
        reference_given=reference is not None,
        as_of=read_time(options.get("as_of"), config, "as_of"),
        during=read_window(options.get("during"), config),
        moment=read_moment(options.get("said_by"), options.get("known_at"), config, options.get("filters")),
        top_k=read_count("top_k", options.get("top_k"), config.top_k, 1, MAX_TOP_K),
        max_tokens=read_count("max_tokens", options.get("max_tokens"), None, 1),
        index=read_index(options.get("index")),
        ranking=_given("query", "ranking", options.get("ranking"), Ranking) or config.ranking,
        rerank_top=config.rerank_top,
        rerank_tokens=config.rerank_tokens,
        mode=_mode(options.get("mode")) or config.mode,
        browse_calls=config.browse_calls,
        budget=read_budget("query", options.get("budget")) or config.query_budget,
        explain=options.get("explain", False),
        warnings=_cut_warning(len(question)),
    )


def read_index(given: Any) -> str | None:
    """Check the name of an index; None is the memory's own choice.

    Raises:
        ConfigError: if there is no such index.
        InputError: if the name is no text.
    """
    if given is None:
        return None
    if not isinstance(given, str):
        raise InputError(
            f"query(index=...) takes the name of one index, {instead('query', 'index', given, str)}"
        )
    make_index(given)
    return given


_END = QUESTION_CHARS // 2 - 1
"""Characters of each end of a question that is longer than `QUESTION_CHARS`."""


def _cut_warning(length: int) -> tuple[str, ...]:
    if length <= QUESTION_CHARS:
        return ()
    return (f"the question has {length:,} characters; the first and the last {_END:,} are read",)


def check_forest(directory: Any, config: object, max_workers: object) -> str:
    """Check the arguments of a forest, as far as that needs no I/O, and return its directory.

    Raises:
        ConfigError: if one is of the wrong type or out of range, or the configuration names
            an embedder or index that there is not, or has a key and SQLCipher is not installed.
    """
    given = os.fspath(directory) if isinstance(directory, (str, os.PathLike)) else None
    if not (isinstance(given, str) and given and "\0" not in given and _has_bytes(given)):
        raise ConfigError(f"MemForest(directory) takes a path, not {shown(directory)}")
    if config is not None and not isinstance(config, Config):
        names = ", ".join(f"{key}=..." for key in config) if isinstance(config, Mapping) else "top_k=5"
        kind = with_article(type(config).__name__)
        raise ConfigError(
            f"MemForest(config=...) takes a Config, not {kind}; write MemForest(directory, Config({names}))"
        )
    if not isinstance(max_workers, int) or isinstance(max_workers, bool) or max_workers < 1:
        raise ConfigError(f"max_workers={shown(max_workers)}: give a whole number of at least 1")
    if config is not None:
        check_embedder(config)
        check_key(config)
    return given


def _has_bytes(path: str) -> bool:
    try:
        return bool(os.fsencode(path))
    except UnicodeEncodeError:  # half of a character
        return False


def check_flags(verb: str, **flags: object) -> None:
    """Raise unless every flag is True or False: a text such as "no" counts as true in Python.

    Raises:
        InputError: if a flag is something else.
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise InputError(f"{verb}({name}=...) takes True or False, not {brief(value)}")


def check_function(verb: str, name: str, value: object) -> None:
    """Raise unless an argument is a function or None.

    Raises:
        InputError: if it is something else.
    """
    if value is not None and not callable(value):
        raise InputError(f"{verb}({name}=...) takes a function, not {brief(value)}")


class RebuildOptions(TypedDict, total=False):
    """Optional arguments of making anew what is derived; see `AsyncUserMemory.rebuild`."""

    scopes: bool
    stale: bool
    index: str | None
    embedder: bool
    progress: Report | None


def read_rebuild(
    scopes: object = False,
    stale: object = False,
    index: object = None,
    embedder: object = False,
    progress: object = None,
) -> Rebuild:
    """Return what `rebuild` is to make anew.

    Raises:
        InputError: if an argument is of the wrong type, or arguments exclude each other.
    """
    flags = {"scopes": scopes, "stale": stale, "embedder": embedder}
    check_flags("rebuild", **flags)
    check_text("rebuild", "index", index)
    if progress is not None and not callable(progress):
        raise InputError(f"rebuild: progress is a function of (what, done, total), not {brief(progress)}")
    if index is not None and any(flags.values()):
        raise InputError("rebuild(index=...) makes one index anew; leave out scopes, stale and embedder")
    if flags["embedder"] and (flags["scopes"] or flags["stale"]):
        raise InputError("rebuild(embedder=True) makes all vectors anew; leave out scopes and stale")
    given: dict[str, Any] = {**flags, "index": index}
    return Rebuild(**given, report=progress or no_report)


def check_refresh(verb: str, value: object) -> None:
    """Raise unless `refresh` is True, False or None.

    Raises:
        InputError: if it is something else.
    """
    if value is not None:
        check_flags(verb, refresh=value)


def read_budget(verb: str, value: object) -> Budget | None:
    """Return a budget, None for None.

    Raises:
        InputError: if it is something else.
    """
    found: Budget | None = _given(verb, "budget", value, Budget)
    return found


def read_count(name: str, value: object, default: int | None, least: int, most: int | None = None) -> Any:
    """Return a whole number, `default` for None.

    Raises:
        InputError: if it is no whole number, smaller than `least`, or larger than `most`.
    """
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{name}={shown(value)}: give a whole number of at least {least}")
    if most is not None and value > most:
        raise InputError(f"{name}={shown(value)}: give a whole number of at most {most:,}")
    return value


def check_text(verb: str, name: str, value: object, *, optional: bool = True) -> None:
    """Raise unless an argument is a text that UTF-8 can write, or None where it is optional.

    Raises:
        InputError: if it is something else.
    """
    if value is None and not optional:
        raise InputError(f"{verb}({name}) takes a text, not None")
    _given(verb, name, value, str)
    _writable(verb, name, str(value))


def _writable(verb: str, name: str, text: str) -> None:
    """Raise if a text holds half of a character, as one that was cut by code units does."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{verb}({name}) holds a lone surrogate; decode it as UTF-8 first") from None


def check_path(verb: str, name: str, value: object, stream: str | None = None) -> None:
    """Raise unless an argument is a path, or a stream of bytes where one will do.

    Args:
        verb: for the message.
        name: for the message.
        value: the argument.
        stream: the method that a stream has to have; None where only a path will do.

    Raises:
        InputError: if it is something else.
    """
    if isinstance(value, (str, Path)) and str(value):
        try:
            os.lstat(value)
        except (OSError, ValueError) as exc:  # ValueError: of what no path holds
            if not isinstance(exc, (FileNotFoundError, NotADirectoryError, PermissionError)):
                why = getattr(exc, "strerror", None) or exc
                raise InputError(f"{verb}({name}): {brief(value)} is no path: {why}") from None
        return
    if stream is None or not hasattr(value, stream) or isinstance(value, io.TextIOBase):
        takes = "a path" if stream is None else "a path, or a stream of bytes"
        raise InputError(f"{verb}({name}) takes {takes}, not {brief(value)}")


def check_texts(verb: str, name: str, value: object) -> None:
    """Raise unless an argument is a list of texts that are not empty.

    Raises:
        InputError: if it is something else.
    """
    texts = value if isinstance(value, (list, tuple)) else (None,)
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputError(f"{verb}({name}) takes a list of texts, none of them empty")
    _writable(verb, name, "".join(texts))


def check_mapping(verb: str, name: str, value: object) -> None:
    """Raise unless an argument is a mapping or None.

    Raises:
        InputError: if it is something else.
    """
    _given(verb, name, value, Mapping)


def _given(verb: str, name: str, value: Any, kind: Any) -> Any:
    """Return an argument of a type, or None."""
    if value is not None and not isinstance(value, kind):
        takes = {str: "a text", Mapping: "a mapping"}.get(kind) or with_article(kind.__name__)
        raise InputError(f"{verb}({name}=...) takes {takes}, {instead(verb, name, value, kind)}")
    return value


def _mode(value: Any) -> str | None:
    if value is not None and value not in MODES:
        raise InputError(f"mode={shown(value)}: give one of {', '.join(MODES)}, or None for the default")
    return value  # type: ignore[no-any-return]  # one of them


def read_window(during: Any, config: Config) -> tuple[datetime, datetime] | None:
    """Return a stretch of time, None for None.

    Raises:
        InputError: if it is no pair, or does not start before its end.
        TimestampError: if one of its times is none.
    """
    if during is None:
        return None
    if not isinstance(during, (tuple, list)) or len(during) != 2:
        raise InputError("during= takes a pair (start, end)")
    start, end = (read_time(value, config, f"during[{i}]") for i, value in enumerate(during))
    if start is None or end is None or start >= end:
        raise InputError("during= takes a start before its end")
    return start, end


T = TypeVar("T")
Results = dict[int, IngestResult | MemForestError]
"""Place of a request -> what became of it."""


class IngestOptions(TypedDict, total=False):
    """What holds for all requests of a call; see `AsyncMemForest.ingest_parallel`."""

    refresh: bool | None
    budget: Budget | None
    on_progress: OnProgress | None
    defer: bool


ARRIVAL = ("user_id", *(name for name in SessionInput.__dataclass_fields__ if name != "redacted"))


def request_problem(request: object, needed: Sequence[str], known: Sequence[str] | None) -> InputError | None:
    """Return what is wrong with the arguments of a parallel request; None when they are known ones."""
    if not isinstance(request, Mapping):
        return InputError(
            f"a request must be a mapping with {', '.join(needed)}, not {type(request).__name__}"
        )
    if missing := [name for name in needed if name not in request]:
        return InputError(f"a request lacks {missing[0]!r}; it needs {', '.join(needed)}")
    if unknown := sorted(str(key) for key in request if known is not None and key not in known):
        return InputError(
            f"a request has the unknown argument {unknown[0]!r}; known: {', '.join(sorted(known or ()))}"
        )
    try:
        check_id(request["user_id"], "user_id")
    except InputError as exc:
        return exc
    return None


def check_hook(verb: str, on_progress: object) -> None:
    """Raise unless `on_progress` is a plain function or None: nothing awaits what it returns.

    Raises:
        InputError: if it is something else.
    """
    check_function(verb, "on_progress", on_progress)
    if inspect.iscoroutinefunction(on_progress):
        raise InputError(
            f"{verb}(on_progress=...) takes a plain function, not an async one; let it begin a task"
        )


def check_deferring(verb: str, defer: object, refresh: object) -> None:
    """Raise unless `defer` is a flag, and `refresh` one or None, which does not ask for what is put off.

    Raises:
        InputError: if they are something else.
    """
    check_flags(verb, defer=defer)
    check_refresh(verb, refresh)
    if defer and refresh:
        raise InputError(
            f"{verb}: defer=True leaves the summaries to resume, so refresh=True cannot be; leave one out"
        )


async def result_or_error(job: Awaitable[T]) -> T | MemForestError:
    """Return a job's result, or its error in that place."""
    try:
        return await job
    except MemForestError as exc:
        return exc


def check_requests(verb: str, requests: object) -> None:
    """Raise unless the argument is a list of requests.

    Raises:
        InputError: if it is none.
    """
    if isinstance(requests, (str, bytes, Mapping)) or not isinstance(requests, Sequence):
        raise InputError(
            f"{verb}(requests) takes a list of mappings, not {with_article(type(requests).__name__)}"
        )


def ingest_jobs(
    requests: Sequence[Mapping[str, Any]],
    pool: MemoryPool,
    results: Results,
    options: IngestOptions,
) -> Iterator[Awaitable[None]]:
    """Return one job for each user that the requests of `ingest_parallel` name; the jobs fill in the results."""
    by_user: dict[str, dict[int, SessionInput]] = {}
    for i, request in enumerate(requests):
        problem = request_problem(request, ("user_id", "session_id", "turns"), ARRIVAL)
        try:
            if problem is not None:
                raise problem
            by_user.setdefault(request["user_id"], {})[i] = _arrival(request, pool.config)
        except MemForestError as exc:
            results[i] = exc
    for user_id, arrivals in by_user.items():
        yield _ingest(user_id, arrivals, pool, results, options)


async def _ingest(
    user_id: str,
    arrivals: Mapping[int, SessionInput],
    pool: MemoryPool,
    results: Results,
    options: IngestOptions,
) -> None:
    """Ingest the sessions of one user."""
    if not arrivals:
        return
    try:
        arrivals = {i: await redacted(one, pool.config) for i, one in arrivals.items()}
        with verb_span("ingest_parallel", "upsert_memory") as current:
            current.set("gen_ai.memory.store.id", store_id(user_id))
            found = await pool.use(
                user_id,
                lambda memory: memory.ingest(list(arrivals.values()), **options),
                first=lambda label: _require_one(arrivals, pool.config, label, results),
            )
            tell_upserted(current, found)
    except MemForestError as exc:
        for i in arrivals:
            results.setdefault(i, exc)
    else:
        results.update(zip(arrivals, found, strict=True))


def _require_one(arrivals: Mapping[int, SessionInput], config: Config, label: str, results: Results) -> None:
    """Raise when no session of a new user can be stored; each one's error is its result."""
    for i, arrival in arrivals.items():
        try:
            read_arrival(arrival, config, label)
            return
        except MemForestError as exc:
            problem = results[i] = exc
    raise problem


def _arrival(request: Mapping[str, Any], config: Config) -> SessionInput:
    """Read a request of `ingest_parallel`."""
    given = {name: value for name, value in request.items() if name != "user_id"}
    check_flags("ingest_parallel", **{name: given[name] for name in ("infer", "replace") if name in given})
    when = read_time(given.pop("timestamp", None), config, "timestamp")
    turns = messages_of(given.pop("turns"))
    return SessionInput(given.pop("session_id"), turns, when, **given)


async def run_bounded(most: int, jobs: Iterable[Awaitable[None]]) -> None:
    """Await jobs, at most so many at once; one that raises cancels the others."""
    gate = asyncio.Semaphore(most)

    async def run(job: Awaitable[None]) -> None:
        async with gate:
            await job

    await all_of(run(job) for job in jobs)


async def only_open(_memory: Memory) -> None:
    """Do nothing: for a call that only opens the memory."""
