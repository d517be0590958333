"""`memforest stats --watch`: the counts of a memory as they change, also by other processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from memforest.cli.call import Call, reader_may_leave
from memforest.cli.screen import Screen, clean, counted, size

if TYPE_CHECKING:
    from rich.table import Table

    from memforest.forest import MemForest, UserMemory
    from memforest.memory.results import Stats


def watch(
    call: Call,
    forest: MemForest,
    memory: UserMemory,
    every_s: float,
    table_of: Callable[[Call, Stats], Table],
) -> None:
    """Show counts until Ctrl-C, which is the ordinary end and no error.

    Args:
        call: the run.
        forest: for the clock and the zone.
        memory: whose counts.
        every_s: seconds between two looks.
        table_of: draws the counts on a terminal.
    """
    screen = Screen(zone=forest.config.zone)
    try:
        if screen.console.is_terminal and not call.as_json:
            _live(call, screen, memory, every_s, table_of)
        else:
            with reader_may_leave():
                _lines(call, forest, memory, every_s)
    except KeyboardInterrupt:
        return


def _live(
    call: Call,
    screen: Screen,
    memory: UserMemory,
    every_s: float,
    table_of: Callable[[Call, Stats], Table],
) -> None:
    from rich.live import Live

    with Live(table_of(call, memory.stats()), console=screen.console, auto_refresh=False) as live:
        while True:
            time.sleep(every_s)
            live.update(table_of(call, memory.stats()), refresh=True)


def _lines(call: Call, forest: MemForest, memory: UserMemory, every_s: float) -> None:
    """Print a line at first and whenever something has changed; flushed, as a pipe would keep it back."""
    shown: Stats | None = None
    while True:
        found = memory.stats()
        if found != shown:
            now = forest.config.clock().astimezone(forest.config.zone)
            if call.as_json:
                call.envelope("ok", {"at": now, **_fields(found)}, line=True)
            else:
                click.echo(f"{now:%H:%M:%S}  {line_of(found, shown)}")
            shown = found
        time.sleep(every_s)


def _fields(found: Stats) -> dict[str, object]:
    from memforest.memory.plain import plain

    fields: dict[str, object] = plain(found)
    return fields


def line_of(found: Stats, before: Stats | None) -> str:
    """Return counts in one line, with what came or went since the last look.

    Args:
        found: the counts.
        before: the counts of the last line; None for the first.
    """
    parts = []
    for name in ("session", "turn", "fact", "node"):
        count: int = getattr(found, f"{name}s")
        grown = 0 if before is None else count - getattr(before, f"{name}s")
        parts.append(counted(count, name) + (f" ({grown:+})" if grown else ""))
    if found.dirty_nodes:
        parts.append(f"{found.dirty_nodes} out of date")
    if found.unfinished:
        parts.append(f"{found.unfinished} unread")
    if found.failed_chunks:
        parts.append(f"{found.failed_chunks} failed")
    return clean(f"{found.user_id}: {', '.join(parts)}, {size(found.bytes)}")
