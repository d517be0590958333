"""Writing the memories that are due, in waves or side by side: what is below one, or before it, is written first.

A memory is written from the texts below it, those before it, and the level's own instruction, and is known by the digest
of all of that, so that a changed child, history, prompt or model makes it stale, and nothing else does. Jobs are leased
before a model is asked, so that many processes write each memory once; one that dies leaves its jobs due. A memory that
fails stays due with the reason, those above it wait, and everything else goes on.

Source: TiMem (arXiv 2601.02845) eq. 1 to 3.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import partial
from types import MappingProxyType

from memforest.errors import StoreLockedError, StoreWriteError
from memforest.nodes import Node
from memforest.ports import is_remote
from memforest.reading.periods import window_with_key
from memforest.reading.timestamps import dated_text
from memforest.reading.tokens import count_words
from memforest.records import SummaryRequest
from memforest.search.filters import memory_zone
from memforest.store import derived, jobs, meta, trees
from memforest.store.connections import Tx
from memforest.store.indexes import Items
from memforest.store.jobs import Job
from memforest.store.trees import told_lines
from memforest.times import LATEST, from_ms, to_ms
from memforest.trees import timem_grow, timem_rows
from memforest.trees.annotate import OVER_BUDGET, WAITS
from memforest.trees.index import Host, Placed, Placing, is_behind
from memforest.trees.refresh import NodeWork
from memforest.trees.timem_compose import profile_lines, profile_statements, statements_of
from memforest.trees.timem_grow import WRITER, SaidLine, by_rules, edit, history_of, receive, reopened
from memforest.trees.timem_rows import (
    JOB_OWNER,
    LEVELS,
    MONTH,
    SEGMENT,
    SESSION,
    UNITS,
    TiMemNode,
    TiMemSettings,
    key_of_row,
    schedule,
    targets,
    unwritten_levels,
)

PROMPTS: Mapping[int, str] = MappingProxyType(
    {SEGMENT: "segment", SESSION: "session", 2: "day", 3: "week", MONTH: "profile", 5: "profile"}
)
"""Level -> the prompt of its memories; a year's is a profile as a month's is."""

LEAST_WORDS = 40
"""Words that a memory may have however little is below it."""
SUMMARY_PART = 0.5
"""Part of the words below it that a memory may have, if that is more."""


def requests_of(tx: Tx, settings: TiMemSettings, nodes: Collection[int]) -> list[NodeWork]:
    """Return how to write the memories of nodes; nodes of levels without memories are left out.

    Args:
        tx: a transaction.
        settings: of the index.
        nodes: ids; those that are not there are passed over.
    """
    found = [row for row in timem_rows.by_node(tx, nodes).values() if LEVELS[row.level] in settings.levels]
    if not found:
        return []
    zone = memory_zone(tx)
    stored = trees.nodes_with_ids(tx, [row.node for row in found])
    told = _told(tx, settings, found, zone)
    return [_work(tx, settings, row, stored[row.node], told, zone) for row in found if row.node in stored]


@dataclass(frozen=True, slots=True)
class _SegmentTexts:
    """The turns of segments as a prompt may show them, and without a model the facts that they support."""

    speakers: Mapping[int, Sequence[str]]
    lines: Mapping[int, Sequence[str]]
    statements: Mapping[int, Sequence[str]]
    by_rules: bool


def _told(tx: Tx, settings: TiMemSettings, found: Sequence[TiMemNode], zone: tzinfo) -> _SegmentTexts:
    """Return the material that segments, and the memories behind them, are written from."""
    rules, segments = by_rules(tx), [row for row in found if row.level == SEGMENT]
    if not segments:
        return _SegmentTexts({}, {}, {}, rules)
    earlier = {one for row in segments for one in history_of(tx, settings, row)}
    turns = timem_grow.turns_below(tx, earlier.union(row.node for row in segments))
    said = {turn.row: turn for told in turns.values() for turn in told}
    own = {turn.row for row in segments for turn in turns[row.node]}
    lines = told_lines(tx, {row: turn.line for row, turn in said.items()})
    statements = statements_of(tx, own) if rules else {}

    def dated(told: Mapping[int, Sequence[str]], turns: Sequence[SaidLine]) -> tuple[str, ...]:
        whole = ((turn, text) for turn in turns for text in told.get(turn.row, ()))
        if settings.dates == "kept":
            return tuple(dict.fromkeys(text for _, text in whole))
        return tuple(dict.fromkeys(dated_text(text, from_ms(turn.said_ms), zone) for turn, text in whole))

    return _SegmentTexts(
        {row.node: tuple(dict.fromkeys(turn.speaker for turn in turns[row.node])) for row in segments},
        {node: dated(lines, told) for node, told in turns.items()},
        {row.node: dated(statements, turns[row.node]) for row in segments},
        rules,
    )


def _work(
    tx: Tx, settings: TiMemSettings, row: TiMemNode, node: Node, told: _SegmentTexts, zone: tzinfo
) -> NodeWork:
    start, end = _window(row, node, zone)
    participants = tuple(
        told.speakers.get(row.node) or timem_grow.speakers(tx, timem_rows.sessions_below(tx, row.node))
    )
    inputs = tuple(told.lines.get(row.node, ())) if row.level == SEGMENT else _texts(tx, node.children)
    earlier = history_of(tx, settings, row)
    if row.level == SEGMENT and settings.history_of == "children":
        history: tuple[str, ...] = tuple("\n".join(told.lines.get(one, ())) for one in earlier)
    else:
        history = _texts(tx, earlier)
    statements: tuple[str, ...] = tuple(told.statements.get(row.node, ()))
    prompt = PROMPTS[row.level]
    alone = settings.pass_through and len(node.children) == 1
    if prompt == "profile" and told.by_rules:
        statements, alone = _profile(tx, row, start, end, participants, zone), False
    most = int(settings.words[settings.levels.index(LEVELS[row.level])]) * (
        max(1, len(participants)) if prompt == "profile" else 1
    )
    request = SummaryRequest(
        kind=LEVELS[row.level],
        label=", ".join(participants),
        start=start,
        end=end,
        inputs=inputs,
        max_words=min(most, max(LEAST_WORDS, round(SUMMARY_PART * sum(map(count_words, inputs))))),
        level=row.level + 1,
        history=tuple(text for text in history if text),
        window=row.window or "",
        participants=participants,
        summarise="kept" if settings.pass_through else "every",
        prompt=prompt,
        statements=statements,
    )
    return NodeWork(row.node, request, kept=alone, words=True)


def _window(row: TiMemNode, node: Node, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the time that a memory is of: its window, of a segment or session from its first turn to its last."""
    if row.window is None:
        return from_ms(node.start_ms), from_ms(node.end_ms)
    window = window_with_key(row.window, UNITS[row.level], zone)
    return window.start, window.end


