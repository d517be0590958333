"""`memforest users` and `memforest sessions`: who has a memory, and what was received."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memforest.cli.call import Call, pass_call, shared_options
from memforest.cli.screen import Screen, clean, columns, counted
from memforest.interval import local_time
from memforest.limits import MAX_PAGE
from memforest.memory.directory import Survey

if TYPE_CHECKING:
    from memforest.memory.results import SessionPage, TurnPage, UserPage

PAGE = 50
"""Most on a page where only a cursor is given."""


_LIMIT = click.option(
    "--limit",
    type=click.IntRange(1, MAX_PAGE),
    help="Most on one page; all when neither this nor --cursor is given.",
)
_CURSOR = click.option(
    "--cursor", metavar="CURSOR", help="The page that follows, as the page before has named it."
)


@click.command()
@_LIMIT
@_CURSOR
@shared_options
@pass_call
def users(call: Call, limit: int | None, cursor: str | None) -> None:
    """List who has a memory in the directory, all or a page in the order of the names of their files.

    Nothing is written. Files whose user cannot be read (damaged, locked, of another program) are named on standard error.
    """
    found: Survey | UserPage
    if limit is None and cursor is None:
        found = call.survey()
    else:
        with call.forest() as forest:
            found = forest.users(limit=limit or PAGE, cursor=cursor)
    call.warn(f"passed over: {one.error} (`memforest doctor` checks all files)" for one in found.unreadable)

    def draw(screen: Screen) -> None:
        for user in found.users:
            screen.line(user)
        if not found.users:
            call.remark(
                screen, f"There is no memory in {call.folder} yet; `memforest ingest FILE` makes one."
            )
        if not isinstance(found, Survey):
            remark_cursor(call, screen, found.next_cursor)

    call.show(found, draw)


@click.command()
@click.argument("session_id", metavar="SESSION", required=False)
@_LIMIT
@_CURSOR
@shared_options
@pass_call
def sessions(call: Call, session_id: str | None, limit: int | None, cursor: str | None) -> None:
    """List the sessions that were received, in time order, or show what was said in one.

    First and last day, name, number of turns, who spoke, and what is not finished (`memforest resume`). Of a SESSION, every
    turn as it was said.
    """
    paged = limit is not None or cursor is not None
    limit = (limit or PAGE) if paged else None
    with call.forest() as forest:
        memory = call.memory(forest)
        if session_id is not None:
            said = memory.turns(session_id, limit=limit, cursor=cursor)
            call.show(
                said if paged else list(said), lambda screen: _draw_turns(call, screen, said), forest=forest
            )
            return
        found = memory.sessions(limit=limit, cursor=cursor)
        call.show(
            found if paged else list(found), lambda screen: _draw_sessions(call, screen, found), forest=forest
        )


def remark_cursor(call: Call, screen: Screen, cursor: str | None) -> None:
    """Say how the page that follows is seen; nothing on the last one."""
    if cursor is not None:
        call.remark(screen, f"the next page: --cursor {cursor}")


def _draw_turns(call: Call, screen: Screen, said: TurnPage) -> None:
    table = columns("green", "bold", "yellow", "")
    for one in said:
        when = local_time(one.said, screen.zone).isoformat(sep=" ", timespec="minutes")[:16]
        table.add_row(when, clean(one.speaker), "damaged" if one.damaged else "", clean(one.text))
    screen.put(table)
    remark_cursor(call, screen, said.next_cursor)


def _draw_sessions(call: Call, screen: Screen, found: SessionPage) -> None:
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
    remark_cursor(call, screen, found.next_cursor)
