"""`memforest users` and `memforest sessions`: who has a memory, and what was received."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memforest.cli.call import Call, pass_call, shared_options
from memforest.cli.screen import Screen, clean, columns, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

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
@shared_options
@pass_call
def sessions(call: Call) -> None:
    """List the sessions that were received, in time order.

    First and last day, name, number of turns, who spoke, and what is not finished (`memforest resume`).
    """
    with call.forest() as forest:
        found = call.memory(forest).sessions()
        call.show(found, lambda screen: _draw_sessions(screen, found), forest=forest)


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