def _texts(tx: Tx, nodes: Sequence[int]) -> tuple[str, ...]:
    """Return the summaries of nodes, in order; nodes without one are left out."""
    found = derived.summaries(tx, nodes)
    return tuple(found[node] for node in nodes if found.get(node))


def _profile(
    tx: Tx, row: TiMemNode, start: datetime, end: datetime, participants: Sequence[str], zone: tzinfo
) -> tuple[str, ...]:
    """Return the profile lines of participants in a window."""
    turns = timem_grow.turns_of_sessions(tx, timem_rows.sessions_below(tx, row.node))
    return profile_statements(profile_lines(tx, to_ms(start), to_ms(end), participants, zone, turns=turns))


WAVE = 128
"""Memories that are written together at most: a tenth of a second's writing, and what a crash may cost of replies."""
PART = 16
"""Memories of a part that a model writes; the next one begins as soon as one has ended."""
LOOKED_AT = 2_048
"""Jobs that are looked at for a wave."""
LEASE_MS = 1_800_000
"""How long a wave may take before others take its jobs for abandoned."""


@dataclass(slots=True)
class _ConsolidateRun:
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
    if asked_for and await host.look(lambda tx: bool(jobs.failures(tx, JOB_OWNER))):
        await host.write(partial(jobs.hurry, owner=JOB_OWNER, now_ms=until_ms))
    run = _ConsolidateRun(f"{os.getpid()}-{secrets.token_hex(8)}", first=not asked_for)
    try:
        await _write_all(host, settings, run, until_ms)
    finally:
        if run.held:
            await host.write(partial(_give_back, run=run))


