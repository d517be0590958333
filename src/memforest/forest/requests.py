"""Checking the requests of the parallel calls, and running those of one user together."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

from memforest.concurrency import all_of
from memforest.config import Config
from memforest.endpoint import Budget
from memforest.errors import InputError, MemForestError
from memforest.forest.options import check_flags, check_function, check_refresh, read_time
from memforest.forest.pool import MemoryPool
from memforest.forest.spanned import tell_upserted, verb_span
from memforest.memory.ingest.fields import messages_of
from memforest.memory.ingest.redact import redacted
from memforest.memory.ingest.turns import Arrival, check_id, read_arrival
from memforest.memory.memory import Memory
from memforest.memory.progress import OnProgress
from memforest.memory.results import IngestResult
from memforest.settings import with_article
from memforest.spans import store_id

T = TypeVar("T")
Results = dict[int, IngestResult | MemForestError]
"""Place of a request -> what became of it."""


class IngestOptions(TypedDict, total=False):
    """What holds for all requests of a call; see `AsyncMemForest.ingest_parallel`."""

    refresh: bool | None
    budget: Budget | None
    on_progress: OnProgress | None
    defer: bool


ARRIVAL = ("user_id", *(name for name in Arrival.__dataclass_fields__ if name != "redacted"))


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
    by_user: dict[str, dict[int, Arrival]] = {}
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
    arrivals: Mapping[int, Arrival],
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


def _require_one(arrivals: Mapping[int, Arrival], config: Config, label: str, results: Results) -> None:
    """Raise when no session of a new user can be stored; each one's error is its result."""
    for i, arrival in arrivals.items():
        try:
            read_arrival(arrival, config, label)
            return
        except MemForestError as exc:
            problem = results[i] = exc
    raise problem


def _arrival(request: Mapping[str, Any], config: Config) -> Arrival:
    """Read a request of `ingest_parallel`."""
    given = {name: value for name, value in request.items() if name != "user_id"}
    check_flags("ingest_parallel", **{name: given[name] for name in ("infer", "replace") if name in given})
    when = read_time(given.pop("timestamp", None), config, "timestamp")
    turns = messages_of(given.pop("turns"))
    return Arrival(given.pop("session_id"), turns, when, **given)


async def run_bounded(most: int, jobs: Iterable[Awaitable[None]]) -> None:
    """Await jobs, at most so many at once; one that raises cancels the others."""
    gate = asyncio.Semaphore(most)

    async def run(job: Awaitable[None]) -> None:
        async with gate:
            await job

    await all_of(run(job) for job in jobs)


async def only_open(_memory: Memory) -> None:
    """Do nothing: for a call that only opens the memory."""
