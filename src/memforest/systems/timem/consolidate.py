"""Writing the memories that are due, in waves or side by side: what is below one, or before it, is written first.

Jobs are leased before a model is asked, so that many processes write each memory once; one that dies leaves its jobs due. A
memory that fails stays due with the reason, those above it wait, and everything else goes on.
"""

from __future__ import annotations

import asyncio
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
from memforest.systems.zone import memory_zone

WAVE = 128
"""Memories that are written together at most: a tenth of a second's writing, and what a crash may cost of replies."""
PART = 16
"""Memories of a part that a model writes; the next one begins as soon as one has ended."""
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
    busy: set[int] = field(default_factory=set)
    """Nodes that are being written."""
    failed: dict[int, str] = field(default_factory=dict)
    """Nodes that are not tried again, with the reason; "" of one that has changed meanwhile."""


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
        await _write_all(host, settings, run, until_ms)
    finally:
        if run.held:
            await host.write(partial(_give_back, run=run))


async def _write_all(host: Host, settings: TiMemSettings, run: _Run, until_ms: int) -> None:
    """Write what is due, part by part: those of a model side by side, so that none waits for the slowest of others."""
    size = PART if is_remote(host.steps.summariser) else WAVE
    under_way: dict[asyncio.Task[Mapping[int, str]], list[int]] = {}
    try:
        while True:
            run.busy = {node for part in under_way.values() for node in part}
            room = WAVE - len(run.busy) if size < WAVE or not under_way else 0
            found = await _next(host, settings, run, until_ms, room) if room else None
            if found is None and not under_way:
                return
            wave = [node for nodes in found or () for node in nodes][:room]
            for at in range(0, len(wave), size):
                part = wave[at : at + size]
                asked = partial(requests_of, settings=settings, nodes=part)
                under_way[asyncio.ensure_future(host.consolidate(asked))] = part
            ended: Collection[asyncio.Task[Mapping[int, str]]] = ()
            if wave or found is None:
                ended, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            nodes = [node for task in ended for node in under_way[task]]
            failed = {node: why for task in ended for node, why in task.result().items()}
            for task in ended:
                del under_way[task]
            now_ms = to_ms(host.now)
            await host.write(
                partial(_settle, settings=settings, run=run, nodes=nodes, failed=failed, now_ms=now_ms)
            )
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _next(
    host: Host, settings: TiMemSettings, run: _Run, until_ms: int, room: int
) -> list[list[int]] | None:
    """Lease the jobs of the next wave, and return the nodes of each that can be written now; None when no job is left."""
    while True:
        found = await host.look(partial(_ready, settings=settings, run=run, until_ms=until_ms, room=room))
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


def _ready(tx: Tx, settings: TiMemSettings, run: _Run, until_ms: int, room: int) -> dict[str, list[int]]:
    """Return the nodes that can be written now, by their jobs, in the order in which these are due.

    What waits for a history that cannot be made is written without it when nothing else is left, here or elsewhere.
    """
    found_due = jobs.due(tx, OWNER, now_ms=until_ms, limit=LOOKED_AT)
    due = [one.key for one in found_due if one.key not in run.tried and not (run.first and one.tries)]
    others = rows.leased(tx, OWNER) - run.held.keys()
    keys = [*run.held, *(key for key in due if key not in run.held)]
    found = _first(tx, settings, run, keys, {*keys, *(others - run.tried)}, room)
    return found if found or run.busy or others else _first(tx, settings, run, keys, (), room)


def _first(
    tx: Tx, settings: TiMemSettings, run: _Run, keys: Sequence[str], waiting: Collection[str], room: int
) -> dict[str, list[int]]:
    """Return the nodes of the first jobs that can be written, as many as there is room for."""
    found: dict[str, list[int]] = {}
    size = 0
    busy = run.busy | run.failed.keys()
    for key in keys:
        nodes = _writable(tx, settings, targets(tx, key), waiting, busy)
        if nodes is None:
            continue
        found[key] = nodes
        size += max(1, len(nodes))
        if size >= room:
            break
    return found


def _writable(
    tx: Tx, settings: TiMemSettings, found: Sequence[Row], waiting: Collection[str], busy: Collection[int]
) -> list[int] | None:
    """Return those nodes of a job that can be written now; nothing of one that is done, None of one that has to wait.

    What is in `busy`, under way or not to be tried again, is passed over.
    """
    dirty = rows.dirty_among(tx, [row.node for row in found])
    left = [row for row in found if row.node in dirty]
    if not left:
        return []
    if left[0].level != SEGMENT:
        waits = left[0].node in busy or _waits(tx, settings, left[0], waiting)
        return None if waits else [left[0].node]
    if settings.history_of == "memories":  # each is written after the one before it
        left = left[:1]
    return [row.node for row in left if row.node not in busy] or None


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
    run.failed |= dict.fromkeys(rows.dirty_among(tx, nodes), "") | dict(failed)
    one_by_one = settings.history_of == "memories"
    again: list[set[int]] = []
    for key, job in list(run.held.items()):
        found = [row.node for row in targets(tx, key)]
        left = rows.dirty_among(tx, found)
        tried = sorted(left & run.failed.keys())
        reasons = [run.failed[node] for node in tried if run.failed[node]]
        told = [reason for reason in reasons if reason not in (OVER_BUDGET, WAITS)]
        if not left:
            jobs.finish(tx, job)
            if job.tries > 1:
                again.append(set(found))
        elif not tried or (len(tried) < len(left) and not one_by_one):
            continue
        elif told:
            jobs.fail(tx, job, told[0], now_ms=now_ms)
        else:  # it is not the job's fault, or it has changed meanwhile and is due again
            jobs.give_back(tx, job, reasons[0] if reasons else "")
        del run.held[key]
        if left:
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