async def _write_all(host: Host, settings: TiMemSettings, run: _ConsolidateRun, until_ms: int) -> None:
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
    host: Host, settings: TiMemSettings, run: _ConsolidateRun, until_ms: int, room: int
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


def _lease(tx: Tx, run: _ConsolidateRun, keys: Sequence[str], now_ms: int) -> None:
    """Lease jobs; those that somebody else has are not tried again in this run."""
    taken = jobs.lease(tx, JOB_OWNER, keys, run.holder, now_ms=now_ms, lease_ms=LEASE_MS, force=True)
    run.held |= {job.key: job for job in taken}
    run.tried |= set(keys) - run.held.keys()


def _ready(
    tx: Tx, settings: TiMemSettings, run: _ConsolidateRun, until_ms: int, room: int
) -> dict[str, list[int]]:
    """Return the nodes that can be written now, by their jobs, in the order in which these are due.

    What waits for a history that cannot be made is written without it when nothing else is left, here or elsewhere.
    """
    found_due = jobs.due(tx, JOB_OWNER, now_ms=until_ms, limit=LOOKED_AT)
    due = [one.key for one in found_due if one.key not in run.tried and not (run.first and one.tries)]
    others = timem_rows.leased(tx, JOB_OWNER) - run.held.keys()
    keys = [*run.held, *(key for key in due if key not in run.held)]
    found = _first(tx, settings, run, keys, {*keys, *(others - run.tried)}, room)
    return found if found or run.busy or others else _first(tx, settings, run, keys, (), room)


def _first(
    tx: Tx,
    settings: TiMemSettings,
    run: _ConsolidateRun,
    keys: Sequence[str],
    waiting: Collection[str],
    room: int,
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
    tx: Tx,
    settings: TiMemSettings,
    found: Sequence[TiMemNode],
    waiting: Collection[str],
    busy: Collection[int],
) -> list[int] | None:
    """Return those nodes of a job that can be written now; nothing of one that is done, None of one that has to wait.

    What is in `busy`, under way or not to be tried again, is passed over.
    """
    dirty = timem_rows.dirty_among(tx, [row.node for row in found])
    left = [row for row in found if row.node in dirty]
    if not left:
        return []
    if left[0].level != SEGMENT:
        waits = left[0].node in busy or _waits(tx, settings, left[0], waiting)
        return None if waits else [left[0].node]
    if settings.history_of == "memories":  # each is written after the one before it
        left = left[:1]
    return [row.node for row in left if row.node not in busy] or None


def _waits(tx: Tx, settings: TiMemSettings, row: TiMemNode, waiting: Collection[str]) -> bool:
    """Return whether a child of a node, or a memory of its history that this run will write, is out of date."""
    below = [one.node for one in timem_rows.below(tx, row.node)]
    if timem_rows.dirty_among(tx, below):
        return True
    before = timem_rows.by_node(tx, history_of(tx, settings, row))
    return any(key_of_row(before[node]) in waiting for node in timem_rows.dirty_among(tx, before))


def _settle(
    tx: Tx,
    settings: TiMemSettings,
    run: _ConsolidateRun,
    nodes: Sequence[int],
    failed: Mapping[int, str],
    now_ms: int,
) -> None:
    """Finish jobs whose nodes are all up to date, and store why others failed."""
    run.failed |= dict.fromkeys(timem_rows.dirty_among(tx, nodes), "") | dict(failed)
    one_by_one = settings.history_of == "memories"
    again: list[set[int]] = []
    for key, job in list(run.held.items()):
        found = [row.node for row in targets(tx, key)]
        left = timem_rows.dirty_among(tx, found)
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
    timem_rows.clean_unwritten(tx, unwritten_levels(settings.levels))


