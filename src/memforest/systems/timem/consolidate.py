"""Writing the memories that are due, in waves: what is below one, or before it, is written first.

Jobs are leased before a model is asked, so that many processes write each memory once; one that dies leaves its jobs due. A
memory that fails stays due with the reason, those above it wait, and everything else goes on.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from memforest.interval import LATEST, to_ms
from memforest.ports import is_remote
from memforest.refresh.consolidate import OVER_BUDGET, WAITS
from memforest.store import job_failures, jobs, meta
from memforest.store.jobs import Job
from memforest.store.tx import Tx
from memforest.systems.host import Host
from memforest.systems.timem import edit_rows, rows
from memforest.systems.timem.history import WRITER, history_of, reopened
from memforest.systems.timem.levels import SEGMENT, unwritten
from memforest.systems.timem.requests import requests_of
from memforest.systems.timem.rows import Row
from memforest.systems.timem.schedule import OWNER, key_of_row, schedule, targets
from memforest.systems.timem.settings import TiMemSettings
from memforest.systems.timem.zone import memory_zone

__all__ = ["any_due", "consolidate", "horizon"]

WAVE = 128
"""Memories that are written together at most: a tenth of a second's writing, and what a crash may cost of replies."""
LOOKED_AT = 2_048
"""Jobs that are looked at for a wave."""
LEASE_MS = 1_800_000
"""How long a wave may take before others take its jobs for abandoned."""


@dataclass(slots=True)
class _Run:
    """What one call of `consolidate` holds: its leases, and the jobs that it will not try again."""

    holder: str
    first: bool
    """Whether only what was never tried is written: what has failed waits for somebody to ask."""
    held: dict[str, Job] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)


async def horizon(host: Host) -> int | None:
    """Return the instant up to which windows are taken for ended, ms: behind a write by what was said, else by the clock."""
    if host.occasion == "force":
        return to_ms(LATEST)
    if host.occasion != "write" or not is_remote(host.steps.summariser):
        return to_ms(host.now)
    return await host.look(rows.newest_session)


def any_due(tx: Tx, until_ms: int) -> bool:
    """Return whether a memory is due by an instant that has not failed before."""
    return any(not one.tries for one in jobs.due(tx, OWNER, now_ms=until_ms, limit=LOOKED_AT))


async def consolidate(host: Host, settings: TiMemSettings, until_ms: int) -> None:
    """Write the memories that are due by an instant, the oldest first.

    Raises:
        ModelRefusedError, BudgetError: if nothing more can be written.
        StoreError: if the memory cannot be written.
    """
    writer = "model" if is_remote(host.steps.summariser) else "rules"
    if await host.look(partial(meta.get, key=WRITER)) != writer:
        await host.write(partial(meta.put, key=WRITER, value=writer))
    asked_for = host.occasion in ("advance", "force")
    if asked_for and await host.look(lambda tx: bool(job_failures.failures(tx, OWNER))):
        await host.write(partial(job_failures.hurry, owner=OWNER, now_ms=until_ms))
    run = _Run(f"{os.getpid()}-{secrets.token_hex(8)}", first=not asked_for)
    try:
        while (found := await _next(host, settings, run, until_ms)) is not None:
            wave = [node for nodes in found for node in nodes][:WAVE]
            asked = partial(requests_of, settings=settings, nodes=wave)
            failed = await host.consolidate(asked) if wave else {}
            await host.write(
                partial(
                    _settle, settings=settings, run=run, nodes=wave, failed=failed, now_ms=to_ms(host.now)
                )
            )
    finally:
        if run.held:
            await host.write(partial(_give_back, run=run))


async def _next(host: Host, settings: TiMemSettings, run: _Run, until_ms: int) -> list[list[int]] | None:
    """Lease the jobs of the next wave, and return the nodes of each that can be written now; None when no job is left."""
    while True:
        found = await host.look(partial(_ready, settings=settings, run=run, until_ms=until_ms))
        new = [key for key in found if key not in run.held]
        if new:
            await host.write(partial(_lease, run=run, keys=new, now_ms=to_ms(host.now)))
        mine = [nodes for key, nodes in found.items() if key in run.held]
        if mine or not new:
            return mine or None


