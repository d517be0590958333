"""`memforest users` and `memforest sessions`: who has a memory, and what was received."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memforest.cli.call import Call, pass_call, shared_options
from memforest.cli.completing import complete_sessions
from memforest.cli.screen import Screen, clean, columns, counted
from memforest.interval import local_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memforest.memory.inspect.stored import TurnView
    from memforest.memory.results import SessionView

__all__ = ["sessions", "users"]


@click.command()
@shared_options
@pass_call
def users(call: Call) -> None:
    """List who has a memory in the directory.

    Nothing is written. Files whose user cannot be read (damaged, locked, of another program) are named on standard error.
    """
    found = call.survey()
    call.warn(f"passed over: {one.error} (`memforest doctor` checks all files)" for one in found.unreadable)

    def draw(screen: Screen) -> None:
        for user in found.users:
            screen.line(user)
        if not found.users:
            call.remark(
                screen, f"There is no memory in {call.folder} yet; `memforest ingest FILE` makes one."
            )

    call.show(found, draw)


@click.command()
@click.argument("session_id", metavar="SESSION", required=False, shell_complete=complete_sessions)
@shared_options
@pass_call
def sessions(call: Call, session_id: str | None) -> None:
    """List the sessions that were received, in time order, or show what was said in one.

    First and last day, name, number of turns, who spoke, and what is not finished (`memforest resume`). Of a SESSION, every
    turn as it was said.
    """
    with call.forest() as forest:
        if session_id is not None:
            said = call.memory(forest).turns(session_id)
            call.show(said, lambda screen: _draw_turns(screen, said), forest=forest)
            return
        found = call.memory(forest).sessions()
        call.show(found, lambda screen: _draw_sessions(screen, found), forest=forest)


def _draw_turns(screen: Screen, said: Sequence[TurnView]) -> None:
    table = columns("green", "bold", "yellow", "")
    for one in said:
        when = local_time(one.said, screen.zone).isoformat(sep=" ", timespec="minutes")[:16]
        table.add_row(when, clean(one.speaker), "damaged" if one.damaged else "", clean(one.text))
    screen.put(table)


def _draw_sessions(screen: Screen, found: Sequence[SessionView]) -> None:
    table = columns("green", "green", "bold", "", "", "yellow")
    for one in found:
        left = [] if one.status == "ingested" else ["unread"]
        left += [f"{counted(one.failed_chunks, 'chunk')} failed"] if one.failed_chunks else []
        table.add_row(
            screen.day(one.start),
            screen.day(one.end),
            clean(one.session_id),
            counted(one.turns, "turn"),
            clean(", ".join(one.participants)),
            ", ".join(left),
        )
    screen.put(table)