def _tell_those_behind(tx: Tx, settings: TiMemSettings, made: Sequence[set[int]]) -> None:
    """Reschedule memories that were written without one of their history that could not be made then."""
    behind = {one for nodes in made for one in reopened(tx, settings, nodes) - nodes}
    clean = behind - timem_rows.dirty_among(tx, behind)
    trees.mark_out_of_date(tx, clean)
    schedule(tx, settings, memory_zone(tx), clean)


def _give_back(tx: Tx, run: _ConsolidateRun) -> None:
    for job in run.held.values():
        jobs.give_back(tx, job, "interrupted")


async def advance(host: Host, settings: TiMemSettings, until: int) -> None:
    """Place the notes of the feed up to a number, and write the memories that are due.

    Behind a write without a model nothing is written: that is done before it is read. With a model the segments are written
    then, and what ended before the newest session began.

    Raises:
        ConfigError: if the zone of the memory is not known here.
        ModelError: if nothing can be written.
    """
    behind = await host.look(partial(is_behind, name=JOB_OWNER, until=until))
    while behind and await host.write(partial(receive, settings=settings, until=until)):
        pass
    if host.occasion == "write" and not is_remote(host.steps.summariser):
        return
    if host.occasion == "force":
        until_ms: int | None = to_ms(LATEST)
    elif host.occasion == "write":  # windows have ended by what was said, and not by the clock
        until_ms = await host.look(timem_rows.newest_session)
    else:
        until_ms = to_ms(host.now)
    if until_ms is not None:
        await consolidate(host, settings, until_ms)


async def write_ended(host: Host, settings: TiMemSettings) -> list[str]:
    """Write the memories of windows that have ended by the clock, before they are read; return why some could not be written."""
    until_ms = to_ms(host.now)

    def is_due(tx: Tx) -> bool:
        found = jobs.due(tx, JOB_OWNER, now_ms=until_ms, limit=LOOKED_AT)
        return any(not one.tries for one in found)  # what has failed waits for somebody to ask

    if not await host.look(is_due):
        return []
    try:
        await consolidate(host, settings, until_ms)
    except (StoreWriteError, StoreLockedError) as exc:
        return [f"memories are left as they are: {exc}"]
    return []


class TiMemPlacing(Placing):
    """Takes segments out of the tree in a transaction that changes turns; see `memforest.trees.index.Placing`.

    Nothing is placed here: the index is deferred.
    """

    def __init__(self, tx: Tx, settings: TiMemSettings) -> None:
        self._tx, self._settings = tx, settings
        self._left: dict[int, set[int]] = {}
        self._told: set[int] = set()

    def leave(self, items: Items) -> None:
        """Drop the summaries that turns or facts went into, and those written after one of them."""
        size = 2 * self._settings.segment
        turns: Collection[int] = items.get("turn", ())
        facts = items.get("fact", ())
        if facts and by_rules(self._tx):  # a model is not shown facts
            turns = {*turns, *timem_grow.supporting(self._tx, facts)}
        groups, _ = timem_grow.groups_of(self._tx, turns, size)
        if not groups:
            return
        found = {row.node for row in timem_rows.holding(self._tx, turns, size)}
        told = reopened(self._tx, self._settings, found, gone=True)
        told |= set(timem_rows.dirty_texts(self._tx))  # they may be of what stood elsewhere then
        derived.drop_summaries(self._tx, sorted(told))
        self._told |= told
        for session, parts in groups.items():
            self._left.setdefault(session, set()).update(parts)

    def close(self) -> Placed:
        """Cut segments anew whose turns have gone, and schedule what was dropped."""
        if not self._left:
            return Placed()
        return edit(self._tx, self._settings, self._left, self._told)