def _lease(tx: Tx, run: _Run, keys: Sequence[str], now_ms: int) -> None:
    """Lease jobs; those that somebody else has are not tried again in this run."""
    taken = jobs.lease(tx, OWNER, keys, run.holder, now_ms=now_ms, lease_ms=LEASE_MS, force=True)
    run.held |= {job.key: job for job in taken}
    run.tried |= set(keys) - run.held.keys()


def _ready(tx: Tx, settings: TiMemSettings, run: _Run, until_ms: int) -> dict[str, list[int]]:
    """Return the nodes that can be written now, by their jobs, in the order in which these are due.

    What waits for a history that cannot be made is written without it when nothing else is left, here or elsewhere.
    """
    found_due = jobs.due(tx, OWNER, now_ms=until_ms, limit=LOOKED_AT)
    due = [one.key for one in found_due if one.key not in run.tried and not (run.first and one.tries)]
    others = rows.leased(tx, OWNER) - run.held.keys()
    keys = [*run.held, *(key for key in due if key not in run.held)]
    found = _first(tx, settings, keys, {*keys, *(others - run.tried)})
    return found or ({} if others else _first(tx, settings, keys, ()))


def _first(
    tx: Tx, settings: TiMemSettings, keys: Sequence[str], waiting: Collection[str]
) -> dict[str, list[int]]:
    """Return the nodes of the first jobs that can be written, a wave of them."""
    found: dict[str, list[int]] = {}
    size = 0
    for key in keys:
        nodes = _writable(tx, settings, targets(tx, key), waiting)
        if nodes is None:
            continue
        found[key] = nodes
        size += max(1, len(nodes))
        if size >= WAVE:
            break
    return found


def _writable(
    tx: Tx, settings: TiMemSettings, found: Sequence[Row], waiting: Collection[str]
) -> list[int] | None:
    """Return those nodes of a job that can be written now; nothing of one that is done, None of one that has to wait."""
    dirty = rows.dirty_among(tx, [row.node for row in found])
    left = [row for row in found if row.node in dirty]
    if not left:
        return []
    if left[0].level != SEGMENT:
        return None if _waits(tx, settings, left[0], waiting) else [left[0].node]
    if settings.history_of == "memories":  # each is written after the one before it
        left = left[:1]
    return [row.node for row in left]


def _waits(tx: Tx, settings: TiMemSettings, row: Row, waiting: Collection[str]) -> bool:
    """Return whether something below a node, or that is to be its history and will be written in this run, is out of date."""
    below = [one.node for one in rows.below(tx, row.node)]
    if rows.dirty_among(tx, below):
        return True
    before = rows.by_node(tx, history_of(tx, settings, row))
    return any(key_of_row(before[node]) in waiting for node in rows.dirty_among(tx, before))


def _settle(
    tx: Tx, settings: TiMemSettings, run: _Run, nodes: Sequence[int], failed: Mapping[int, str], now_ms: int
) -> None:
    """Finish the jobs of which nothing is out of date any more, and note why others failed."""
    written = set(nodes)
    again: list[set[int]] = []
    for key, job in list(run.held.items()):
        found = targets(tx, key)
        left = rows.dirty_among(tx, [row.node for row in found])
        reasons = [failed[node] for node in sorted(left & written) if node in failed]
        if reasons and not {OVER_BUDGET, WAITS}.issuperset(reasons):
            jobs.fail(tx, job, next(one for one in reasons if one not in (OVER_BUDGET, WAITS)), now_ms=now_ms)
        elif reasons:  # it is not the job's fault
            jobs.give_back(tx, job, reasons[0])
        elif not left:
            jobs.finish(tx, job)
            if job.tries > 1:
                again.append({row.node for row in found})
        elif left & written:  # changed meanwhile; it is due again
            jobs.give_back(tx, job, "")
        else:
            continue
        del run.held[key]
        if reasons or left:
            run.tried.add(key)
    _tell_those_behind(tx, settings, again)
    edit_rows.clean_unwritten(tx, unwritten(settings.levels))


def _tell_those_behind(tx: Tx, settings: TiMemSettings, made: Sequence[set[int]]) -> None:
    """Have written again what was written without a memory of its history that could not be made then."""
    behind = {one for nodes in made for one in reopened(tx, settings, nodes) - nodes}
    clean = behind - rows.dirty_among(tx, behind)
    edit_rows.set_dirty(tx, clean)
    schedule(tx, settings, memory_zone(tx), clean)


def _give_back(tx: Tx, run: _Run) -> None:
    for job in run.held.values():
        jobs.give_back(tx, job, "interrupted")
